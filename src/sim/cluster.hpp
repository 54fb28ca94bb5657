// A whole cluster in virtual time: real nodes on a simulated machine and network.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "atoll/node.hpp"
#include "runtime/inspection.hpp"
#include "sim/machine.hpp"
#include "sim/network.hpp"

namespace atoll::runtime {
class Runtime;
}

namespace atoll::sim {

struct ClusterOptions {
  std::uint64_t seed = 1;
  NodeId nodes = 2;
  Options node;  // what every node joins with
  NetworkOptions network;
  std::chrono::microseconds death_notice{200};  // from a node's end until the others are told
};

/// Thread-safety: the machine's. Bodies run as fibers and may call everything of Node.
class Cluster {
 public:
  explicit Cluster(const ClusterOptions& options);
  /// All nodes leave, unless bodies of them are still at work (after a failure): then they stay for ever.
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  /// A thread of this node. It begins when `run` is called.
  void spawn(NodeId node, std::function<void(Node&)> body);
  /// Runs until all bodies have ended. Throws what one threw, and Failure when they do not end.
  void run();
  /// The same for a while. False: some are still at work.
  [[nodiscard]] bool run_for(Time time);
  /// All nodes leave; nothing can be done with the cluster afterwards. REQUIRES: all bodies have ended. Those of nodes
  /// that were killed go on and end here, in a world of their own in which all others are gone.
  void leave();
  /// Runs until nothing is under way any more between the nodes. Throws Failure when that does not come.
  void settle();
  /// The node stops, in the middle of whatever it does. The others learn of it a little later.
  void kill(NodeId node);
  /// The node's right to act ends for so long, as when the master is not heard. Nothing when it is suspended already.
  void suspend(NodeId node, Time time);
  [[nodiscard]] bool is_dead(NodeId node) const noexcept { return dead_[node]; }
  [[nodiscard]] bool any_dead() const noexcept { return any_dead_; }
  /// Throws Failure unless all that must hold when nothing is under way holds. REQUIRES: settled, no node was killed.
  /// `exact_sharers`: nobody has tried for a write lock. Who refuses a try and drops its copy before the home has all
  /// answers stays on its list until the next write.
  void audit(bool exact_sharers);

  [[nodiscard]] Machine& machine() noexcept { return machine_; }
  [[nodiscard]] Network& network() noexcept { return network_; }
  [[nodiscard]] const ClusterOptions& options() const noexcept { return options_; }

 private:
  class SimMembership;
  class Notice;
  class Renewal;
  void join(NodeId id);
  void audit_node(NodeId node, const runtime::Inspection& held) const;
  void audit_line(const runtime::Inspection::LineHere& home,
                  const std::vector<const runtime::Inspection::LineHere*>& copies, bool exact_sharers) const;

  ClusterOptions options_;
  Machine machine_;
  Network network_;
  std::map<std::string, GlobalAddress, std::less<>> roots_;
  NodeId left_ = 0;  // nodes that have left
  bool leaving_ = false;
  std::vector<bool> dead_;
  bool any_dead_ = false;
  std::vector<runtime::Runtime*> runtimes_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<std::uint32_t> bodies_;  // that are at work, of each node
  std::uint32_t living_bodies_ = 0;    // of nodes that were not killed
  std::vector<std::unique_ptr<Notice>> notices_;
  std::vector<std::atomic<std::int64_t>> act_until_;  // of each node
  std::vector<std::unique_ptr<Renewal>> renewals_;    // of each node
};

}  // namespace atoll::sim
