// A node dies: whoever waits for it gets an error within seconds, and never waits for ever.
#include <gtest/gtest.h>

#include <array>

#include "support/local_cluster.hpp"

namespace atoll::test {
namespace {

using namespace std::chrono_literals;
using Word = std::uint64_t;
using Clock = std::chrono::steady_clock;

/// Catches hangs, nothing else.
constexpr auto kSeconds = 20s;

/// The status of `call`, which starts to wait before node `victim` is killed.
Status when_killed(LocalCluster& cluster, NodeId victim, const std::function<Status()>& call) {
  Status status;
  const auto start = Clock::now();
  std::thread waiter([&] { status = call(); });
  std::this_thread::sleep_for(50ms);
  cluster.hub().kill(victim);
  waiter.join();
  EXPECT_LT(Clock::now() - start, kSeconds);
  return status;
}

TEST(Death, OfTheHolderOfALockEndsTheWaitForIt) {
  for (NodeId home = 0; home < 3; ++home) {
    LocalCluster cluster(3);
    const GlobalAddress at = cluster[0].allocate(8, Placement::on(home)).value();
    ASSERT_TRUE(cluster[1].write_lock(at, 8).ok());
    const Status status = when_killed(cluster, 1, [&] { return cluster[0].write_lock(at, 8); });
    EXPECT_EQ(status.code(), Errc::kNodeDied) << "home " << home;
    EXPECT_EQ(status.node(), 1) << "home " << home;
    EXPECT_EQ(cluster[0].unlock(at, 8).code(), Errc::kNotHeld);
    // This node's own memory is still there, but for the line that the dead node has.
    const auto own = cluster[0].allocate<Word>(512, Placement::local());
    ASSERT_TRUE(own.ok());
    EXPECT_TRUE(cluster[0].fetch_add(*own, 1).ok());
  }
}

TEST(Death, OfTheHomeEndsEveryCall) {
  LocalCluster cluster(2);
  const auto there = cluster[0].allocate<Word>(256, Placement::on(1)).value();
  cluster.hub().kill(1);
  Node& node = cluster[0];
  std::vector<std::byte> buffer(1000);
  const auto start = Clock::now();
  EXPECT_EQ(node.read(there).status().code(), Errc::kNodeDied);
  EXPECT_EQ(node.read(there.address(), buffer).code(), Errc::kNodeDied);
  const Status wrote = node.write(there, 1);
  EXPECT_EQ(wrote.ok() ? node.fence().code() : wrote.code(), Errc::kNodeDied);
  EXPECT_EQ(node.fetch_add(there, 1).status().code(), Errc::kNodeDied);
  EXPECT_EQ(node.write_if(there, 0, 1, there.address() + 8, std::span(buffer).first(8)).status().code(),
            Errc::kNodeDied);
  EXPECT_EQ(node.read_lock(there.address(), 8).code(), Errc::kNodeDied);
  EXPECT_EQ(node.try_write_lock(there.address(), 8).code(), Errc::kNodeDied);
  EXPECT_EQ(node.free(there).code(), Errc::kNodeDied);
  EXPECT_EQ(node.allocate(8, Placement::on(1)).status().code(), Errc::kNodeDied);
  EXPECT_EQ(node.barrier(60s).code(), Errc::kNodeDied);
  EXPECT_LT(Clock::now() - start, kSeconds);
  // Without a hint, memory comes from who is left.
  EXPECT_EQ(node.allocate(8).value().node(), 0);
}

TEST(Death, EndsABarrier) {
  for (const NodeId victim : {NodeId(0), NodeId(2)}) {
    LocalCluster cluster(3);
    const Status status = when_killed(cluster, victim, [&] { return cluster[1].barrier(60s); });
    EXPECT_EQ(status.code(), Errc::kNodeDied) << "victim " << victim;
    EXPECT_EQ(status.node(), victim);
  }
}

/// The owner of a line is gone before the home asks it: a read of that line ends, and so does a fenced write.
TEST(Death, OfTheOwnerOfALineEndsReadsAndWrites) {
  for (NodeId home = 0; home < 2; ++home) {
    LocalCluster cluster(3);
    const auto at = cluster[0].allocate<Word>(1, Placement::on(home)).value();
    ASSERT_TRUE(cluster[2].write_lock(at.address(), 8).ok());  // holds the line fast, so that nothing answers
    ASSERT_TRUE(cluster[2].write(at, 9).ok());
    EXPECT_EQ(when_killed(cluster, 2, [&] { return cluster[0].read(at).status(); }).code(), Errc::kNodeDied);
    // On a thread of its own, for this one has used the dead node and would hit its copy.
    std::thread([&] {
      const auto start = Clock::now();
      const Status wrote = cluster[1].write(at, 1);
      EXPECT_EQ(wrote.ok() ? cluster[1].fence().code() : wrote.code(), Errc::kNodeDied);
      EXPECT_TRUE(cluster[1].fence().ok());  // reported once
      EXPECT_LT(Clock::now() - start, kSeconds);
    }).join();
  }
}

TEST(Death, EndsAWriterWhoWaitsForRoom) {
  Options options = LocalCluster::small_options();
  options.outstanding_writes = 4;
  LocalCluster cluster(3, options);
  const std::uint64_t line = cluster[0].line_bytes();
  const GlobalAddress base = cluster[0].allocate(64 * line, Placement::on(1)).value();
  ASSERT_TRUE(cluster[2].write_lock(base, 32 * line).ok());
  const Status status = when_killed(cluster, 2, [&]() -> Status {
    for (int i = 0; i < 32; ++i) {
      const Status wrote = cluster[0].write(global_ptr<Word>(base + std::int64_t(std::uint64_t(i) * line)), 1);
      if (!wrote.ok()) return wrote;
    }
    return cluster[0].fence();
  });
  EXPECT_EQ(status.code(), Errc::kNodeDied);
}

/// What does not need the dead node goes on.
/// What the dead node should have taken back stays in the cache, which still serves the memory of those who live.
TEST(Death, OfTheHomeOfAFullCacheLeavesRoomForOthers) {
  LocalCluster cluster(3);  // with caches of 64 lines
  constexpr std::int64_t kLine = 64;
  const auto dead = cluster[1].allocate<Word>(64 * kLine, Placement::local()).value();
  const auto alive = cluster[2].allocate<Word>(300 * kLine, Placement::local()).value();
  std::thread([&] {
    Node& node = cluster[0];
    for (std::int64_t i = 0; i < 40; ++i) {
      ASSERT_TRUE(
          (i % 2 == 0 ? node.write(dead + i * kLine, Word(i)) : node.apply(dead + i * kLine, op::add<Word>, 1)).ok());
    }
    ASSERT_TRUE(node.fence().ok());
    cluster.hub().kill(1);
    for (std::int64_t i = 0; i < 300; ++i) {
      ASSERT_TRUE(node.write(alive + i * kLine, Word(i)).ok());
      ASSERT_EQ(node.read(alive + i * kLine).value(), Word(i));
    }
    EXPECT_TRUE(node.fence().ok());
  }).join();
}

/// Its operands are lost, and with them the line: an error, for the home's own threads and for others, and no hang.
TEST(Death, OfAnOperatorEndsReads) {
  for (const NodeId reader : {NodeId(0), NodeId(1)}) {
    LocalCluster cluster(3);
    const auto at = cluster[0].allocate<Word>(64, Placement::local()).value();
    std::thread([&] { ASSERT_TRUE(cluster[2].apply(at, op::add<Word>, 1, Consistency::kTso).ok()); }).join();
    std::thread([&] {
      ASSERT_TRUE(cluster[reader].apply(at, op::add<Word>, 1, Consistency::kTso).ok());
      cluster.hub().kill(2);
      const auto start = Clock::now();
      EXPECT_EQ(cluster[reader].read(at).status().code(), Errc::kNodeDied);
      EXPECT_LT(Clock::now() - start, kSeconds);
    }).join();
  }
}

/// Nothing fails that needs only the living. (A wait may end after the grace, which is too long here for a machine that
/// is busy.)
TEST(Death, DoesNotStopTheOthers) {
  Options options = LocalCluster::small_options();
  options.death_grace = std::chrono::minutes(2);
  LocalCluster cluster(3, options);
  const auto counter = cluster[0].allocate<Word>(1, Placement::on(1)).value();
  constexpr Word kAdds = 500;  // of each thread, after the death
  std::atomic<unsigned> running{0};
  std::atomic<bool> killed{false};
  std::atomic<int> failed{0};
  std::vector<std::thread> threads;
  for (NodeId id = 0; id < 2; ++id) {
    threads.emplace_back([&, id] {
      for (Word after = 0; after < kAdds;) {
        const bool was_killed = killed;
        if (!cluster[id].fetch_add(counter, 1).ok()) ++failed;
        if (was_killed) {
          ++after;
        } else {
          running |= 1u << id;
        }
      }
    });
  }
  while (running != 3) std::this_thread::yield();
  cluster.hub().kill(2);
  killed = true;
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(failed, 0);
}

}  // namespace
}  // namespace atoll::test
