// What a logged cluster adds to the protocol: lines that come home to be logged, nodes that die, and nodes that are
// back.
#include <algorithm>

#include "coherence/line_version.hpp"
#include "coherence/protocol.hpp"

namespace atoll::coherence {

/// What a node says of a line that it owned, or has a copy of. The word of the latest tenure counts. It may be a later
/// one than the home knows of: then the home has died, and the end of its log was lost.
DirEvent Protocol::classify_return(const LineRef& ref, const Message& message, const char** why) {
  const DirEntry& entry = *ref.directory;
  const bool is_owner = entry.owner == message.from;
  if (!env_.is_logged()) *why = "a report where nothing is logged";
  if (message.kind == Kind::kReportShared) {
    if (entry.owner != kNoNode && !is_owner) *why = "a copy of a line that another node owns";
    return DirEvent::kReportShared;
  }
  const bool current = message.tenure > entry.transfers || (message.tenure == entry.transfers && is_owner);
  if (message.kind == Kind::kReportDirty) {
    if (!current) *why = "it reports a tenure that is over";
    return DirEvent::kReportDirty;
  }
  if (!current) return DirEvent::kReturnStale;
  return message.kind == Kind::kWriteBack ? DirEvent::kReturnShared : DirEvent::kReturn;
}

void Protocol::act_logged(const LineRef& ref, DirAction action, DirState before, const Message& message,
                          Outcome& outcome) {
  DirEntry& entry = *ref.directory;
  if (action == DirAction::kTake) {
    take(ref, message);
  } else if (action == DirAction::kAddSender) {
    entry.sharers |= bit(message.from);
  } else if (action == DirAction::kOwnerReports) {
    mark_away(*ref.line);
    entry.owner = message.from;
    entry.transfers = message.tenure;
  } else if (action == DirAction::kUndo) {
    ++entry.transfers;
    env_.log_transfer(ref, kNoNode);
    entry.owner = kNoNode;
    mark_here(*ref.line);
  } else if (action == DirAction::kResume) {
    resume(ref, before);
  } else if (action == DirAction::kSuspend) {
    if ((entry.flags & kPendingTry) != 0) {
      refuse(ref, entry.requester, entry.slot, outcome);
    } else {
      resume(ref, before);
    }
  } else if (action == DirAction::kForgetRequester) {
    entry.sharers &= ~bit(message.from);
    entry.requester = kNoNode;
  }
}

/// The line comes home: it is in the home's log when this returns, and the home's own tenure has begun.
void Protocol::take(const LineRef& ref, const Message& message) {
  DirEntry& entry = *ref.directory;
  mark_away(*ref.line);  // whoever reads in place meanwhile sees that it is being written
  env_.take_home(ref, message);
  entry.transfers = message.tenure + 1;
  entry.owner = kNoNode;
  mark_here(*ref.line);
}

/// What was remembered while the owner was asked becomes a request again, the first in the queue.
void Protocol::resume(const LineRef& ref, DirState before) {
  const DirEntry& entry = *ref.directory;
  if (entry.requester == kNoNode) return;  // it has died
  const Kind kind = before == DirState::kDirtyToShared ? Kind::kGetShared : Kind::kGetExclusive;
  const bool is_try = (entry.flags & kPendingTry) != 0;
  env_.cold(ref).requests.push_front({kind, is_try, entry.requester, entry.requester, entry.slot});
}

/// May the line be shown to others? Not while what this node has logged of it can be lost. Its threads write no more
/// while we look, or what they write would be given away with it.
bool Protocol::settles(const LineRef& ref) {
  if (!env_.is_logged()) return true;
  lower_access(ref, detail::kReadable, true);
  return env_.is_settled(ref);
}

/// Something that no message tells. A row that says never is a bug of ours.
void Protocol::happen(const LineRef& ref, DirEvent event, NodeId node) {
  const auto& cell = tables_.directory.at(ref.directory->state, event);
  if (cell.never) return env_.broken(ref, cell.why);
  after(ref, step(ref, event, {Kind::kNone, false, node, node, 0}));
}

void Protocol::happen(const LineRef& ref, CacheEvent event, const Message& message) {
  const auto& cell = tables_.cache.at(ref.state(), event);
  if (cell.never) return env_.broken(ref, cell.why);
  after(ref, step(ref, event, message));
}

void Protocol::peer_died(const LineRef& ref, NodeId node) {
  const DirEntry& entry = *ref.directory;
  if (Cold* cold = env_.find_cold(ref); cold != nullptr) {
    std::erase_if(cold->requests, [&](const Message& waits) { return waits.from == node; });
  }
  if (entry.requester == node) happen(ref, DirEvent::kRequesterDied, node);
  if (entry.owner == node) happen(ref, DirEvent::kOwnerDied, node);
  if ((entry.sharers & bit(node)) != 0) {
    const Cold* cold = env_.find_cold(ref);
    if (cold != nullptr && (cold->unanswered & bit(node)) != 0) {
      receive_at_home(ref, {Kind::kInvalidateAck, false, node, node, 0});  // nobody has its copy any more
    } else {
      const bool last = entry.state == DirState::kShared && count_others(entry, node) == 0;
      happen(ref, last ? DirEvent::kSharerDiedLast : DirEvent::kSharerDied, node);
    }
  }
  run_queue(ref);  // what it asked may have been in the way of others
  pursue(ref);
  settle(ref);
}

void Protocol::owner_back(const LineRef& ref, NodeId node) {
  if (ref.directory->state != DirState::kOrphaned || ref.directory->owner != node) return;
  happen(ref, DirEvent::kOwnerBack, node);
  settle(ref);
}

void Protocol::home_died(const LineRef& ref) {
  Cold* cold = env_.find_cold(ref);
  if (cold == nullptr || !cold->has_held) return;
  cold->has_held = false;
  pursue(ref);  // locks that let others go first
  settle(ref);
}

void Protocol::home_back(const LineRef& ref) {
  happen(ref, CacheEvent::kHomeBack, {Kind::kNone, false, env_.self(), ref.home(), 0});
  settle(ref);
}

void Protocol::home_open(const LineRef& ref) {
  const Cold* cold = env_.find_cold(ref);
  const bool is_try = cold != nullptr && cold->trying != nullptr;
  happen(ref, CacheEvent::kHomeOpen, {Kind::kNone, is_try, env_.self(), env_.self(), 0});
  settle(ref);
}

void Protocol::restore_home(const LineRef& ref, std::uint64_t transfers, NodeId owner) {
  ref.directory->transfers = transfers;
  ref.directory->owner = owner;
  if (owner != kNoNode) mark_away(*ref.line);
  set_state(ref, owner == kNoNode ? DirState::kUnshared : DirState::kOrphaned);
}

void Protocol::restore_returning(const LineRef& ref, std::uint64_t tenure) {
  env_.tenure(ref) = tenure;
  set_state(ref, CacheState::kDirtyToInvalid);
}

}  // namespace atoll::coherence
