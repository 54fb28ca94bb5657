#include "runtime/transport.hpp"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "base/log.hpp"
#include "fabric/mixed_fabric.hpp"
#include "fabric/ofi/ofi_fabric.hpp"
#include "fabric/shm/shm_fabric.hpp"

namespace atoll::runtime {
namespace {

using fabric::OfiAddress;

template <typename Number>
Number random_number() {
  Number number{};
  if (::getrandom(&number, sizeof(number), 0) != ssize_t(sizeof(number))) {
    throw Error(fmt::format("getrandom: {}", std::strerror(errno)));
  }
  return number;
}

fabric::ShmParts parts_of(const memory::Segment& segment) {
  memory::SegmentHeader& header = segment.header();
  return {segment.rings(), segment.cache(), segment.memory(), &header.doorbell, &header.asleep, -1};
}

/// One way over libfabric that this node offers to its peers: an endpoint that may write into its segment.
struct Way {
  Way(const fabric::OfiChoice& choice, const memory::Segment& segment, const std::string& bell);
  fabric::Endpoint endpoint;
  fabric::Registered registered;  // after the endpoint's domain: it ends first
  OfiAddress address;
};

/// Peers may write to the cache slots and to the home memory, which lie one after the other, and to nothing else.
Way::Way(const fabric::OfiChoice& choice, const memory::Segment& segment, const std::string& bell) : endpoint(choice) {
  std::byte* const begin = segment.cache();
  const std::size_t bytes = std::size_t(segment.memory() + segment.memory_bytes() - begin);
  registered = endpoint.register_memory({begin, bytes}, FI_REMOTE_WRITE | FI_WRITE, random_number<std::uint64_t>());
  address.provider = endpoint.info().fabric_attr->prov_name;
  address.name = endpoint.name();
  address.cache_at = endpoint.remote_address(begin, segment.cache());
  address.memory_at = endpoint.remote_address(begin, segment.memory());
  address.key = ::fi_mr_key(registered.region.get());
  address.cookie = random_number<std::uint32_t>();
  address.memory_bytes = segment.memory_bytes();
  address.cache_bytes = segment.cache_bytes();
  address.line_bytes = segment.layout().line_bytes;
  address.bell = bell;
}

/// Processes of one host over shared memory, others over libfabric; or all over what was asked for.
///
/// Thread-safety: as Transport says.
class NodeTransport final : public Transport {
 public:
  explicit NodeTransport(const Options& options)
      : wanted_(options.transport), address_(options.address), join_timeout_(options.join_timeout) {}

  std::vector<Brought> connect(const memory::Segment& segment, cluster::Membership& membership,
                               cluster::Events events) override;
  std::unique_ptr<fabric::Fabric> make_fabric(metrics::Counters& counters, fabric::Upcalls upcalls,
                                              const std::function<bool(NodeId)>& is_dead) override;
  std::uint64_t free_bytes(NodeId node) const noexcept override {
    if (near_[node]) return segment_of(node).header().counters.memory_free_bytes.get();
    return far_[node]->memory_bytes;  // what it had: a node that has none left says so when it is asked
  }
  std::span<const HomeView> views() const noexcept override { return views_; }
  std::string describe() const override { return description_; }

 private:
  void open_ways(const cluster::Membership& membership);
  void choose_way(const std::vector<std::vector<OfiAddress>>& offered);
  void map_peer(const cluster::Peer& peer);
  [[nodiscard]] std::vector<Brought> look_around(std::vector<cluster::Peer> peers);
  [[nodiscard]] std::unique_ptr<fabric::ShmFabric> make_shm(metrics::Counters& counters);
  [[nodiscard]] const memory::Segment& segment_of(NodeId node) const noexcept {
    return node == self_ ? *own_ : mapped_[node];
  }
  [[nodiscard]] bool takes_near() const noexcept { return wanted_ == "auto" || wanted_ == "shm"; }

