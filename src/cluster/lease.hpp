// Leases and epochs: what a node and the master say to each other, the states of a node's lease, and the rules that
// keep two epochs from handing out permissions at the same time. Pure: no thread, no socket, no clock of its own.
// docs/membership.md argues every rule; tests/unit/cluster/lease_explorer_test.cpp breaks each and sees it go wrong.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string_view>
#include <vector>

#include "atoll/address.hpp"
#include "coherence/table.hpp"

namespace atoll::cluster {

/// Nanoseconds on the clock of whoever says it; never compared with another's. CLOCK_BOOTTIME, which goes on while
/// a process is stopped and while its machine sleeps; CLOCK_MONOTONIC stands still in a machine that sleeps.
using LeaseTime = std::int64_t;
inline constexpr LeaseTime kLongAgo = std::numeric_limits<LeaseTime>::min();

/// Which start of a master it is: a later one has a larger number. Seconds since 1970 above random bits.
using Term = std::uint64_t;
inline constexpr Term kNoTerm = 0;

inline constexpr std::int64_t kDefaultLease_ms = 5'000;
inline constexpr std::int64_t kDefaultMasterGrace_ms = 30'000;
inline constexpr std::int64_t kShortestLease_ms =
    500;  // of its margin 15 ms are left beside a tick of the coarse clock
inline constexpr std::int64_t kNoLease_ms = 315'360'000'000;  // ten years: nobody is declared out for silence
inline constexpr std::int64_t kLongestReport_ms = 1'000;      // reports bring counters too

/// How long things last. The node's times are shorter than the master's: two clocks that each run up to 1 % wrong
/// drift apart by 2 %, and what is left of the margin is there for the time between a check and what it allows.
struct LeaseTimes {
  LeaseTime lease = 0;        // the master: from a report to the end of the node's right
  LeaseTime orphan = 0;       // the master: the same for a node whose master has ended; at least `lease`
  LeaseTime node_lease = 0;   // the node: from sending a report that was answered to the end of its right
  LeaseTime node_orphan = 0;  // the node: the same when its master has ended
  LeaseTime patience = 0;     // the master: so long a node may hear nothing of it, or of another node, and stay in
  LeaseTime report_every = 0;

  static constexpr LeaseTime kMarginPercent = 5;
  /// `lease_ms`: after so long a silent node is out. `grace_ms`: so long the cluster works on without a master.
  [[nodiscard]] static constexpr LeaseTimes of_ms(std::int64_t lease_ms, std::int64_t grace_ms) noexcept {
    constexpr LeaseTime kMs = 1'000'000;
    const LeaseTime lease = lease_ms * kMs, orphan = (lease_ms + grace_ms) * kMs;
    return {lease,
            orphan,
            lease / 100 * (100 - kMarginPercent),
            orphan / 100 * (100 - kMarginPercent),
            lease,
            std::min(lease / 5, kLongestReport_ms * kMs)};
  }
};
/// Who is in. Only an established master makes one; numbers grow by one and are never used twice.
struct Epoch {
  std::uint32_t number = 0;                 // 0: there is none yet
  std::vector<std::uint32_t> incarnations;  // per node: which process is in under this id; 0: none is
  std::vector<std::uint32_t> since;         // per node: the number of the epoch in which it was let in

