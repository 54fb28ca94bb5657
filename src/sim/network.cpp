#include "sim/network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.hpp"

namespace atoll::sim {

/// See fabric::Fabric for threads and invariants. Data travels as packets of its own before the message that tells of
/// it, so that a node that looks at a slot too early finds what was there before.
class SimFabric final : public fabric::Fabric {
 public:
  SimFabric(Network& network, NodeId self, std::vector<Network::Port*> peers)
      : network_(network), own_(*peers[self]), peers_(std::move(peers)), staged_(network.nodes_) {}

  void send(NodeId to, const wire::Message& message) override {
    wire::Message& open = staged_[to];
    if (open.kind != wire::Kind::kNone && wire::continues(open, message, network_.line_bytes_)) {
      open.slots[open.count++] = message.slots[0];
      return;
    }
    if (open.kind != wire::Kind::kNone) {
      transmit(to, open);
    } else {
      touched_.push_back(to);
    }
    open = message;
  }
  void write_slot(NodeId to, std::uint32_t slot, std::span<const std::byte> line, bool /*one_of_many*/) override {
    if (is_open(to)) write(to, peers_[to]->segment->cache() + std::uint64_t(slot) * network_.line_bytes_, line);
  }
  void prefetch_slot(NodeId /*to*/, std::uint32_t /*slot*/, std::uint32_t /*bytes*/) noexcept override {}
  void write_home(NodeId to, std::uint64_t offset, std::span<const std::byte> line) override {
    if (is_open(to)) write(to, peers_[to]->segment->memory() + offset, line);
  }
  [[nodiscard]] const std::byte* read_slot(NodeId from, std::uint32_t slot, std::uint32_t /*bytes*/) override {
    return peers_[from]->segment->cache() + std::uint64_t(slot) * network_.line_bytes_;
  }
  void flush() override {
    for (const NodeId to : touched_) transmit(to, std::exchange(staged_[to], {}));
    touched_.clear();
  }
  [[nodiscard]] bool poll(wire::Message& message, NodeId& from) override {
    while (maybe_pending()) {
      const Network::Inbound next = own_.inbox.front();
      own_.inbox.pop_front();
      --network_.in_flight_;
      if (next.from != peers_[next.from->node]) continue;  // a life that this node does not know, or not any more
      message = next.message;
      from = next.from->node;
      const Time now = network_.machine_.time();
      own_.cpu_free_at = now + network_.options_.message_cpu_ns;
      if (own_.cpu_free_at > now && !own_.inbox.empty()) network_.machine_.at(own_.cpu_free_at, own_);
      return true;
    }
    return false;
  }
  [[nodiscard]] bool maybe_pending() const noexcept override {
    return !own_.inbox.empty() && own_.cpu_free_at <= network_.machine_.time();
  }
  [[nodiscard]] bool has_backlog() const noexcept override { return false; }
  [[nodiscard]] std::size_t queued(NodeId /*to*/) const noexcept override { return 0; }
  void wait(std::uint32_t timeout_ms) noexcept override {
    const std::uint32_t ticket = own_.doorbell.load(std::memory_order_relaxed);
    if (maybe_pending()) return;
    network_.machine_.wait(own_.doorbell, ticket, std::uint64_t(timeout_ms) * 1000, base::FutexScope::kProcess);
  }
  void wake_self() noexcept override { network_.ring(own_); }
  void forget(NodeId peer) noexcept override {
    staged_[peer] = {};
    std::erase(touched_, peer);
    std::erase_if(own_.inbox, [&](const Network::Inbound& in) {
      if (in.from->node == peer) --network_.in_flight_;
      return in.from->node == peer;
    });
  }
  void readmit(NodeId peer, Network::Port& port) noexcept {
    forget(peer);
    peers_[peer] = &port;
  }

 private:
  [[nodiscard]] bool is_open(NodeId to) const noexcept { return !own_.gone && !peers_[to]->gone; }
  void transmit(NodeId to, const wire::Message& message) {
    Network::Packet packet;
    packet.message = message;
    network_.transmit(own_, *peers_[to], std::move(packet));
  }
  void write(NodeId to, std::byte* into, std::span<const std::byte> line) {
    if (network_.options_.data_at_once) {
      std::memcpy(into, line.data(), line.size());
      return;
    }
    Network::Packet packet;
    packet.data.assign(line.begin(), line.end());
    packet.into = into;
    network_.transmit(own_, *peers_[to], std::move(packet));
  }

