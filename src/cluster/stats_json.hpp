// A node's counters as JSON, for reports, `atoll status` and whoever reads it.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "atoll/stats.hpp"

namespace atoll {

// All scalar fields, in both directions; the counts by message kind are added by `counters_to_json`.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Stats, hits, reads_in_place, read_misses, write_misses, atomic_misses, lock_misses,
                                   lock_waits, lock_refusals, evictions_clean, evictions_dirty, invalidations,
                                   barriers_issued, read_ahead_lines, merges, checkpoints, log_waits, file_reads,
                                   file_writes, file_evictions, file_copies, messages_sent, messages_received,
                                   lines_sent, bytes_sent, wakeups_sent, sleeps, allocations, frees, memory_bytes,
                                   memory_free_bytes, cache_lines, cache_lines_used)

static_assert(sizeof(Stats) == (32 + 48) * sizeof(std::uint64_t), "a counter was added: add it to the list above");

namespace cluster {

/// Every counter by its name, and under "sent_by_kind" those of the message kinds by theirs.
[[nodiscard]] nlohmann::json counters_to_json(const Stats& stats);
/// Takes nothing on trust: none when a counter is missing or not a whole number.
[[nodiscard]] std::optional<Stats> counters_from_json(const nlohmann::json& json);

}  // namespace cluster
}  // namespace atoll
