#include "runtime/transport.hpp"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <optional>

#include "base/check.hpp"
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

/// One way over libfabric that this node offers to its peers: an endpoint that may write into its segment.
struct Way {
  Way(const fabric::OfiChoice& choice, const memory::Segment& segment, const std::string& bell);
  fabric::Endpoint endpoint;
  fabric::Registered registered;  // after the endpoint's domain: it ends first
  OfiAddress address;
};

/// Peers may write to the cache slots and to the home memory, which lie one after the other, and to nothing else.
Way::Way(const fabric::OfiChoice& choice, const memory::Segment& segment, const std::string& bell) : endpoint(choice) {
  const std::string provider = endpoint.info().fabric_attr->prov_name;
  if (segment.file_bytes() != 0 && provider.find("verbs") != std::string::npos) {
    throw Error("--file-space over verbs would pin all of it in memory: give --transport tcp, or no --file-space");
  }
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
  address.file_bytes = segment.file_bytes();
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
  Brought prepare(const cluster::Peer& peer) override;
  void readmit(NodeId peer) noexcept override;
  void hide_view(NodeId node) noexcept override {
    if (node < views_.size()) views_[node].hide();
  }
  void show_view(NodeId node) noexcept override {
    if (node < views_.size() && peers_[node].near) views_[node].show(segment_of(node));
  }
  std::uint64_t free_bytes(NodeId node) const noexcept override {
    const memory::SegmentHeader* const header = peers_[node].header.load(std::memory_order_acquire);
    if (header != nullptr) return header->counters.memory_free_bytes.get();
    return peers_[node].brought.memory_bytes;  // what it had: a node that has none left says so when it is asked
  }
  std::span<const HomeView> views() const noexcept override { return views_; }
  std::string describe() const override { return description_; }

 private:
  /// Where a process is.
  struct Found {
    bool near = false;                         // on this host, and reached over shared memory
    std::unique_ptr<memory::Segment> segment;  // if it is near
    base::Fd bell;                             // the same, where it has one
    std::optional<OfiAddress> far;             // if it is not
    Brought brought;
  };
  struct Peer {
    bool near = false;  // this node itself counts as near
    bool known = false;
    Brought brought;  // all zero while it is not known
    std::unique_ptr<memory::Segment> segment;
    std::unique_ptr<memory::Segment> last;  // of its last life: a thread may still read in place there
    std::atomic<memory::SegmentHeader*> header{nullptr};
    base::Fd bell;
    std::optional<OfiAddress> far;
  };
  /// A peer that has been prepared, and is not readmitted yet.
  struct Returning {
    NodeId node = kNoNode;
    Found found;
    std::optional<fabric::Introduced> introduced;
  };

  void open_ways(const cluster::Membership& membership);
  void choose_way(const std::vector<std::vector<OfiAddress>>& offered);
  [[nodiscard]] std::vector<Brought> look_around(const std::vector<cluster::Peer>& peers);
  [[nodiscard]] Found find(const cluster::Peer& peer, const std::vector<OfiAddress>& offered) const;
  [[nodiscard]] Brought checked(NodeId node, std::uint64_t memory, std::uint64_t files, std::uint64_t cache,
                                std::uint32_t line) const;
  void settle(NodeId node, Found found);
  [[nodiscard]] std::unique_ptr<fabric::ShmFabric> make_shm(metrics::Counters& counters);
  [[nodiscard]] std::unique_ptr<fabric::OfiFabric> make_ofi(metrics::Counters& counters, fabric::Upcalls upcalls);
  [[nodiscard]] const memory::Segment& segment_of(NodeId node) const noexcept {
    return node == self_ ? *own_ : *peers_[node].segment;
  }
  [[nodiscard]] fabric::ShmParts parts_of(NodeId node) const noexcept;
  [[nodiscard]] bool takes_near() const noexcept { return wanted_ == "auto" || wanted_ == "shm"; }
  [[nodiscard]] std::size_t count_if_near(bool near) const noexcept;
  [[nodiscard]] bool all_known() const noexcept;

  const std::string wanted_;
  std::string address_;
  const std::chrono::milliseconds join_timeout_;
  std::string description_;
  NodeId self_ = 0;
  const memory::Segment* own_ = nullptr;    // the node's, which outlives this
  std::vector<std::unique_ptr<Way>> ways_;  // the best first; after the choice, the chosen alone
  std::unique_ptr<fabric::Bell> bell_;      // where there are ways
  std::vector<Peer> peers_;
  std::vector<HomeView> views_;
  Returning returning_;
  // The fabric that was made, for who comes back: one of these, or the last and what it is made of.
  fabric::ShmFabric* shm_ = nullptr;
  fabric::OfiFabric* ofi_ = nullptr;
  fabric::MixedFabric* mixed_ = nullptr;
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

/// Sorts the peers into near and far, and chooses the way to those that are far. Of those that are dead, what the
/// membership knows of them: they are looked at when they come.
std::vector<Brought> NodeTransport::look_around(const std::vector<cluster::Peer>& peers) {
  const std::size_t count = std::max<std::size_t>(peers.size(), 1);
  peers_ = std::vector<Peer>(count);
  std::vector<std::vector<OfiAddress>> offered(count);
  for (const cluster::Peer& peer : peers) {
    if (peer.id == self_) continue;
    auto parsed = fabric::parse_ofi_addresses(peer.address);
    if (!parsed.ok()) throw Error(fmt::format("node {} came with an address that makes no sense", peer.id));
    offered[peer.id] = std::move(*parsed);
    peers_[peer.id].known = peer.alive;
    peers_[peer.id].near = peer.alive && takes_near() && peer.segment.valid();
  }
  Peer& own = peers_[self_];
  own.near = own.known = true;
  own.brought = {own_->memory_bytes(), std::uint32_t(own_->cache_bytes() / own_->layout().line_bytes),
                 own_->file_bytes()};
  own.header = &own_->header();
  choose_way(offered);
  for (const cluster::Peer& peer : peers) {
    if (peer.id == self_) continue;
    if (peer.alive) {
      settle(peer.id, find(peer, offered[peer.id]));
    } else if (peer.memory_bytes != 0) {
      peers_[peer.id].brought = checked(peer.id, peer.memory_bytes, 0, peer.cache_bytes, peer.line_bytes);
    }
  }
  std::vector<Brought> brought;
  for (const Peer& peer : peers_) brought.push_back(peer.brought);
  for (const cluster::Peer& peer : peers) {
    brought[peer.id].alive = peer.alive;
    brought[peer.id].epoch = peer.epoch;
  }
  const bool some_near = count_if_near(true) > 1 || (takes_near() && !all_known());
  if (!some_near && count > 1) return brought;  // nobody's memory can be seen
  views_ = std::vector<HomeView>(count);
  for (NodeId node = 0; node < count; ++node) show_view(node);
  return brought;
}

std::size_t NodeTransport::count_if_near(bool near) const noexcept {
  return std::size_t(
      std::count_if(peers_.begin(), peers_.end(), [&](const Peer& peer) { return peer.known && peer.near == near; }));
}

bool NodeTransport::all_known() const noexcept {
  return std::all_of(peers_.begin(), peers_.end(), [](const Peer& peer) { return peer.known; });
}

/// Where a peer's process is, and what it brought. Costs the time to map its segment. Throws Error.
NodeTransport::Found NodeTransport::find(const cluster::Peer& peer, const std::vector<OfiAddress>& offered) const {
  Found found;
  found.near = takes_near() && peer.segment.valid();
  if (found.near) {
    found.segment = std::make_unique<memory::Segment>(memory::Segment::open(peer.segment));
    const memory::SegmentLayout& layout = found.segment->layout();
    if (layout.nodes != own_->layout().nodes) {
      throw Error(fmt::format("node {} joined a cluster of {} nodes, this one of {}", peer.id, layout.nodes,
                              own_->layout().nodes));
    }
    found.brought = checked(peer.id, layout.memory_bytes, layout.file_bytes, layout.cache_bytes, layout.line_bytes);
    found.segment->populate_cache();
    if (!offered.empty()) found.bell = fabric::reach_bell(offered.front().bell);
    return found;
  }
  if (ways_.empty()) {
    throw Error(fmt::format("node {} is on another host, and this one has no way to it: {}; give tcp, verbs or auto",
                            peer.id, description_));
  }
  const std::string& provider = ways_.front()->address.provider;
  const auto way = std::find_if(offered.begin(), offered.end(),
                                [&](const OfiAddress& address) { return address.provider == provider; });
  if (way == offered.end()) throw Error(fmt::format("node {} does not offer {}, as all do", peer.id, provider));
  found.far = *way;
  found.brought = checked(peer.id, way->memory_bytes, way->file_bytes, way->cache_bytes, way->line_bytes);
  return found;
}

Brought NodeTransport::checked(NodeId node, std::uint64_t memory, std::uint64_t files, std::uint64_t cache,
                               std::uint32_t line) const {
  const std::uint32_t line_bytes = own_->layout().line_bytes;
  if (memory == 0 || files >= memory || files % detail::kGrainBytes != 0 || memory > GlobalAddress::kOffsetMask + 1 ||
      cache / line_bytes > UINT32_MAX / 2) {
    throw Error(fmt::format("node {} came with sizes that no node can have", node));
  }
  if (line != line_bytes) {
    throw Error(fmt::format("node {} joined with lines of {} bytes, this one with {}", node, line, line_bytes));
  }
  return {memory, std::uint32_t(cache / line_bytes), files};
}

/// The peer is there from now on.
void NodeTransport::settle(NodeId node, Found found) {
  Peer& peer = peers_[node];
  peer.known = true;
  peer.near = found.near;
  peer.brought = found.brought;
  if (peer.segment != nullptr) peer.last = std::move(peer.segment);
  peer.segment = std::move(found.segment);
  peer.header.store(peer.near ? &peer.segment->header() : nullptr, std::memory_order_release);
  peer.bell = std::move(found.bell);
  peer.far = std::move(found.far);
}

/// The best way that all nodes have, those that are dead included as far as is known what they had. All decide by the
/// same offers, and so decide the same.
void NodeTransport::choose_way(const std::vector<std::vector<OfiAddress>>& offered) {
  const std::size_t far = count_if_near(false);
  if (ways_.empty() && far > 0) {
    const auto node =
        std::find_if(peers_.begin(), peers_.end(), [](const Peer& peer) { return peer.known && !peer.near; });
    throw Error(fmt::format("node {} is on another host, and --transport {} does not reach it; give tcp, verbs or auto",
                            node - peers_.begin(), wanted_));
  }
  if (far == 0 && all_known()) {  // which all nodes find, for all are here
    ways_.clear();
    bell_.reset();
  }
  if (ways_.empty()) {
    description_ = "shm (all nodes on this host)";
    return;
  }
  for (auto& way : ways_) {
    const std::string& provider = way->address.provider;
    const auto lacks = [&](NodeId node) {
      const auto& has = offered[node];
      if (node == self_ || (!peers_[node].known && has.empty())) return false;
      return std::none_of(has.begin(), has.end(), [&](const OfiAddress& one) { return one.provider == provider; });
    };
    NodeId without = 0;
    while (without < offered.size() && !lacks(without)) ++without;
    if (without < offered.size()) {
      spdlog::info("not {}: node {} does not offer it", provider, without);
      continue;
    }
    description_ = fmt::format("{} ({})", way->endpoint.describe(),
                               wanted_ == "auto" ? "chosen: all nodes have it" : "as asked for");
    const std::size_t near = count_if_near(true) - 1;
    if (near > 0) description_ += fmt::format(", shm to {} on this host", near);
    std::unique_ptr<Way> chosen = std::move(way);
    ways_.clear();
    ways_.push_back(std::move(chosen));
    return;
  }
  throw Error(fmt::format("no transport that all nodes have: this one offers {}; give all nodes the same --transport",
                          ways_.front()->address.provider));
}

fabric::ShmParts NodeTransport::parts_of(NodeId node) const noexcept {
  const memory::Segment& segment = segment_of(node);
  memory::SegmentHeader& header = segment.header();
  return {segment.rings(),  segment.cache(), segment.memory(),
          &header.doorbell, &header.asleep,  peers_[node].bell.get()};
}

std::unique_ptr<fabric::ShmFabric> NodeTransport::make_shm(metrics::Counters& counters) {
  std::vector<fabric::ShmParts> parts(peers_.size());
  for (NodeId node = 0; node < peers_.size(); ++node) {
    if (peers_[node].near) parts[node] = parts_of(node);
  }
  const memory::SegmentLayout& layout = own_->layout();
  return std::make_unique<fabric::ShmFabric>(self_, layout.line_bytes, layout.ring_slots, parts, counters);
}

std::unique_ptr<fabric::OfiFabric> NodeTransport::make_ofi(metrics::Counters& counters, fabric::Upcalls upcalls) {
  Way& way = *ways_.front();
  fabric::OfiSetup setup;
  setup.self = self_;
  setup.line_bytes = own_->layout().line_bytes;
  setup.largest_line_bytes = detail::kGrainBytes;
  setup.cache = own_->cache();
  setup.memory = {own_->memory(), own_->heap_bytes()};  // what is sent from there as it stands; pages of files go away
  setup.memory_descriptor = way.registered.descriptor();
  setup.cookie = way.address.cookie;
  for (const Peer& peer : peers_) setup.peers.push_back(peer.far);
  return std::make_unique<fabric::OfiFabric>(way.endpoint, setup, std::move(upcalls), counters);
}

/// A peer that comes back may be on this host then, whoever is now.
std::unique_ptr<fabric::Fabric> NodeTransport::make_fabric(metrics::Counters& counters, fabric::Upcalls upcalls,
                                                           const std::function<bool(NodeId)>& is_dead) {
  if (ways_.empty()) {
    auto shm = make_shm(counters);
    shm_ = shm.get();
    return shm;
  }
  auto ofi = make_ofi(counters, std::move(upcalls));
  ofi->meet(std::chrono::steady_clock::now() + join_timeout_, is_dead);
  ofi_ = ofi.get();
  if (!takes_near()) return ofi;
  std::vector<bool> near;
  for (const Peer& peer : peers_) near.push_back(peer.near);
  auto mixed = std::make_unique<fabric::MixedFabric>(make_shm(counters), std::move(ofi), std::move(near), *bell_);
  mixed_ = mixed.get();
  return mixed;
}

Brought NodeTransport::prepare(const cluster::Peer& peer) {
  if (peer.id == self_ || peer.id >= peers_.size()) throw Error(fmt::format("node {} cannot come back", peer.id));
  auto offered = fabric::parse_ofi_addresses(peer.address);
  if (!offered.ok()) throw Error(fmt::format("node {} came back with an address that makes no sense", peer.id));
  Returning next{peer.id, find(peer, *offered), {}};
  const Brought& before = peers_[peer.id].brought;
  const Brought& now = next.found.brought;
  const bool same = now.memory_bytes == before.memory_bytes && now.cache_slots == before.cache_slots;
  if (before.memory_bytes != 0 && !same) {
    throw Error(fmt::format("node {} came back with {} bytes of memory and {} lines of cache, and had {} and {} before",
                            peer.id, now.memory_bytes, now.cache_slots, before.memory_bytes, before.cache_slots));
  }
  if (next.found.far) next.introduced = ofi_->introduce(peer.id, *next.found.far);
  // Here nothing fails any more. One that was prepared, and died before it was readmitted, is not wanted any more.
  if (returning_.introduced) ofi_->withdraw(*returning_.introduced);
  returning_ = std::move(next);
  // Its life before the last has been over for as long as the last one took: nobody reads there any more.
  peers_[peer.id].last.reset();
  return returning_.found.brought;
}

void NodeTransport::readmit(NodeId node) noexcept {
  ATOLL_CHECK(returning_.node == node);
  hide_view(node);
  settle(node, std::move(returning_.found));
  if (returning_.introduced) {
    if (mixed_ != nullptr) {
      mixed_->readmit(node, *returning_.introduced);
    } else {
      ofi_->readmit(node, *returning_.introduced);
    }
  } else if (mixed_ != nullptr) {
    mixed_->readmit(node, parts_of(node));
  } else {
    shm_->readmit(node, parts_of(node));
  }
  returning_ = {};
}

}  // namespace

std::unique_ptr<Transport> make_transport(const Options& options) {
  return std::make_unique<NodeTransport>(options);
}

}  // namespace atoll::runtime
