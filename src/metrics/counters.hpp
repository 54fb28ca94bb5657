// A node's counters, in its segment, where the master reads them without waking anybody.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "atoll/stats.hpp"

namespace atoll::metrics {

/// A counter that is bumped under the engine lock or by one thread only, and read by anyone.
class Counter {
 public:
  void add(std::uint64_t n = 1) noexcept {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  void set(std::uint64_t n) noexcept { value_.store(n, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t get() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

/// One field per field of atoll::Stats, under the same name. Lives in shared memory: no pointers.
///
/// Thread-safety: written under the node's engine lock, read by any process.
struct Counters {
  Counter hits, reads_in_place, read_misses, write_misses, atomic_misses, lock_misses, lock_waits, lock_refusals;
  Counter evictions_clean, evictions_dirty, invalidations, barriers_issued, read_ahead_lines, merges, checkpoints,
      log_waits;
  Counter file_reads, file_writes, file_evictions, file_copies;
  Counter messages_sent, messages_received, lines_sent, bytes_sent, wakeups_sent, sleeps, allocations, frees;
  std::array<Counter, 48> sent_by_kind;
  Counter memory_bytes, memory_free_bytes, cache_lines, cache_lines_used;

  [[nodiscard]] Stats snapshot() const noexcept;
};

}  // namespace atoll::metrics
