// Arrays in one process: what ThreadSanitizer can look at. All else is in tests/behaviour/api_arrays.cpp.
#include "atoll/array.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <stdexcept>
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

/// Threads of one node that read by what they remember, while another node writes.
TEST(Array, WhatThreadsRememberIsNeverOld) {
  LocalCluster cluster(2);
  constexpr std::uint64_t kCount = 2048, kRounds = 60;
  std::atomic<std::uint64_t> written{0};  // rounds
  on_all(cluster, 2, [&](Node& node) {
    const Array<std::uint64_t> array(node, kCount, {.chunk = 256});
    ASSERT_EQ(array.chunk(), 256u);
    if (node.id() == 1) {
      for (std::uint64_t round = 1; round <= kRounds; ++round) {
        for (std::uint64_t i = 0; i < kCount; i += 3) array.set(i, round).or_throw();
        written.store(round, std::memory_order_release);
      }
    } else {
      std::vector<std::jthread> readers;
      for (std::uint64_t t = 0; t < 2; ++t) {
        readers.emplace_back([&, t] {
          std::vector<std::uint64_t> last(kCount);
          while (written.load(std::memory_order_acquire) < kRounds) {
            const std::uint64_t least = written.load(std::memory_order_acquire);
            for (std::uint64_t k = 0; k < kCount / 3; ++k) {
              const std::uint64_t i = 3 * (t == 0 ? k : k * 7 % (kCount / 3));  // in order, and not
              const std::uint64_t found = array.get(i).value();
              ASSERT_GE(found, least) << i;
              ASSERT_GE(found, last[i]) << i;
              last[i] = found;
            }
          }
        });
      }
    }
    node.barrier().or_throw();
    for (std::uint64_t i = 0; i < kCount; i += 3) ASSERT_EQ(array.get(i).value(), kRounds);
  });
}

/// A part whose last grain is not full: what is behind its elements has no words.
TEST(Array, EndsWhereItEnds) {
  LocalCluster cluster(2);
  on_all(cluster, 2, [&](Node& node) {
    const Array<std::uint64_t> array(node, 1000, {.chunk = 512});
    for (std::uint64_t i = node.id(); i < array.size(); i += 2) ASSERT_TRUE(array.set(i, i).ok());
    node.barrier().or_throw();
    for (std::uint64_t i = 0; i < array.size(); ++i) ASSERT_EQ(array.get(i).value(), i);
    // The lines behind, by the byte API: they are memory, but no elements.
    const GlobalAddress behind = array.at(999).address() + (8 + 24 * 8);
    ASSERT_TRUE(node.read<std::uint64_t>(behind).ok());
    ASSERT_TRUE(node.write<std::uint64_t>(behind + 4096, 1, Consistency::kTso).ok());
    node.barrier().or_throw();
    for (std::uint64_t i = 0; i < array.size(); ++i) ASSERT_EQ(array.get(i).value(), i);
    ASSERT_FALSE(array.get(1000).ok());
  });
}

/// A node that dies before the array is freed.
TEST(Array, IsNotFreedWithoutADeadNode) {
  LocalCluster cluster(2);
  on_all(cluster, 2, [&](Node& node) {
    try {
      Array<std::uint64_t> array(node, 5000);
      ASSERT_TRUE(array.set(node.id(), 1).ok());
      node.barrier().or_throw();
      if (node.id() == 1) {
        cluster.hub().kill(1);
        throw std::runtime_error("who unwinds does not wait for the others");
      }
      EXPECT_EQ(array.free().code(), Errc::kNodeDied);
    } catch (const std::runtime_error&) {
      EXPECT_EQ(node.id(), 1);
    }
  });
}

/// A node that died: an error on the others, and no hang.
TEST(Array, CannotBeMadeWithoutADeadNode) {
  LocalCluster cluster(2);
  cluster.hub().kill(1);
  std::jthread([&] { EXPECT_THROW(Array<int>(cluster[0], 100), Error); });
}

}  // namespace
}  // namespace atoll
