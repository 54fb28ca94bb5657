// The slots of a node's cache: who is in which, which are free, and whom to evict.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "atoll/address.hpp"
#include "base/random.hpp"

namespace atoll::memory {

inline constexpr std::uint32_t kNoSlot = UINT32_MAX;

/// A slot has room for a line of the heap. A line that is 2^n times as large takes a run of 2^n slots, whose first is a
/// multiple of that number (n is the run's order). Free slots are kept as runs as large as they can be: two neighbours
/// that together make a run of the next order are joined when the second becomes free, and divided when one is needed.
///
/// Thread-safety: none; the caller holds the engine lock.
/// Invariants:
///   1. A slot belongs to exactly one run, which is free or holds one line, whose address `occupant` of its first slot
///      gives.
///   2. No two free runs could be joined to one of the next order, up to kMaxOrder.
class CacheSlots {
 public:
  static constexpr unsigned kMaxOrder = 10;

  explicit CacheSlots(std::uint32_t slots);

  [[nodiscard]] std::uint32_t size() const noexcept { return std::uint32_t(slots_.size()); }
  [[nodiscard]] std::uint32_t free_count() const noexcept { return free_count_; }
  [[nodiscard]] std::uint32_t used() const noexcept { return size() - free_count(); }
  /// Is there a free run of this order?
  [[nodiscard]] bool has_run(unsigned order) const noexcept { return orders_with_runs_ >> order != 0; }
  /// The first slot of a free run for the line, or kNoSlot. REQUIRES: order <= kMaxOrder.
  [[nodiscard]] std::uint32_t take(GlobalAddress line, unsigned order = 0);
  /// REQUIRES: a line's first slot, and the order that it was taken with.
  void release(std::uint32_t slot, unsigned order = 0);
  /// The line that begins in the slot; null when none does.
  [[nodiscard]] GlobalAddress occupant(std::uint32_t slot) const noexcept { return slots_[slot].occupant; }
  /// The first slot of the line that covers this one, or kNoSlot when it is free.
  [[nodiscard]] std::uint32_t first_of(std::uint32_t slot) const noexcept;
  /// Where a search for something to evict goes on: a random place, so that a scan larger than the cache does not
  /// always throw out what it will need next.
  [[nodiscard]] std::uint32_t random_slot() noexcept { return std::uint32_t(random_.below(size())); }

 private:
  static constexpr std::uint8_t kNone = 0xff;
  /// One record, so that a miss touches one place of memory for a slot.
  struct Slot {
    GlobalAddress occupant;        // the line that begins here
    std::uint32_t next = kNoSlot;  // in the list of free runs, of one that begins here
    std::uint32_t previous = kNoSlot;
    std::uint8_t free = kNone;  // order of the free run that begins here
    std::uint8_t order = 0;     // of the line
  };

  void add_run(std::uint32_t slot, unsigned order) noexcept;
  void remove_run(std::uint32_t slot) noexcept;

  std::array<std::uint32_t, kMaxOrder + 1> heads_;  // of each order's list of free runs
  std::uint32_t orders_with_runs_ = 0;              // a bit for each order whose list is not empty
  std::uint32_t free_count_ = 0;
  std::vector<Slot> slots_;
  base::Random random_;
};

}  // namespace atoll::memory
