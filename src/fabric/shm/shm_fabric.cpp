#include "fabric/shm/shm_fabric.hpp"

#include "base/futex.hpp"
#include "base/racy_copy.hpp"
#include "fabric/shm/bell.hpp"

namespace atoll::fabric {

ShmFabric::ShmFabric(NodeId self, std::uint32_t line_bytes, std::uint32_t ring_slots,
                     const std::vector<ShmParts>& parts, metrics::Counters& counters)
    : self_(self), line_bytes_(line_bytes), ring_slots_(ring_slots), counters_(counters), peers_(parts.size()) {
  const std::size_t stride = Ring::bytes(ring_slots);
  for (NodeId node = 0; node < parts.size(); ++node) {
    Peer& peer = peers_[node];
    peer.parts = parts[node];
    peer.in = Ring(parts[self].rings + stride * node, ring_slots);  // for who comes later too: it stays where it is
    peer.gone = parts[node].rings == nullptr;
    if (!peer.gone) peer.out = Ring(parts[node].rings + stride * self, ring_slots);
  }
  touched_.reserve(peers_.size());
}

void ShmFabric::push(Peer& peer, const wire::Message& message) {
  if (streamed_) base::end_stream();
  streamed_ = false;
  if (!peer.overflow.empty() || !peer.out.push(message)) peer.overflow.push_back(message);
}

void ShmFabric::push_staged(Peer& peer) {
  for (std::uint32_t i = 0; i < peer.staged_count; ++i) push(peer, peer.staged[i]);
  peer.staged_count = 0;
}

/// What is not flushed may go out nevertheless, and does when more follows: the receiver can begin. Not so small
/// writes, which nobody waits for: one by one, each costs both sides the transfer of a cache line that the other looks
/// at.
void ShmFabric::send(NodeId to, const wire::Message& message) {
  Peer& peer = peers_[to];
  if (peer.gone.load(std::memory_order_relaxed)) return;
  if (peer.staged_count > 0) {
    wire::Message& open = peer.staged[peer.staged_count - 1];
    if (wire::continues(open, message, line_bytes_)) {
      open.slots[open.count++] = message.slots[0];
      return;
    }
    const bool gathers = open.kind == wire::Kind::kWriteHome && message.kind == wire::Kind::kWriteHome;
    if (!gathers || peer.staged_count == kMaxGathered) push_staged(peer);
  }
  peer.staged[peer.staged_count++] = message;
  if (!peer.sent) {
    peer.sent = true;
    touched_.push_back(to);
  }
}

void ShmFabric::write_slot(NodeId to, std::uint32_t slot, std::span<const std::byte> line, bool one_of_many) {
  if (peers_[to].parts.cache == nullptr) return;  // it never was here
  std::byte* const into = peers_[to].parts.cache + std::uint64_t(slot) * line_bytes_;
  if (one_of_many) {
    streamed_ = base::stream_copy(into, line.data(), line.size()) || streamed_;
  } else {
    base::racy_copy(into, line.data(), line.size());
  }
}

void ShmFabric::prefetch_slot(NodeId to, std::uint32_t slot, std::uint32_t bytes) noexcept {
  if (peers_[to].parts.cache == nullptr) return;
  const std::byte* at = peers_[to].parts.cache + std::uint64_t(slot) * line_bytes_;
  for (std::uint32_t i = 0; i < bytes; i += 64) __builtin_prefetch(at + i, 1);
}

void ShmFabric::write_home(NodeId to, std::uint64_t offset, std::span<const std::byte> line) {
  if (peers_[to].parts.memory == nullptr) return;
  base::racy_copy(peers_[to].parts.memory + offset, line.data(), line.size());
}

const std::byte* ShmFabric::read_slot(NodeId from, std::uint32_t slot, std::uint32_t /*bytes*/) {
  const std::byte* const cache = peers_[from].parts.cache;
  return cache == nullptr ? nullptr : cache + std::uint64_t(slot) * line_bytes_;
}

void ShmFabric::drain(Peer& peer) {
  while (!peer.overflow.empty() && peer.out.push(peer.overflow.front())) peer.overflow.pop_front();
}

void ShmFabric::ring_doorbell(Peer& peer) {
  ShmParts& parts = peer.parts;
  // The message first, then the look at the sleeper; who goes to sleep does it the other way round.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (parts.asleep->load(std::memory_order_relaxed) == 0) return;
  if (parts.asleep->exchange(0, std::memory_order_seq_cst) == 0) return;  // somebody else wakes it
  counters_.wakeups_sent.add();
  if (parts.bell >= 0 && ring_bell(parts.bell)) return;
  parts.bell = -1;  // it sleeps on the doorbell, now and later
  parts.doorbell->fetch_add(1, std::memory_order_release);
  base::futex_wake(*parts.doorbell, 1, base::FutexScope::kShared);
}

void ShmFabric::flush() {
  std::size_t kept = 0;
  for (const NodeId to : touched_) {
    Peer& peer = peers_[to];
    push_staged(peer);
    drain(peer);
    ring_doorbell(peer);
    peer.sent = !peer.overflow.empty();
    if (peer.sent) touched_[kept++] = to;
  }
  touched_.resize(kept);
  backlog_.store(kept != 0, std::memory_order_relaxed);
}

bool ShmFabric::poll(wire::Message& message, NodeId& from) {
  const auto count = NodeId(peers_.size());
  for (NodeId tried = 0; tried < count; ++tried) {
    const NodeId node = next_poll_;
    Peer& peer = peers_[node];
    if (node != self_ && !peer.gone.load(std::memory_order_relaxed) && peer.in.pop(message)) {
      from = node;  // stay with this peer: its messages often come in groups
      return true;
    }
    next_poll_ = NodeId(node + 1 == count ? 0 : node + 1);
  }
  return false;
}

bool ShmFabric::maybe_pending() const noexcept {
  for (NodeId node = 0; node < peers_.size(); ++node) {
    // Not who is gone: what stands in its ring is never taken out.
    if (node != self_ && !peers_[node].gone.load(std::memory_order_relaxed) && peers_[node].in.ready()) return true;
  }
  return false;
}

void ShmFabric::wait(std::uint32_t timeout_ms) noexcept {
  const ShmParts& parts = peers_[self_].parts;
  const std::uint32_t ticket = parts.doorbell->load(std::memory_order_acquire);
  parts.asleep->exchange(1, std::memory_order_seq_cst);
  if (!maybe_pending()) {
    counters_.sleeps.add();
    base::futex_wait(*parts.doorbell, ticket, std::uint64_t(timeout_ms) * 1000, base::FutexScope::kShared);
  }
  parts.asleep->store(0, std::memory_order_seq_cst);
}

bool ShmFabric::begin_sleep() noexcept {
  peers_[self_].parts.asleep->exchange(1, std::memory_order_seq_cst);
  return !maybe_pending();
}

void ShmFabric::end_sleep() noexcept {
  peers_[self_].parts.asleep->store(0, std::memory_order_seq_cst);
}

void ShmFabric::wake_self() noexcept {
  const ShmParts& parts = peers_[self_].parts;
  parts.doorbell->fetch_add(1, std::memory_order_seq_cst);
  base::futex_wake(*parts.doorbell, 1, base::FutexScope::kShared);
}

void ShmFabric::forget(NodeId peer) noexcept {
  peers_[peer].gone = true;
  peers_[peer].staged_count = 0;
  peers_[peer].overflow.clear();
}

void ShmFabric::readmit(NodeId node, const ShmParts& parts) noexcept {
  forget(node);
  Peer& peer = peers_[node];
  peer.parts = parts;
  peer.out = Ring(parts.rings + Ring::bytes(ring_slots_) * self_, ring_slots_);
  peer.in.reset();
  if (peer.sent) std::erase(touched_, node);
  peer.sent = false;
  peer.gone.store(false, std::memory_order_release);
}

}  // namespace atoll::fabric
