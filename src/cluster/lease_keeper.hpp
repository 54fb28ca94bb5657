// What a node does about its lease: when to report, when to stop, whom it has lost.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cluster/lease_node.hpp"
#include "cluster/membership.hpp"

namespace atoll::cluster {

/// Feeds a LeaseNode and says what follows from it: reports to send, deaths and changes of the node's standing to tell.
///
/// Thread-safety: none; the owner's lock.
/// Invariants:
///   1. A death is told once, and only of a process that was in an epoch which this node had; so is a return, which
///      is the next thing told of its node.
///   2. Each change of this node's standing is told once.
///   3. That a node is given up is told once, and when it is dead.
class LeaseKeeper {
 public:
  /// Something to tell the rest of the node.
  struct Notice {
    enum class Kind : std::uint8_t { kStanding, kDeath, kReturn, kGivenUp };
    Kind kind = Kind::kStanding;
    Standing standing = Standing::kActive;  // of this node
    NodeId node = kNoNode;                  // whom it is about, if not this node
    std::uint32_t incarnation = 0;          // the process that died or has come
    std::uint32_t epoch = 0;                // in which one that has come was let in
    std::string why{};
  };

  /// REQUIRES: incarnation != 0.
  LeaseKeeper(NodeId node, std::uint32_t incarnation, const LeaseTimes& times)
      : times_(times), lease_(node, incarnation, times) {}

  [[nodiscard]] const LeaseNode& lease() const noexcept { return lease_; }
  [[nodiscard]] bool fenced() const noexcept { return lease_.state() == LeaseState::kFenced; }

  /// A master of this term is there: a report is due. False when the node obeys a later one.
  [[nodiscard]] bool connected(Term term, LeaseTime now) noexcept;
  void disconnected() noexcept { report_at_.reset(); }
  /// What to send now, if it is time to.
  [[nodiscard]] std::optional<Report> due_report(LeaseTime now);
  void on_answer(const Answer& answer, LeaseTime now);
  /// The process of the master that was obeyed has ended, for certain.
  void master_ended(LeaseTime now);
  /// Looks whether the right to act has run out.
  void on_clock(LeaseTime now);

  /// Who cannot be reached is named in every report.
  void set_reachable(NodeId peer, bool reachable) {
    if (reachable) {
      unreachable_.erase(peer);
    } else {
      unreachable_.insert(peer);
    }
  }
  /// Why the master will say that a node is out.
  void note_reason(NodeId node, std::string why) { reasons_[node] = std::move(why); }
  /// Nobody starts this node again when it is dead.
  void note_given_up(NodeId node, std::string why);
  [[nodiscard]] std::vector<Notice> take_notices() noexcept { return std::exchange(notices_, {}); }
  /// What was taken, to be told later after all.
  void put_back(std::vector<Notice> notices) noexcept { notices_ = std::move(notices); }

  /// When there is something to do again.
  [[nodiscard]] LeaseTime next_look() const noexcept;
  /// Suspended for as long as a cluster may be without a master: nobody will come.
  [[nodiscard]] bool is_hopeless(LeaseTime now) const noexcept;

 private:
  static constexpr LeaseTime kFirstRetry = 1'000'000;  // a newcomer reports again so soon, then twice as late each time

  void settle(LeaseTime now);
  void tell_changes(const Epoch& before);
  void tell_given_up(NodeId node);

  LeaseTimes times_;
  LeaseNode lease_;
  std::optional<LeaseTime> report_at_;  // none: nobody to report to
  LeaseTime retry_ = kFirstRetry;
  std::optional<LeaseTime> suspended_since_;
  Standing told_ = Standing::kSuspended;  // what the rest of the node knows
  std::set<NodeId> unreachable_;
  std::map<NodeId, std::string> reasons_;
  std::map<NodeId, std::string> given_up_;  // and why
  std::set<NodeId> told_given_up_;
  std::vector<Notice> notices_;
};

}  // namespace atoll::cluster
