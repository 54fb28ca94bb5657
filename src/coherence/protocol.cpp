// The queues of this node's threads: who may go ahead, who must ask, and when.
#include "coherence/protocol.hpp"

#include "coherence/lock_word.hpp"

namespace atoll::coherence {

using detail::kLockWaiters;
using detail::kOperable;
using detail::kReadable;
using detail::kWritable;

const Tables Protocol::kDefaultTables{};

bool OpQueue::remove(const Op& op) noexcept {
  Op* before = nullptr;
  for (Op* at = head_; at != nullptr; before = at, at = at->next) {
    if (at != &op) continue;
    (before == nullptr ? head_ : before->next) = at->next;
    if (tail_ == at) tail_ = before;
    return true;
  }
  return false;
}

std::uint8_t Protocol::permission(const LineRef& ref) noexcept {
  if (ref.is_home()) {
    // What is as its file has it is not written before that is known here.
    if (ref.directory->state == DirState::kUnshared) return is_filed(ref) ? kReadable : kReadable | kWritable;
    if (ref.directory->state == DirState::kOperated) return kOperable;
    return ref.directory->state == DirState::kShared ? kReadable : 0;
  }
  if (ref.state() == CacheState::kDirty) return kReadable | kWritable;
  if (ref.state() == CacheState::kOperated) return kOperable;
  return ref.state() == CacheState::kShared || ref.state() == CacheState::kDirtyToShared ? kReadable : 0;
}

bool Protocol::allows(const LineRef& ref, const Op& op) noexcept {
  const std::uint8_t access = permission(ref) & need_of(op.kind);
  return access == kOperable ? ref.line->operation.load(std::memory_order_relaxed) == op.operation : access != 0;
}

bool Protocol::is_quiet(const LineRef& ref) noexcept {
  return ref.is_home() ? is_stable(ref.directory->state) : is_stable(ref.state());
}

void Protocol::publish_access(const LineRef& ref) noexcept {
  const std::uint8_t access = permission(ref);
  const bool changed = (access & (kWritable | kOperable)) != 0;
  const std::uint8_t use = changed ? Line::kWritten : access != 0 ? Line::kRead : Line::kUnused;
  if (use > ref.line->use) ref.line->use = use;
  ref.hot.set_access(access);
}

void Protocol::lower_access(const LineRef& ref, std::uint8_t keep, bool wait) {
  ref.hot.set_access(ref.hot.access() & keep);
  const std::uint8_t left = keep == 0 ? Line::kUnused : Line::kRead;
  if (!wait || ref.line->use <= left) return;
  env_.quiesce(ref);
  ref.line->use = left;
}

/// Somebody elsewhere has waited for the line longer than a lock that comes now.
bool Protocol::others_wait(const LineRef& ref, const Cold& cold) const noexcept {
  return ref.is_home() ? !cold.requests.empty() : cold.has_held;
}

/// Somebody elsewhere waits until the line has settled: a write now would put that off, and the next one too. The
/// holder of a lock is waited for anyway.
bool Protocol::must_settle(const LineRef& ref, const Op& op) {
  if (need_of(op.kind) == kReadable || op.under_lock || !env_.is_logged()) return false;
  const Cold* cold = env_.find_cold(ref);
  return cold != nullptr && others_wait(ref, *cold) && !env_.is_settled(ref);
}

/// publish_access, but for writes that must come here to be put off.
void Protocol::publish(const LineRef& ref) {
  publish_access(ref);
  if (must_settle(ref, Op(OpKind::kWrite))) lower_access(ref, kReadable, false);
}

void Protocol::submit(const LineRef& ref, Op& op) {
  if (is_try(op.kind)) return submit_try(ref, op);
  if (op.kind == OpKind::kWriteAway) return submit_away(ref, op);
  const bool allowed = allows(ref, op);
  Cold* found = env_.find_cold(ref);
  if (!is_lock(op.kind)) {
    const bool next = allowed && (found == nullptr || (found->memory.empty() && !must_settle(ref, op)));
    // A locked copy is valid whatever is under way. Were its holder to wait behind others of this node, who may wait
    // for nodes that wait for the lock, nobody would ever go on. What it may write it writes: others of this node that
    // wait although they may write too do so until the line has settled.
    if (next || (op.under_lock && (allowed || op.kind == OpKind::kRead))) {
      env_.perform(ref, op);
      if (next) publish(ref);
      env_.complete(ref, op, Errc::kOk);
      return;
    }
    if (op.may_leave && can_leave(ref)) return leave(ref, op);
    env_.cold(ref).memory.push(op);
    lower_access(ref, 0, false);  // nobody overtakes it by a hit, least of all its own thread
  } else {
    Cold& cold = found != nullptr ? *found : env_.cold(ref);
    // The bit first: from here on no other thread takes or drops the lock without coming here.
    ref.line->lock.fetch_or(kLockWaiters, std::memory_order_seq_cst);
    if (allowed && cold.locks.empty() && !others_wait(ref, cold) &&
        take_lock(ref.line->lock, op.kind == OpKind::kWriteLock)) {
      if (cold.memory.empty()) publish(ref);
      env_.complete(ref, op, Errc::kOk);
    } else {
      cold.locks.push(op);
    }
  }
  pursue(ref);
  settle(ref);
}

/// Is there nothing of the line here, nor under way? Only then may a write go to the home.
bool Protocol::can_leave(const LineRef& ref) const noexcept {
  return !ref.is_home() && ref.state() == CacheState::kInvalid && env_.find_cold(ref) == nullptr;
}

/// REQUIRES: can_leave.
void Protocol::leave(const LineRef& ref, Op& op) {
  env_.cold(ref).away = &op;
  after(ref, step(ref, CacheEvent::kWantWritten, Message{Kind::kWriteHome, false, env_.self(), env_.self(), 0}));
}

void Protocol::submit_away(const LineRef& ref, Op& op) {
  if (can_leave(ref)) return leave(ref, op);
  env_.complete(ref, op, Errc::kRefused);
}

void Protocol::submit_try(const LineRef& ref, Op& op) {
  Cold& cold = env_.cold(ref);
  const bool exclusive = op.kind == OpKind::kTryWriteLock;
  const std::uint32_t word = ref.line->lock.fetch_or(kLockWaiters, std::memory_order_seq_cst);
  const bool contended = !cold.locks.empty() || cold.trying != nullptr || others_wait(ref, cold) || cold.local_queued;
  if (contended || !is_quiet(ref) || !lock_fits(word, exclusive)) {
    env_.complete(ref, op, Errc::kRefused);
  } else if ((permission(ref) & need_of(op.kind)) != 0) {
    if (cold.memory.empty()) publish(ref);
    env_.complete(ref, op, take_lock(ref.line->lock, exclusive) ? Errc::kOk : Errc::kRefused);
  } else if (!ref.is_home() && ref.state() == CacheState::kInvalid && !env_.take_slot(ref)) {
    env_.complete(ref, op, Errc::kRefused);
  } else if (!ref.is_home() && ref.state() == CacheState::kOperated) {
    // There is no room for a wish behind the return of the operands; the next try finds the line without them.
    env_.complete(ref, op, Errc::kRefused);
    after(ref, step(ref, CacheEvent::kEvict, Message{}));
  } else {
    cold.trying = &op;
    const Message wish{exclusive ? Kind::kGetExclusive : Kind::kGetShared, true, env_.self(), env_.self(), 0};
    if (ref.is_home()) {
      cold.local_queued = true;
      receive_at_home(ref, wish);
    } else {
      after(ref, step(ref, exclusive ? CacheEvent::kWantExclusive : CacheEvent::kWantShared, wish));
    }
  }
  settle(ref);
}

bool Protocol::cancel(const LineRef& ref, Op& op) {
  Cold* cold = env_.find_cold(ref);
  if (cold == nullptr) return false;
  bool found = cold->memory.remove(op) || cold->locks.remove(op);
  for (Op** under_way : {&cold->trying, &cold->away}) {
    if (*under_way != &op) continue;
    *under_way = nullptr;
    found = true;
  }
  if (found) settle(ref);
  return found;
}

void Protocol::give_up(const LineRef& ref, Errc why) {
  Cold* cold = env_.find_cold(ref);
  if (cold == nullptr || !is_quiet(ref)) return;
  while (!cold->memory.empty()) env_.complete(ref, *cold->memory.pop(), why);
  while (!cold->locks.empty()) env_.complete(ref, *cold->locks.pop(), why);
  settle(ref);
}

void Protocol::receive(const LineRef& ref, const Message& message) {
  if (ref.is_home()) {
    receive_at_home(ref, message);
  } else {
    receive_at_cache(ref, message);
  }
  settle(ref);
}

void Protocol::unlocked(const LineRef& ref) {
  if (ref.is_home()) {
    run_queue(ref);
  } else if (Cold* cold = env_.find_cold(ref); cold != nullptr && cold->has_held) {
    // Or an invalidation that a read lock held back while our own upgrade is under way, or a return.
    const CacheState state = ref.state();
    if (is_stable(state) || state == CacheState::kSharedToDirty || state == CacheState::kDirtyToShared) {
      answer_held(ref, *cold);
    }
  }
  pursue(ref);
  settle(ref);
}

bool Protocol::evict(const LineRef& ref) {
  if (ref.is_home() || !is_quiet(ref) || ref.state() == CacheState::kInvalid || env_.find_cold(ref) != nullptr) {
    return false;
  }
  const std::uint32_t word = ref.line->lock.fetch_or(kLockWaiters, std::memory_order_seq_cst);
  const bool locked = !lock_fits(word, true) || !settles(ref);
  if (!locked) after(ref, step(ref, CacheEvent::kEvict, Message{}));
  settle(ref);
  return !locked;
}

bool Protocol::read_ahead(const LineRef& ref) {
  if (ref.is_home() || ref.state() != CacheState::kInvalid || env_.find_cold(ref) != nullptr) return false;
  if (!env_.take_slot(ref)) return false;
  after(ref, step(ref, CacheEvent::kWantShared, Message{Kind::kGetShared, false, env_.self(), env_.self(), 0}));
  return true;
}

/// The access that the operations in the queues need next, 0 when none can use it now.
std::uint8_t Protocol::wanted(const LineRef& ref, const Cold& cold) const noexcept {
  std::uint8_t need = 0;
  const Op* const first = cold.memory.front();
  for (const Op* op = first; op != nullptr; op = op->next) {
    const bool operates = op->kind == OpKind::kOperate && !ref.is_home() && op->operation == first->operation;
    need |= operates ? std::uint8_t(kOperable) : need_of(op->kind);
    if ((need & kWritable) != 0) return kWritable;  // one request for all of them
  }
  if ((need & kOperable) != 0) return need == kOperable ? kOperable : kWritable;
  if (need != 0) return need;
  const Op* lock = cold.locks.front();
  if (lock == nullptr) return 0;
  const std::uint32_t word = ref.line->lock.load(std::memory_order_seq_cst);
  return lock_fits(word, lock->kind == OpKind::kWriteLock) ? need_of(lock->kind) : 0;
}

void Protocol::pursue(const LineRef& ref) {
  Cold* cold = env_.find_cold(ref);
  // The home's own wish takes its turn even while the line is busy; a cache has asked already when it is.
  if (cold == nullptr || cold->local_queued || (!ref.is_home() && !is_quiet(ref))) return;
  serve(ref, false);  // what is needed may have come with something else: a refused try, somebody's write-back
  const std::uint8_t need = wanted(ref, *cold);
  if (need == 0 || (need != kOperable && (permission(ref) & need) != 0)) return;
  if (need == kOperable) return pursue_operated(ref, *cold);
  const bool exclusive = need == kWritable;
  const Message wish{exclusive ? Kind::kGetExclusive : Kind::kGetShared, false, env_.self(), env_.self(), 0};
  if (ref.is_home()) {
    cold->local_queued = true;
    receive_at_home(ref, wish);
    return;
  }
  if (ref.state() == CacheState::kInvalid && !env_.take_slot(ref)) return;
  after(ref, step(ref, exclusive ? CacheEvent::kWantExclusive : CacheEvent::kWantShared, wish));
}

/// Asks for permission to operate. A copy to read goes first, unless a thread of this node has locked it, or has just
/// unlocked it and not told us yet: then the line is asked for as for a write. REQUIRES: the first that waits wants to
/// operate, and cannot.
void Protocol::pursue_operated(const LineRef& ref, const Cold& cold) {
  const std::uint8_t operation = cold.memory.front()->operation;
  if (ref.state() == CacheState::kShared) {
    const std::uint32_t word = ref.line->lock.fetch_or(kLockWaiters, std::memory_order_seq_cst);
    if (!lock_fits(word, true) || cold.has_held) {
      const Message wish{Kind::kGetExclusive, false, env_.self(), env_.self(), 0};
      after(ref, step(ref, CacheEvent::kWantExclusive, wish));
      return;
    }
  }
  if (ref.state() == CacheState::kInvalid && !env_.take_slot(ref)) return;
  const Message wish{Kind::kGetOperated, false, env_.self(), env_.self(), 0, operation};
  after(ref, step(ref, CacheEvent::kWantOperated, wish));
}

/// Lets everything go ahead that the line now allows. `granted`: the permission has just come, and at least
/// one waiting lock may have it before others elsewhere get their turn; that is what makes progress sure.
void Protocol::serve(const LineRef& ref, bool granted) {
  Cold* cold = env_.find_cold(ref);
  if (cold == nullptr) return;
  const std::uint8_t allowed = permission(ref);
  const bool somebody = allowed != 0 && !(cold->memory.empty() && cold->locks.empty() && cold->trying == nullptr);
  while (!cold->memory.empty() && allows(ref, *cold->memory.front()) && !must_settle(ref, *cold->memory.front())) {
    Op* op = cold->memory.pop();
    env_.perform(ref, *op);
    env_.complete(ref, *op, Errc::kOk);
  }
  if (cold->trying != nullptr && granted) {
    Op* op = cold->trying;
    cold->trying = nullptr;
    const bool taken =
        (allowed & need_of(op->kind)) != 0 && take_lock(ref.line->lock, op->kind == OpKind::kTryWriteLock);
    env_.complete(ref, *op, taken ? Errc::kOk : Errc::kRefused);
  }
  // Not before the queue is empty: a thread must not overtake its own write by a hit.
  if (somebody && cold->memory.empty()) publish(ref);
  if (!granted && others_wait(ref, *cold)) return;
  while (!cold->locks.empty() && (allowed & need_of(cold->locks.front()->kind)) != 0 &&
         take_lock(ref.line->lock, cold->locks.front()->kind == OpKind::kWriteLock)) {
    env_.complete(ref, *cold->locks.pop(), Errc::kOk);
  }
}

void Protocol::refuse_trying(const LineRef& ref) {
  Cold* cold = env_.find_cold(ref);
  if (cold == nullptr || cold->trying == nullptr) return;  // it was cancelled
  Op* op = cold->trying;
  cold->trying = nullptr;
  env_.complete(ref, *op, Errc::kRefused);
}

/// The home has answered the write that was sent to it.
void Protocol::end_write_away(const LineRef& ref, bool done) {
  Cold* cold = env_.find_cold(ref);
  if (cold == nullptr || cold->away == nullptr) return;  // it was cancelled
  Op* op = cold->away;
  cold->away = nullptr;
  op->may_leave = false;
  if (done || ATOLL_FAULT(refused_write_dropped)) {
    env_.complete(ref, *op, Errc::kOk);
  } else if (op->kind == OpKind::kWriteAway) {
    env_.complete(ref, *op, Errc::kRefused);
  } else {
    cold->memory.push_front(*op);
  }
}

/// What follows a step, once the state is set.
void Protocol::after(const LineRef& ref, const Outcome& outcome) {
  if (outcome.write_done || outcome.write_refused) end_write_away(ref, outcome.write_done);
  if (outcome.refuse_try) refuse_trying(ref);
  if (outcome.serve) serve(ref, true);
  if (ref.is_home()) {
    run_queue(ref);
  } else if (Cold* cold = env_.find_cold(ref); outcome.serve && cold != nullptr && cold->has_held && is_quiet(ref)) {
    answer_held(ref, *cold);
    return;  // which came here again
  }
  pursue(ref);
}

/// The waiters bit says exactly whether an unlock must come here; an idle line has no cold record.
void Protocol::settle(const LineRef& ref) {
  Cold* cold = env_.find_cold(ref);
  const bool needed = cold != nullptr && (!cold->locks.empty() || cold->has_held || !cold->requests.empty());
  const bool told = (ref.line->lock.load(std::memory_order_relaxed) & kLockWaiters) != 0;
  if (needed && !told) ref.line->lock.fetch_or(kLockWaiters, std::memory_order_seq_cst);
  if (!needed && told) ref.line->lock.fetch_and(~std::uint32_t(kLockWaiters), std::memory_order_seq_cst);
  if (cold != nullptr && cold->idle()) env_.drop_cold(ref);
}

}  // namespace atoll::coherence
