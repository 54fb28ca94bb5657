// Which of many frames should go next: 2Q (Johnson and Shasha, 1994).
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>

#include "atoll/detail/namespace.hpp"

namespace atoll::storage {

/// Replacement over numbered frames. What comes for the first time stands in a FIFO of a quarter of all; when it has
/// gone from there its number is remembered for a while, as a ghost. What comes back while it is remembered, or is used
/// again in the LRU, has shown that it is worth keeping. So one pass over everything goes through the FIFO and leaves
/// the LRU as it was. It costs nothing on a hit: who uses it tells it now and then what was touched. Thread-safety:
/// none; the caller serialises all calls. Invariants:
///   1. An id is in at most one of FIFO, LRU and ghosts; in the first two it is resident.
///   2. Ghosts are at most half the capacity.
///   3. Nothing allocates after the constructor; memory of ids that are never used is never touched.
class TwoQueue {
 public:
  static constexpr std::uint64_t kNone = ~std::uint64_t(0);

  /// Ids are 0 .. frames-1, fewer than 2^32 - 1. The capacity is `frames` before it is set.
  explicit TwoQueue(std::uint64_t frames);

  /// How many may be resident: the sizes of the FIFO (a quarter) and of the ghosts (a half) follow it. More may be
  /// resident for a while; it is the caller who lets them go.
  void set_capacity(std::uint64_t resident);
  /// Became resident: into the FIFO, or into the LRU at once when its ghost is remembered. REQUIRES: not resident.
  void admit(std::uint64_t id);
  /// Was used again: to the front of the LRU if it is there; nothing in the FIFO, for uses in short succession say
  /// little; nothing if it is not resident.
  void touch(std::uint64_t id);
  /// Is not resident any more; remembered as a ghost if it was in the FIFO and `remember`. REQUIRES: resident.
  void remove(std::uint64_t id, bool remember);
  /// Is neither resident nor remembered any more.
  void forget(std::uint64_t id);
  [[nodiscard]] bool is_resident(std::uint64_t id) const;
  [[nodiscard]] std::uint64_t resident() const { return fifo_.size + lru_.size; }

  /// The first for which `may_go(id)` is true, in the order in which they should go: the FIFO's oldest while it has
  /// more than its share, then the LRU's, then the rest of the FIFO. At most `limit` are asked; kNone if none may.
  /// REQUIRES: may_go() changes nothing here.
  template <typename F>
  [[nodiscard]] std::uint64_t choose(F&& may_go, std::uint32_t limit) const;

 private:
  using Link = std::uint32_t;  // id + 1; 0: none
  enum class Place : std::uint8_t { kNowhere, kFifo, kLru, kGhost };
  /// Zeros: nowhere.
  struct Node {
    Link newer;
    Link older;
    Place place;
  };
  struct List {
    Link newest = 0;
    Link oldest = 0;
    std::uint64_t size = 0;
  };
  struct Free {
    void operator()(Node* nodes) const noexcept { std::free(nodes); }
  };

  [[nodiscard]] Node& node(Link link) const { return nodes_[link - 1]; }
  [[nodiscard]] List& list(Place place);
  [[nodiscard]] Link checked(std::uint64_t id) const;
  void push(Link link, Place place);
  void take(Link link);
  void trim_ghosts();
  /// Asks from the oldest of `list` on; stops after `count`, or when `limit` is used up.
  template <typename F>
  [[nodiscard]] Link ask(Link& from, std::uint64_t count, F& may_go, std::uint32_t& limit) const;

  const std::uint64_t frames_;
  std::unique_ptr<Node[], Free> nodes_;  // of calloc
  std::uint64_t most_fifo_ = 0;
  std::uint64_t most_ghosts_ = 0;
  List fifo_;
  List lru_;
  List ghosts_;
};

template <typename F>
TwoQueue::Link TwoQueue::ask(Link& from, std::uint64_t count, F& may_go, std::uint32_t& limit) const {
  for (; from != 0 && count > 0 && limit > 0; --count, --limit) {
    const Link link = from;
    from = node(link).newer;
    if (may_go(std::uint64_t(link - 1))) return link;
  }
  return 0;
}

template <typename F>
std::uint64_t TwoQueue::choose(F&& may_go, std::uint32_t limit) const {
  Link fifo = fifo_.oldest;
  Link lru = lru_.oldest;
  Link found = fifo_.size > most_fifo_ ? ask(fifo, fifo_.size - most_fifo_, may_go, limit) : 0;
  if (found == 0) found = ask(lru, lru_.size, may_go, limit);
  if (found == 0) found = ask(fifo, fifo_.size, may_go, limit);
  return found == 0 ? kNone : found - 1;
}

}  // namespace atoll::storage
