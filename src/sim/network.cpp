#include "sim/network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace atoll::sim {

/// See fabric::Fabric for threads and invariants. Data travels as packets of its own before the message that tells of
/// it, so that a node that looks at a slot too early finds what was there before.
class SimFabric final : public fabric::Fabric {
 public:
  SimFabric(Network& network, NodeId self) : network_(network), self_(self), staged_(network.nodes_) {}

  void send(NodeId to, const wire::Message& message) override {
    wire::Message& open = staged_[to];
    if (open.kind != wire::Kind::kNone && wire::continues(open, message, network_.line_bytes_)) {
      open.slots[open.count++] = message.slots[0];
      return;
    }
    if (open.kind != wire::Kind::kNone) {
      network_.transmit(self_, to, {open, {}, nullptr});
    } else {
      touched_.push_back(to);
    }
    open = message;
  }
  void write_slot(NodeId to, std::uint32_t slot, std::span<const std::byte> line, bool /*one_of_many*/) override {
    write(to, network_.segment(to).cache() + std::uint64_t(slot) * network_.line_bytes_, line);
  }
  void prefetch_slot(NodeId /*to*/, std::uint32_t /*slot*/, std::uint32_t /*bytes*/) noexcept override {}
  void write_home(NodeId to, std::uint64_t offset, std::span<const std::byte> line) override {
    write(to, network_.segment(to).memory() + offset, line);
  }
  [[nodiscard]] const std::byte* read_slot(NodeId from, std::uint32_t slot, std::uint32_t /*bytes*/) override {
    return network_.segment(from).cache() + std::uint64_t(slot) * network_.line_bytes_;
  }
  void flush() override {
    for (const NodeId to : touched_) network_.transmit(self_, to, {std::exchange(staged_[to], {}), {}, nullptr});
    touched_.clear();
  }
  [[nodiscard]] bool poll(wire::Message& message, NodeId& from) override {
    if (!maybe_pending()) return false;
    Network::Port& own = port();
    message = own.inbox.front().message;
    from = own.inbox.front().from;
    own.inbox.pop_front();
    --network_.in_flight_;
    const Time now = network_.machine_.time();
    own.cpu_free_at = now + network_.options_.message_cpu_ns;
    if (own.cpu_free_at > now && !own.inbox.empty()) network_.machine_.at(own.cpu_free_at, own);
    return true;
  }
  [[nodiscard]] bool maybe_pending() const noexcept override {
    const Network::Port& own = network_.ports_[self_];
    return !own.inbox.empty() && own.cpu_free_at <= network_.machine_.time();
  }
  [[nodiscard]] bool has_backlog() const noexcept override { return false; }
  [[nodiscard]] std::size_t queued(NodeId /*to*/) const noexcept override { return 0; }
  void wait(std::uint32_t timeout_ms) noexcept override {
    Network::Port& own = port();
    const std::uint32_t ticket = own.doorbell.load(std::memory_order_relaxed);
    if (maybe_pending()) return;
    network_.machine_.wait(own.doorbell, ticket, std::uint64_t(timeout_ms) * 1000, base::FutexScope::kProcess);
  }
  void wake_self() noexcept override { network_.ring(port()); }
  void forget(NodeId peer) noexcept override {
    staged_[peer] = {};
    std::erase(touched_, peer);
    std::erase_if(port().inbox, [&](const Network::Inbound& in) {
      if (in.from == peer) --network_.in_flight_;
      return in.from == peer;
    });
  }

 private:
  [[nodiscard]] Network::Port& port() const noexcept { return network_.ports_[self_]; }
  void write(NodeId to, std::byte* into, std::span<const std::byte> line) {
    if (port().gone || network_.ports_[to].gone) return;
    if (network_.options_.data_at_once) {
      std::memcpy(into, line.data(), line.size());
      return;
    }
    network_.transmit(self_, to, {{}, std::vector<std::byte>(line.begin(), line.end()), into});
  }

  Network& network_;
  NodeId self_;
  std::vector<wire::Message>
      staged_;                   // per peer: the last message, still open for more lines; kNone when there is none
  std::vector<NodeId> touched_;  // who has one
};

