// Locks of elements on real nodes: who may have which at once, whose death ends what, and what a hostile peer may do.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "support/local_cluster.hpp"

namespace atoll::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kLong = 20s;  // catches hangs, nothing else

struct Elements : testing::Test {
  LocalCluster cluster{3};
  GlobalAddress at = cluster[0].allocate(64, Placement::on(1)).value();
  GlobalAddress next = at + 8;

  /// The status of `call`, which waits for a while before `then` is done.
  template <typename Call, typename Then>
  Status while_waiting(Call&& call, Then&& then) {
    Status status;
    const auto start = Clock::now();
    std::atomic<bool> done{false};
    std::thread waiter([&] {
      status = call();
      done = true;
    });
    std::this_thread::sleep_for(50ms);
    EXPECT_FALSE(done);
    then();
    waiter.join();
    EXPECT_LT(Clock::now() - start, kLong);
    return status;
  }
  std::size_t left_at(NodeId node) { return cluster[node].runtime().inspect().element_locks; }
};

TEST_F(Elements, OfOneLineAreLockedSideBySide) {
  ASSERT_TRUE(cluster[0].write_lock_element(at).ok());
  ASSERT_TRUE(cluster[1].write_lock_element(next).ok());
  ASSERT_TRUE(cluster[2].write_lock_element(next + 8).ok());
  ASSERT_TRUE(cluster[0].unlock_element(at).ok());
  ASSERT_TRUE(cluster[1].unlock_element(next).ok());
  ASSERT_TRUE(cluster[2].unlock_element(next + 8).ok());
  (void)cluster[0].allocate(8, Placement::on(1));  // what was sent before it has been worked on
  (void)cluster[2].allocate(8, Placement::on(1));
  EXPECT_EQ(left_at(1), 0u);
}

TEST_F(Elements, KeepNobodyFromTheirLine) {
  const global_ptr<std::uint64_t> word(at);
  ASSERT_TRUE(cluster[0].write_lock_element(at).ok());
  ASSERT_TRUE(cluster[0].write(word, 1).ok());
  for (NodeId node = 0; node < 3; ++node) {
    std::thread([&] {
      EXPECT_TRUE(cluster[node].fetch_add(word, 1).ok());
      EXPECT_TRUE(cluster[node].write_lock(at, 8).ok());  // of the line: another kind of lock
      EXPECT_TRUE(cluster[node].unlock(at, 8).ok());
    }).join();
  }
  EXPECT_EQ(cluster[0].read(word).value(), 4u);
  EXPECT_TRUE(cluster[0].unlock_element(at).ok());
}

TEST_F(Elements, AreSharedByReadersAndRefusedToTries) {
  for (NodeId node = 0; node < 3; ++node) ASSERT_TRUE(cluster[node].read_lock_element(at).ok());
  std::thread([&] {
    for (NodeId node = 0; node < 3; ++node) {
      EXPECT_EQ(cluster[node].try_write_lock_element(at).code(), Errc::kRefused);
      EXPECT_TRUE(cluster[node].try_read_lock_element(at).ok());
      EXPECT_TRUE(cluster[node].unlock_element(at).ok());
    }
  }).join();
  for (NodeId node = 0; node < 3; ++node) ASSERT_TRUE(cluster[node].unlock_element(at).ok());
  ASSERT_TRUE(cluster[2].write_lock_element(at).ok());  // not a try: an unlock takes a message to the home
  std::thread([&] { EXPECT_EQ(cluster[2].try_read_lock_element(at).code(), Errc::kRefused); }).join();
  ASSERT_TRUE(cluster[2].unlock_element(at).ok());
}

