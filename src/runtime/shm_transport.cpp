#include <fmt/format.h>

#include "fabric/shm/shm_fabric.hpp"
#include "runtime/transport.hpp"

namespace atoll::runtime {
namespace {

fabric::ShmParts parts_of(const memory::Segment& segment) {
  memory::SegmentHeader& header = segment.header();
  return {segment.rings(), segment.cache(), segment.memory(), &header.doorbell, &header.asleep};
}

Brought brought_by(const memory::Segment& segment, std::uint32_t line_bytes) {
  return {segment.memory_bytes(), std::uint32_t(segment.cache_bytes() / line_bytes)};
}

class ShmTransport final : public Transport {
 public:
  std::vector<Brought> connect(const memory::Segment& segment, cluster::Membership& membership,
                               cluster::Events events) override {
    const memory::SegmentLayout& mine = segment.layout();
    own_ = &segment;
    self_ = membership.id();
    std::vector<cluster::Peer> peers = membership.exchange({segment.fd(), {}}, std::move(events));
    peers_.resize(membership.count());
    std::vector<Brought> brought(membership.count());
    brought[self_] = brought_by(segment, mine.line_bytes);
    for (cluster::Peer& peer : peers) {
      if (peer.id == self_) continue;
      memory::Segment& mapped = peers_[peer.id] = memory::Segment::open(peer.segment);
      if (mapped.layout().line_bytes != mine.line_bytes || mapped.layout().nodes != mine.nodes) {
        throw Error(fmt::format("node {} joined with lines of {} bytes, this one with {}", peer.id,
                                mapped.layout().line_bytes, mine.line_bytes));
      }
      mapped.populate_cache();
      brought[peer.id] = brought_by(mapped, mine.line_bytes);
    }
    for (NodeId node = 0; node < peers_.size(); ++node) {
      views_.push_back({segment_of(node).memory(), segment_of(node).lines()});
    }
    return brought;
  }

  std::unique_ptr<fabric::Fabric> make_fabric(metrics::Counters& counters) override {
    std::vector<fabric::ShmParts> parts;
    for (NodeId node = 0; node < peers_.size(); ++node) parts.push_back(parts_of(segment_of(node)));
    const memory::SegmentLayout& layout = own_->layout();
    return std::make_unique<fabric::ShmFabric>(self_, layout.line_bytes, layout.ring_slots, parts, counters);
  }

  std::uint64_t free_bytes(NodeId node) const noexcept override {
    return segment_of(node).header().counters.memory_free_bytes.get();
  }

  std::span<const HomeView> views() const noexcept override { return views_; }

  const char* describe() const noexcept override { return "shm (all nodes on this host)"; }

 private:
  [[nodiscard]] const memory::Segment& segment_of(NodeId node) const noexcept {
    return node == self_ ? *own_ : peers_[node];
  }

  NodeId self_ = 0;
  const memory::Segment* own_ = nullptr;  // the node's, which outlives this
  std::vector<memory::Segment> peers_;    // [self_] is empty
  std::vector<HomeView> views_;
};

}  // namespace

std::unique_ptr<Transport> make_shm_transport() {
  return std::make_unique<ShmTransport>();
}

}  // namespace atoll::runtime