  Network& network_;
  Network::Port& own_;
  std::vector<Network::Port*> peers_;  // the life of each that this node knows
  std::vector<wire::Message>
      staged_;                   // per peer: the last message, still open for more lines; kNone when there is none
  std::vector<NodeId> touched_;  // who has one
};

Network::Network(Machine& machine, NodeId nodes, std::uint32_t line_bytes, const NetworkOptions& options)
    : machine_(machine), nodes_(nodes), line_bytes_(line_bytes), options_(options), links_(std::size_t(nodes) * nodes) {
  for (NodeId node = 0; node < nodes; ++node) current_.push_back(&add_port(node, 0));
  for (Link& link : links_) link.network = this;
  records_.reserve(kRecords);
}

Network::~Network() = default;

Network::Port& Network::add_port(NodeId node, std::uint32_t life) {
  Port& port = ports_.emplace_back();
  port.network = this;
  port.node = node;
  port.life = life;
  return port;
}

Network::Port& Network::port_of(NodeId node, std::uint32_t life) noexcept {
  for (Port& port : ports_) {
    if (port.node == node && port.life == life) return port;
  }
  return *current_[node];
}

std::uint32_t Network::lives(NodeId node) const noexcept {
  return current_[node]->life + (current_[node]->segment == nullptr ? 0 : 1);
}

/// Those who wait for the node's first life see it at once. A later one they see when they want to.
void Network::attach(NodeId node, const memory::Segment& segment, cluster::Events events, std::uint32_t epoch) {
  if (current_[node]->segment != nullptr) current_[node] = &add_port(node, current_[node]->life + 1);
  Port& port = *current_[node];
  port.segment = &segment;
  port.epoch = epoch;
  port.events = std::move(events);
  for (SimTransport* const transport : transports_) {
    if (transport->known_[node] == &port) transport->show_view(node);
  }
}

void Network::transmit(Port& from, Port& to, Packet packet) {
  if (from.gone || to.gone) return;
  packet.sender = &from;
  packet.receiver = &to;
  if (packet.message.kind != wire::Kind::kNone) {
    ++messages_;
    const Record record{machine_.time(), from.node, to.node, packet.message};
    if (records_.size() < kRecords) {
      records_.push_back(record);
    } else {
      records_[next_record_] = record;
    }
    next_record_ = (next_record_ + 1) % kRecords;
  }
  Link& link = links_[std::size_t(from.node) * nodes_ + to.node];
  if (packet.message.kind != wire::Kind::kNone && options_.echoes > 0 && machine_.random().chance(options_.echoes)) {
    Packet echo = packet;
    --echo.message.epoch;
    enqueue(link, from, std::move(echo));
  }
  enqueue(link, from, std::move(packet));
}

void Network::enqueue(Link& link, Port& port, Packet packet) {
  const Time leaves = std::max({machine_.time(), port.cpu_free_at, port.line_free_at});
  port.line_free_at = leaves + Time(double(packet.bytes()) * 8 / options_.gbps);
  const Time jitter = options_.jitter_ns == 0 ? 0 : machine_.random().below(options_.jitter_ns);
  link.last_arrival = std::max(link.last_arrival, port.line_free_at + options_.latency_ns + jitter);
  packet.due = link.last_arrival;
  link.packets.push_back(std::move(packet));
  ++in_flight_;
  machine_.at(link.last_arrival, link);
}

void Network::arrive(Link& link) {
  // What should have arrived now was cut off, and what is there was sent later.
  if (link.packets.empty() || link.packets.front().due > machine_.time()) return;
  Packet packet = std::move(link.packets.front());
  link.packets.pop_front();
  Port& port = *packet.receiver;
  if (packet.into != nullptr) {
    std::memcpy(packet.into, packet.data.data(), packet.data.size());
    --in_flight_;
    return;
  }
  port.inbox.push_back({packet.sender, packet.message});  // in flight until it is taken
  if (port.cpu_free_at > machine_.time()) {
    machine_.at(port.cpu_free_at, port);
  } else {
    ring(port);
  }
}

void Network::ring(Port& port) {
  port.doorbell.fetch_add(1, std::memory_order_relaxed);
  machine_.wake(port.doorbell, base::FutexScope::kProcess);
}

void Network::cut_off(NodeId node) {
  cut_off(*current_[node]);
}

void Network::cut_off(Port& port) {
  port.gone = true;
  in_flight_ -= port.inbox.size();
  port.inbox.clear();
  const auto is_its = [&](const Packet& packet) { return packet.sender == &port || packet.receiver == &port; };
  for (NodeId other = 0; other < nodes_; ++other) {
    for (const std::size_t at : {std::size_t(port.node) * nodes_ + other, std::size_t(other) * nodes_ + port.node}) {
      in_flight_ -= std::erase_if(links_[at].packets, is_its);
    }
  }
}

void Network::detach(NodeId node, std::uint32_t life) {
  Port& port = port_of(node, life);
  cut_off(port);
  port.events = {};
  for (SimTransport* const transport : transports_) {
    if (transport->known_[node] == &port) transport->hide_view(node);
  }
}

void Network::tell_death(NodeId to, NodeId dead, std::uint32_t life) {
  const Port& port = port_of(to, life);
  if (port.events.on_death) port.events.on_death(dead, "it is part of the simulation");
}

void Network::tell_standing(NodeId to, cluster::Standing standing, std::uint32_t life) {
  const Port& port = port_of(to, life);
  if (port.events.on_standing) port.events.on_standing(standing, "it is part of the simulation");
}

void Network::tell_return(NodeId to, NodeId back, std::uint32_t life) {
  const Port& port = port_of(to, life);
  cluster::Peer peer;
  peer.id = back;
  peer.epoch = current_[back]->epoch;
  if (port.events.on_return) port.events.on_return(peer, peer.epoch);
}

std::string Network::chart(GlobalAddress about) const {
  std::string text;
  for (std::size_t i = 0; i < records_.size(); ++i) {
    const Record& record = records_[(next_record_ + i) % records_.size()];
    const wire::Message& message = record.message;
    bool concerns = false;
    for (std::uint32_t k = 0; wire::is_line_kind(message.kind) && k < message.count; ++k) {
      const std::uint64_t within = about.bits() - wire::line_of(message, k, line_bytes_).bits();
      concerns = concerns || within < std::uint64_t(line_bytes_) << wire::larger(message);
    }
    if (about && !concerns) continue;
    text += fmt::format("{:>12} ns  {} -> {}  {}\n", record.sent, record.from, record.to, wire::to_string(message));
  }
  return text.empty() ? "(no message of late)\n" : text;
}

namespace {

runtime::Brought brought_with(const memory::Segment& segment) {
  return {segment.memory_bytes(), std::uint32_t(segment.cache_bytes() / segment.layout().line_bytes),
          segment.file_bytes()};
}

}  // namespace

SimTransport::~SimTransport() {
  std::erase(network_.transports_, this);
}

std::vector<runtime::Brought> SimTransport::connect(const memory::Segment& segment, cluster::Membership& membership,
                                                    cluster::Events events) {
  self_ = membership.id();
  own_ = &segment;
  network_.attach(self_, segment, std::move(events), membership.epoch());
  known_ = network_.current_;
  for (NodeId node = 0; node < NodeId(known_.size()); ++node) show_view(node);
  network_.transports_.push_back(this);
  std::vector<runtime::Brought> brought;
  for (const Network::Port* const port : known_) {
    brought.push_back(port->gone ? runtime::Brought{0, 0, 0, false, port->epoch} : brought_with(segment));
    brought.back().epoch = port->epoch;
  }
  if (network_.welcome_) network_.welcome_(self_);
  return brought;
}

std::unique_ptr<fabric::Fabric> SimTransport::make_fabric(metrics::Counters& /*counters*/, fabric::Upcalls /*upcalls*/,
                                                          const std::function<bool(NodeId)>& /*is_dead*/) {
  auto fabric = std::make_unique<SimFabric>(network_, self_, known_);
  fabric_ = fabric.get();
  return fabric;
}

runtime::Brought SimTransport::prepare(const cluster::Peer& peer) {
  Network::Port& port = *network_.current_[peer.id];
  if (port.segment == nullptr || port.gone) throw Error(fmt::format("node {} is not back", peer.id));
  const runtime::Brought now = brought_with(*port.segment);
  const runtime::Brought before = brought_with(*own_);  // as all of them
  if (now.memory_bytes != before.memory_bytes || now.cache_slots != before.cache_slots) {
    throw Error(fmt::format("node {} came back with another memory or cache than it had", peer.id));
  }
  returning_ = &port;
  return now;
}

void SimTransport::readmit(NodeId peer) noexcept {
  ATOLL_CHECK(returning_ != nullptr && returning_->node == peer);
  hide_view(peer);
  known_[peer] = std::exchange(returning_, nullptr);
  fabric_->readmit(peer, *known_[peer]);
}

void SimTransport::show_view(NodeId node) noexcept {
  const Network::Port& port = *known_[node];
  if (port.segment != nullptr && !port.gone) views_[node].show(*port.segment);
}

std::uint64_t SimTransport::free_bytes(NodeId node) const noexcept {
  return known_[node]->segment->header().counters.memory_free_bytes.get();
}

}  // namespace atoll::sim
