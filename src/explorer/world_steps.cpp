// What may happen next in a world, and what happens then.
#include "coherence/lock_word.hpp"
#include "explorer/world.hpp"

namespace atoll::explorer {

using coherence::CacheState;
using coherence::LineRef;
using coherence::OpKind;

namespace {

constexpr std::uint8_t kReadWrite = detail::kReadable | detail::kWritable;
constexpr std::uint8_t kAnyAccess = kReadWrite | detail::kOperable;

}  // namespace

void World::enumerate(std::vector<Step>& out) const {
  out.clear();
  for (unsigned from = 0; from < options_.nodes; ++from) {
    for (unsigned to = 0; to < options_.nodes; ++to) {
      if (!channel(from, to).empty()) {
        out.push_back({StepKind::kDeliver, std::uint8_t(to), std::uint8_t(from), 0, channel(from, to).front().line});
      }
    }
  }
  if (options_.logged) enumerate_recovery(out);
  if (options_.files) enumerate_ends(out);
  for (unsigned node = 0; node < options_.nodes; ++node) {
    for (unsigned index = 0; index < options_.threads; ++index) {
      const ModelThread& t = thread(node, index);
      for (unsigned line = 0; line < options_.lines; ++line) {
        if (!t.telling[line]) continue;
        out.push_back({StepKind::kTell, std::uint8_t(node), 0, std::uint8_t(index), std::uint8_t(line)});
      }
      if (t.blocking.pending || t.writes_pending() || t.is_telling()) continue;  // an unlock is a fence
      for (unsigned line = 0; line < options_.lines; ++line) {
        if (t.held[line] == Hold::kNone) continue;
        out.push_back({StepKind::kUnlock, std::uint8_t(node), 0, std::uint8_t(index), std::uint8_t(line)});
      }
    }
  }
  for (unsigned node = 0; node < options_.nodes; ++node) {
    if (crashes_left_ != 0 && dead_ == 0) out.push_back({StepKind::kCrash, std::uint8_t(node)});
    if (!is_open(node)) continue;  // its program has not begun again
    for (unsigned index = 0; index < options_.threads; ++index) enumerate_thread(node, index, out);
    for (unsigned line = 0; line < options_.lines; ++line) {
      const ModelLine& model = at(node, line);
      if (model.ref.is_home() || model.has_cold) continue;
      const CacheState state = model.ref.state();
      if ((options_.ops & kOpsEvict) != 0 && is_stable(state) && state != CacheState::kInvalid) {
        out.push_back({StepKind::kEvict, std::uint8_t(node), 0, 0, std::uint8_t(line)});
      }
      if ((options_.ops & kOpsAhead) != 0 && state == CacheState::kInvalid) {
        out.push_back({StepKind::kReadAhead, std::uint8_t(node), 0, 0, std::uint8_t(line)});
      }
    }
  }
  if (!options_.files) return;
  enumerate_files(out);
  add_choices(out);
}

void World::enumerate_thread(unsigned node, unsigned index, std::vector<Step>& out) const {
  const ModelThread& t = thread(node, index);
  const auto add = [&](StepKind kind, unsigned line, OpKind op) {
    out.push_back({kind, std::uint8_t(node), 0, std::uint8_t(index), std::uint8_t(line), op});
  };
  if (t.is_telling()) return;
  if (t.blocking.pending) {
    if ((options_.ops & kOpsCancel) != 0) add(StepKind::kCancel, t.blocking_line, t.blocking.kind);
    return;
  }
  unsigned lowest = 0;  // lock order: what a holder waits for lies above all that it holds
  for (unsigned line = 0; line < options_.lines; ++line) {
    if (t.held[line] != Hold::kNone) lowest = line + 1;
  }
  const bool may_lock = !t.writes_pending() && t.locks_held() < options_.locks_held;  // a lock is a fence
  for (unsigned line = 0; line < options_.lines; ++line) {
    const bool in_order = line >= lowest;
    const bool may_write = in_order || t.held[line] == Hold::kWrite;
    if ((options_.ops & kOpsRead) != 0 && (in_order || t.held[line] != Hold::kNone))
      add(StepKind::kOperation, line, OpKind::kRead);
    if ((options_.ops & kOpsWrite) != 0 && may_write && !t.writes[line].pending) {
      add(StepKind::kOperation, line, OpKind::kWrite);
      const ModelLine& model = at(node, line);
      const bool absent = !model.ref.is_home() && !model.has_cold && model.ref.state() == CacheState::kInvalid;
      if ((options_.ops & kOpsLeave) != 0 && absent) add(StepKind::kWriteHome, line, OpKind::kWrite);
    }
    for (std::uint8_t by = 1; by <= 2 && (options_.ops & kOpsOperate) != 0 && may_write; ++by) {
      out.push_back(
          {StepKind::kOperation, std::uint8_t(node), by, std::uint8_t(index), std::uint8_t(line), OpKind::kOperate});
    }
    if ((options_.ops & kOpsAtomic) != 0 && may_write) add(StepKind::kOperation, line, OpKind::kAtomic);
    if (!may_lock || t.held[line] != Hold::kNone) continue;
    if ((options_.ops & kOpsAway) != 0 && in_order) add(StepKind::kOperation, line, OpKind::kWriteAway);
    if ((options_.ops & kOpsLock) != 0 && in_order) {
      add(StepKind::kOperation, line, OpKind::kReadLock);
      add(StepKind::kOperation, line, OpKind::kWriteLock);
    }
    if ((options_.ops & kOpsTry) != 0) {
      add(StepKind::kOperation, line, OpKind::kTryReadLock);
      add(StepKind::kOperation, line, OpKind::kTryWriteLock);
    }
  }
}

bool World::apply(const Step& step) {
  logged_.fill(kNoNode);
  ask_ = step.ask;
  bool done = true;
  const LineRef& ref = at(step.node, step.line).ref;
  switch (step.kind) {
    case StepKind::kDeliver: deliver(step.peer, step.node); break;
    case StepKind::kOperation:
    case StepKind::kWriteHome: operate(step); break;
    case StepKind::kUnlock: unlock(step); break;
    case StepKind::kTell: tell(step); break;
    case StepKind::kEvict: done = protocols_[step.node].evict(ref); break;
    case StepKind::kReadAhead:
      done = protocols_[step.node].read_ahead(ref);
      if (options_.files) ref.line->lives = detail::Line::kFetchedAhead;
      break;
    case StepKind::kCancel: {
      ModelOp& op = thread(step.node, step.thread).blocking;
      if (!protocols_[step.node].cancel(ref, op)) fail("an operation that waits could not be taken back");
      op.pending = false;
      op.performed = false;
      break;
    }
    case StepKind::kCrash: crash(step.node); break;
    case StepKind::kLearn: learn(step.node, step.peer); break;
    case StepKind::kReturn: come_back(step.node); break;
    case StepKind::kSettle: settle(step.node); break;
    case StepKind::kFile: done = write_file(step); break;
    case StepKind::kDrop: done = protocols_[step.node].drop(ref); break;
    case StepKind::kFetchHome: done = protocols_[step.node].fetch_home(ref); break;
    case StepKind::kLoaded: end_load(step); break;
  }
  for (ModelLine& model : lines_) model.lingering |= model.ref.hot.access() & kAnyAccess;
  return done;
}

void World::deliver(unsigned from, unsigned to) {
  const Packet packet = channel(from, to).front();
  channel(from, to).pop_front();
  if (!is_line_kind(packet.message.kind)) return hear(from, to, packet.message.kind);
  protocols_[to].receive(at(to, packet.line).ref, packet.message);
}

void World::operate(const Step& step) {
  ModelThread& t = thread(step.node, step.thread);
  const ModelLine& model = at(step.node, step.line);
  std::uint8_t usable = model.ref.hot.access();
  if (step.op == OpKind::kOperate && model.line.operation.load(std::memory_order_relaxed) != step.peer)
    usable &= kReadWrite;
  const bool hit = !is_lock(step.op) && (usable & need_of(step.op)) != 0;
  ModelOp& op = step.op == OpKind::kWrite ? t.writes[step.line] : t.blocking;
  op.kind = step.op;
  op.pending = true;
  op.performed = false;
  op.operation = step.op == OpKind::kOperate ? step.peer : 0;
  op.under_lock = t.held[step.line] != Hold::kNone;
  op.may_leave = step.kind == StepKind::kWriteHome;
  if (step.op != OpKind::kWrite) t.blocking_line = step.line;
  protocols_[step.node].submit(model.ref, op);
  if (hit && op.pending) fail("an access that the access byte allows was queued");
}

void World::unlock(const Step& step) {
  ModelThread& t = thread(step.node, step.thread);
  ModelLine& model = at(step.node, step.line);
  const bool exclusive = t.held[step.line] == Hold::kWrite;
  t.held[step.line] = Hold::kNone;
  // Others may come in between: the lock is dropped without the engine lock.
  t.telling[step.line] = coherence::drop_lock(model.line.lock, exclusive);
}

void World::tell(const Step& step) {
  thread(step.node, step.thread).telling[step.line] = false;
  protocols_[step.node].unlocked(at(step.node, step.line).ref);
}

}  // namespace atoll::explorer
