// Threads that come and go, and nodes that do.
#include <gtest/gtest.h>

#include <atomic>

#include "base/random.hpp"
#include "support/seed.hpp"
#include "unit/runtime/workers.hpp"

namespace atoll::test {
namespace {

using namespace std::chrono_literals;

bool eventually(const std::function<bool()>& holds) {
  for (const auto end = std::chrono::steady_clock::now() + 30s; std::chrono::steady_clock::now() < end;) {
    if (holds()) return true;
    std::this_thread::sleep_for(1ms);
  }
  return false;
}

/// A thread that ends does not take its writes with it, whether they are done or still under way.
TEST(Threads, ThatEndWithWritesUnderWayLoseNone) {
  LocalCluster cluster(2);
  constexpr int kThreads = scaled(400) + 20;
  const auto lines = lines_on_all(cluster, 100);
  std::vector<std::uint64_t> expected(lines.size(), 0);
  in_workers(cluster, 1, [&](Node& node, int worker) {
    for (int i = 0; i < kThreads; ++i) {
      std::thread([&] {
        for (std::size_t k = 0; k < 5; ++k) {
          ASSERT_TRUE(node.write(lines[(std::size_t(i) * 5 + k) % lines.size()] + worker, std::uint64_t(i + 1)).ok());
        }
      }).join();
    }
  });
  for (int i = 0; i < kThreads; ++i) {
    for (std::size_t k = 0; k < 5; ++k) expected[(std::size_t(i) * 5 + k) % lines.size()] = std::uint64_t(i + 1);
  }
  for (int worker = 0; worker < 2; ++worker) {
    for (std::size_t line = 0; line < lines.size(); ++line) {
      // Not before the next write to the line: without a fence nobody knows when, or in which order.
      EXPECT_TRUE(eventually([&] { return cluster[0].read(lines[line] + worker).value() != 0; }));
    }
  }
}

/// Short-lived threads that wait for others: who tells them that they are done must not find them gone.
TEST(Threads, ThatEndRightAfterAWait) {
  LocalCluster cluster(2);
  const auto counters = lines_on_all(cluster, 2);
  constexpr int kThreads = scaled(600) + 20;
  in_workers(cluster, 2, [&](Node& node, int) {
    for (int i = 0; i < kThreads; ++i) {
      std::thread([&] { ASSERT_TRUE(node.fetch_add(counters[std::size_t(i) % 2], 1).ok()); }).join();
    }
  });
  EXPECT_EQ(cluster[0].read(counters[0]).value() + cluster[0].read(counters[1]).value(), 4u * kThreads);
}

TEST(Threads, ManyAtOnce) {
  LocalCluster cluster(2);
  const auto counter = cluster[0].allocate<std::uint64_t>().value();
  in_workers(cluster, 12, [&](Node& node, int) {
    for (int i = 0; i < scaled(300); ++i) ASSERT_TRUE(node.fetch_add(counter, 1).ok());
  });
  EXPECT_EQ(cluster[1].read(counter).value(), 24u * scaled(300));
}

/// This thread outlives the nodes that it has used, and meets new ones, perhaps at the same place in memory.
TEST(Threads, ThatOutliveNodesFindNothingOfThem) {
  for (int i = 0; i < 30; ++i) {
    LocalCluster cluster(2);
    const auto there = cluster[0].allocate<std::uint64_t>(1, Placement::on(1)).value();
    ASSERT_EQ(cluster[0].read(there).value(), 0u);
    ASSERT_TRUE(cluster[0].write(there, 7).ok());
    ASSERT_TRUE(cluster[0].write_lock(there.address(), 8).ok());
    ASSERT_EQ(cluster[0].unlock(there.address(), 8).code(), Errc::kOk);
    ASSERT_EQ(cluster[1].read(there).value(), 7u);
  }
}

/// The inlined read of a thread that was told looks at the line again, and what it was told is over then.
TEST(Threads, ThatAreToldReadAgain) {
  LocalCluster cluster(2);
  ASSERT_TRUE(cluster[0].fence().ok());
  const NodeId first = detail::t_slot.read_limit != 0 ? 0 : 1;  // the one that came first has inlined hits
  Node &node = cluster[first], &other = cluster[NodeId(1 - first)];
  const auto word = node.allocate<std::uint64_t>(1).value();
  ASSERT_TRUE(node.write(word, 5).ok());
  ASSERT_EQ(node.read(word).value(), 5u);
  detail::store_shared(detail::t_slot.told, 1u);
  std::uint64_t seen = 0;
  EXPECT_FALSE(detail::read_hit(word.address().bits(), seen));
  EXPECT_EQ(node.read(word).value(), 5u);
  EXPECT_EQ(detail::load_shared(detail::t_slot.told), 0u);
  // Another node's wish takes the line from this one's writers, and tells its readers.
  std::thread([&] { ASSERT_TRUE(other.fetch_add(word, 1).ok()); }).join();
  EXPECT_EQ(detail::load_shared(detail::t_slot.told), 1u);
  EXPECT_EQ(node.read(word).value(), 6u);
}

TEST(Threads, OfTheFirstNodeOfAProcessHitInline) {
  LocalCluster cluster(1);
  const auto word = cluster[0].allocate<std::uint64_t>(1).value();
  ASSERT_TRUE(cluster[0].write(word, 5).ok());
  ASSERT_EQ(cluster[0].read(word).value(), 5u);  // the first access of a thread is never inlined
  std::uint64_t seen = 0;
  ASSERT_TRUE(detail::read_hit(word.address().bits(), seen));
  EXPECT_EQ(seen, 5u);
#ifndef ATOLL_TSAN  // under which all lines are fenced, and have no inlined writes
  EXPECT_TRUE(detail::write_hit(word.address().bits(), std::uint64_t{6}));
  EXPECT_EQ(cluster[0].read(word).value(), 6u);
#endif
}

/// An object of a thread that was there before the thread's first access and goes after its places were given up.
struct Late {
  Node* node = nullptr;
  global_ptr<std::uint64_t> word;
  ~Late() {
    if (node == nullptr) return;
    EXPECT_TRUE(node->fetch_add(word, 1).ok());
    EXPECT_TRUE(node->write(word + 1, 7).ok());
    EXPECT_TRUE(node->fence().ok());
  }
};

TEST(Threads, MayUseTheNodeToTheVeryEnd) {
  LocalCluster cluster(2);
  const auto word = cluster[1].allocate<std::uint64_t>(2, Placement::local()).value();
  for (int i = 0; i < 3; ++i) {
    std::thread([&] {
      static thread_local Late late;
      late.node = &cluster[0];
      late.word = word;
      ASSERT_TRUE(cluster[0].read(word).ok());
    }).join();
  }
  EXPECT_EQ(cluster[1].read(word).value(), 3u);
  EXPECT_EQ(cluster[1].read(word + 1).value(), 7u);
}

TEST(Threads, AreToldApartInTheStatistics) {
  LocalCluster cluster(2);
  constexpr std::uint64_t kWords = 64 * 64 * 64;  // so many that the sample of the inlined hits is fair
  const auto words = cluster[0].allocate<std::uint64_t>(kWords, Placement::local()).value();
  const auto read_all = [&] {
    for (std::uint64_t i = 0; i < kWords; ++i) (void)cluster[0].read(words + std::int64_t(i));
  };
  read_all();
  const std::uint64_t before = cluster[0].stats().hits;
  std::thread(read_all).join();
  const std::uint64_t after = cluster[0].stats().hits;
  EXPECT_NEAR(double(after - before), double(kWords), kWords / 20.0);
}

TEST(Threads, OfOneNodeShareItsBarriers) {
  LocalCluster cluster(2);
  // Each call of barrier is one arrival of the node: two threads make two rounds, in whatever order.
  in_workers(cluster, 2, [&](Node& node, int) {
    for (int i = 0; i < 50; ++i) ASSERT_TRUE(node.barrier(60s).ok());
  });
}

}  // namespace
}  // namespace atoll::test