TEST_F(Elements, AreWaitedForByThreadsOfEveryNode) {
  for (NodeId holder = 0; holder < 3; ++holder) {
    for (NodeId waiter = 0; waiter < 3; ++waiter) {
      ASSERT_TRUE(cluster[holder].write_lock_element(at).ok());
      const Status status = while_waiting(
          [&] {
            const Status locked = cluster[waiter].read_lock_element(at);
            return locked.ok() ? cluster[waiter].unlock_element(at) : locked;
          },
          [&] { EXPECT_TRUE(cluster[holder].unlock_element(at).ok()); });
      EXPECT_TRUE(status.ok()) << holder << " " << waiter << ": " << status.to_string();
    }
  }
}

TEST_F(Elements, AReaderDoesNotOvertakeAWriterThatWaits) {
  ASSERT_TRUE(cluster[0].read_lock_element(at).ok());
  const Status status = while_waiting(
      [&] {
        const Status locked = cluster[2].write_lock_element(at);
        return locked.ok() ? cluster[2].unlock_element(at) : locked;
      },
      [&] {
        std::thread([&] { EXPECT_EQ(cluster[1].try_read_lock_element(at).code(), Errc::kRefused); }).join();
        EXPECT_TRUE(cluster[0].read_lock_element(at).ok());  // the thread that reads already may read again
        EXPECT_TRUE(cluster[0].unlock_element(at).ok());
        EXPECT_TRUE(cluster[0].unlock_element(at).ok());
      });
  EXPECT_TRUE(status.ok()) << status.to_string();
}

TEST_F(Elements, AThreadIsToldWhatItDoesWrong) {
  for (NodeId node = 0; node < 2; ++node) {
    Node& self = cluster[node];
    EXPECT_EQ(self.unlock_element(at).code(), Errc::kNotHeld);
    EXPECT_EQ(self.write_lock_element(GlobalAddress()).code(), Errc::kNullAddress);
    EXPECT_EQ(self.write_lock_element(GlobalAddress::make(9, 4096)).code(), Errc::kBadAddress);
    ASSERT_TRUE(self.write_lock_element(at).ok());
    EXPECT_EQ(self.write_lock_element(at).code(), Errc::kWouldDeadlock);
    EXPECT_EQ(self.read_lock_element(at).code(), Errc::kWouldDeadlock);
    EXPECT_EQ(self.try_write_lock_element(at).code(), Errc::kWouldDeadlock);
    EXPECT_EQ(self.unlock_element(next).code(), Errc::kNotHeld);
    std::thread([&] { EXPECT_EQ(self.unlock_element(at).code(), Errc::kNotHeld); }).join();
    ASSERT_TRUE(self.unlock_element(at).ok());
    EXPECT_EQ(self.unlock_element(at).code(), Errc::kNotHeld);
    ASSERT_TRUE(self.read_lock_element(at).ok());
    EXPECT_EQ(self.write_lock_element(at).code(), Errc::kWouldDeadlock);
    ASSERT_TRUE(self.unlock_element(at).ok());
  }
}

TEST_F(Elements, CountExactlyUnderContention) {
  constexpr int kThreads = 2, kRounds = 200;
  const global_ptr<std::uint64_t> counters[] = {global_ptr<std::uint64_t>(at), global_ptr<std::uint64_t>(next)};
  std::vector<std::thread> threads;
  for (NodeId node = 0; node < 3; ++node) {
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, node, t] {
        for (int i = 0; i < kRounds; ++i) {
          const auto counter = counters[(i + t) % 2];
          cluster[node].write_lock_element(counter.address()).or_throw();
          cluster[node].write(counter, cluster[node].read(counter).value() + 1).or_throw();
          cluster[node].unlock_element(counter.address()).or_throw();
        }
      });
    }
  }
  for (auto& thread : threads) thread.join();
  const std::uint64_t sum = cluster[0].read(counters[0]).value() + cluster[0].read(counters[1]).value();
  EXPECT_EQ(sum, 3u * kThreads * kRounds);
}

