// A transaction of the FaRM-like engine, without the types of keys and rows.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/host.hpp"
#include "base/random.hpp"
#include "bench/tpcc/db.hpp"
#include "bench/tpcc/farm_store.hpp"

namespace atoll::bench::tpcc {

/// What a thread's transactions need, used again by each: which buckets were seen, with their versions, and what is to
/// be written.
///
/// The protocol is that of FaRM (NSDI'14, SOSP'15) without its log and replicas, as Atoll's engine is measured without
/// a log too: reads are one-sided and take no lock; at the end (1) all buckets to be written are locked if they have
/// the version that was seen, by one message to each remote home and its answer; (2) the versions of all others that
/// were seen are looked at again, by one-sided reads; (3) what is written goes to the homes, by messages that nobody
/// answers, and unlocks. (FaRM lets the home look when they are more than a few; here a load is always the quicker.)
/// FaRM waits for the network card at the other end in (3); here a message that was handed over is there.
///
/// Thread-safety: one thread's own; but for `counts`.
/// Invariants:
///   1. It is serialized at the moment when all locks are held: what it saw is there then.
///   2. It waits for nobody's lock for long, and never while it has one.
class FarmWork {
 public:
  FarmWork(FarmStore& store, unsigned thread)
      : store_(store), peers_(store.peers()), thread_(thread), random_(thread + 1), index_(kFirstIndex) {}

  void begin() noexcept;
  /// What becomes of a transaction whose function gave this. With `is_refused` it must be run again.
  [[nodiscard]] Status end(const Status& function) noexcept;
  [[nodiscard]] bool is_refused() const noexcept { return refused_; }
  /// Before it is run again. An error: it would be in vain.
  [[nodiscard]] Status back_off(unsigned attempt) noexcept;

  static constexpr Status kConflict{Errc::kRefused, "another transaction is in the way"};
  static constexpr std::uint32_t kNone = UINT32_MAX;

  struct Write {
    std::uint32_t next = kNone;  // of the same bucket
    FarmPut what = FarmPut::kNothing;
    std::uint8_t slot = 0;
    std::uint16_t table = 0;
    FarmBucket* found = nullptr;  // had the key, before; null: none did
    std::size_t data = 0;         // the key, and the row behind it

    [[nodiscard]] bool is_there() const noexcept { return what == FarmPut::kUpdate || what == FarmPut::kInsert; }
  };
  // An access to a place is `find_write`, then `look`, then `add_write`, as far as it needs them.

  /// The write of this key so far, or null.
  template <typename Key>
  [[nodiscard]] Write* find_write(const FarmPlace& place, const Key& key) noexcept {
    current_ = find_seen(place.bucket);
    if (current_ == kNone) return nullptr;
    for (std::uint32_t i = seen_[current_].first_write; i != kNone; i = writes_[i].next) {
      if (writes_[i].slot == place.slot && std::memcmp(&data_[writes_[i].data], &key, sizeof(Key)) == 0) {
        return &writes_[i];
      }
    }
    return nullptr;
  }
  [[nodiscard]] std::byte* row_of(const Write& write, const FarmShape& shape) noexcept {
    return &data_[write.data + FarmShape::round_up(shape.key_bytes, 8u)];
  }
  /// Adds a write; `found` is the bucket that has the key, if any has.
  Write& add_write(const FarmPlace& place, const FarmShape& shape, const void* key, FarmBucket* found) noexcept;

  /// `look()` sees the bucket's chain as it was at one moment, and as this transaction saw it before.
  template <typename Look>
  [[nodiscard]] Status look(const FarmPlace& place, Look&& look) noexcept {
    const std::atomic<std::uint64_t>& word = place.bucket->word;
    poll();  // who wants something of this node has not to wait until a transaction is over
    for (unsigned tries = 0; tries < kTries; ++tries) {
      const std::uint64_t before = word.load(std::memory_order_acquire);
      if ((before & FarmBucket::kLocked) == 0) {
        look();
        std::atomic_thread_fence(std::memory_order_acquire);
        if (word.load(std::memory_order_relaxed) == before) [[likely]]
          return note(place, before);
      }
      wait_a_little();
    }
    return meet(locks_met_);
  }
  void poll() noexcept { (void)peers_.poll(thread_); }

