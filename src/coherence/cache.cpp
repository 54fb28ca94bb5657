// The requester's side: from a message to an event, from an event to its row, from the row to what is done.
#include <algorithm>

#include "coherence/lock_word.hpp"
#include "coherence/protocol.hpp"

namespace atoll::coherence {

void Protocol::receive_at_cache(const LineRef& ref, const Message& message) {
  const char* why = nullptr;
  const CacheEvent event = classify_at_cache(ref, message, &why);
  if (why != nullptr) return env_.fault(ref, message, why);
  const auto& cell = tables_.cache.at(ref.state(), event);
  if (cell.never) return env_.fault(ref, message, cell.why);
  // There is room for one message to hold, and a home waits for its answer before it sends another.
  const Cold* cold = env_.find_cold(ref);
  const auto* const last = cell.actions.data() + cell.action_count;
  if (cold != nullptr && cold->has_held && std::find(cell.actions.data(), last, CacheAction::kHold) != last) {
    return env_.fault(ref, message, "the home asks again before it was answered");
  }
  after(ref, step(ref, event, message));
}

CacheEvent Protocol::classify_at_cache(const LineRef& ref, const Message& message, const char** why) {
  const auto unless_locked = [&](CacheEvent event) {
    const CacheState state = ref.state();
    const bool lockable = state == CacheState::kShared || state == CacheState::kDirty ||
                          state == CacheState::kSharedToDirty || state == CacheState::kDirtyToShared;
    if (!lockable) return event;
    // The bit first, so that no thread of this node takes the lock after we have looked.
    const std::uint32_t word = ref.line->lock.fetch_or(detail::kLockWaiters, std::memory_order_seq_cst);
    const bool copy = event == CacheEvent::kForwardShared || event == CacheEvent::kRecallShared;
    const bool settled = state != CacheState::kDirty || settles(ref);
    if (settled && lock_fits(word, !copy)) return event;
    return message.is_try ? CacheEvent::kTryHeld : CacheEvent::kHeld;
  };
  switch (message.kind) {
    case Kind::kData: return CacheEvent::kData;
    case Kind::kOwnerData: return CacheEvent::kOwnerData;
    case Kind::kGrant: return CacheEvent::kGrant;
    case Kind::kRefused: return CacheEvent::kRefused;
    case Kind::kPutAck: return CacheEvent::kPutAck;
    case Kind::kWritten: return CacheEvent::kWritten;
    case Kind::kInvalidate: return unless_locked(CacheEvent::kInvalidate);
    case Kind::kForwardShared:
      return unless_locked(env_.is_logged() ? CacheEvent::kRecallShared : CacheEvent::kForwardShared);
    case Kind::kForwardExclusive:
      return unless_locked(env_.is_logged() ? CacheEvent::kRecall : CacheEvent::kForwardExclusive);
    case Kind::kFetchCopy: return is_kept_for_home(ref) ? CacheEvent::kFetchIdle : CacheEvent::kFetchCopy;
    case Kind::kFailed: return CacheEvent::kFailed;
    case Kind::kNone:
    case Kind::kGetShared:
    case Kind::kGetExclusive:
    case Kind::kUpgrade:
    case Kind::kWriteHome:
    case Kind::kGetOperated:
    case Kind::kPutShared:
    case Kind::kPutDirty:
    case Kind::kPutOperated:
    case Kind::kInvalidateAck:
    case Kind::kInvalidateRefused:
    case Kind::kWriteBack:
    case Kind::kTransfer:
    case Kind::kOwnerRefused:
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
    case Kind::kReportShared:
    case Kind::kReportDirty:
    case Kind::kReportEnd:
    case Kind::kOpen:
    case Kind::kWriteIf:
    case Kind::kWriteIfReply:
    case Kind::kCopy:
    case Kind::kNoCopy:
    case Kind::kOffer:
    case Kind::kFileCall:
    case Kind::kFileReply:
    case Kind::kCount: break;
  }
  *why = "not a message for a cache";
  return CacheEvent::kCount;
}

Protocol::Outcome Protocol::step(const LineRef& ref, CacheEvent event, const Message& message) {
  const auto& cell = tables_.cache.at(ref.state(), event);
  if (tables_.coverage != nullptr) ++tables_.coverage->cache[ref.line->state][std::size_t(event)];
  Outcome outcome;
  for (std::uint8_t i = 0; i < cell.action_count; ++i) act(ref, cell.actions[i], message, outcome);
  set_state(ref, cell.next);
  if (outcome.serve && !is_stable(cell.next)) {
    // Only reads that wait already; the state that follows lets nobody in.
    outcome.serve = false;
    Cold* cold = env_.find_cold(ref);
    while (cold != nullptr && !cold->memory.empty() && cold->memory.front()->kind == OpKind::kRead) {
      Op* op = cold->memory.pop();
      env_.perform(ref, *op);
      env_.complete(ref, *op, Errc::kOk);
    }
  }
  return outcome;
}

void Protocol::act(const LineRef& ref, CacheAction action, const Message& message, Outcome& outcome) {
  const NodeId self = env_.self();
  const NodeId home = ref.home();
  const std::uint32_t own_slot = ref.line->slot == 0 ? 0 : ref.line->slot - 1;
  const auto to_home = [&](Kind kind) { return Message{kind, message.is_try, self, message.requester, message.slot}; };
  switch (action) {
    case CacheAction::kNone: break;
    case CacheAction::kAskShared: env_.send(ref, home, {Kind::kGetShared, message.is_try, self, self, own_slot}); break;
    case CacheAction::kAskExclusive:
      env_.send(ref, home, {Kind::kGetExclusive, message.is_try, self, self, own_slot});
      break;
    case CacheAction::kAskUpgrade: env_.send(ref, home, {Kind::kUpgrade, message.is_try, self, self, own_slot}); break;
    case CacheAction::kAskWrite: env_.send_write(ref, *env_.cold(ref).away, message); break;
    case CacheAction::kHide: lower_access(ref, 0, false); break;
    case CacheAction::kWithdrawWrite: lower_access(ref, detail::kReadable, true); break;
    case CacheAction::kWithdrawAll: lower_access(ref, 0, true); break;
    case CacheAction::kReturnShared: env_.send(ref, home, {Kind::kPutShared, false, self, self, 0}); break;
    case CacheAction::kReturnDirty: return_line(ref, Kind::kPutDirty, {Kind::kNone, false, self, self, 0}); break;
    case CacheAction::kReleaseSlot: env_.release_slot(ref); break;
    case CacheAction::kAckInvalidate: env_.send(ref, home, to_home(Kind::kInvalidateAck)); break;
    case CacheAction::kRefuse:
      env_.send(ref, home, to_home(message.kind == Kind::kInvalidate ? Kind::kInvalidateRefused : Kind::kOwnerRefused));
      break;
    case CacheAction::kSendToRequester:
      if (message.requester != home) {
        env_.send_line(ref, message.requester, message.slot,
                       {Kind::kOwnerData, false, self, message.requester, message.slot});
      }
      break;
    case CacheAction::kWriteBack: return_line(ref, Kind::kWriteBack, message); break;
    case CacheAction::kTransfer:
      if (message.requester == home) {
        return_line(ref, Kind::kTransfer, message);
      } else {
        env_.send(ref, home, to_home(Kind::kTransfer));
      }
      break;
    case CacheAction::kHold: {
      Cold& cold = env_.cold(ref);
      if (cold.has_held) env_.broken(ref, "two messages of the home are held at once");
      cold.held = message;
      cold.has_held = true;
      break;
    }
    case CacheAction::kServe:
    case CacheAction::kServeReads: outcome.serve = true; break;
    case CacheAction::kRefuseTry: outcome.refuse_try = true; break;
    case CacheAction::kFinishWrite: outcome.write_done = true; break;
    case CacheAction::kTakeBackWrite: outcome.write_refused = true; break;
    case CacheAction::kAskOperated:
      ref.line->operation.store(message.operation, std::memory_order_relaxed);
      env_.send(ref, home, {Kind::kGetOperated, false, self, self, own_slot, message.operation});
      break;
    case CacheAction::kClearOperands: env_.clear_operands(ref); break;
    case CacheAction::kReturnOperated: env_.send(ref, home, {Kind::kPutOperated, false, self, self, own_slot}); break;
    case CacheAction::kBeginTenure:
      if (env_.is_logged()) env_.tenure(ref) = message.tenure;
      break;
    case CacheAction::kReportShared: env_.send(ref, home, {Kind::kReportShared, false, self, self, own_slot}); break;
    case CacheAction::kReportDirty:
      if (ATOLL_FAULT(log_owner_not_reported)) break;
      env_.send(ref, home, {Kind::kReportDirty, false, self, self, own_slot, 0, env_.tenure(ref)});
      break;
    case CacheAction::kGiveCopy: env_.send_home(ref, {Kind::kCopy, false, self, self, own_slot}); break;
    case CacheAction::kTellNoCopy: env_.send(ref, home, {Kind::kNoCopy, false, self, self, own_slot}); break;
    case CacheAction::kFail: fail_waiting(ref); break;
  }
}

/// The line goes home. In a logged cluster the home fetches it: a node that dies half way through writing it there
/// would leave the home with neither the old line nor the new one.
void Protocol::return_line(const LineRef& ref, Kind kind, const Message& message) {
  const NodeId self = env_.self();
  if (env_.is_logged()) {
    env_.send(ref, ref.home(), {kind, false, self, self, ref.line->slot - 1, 0, env_.tenure(ref)});
  } else {
    env_.send_home(ref, {kind, message.is_try, self, message.requester, message.slot});
  }
}

/// The message that was held is looked at again.
void Protocol::answer_held(const LineRef& ref, Cold& cold) {
  cold.has_held = false;
  const Message held = cold.held;
  receive_at_cache(ref, held);
}

void Protocol::set_state(const LineRef& ref, CacheState state) {
  ref.line->state = std::uint8_t(state);
  const bool needs_slot = state != CacheState::kInvalid && state != CacheState::kWritingHome;
  if (needs_slot != (ref.line->slot != 0)) env_.broken(ref, "a line has a slot if and only if something of it is here");
  lower_access(ref, permission(ref), false);
}

}  // namespace atoll::coherence
