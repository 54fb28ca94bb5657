// The fabric of one host: peers map each other's segments, data is copied, a futex wakes.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <vector>

#include "fabric/fabric.hpp"
#include "fabric/shm/ring.hpp"
#include "metrics/counters.hpp"

namespace atoll::fabric {

/// The parts of a node's segment that its peers use.
struct ShmParts {
  std::byte* rings = nullptr;
  std::byte* cache = nullptr;
  std::byte* memory = nullptr;
  std::atomic<std::uint32_t>* doorbell = nullptr;  // futex: bumped to wake the service thread
  std::atomic<std::uint32_t>* asleep = nullptr;    // 1 while the service thread wants to be woken
  int bell = -1;  // where it listens while it sleeps; -1, or nobody there any more: it sleeps on the doorbell
};

/// See Fabric for threads and invariants.
class ShmFabric final : public Fabric {
 public:
  /// `parts[k]` are node k's, mapped here; they must outlive the fabric. Nodes without are not reached this way.
  ShmFabric(NodeId self, std::uint32_t line_bytes, std::uint32_t ring_slots, const std::vector<ShmParts>& parts,
            metrics::Counters& counters);

  void send(NodeId to, const wire::Message& message) override;
  void write_slot(NodeId to, std::uint32_t slot, std::span<const std::byte> line, bool one_of_many) override;
  void prefetch_slot(NodeId to, std::uint32_t slot, std::uint32_t bytes) noexcept override;
  void write_home(NodeId to, std::uint64_t offset, std::span<const std::byte> line) override;
  [[nodiscard]] const std::byte* read_slot(NodeId from, std::uint32_t slot, std::uint32_t bytes) override;
  void flush() override;
  [[nodiscard]] bool poll(wire::Message& message, NodeId& from) override;
  [[nodiscard]] bool maybe_pending() const noexcept override;
  [[nodiscard]] bool has_backlog() const noexcept override { return backlog_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::size_t queued(NodeId to) const noexcept override { return peers_[to].overflow.size(); }
  void wait(std::uint32_t timeout_ms) noexcept override;
  void wake_self() noexcept override;
  void forget(NodeId peer) noexcept override;
  /// A peer that is gone, or never was here, is reached in a new segment: both directions begin anew. Under the engine
  /// lock. REQUIRES: the process of its last life writes no more; the new one writes not yet, and its rings are empty.
  void readmit(NodeId peer, const ShmParts& parts) noexcept;

  /// For who sleeps on more than this fabric: from the first call on peers ring, and false means that there is
  /// something to poll already.
  [[nodiscard]] bool begin_sleep() noexcept;
  void end_sleep() noexcept;

 private:
  static constexpr std::uint32_t kMaxGathered = 8;
  struct Peer {
    ShmParts parts;
    Ring out;                                        // in the peer's segment
    Ring in;                                         // in ours
    std::array<wire::Message, kMaxGathered> staged;  // one, or several small writes; the last is open for more lines
    std::uint32_t staged_count = 0;
    bool sent = false;  // since the last flush
    std::atomic<bool> gone{false};
    std::deque<wire::Message> overflow;  // what the ring could not take
  };
  void push(Peer& peer, const wire::Message& message);
  void push_staged(Peer& peer);
  void drain(Peer& peer);
  void ring_doorbell(Peer& peer);

  NodeId self_;
  std::uint32_t line_bytes_, ring_slots_;
  metrics::Counters& counters_;
  std::vector<Peer> peers_;
  std::vector<NodeId> touched_;  // peers sent to since the last flush, or with overflow
  std::atomic<bool> backlog_{false};
  NodeId next_poll_ = 0;
  bool streamed_ = false;  // stores that go around the processor cache are under way
};

}  // namespace atoll::fabric