  /// So far. Any thread may ask.
  [[nodiscard]] Counts counts() const noexcept;

 private:
  static constexpr std::size_t kFirstIndex = 256;
  static constexpr unsigned kTries = 32;  // looks at a locked bucket

  struct Seen {
    FarmBucket* bucket = nullptr;
    std::uint64_t version = 0;
    std::uint32_t first_write = kNone;
    std::uint16_t home = 0;
    std::uint16_t table = 0;
    bool is_locked = false;
  };
  /// What is to be done at a home other than this node.
  struct Home {
    NodeId node = 0;
    std::size_t next = 0;   // of written_, to be locked
    std::size_t asked = 0;  // up to here its locks are asked for
  };
  struct IndexSlot {
    std::uint32_t stamp = 0;  // of the transaction that it is of
    std::uint32_t seen = 0;
  };

  [[nodiscard]] std::uint32_t find_seen(const FarmBucket* bucket) const noexcept;
  [[nodiscard]] Status note(const FarmPlace& place, std::uint64_t version) noexcept;
  void index(std::uint32_t seen) noexcept;
  void grow_index() noexcept;
  void wait_a_little() noexcept;
  Status meet(std::atomic<std::uint64_t>& counter) noexcept;
  static void count(std::atomic<std::uint64_t>& counter) noexcept {
    counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  [[nodiscard]] bool validate() noexcept;
  [[nodiscard]] Status commit() noexcept;
  void add_lock_items(const Seen& seen);
  [[nodiscard]] Status lock_local() noexcept;
  [[nodiscard]] Status lock_all() noexcept;
  [[nodiscard]] Status ask_for_locks(Home& home) noexcept;
  [[nodiscard]] Status take_answer(Home& home) noexcept;
  [[nodiscard]] Status status_of(FarmAnswer answer) noexcept;
  [[nodiscard]] Status put_all() noexcept;
  [[nodiscard]] Status put_at(const Home& home) noexcept;
  void put_local() noexcept;
  void unlock_all() noexcept;
  [[nodiscard]] std::uint32_t put_bytes(const Seen& seen) const noexcept;
  std::byte* compose_puts(const Seen& seen, std::byte* at) noexcept;
  [[nodiscard]] FarmPutItem put_item(const Seen& seen, const Write& write) const noexcept;
  [[nodiscard]] std::uint64_t offset_of(const Seen& seen, const FarmBucket* bucket) const noexcept;

  FarmStore& store_;
  Peers& peers_;
  const unsigned thread_;
  base::Random random_;
  bool refused_ = false;
  std::uint32_t current_ = kNone;  // of seen_: the place that the access is to
  std::vector<Seen> seen_;
  std::vector<Write> writes_;
  std::vector<std::uint32_t> written_;  // of seen_
  std::vector<Home> homes_;             // of written_, without this node
  std::vector<FarmLockItem> items_;
  std::vector<IndexSlot> index_;  // by the hash of a bucket; of a power of two, and at most half full
  std::uint32_t stamp_ = 0;
  std::unique_ptr<std::byte[]> data_;
  std::size_t data_used_ = 0, data_room_ = 0;
  std::atomic<std::uint64_t> commits_{0}, aborts_{0}, locks_met_{0}, changes_met_{0};
};

inline std::uint32_t FarmWork::find_seen(const FarmBucket* bucket) const noexcept {
  const std::size_t mask = index_.size() - 1;
  std::size_t at = (reinterpret_cast<std::uintptr_t>(bucket) / kFarmLine * 0x9e3779b97f4a7c15) >> 32 & mask;
  for (; index_[at].stamp == stamp_; at = (at + 1) & mask) {
    if (seen_[index_[at].seen].bucket == bucket) return index_[at].seen;
  }
  return kNone;
}

}  // namespace atoll::bench::tpcc