Network::Network(Machine& machine, NodeId nodes, std::uint32_t line_bytes, const NetworkOptions& options)
    : machine_(machine),
      nodes_(nodes),
      line_bytes_(line_bytes),
      options_(options),
      links_(std::size_t(nodes) * nodes),
      views_(nodes) {
  for (NodeId from = 0; from < nodes; ++from) {
    ports_.emplace_back().network = this;
    for (NodeId to = 0; to < nodes; ++to) {
      Link& link = links_[std::size_t(from) * nodes + to];
      link.network = this;
      link.from = from;
      link.to = to;
    }
  }
  records_.reserve(kRecords);
}

Network::~Network() = default;

void Network::attach(NodeId node, const memory::Segment& segment, cluster::Events events) {
  ports_[node].segment = &segment;
  views_[node] = {segment.memory(), segment.lines()};
  ports_[node].events = std::move(events);
}

std::unique_ptr<fabric::Fabric> Network::make_fabric(NodeId node) {
  return std::make_unique<SimFabric>(*this, node);
}

void Network::transmit(NodeId from, NodeId to, Packet packet) {
  Port& port = ports_[from];
  if (port.gone || ports_[to].gone) return;
  if (packet.message.kind != wire::Kind::kNone) {
    ++messages_;
    const Record record{machine_.time(), from, to, packet.message};
    if (records_.size() < kRecords) {
      records_.push_back(record);
    } else {
      records_[next_record_] = record;
    }
    next_record_ = (next_record_ + 1) % kRecords;
  }
  Link& link = links_[std::size_t(from) * nodes_ + to];
  if (packet.message.kind != wire::Kind::kNone && options_.echoes > 0 && machine_.random().chance(options_.echoes)) {
    Packet echo{packet.message, {}, nullptr};
    --echo.message.epoch;
    enqueue(link, std::move(echo));
  }
  enqueue(link, std::move(packet));
}

void Network::enqueue(Link& link, Packet packet) {
  Port& port = ports_[link.from];
  const Time leaves = std::max({machine_.time(), port.cpu_free_at, port.line_free_at});
  port.line_free_at = leaves + Time(double(packet.bytes()) * 8 / options_.gbps);
  const Time jitter = options_.jitter_ns == 0 ? 0 : machine_.random().below(options_.jitter_ns);
  link.last_arrival = std::max(link.last_arrival, port.line_free_at + options_.latency_ns + jitter);
  link.packets.push_back(std::move(packet));
  ++in_flight_;
  machine_.at(link.last_arrival, link);
}

void Network::arrive(Link& link) {
  if (link.packets.empty()) return;  // it was cut off
  Packet packet = std::move(link.packets.front());
  link.packets.pop_front();
  Port& port = ports_[link.to];
  if (packet.into != nullptr) {
    std::memcpy(packet.into, packet.data.data(), packet.data.size());
    --in_flight_;
    return;
  }
  port.inbox.push_back({link.from, packet.message});  // in flight until it is taken
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
  ports_[node].gone = true;
  in_flight_ -= ports_[node].inbox.size();
  ports_[node].inbox.clear();
  for (NodeId other = 0; other < nodes_; ++other) {
    for (Link* link : {&links_[std::size_t(node) * nodes_ + other], &links_[std::size_t(other) * nodes_ + node]}) {
      in_flight_ -= link->packets.size();
      link->packets.clear();
    }
  }
}

void Network::detach(NodeId node) {
  cut_off(node);
  ports_[node].events = {};
  views_[node] = {};
}

void Network::tell_death(NodeId to, NodeId dead) {
  if (ports_[to].events.on_death) ports_[to].events.on_death(dead, "it is part of the simulation");
}

void Network::tell_standing(NodeId to, cluster::Standing standing) {
  if (ports_[to].events.on_standing) ports_[to].events.on_standing(standing, "it is part of the simulation");
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

std::vector<runtime::Brought> SimTransport::connect(const memory::Segment& segment, cluster::Membership& membership,
                                                    cluster::Events events) {
  self_ = membership.id();
  network_.attach(self_, segment, std::move(events));
  return std::vector<runtime::Brought>(
      nodes_, {segment.memory_bytes(), std::uint32_t(segment.cache_bytes() / segment.layout().line_bytes)});
}

std::unique_ptr<fabric::Fabric> SimTransport::make_fabric(metrics::Counters& /*counters*/, fabric::Upcalls /*upcalls*/,
                                                          const std::function<bool(NodeId)>& /*is_dead*/) {
  return network_.make_fabric(self_);
}

std::uint64_t SimTransport::free_bytes(NodeId node) const noexcept {
  return network_.segment(node).header().counters.memory_free_bytes.get();
}

}  // namespace atoll::sim
