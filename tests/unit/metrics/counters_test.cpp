#include "metrics/counters.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace atoll::metrics {
namespace {

TEST(Counters, AreCopiedIntoStats) {
  Counters counters;
  counters.hits.set(3);
  counters.read_misses.add(2);
  counters.read_misses.add();
  counters.lock_misses.add(4);
  counters.sent_by_kind[1].add(5);
  counters.cache_lines.set(64);
  const Stats stats = counters.snapshot();
  EXPECT_EQ(stats.hits, 3u);
  EXPECT_EQ(stats.read_misses, 3u);
  EXPECT_EQ(stats.misses(), 7u);
  EXPECT_EQ(stats.sent_by_kind[1], 5u);
  EXPECT_EQ(stats.cache_lines, 64u);
}

TEST(Counters, EveryFieldOfStatsIsCopiedAndPrinted) {
  // All counters set to distinct values; Stats is plain numbers, so none may stay zero.
  Counters counters;
  auto* values = reinterpret_cast<Counter*>(&counters);
  constexpr std::size_t kNumber = sizeof(Counters) / sizeof(Counter);
  for (std::size_t i = 0; i < kNumber; ++i) values[i].set(1000 + i);
  const Stats stats = counters.snapshot();
  static_assert(sizeof(Stats) == kNumber * sizeof(std::uint64_t), "Stats and Counters have the same fields");
  const auto* copied = reinterpret_cast<const std::uint64_t*>(&stats);
  for (std::size_t i = 0; i < kNumber; ++i) EXPECT_EQ(copied[i], 1000 + i) << "field " << i;
  const std::string text = stats.to_string();
  for (const char* field : {"hits", "lock_waits", "evictions_dirty", "bytes_sent", "cache_lines_used"}) {
    EXPECT_THAT(text, testing::HasSubstr(field));
  }
}

}  // namespace
}  // namespace atoll::metrics
