// Three nodes whose threads combine operands.
#pragma once

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "support/local_cluster.hpp"

namespace atoll::test {

class Operating : public testing::Test {
 protected:
  explicit Operating(const Options& options = LocalCluster::small_options()) : cluster(3, options) {}

  LocalCluster cluster;
  Node& home = cluster[1];

  /// In threads that have never been another node's: see "Several nodes in one process" in docs/memory-model.md.
  template <typename F>
  void on_all(int threads, F f) {
    std::vector<std::thread> running;
    for (NodeId node = 0; node < 3; ++node) {
      for (int t = 0; t < threads; ++t) {
        running.emplace_back([this, f, node, t] {
          f(cluster[node], node, t);
          EXPECT_TRUE(cluster[node].fence().ok());
        });
      }
    }
    for (std::thread& thread : running) thread.join();
  }
  template <typename F>
  static void in_thread(F f) {
    std::thread(f).join();
  }
  template <typename T>
  [[nodiscard]] static T read(Node& node, global_ptr<T> at) {
    T value{};
    in_thread([&] { value = node.read(at).value(); });
    return value;
  }
};

}  // namespace atoll::test
