// Nodes of which a test says every word.
#pragma once

#include <gtest/gtest.h>

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

  void begin(NodeId node, const Frame& joined, NodeId nodes, std::uint32_t incarnation) {
    nodes_ = nodes;
    lease_.emplace(node, incarnation, LeaseTimes::of_ms(60'000, 60'000));
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

/// One end of a control connection that reports when it is told to, and answers nothing by itself.
class FakePeer {
 public:
  static constexpr auto kPatience = std::chrono::seconds(30);

  explicit FakePeer(Connection connection) : connection_(std::move(connection)) {}
  void send(Json body, std::vector<SharedFd> fds = {}) {
    EXPECT_TRUE(connection_.send(std::move(body), std::move(fds)));
  }
  /// The next frame that is no answer to a report, or {"op": "none"} with why there is none.
  Frame next(std::chrono::milliseconds timeout = kPatience) {
    const auto deadline = Clock::now() + timeout;
    while (true) {
      Frame frame;
      const Status status = await_frame(connection_, frame, deadline);
      if (!status.ok()) frame.body = {{"op", "none"}, {"why", status.to_string()}};
      if (!status.ok() || !lease_.take(frame)) return frame;
    }
  }
  /// Takes answers, for so long; stops at the first.
  void hear(std::chrono::milliseconds timeout) {
    Frame frame;
    if (!await_frame(connection_, frame, Clock::now() + timeout).ok()) return;
    EXPECT_TRUE(lease_.take(frame)) << frame.body;
  }
  /// `incarnation`: 0 for the usual one of that node.
  Frame join(NodeId node, int pid, std::uint32_t line = 512, std::uint32_t version = kProtocolVersion,
             std::uint32_t incarnation = 0) {
    if (incarnation == 0) incarnation = FakeLease::incarnation_of(node);
    send({{"op", "join"},
          {"node", node},
          {"incarnation", incarnation},
          {"pid", pid},
          {"memory", 1 << 20},
          {"cache", 65536},
          {"line", line},
          {"version", version}});
    Frame frame = next();
    if (frame.op() == "joined") lease_.begin(node, frame, frame.body.at("nodes").get<NodeId>(), incarnation);
    return frame;
  }
  FakeLease& lease() { return lease_; }
  [[nodiscard]] int fd() const { return connection_.fd(); }

 private:
  Connection connection_;
  FakeLease lease_;
};

/// Lets nodes report until all may act, or so often; others that they need must do so by themselves.
inline void activate(const std::vector<FakePeer*>& nodes, unsigned rounds = UINT32_MAX) {
  const auto end = Clock::now() + FakePeer::kPatience;
  const auto active = [](FakePeer* node) { return node->lease().state() == LeaseState::kActive; };
  for (; rounds > 0 && !std::all_of(nodes.begin(), nodes.end(), active) && Clock::now() < end; --rounds) {
    for (FakePeer* node : nodes) {
      node->send(node->lease().report());
      node->hear(std::chrono::milliseconds(5));
    }
  }
}

}  // namespace atoll::cluster
