// Reads of lines that are not here, at their home.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "support/local_cluster.hpp"

namespace atoll {
namespace {

using test::LocalCluster;

Options in_place() {
  Options options = LocalCluster::small_options();
  options.read_in_place = true;
  options.cache_bytes = 1024 * 512;
  return options;
}

class InPlace : public testing::Test {
 protected:
  LocalCluster cluster{3, in_place()};
  Node& reader = cluster[0];
  Node& home = cluster[1];
  Node& other = cluster[2];
  global_ptr<std::uint64_t> words = home.allocate<std::uint64_t>(64 * 64).value();  // 64 lines

  /// In a thread that has never been another node's: see "Several nodes in one process" in docs/memory-model.md.
  template <typename F>
  static void in_thread(F f) {
    std::thread(f).join();
  }
  [[nodiscard]] std::uint64_t read(std::int64_t index = 0) {
    std::uint64_t value = 0;
    in_thread([&] { value = reader.read(words + index).value(); });
    return value;
  }
  [[nodiscard]] std::uint64_t messages() { return reader.stats().messages_sent + home.stats().messages_sent; }
  [[nodiscard]] std::uint64_t in_place_reads() { return reader.stats().reads_in_place; }
};

TEST_F(InPlace, WhatTheHomeHasTakesNoMessage) {
  ASSERT_TRUE(home.write(words, 7).ok());
  const std::uint64_t before = messages();
  EXPECT_EQ(read(), 7u);
  ASSERT_TRUE(home.write(words, 8).ok());  // no copy has to be taken back
  EXPECT_EQ(read(), 8u);
  EXPECT_EQ(messages(), before);
  EXPECT_EQ(in_place_reads(), 2u);
}

TEST_F(InPlace, WhatAnotherNodeOwnsIsAskedFor) {
  in_thread([&] { ASSERT_TRUE(other.fetch_add(words, 9).ok()); });
  EXPECT_EQ(read(), 9u);
  EXPECT_EQ(in_place_reads(), 0u);
  // From then on the home has it again, and the reader a copy: the next line is not its matter.
  EXPECT_EQ(read(640), 0u);
  EXPECT_EQ(in_place_reads(), 1u);
}

TEST_F(InPlace, AThreadSeesItsOwnWritesThatAreUnderWay) {
  in_thread([&] {
    for (std::uint64_t i = 0; i < 64; ++i) {
      ASSERT_TRUE(reader.write(words + std::int64_t(i * 64), i + 1).ok());
      EXPECT_EQ(reader.read(words + std::int64_t(i * 64)).value(), i + 1);
    }
  });
}

/// What another thread of the node wrote before must be seen by who comes after it, also while it waits for the line.
TEST_F(InPlace, ThreadsOfANodeSeeEachOthersWritesThatWait) {
  for (std::int64_t i = 0; i < 64; ++i) {
    const auto word = words + i * 64;
    ASSERT_TRUE(home.read_lock(word.address(), 8).ok());  // the write waits as long as this
    in_thread([&] { ASSERT_TRUE(reader.write(word, 1).ok()); });
    std::thread later([&] { EXPECT_EQ(reader.read(word).value(), 1u); });
    std::this_thread::yield();
    ASSERT_TRUE(home.unlock(word.address(), 8).ok());
    later.join();
  }
}

/// A line that was hidden from the hit path, to see whether it is still used, shows that it is.
TEST_F(InPlace, WhatIsHereIsNotReadElsewhere) {
  in_thread([&] {
    for (int i = 0; i < 300; ++i) ASSERT_TRUE(reader.read(words).ok());
    const std::uint64_t before = in_place_reads();
    for (std::int64_t i = 1; i < 64; ++i) ASSERT_TRUE(reader.write(words + i * 64, 1).ok());  // some are looked at
    for (int i = 0; i < 300; ++i) ASSERT_TRUE(reader.read(words).ok());
    EXPECT_EQ(in_place_reads(), before);
  });
}

TEST_F(InPlace, ALineThatIsReadOftenIsFetched) {
  in_thread([&] {
    for (int i = 0; i < 1000; ++i) ASSERT_TRUE(reader.read(words).ok());
  });
  EXPECT_EQ(reader.stats().read_misses, 1u);
  EXPECT_LE(in_place_reads(), 250u);
}

TEST_F(InPlace, WhatIsFetchedAheadIsHere) {
  in_thread([&] {
    ASSERT_TRUE(reader.prefetch(words, 64 * 64).ok());
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (home.stats().lines_sent < 64 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    for (std::int64_t i = 0; i < 64; ++i) ASSERT_EQ(reader.read(words + (i * 29 % 64) * 64).value(), 0u);
  });
  EXPECT_EQ(in_place_reads(), 0u);
  EXPECT_EQ(reader.stats().read_ahead_lines, 64u);
}

TEST_F(InPlace, FetchingAheadKeepsToItsBounds) {
  const auto many = home.allocate<std::uint64_t>(64 * 3000).value();
  in_thread([&] {
    ASSERT_TRUE(reader.prefetch(many, 64 * 3000).ok());  // of a cache of 1024 lines
    EXPECT_EQ(reader.stats().read_ahead_lines, 512u);
    EXPECT_EQ(reader.read(many + 64 * 2999).value(), 0u);
    EXPECT_EQ(reader.prefetch(global_ptr<std::uint64_t>(), 1).code(), Errc::kNullAddress);
    EXPECT_EQ(reader.prefetch(GlobalAddress::make(7, 8192), 1).code(), Errc::kBadAddress);
    EXPECT_TRUE(reader.prefetch(words, 0).ok());
  });
  in_thread([&] { EXPECT_TRUE(home.prefetch(words, 64).ok()); });  // it has them anyway
  EXPECT_EQ(home.stats().read_ahead_lines, 0u);
  cluster.hub().kill(1);
  in_thread([&] { EXPECT_EQ(reader.prefetch(words, 1).code(), Errc::kNodeDied); });
}

TEST_F(InPlace, PlacesApartAreFetchedTogether) {
  const std::vector<GlobalAddress> places{words.address(), GlobalAddress(), words.address() + 4 * 512 + 500,
                                          words.address() + 9 * 512};
  in_thread([&] {
    ASSERT_TRUE(reader.prefetch(places, 64).ok());  // the second of them lies in two lines
    EXPECT_EQ(reader.stats().read_ahead_lines, 4u);
    ASSERT_TRUE(reader.prefetch(places, 64, LockMode::kWrite).ok());
    ASSERT_TRUE(reader.fence().ok());
    EXPECT_EQ(reader.stats().write_misses, 4u);
    ASSERT_TRUE(reader.prefetch(places, 64, LockMode::kWrite).ok());  // all of them are here
    ASSERT_TRUE(reader.prefetch(places, 64).ok());
    for (const std::int64_t line : {0, 4, 5, 9}) ASSERT_TRUE(reader.fetch_add(words + line * 64, 1).ok());
    EXPECT_EQ(reader.stats().write_misses, 4u);
    EXPECT_EQ(reader.stats().atomic_misses, 0u);
    EXPECT_EQ(reader.stats().read_ahead_lines, 4u);
    const std::vector<GlobalAddress> bad{GlobalAddress(), GlobalAddress::make(7, 8192)};
    EXPECT_EQ(reader.prefetch(bad, 8).code(), Errc::kBadAddress);
    EXPECT_EQ(reader.prefetch(bad, 8, LockMode::kWrite).code(), Errc::kBadAddress);
  });
  in_thread([&] {  // whose accesses are not inlined
    EXPECT_TRUE(home.prefetch(places, 64).ok());
    EXPECT_TRUE(home.prefetch(places, 64, LockMode::kWrite).ok());
    EXPECT_TRUE(home.fence().ok());
    EXPECT_EQ(home.read(words).value(), 1u);
  });
}

TEST_F(InPlace, WhoReadsOnIsReadAheadFor) {
  in_thread([&] {
    for (std::int64_t i = 0; i < 64 * 64; ++i) ASSERT_EQ(reader.read(words + i).value(), 0u);
  });
  EXPECT_LE(in_place_reads(), 64u);  // of the first line
  EXPECT_GT(reader.stats().read_ahead_lines, 0u);
}

TEST_F(InPlace, WholeLinesAreNeverFetched) {
  std::array<std::uint64_t, 512> page{};
  in_thread([&] {
    for (int i = 0; i < 300; ++i) {
      ASSERT_TRUE(reader.read(words.address(), std::as_writable_bytes(std::span(page))).ok());
    }
  });
  EXPECT_EQ(reader.stats().read_misses, 0u);
  EXPECT_EQ(in_place_reads(), 300u * 8);
}

TEST_F(InPlace, AWriterOfTheHomeThatHoldsTheLockIsWaitedFor) {
  std::atomic<bool> begun = false;
  std::uint64_t seen = 0;
  ASSERT_TRUE(home.write_lock(words.address(), 8).ok());
  ASSERT_TRUE(home.write(words, 1).ok());
  std::thread thread([&] {
    begun = true;
    seen = reader.read(words).value();
  });
  while (!begun) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the longer, the more it could see; never needed
  ASSERT_TRUE(home.write(words, 2).ok());
  ASSERT_TRUE(home.unlock(words.address(), 8).ok());
  thread.join();
  EXPECT_EQ(seen, 2u);
}

TEST_F(InPlace, ALargeReadIsWholeAgainstLargeWrites) {
  using Block = std::array<std::uint64_t, 8>;
  const global_ptr<Block> block(words.address());
  std::atomic<bool> done = false;
  std::thread writer([&] {
    for (std::uint64_t i = 1; !done; ++i) {
      Block value;
      value.fill(i);
      ASSERT_TRUE(home.write(block, value).ok());
    }
  });
  in_thread([&] {
    std::uint64_t last = 0;
    for (int i = 0; i < 20'000; ++i) {
      const Block seen = reader.read(block).value();
      ASSERT_TRUE(std::all_of(seen.begin(), seen.end(), [&](std::uint64_t word) { return word == seen[0]; }));
      ASSERT_GE(seen[0], last);
      last = seen[0];
    }
  });
  done = true;
  writer.join();
}

TEST_F(InPlace, OwnersComeAndGoUnderAReader) {
  std::atomic<bool> done = false;
  const auto write = [&](Node& node) {
    while (!done) ASSERT_TRUE(node.fetch_add(words, 1).ok());
  };
  std::thread first([&] { write(home); });
  std::thread second([&] { write(other); });
  in_thread([&] {
    std::uint64_t last = 0;
    for (int i = 0; i < 20'000; ++i) {
      const std::uint64_t seen = reader.read(words).value();
      ASSERT_GE(seen, last);
      last = seen;
    }
  });
  done = true;
  first.join();
  second.join();
}

TEST_F(InPlace, NotOfANodeThatIsGone) {
  cluster.hub().kill(1);
  in_thread([&] { EXPECT_EQ(reader.read(words).status().code(), Errc::kNodeDied); });
}

TEST(InPlaceOff, EveryReadGoesThroughTheProtocol) {
  LocalCluster cluster(2);
  const auto words = cluster[1].allocate<std::uint64_t>(64).value();
  std::thread([&] { EXPECT_EQ(cluster[0].read(words).value(), 0u); }).join();
  EXPECT_EQ(cluster[0].stats().reads_in_place, 0u);
  EXPECT_EQ(cluster[0].stats().read_misses, 1u);
}

}  // namespace
}  // namespace atoll
