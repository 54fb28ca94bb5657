// The master's side of leases: who is in, and the only one that makes epochs.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "cluster/lease.hpp"

namespace atoll::cluster {

/// What a master leaves to its successor, in a small file: written before anyone is told of an epoch.
struct LeaseRecord {
  Term term = kNoTerm;
  Epoch epoch;
  friend bool operator==(const LeaseRecord&, const LeaseRecord&) = default;
};

/// Decides who is in. It learns until it is established (all members reported, or its predecessor's record has a
/// witness), then it renews leases, lets nodes in, and declares out those whose lease has run out.
///
/// Thread-safety: none; one thread, or the owner's lock.
/// Invariants:
///   1. Established is for ever, and nothing is renewed and no epoch made before.
///   2. A member is taken out only when its right has run out in the master's view, or its process has ended.
///   3. The epoch's number only grows; between two epochs the members are the same.
///   4. A member that is a newcomer has never had a lease, whatever was lost on its way: it was never sent one.
class LeaseMaster {
 public:
  struct Member {
    std::uint32_t heard = 0;                     // the incarnation that reported to this master; 0: none
    bool fresh = false;                          // that one was never in an epoch
    bool acted = false;                          // that one has had a lease
    bool newcomer = false;                       // it is in, and was never given a lease
    std::uint32_t ended = 0;                     // the incarnation whose process has ended, as its launcher says
    std::uint32_t seen = 0;                      // the epoch of this master that it said to have
    LeaseTime until = 0;                         // the end of its right, at the latest
    std::optional<LeaseTime> suspended_since{};  // its reports say that it waits for our answers
    std::optional<LossReason> condemned{};       // it is not renewed any more, and why
    std::map<NodeId, LeaseTime> complaints{};    // whom it cannot reach, and since when
    std::vector<std::uint32_t> unsure{};         // who is out, has perhaps acted, and is not known to have ended
  };
  struct Memory {
    bool established = false;
    std::uint32_t founded = 0;          // the epoch in which this master founded the cluster; 0: another one did
    Epoch epoch;                        // while not established: the newest that anyone told of
    bool told_by_member = false;        // by one that has had a lease
    std::optional<LeaseRecord> record;  // of the predecessor, while nobody has witnessed that it is the newest
    std::vector<Member> members;
  };

  /// `record`: of the predecessor, which has ended for certain (its lock on the file is free). Without one the
  /// master founds a cluster when all nodes come and none was ever in, or else waits for all of the old one.
  /// REQUIRES: term is larger than the record's.
  LeaseMaster(Term term, NodeId nodes, const LeaseTimes& times, LeaseTime now,
              std::optional<LeaseRecord> record = std::nullopt, LeaseRules rules = {});

  /// REQUIRES: report.node < nodes.
  [[nodiscard]] Answer on_report(const Report& report, LeaseTime now);
  /// The process of this node has ended, for certain: its launcher saw it, or the operator says so.
  [[nodiscard]] std::vector<Loss> node_ended(NodeId node, std::uint32_t incarnation, LeaseTime now);
  /// Who is out now. Not empty: there is a new epoch, and everyone has to be told.
  [[nodiscard]] std::vector<Loss> on_clock(LeaseTime now);
  /// The master itself was stopped for a while: what nodes sent may still lie unread, so nobody is late.
  void slept(LeaseTime now) noexcept;

  /// For everyone when an epoch was made.
  [[nodiscard]] Answer notice() const { return {term_, 0, Verdict::kHeld, memory_.epoch}; }
  /// To be on disk before any answer goes out.
  [[nodiscard]] LeaseRecord record() const { return {term_, memory_.epoch}; }
  [[nodiscard]] bool established() const noexcept { return memory_.established; }
  [[nodiscard]] Term term() const noexcept { return term_; }
  [[nodiscard]] const Epoch& epoch() const noexcept { return memory_.epoch; }
  [[nodiscard]] const Memory& memory() const noexcept { return memory_; }
  /// Whether the process that is in under this id has certainly never acted.
  [[nodiscard]] bool is_newcomer(NodeId node) const noexcept { return memory_.members[node].newcomer; }
  /// The nodes that a master which is not established waits for.
  [[nodiscard]] std::vector<NodeId> awaited() const;

 private:
  void learn(const Report& report);
  [[nodiscard]] bool knows_better(const Epoch& told, bool acted) const noexcept;
  [[nodiscard]] bool is_witness(const Report& report) const noexcept;
  void trust_record();
  void try_found();
  [[nodiscard]] bool may_found_anew() const noexcept;
  void found();
  [[nodiscard]] bool is_member(const Report& report) const noexcept;
  [[nodiscard]] Verdict judge(const Report& report, LeaseTime now);
  [[nodiscard]] bool may_enter(const Report& report) const noexcept;
  [[nodiscard]] bool others_know(NodeId node) const noexcept;
  void note_health(const Report& report, LeaseTime now);
  void condemn_unreachable(LeaseTime now);
  [[nodiscard]] std::size_t complaints_against(NodeId node) const noexcept;
  [[nodiscard]] std::optional<LossReason> reason_to_go(NodeId node, LeaseTime now) const noexcept;
  void take_out(NodeId node);
  void note_ended(NodeId node, std::uint32_t incarnation);

  Term term_;
  LeaseTimes times_;
  LeaseRules rules_;
  Memory memory_;
};

}  // namespace atoll::cluster
