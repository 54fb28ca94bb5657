// Arrays in one process: what ThreadSanitizer can look at. All else is in tests/behaviour/api_arrays.cpp.
#include "atoll/array.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "support/local_cluster.hpp"

namespace atoll {
namespace {

using test::LocalCluster;

/// Runs `f(node)` on all nodes at once, each in a thread that has never been another node's.
template <typename F>
void on_all(LocalCluster& cluster, NodeId count, F f) {
  std::vector<std::jthread> threads;
  for (NodeId id = 0; id < count; ++id) threads.emplace_back([&, id] { f(cluster[id]); });
}

TEST(Array, PartsAreFilledByManyThreadsAndReadByAll) {
  LocalCluster cluster(3);
  on_all(cluster, 3, [](Node& node) {
    const Array<std::uint64_t> array(node, 3000, {.chunk = 64});
    array.parallel_for(2, [&](std::uint64_t i) { array.set(i, i).or_throw(); });
    node.barrier().or_throw();
    for (std::uint64_t i = 0; i < array.size(); ++i) ASSERT_EQ(array.get(i).value(), i);
    node.barrier().or_throw();
    for (std::uint64_t i = 0; i < array.size(); i += 5) {
      ASSERT_TRUE(array.apply(i, op::add<std::uint64_t>, 10).ok());
    }
    node.barrier().or_throw();
    for (std::uint64_t i = 0; i < array.size(); ++i) ASSERT_EQ(array.get(i).value(), i + (i % 5 == 0 ? 30 : 0));
  });
}

/// Elements of 12 bytes: 42 to a line, and 8 bytes left over.
TEST(Array, ElementsThatAreNoWordsAreCombined) {
  using Three = std::array<std::uint32_t, 3>;
  LocalCluster cluster(3);
  on_all(cluster, 3, [](Node& node) {
    const auto add = node.register_op<Three>("add", {}, [](Three a, Three b) {
      return Three{a[0] + b[0], a[1] + b[1], a[2] + b[2]};
    });
    const Array<Three> array(node, 500, {.chunk = 50});
    for (std::uint32_t i = 0; i < 2000; ++i) ASSERT_TRUE(array.apply(i % 500, *add, {1, i, 2 * i}).ok());
    node.barrier().or_throw();
    for (std::uint32_t i = 0; i < 500; ++i) {
      const std::uint32_t sum = 3 * (4 * i + 3000);
      ASSERT_EQ(array.get(i).value(), (Three{12, sum, 2 * sum})) << i;
    }
  });
}

/// One that fails, then many, freed in another order than they were made in.
TEST(Array, ManyAtOnceComeAndGo) {
  LocalCluster cluster(2);
  std::atomic<int> refused{0};
  on_all(cluster, 2, [&](Node& node) {
    { const Array<int> first(node, 1); }  // brings the table by which arrays are made
    const std::uint64_t before = node.stats().memory_free_bytes;
    try {
      const Array<std::uint64_t> too_large(node, 1 << 30);
    } catch (const Error& error) {
      refused += error.code() == Errc::kOutOfMemory ? 1 : 0;
    }
    std::vector<Array<std::uint32_t>> arrays;
    for (std::uint64_t i = 0; i < 20; ++i) arrays.emplace_back(node, 100 + i);
    for (std::uint32_t i = 0; i < 20; ++i) ASSERT_TRUE(arrays[i].set(node.id(), i).ok());
    for (std::uint32_t i = 0; i < 20; i += 2) ASSERT_TRUE(arrays[i].free().ok());
    EXPECT_EQ(arrays[0].free().code(), Errc::kNotAllocated);
    for (std::uint32_t i = 1; i < 20; i += 2) ASSERT_EQ(arrays[i].get(node.id()).value(), i);
    arrays.clear();
    node.barrier().or_throw();
    EXPECT_EQ(node.stats().memory_free_bytes, before);
  });
  EXPECT_EQ(refused, 2);
}

/// A node that died: an error on the others, and no hang.
TEST(Array, CannotBeMadeWithoutADeadNode) {
  LocalCluster cluster(2);
  cluster.hub().kill(1);
  std::jthread([&] { EXPECT_THROW(Array<int>(cluster[0], 100), Error); });
}

}  // namespace
}  // namespace atoll
