// The network between simulated nodes: packets take virtual time, arrive in order per pair of nodes, and are kept for a
// while so that a failure can be told as a chart.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cluster/membership.hpp"
#include "fabric/fabric.hpp"
#include "memory/segment.hpp"
#include "runtime/transport.hpp"
#include "sim/machine.hpp"
#include "wire/message.hpp"

namespace atoll::sim {

class SimFabric;
class SimTransport;

struct NetworkOptions {
  std::uint32_t latency_ns = 2'000;  // from one node to another
  std::uint32_t jitter_ns = 1'000;   // up to so much more, at random
  double gbps = 100;                 // of each node's port
  bool data_at_once = false;         // data is there when it is written, as in shared memory, and not in its turn
  double echoes = 0;                 // how likely it is that a message is preceded by one of an earlier membership
  std::uint32_t message_cpu_ns = 0;  // what a node needs to work on one message; it works on one at a time
};

/// Thread-safety: the machine's. Invariants:
///   1. What one node sends to another arrives in the order sent, data included, each once.
///   2. What is sent to or by a node that was cut off does not arrive.
///   3. A node that was cut off may be attached again: a new life, with a segment of its own. What its last life still
///      does reaches nobody, and others reach the new one when they have readmitted it.
class Network {
 public:
  Network(Machine& machine, NodeId nodes, std::uint32_t line_bytes, const NetworkOptions& options);
  ~Network();

  /// What `node` brings: where data sent to it is written. REQUIRES: it is the first time, or the node was cut off.
  void attach(NodeId node, const memory::Segment& segment, cluster::Events events, std::uint32_t epoch = 1);
  [[nodiscard]] const memory::Segment& segment(NodeId node) const noexcept { return *current_[node]->segment; }
  /// How often the node has been attached. The lives of a node count from 0.
  [[nodiscard]] std::uint32_t lives(NodeId node) const noexcept;
  /// This life of the node is about to end: nothing reaches it any more.
  void detach(NodeId node, std::uint32_t life);
  /// Nothing is heard of the node any more. The others are told, and so is it of them, by `tell_death`.
  void cut_off(NodeId node);
  static constexpr std::uint32_t kLatest = UINT32_MAX;
  void tell_death(NodeId to, NodeId dead, std::uint32_t life = kLatest);
  void tell_standing(NodeId to, cluster::Standing standing, std::uint32_t life = kLatest);
  /// The life of `back` that is attached now has taken the place of its last one.
  void tell_return(NodeId to, NodeId back, std::uint32_t life = kLatest);
  /// Called whenever a node has been attached and knows whom it found, by the fiber that joins.
  void set_welcome(std::function<void(NodeId)> welcome) { welcome_ = std::move(welcome); }
  /// Is nothing on its way?
  [[nodiscard]] bool is_quiet() const noexcept { return in_flight_ == 0; }
  [[nodiscard]] std::uint64_t messages() const noexcept { return messages_; }
  /// The last messages about a line, oldest first, as text; about any when it is null.
  [[nodiscard]] std::string chart(GlobalAddress about) const;

 private:
  friend class SimFabric;
  friend class SimTransport;
  /// One life of a node.
  struct Port;
  struct Packet {
    wire::Message message;        // kind kNone: data alone
    std::vector<std::byte> data;  // for `into`
    std::byte* into = nullptr;    // in the receiver's segment
    Time due = 0;                 // when it arrives
    const Port* sender = nullptr;
    Port* receiver = nullptr;
    [[nodiscard]] std::uint64_t bytes() const noexcept { return sizeof(wire::Message) + data.size(); }
  };
  /// From one node to another.
  struct Link final : Timed {
    Network* network = nullptr;
    Time last_arrival = 0;
    std::deque<Packet> packets;
    void fire() override { network->arrive(*this); }
  };
  struct Inbound {
    const Port* from;
    wire::Message message;
  };
  struct Port final : Timed {
    NodeId node = 0;
    std::uint32_t life = 0;
    std::uint32_t epoch = 1;                   // in which it was let in
    const memory::Segment* segment = nullptr;  // null until it is attached
    cluster::Events events;
    std::deque<Inbound> inbox;
    std::atomic<std::uint32_t> doorbell{0};
    Network* network = nullptr;
    Time line_free_at = 0;  // when the port can send the next packet
    Time cpu_free_at = 0;   // when the node can work on the next message
    bool gone = false;
    void fire() override { network->ring(*this); }
  };
  struct Record {
    Time sent;
    NodeId from;
    NodeId to;
    wire::Message message;
  };
  static constexpr std::size_t kRecords = 1 << 14;

  Port& add_port(NodeId node, std::uint32_t life);
  [[nodiscard]] Port& port_of(NodeId node, std::uint32_t life) noexcept;
  void cut_off(Port& port);
  void transmit(Port& from, Port& to, Packet packet);
  void enqueue(Link& link, Port& from, Packet packet);
  void arrive(Link& link);
  void ring(Port& port);

  Machine& machine_;
  NodeId nodes_;
  std::uint32_t line_bytes_;
  NetworkOptions options_;
  std::vector<Link> links_;                // [from * nodes_ + to]
  std::deque<Port> ports_;                 // of all lives
  std::vector<Port*> current_;             // the last life of each node
  std::vector<SimTransport*> transports_;  // of all who are connected
  std::uint64_t in_flight_ = 0;
  std::uint64_t messages_ = 0;
  std::vector<Record> records_;  // a ring
  std::size_t next_record_ = 0;
  std::function<void(NodeId)> welcome_;
};

/// How a simulated node meets its peers: at first all of them are made before any of them runs. All bring the same.
class SimTransport final : public runtime::Transport {
 public:
  SimTransport(Network& network, NodeId nodes) : network_(network), known_(nodes), views_(nodes) {}
  ~SimTransport() override;
  [[nodiscard]] std::vector<runtime::Brought> connect(const memory::Segment& segment, cluster::Membership& membership,
                                                      cluster::Events events) override;
  [[nodiscard]] std::unique_ptr<fabric::Fabric> make_fabric(metrics::Counters& counters, fabric::Upcalls upcalls,
                                                            const std::function<bool(NodeId)>& is_dead) override;
  /// Of `peer` the id alone is looked at.
  [[nodiscard]] runtime::Brought prepare(const cluster::Peer& peer) override;
  void readmit(NodeId peer) noexcept override;
  void hide_view(NodeId node) noexcept override { views_[node].hide(); }
  void show_view(NodeId node) noexcept override;
  [[nodiscard]] std::uint64_t free_bytes(NodeId node) const noexcept override;
  [[nodiscard]] std::span<const runtime::HomeView> views() const noexcept override { return views_; }
  [[nodiscard]] std::string describe() const override { return "sim (virtual time)"; }

 private:
  friend class Network;
  Network& network_;
  NodeId self_ = 0;
  const memory::Segment* own_ = nullptr;
  std::vector<Network::Port*> known_;  // the life of each node that this one knows
  std::vector<runtime::HomeView> views_;
  Network::Port* returning_ = nullptr;  // prepared, and not readmitted yet
  SimFabric* fabric_ = nullptr;
};

}  // namespace atoll::sim
