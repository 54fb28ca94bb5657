// A node's side of its lease.
#pragma once

#include <vector>

#include "cluster/lease.hpp"

namespace atoll::cluster {

/// Knows whether this process may touch memory and send, and until when.
///
/// Thread-safety: none; one thread, or the owner's lock. `act_until` is one word that the owner may show to others.
/// Invariants:
///   1. Only `move` changes the state, as kLeaseTable says.
///   2. may_act is true only in Active and Orphaned, and only for a time that the node's own clock ends.
///   3. Fenced is for ever.
///   4. The epoch's number only grows.
class LeaseNode {
 public:
  /// Everything that it remembers.
  struct Memory {
    LeaseState state = LeaseState::kJoining;
    Term obeyed = kNoTerm;           // whom it reported to last
    Term previous = kNoTerm;         // whom it obeyed before this one
    Term renewed_by = kNoTerm;       // who gave the right that it has
    LeaseTime renewed_sent = 0;      // when it sent the report for it
    LeaseTime act_until = kLongAgo;  // the end of its right
    Epoch epoch;
  };

  /// REQUIRES: incarnation != 0.
  LeaseNode(NodeId node, std::uint32_t incarnation, const LeaseTimes& times, LeaseRules rules = {}) noexcept
      : node_(node), incarnation_(incarnation), times_(times), rules_(rules) {}

  /// Whether the node may touch memory and send, now. Asked before every such thing.
  [[nodiscard]] bool may_act(LeaseTime now) const noexcept { return now < memory_.act_until; }

  /// A connection to a master of this term stands. False when the node obeys a later one: close it again.
  [[nodiscard]] bool connected(Term term) noexcept;
  /// What to send now. REQUIRES: connected.
  [[nodiscard]] Report report(LeaseTime now, std::vector<NodeId> unreachable = {});
  void on_answer(const Answer& answer, LeaseTime now);
  /// The process of the master of this term has ended, for certain.
  void master_ended(Term term, LeaseTime now) noexcept;
  /// To be called now and then, and before anything is decided by the state.
  void on_clock(LeaseTime now) noexcept;

  [[nodiscard]] NodeId node() const noexcept { return node_; }
  [[nodiscard]] std::uint32_t incarnation() const noexcept { return incarnation_; }
  [[nodiscard]] LeaseState state() const noexcept { return memory_.state; }
  [[nodiscard]] LeaseTime act_until() const noexcept { return memory_.act_until; }
  [[nodiscard]] const Epoch& epoch() const noexcept { return memory_.epoch; }
  [[nodiscard]] const Memory& memory() const noexcept { return memory_; }

 private:
  [[nodiscard]] LeaseTime node_lease() const noexcept {
    return rules_.hold(LeaseRule::kMargin) ? times_.node_lease : times_.lease;
  }
  [[nodiscard]] LeaseTime node_orphan() const noexcept {
    return rules_.hold(LeaseRule::kMargin) ? times_.node_orphan : times_.orphan;
  }
  [[nodiscard]] bool take_epoch(const Epoch& epoch);
  void move(LeaseEvent event, LeaseTime sent) noexcept;

  NodeId node_;
  std::uint32_t incarnation_;
  LeaseTimes times_;
  LeaseRules rules_;
  Memory memory_;
};

}  // namespace atoll::cluster