  [[nodiscard]] bool has(NodeId node, std::uint32_t incarnation) const noexcept {
    return node < incarnations.size() && incarnation != 0 && incarnations[node] == incarnation;
  }
  friend bool operator==(const Epoch&, const Epoch&) = default;
};

/// States of a node's lease, as the node knows it.
enum class LeaseState : std::uint8_t {
  kJoining,    // never had one: it may not act yet
  kActive,     // it may act until its lease ends
  kOrphaned,   // its master has ended, so nobody can declare it out: it may act for a longer while
  kSuspended,  // its right has run out: it does not know whether it is still in, and waits to be told
  kFenced,     // it is out, for ever
  kCount,
};
enum class LeaseEvent : std::uint8_t {
  kRenewed,      // its master answered a report with a renewal
  kHeld,         // its master answered, but does not renew: it is not established yet, or lets the lease run out
  kRanOut,       // the time of its right is over
  kMasterEnded,  // the process of the master that renewed last is known to have ended
  kDeclaredOut,  // its master says that it is not, or no longer, a member
  kCount,
};
enum class LeaseAction : std::uint8_t {
  kNone,
  kRenew,   // the right ends node_lease after the answered report was sent
  kExtend,  // the right ends node_orphan after the answered report was sent
  kStop,    // the right ends now
};
using LeaseRow = coherence::Row<LeaseState, LeaseEvent, LeaseAction>;
using LeaseTable = coherence::Table<LeaseState, LeaseEvent, LeaseAction>;

// clang-format off
inline constexpr LeaseRow kLeaseRows[] = {
#define S LeaseState
#define E LeaseEvent
#define A LeaseAction
  {S::kJoining, {E::kRenewed}, S::kActive, {A::kRenew}, "all others know of it: it may begin"},
  {S::kJoining, {E::kHeld}, S::kJoining, {}, "not all are there, or not all know of it"},
  {S::kJoining, {E::kRanOut}, "it has no right that could run out"},
  {S::kJoining, {E::kMasterEnded}, S::kJoining, {}, "it has no right that could be extended"},
  {S::kJoining, {E::kDeclaredOut}, S::kFenced, {A::kStop}, "it was let in, and out again before it began"},

  {S::kActive, {E::kRenewed}, S::kActive, {A::kRenew}, "the ordinary case"},
  {S::kActive, {E::kHeld}, S::kActive, {}, "what it was given still holds"},
  {S::kActive, {E::kRanOut}, S::kSuspended, {A::kStop}, "from now on the master may declare it out"},
  {S::kActive, {E::kMasterEnded}, S::kOrphaned, {A::kExtend}, "nobody can declare it out until the next master has waited this long"},
  {S::kActive, {E::kDeclaredOut}, S::kFenced, {A::kStop}, "told before its own clock said so: a process that was declared ended, or left"},

  {S::kOrphaned, {E::kRenewed}, S::kActive, {A::kRenew}, "a new master is established"},
  {S::kOrphaned, {E::kHeld}, S::kOrphaned, {}, "the new master still learns who is there"},
  {S::kOrphaned, {E::kRanOut}, S::kSuspended, {A::kStop}, "from now on the next master may declare it out"},
  {S::kOrphaned, {E::kMasterEnded}, S::kOrphaned, {}, "extended once: the next master counts from its own start"},
  {S::kOrphaned, {E::kDeclaredOut}, S::kFenced, {A::kStop}, "the old master declared it out before it ended"},

  {S::kSuspended, {E::kRenewed}, S::kActive, {A::kRenew}, "it was only slow, and is still in"},
  {S::kSuspended, {E::kHeld}, S::kSuspended, {}, "it still does not know"},
  {S::kSuspended, {E::kRanOut}, "it has no right that could run out"},
  {S::kSuspended, {E::kMasterEnded}, S::kSuspended, {}, "that master may have declared it out before it ended"},
  {S::kSuspended, {E::kDeclaredOut}, S::kFenced, {A::kStop}, "the others went on without it"},

  {S::kFenced, {E::kRenewed, E::kHeld, E::kMasterEnded, E::kDeclaredOut}, S::kFenced, {}, "a process that is out comes back only as a new one"},
  {S::kFenced, {E::kRanOut}, "it has no right that could run out"},
#undef S
#undef E
#undef A
};
// clang-format on

inline constexpr LeaseTable kLeaseTable{kLeaseRows};
static_assert(kLeaseTable.complete(), "every (state, event) of a lease has exactly one row");

/// From a node to its master: when it connects, and then every `report_every`. It is the heartbeat.
struct Report {
  NodeId node = 0;
  std::uint32_t incarnation = 0;  // which process: a random number other than 0, chosen when it starts
  Term previous_term = kNoTerm;   // whom it obeyed before this master
  Epoch epoch;                    // the newest that it has; number 0: never was in
  LeaseState state = LeaseState::kJoining;
  LeaseTime sent = 0;                 // on the node's clock
  std::vector<NodeId> unreachable{};  // members that it cannot reach, though it can reach the master
};

enum class Verdict : std::uint8_t { kRenewed, kHeld, kOut };

/// From the master to a node: one for each report, and one that renews nothing to everyone when an epoch is made.
struct Answer {
  Term term = kNoTerm;
  LeaseTime echo = 0;  // the report's `sent`
  Verdict verdict = Verdict::kHeld;
  Epoch epoch;
};

/// Why a node is out.
enum class LossReason : std::uint8_t { kSilent, kEnded, kSuspended, kUnreachable };
struct Loss {
  NodeId node = 0;
  std::uint32_t incarnation = 0;
  LossReason reason = LossReason::kSilent;
  friend bool operator==(const Loss&, const Loss&) = default;
};

/// What safety rests on, beside the table. All of them hold; the explorer breaks them one at a time.
enum class LeaseRule : std::uint8_t {
  kCountFromSending,
  kMargin,
  kInOnce,
  kLetItRunOut,
  kNewcomersWait,
  kNewcomersNeedAMember,
  kFoundAnew,
  kEstablishFirst,
  kAllReport,
  kRecordNeedsWitness,
  kNewcomersKnowLess,
  kCountFromStart,
  kOrphansLastLonger,
  kOneMaster,
  kHigherTermsOnly,
  kOwnMasterEnded,
  kIncarnations,
  kCount,
};
struct LeaseRuleText {
  LeaseRule rule;
  std::string_view name, text, why;
};

// clang-format off
inline constexpr LeaseRuleText kLeaseRules[] = {
  {LeaseRule::kCountFromSending, "count-from-sending", "A node counts its lease from when it sent the report that was answered; the master from when it received it.", "However long either message took, the node's right ends before the master thinks so."},
  {LeaseRule::kMargin, "margin", "A node's lease is 5 % shorter than the master's view of it.", "Two clocks never run at quite the same speed."},
  {LeaseRule::kInOnce, "in-once", "A node that finds itself let in a second time is out.", "A late report of a newcomer may let it in again after it was declared out; it has acted before, and would not wait for the others to know of it."},
  {LeaseRule::kLetItRunOut, "let-it-run-out", "The master declares a node out when its lease has run out in the master's view, or its process is known to have ended; one that it wants out it just does not renew any more.", "Nobody can be told to stop and be known to have stopped."},
  {LeaseRule::kNewcomersWait, "newcomers-wait", "A node gets its first lease when every other member has said that it has the epoch.", "Until then another member may act in an epoch that lacks it, or go with it to another master."},
  {LeaseRule::kNewcomersNeedAMember, "newcomers-need-a-member", "A node is let in, and gets its first lease, only beside a member that has had one. A cluster that has lost all of these can only be founded anew.", "Nobody of the old members would know of the newcomers, and they might meet at another master."},
  {LeaseRule::kFoundAnew, "found-anew", "A cluster is founded anew, by the master that founded it, when every process that ever had a lease is known to have ended and all nodes are there again.", "One that was only declared out may go to another master, and act there."},
  {LeaseRule::kEstablishFirst, "establish-first", "A master that is not established renews nothing and makes no epoch.", "There may be another one that is."},
  {LeaseRule::kAllReport, "all-report", "A master without the record of its predecessor is established when all members of the newest epoch that it was told of have reported to it; that of a fenced one counts, that of a dead one cannot be had.", "A node obeys one master, so no other one can have them too; and whoever was told of a newer epoch is among them."},
  {LeaseRule::kRecordNeedsWitness, "record-needs-witness", "A master with the record of its predecessor, which has ended, is established when one member has reported that obeyed this predecessor until then.", "Another master may have taken over, and the record may be old; but that one needed all members."},
  {LeaseRule::kNewcomersKnowLess, "newcomers-know-less", "A node that was never renewed is no such witness, and the epoch that it tells of counts only when nobody else tells of one.", "The old members may have gone to another master without having heard of it."},
  {LeaseRule::kCountFromStart, "count-from-start", "A master with its predecessor's record counts every member's right from its own start, at its full length without a master.", "The predecessor may have renewed it just before it ended."},
  {LeaseRule::kOrphansLastLonger, "orphans-last-longer", "The right of a node that has not yet taken a renewal of this master lasts as long as that of a node without one.", "The answer that would have shortened it may be lost."},
  {LeaseRule::kOneMaster, "one-master", "A node takes answers only of the master that it reported to last.", "The one before may have declared others out, or in, without knowing what the new one does."},
  {LeaseRule::kHigherTermsOnly, "higher-terms-only", "A node reports only to masters whose term is at least that of the one it obeys.", "It would go back to a master that others have left."},
  {LeaseRule::kOwnMasterEnded, "own-master-ended", "Only the end of the master that renewed last, and that it still obeys, extends a node's right.", "The one that renewed may be alive, and declares it out."},
  {LeaseRule::kIncarnations, "incarnations", "A member is an id and a process's own random number.", "A process that was declared out must not take the place of its successor."},
};
// clang-format on
static_assert(std::size(kLeaseRules) == std::size_t(LeaseRule::kCount));

/// Which rules hold. Production has them all.
struct LeaseRules {
  std::uint32_t broken = 0;  // one bit per rule
  [[nodiscard]] constexpr bool hold(LeaseRule rule) const noexcept { return (broken >> unsigned(rule) & 1U) == 0; }
};

[[nodiscard]] std::string_view to_string(LeaseState state) noexcept;
[[nodiscard]] std::string_view to_string(LeaseEvent event) noexcept;
[[nodiscard]] std::string_view to_string(LeaseAction action) noexcept;
[[nodiscard]] std::string_view to_string(LossReason reason) noexcept;

}  // namespace atoll::cluster
