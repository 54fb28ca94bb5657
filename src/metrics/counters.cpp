#include "metrics/counters.hpp"

#include <fmt/format.h>

#include <iterator>

namespace atoll {

namespace metrics {

// X(field): every scalar field of Stats and Counters. (clang-format finds no form of it that it leaves alone.)
// clang-format off
#define ATOLL_COUNTERS(X)                                                                                     \
  X(hits) X(reads_in_place) X(read_misses) X(write_misses) X(atomic_misses)                                   \
  X(lock_misses) X(lock_waits) X(lock_refusals)                                                               \
  X(evictions_clean) X(evictions_dirty) X(invalidations) X(barriers_issued) X(read_ahead_lines) X(merges)     \
  X(checkpoints) X(log_waits) X(file_reads) X(file_writes) X(file_evictions) X(file_copies)                   \
  X(messages_sent) X(messages_received) X(lines_sent) X(bytes_sent) X(wakeups_sent) X(sleeps)                 \
  X(allocations) X(frees) X(memory_bytes) X(memory_free_bytes) X(cache_lines) X(cache_lines_used)
// clang-format on

Stats Counters::snapshot() const noexcept {
  Stats stats;
#define ATOLL_X(field) stats.field = field.get();
  ATOLL_COUNTERS(ATOLL_X)
#undef ATOLL_X
  for (std::size_t k = 0; k < sent_by_kind.size(); ++k) stats.sent_by_kind[k] = sent_by_kind[k].get();
  return stats;
}

}  // namespace metrics

std::string Stats::to_string() const {
  std::string text;
  const auto out = std::back_inserter(text);
#define ATOLL_X(field) fmt::format_to(out, "{:<20} {}\n", #field, field);
  ATOLL_COUNTERS(ATOLL_X)
#undef ATOLL_X
  for (std::size_t k = 0; k < sent_by_kind.size(); ++k) {
    if (sent_by_kind[k] == 0) continue;
    fmt::format_to(out, "sent {:<15} {}\n", message_kind_name(std::uint8_t(k)), sent_by_kind[k]);
  }
  return text;
}

}  // namespace atoll
