// Peers on this host over shared memory, the others over libfabric.
#pragma once

#include <memory>
#include <vector>

#include "fabric/ofi/ofi_fabric.hpp"
#include "fabric/shm/bell.hpp"
#include "fabric/shm/shm_fabric.hpp"

namespace atoll::fabric {

/// See Fabric for threads and invariants: each pair of nodes uses one way only, so that each way's order is the pair's.
class MixedFabric final : public Fabric {
 public:
  /// `near[k]`: node k is reached over shared memory. `bell`: what its peers ring; it must outlive the fabric.
  MixedFabric(std::unique_ptr<ShmFabric> shm, std::unique_ptr<OfiFabric> ofi, std::vector<bool> near, const Bell& bell)
      : shm_(std::move(shm)), ofi_(std::move(ofi)), near_(std::move(near)), bell_(bell) {}

  void send(NodeId to, const wire::Message& message) override { way(to).send(to, message); }
  void write_slot(NodeId to, std::uint32_t slot, std::span<const std::byte> line, bool one_of_many) override {
    way(to).write_slot(to, slot, line, one_of_many);
  }
  void prefetch_slot(NodeId to, std::uint32_t slot, std::uint32_t bytes) noexcept override {
    way(to).prefetch_slot(to, slot, bytes);
  }
  void write_home(NodeId to, std::uint64_t offset, std::span<const std::byte> line) override {
    way(to).write_home(to, offset, line);
  }
  [[nodiscard]] const std::byte* read_slot(NodeId from, std::uint32_t slot, std::uint32_t bytes) override {
    return way(from).read_slot(from, slot, bytes);
  }
  void flush() override {
    shm_->flush();
    ofi_->flush();
  }
  [[nodiscard]] bool poll(wire::Message& message, NodeId& from) override;
  [[nodiscard]] bool maybe_pending() const noexcept override { return shm_->maybe_pending() || ofi_->maybe_pending(); }
  [[nodiscard]] bool has_backlog() const noexcept override { return shm_->has_backlog(); }
  [[nodiscard]] std::size_t queued(NodeId to) const noexcept override {
    return near_[to] ? shm_->queued(to) : ofi_->queued(to);
  }
  void wait(std::uint32_t timeout_ms) noexcept override;
  void wake_self() noexcept override { ofi_->wake_self(); }
  void forget(NodeId peer) noexcept override { way(peer).forget(peer); }
  /// As those of the two ways. A peer may come back on this host and have been on another before, or the other way
  /// round.
  void readmit(NodeId peer, const ShmParts& parts) noexcept {
    forget(peer);
    near_[peer] = true;
    shm_->readmit(peer, parts);
  }
  void readmit(NodeId peer, const Introduced& introduced) noexcept {
    forget(peer);
    near_[peer] = false;
    ofi_->readmit(peer, introduced);
  }

 private:
  static constexpr std::uint32_t kNearInRow = 32;  // messages of this host before the others get a turn

  [[nodiscard]] Fabric& way(NodeId node) noexcept {
    if (near_[node]) return *shm_;
    return *ofi_;
  }

  std::unique_ptr<ShmFabric> shm_;
  std::unique_ptr<OfiFabric> ofi_;
  std::vector<bool> near_;
  const Bell& bell_;
  std::uint32_t near_in_row_ = 0;
};

}  // namespace atoll::fabric
