// Regions: memory with lines of another size, and what happens to what was there before.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "atoll/array.hpp"
#include "atoll/detail/line.hpp"
#include "base/random.hpp"
#include "support/local_cluster.hpp"

namespace atoll {
namespace {

using test::LocalCluster;
constexpr std::uint64_t kGrain = detail::kGrainBytes;

Options small_options() {
  Options options;
  options.memory_bytes = 4 << 20;
  options.cache_bytes = 256 << 10;
  return options;
}

/// The three steps, by one thread for all nodes.
void set_lines(LocalCluster& cluster, NodeId nodes, GlobalAddress region, std::uint64_t bytes, std::uint32_t line) {
  for (NodeId id = 0; id < nodes; ++id) cluster[id].close_region(region, bytes).or_throw();
  cluster[region.node()].open_region(region, bytes, line).or_throw();
  for (NodeId id = 0; id < nodes; ++id) {
    if (id != region.node()) cluster[id].open_region(region, bytes, line).or_throw();
  }
}

TEST(Regions, ALineOfTheirOwnSizeTravelsAsOne) {
  LocalCluster cluster(2, small_options());
  const GlobalAddress region = cluster[0].allocate_region(2 * kGrain).value();
  EXPECT_EQ(region.offset() % kGrain, 0u);
  ASSERT_TRUE(cluster[0].write<std::uint64_t>(region + 4088, 7).ok());
  set_lines(cluster, 2, region, 2 * kGrain, 4096);
  std::jthread([&] {
    Node& other = cluster[1];
    std::vector<std::byte> whole(4096);
    ASSERT_TRUE(other.write<std::uint64_t>(region, 5, Consistency::kSc).ok());  // or it would be done at the home
    ASSERT_TRUE(other.write_lock(region, 4096).ok());
    const std::uint64_t misses = other.stats().read_misses;
    for (int i = 0; i < 512; ++i) {
      ASSERT_EQ(other.read<std::uint64_t>(region + 8 * i).value(), i == 0 ? 5u : i == 511 ? 7u : 0u);
    }
    EXPECT_EQ(other.stats().read_misses, misses) << "the line was not here as a whole";
    ASSERT_TRUE(other.unlock(region, 4096).ok());
    ASSERT_TRUE(other.write<std::uint64_t>(region + 4096, 8, Consistency::kSc).ok());
  });
  EXPECT_EQ(cluster[0].read<std::uint64_t>(region).value(), 5u);
  EXPECT_EQ(cluster[0].read<std::uint64_t>(region + 4096).value(), 8u);
}

TEST(Regions, LocksCoverTheirLines) {
  LocalCluster cluster(2, small_options());
  const GlobalAddress region = cluster[0].allocate_region(kGrain).value();
  set_lines(cluster, 2, region, kGrain, 4096);
  ASSERT_TRUE(cluster[0].write_lock(region + 8, 8).ok());
  std::jthread([&] {
    EXPECT_EQ(cluster[1].try_read_lock(region + 4000, 8).code(), Errc::kRefused);
    EXPECT_TRUE(cluster[1].try_read_lock(region + 4096, 8).ok());
    EXPECT_TRUE(cluster[1].unlock(region + 4096, 8).ok());
  });
  EXPECT_EQ(cluster[0].write_lock(region + 4000, 8).code(), Errc::kWouldDeadlock);
  ASSERT_TRUE(cluster[0].unlock(region + 8, 8).ok());
}

/// A range that begins in lines of the heap and ends in larger ones.
TEST(Regions, LocksMayCoverLinesOfSeveralSizes) {
  LocalCluster cluster(2, small_options());
  const GlobalAddress region = cluster[0].allocate_region(kGrain).value();
  set_lines(cluster, 2, region, kGrain, 4096);
  const GlobalAddress before = region + -1024;
  ASSERT_TRUE(cluster[0].write_lock(before, 1024 + 2 * 4096).ok());
  std::jthread([&] {
    EXPECT_EQ(cluster[1].try_read_lock(before + 512, 8).code(), Errc::kRefused);
    EXPECT_EQ(cluster[1].try_read_lock(region + 4096, 8).code(), Errc::kRefused);
    EXPECT_TRUE(cluster[1].try_read_lock(region + 8192, 8).ok());
    EXPECT_TRUE(cluster[1].unlock(region + 8192, 8).ok());
  });
  ASSERT_TRUE(cluster[0].unlock(before, 1024 + 2 * 4096).ok());
  std::jthread([&] {
    EXPECT_TRUE(cluster[1].write_lock(before, 1024 + 2 * 4096).ok());
    EXPECT_TRUE(cluster[1].unlock(before, 1024 + 2 * 4096).ok());
  });
}

/// A writer names its place before it knows whether there is any memory; who takes a line away looks at the name.
TEST(Regions, WritesToNowhereDisturbNobody) {
  LocalCluster cluster(2, small_options());
  const auto word = cluster[0].allocate<std::uint64_t>(1, Placement::local()).value();
  std::atomic<bool> stop{false};
  std::jthread wild([&] {
    while (!stop) EXPECT_FALSE(cluster[0].write<std::uint64_t>(GlobalAddress::make(1, 1ull << 39), 1).ok());
  });
  std::jthread writer([&] {
    for (std::uint64_t i = 0; i < 2000; ++i) ASSERT_TRUE(cluster[0].write(word, i, Consistency::kTso).ok());
  });
  std::jthread([&] {
    for (int i = 0; i < 2000; ++i) ASSERT_TRUE(cluster[1].fetch_add(word, 1).ok());
  });
  writer.join();
  stop = true;
}

TEST(Regions, WhatWasThereStays) {
  LocalCluster cluster(3, small_options());
  const GlobalAddress region = cluster[1].allocate_region(kGrain).value();
  const auto write_all = [&](NodeId by, std::uint64_t salt) {
    std::jthread([&] {
      for (std::uint64_t at = 0; at < kGrain; at += 8) {
        ASSERT_TRUE(cluster[by].write<std::uint64_t>(region + std::int64_t(at), at ^ salt).ok());
      }
      ASSERT_TRUE(cluster[by].fence().ok());
    });
  };
  const auto read_all = [&](NodeId by, std::uint64_t salt) {
    std::jthread([&] {
      for (std::uint64_t at = 0; at < kGrain; at += 8) {
        ASSERT_EQ(cluster[by].read<std::uint64_t>(region + std::int64_t(at)).value(), at ^ salt);
      }
    });
  };
  write_all(0, 1);  // dirty copies of the heap's lines elsewhere
  read_all(2, 1);
  std::uint64_t salt = 1;
  for (const std::uint32_t line : {2048u, 16384u, 1024u, 512u}) {
    set_lines(cluster, 3, region, kGrain, line);
    read_all(0, salt);
    salt = line;
    write_all(2, salt);
    read_all(1, salt);
    read_all(0, salt);
  }
  ASSERT_TRUE(cluster[1].free(region).ok());
}

TEST(Regions, BadArgumentsAreRefused) {
  LocalCluster cluster(2, small_options());
  Node& node = cluster[0];
  const GlobalAddress region = node.allocate_region(1).value();
  EXPECT_EQ(node.largest_line_bytes(), 16384u);  // a sixteenth of the cache
  EXPECT_EQ(node.allocate_region(0).status().code(), Errc::kInvalidArgument);
  EXPECT_EQ(node.allocate_region(1ull << 40).status().code(), Errc::kOutOfMemory);
  EXPECT_EQ(node.open_region(region + 512, kGrain, 1024).code(), Errc::kInvalidArgument);
  EXPECT_EQ(node.open_region(region, 512, 1024).code(), Errc::kInvalidArgument);
  EXPECT_EQ(node.open_region(region, kGrain, 1000).code(), Errc::kInvalidArgument);
  EXPECT_EQ(node.open_region(region, kGrain, 256).code(), Errc::kInvalidArgument);
  EXPECT_EQ(node.open_region(region, kGrain, 32768).code(), Errc::kInvalidArgument);
  EXPECT_EQ(node.close_region(GlobalAddress::make(5, 0), kGrain).code(), Errc::kBadAddress);
  EXPECT_EQ(node.close_region(GlobalAddress(), kGrain).code(), Errc::kNullAddress);
}

TEST(Regions, NobodyAsksForAClosedOne) {
  LocalCluster cluster(2, small_options());
  const GlobalAddress region = cluster[0].allocate_region(kGrain).value();
  std::jthread([&] {
    Node& other = cluster[1];
    ASSERT_TRUE(other.write<std::uint64_t>(region, 1).ok());
    ASSERT_TRUE(other.close_region(region, kGrain).ok());
    EXPECT_EQ(other.write<std::uint64_t>(region, 2).code(), Errc::kBadAddress);
    EXPECT_EQ(other.write_lock(region, 8).code(), Errc::kBadAddress);
    EXPECT_EQ(other.prefetch(region, 8).code(), Errc::kBadAddress);
    EXPECT_EQ(other.fetch_add(global_ptr<std::uint64_t>(region), 1).status().code(), Errc::kBadAddress);
  });
  EXPECT_EQ(cluster[0].read<std::uint64_t>(region).value(), 1u) << "the copy did not come back";
}

/// More lines of different sizes than fit, used by several threads: all that is written is found again.
TEST(Regions, LinesOfSeveralSizesShareACache) {
  LocalCluster cluster(2, small_options());
  Node& home = cluster[0];
  struct Area {
    GlobalAddress first;
    std::uint64_t bytes;
  };
  std::vector<Area> areas = {{home.allocate(256 << 10, Placement::local()).value(), 256 << 10}};
  for (const std::uint32_t line : {1024u, 4096u, 16384u}) {
    areas.push_back({home.allocate_region(4 * kGrain).value(), 4 * kGrain});
    set_lines(cluster, 2, areas.back().first, areas.back().bytes, line);
  }
  std::vector<std::jthread> threads;
  for (std::uint64_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      base::Random random(t);
      std::vector<std::uint64_t> last(areas.size() * 64);
      for (std::uint64_t step = 1; step < 6000; ++step) {
        const std::size_t which = random.below(areas.size());
        const std::uint64_t cell = random.below(64);
        const GlobalAddress address = areas[which].first + std::int64_t(cell * (areas[which].bytes / 64) + t * 8);
        if (random.below(2) == 0) {
          ASSERT_TRUE(cluster[1].write<std::uint64_t>(address, step).ok());
          last[which * 64 + cell] = step;
        } else if (last[which * 64 + cell] != 0) {
          ASSERT_EQ(cluster[1].read<std::uint64_t>(address).value(), last[which * 64 + cell]);
        }
      }
    });
  }
}

}  // namespace
}  // namespace atoll
