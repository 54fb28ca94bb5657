#include "cluster/lease_node.hpp"

#include <utility>

#include "base/check.hpp"

namespace atoll::cluster {

bool LeaseNode::connected(Term term) noexcept {
  if (rules_.hold(LeaseRule::kHigherTermsOnly) && term < memory_.obeyed) return false;
  if (term != memory_.obeyed) memory_.previous = memory_.obeyed;
  memory_.obeyed = term;
  return true;
}

Report LeaseNode::report(LeaseTime now, std::vector<NodeId> unreachable) {
  on_clock(now);
  return {node_, incarnation_, memory_.previous, memory_.epoch, memory_.state, now, std::move(unreachable)};
}

void LeaseNode::on_answer(const Answer& answer, LeaseTime now) {
  on_clock(now);
  if (rules_.hold(LeaseRule::kOneMaster) && answer.term != memory_.obeyed) return;
  if (memory_.state == LeaseState::kFenced) return;
  if (!take_epoch(answer.epoch) || answer.verdict == Verdict::kOut) {
    return move(LeaseEvent::kDeclaredOut, answer.echo);
  }
  const LeaseTime since = rules_.hold(LeaseRule::kCountFromSending) ? answer.echo : now;
  // One that has run out on its way is of no use.
  if (answer.verdict == Verdict::kHeld || now >= since + node_lease()) return move(LeaseEvent::kHeld, since);
  memory_.renewed_by = answer.term;
  memory_.renewed_sent = since;
  move(LeaseEvent::kRenewed, since);
}

/// False when a newer epoch lacks a node that was in an older one, or has let it in anew. One that was never in just
/// goes on waiting; and one that never acted takes whatever its master has, for what it has may be of another
/// master that nobody followed.
bool LeaseNode::take_epoch(const Epoch& epoch) {
  const bool newcomer = memory_.state == LeaseState::kJoining;
  const bool newer = epoch.number > memory_.epoch.number;
  bool in = epoch.has(node_, incarnation_);
  if (newcomer && in) {
    memory_.epoch = epoch;
    return true;
  }
  if (!newer || memory_.epoch.number == 0) return true;
  const bool again = in && epoch.since[node_] != memory_.epoch.since[node_];
  if (again && rules_.hold(LeaseRule::kInOnce)) in = false;
  memory_.epoch = epoch;  // in either case: a later master may have to learn of it from this node
  return in;
}

void LeaseNode::master_ended(Term term, LeaseTime now) noexcept {
  on_clock(now);
  const bool own = term == memory_.obeyed && term == memory_.renewed_by;
  if (own || !rules_.hold(LeaseRule::kOwnMasterEnded)) move(LeaseEvent::kMasterEnded, memory_.renewed_sent);
}

void LeaseNode::on_clock(LeaseTime now) noexcept {
  const bool had_right = memory_.state == LeaseState::kActive || memory_.state == LeaseState::kOrphaned;
  if (had_right && !may_act(now)) move(LeaseEvent::kRanOut, 0);
}

void LeaseNode::move(LeaseEvent event, LeaseTime sent) noexcept {
  const auto& row = kLeaseTable.at(memory_.state, event);
  ATOLL_CHECK(!row.never);
  memory_.state = row.next;
  switch (row.actions[0]) {
    case LeaseAction::kNone: return;
    case LeaseAction::kRenew: memory_.act_until = sent + node_lease(); return;
    case LeaseAction::kExtend: memory_.act_until = sent + node_orphan(); return;
    case LeaseAction::kStop: memory_.act_until = kLongAgo; return;
  }
}

}  // namespace atoll::cluster
