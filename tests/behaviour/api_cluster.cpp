// The barrier, names, and what the statistics say.
#include <bit>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "base/random.hpp"
#include "behaviour/together.hpp"

namespace atoll::test {
namespace {

using namespace std::chrono_literals;

class Cluster : public Together {
 protected:
  static std::uint64_t sent(std::string_view kind) {
    const Stats stats = node().stats();
    for (std::uint8_t k = 0; k < stats.sent_by_kind.size(); ++k) {
      if (message_kind_name(k) == kind) return stats.sent_by_kind[k];
    }
    ADD_FAILURE() << "no kind is called " << kind;
    return 0;
  }
};

TEST_F(Cluster, ABarrierWaitsForEverybody) {
  const auto counter = shared_objects<std::uint64_t>(1, NodeId(count() - 1));
  for (std::uint64_t round = 1; round <= 100; ++round) {
    if (round % 10 == id()) std::this_thread::sleep_for(1ms);
    ASSERT_TRUE(node().fetch_add(counter, 1).ok());
    meet();
    ASSERT_EQ(node().read(counter).value(), round * count());
    meet();
  }
}

TEST_F(Cluster, ABarrierIsAFence) {
  const auto words = shared_objects<std::uint64_t>(4096 * 8);
  for (std::int64_t i = id(); i < 200; i += count()) ASSERT_TRUE(node().write(words + i * 64, std::uint64_t(i)).ok());
  meet();
  for (std::int64_t i = 0; i < 200; ++i) ASSERT_EQ(node().read(words + i * 64).value(), std::uint64_t(i));
}

TEST_F(Cluster, ABarrierThatTimesOutIsGoneOnWith) {
  ATOLL_NEEDS_NODES(2);
  const auto flag = shared_objects<std::uint64_t>();
  if (id() == 0) {
    EXPECT_EQ(node().barrier(20ms).code(), Errc::kDeadline);
    EXPECT_EQ(node().barrier(0ms).code(), Errc::kDeadline);
    ASSERT_TRUE(node().exchange(flag, 1).ok());
  }
  while (node().read(flag).value() == 0) std::this_thread::sleep_for(1ms);
  meet();
  if (id() == 0) {
    ASSERT_TRUE(node().exchange(flag, 2).ok());
  }
  meet();
  EXPECT_EQ(node().read(flag).value(), 2u);
}

TEST_F(Cluster, NamesAreFoundWhenTheyArePublished) {
  const GlobalAddress mine = node().allocate(8).value();
  EXPECT_EQ(node().lookup("nobody publishes this", 30ms).status().code(), Errc::kDeadline);
  EXPECT_EQ(node().lookup("nobody publishes this", 0ms).status().code(), Errc::kNotFound);
  if (id() == 0) {
    std::this_thread::sleep_for(50ms);
    ASSERT_TRUE(node().write<std::uint64_t>(mine, 42).ok());  // seen by all who find the name
    ASSERT_TRUE(node().publish("late", mine).ok());
    EXPECT_TRUE(node().publish("late", mine).ok());
    EXPECT_EQ(node().publish("late", mine + 8).code(), Errc::kAlreadyExists);
  }
  const GlobalAddress found = node().lookup("late", 2min).value();
  EXPECT_EQ(found.node(), 0);
  EXPECT_EQ(node().read<std::uint64_t>(found).value(), 42u);
}

/// Requests that follow each other faster than the master looks for somebody else's: none is left lying.
TEST_F(Cluster, ManyNamesInARow) {
  const GlobalAddress mine = node().allocate(8).value();
  for (int i = 0; i < 300; ++i) {
    const std::string name = "name " + std::to_string(i) + " of node " + std::to_string(id());
    ASSERT_TRUE(node().publish(name, mine).ok()) << name;
    ASSERT_EQ(node().lookup(name, 20s).value(), mine) << name;
  }
}

TEST_F(Cluster, MessagesAreCountedByKind) {
  ATOLL_NEEDS_NODES(2);
  const std::uint64_t line = node().line_bytes();
  for (NodeId k = 0; k < count(); ++k) {
    const NodeId home = NodeId((k + 1) % count());
    const GlobalAddress at = shared_bytes(8 * line, home);
    // The home writes, so that nobody else has a copy.
    if (id() == home) {
      ASSERT_TRUE(node().write(at, std::vector<std::byte>(8 * line)).ok());
    }
    meet();
    if (id() == k) {
      const std::uint64_t shared_before = sent("GetShared"), others_before = sent("GetExclusive") + sent("WriteHome"),
                          upgrades_before = sent("Upgrade");
      // The first may be done in place, but not all of them.
      for (int i = 0; i < 300; ++i) ASSERT_TRUE(node().read<std::uint64_t>(at).ok());
      EXPECT_GE(sent("GetShared"), shared_before + 1);
      ASSERT_TRUE(node().write<std::uint64_t>(at, 1, Consistency::kTso).ok());
      EXPECT_EQ(sent("Upgrade"), upgrades_before + 1);
      ASSERT_TRUE(node().write<std::uint64_t>(at + std::int64_t(7 * line), 1, Consistency::kTso).ok());
      EXPECT_EQ(sent("GetExclusive") + sent("Upgrade") + sent("WriteHome"), others_before + upgrades_before + 2);
    }
    meet();
  }
  const Stats stats = node().stats();
  EXPECT_EQ(std::accumulate(stats.sent_by_kind.begin(), stats.sent_by_kind.end(), std::uint64_t{0}),
            stats.messages_sent);
  EXPECT_GT(stats.messages_received, 0u);
  EXPECT_GT(stats.misses(), 0u);
  EXPECT_NE(stats.to_string().find("sent GetShared"), std::string::npos);
}

TEST_F(Cluster, GaugesFollowAllocations) {
  const Stats before = node().stats();
  EXPECT_GT(before.memory_bytes, 0u);
  const GlobalAddress block = node().allocate(100'000, Placement::local()).value();
  const Stats with = node().stats();
  EXPECT_LE(with.memory_free_bytes + 100'000, before.memory_free_bytes);
  EXPECT_EQ(with.allocations, before.allocations + 1);
  ASSERT_TRUE(node().free(block).ok());
  EXPECT_EQ(node().stats().memory_free_bytes, before.memory_free_bytes);
  EXPECT_EQ(node().stats().frees, before.frees + 1);
}

/// Touches each of some lines of another node once, always in the same order: that of their numbers with the bits
/// reversed, in which no distance follows itself, so that nothing is read ahead.
void scan(Node& node, GlobalAddress base, std::uint64_t lines) {
  const std::uint64_t end = std::bit_ceil(lines);
  for (std::uint64_t i = 0, line = 0; i < end; ++i) {
    if (line < lines) {
      EXPECT_TRUE(node.read<std::uint64_t>(base + std::int64_t(line * node.line_bytes())).ok());
    }
    std::uint64_t bit = end / 2;
    for (; (line & bit) != 0; bit /= 2) line ^= bit;
    line |= bit;
  }
}

/// The share of hits of `rounds` scans.
double hit_share(Node& node, GlobalAddress base, std::uint64_t lines, int rounds) {
  const Stats before = node.stats();
  for (int round = 0; round < rounds; ++round) scan(node, base, lines);
  const Stats after = node.stats();
  const auto accesses = double(lines) * rounds;
  const auto misses =
      double(after.read_misses - before.read_misses) + double(after.reads_in_place - before.reads_in_place);
  // A line fetched ahead is a hit for who comes for it, but was a miss all the same.
  return 1 - (misses + double(after.read_ahead_lines - before.read_ahead_lines)) / accesses;
}

/// Uses lines until all of them have been worth fetching.
void warm_up(Node& node, const std::function<void()>& use) {
  const auto missed = [&] { return node.stats().reads_in_place + node.stats().read_misses; };
  for (int i = 0, quiet = 0; i < 5000 && quiet < 20; ++i) {
    const std::uint64_t before = missed();
    use();
    quiet = missed() == before ? quiet + 1 : 0;
  }
}

TEST_F(Cluster, AWorkingSetThatFitsTheCacheStaysThere) {
  ATOLL_NEEDS_NODES(2);
  const std::uint64_t lines = node().stats().cache_lines * 3 / 4;
  const GlobalAddress base = node().allocate(lines * node().line_bytes(), Placement::on(next())).value();
  warm_up(node(), [&] { scan(node(), base, lines); });
  const std::uint64_t hits_before = node().stats().hits;
  constexpr int kRounds = 30;
  EXPECT_GE(hit_share(node(), base, lines, kRounds), 0.99);
  // Of the inlined hits a sample is counted: one of 64 lines of 512 bytes.
  if (node().line_bytes() == 512 && lines % 64 == 0) {
    EXPECT_NEAR(double(node().stats().hits - hits_before), double(lines) * kRounds, double(lines) * kRounds / 4);
  }
  EXPECT_TRUE(node().free(base).ok());
}

/// A scan over twice the cache, again and again: the least recently used line is always the next one needed. Who evicts
/// by that rule never hits; who evicts at random and uses about 60 % of the cache (see Options::evict_below_percent),
/// every thirtieth time.
TEST_F(Cluster, AWorkingSetThatDoesNotFitDoesNotThrash) {
  ATOLL_NEEDS_NODES(2);
  const std::uint64_t lines = node().stats().cache_lines * 2;
  const GlobalAddress base = node().allocate(lines * node().line_bytes(), Placement::on(next())).value();
  (void)hit_share(node(), base, lines, 30);
  EXPECT_GT(hit_share(node(), base, lines, 20), 0.01);
  EXPECT_TRUE(node().free(base).ok());
}

TEST_F(Cluster, RandomReadsOfWhatFitsAreHits) {
  ATOLL_NEEDS_NODES(2);
  const std::uint64_t lines = node().stats().cache_lines * 3 / 4;
  const GlobalAddress base = node().allocate(lines * node().line_bytes(), Placement::on(next())).value();
  base::Random random(id());
  const auto touch = [&](int times) {
    for (int i = 0; i < times; ++i) {
      ASSERT_TRUE(node().read<std::uint64_t>(base + std::int64_t(random.below(lines) * node().line_bytes())).ok());
    }
  };
  const auto missed = [&] { return node().stats().read_misses + node().stats().reads_in_place; };
  warm_up(node(), [&] { touch(int(lines) * 2); });
  // 1 %. Reads that follow each other by chance are read ahead for; a line that has to go for that is read in place
  // often before it is fetched again. So not every time, but it must come to rest.
  std::uint64_t misses = UINT64_MAX;
  for (int attempt = 0; attempt < 5 && misses > 200; ++attempt) {
    const std::uint64_t before = missed();
    touch(20'000);
    misses = missed() - before;
  }
  EXPECT_LE(misses, 200u);
  EXPECT_TRUE(node().free(base).ok());
}

}  // namespace
}  // namespace atoll::test
