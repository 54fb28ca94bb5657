// Many threads on few lines with a small cache: what must hold whatever the interleaving.
#include <gtest/gtest.h>

#include <atomic>

#include "base/random.hpp"
#include "support/local_cluster.hpp"
#include "support/seed.hpp"

namespace atoll::test {
namespace {

constexpr int kLines = 96;  // more than the cache of 64 has room for

TEST(Stress, FetchAddsOfAllNodesAddUp) {
  LocalCluster cluster(3);
  std::vector<global_ptr<std::uint64_t>> counters;
  for (int i = 0; i < kLines; ++i) {
    counters.push_back(cluster[NodeId(i % 3)].allocate<std::uint64_t>(64, Placement::local()).value());
  }
  const std::uint64_t seed = fresh_seed();
  SCOPED_TRACE(repeat_with(seed));
  constexpr int kAdds = scaled(6000);
  std::atomic<std::uint64_t> added{0};
  cluster.in_parallel([&](NodeId id) {
    base::Random random(seed + id);
    for (int i = 0; i < kAdds; ++i) {
      const std::uint64_t amount = random.below(9);
      const bool hot = random.chance(0.5);
      const auto counter = counters[hot ? random.below(2) : random.below(kLines)];
      ASSERT_TRUE(cluster[id].fetch_add(counter, amount).ok());
      added += amount;
    }
  });
  std::uint64_t sum = 0;
  for (const auto counter : counters) sum += cluster[1].read(counter).value();
  EXPECT_EQ(sum, added.load());
}

TEST(Stress, LocksExcludeAndDataComesWithThem) {
  LocalCluster cluster(3);
  // A record of 40 words that only holds together under its lock; lines of different homes.
  struct Record {
    std::uint64_t words[40];
  };
  std::vector<global_ptr<Record>> records;
  for (int i = 0; i < 6; ++i) {
    records.push_back(cluster[NodeId(i % 3)].allocate<Record>(1, Placement::local()).value());
  }
  const std::uint64_t seed = fresh_seed();
  SCOPED_TRACE(repeat_with(seed));
  std::atomic<std::uint64_t> writes{0};
  std::atomic<int> torn{0};
  cluster.in_parallel([&](NodeId id) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; ++t) {
      threads.emplace_back([&, t] {
        base::Random random(seed + id * 10 + std::uint64_t(t));
        Node& node = cluster[id];
        for (int i = 0; i < scaled(1500); ++i) {
          const auto record = records[random.below(records.size())];
          const bool exclusive = random.chance(0.5);
          const bool attempt = random.chance(0.3);
          const GlobalAddress at = record.address();
          const Status got =
              exclusive ? (attempt ? node.try_write_lock(at, sizeof(Record)) : node.write_lock(at, sizeof(Record)))
                        : (attempt ? node.try_read_lock(at, sizeof(Record)) : node.read_lock(at, sizeof(Record)));
          if (got.code() == Errc::kRefused) continue;
          ASSERT_TRUE(got.ok()) << got.to_string();
          Record copy = node.read(record).value();
          for (const std::uint64_t word : copy.words) torn += word != copy.words[0];
          if (exclusive) {
            for (auto& word : copy.words) word += 1;
            for (int w = 0; w < 40; ++w) {
              ASSERT_TRUE(node.write(global_ptr<std::uint64_t>(at) + w, copy.words[w]).ok());
            }
            ++writes;
          }
          ASSERT_TRUE(node.unlock(at, sizeof(Record)).ok());
        }
      });
    }
    for (auto& thread : threads) thread.join();
  });
  EXPECT_EQ(torn.load(), 0);
  std::uint64_t sum = 0;
  for (const auto record : records) sum += cluster[2].read(record).value().words[7];
  EXPECT_EQ(sum, writes.load());
}

TEST(Stress, AThreadSeesItsOwnWrites) {
  LocalCluster cluster(2);
  const auto region = cluster[0].allocate<std::uint64_t>(kLines * 64, Placement::local()).value();
  const std::uint64_t seed = fresh_seed();
  SCOPED_TRACE(repeat_with(seed));
  cluster.in_parallel([&](NodeId id) {
    // Each node has its own words in lines that both use.
    base::Random random(seed + id);
    std::vector<std::uint64_t> mine(kLines, 0);
    for (int i = 0; i < scaled(20000); ++i) {
      const auto line = random.below(kLines);
      const auto word = region + std::int64_t(line * 64 + id);
      if (random.chance(0.5)) {
        mine[line] = random.next();
        ASSERT_TRUE(cluster[id].write(word, mine[line]).ok());
      } else {
        ASSERT_EQ(cluster[id].read(word).value(), mine[line]) << "line " << line << " step " << i;
      }
    }
    ASSERT_TRUE(cluster[id].fence().ok());
  });
}

TEST(Stress, AccessesWithinALineAreNeverTorn) {
  LocalCluster cluster(2);
  struct Block {
    std::uint64_t words[16];
  };
  const auto block = cluster[0].allocate<Block>(1, Placement::local()).value();
  std::atomic<int> torn{0};
  cluster.in_parallel([&](NodeId id) {
    for (int i = 1; i <= scaled(4000); ++i) {
      Block out;
      for (auto& word : out.words) word = std::uint64_t(i) * 2 + id;
      ASSERT_TRUE(cluster[id].write(block, out).ok());
      const Block in = cluster[id].read(block).value();
      for (const std::uint64_t word : in.words) torn += word != in.words[0];
    }
  });
  EXPECT_EQ(torn.load(), 0);
}

}  // namespace
}  // namespace atoll::test
