// Which lines are expected next.
#include "runtime/strides.hpp"

#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "base/random.hpp"
#include "runtime/runtime.hpp"
#include "support/local_cluster.hpp"

namespace atoll::runtime {
namespace {

constexpr std::uint32_t kMost = 64;

/// Reads one line after the other; what is wished for is asked for at once. Says whether every line from the fifth on
/// was asked for before it was read, and none that is not read.
void expect_foreseen(std::uint64_t from, std::int64_t stride) {
  Strides strides;
  std::set<std::uint64_t> asked;
  std::uint64_t line = from;
  for (int i = 0; i < 200; ++i, line += std::uint64_t(stride)) {
    EXPECT_TRUE(i <= 4 || asked.contains(line)) << "line " << line << " of stride " << stride;
    asked.erase(line);
    strides.note(line, line);
    const Strides::Wish wish = strides.wish(kMost);
    for (std::uint32_t k = 0; k < wish.count; ++k) {
      EXPECT_TRUE(asked.insert(wish.first + std::uint64_t(wish.stride) * k).second) << "asked for twice";
    }
    if (wish.count != 0) strides.asked(wish.count, kMost);
    EXPECT_LE(asked.size(), kMost);
  }
  for (const std::uint64_t rest : asked) {
    EXPECT_EQ(std::int64_t(rest - line) % stride, 0) << "line " << rest << " of stride " << stride;
  }
}

TEST(Strides, ForwardsBackwardsAndInSteps) {
  for (const std::int64_t stride : {1, -1, 2, -2, 3, -7, 63, -64}) expect_foreseen(100'000, stride);
}

TEST(Strides, NeighboursAreARunAtOnceAndOtherDistancesTheThirdTime) {
  Strides strides;
  strides.note(10, 10);
  EXPECT_EQ(strides.wish(kMost).count, 0u);
  strides.note(11, 11);
  EXPECT_EQ(strides.wish(kMost).count, Strides::kFirstWindow);
  EXPECT_EQ(strides.wish(kMost).first, 12u);
  strides.note(9, 9);
  EXPECT_EQ(strides.wish(kMost).count, 0u);
  strides.note(7, 7);
  EXPECT_EQ(strides.wish(kMost).count, 0u);
  strides.note(5, 5);
  EXPECT_EQ(strides.wish(kMost).count, Strides::kFirstWindow);
  EXPECT_EQ(strides.wish(kMost).first, 3u);
  EXPECT_EQ(strides.wish(kMost).stride, -2);
}

TEST(Strides, PiecesOfManyLinesFollowEachOtherToo) {
  for (const bool forwards : {true, false}) {
    Strides strides;
    for (std::uint64_t i = 0; i < 8; ++i) {
      const std::uint64_t first = forwards ? 1000 + 8 * i : 1000 - 8 * i;
      strides.note(first, first + 7);
      const Strides::Wish wish = strides.wish(kMost);
      if (wish.count == 0) continue;
      EXPECT_EQ(wish.stride, forwards ? 1 : -1);
      strides.asked(wish.count, kMost);
    }
    strides.note(forwards ? 1064 : 936, forwards ? 1071 : 943);
    const Strides::Wish wish = strides.wish(kMost);
    EXPECT_TRUE(wish.count == 0 || (forwards ? wish.first > 1071 : wish.first < 936));
  }
}

TEST(Strides, AMissingOneDoesNotEndARun) {
  Strides strides;
  for (const std::uint64_t line : {10, 13, 16, 22, 25}) strides.note(line, line);
  EXPECT_EQ(strides.wish(kMost).stride, 3);
  EXPECT_EQ(strides.wish(kMost).first, 28u);
}

TEST(Strides, TheSameLineAgainChangesNothing) {
  Strides strides;
  strides.note(10, 10);
  strides.note(9, 9);
  for (int i = 0; i < 5; ++i) strides.note(9, 9);
  EXPECT_EQ(strides.wish(kMost).count, 0u);
  EXPECT_TRUE(strides.goes_on_with(8));
  strides.note(8, 8);
  strides.note(7, 7);
  EXPECT_EQ(strides.wish(kMost).first, 6u);
}

TEST(Strides, RandomReadsAreNoRun) {
  base::Random random(1);
  Strides strides;
  int wishes = 0;
  for (int i = 0; i < 100'000; ++i) {
    const std::uint64_t line = random.below(100'000);
    strides.note(line, line);
    wishes += strides.wish(kMost).count != 0 ? 1 : 0;
  }
  EXPECT_LT(wishes, 10);
}

/// On a cluster: who reads backwards finds the lines here.
TEST(Strides, AReaderWhoGoesBackwardsIsReadAheadFor) {
  for (const bool in_place : {false, true}) {
    Options options = test::LocalCluster::small_options();
    options.cache_bytes = 1024 * 512;
    options.read_in_place = in_place;
    test::LocalCluster cluster(2, options);
    Node& home = cluster[1];
    constexpr std::int64_t kWords = 256 * 64;
    const auto words = home.allocate<std::uint64_t>(kWords).value();
    std::thread([&] {
      for (std::int64_t i = 0; i < kWords; ++i) ASSERT_TRUE(home.write(words + i, std::uint64_t(i)).ok());
    }).join();
    std::thread([&] {
      for (std::int64_t i = kWords - 1; i >= 0; --i) ASSERT_EQ(cluster[0].read(words + i).value(), std::uint64_t(i));
    }).join();
    const Stats stats = cluster[0].stats();
    EXPECT_GT(stats.read_ahead_lines, 200u) << "in place: " << in_place;
    EXPECT_LT(stats.read_misses, 40u) << "in place: " << in_place;
  }
}

/// The first page of node 0 is no memory: a slot for a line of it would never be found again.
TEST(Strides, ReadingDownToTheFirstPageTakesNoSlotForIt) {
  Options options = test::LocalCluster::small_options();
  options.cache_bytes = 1024 * 512;
  test::LocalCluster cluster(2, options);
  std::thread([&] {
    for (std::int64_t line = 200; line >= 8; --line) {
      ASSERT_TRUE(cluster[1].read<std::uint64_t>(GlobalAddress::make(0, std::uint64_t(line) * 512)).ok());
    }
  }).join();
  const Inspection held = cluster[1].runtime().inspect();
  EXPECT_GT(held.copies.size(), 100u);
  EXPECT_EQ(held.slots_used, held.copies.size());
}

}  // namespace
}  // namespace atoll::runtime
