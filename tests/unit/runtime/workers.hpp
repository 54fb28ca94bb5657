// Many threads per node of a LocalCluster, for the stress tests.
#pragma once

#include <functional>
#include <thread>
#include <vector>

#include "support/local_cluster.hpp"

namespace atoll::test {

/// Runs `f(node, worker)` on `per_node` threads for each node, workers numbered through, and waits for all.
inline void in_workers(LocalCluster& cluster, int per_node, const std::function<void(Node&, int)>& f) {
  std::vector<std::thread> threads;
  for (int worker = 0; worker < cluster.count() * per_node; ++worker) {
    threads.emplace_back([&, worker] { f(cluster[NodeId(worker % cluster.count())], worker); });
  }
  for (auto& thread : threads) thread.join();
}

/// One line of its own for each of `count` objects of 512 bytes, homes in turn.
inline std::vector<global_ptr<std::uint64_t>> lines_on_all(LocalCluster& cluster, int count) {
  std::vector<global_ptr<std::uint64_t>> lines;
  for (int i = 0; i < count; ++i) {
    Node& node = cluster[NodeId(i % cluster.count())];
    lines.push_back(node.allocate<std::uint64_t>(node.line_bytes() / 8, Placement::local()).value());
  }
  return lines;
}

}  // namespace atoll::test
