// Counters of one node, as a plain copy.
#pragma once

#include "atoll/detail/namespace.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace atoll {

/// Every counter of a node, in the order of `Stats::names()`.
struct Stats {
  std::uint64_t hits = 0;  // accesses that found their line here; those of up to 8 bytes by a sample, see docs/api.md
  std::uint64_t reads_in_place = 0;  // reads of lines that were not here, at their home, without a message
  std::uint64_t read_misses = 0;     // reads that waited for a message
  std::uint64_t write_misses = 0;    // writes that needed a permission
  std::uint64_t atomic_misses = 0;
  std::uint64_t lock_misses = 0;    // locks that were not cached here
  std::uint64_t lock_waits = 0;     // locks that had to wait for another holder
  std::uint64_t lock_refusals = 0;  // try-locks refused
  std::uint64_t evictions_clean = 0;
  std::uint64_t evictions_dirty = 0;
  std::uint64_t invalidations = 0;    // copies taken from this node because another node writes
  std::uint64_t barriers_issued = 0;  // membarrier calls
  std::uint64_t read_ahead_lines = 0;
  std::uint64_t merges = 0;          // lines of operands that were combined with lines of this node
  std::uint64_t checkpoints = 0;     // that were completed
  std::uint64_t log_waits = 0;       // writes that waited because the log was full
  std::uint64_t file_reads = 0;      // pages of this node's files that were read,
  std::uint64_t file_writes = 0;     // that were written,
  std::uint64_t file_evictions = 0;  // that went from memory,
  std::uint64_t file_copies = 0;     // and that came back from another node's memory, not from the disk
  std::uint64_t messages_sent = 0;
  std::uint64_t messages_received = 0;
  std::uint64_t lines_sent = 0;  // lines of data written to other nodes
  std::uint64_t bytes_sent = 0;
  std::uint64_t wakeups_sent = 0;  // system calls to wake a sleeping peer
  std::uint64_t sleeps = 0;        // times the service thread went to sleep
  std::uint64_t allocations = 0;
  std::uint64_t frees = 0;
  std::array<std::uint64_t, 48> sent_by_kind{};  // wire::Kind; see message_kind_name

  std::uint64_t memory_bytes = 0;  // gauges
  std::uint64_t memory_free_bytes = 0;
  std::uint64_t cache_lines = 0;
  std::uint64_t cache_lines_used = 0;

  [[nodiscard]] std::uint64_t misses() const noexcept {
    return read_misses + write_misses + atomic_misses + lock_misses;
  }
  /// A readable table, one counter a line.
  [[nodiscard]] std::string to_string() const;
};

/// The name of a message kind that `Stats::sent_by_kind` counts, or "" beyond the last.
[[nodiscard]] std::string_view message_kind_name(std::uint8_t kind) noexcept;

}  // namespace atoll
