// Joining, leaving, waiting, and what happens when a peer dies.
#include "runtime/runtime.hpp"

#include <fmt/format.h>

#include "base/log.hpp"
#include "base/units.hpp"
#include "fabric/shm/shm_fabric.hpp"

namespace atoll::runtime {
namespace {

fabric::ShmParts parts_of(const memory::Segment& segment) {
  memory::SegmentHeader& header = segment.header();
  return {segment.rings(), segment.cache(), segment.memory(), &header.doorbell, &header.asleep};
}

}  // namespace

Runtime::Runtime(const Options& options, std::unique_ptr<cluster::Membership> membership)
    : options_(options), membership_(std::move(membership)), dead_(membership_->count()) {
  self_ = membership_->id();
  nodes_ = membership_->count();
  epoch_ = membership_->epoch();
  segment_ = memory::Segment::create(options_, nodes_);
  segment_.join_cache_pages();
  segment_.populate_cache();
  counters_ = &segment_.header().counters;
  allocator_ = std::make_unique<memory::Allocator>(segment_.memory_bytes(), options_.line_bytes);
  slots_ = std::make_unique<memory::CacheSlots>(std::uint32_t(segment_.cache_bytes() / options_.line_bytes));
  writes_ = std::make_unique<WritePool>(std::max(1u, options_.outstanding_writes), options_.line_bytes);
  counters_->memory_bytes.set(segment_.memory_bytes());
  counters_->memory_free_bytes.set(allocator_->free_bytes());
  counters_->cache_lines.set(slots_->size());

  std::vector<cluster::Peer> peers =
      membership_->exchange(segment_.fd(), {[this](NodeId node, const std::string& why) { on_death(node, why); },
                                            [this] {
                                              master_lost_.store(true, std::memory_order_release);
                                              notify_all();
                                            }});
  peer_segments_.resize(nodes_);
  memory_bytes_.assign(nodes_, segment_.memory_bytes());
  std::vector<fabric::ShmParts> parts(nodes_);
  std::vector<memory::LineMap::Extent> extents(nodes_);
  cache_slots_.assign(nodes_, slots_->size());
  parts[self_] = parts_of(segment_);
  for (cluster::Peer& peer : peers) {
    if (peer.id == self_) continue;
    memory::Segment& mapped = peer_segments_[peer.id] = memory::Segment::open(peer.segment);
    if (mapped.layout().line_bytes != options_.line_bytes || mapped.layout().nodes != nodes_) {
      throw Error(fmt::format("node {} joined with lines of {} bytes, this one with {}", peer.id,
                              mapped.layout().line_bytes, options_.line_bytes));
    }
    mapped.populate_cache();
    memory_bytes_[peer.id] = mapped.memory_bytes();
    parts[peer.id] = parts_of(mapped);
    cache_slots_[peer.id] = std::uint32_t(mapped.cache_bytes() / options_.line_bytes);
  }
  for (NodeId node = 0; node < nodes_; ++node) extents[node].memory_bytes = memory_bytes_[node];
  lines_ = std::make_unique<memory::LineMap>(
      self_, options_.line_bytes, extents, segment_.memory(), segment_.directory(), !threads_.has_barrier(),
      [this](const std::byte* begin, std::uint64_t bytes) { segment_.join_pages(begin, bytes); });
  threads_.set_table(lines_->table(), options_.consistency == Consistency::kSc);
  limits_ = {nodes_, self_, epoch_, options_.line_bytes, cache_slots_.data(), memory_bytes_.data()};
  {
    base::MutexLock lock(mutex_);
    fabric_ = std::make_unique<fabric::ShmFabric>(self_, options_.line_bytes, segment_.header().ring_slots, parts,
                                                  *counters_);
  }
  spdlog::info("node {} of {}: transport shm (all nodes on this host), memory {}, cache {}, lines of {} B, {}, {}",
               self_, nodes_, base::format_bytes(segment_.memory_bytes()), base::format_bytes(segment_.cache_bytes()),
               options_.line_bytes,
               segment_.huge()         ? "huge pages"
               : segment_.huge_cache() ? "huge pages for the cache"
                                       : "small pages (the system gives no huge ones)",
               threads_.has_barrier() ? "membarrier" : "fenced accesses (no membarrier)");
  if (nodes_ > 1) service_ = std::thread([this] { serve_forever(); });
}

Runtime::~Runtime() {
  if (const Status status = fence(); !status.ok()) {
    spdlog::error("leaving with writes that could not be done: {}", status.to_string());
  }
  ThreadState& thread = threads_.current();
  (void)wait(thread, kNoNode, Clock::now() + std::chrono::seconds(10), [&] { return writes_->all_free(); });
  tell_leaving();
  membership_->leave();
  stopping_.store(true, std::memory_order_release);
  fabric_->wake_self();
  if (service_.joinable()) service_.join();
  membership_.reset();  // no callbacks from here on
  threads_.forget_lines();
}

/// Those who wait in a barrier for this node need not wait any longer.
void Runtime::tell_leaving() {
  base::MutexLock lock(mutex_);
  wire::Message leaving;
  leaving.kind = wire::Kind::kLeaving;
  leaving.argument = barrier_round_;
  for (NodeId node = 0; node < nodes_; ++node) {
    if (node != self_) call_home(node, leaving);
  }
  flush();
}

bool Runtime::is_dead(NodeId node) const noexcept {
  return node < dead_.size() && dead_[node].load(std::memory_order_acquire);
}

Status Runtime::why_to_give_up(NodeId on, const base::Backoff& wait, Clock::time_point deadline) {
  const Clock::time_point now = wait.now();
  if (now >= deadline) return {Errc::kDeadline, "the time given was over"};
  if (master_lost_.load(std::memory_order_acquire)) return {Errc::kClusterDown, "the master is gone"};
  const NodeId dead = first_dead_.load(std::memory_order_acquire);
  if (dead == kNoNode) return {};
  if (is_dead(on)) return {Errc::kNodeDied, "the node that was waited for is gone", on};
  // Whether the dead node matters to this wait cannot be known here (it may own the line that the home waits for);
  // what does not depend on it is done well within the grace.
  const Clock::time_point died{Clock::duration(died_at_.load(std::memory_order_relaxed))};
  if (now < std::max(died, wait.start()) + options_.death_grace) return {};
  return {Errc::kNodeDied, "a node that this may depend on is gone", dead};
}

void Runtime::notify_all() {
  threads_.for_each([](ThreadState& thread) { thread.notify(); });
}

void Runtime::on_death(NodeId node, const std::string& why) {
  if (node >= nodes_ || node == self_) return;
  spdlog::warn("node {} is gone: {}", node, why);
  {
    base::MutexLock lock(mutex_);
    if (fabric_ != nullptr) fabric_->forget(node);  // else it died while we join: nothing was sent to it yet
  }
  dead_[node].store(true, std::memory_order_release);
  died_at_.store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
  first_dead_.store(node, std::memory_order_release);
  notify_all();
}

Status Runtime::publish(std::string_view name, GlobalAddress address) {
  if (name.empty()) return {Errc::kInvalidArgument, "a name needs at least one character"};
  if (const Status status = check_range(address, 1); !status.ok()) return status;
  if (const Status status = fence(); !status.ok()) return status;
  return membership_->publish(name, address);
}

Result<GlobalAddress> Runtime::lookup(std::string_view name, std::chrono::milliseconds timeout) {
  return membership_->lookup(name, timeout);
}

Stats Runtime::stats() {
  counters_->hits.set(threads_.hits());
  return counters_->snapshot();
}

}  // namespace atoll::runtime