TEST_F(Elements, ANodeMayHaveManyButNotAnyNumber) {
  const std::uint64_t most = coherence::ElementLocks::kMostRequests;
  const GlobalAddress many = cluster[0].allocate(8 * (most + 1), Placement::on(1)).value();
  for (std::uint64_t i = 0; i < most; ++i) ASSERT_TRUE(cluster[0].write_lock_element(many + std::int64_t(8 * i)).ok());
  EXPECT_EQ(cluster[0].write_lock_element(many + std::int64_t(8 * most)).code(), Errc::kOutOfMemory);
  EXPECT_TRUE(cluster[2].write_lock_element(at).ok());  // others are served
  EXPECT_TRUE(cluster[2].unlock_element(at).ok());
  for (std::uint64_t i = 0; i < most; ++i) ASSERT_TRUE(cluster[0].unlock_element(many + std::int64_t(8 * i)).ok());
  EXPECT_TRUE(cluster[0].write_lock_element(at).ok());
  EXPECT_TRUE(cluster[0].unlock_element(at).ok());
}

// ---- deaths ----

TEST_F(Elements, OfAWriterThatDiedAreRefusedToAll) {
  ASSERT_TRUE(cluster[2].write_lock_element(at).ok());
  for (const NodeId waiter : {NodeId(0)}) {
    const Status status =
        while_waiting([&] { return cluster[waiter].write_lock_element(at); }, [&] { cluster.hub().kill(2); });
    EXPECT_EQ(status.code(), Errc::kNodeDied);
    EXPECT_EQ(status.node(), 2);
  }
  for (const NodeId other : {NodeId(0), NodeId(1)}) {
    const Status status = cluster[other].try_read_lock_element(at);
    EXPECT_EQ(status.code(), Errc::kNodeDied);
    EXPECT_EQ(status.node(), 2);
    EXPECT_TRUE(cluster[other].write_lock_element(next).ok());
    EXPECT_TRUE(cluster[other].unlock_element(next).ok());
  }
}

TEST_F(Elements, OfAReaderThatDiedAreFree) {
  ASSERT_TRUE(cluster[2].read_lock_element(at).ok());
  const Status status =
      while_waiting([&] { return cluster[0].write_lock_element(at); }, [&] { cluster.hub().kill(2); });
  EXPECT_TRUE(status.ok()) << status.to_string();
}

TEST_F(Elements, OfAHomeThatDiedEndEveryWait) {
  ASSERT_TRUE(cluster[2].write_lock_element(at).ok());
  const Status status =
      while_waiting([&] { return cluster[0].write_lock_element(at); }, [&] { cluster.hub().kill(1); });
  EXPECT_EQ(status.code(), Errc::kNodeDied);
  EXPECT_EQ(status.node(), 1);
  EXPECT_EQ(cluster[0].try_read_lock_element(at).code(), Errc::kNodeDied);
  EXPECT_EQ(cluster[2].unlock_element(at).code(), Errc::kNodeDied);
  EXPECT_EQ(cluster[2].unlock_element(at).code(), Errc::kNotHeld);
}

/// Who has waited long enough withdraws, and is not in the way of others.
TEST_F(Elements, WhoGivesUpWaitingIsForgotten) {
  ASSERT_TRUE(cluster[1].read_lock_element(at).ok());
  cluster.hub().kill(2);  // a death that has nothing to do with it ends the wait after the grace
  const auto start = Clock::now();
  std::thread([&] { EXPECT_EQ(cluster[0].write_lock_element(at).code(), Errc::kNodeDied); }).join();
  EXPECT_LT(Clock::now() - start, kLong);
  EXPECT_TRUE(cluster[0].read_lock_element(at).ok());  // which a writer that waits would keep out
  EXPECT_TRUE(cluster[0].unlock_element(at).ok());
  EXPECT_TRUE(cluster[1].unlock_element(at).ok());
  (void)cluster[0].allocate(8, Placement::on(1));
  EXPECT_EQ(left_at(1), 0u);
}

}  // namespace
}  // namespace atoll::test
