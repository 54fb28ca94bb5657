// A cluster in virtual time: that it works at all, and that the same seed gives the same history.
#include "sim/cluster.hpp"

#include <gtest/gtest.h>

namespace atoll::sim {
namespace {

ClusterOptions small(std::uint64_t seed, NodeId nodes) {
  ClusterOptions options;
  options.seed = seed;
  options.nodes = nodes;
  options.node.memory_bytes = 1 << 20;
  options.node.cache_bytes = 64 * 512;
  return options;
}

struct History {
  Time end = 0;
  std::uint64_t messages = 0;
  std::uint64_t switches = 0;
  std::uint64_t sum = 0;
  friend bool operator==(const History&, const History&) = default;
};

History count_together(std::uint64_t seed) {
  Cluster cluster(small(seed, 3));
  History history;
  for (NodeId id = 0; id < 3; ++id) {
    for (int thread = 0; thread < 2; ++thread) {
      cluster.spawn(id, [id, thread, &history](Node& node) {
        if (id == 0 && thread == 0) {
          const auto counter = node.allocate<std::uint64_t>();
          ASSERT_TRUE(counter.ok());
          ASSERT_TRUE(node.publish("counter", counter->address()).ok());
        }
        const auto root = node.lookup("counter", std::chrono::seconds(1));
        ASSERT_TRUE(root.ok());
        const global_ptr<std::uint64_t> counter(*root);
        for (int i = 0; i < 50; ++i) {
          ASSERT_TRUE(node.write_lock(*root, 8).ok());
          const auto value = node.read(counter);
          ASSERT_TRUE(value.ok());
          ASSERT_TRUE(node.write(counter, *value + 1).ok());
          ASSERT_TRUE(node.unlock(*root, 8).ok());
          ASSERT_TRUE(node.fetch_add(counter, 1).ok());
        }
        history.sum = std::max(history.sum, node.read(counter).value());
      });
    }
  }
  cluster.run();
  cluster.settle();
  cluster.audit(true);
  history.end = cluster.machine().time();
  history.messages = cluster.network().messages();
  history.switches = cluster.machine().switches();
  return history;
}

TEST(SimCluster, CountsTogether) {
  const History history = count_together(1);
  EXPECT_EQ(history.sum, 600u);
  EXPECT_GT(history.messages, 10u);
}

TEST(SimCluster, OneSeedOneHistory) {
  const History first = count_together(7);
  EXPECT_EQ(first, count_together(7));
  EXPECT_NE(first, count_together(8));
}

TEST(SimCluster, WhoWaitsForADeadNodeIsTold) {
  Cluster cluster(small(3, 2));
  GlobalAddress far;
  bool locked = false;
  cluster.spawn(1, [&](Node& node) {
    far = node.allocate(64, Placement::on(1)).value();
    ASSERT_TRUE(node.write_lock(far, 8).ok());
    locked = true;
    EXPECT_FALSE(node.barrier(std::chrono::hours(1)).ok());  // nobody else comes
  });
  cluster.spawn(0, [&](Node& node) {
    while (!locked) (void)node.lookup("nothing", std::chrono::milliseconds(1));
    const Status status = node.read_lock(far, 8);
    EXPECT_EQ(status.code(), Errc::kNodeDied);
  });
  EXPECT_FALSE(cluster.machine().run([&] { return false; }, 5'000'000));
  cluster.kill(1);
  cluster.run();
}

TEST(SimCluster, ASuspendedNodeWaitsAndIsWaitedFor) {
  ClusterOptions options = small(2, 3);
  options.node.read_in_place = false;  // what stands at the home is right, whoever reads it
  Cluster cluster(options);
  GlobalAddress word;
  Time read_at = 0, written_at = 0;
  cluster.spawn(0, [&](Node& node) {
    word = node.allocate(8, Placement::on(0)).value();
    ASSERT_TRUE(node.write(word, std::uint64_t{1}).ok());
  });
  cluster.run();
  cluster.spawn(1, [&](Node& node) { EXPECT_EQ(node.read<std::uint64_t>(word).value(), 1u); });  // a copy is there
  cluster.run();
  const Time from = cluster.machine().time();
  cluster.suspend(1, 400'000);
  cluster.spawn(1, [&](Node& node) {
    cluster.machine().sleep_for(std::chrono::microseconds(50));
    EXPECT_TRUE(node.read<std::uint64_t>(word).ok());
    read_at = cluster.machine().time();
  });
  cluster.spawn(0, [&](Node& node) {
    ASSERT_TRUE(node.fetch_add(global_ptr<std::uint64_t>(word), 1).ok());
    written_at = cluster.machine().time();
  });
  cluster.run();
  EXPECT_GE(read_at, from + 400'000);
  EXPECT_GE(written_at, from + 400'000);
}

}  // namespace
}  // namespace atoll::sim
