// A whole cluster in virtual time: real nodes on a simulated machine and network.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "atoll/node.hpp"
#include "runtime/inspection.hpp"
#include "sim/machine.hpp"
#include "sim/network.hpp"
#include "storage/faulty_disk.hpp"
#include "storage/faulty_page_store.hpp"

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
  storage::PageFaults page_faults;              // of the disks that files are on, where nodes have file space
};

/// What the work of a node that has crashed throws to get out of where it stands. See Cluster::crash.
struct Vanished {};

/// Nodes of a logged cluster crash and come back: each time another life of the node, with a disk that outlives them. A
/// life that is over stands still until all leave; then it ends in a world of its own, which reaches neither the other
/// nodes nor the disk.
///
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
  /// Runs until all bodies have ended and all nodes are there. Throws what one threw, and Failure when they do not end.
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
  /// In a logged cluster it may also stand still for that time, as a process that was stopped.
  void suspend(NodeId node, Time time);
  /// In a logged cluster: the node stops in the middle of whatever it does, and so do its bodies; after `away` it comes
  /// back. Nothing when it is away. Not to be called by a fiber (see `crash_soon`).
  void crash(NodeId node, Time away);
  /// The same, a little later.
  void crash_soon(NodeId node, Time when, Time away);
  /// From now on planned crashes happen, or do not.
  void allow_crashes(bool allowed) noexcept { crashes_allowed_ = allowed; }
  /// The disk of the node's files. REQUIRES: it has file space.
  [[nodiscard]] storage::FaultyPageStore& pages(NodeId node) noexcept { return *pages_[node]; }
  /// The node as it is now. REQUIRES: it is not away.
  [[nodiscard]] Node& node(NodeId node) noexcept;
  /// How many barriers have been released, as far as this node knows. REQUIRES: it is not away.
  [[nodiscard]] std::uint64_t barriers(NodeId node) const noexcept;
  /// What is to be done when a node has crashed, and when it is back: both are told as soon as it is so.
  void set_hooks(std::function<void(NodeId)> on_crash, std::function<void(NodeId)> on_back);
  [[nodiscard]] bool is_logged() const noexcept { return options_.node.log != LogMode::kOff; }
  [[nodiscard]] std::uint64_t crashes() const noexcept { return crashes_; }
  [[nodiscard]] std::uint64_t returns() const noexcept { return returns_; }
  /// How many nodes have crashed and are not back, and since when the number is what it is.
  [[nodiscard]] NodeId away() const noexcept { return away_; }
  [[nodiscard]] Time away_since() const noexcept { return away_since_; }
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
  class Crash;
  class Return;
  /// Of one node, from where it joins until it crashes or leaves.
  struct Life;
  /// What a node of a logged cluster is told of another.
  struct News {
    NodeId about = 0;
    std::uint32_t life = 0;  // of that node
    bool is_back = false;
  };
  [[nodiscard]] std::unique_ptr<Node> make_node(Life& life);
  [[nodiscard]] std::unique_ptr<storage::PageStore> make_pages(NodeId node);
  void join(NodeId id);
  void come_back(NodeId id);
  void welcome(NodeId id);
  void tell(Life& to, const News& news);
  void spread(Life& to);
  void set_away(NodeId away) noexcept;
  void end_lives();
  void renew(Life& life);
  void tell_standing(Life& life, cluster::Standing standing);
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
  std::deque<Life> lives_;           // all that there ever were
  std::vector<Life*> current_;       // of each node the last
  std::uint32_t living_bodies_ = 0;  // of nodes that were not killed
  std::vector<std::unique_ptr<Notice>> notices_;
  std::vector<std::unique_ptr<storage::FaultyDisk>> disks_;  // of each node, where there is a log
  std::map<NodeId, storage::FaultyPageStore*> pages_;        // its runtime's
  std::vector<std::unique_ptr<Timed>> plans_;                // crashes, returns and renewals
  std::function<void(NodeId)> on_crash_;
  std::function<void(NodeId)> on_back_;
  std::uint32_t epoch_ = 1;
  bool crashes_allowed_ = false;
  NodeId away_ = 0;
  NodeId frozen_ = 0;  // nodes that stand still, and will go on
  Time away_since_ = 0;
  std::uint64_t crashes_ = 0;
  std::uint64_t returns_ = 0;
};

}  // namespace atoll::sim
