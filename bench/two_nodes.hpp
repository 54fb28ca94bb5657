// Two nodes of which one measures.
#pragma once

#include <nlohmann/json.hpp>

#include "atoll/node.hpp"

namespace atoll::bench {

/// Node 0 measures while the main thread of node 1 sleeps in a barrier.
///
/// Thread-safety: none; every method but `measures` is called by both nodes alike.
class TwoNodes {
 public:
  TwoNodes(Node& joined, const nlohmann::json& job)
      : node(joined), quick(job.at("quick").get<bool>()), repetitions(job.at("repetitions").get<int>()) {}

  [[nodiscard]] bool measures() const noexcept { return node.id() == 0; }
  void together() { node.barrier().or_throw(); }
  /// Runs `work` on node 0 while node 1 sleeps in a barrier.
  template <typename Work>
  void alone(Work&& work) {
    together();
    if (measures()) work();
    together();
  }

  Node& node;
  const bool quick;
  const int repetitions;
};

}  // namespace atoll::bench