  const std::string wanted_;
  std::string address_;
  const std::chrono::milliseconds join_timeout_;
  std::string description_;
  NodeId self_ = 0;
  const memory::Segment* own_ = nullptr;        // the node's, which outlives this
  std::vector<std::unique_ptr<Way>> ways_;      // the best first; after the choice, the chosen alone
  std::unique_ptr<fabric::Bell> bell_;          // where there are ways
  std::vector<bool> near_;                      // reached over shared memory; this node counts as near
  std::vector<memory::Segment> mapped_;         // of those; [self_] is empty
  std::vector<std::optional<OfiAddress>> far_;  // of the others
  std::vector<base::Fd> bells_;                 // of those that are near, where there are ways
  std::vector<HomeView> views_;
};

/// The endpoints must be there before the peers are met: their addresses are what is exchanged.
void NodeTransport::open_ways(const cluster::Membership& membership) {
  if (wanted_ == "shm" || (wanted_ == "auto" && !membership.spans_hosts()) || membership.count() == 1) return;
  bell_ = std::make_unique<fabric::Bell>();
  const std::string address = address_.empty() ? membership.local_address() : address_;
  if (wanted_ != "auto") {
    ways_.push_back(std::make_unique<Way>(fabric::OfiChoice{wanted_, address}, *own_, bell_->name));
    return;
  }
  // What every node has is found out when all have come.
  if (fabric::find_provider({"verbs", address}) != nullptr) {
    ways_.push_back(std::make_unique<Way>(fabric::OfiChoice{"verbs", address}, *own_, bell_->name));
  }
  ways_.push_back(std::make_unique<Way>(fabric::OfiChoice{"tcp", address}, *own_, bell_->name));
}

std::vector<Brought> NodeTransport::connect(const memory::Segment& segment, cluster::Membership& membership,
                                            cluster::Events events) {
  own_ = &segment;
  self_ = membership.id();
  open_ways(membership);
  std::vector<OfiAddress> offered;
  for (const auto& way : ways_) offered.push_back(way->address);
  return look_around(membership.exchange({segment.fd(), fabric::to_text(offered)}, std::move(events)));
}

/// Sorts the peers into near and far, and chooses the way to those that are far.
std::vector<Brought> NodeTransport::look_around(std::vector<cluster::Peer> peers) {
  const std::size_t count = std::max<std::size_t>(peers.size(), 1);
  near_.assign(count, true);
  mapped_.resize(count);
  bells_.resize(count);
  far_.resize(count);
  std::vector<std::vector<OfiAddress>> offered(count);
  std::vector<Brought> brought(count);
  brought[self_] = {own_->memory_bytes(), std::uint32_t(own_->cache_bytes() / own_->layout().line_bytes)};
  for (const cluster::Peer& peer : peers) {
    if (peer.id == self_) continue;
    auto parsed = fabric::parse_ofi_addresses(peer.address);
    if (!parsed.ok()) throw Error(fmt::format("node {} came with an address that makes no sense", peer.id));
    offered[peer.id] = std::move(*parsed);
    near_[peer.id] = takes_near() && peer.segment.valid();
    if (near_[peer.id]) map_peer(peer);
  }
  choose_way(offered);
  const std::uint32_t line_bytes = own_->layout().line_bytes;
  for (NodeId node = 0; node < count; ++node) {
    if (node == self_) continue;
    const std::uint64_t cache = near_[node] ? mapped_[node].cache_bytes() : far_[node]->cache_bytes;
    const std::uint64_t memory = near_[node] ? mapped_[node].memory_bytes() : far_[node]->memory_bytes;
    const std::uint32_t line = near_[node] ? mapped_[node].layout().line_bytes : far_[node]->line_bytes;
    if (memory == 0 || memory > GlobalAddress::kOffsetMask + 1 || cache / line_bytes > UINT32_MAX / 2) {
      throw Error(fmt::format("node {} came with sizes that no node can have", node));
    }
    if (line != line_bytes) {
      throw Error(fmt::format("node {} joined with lines of {} bytes, this one with {}", node, line, line_bytes));
    }
    brought[node] = {memory, std::uint32_t(cache / line_bytes)};
    if (near_[node] && bell_ != nullptr) bells_[node] = fabric::reach_bell(offered[node].front().bell);
  }
  if (std::count(near_.begin(), near_.end(), true) == 1 && count > 1) return brought;  // nobody's memory can be seen
  for (NodeId node = 0; node < count; ++node) {
    views_.push_back(near_[node] ? HomeView{segment_of(node).memory(), segment_of(node).lines()} : HomeView{});
  }
  return brought;
}

void NodeTransport::map_peer(const cluster::Peer& peer) {
  memory::Segment& mapped = mapped_[peer.id] = memory::Segment::open(peer.segment);
  if (mapped.layout().nodes != own_->layout().nodes) {
    throw Error(fmt::format("node {} joined a cluster of {} nodes, this one of {}", peer.id, mapped.layout().nodes,
                            own_->layout().nodes));
  }
  mapped.populate_cache();
}

/// The best way that all nodes have. All decide by the same offers, and so decide the same.
void NodeTransport::choose_way(const std::vector<std::vector<OfiAddress>>& offered) {
  const auto has = [](const std::vector<OfiAddress>& addresses, const std::string& provider) {
    return std::find_if(addresses.begin(), addresses.end(),
                        [&](const OfiAddress& address) { return address.provider == provider; });
  };
  const auto far = std::count(near_.begin(), near_.end(), false);
  if (ways_.empty() && far > 0) {
    const auto node = std::find(near_.begin(), near_.end(), false) - near_.begin();
    throw Error(fmt::format("node {} is on another host, and --transport {} does not reach it; give tcp, verbs or auto",
                            node, wanted_));
  }
  if (far == 0) {  // which all nodes find, for all are here
    ways_.clear();
    bell_.reset();
    description_ = "shm (all nodes on this host)";
    return;
  }
  for (auto& way : ways_) {
    const std::string& provider = way->address.provider;
    const auto lacks = [&](NodeId node) {
      return node != self_ && has(offered[node], provider) == offered[node].end();
    };
    NodeId without = 0;
    while (without < offered.size() && !lacks(without)) ++without;
    if (without < offered.size()) {
      spdlog::info("not {}: node {} does not offer it", provider, without);
      continue;
    }
    for (NodeId node = 0; node < offered.size(); ++node) {
      if (!near_[node]) far_[node] = *has(offered[node], provider);
    }
    description_ = fmt::format("{} ({})", way->endpoint.describe(),
                               wanted_ == "auto" ? "chosen: all nodes have it" : "as asked for");
    if (far < std::ptrdiff_t(near_.size()) - 1) {
      description_ += fmt::format(", shm to {} on this host", std::ptrdiff_t(near_.size()) - 1 - far);
    }
    std::unique_ptr<Way> chosen = std::move(way);
    ways_.clear();
    ways_.push_back(std::move(chosen));
    return;
  }
  throw Error(fmt::format("no transport that all nodes have: this one offers {}; give all nodes the same --transport",
                          ways_.front()->address.provider));
}

std::unique_ptr<fabric::ShmFabric> NodeTransport::make_shm(metrics::Counters& counters) {
  std::vector<fabric::ShmParts> parts(near_.size());
  for (NodeId node = 0; node < near_.size(); ++node) {
    if (!near_[node]) continue;
    parts[node] = parts_of(segment_of(node));
    parts[node].bell = bells_[node].get();
  }
  const memory::SegmentLayout& layout = own_->layout();
  return std::make_unique<fabric::ShmFabric>(self_, layout.line_bytes, layout.ring_slots, parts, counters);
}

std::unique_ptr<fabric::Fabric> NodeTransport::make_fabric(metrics::Counters& counters, fabric::Upcalls upcalls,
                                                           const std::function<bool(NodeId)>& is_dead) {
  if (ways_.empty()) return make_shm(counters);
  Way& way = *ways_.front();
  const memory::SegmentLayout& layout = own_->layout();
  fabric::OfiSetup setup;
  setup.self = self_;
  setup.line_bytes = layout.line_bytes;
  setup.largest_line_bytes = detail::kGrainBytes;
  setup.cache = own_->cache();
  setup.memory = {own_->memory(), own_->memory_bytes()};
  setup.memory_descriptor = way.registered.descriptor();
  setup.cookie = way.address.cookie;
  setup.peers = far_;
  auto ofi = std::make_unique<fabric::OfiFabric>(way.endpoint, setup, std::move(upcalls), counters);
  ofi->meet(std::chrono::steady_clock::now() + join_timeout_, is_dead);
  const bool all_far = std::count(near_.begin(), near_.end(), true) == 1;
  if (all_far) return ofi;
  return std::make_unique<fabric::MixedFabric>(make_shm(counters), std::move(ofi), near_, *bell_);
}

}  // namespace

std::unique_ptr<Transport> make_transport(const Options& options) {
  return std::make_unique<NodeTransport>(options);
}

}  // namespace atoll::runtime
