// The lease of a node of which a test says every word: it reports when it is told to.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "base/boot_clock.hpp"
#include "cluster/control.hpp"
#include "cluster/lease_frames.hpp"
#include "cluster/lease_node.hpp"

namespace atoll::cluster {

class FakeLease {
 public:
  static std::uint32_t incarnation_of(NodeId node) noexcept { return 1000u + node; }

  void begin(NodeId node, const Frame& joined, NodeId nodes) {
    nodes_ = nodes;
    lease_.emplace(node, incarnation_of(node), LeaseTimes::of_ms(60'000, 60'000));
    (void)lease_->connected(joined.body.at("term").get<Term>());
  }
  [[nodiscard]] Json report() { return to_json(lease_->report(base::boot_ns())); }
  /// False when it is no answer.
  bool take(const Frame& frame) {
    if (frame.op() != "answer" || !lease_) return false;
    std::string why;
    lease_->on_answer(answer_of(frame.body, nodes_, why).value(), base::boot_ns());
    return true;
  }
  [[nodiscard]] LeaseState state() const noexcept { return lease_->state(); }
  [[nodiscard]] const Epoch& epoch() const noexcept { return lease_->epoch(); }

 private:
  NodeId nodes_ = 0;
  std::optional<LeaseNode> lease_;
};

/// Lets nodes report until all may act; others that they need must do so by themselves.
template <typename Node>
void activate(const std::vector<Node*>& nodes) {
  const auto end = Clock::now() + std::chrono::seconds(30);
  const auto active = [](Node* node) { return node->lease().state() == LeaseState::kActive; };
  while (!std::all_of(nodes.begin(), nodes.end(), active) && Clock::now() < end) {
    for (Node* node : nodes) {
      node->send(node->lease().report());
      node->hear(std::chrono::milliseconds(5));
    }
  }
}

}  // namespace atoll::cluster
