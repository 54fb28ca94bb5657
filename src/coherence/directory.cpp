// The home's side: from a message to an event, from an event to its row, from the row to what is done.
#include <algorithm>
#include <bit>

#include "coherence/line_version.hpp"
#include "coherence/lock_word.hpp"
#include "coherence/protocol.hpp"

namespace atoll::coherence {
namespace {

bool is_request(Kind kind) noexcept {
  return kind == Kind::kGetShared || kind == Kind::kGetExclusive || kind == Kind::kUpgrade ||
         kind == Kind::kGetOperated;
}

/// A line that no thread of the home can hit cannot be locked by one without coming here, and need not be guarded
/// against that: an atomic instruction per line would wait for the copy of the line before it.
bool cannot_be_locked(const LineRef& ref) noexcept {
  return ref.hot.access() == 0 && is_idle(ref.line->lock.load(std::memory_order_seq_cst));
}

/// Does the home's memory have the line's bytes (or, operated, its own part of them)?
bool is_held(DirState state) noexcept {
  switch (state) {
    case DirState::kUnshared:
    case DirState::kShared:
    case DirState::kOperated:
    case DirState::kSharedToUnshared:
    case DirState::kSharedToDirty:
    case DirState::kSharedToOperated:
    case DirState::kOperatedToUnshared: return true;
    case DirState::kDirty:
    case DirState::kStored:
    case DirState::kParked:
    case DirState::kDirtyToShared:
    case DirState::kDirtyToDirty:
    case DirState::kDirtyToUnshared:
    case DirState::kDirtyToOperated:
    case DirState::kFetching:
    case DirState::kOrphaned:
    case DirState::kCount: break;
  }
  return false;
}

/// Is a line that was as its file has it still so in this state? Elsewhere it is being written, or about to be.
bool keeps_filed(DirState state) noexcept {
  return state == DirState::kUnshared || state == DirState::kShared || state == DirState::kStored ||
         state == DirState::kParked || state == DirState::kFetching;
}

}  // namespace

/// How many nodes besides `but` and the home a message to all sharers would go to.
std::uint32_t Protocol::count_others(const DirEntry& entry, NodeId but) const noexcept {
  if (exact()) return std::uint32_t(std::popcount(entry.sharers & ~(but == kNoNode ? 0 : bit(but))));
  std::uint32_t count = 0;
  for (NodeId node = 0; node < env_.nodes(); ++node) {
    if ((entry.sharers & bit(node)) != 0 && node != but && node != env_.self()) ++count;
  }
  return count;
}

void Protocol::receive_at_home(const LineRef& ref, const Message& message) {
  Cold* cold = env_.find_cold(ref);
  const bool behind_others = cold != nullptr && !cold->requests.empty();
  if (is_request(message.kind) && behind_others) {
    // Each node waits for an answer before it asks again, so that the queue never holds more than one of each.
    const auto same = [&](const Message& waits) { return waits.from == message.from; };
    if (std::any_of(cold->requests.begin(), cold->requests.end(), same)) {
      return env_.fault(ref, message, "it asks again before it was answered");
    }
  }
  if (is_request(message.kind) && !message.is_try && behind_others) {
    cold->requests.push_back(message);
    return;
  }
  const char* why = nullptr;
  const DirEvent event = classify(ref, message, false, &why);
  if (why != nullptr) return env_.fault(ref, message, why);
  const auto& cell = tables_.directory.at(ref.directory->state, event);
  if (cell.never) return env_.fault(ref, message, cell.why);
  after(ref, step(ref, event, message));
}

void Protocol::run_queue(const LineRef& ref) {
  while (true) {
    Cold* cold = env_.find_cold(ref);
    if (cold == nullptr || cold->requests.empty() || !is_stable(ref.directory->state)) return;
    const Message message = cold->requests.front();
    const char* why = nullptr;
    const DirEvent event = classify(ref, message, true, &why);
    if (why == nullptr && event == DirEvent::kBlocked) return;  // still locked: it stays first
    cold->requests.pop_front();
    const auto& cell = tables_.directory.at(ref.directory->state, event);
    if (why != nullptr || cell.never) {
      env_.fault(ref, message, why != nullptr ? why : cell.why);
      continue;
    }
    const Outcome outcome = step(ref, event, message);
    if (outcome.refuse_try) refuse_trying(ref);
    if (outcome.serve) serve(ref, true);
  }
}

DirEvent Protocol::classify_request(const LineRef& ref, const Message& message, bool replayed) {
  const DirEntry& entry = *ref.directory;
  const bool local = message.from == env_.self();
  if (message.is_try && !replayed) {
    const Cold* cold = env_.find_cold(ref);
    if (!is_stable(entry.state) || (cold != nullptr && !cold->requests.empty())) return DirEvent::kTryBlocked;
  }
  const bool exclusive = message.kind != Kind::kGetShared;
  if (local) return exclusive ? DirEvent::kLocalExclusive : DirEvent::kLocalShared;
  const bool here = entry.state == DirState::kUnshared || entry.state == DirState::kShared;
  // What is not durable leaves the node for nobody. A try that the line came home for is not refused for that.
  if (here && !settles(ref)) return message.is_try && !replayed ? DirEvent::kTryBlocked : DirEvent::kBlocked;
  if (!cannot_be_locked(ref) && here) {
    // The bit first, so that no thread of the home takes the lock after we have looked.
    const std::uint32_t word = ref.line->lock.fetch_or(detail::kLockWaiters, std::memory_order_seq_cst);
    if (!lock_fits(word, exclusive)) return message.is_try ? DirEvent::kTryBlocked : DirEvent::kBlocked;
  }
  if (!exclusive) return DirEvent::kGetShared;
  if (message.kind == Kind::kGetOperated) {
    const bool so_already = entry.state == DirState::kOperated && entry.operation == message.operation;
    return entry.state == DirState::kUnshared || so_already ? DirEvent::kOperate : DirEvent::kOperateFirst;
  }
  if (entry.state == DirState::kShared && count_others(entry, message.requester) == 0) return DirEvent::kUpgradeSole;
  const bool has_copy = exact() && (entry.sharers & bit(message.requester)) != 0;
  return message.kind == Kind::kUpgrade && has_copy ? DirEvent::kUpgrade : DirEvent::kGetExclusive;
}

/// A write that a node sends to be done here: if a thread of the home could do it right now. Otherwise the node asks
/// for the line as for any write, and nothing has to be remembered of this one.
DirEvent Protocol::classify_write(const LineRef& ref) {
  const Cold* cold = env_.find_cold(ref);
  if (ref.directory->state != DirState::kUnshared || (cold != nullptr && !cold->requests.empty())) {
    return DirEvent::kWriteElsewhere;
  }
  if (cannot_be_locked(ref)) return DirEvent::kWriteHome;
  // The bit first, so that no thread of the home takes the lock after we have looked.
  const std::uint32_t word = ref.line->lock.fetch_or(detail::kLockWaiters, std::memory_order_seq_cst);
  return lock_fits(word, true) ? DirEvent::kWriteHome : DirEvent::kWriteElsewhere;
}

DirEvent Protocol::classify(const LineRef& ref, const Message& message, bool replayed, const char** why) {
  const DirEntry& entry = *ref.directory;
  const bool is_sharer = (entry.sharers & bit(message.from)) != 0;
  const bool is_owner = entry.owner == message.from;
  const bool sole = is_sharer && exact() && count_others(entry, message.from) == 0;
  switch (message.kind) {
    case Kind::kGetShared:
    case Kind::kGetExclusive:
    case Kind::kUpgrade:
    case Kind::kGetOperated:
      if (is_owner && entry.state == DirState::kDirty) *why = "the owner asks for what it has";
      return classify_request(ref, message, replayed);
    case Kind::kWriteHome: return classify_write(ref);
    case Kind::kPutShared:
      if (entry.state != DirState::kShared && entry.state != DirState::kParked) return DirEvent::kPutShared;
      if (!is_sharer) *why = "a copy returned that was not given";
      return sole ? DirEvent::kPutSharedLast : DirEvent::kPutShared;
    case Kind::kPutDirty:
      if (env_.is_logged()) return classify_return(ref, message, why);
      if (is_owner) return DirEvent::kPutDirty;
      return entry.state == DirState::kShared && sole ? DirEvent::kPutDirtyLast : DirEvent::kPutDirtyStale;
    case Kind::kPutOperated: {
      if (!is_sharer) *why = "operands returned by a node that does not operate";
      const bool last = entry.state == DirState::kOperatedToUnshared ? entry.acks_left == 1 : sole;
      return last ? DirEvent::kPutOperatedLast : DirEvent::kPutOperated;
    }
    case Kind::kInvalidateAck:
    case Kind::kInvalidateRefused: return classify_answer(ref, message, why);
    case Kind::kWriteBack:
    case Kind::kTransfer:
    case Kind::kOwnerRefused:
      if (env_.is_logged() && message.kind != Kind::kOwnerRefused) return classify_return(ref, message, why);
      if (!is_owner) *why = "an owner's answer from a node that is not the owner";
      if (message.kind == Kind::kWriteBack) return DirEvent::kWriteBack;
      return message.kind == Kind::kTransfer ? DirEvent::kTransfer : DirEvent::kOwnerRefused;
    case Kind::kReportShared:
    case Kind::kReportDirty: return classify_return(ref, message, why);
    case Kind::kCopy:
    case Kind::kNoCopy:
      if (entry.state != DirState::kFetching || entry.requester != message.from) *why = "a copy that nobody asked for";
      if (message.kind == Kind::kNoCopy) return DirEvent::kNoCopy;
      return entry.sharers == 0 ? DirEvent::kFetched : DirEvent::kFetchedShared;
    case Kind::kNone:
    case Kind::kInvalidate:
    case Kind::kForwardShared:
    case Kind::kForwardExclusive:
    case Kind::kData:
    case Kind::kGrant:
    case Kind::kRefused:
    case Kind::kPutAck:
    case Kind::kWritten:
    case Kind::kOwnerData:
    case Kind::kAllocate:
    case Kind::kAllocateReply:
    case Kind::kFree:
    case Kind::kFreeReply:
    case Kind::kBarrierArrive:
    case Kind::kBarrierRelease:
    case Kind::kLeaving:
    case Kind::kElementLock:
    case Kind::kElementAnswer:
    case Kind::kProbe:
    case Kind::kProbeAnswer:
    case Kind::kReportEnd:
    case Kind::kOpen:
    case Kind::kWriteIf:
    case Kind::kWriteIfReply:
    case Kind::kFetchCopy:
    case Kind::kFailed:
    case Kind::kOffer:
    case Kind::kFileCall:
    case Kind::kFileReply:
    case Kind::kCount: break;
  }
  *why = "not a message for a home";
  return DirEvent::kCount;
}

/// A sharer's answer to an invalidation, or its death.
DirEvent Protocol::classify_answer(const LineRef& ref, const Message& message, const char** why) {
  const DirEntry& entry = *ref.directory;
  if (entry.acks_left == 0 || (entry.sharers & bit(message.from)) == 0) *why = "an answer that nobody waits for";
  if (message.kind == Kind::kInvalidateRefused && (entry.flags & kPendingTry) == 0) *why = "it refuses what is no try";
  if (entry.acks_left > 1) return DirEvent::kAnswer;
  if (message.kind == Kind::kInvalidateRefused) return DirEvent::kSomeRefused;
  if ((entry.flags & kRefusedSome) == 0) return DirEvent::kAllGone;
  if (!env_.is_logged()) return DirEvent::kSomeRefused;
  // Those who refused may have died since, and their locks with them.
  const std::uint64_t asked = entry.requester == kNoNode ? entry.sharers : entry.sharers & ~bit(entry.requester);
  return (asked & ~bit(message.from)) != 0 ? DirEvent::kSomeRefused : DirEvent::kAllGone;
}

Protocol::Outcome Protocol::step(const LineRef& ref, DirEvent event, const Message& message) {
  const DirState before = ref.directory->state;
  const auto& cell = tables_.directory.at(before, event);
  if (tables_.coverage != nullptr) ++tables_.coverage->directory[std::size_t(before)][std::size_t(event)];
  Outcome outcome;
  for (std::uint8_t i = 0; i < cell.action_count; ++i) act(ref, cell.actions[i], before, message, outcome);
  set_state(ref, cell.next);
  return outcome;
}

void Protocol::invalidate_others(const LineRef& ref) {
  DirEntry& entry = *ref.directory;
  entry.acks_left = 0;
  for (std::uint64_t rest = entry.sharers; rest != 0; rest &= rest - 1) {
    for (NodeId node = NodeId(std::countr_zero(rest)); node < env_.nodes(); node = NodeId(node + 64)) {
      // Who wants to operate has dropped its copy; if it is on the list all the same, it says so again.
      if ((node == entry.requester && entry.operation == 0) || node == env_.self()) continue;
      ++entry.acks_left;
      if (env_.is_logged()) env_.cold(ref).unanswered |= bit(node);
      env_.send(ref, node, {Kind::kInvalidate, (entry.flags & kPendingTry) != 0, env_.self(), entry.requester, 0});
    }
  }
}

/// Permission to who was remembered: with data from the home, alone when the owner has sent it or it was there.
void Protocol::answer_pending(const LineRef& ref, DirState before, Outcome& outcome) {
  const DirEntry& entry = *ref.directory;
  if (entry.requester == kNoNode) return;  // it has died
  if (entry.requester == env_.self()) {
    outcome.serve = true;
    return;
  }
  const std::uint64_t tenure = tenure_for(entry, entry.requester);
  const bool from_owner = before == DirState::kDirtyToShared || before == DirState::kDirtyToDirty;
  if (from_owner || (entry.flags & kPendingUpgrade) != 0) {
    env_.send(ref, entry.requester, {Kind::kGrant, false, env_.self(), entry.requester, entry.slot, 0, tenure});
  } else {
    env_.send_line(ref, entry.requester, entry.slot,
                   {Kind::kData, false, env_.self(), entry.requester, entry.slot, 0, tenure});
  }
}

void Protocol::remember(DirEntry& entry, const Message& message) const noexcept {
  const bool listed = exact() && (entry.sharers & bit(message.requester)) != 0 && message.requester != env_.self();
  entry.requester = message.requester;
  entry.slot = message.slot;
  entry.operation = message.operation;
  entry.flags = std::uint8_t((message.is_try ? kPendingTry : 0) |
                             (message.kind == Kind::kUpgrade && listed ? kPendingUpgrade : 0));
}

/// What a grant to the node has to say of its tenure: something only when that makes it the owner.
std::uint64_t Protocol::tenure_for(const DirEntry& entry, NodeId node) const noexcept {
  return entry.owner == node && env_.is_logged() ? entry.transfers : 0;
}

void Protocol::tally(const LineRef& ref, const Message& message) {
  DirEntry& entry = *ref.directory;
  --entry.acks_left;
  if (env_.is_logged()) env_.cold(ref).unanswered &= ~bit(message.from);
  if (message.kind == Kind::kInvalidateRefused) {
    entry.flags |= kRefusedSome;
  } else if (exact()) {
    entry.sharers &= ~bit(message.from);
  }
}

/// A try, or a write at the home, that cannot be done now.
void Protocol::refuse(const LineRef& ref, NodeId who, std::uint32_t slot, Outcome& outcome) {
  if (who == env_.self()) {
    outcome.refuse_try = true;
  } else if (who != kNoNode) {
    env_.send(ref, who, {Kind::kRefused, false, env_.self(), who, slot});
  }
}

void Protocol::begin_operated(const LineRef& ref, const Message& message, NodeId subject) {
  DirEntry& entry = *ref.directory;
  if (is_request(message.kind)) entry.operation = message.operation;
  ref.line->operation.store(std::uint8_t(entry.operation), std::memory_order_relaxed);
  if (entry.sharers == 0) mark_away(*ref.line);
  entry.sharers |= bit(subject);
}

void Protocol::act(const LineRef& ref, DirAction action, DirState before, const Message& message, Outcome& outcome) {
  DirEntry& entry = *ref.directory;
  const NodeId self = env_.self();
  const NodeId subject = is_request(message.kind) ? message.requester : entry.requester;
  switch (action) {
    case DirAction::kNone: break;
    case DirAction::kWithdrawWrite: lower_access(ref, detail::kReadable, true); break;
    case DirAction::kWithdrawAll: lower_access(ref, 0, true); break;
    case DirAction::kHide: lower_access(ref, 0, false); break;
    case DirAction::kAddSharer:
      if (subject != self) entry.sharers |= bit(subject);
      break;
    case DirAction::kDropSharer:
      if (exact()) entry.sharers &= ~bit(message.from);
      break;
    case DirAction::kClearSharers: entry.sharers = 0; break;
    case DirAction::kOwnerToSharer:
      entry.sharers |= bit(entry.owner);
      entry.owner = kNoNode;
      mark_here(*ref.line);
      break;
    case DirAction::kSetOwner:
      // Before it is told: from then on it writes, and what stands here is old.
      if (!ATOLL_FAULT(owner_not_marked)) mark_away(*ref.line);
      entry.owner = subject;
      entry.sharers = 0;
      break;
    case DirAction::kClearOwner:
      entry.owner = kNoNode;
      mark_here(*ref.line);
      break;
    case DirAction::kLogTransfer:
      ++entry.transfers;
      env_.log_transfer(ref, subject);
      break;
    case DirAction::kSendData:
      env_.send_line(
          ref, message.requester, message.slot,
          {Kind::kData, false, self, message.requester, message.slot, 0, tenure_for(entry, message.requester)});
      break;
    case DirAction::kRemember: remember(entry, message); break;
    case DirAction::kInvalidateOthers: invalidate_others(ref); break;
    case DirAction::kForwardShared:
    case DirAction::kForwardExclusive: {
      // What is logged comes home, and goes on from there.
      const Kind kind = action == DirAction::kForwardShared ? Kind::kForwardShared : Kind::kForwardExclusive;
      if (env_.is_logged()) {
        env_.send(ref, entry.owner, {kind, message.is_try, self, self, 0});
      } else {
        env_.send(ref, entry.owner, {kind, message.is_try, self, message.requester, message.slot});
      }
      break;
    }
    case DirAction::kTally: tally(ref, message); break;
    case DirAction::kAnswerPending: answer_pending(ref, before, outcome); break;
    case DirAction::kRefusePending: refuse(ref, entry.requester, entry.slot, outcome); break;
    case DirAction::kServeLocal: outcome.serve = true; break;
    case DirAction::kDefer:
      if (!ATOLL_FAULT(request_dropped)) env_.cold(ref).requests.push_back(message);
      break;
    case DirAction::kRefuse: refuse(ref, message.from, message.slot, outcome); break;
    case DirAction::kPutAck:
      if (message.kind == Kind::kPutShared) break;
      if (env_.is_logged()) {
        env_.send_settled(ref, message.from, {Kind::kPutAck, false, self, message.from, 0});
      } else {
        env_.send(ref, message.from, {Kind::kPutAck, false, self, message.from, 0});
      }
      break;
    case DirAction::kWrite:
      env_.perform_for(ref, message);
      env_.send(ref, message.from, {Kind::kWritten, false, self, message.from, 0});
      break;
    case DirAction::kDeferFirst: env_.cold(ref).requests.push_front(message); break;
    case DirAction::kBegin: begin_operated(ref, message, subject); break;
    case DirAction::kGrant: env_.send(ref, subject, {Kind::kGrant, false, self, subject, 0}); break;
    case DirAction::kForwardHome: env_.send(ref, entry.owner, {Kind::kForwardExclusive, false, self, self, 0}); break;
    case DirAction::kRecall:
      entry.requester = self;
      invalidate_others(ref);
      break;
    case DirAction::kMerge: env_.merge(ref, message); break;
    case DirAction::kEnd:
      ref.line->operation.store(0, std::memory_order_relaxed);
      mark_here(*ref.line);
      break;
    case DirAction::kTake:
    case DirAction::kAddSender:
    case DirAction::kOwnerReports:
    case DirAction::kUndo:
    case DirAction::kResume:
    case DirAction::kSuspend:
    case DirAction::kForgetRequester: act_logged(ref, action, before, message, outcome); break;
    case DirAction::kSoil:
    case DirAction::kClean:
    case DirAction::kDiscard:
    case DirAction::kHere:
    case DirAction::kFetch:
    case DirAction::kLoad:
    case DirAction::kFail: act_stored(ref, action); break;
  }
  if (outcome.serve || outcome.refuse_try) env_.cold(ref).local_queued = false;
}

void Protocol::set_state(const LineRef& ref, DirState state) {
  DirEntry& entry = *ref.directory;
  const bool held = is_held(entry.state);
  entry.state = state;
  if (is_stable(state) || state == DirState::kOrphaned) {
    entry.requester = kNoNode;
    entry.flags &= kAsFiled;
    entry.acks_left = 0;
    if (state != DirState::kOperated) entry.operation = 0;
  }
  if (ref.has_file) {
    if (!keeps_filed(state)) entry.flags &= std::uint8_t(~kAsFiled);
    if (held != is_held(state)) env_.note_held(ref, !held);
  }
  const bool whole = is_whole(ref.line->version.load(std::memory_order_relaxed));
  switch (state) {
    case DirState::kUnshared:
      if (entry.owner != kNoNode || entry.sharers != 0) env_.broken(ref, "an unshared line has an owner or sharers");
      break;
    case DirState::kShared:
      if (entry.owner != kNoNode || entry.sharers == 0) env_.broken(ref, "a shared line has an owner or no sharers");
      if (!whole) env_.broken(ref, "a shared line passes for one that is elsewhere");
      break;
    case DirState::kDirty:
      if (entry.owner == kNoNode || entry.sharers != 0) env_.broken(ref, "a dirty line has no owner, or sharers");
      if (whole && !ATOLL_FAULT(owner_not_marked)) env_.broken(ref, "an owned line passes for one that is here");
      break;
    case DirState::kOperated:
      if (entry.owner != kNoNode || entry.sharers == 0)
        env_.broken(ref, "an operated line has an owner, or nobody operates");
      if (entry.operation == 0 || entry.operation != ref.line->operation.load(std::memory_order_relaxed))
        env_.broken(ref, "operated, but how?");
      if (whole) env_.broken(ref, "a line that lacks operands passes for one that is here");
      break;
    case DirState::kSharedToUnshared:
    case DirState::kSharedToDirty:
    case DirState::kSharedToOperated:
    case DirState::kOperatedToUnshared:
      if (entry.acks_left == 0) env_.broken(ref, "nobody was asked to drop a copy");
      break;
    case DirState::kDirtyToShared:
    case DirState::kDirtyToDirty:
    case DirState::kDirtyToUnshared:
    case DirState::kDirtyToOperated:
      if (entry.owner == kNoNode) env_.broken(ref, "a forward without an owner");
      if (entry.requester == kNoNode && !env_.is_logged()) env_.broken(ref, "a forward for nobody");
      break;
    case DirState::kStored:
    case DirState::kParked:
    case DirState::kFetching:
      if (entry.owner != kNoNode) env_.broken(ref, "a line that its file has is owned");
      if ((state == DirState::kStored) != (entry.sharers == 0) && state != DirState::kFetching)
        env_.broken(ref, "stored with sharers, or parked with none");
      if ((entry.flags & kAsFiled) == 0) env_.broken(ref, "nobody has the line, and it is not as its file has it");
      if (whole) env_.broken(ref, "a line that is not here passes for one that is");
      break;
    case DirState::kOrphaned:
      if (entry.owner == kNoNode || entry.sharers != 0) env_.broken(ref, "an orphaned line has no owner, or sharers");
      if (whole) env_.broken(ref, "an orphaned line passes for one that is here");
      break;
    case DirState::kCount: env_.broken(ref, "no such state"); break;
  }
  lower_access(ref, permission(ref), false);
}

}  // namespace atoll::coherence
