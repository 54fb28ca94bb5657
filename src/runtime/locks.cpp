// Locks: a hit is two atomic instructions on the line's lock word; all else is the core's.
#include <algorithm>

#include "coherence/lock_word.hpp"
#include "runtime/runtime.hpp"

namespace atoll::runtime {

using coherence::OpKind;
using detail::kReadable;
using detail::kWritable;
using detail::Line;

namespace {

/// Takes the lock if nobody waits for it and the permission is here. `left_waiters`: somebody began to wait for the
/// word while we held it for a moment in vain; they must be told.
bool lock_hit(Line& line, bool exclusive, bool* left_waiters) noexcept {
  std::uint32_t word = line.lock.load(std::memory_order_relaxed);
  do {
    if ((word & detail::kLockWaiters) != 0 || !coherence::can_take(word, exclusive)) return false;
  } while (!line.lock.compare_exchange_weak(word, exclusive ? word | detail::kLockWriter : word + 1,
                                            std::memory_order_seq_cst));
  // The lock pins the line from here on, if we have it at all: who takes a line away looks at the word first.
  ATOLL_POINT();
  if (ATOLL_FAULT(lock_without_permission)) return true;
  if ((line.access.load(std::memory_order_seq_cst) & (exclusive ? kWritable : kReadable)) != 0) return true;
  *left_waiters = coherence::drop_lock(line.lock, exclusive) && !ATOLL_FAULT(failed_lock_not_told);
  return false;
}

OpKind op_for(LockMode mode, bool is_try) noexcept {
  if (mode == LockMode::kWrite) return is_try ? OpKind::kTryWriteLock : OpKind::kWriteLock;
  return is_try ? OpKind::kTryReadLock : OpKind::kReadLock;
}

}  // namespace

Status Runtime::lock_line(ThreadState& thread, GlobalAddress address, LockMode mode, bool is_try) {
  const bool exclusive = mode == LockMode::kWrite;
  Line& line = *detail::find_line(lines_->table(), address.bits());
  bool left_waiters = false;
  if (lock_hit(line, exclusive, &left_waiters)) return {};
  if (left_waiters) tell_unlocked(address);
  // The thread's own locks: a second read lock of a line needs no turn; anything else would wait for itself.
  if (const HeldLock* held = lock_over(thread, address); held != nullptr) {
    if (exclusive || held->mode == LockMode::kWrite || !coherence::take_lock(line.lock, false)) {
      return {Errc::kWouldDeadlock, "this thread holds a lock on the same line; locks cover whole lines"};
    }
    return {};
  }
  if ((line.lock.load(std::memory_order_relaxed) & detail::kLockHeld) != 0) {
    counters_->lock_waits.add();
  } else {
    counters_->lock_misses.add();
  }
  Task task(op_for(mode, is_try), Action::kNone, address, 0, nullptr, &thread);
  const Status status = run(thread, task);
  if (status.code() == Errc::kRefused) {
    counters_->lock_refusals.add();
    return {Errc::kRefused, "another lock or request is in the way"};
  }
  return status;
}

void Runtime::unlock_line(GlobalAddress address, LockMode mode) {
  Line& line = *detail::find_line(lines_->table(), address.bits());
  if (coherence::drop_lock(line.lock, mode == LockMode::kWrite)) tell_unlocked(address);
}

/// Somebody waits for the lock that was just released: a thread of this node, or the home for another node.
void Runtime::tell_unlocked(GlobalAddress address) {
  if (ATOLL_FAULT(unlock_not_told)) return;
  const Entry entry(*this);
  protocol_.unlocked(lines_->ref(address));
  flush();
}

Status Runtime::lock(GlobalAddress address, std::uint64_t bytes, LockMode mode, bool is_try) {
  ThreadState& thread = threads_.current();
  Line* const line = detail::find_line(lines_->table(), address.bits());
  bool one_line = false;
  if (line != nullptr && address) [[likely]] {
    const std::uint64_t line_bytes = line_bytes_at(address);
    one_line = bytes - 1 < line_bytes - (address.bits() & (line_bytes - 1));  // 0 bytes are more than any room
  }
  bool left_waiters = false;
  if (one_line && thread.pending_writes.load(std::memory_order_acquire) == 0 &&
      lock_hit(*line, mode == LockMode::kWrite, &left_waiters)) [[likely]] {
    thread.held.push_back({address, bytes, mode});
    return {};
  }
  if (left_waiters) tell_unlocked(address);
  return lock_range(thread, address, bytes, mode, is_try);
}

/// Any range, lines that must be asked for, and what is wrong with the arguments.
Status Runtime::lock_range(ThreadState& thread, GlobalAddress address, std::uint64_t bytes, LockMode mode,
                           bool is_try) {
  if (bytes == 0) return {Errc::kInvalidArgument, "a lock needs at least one byte"};
  if (const Status status = check_range(address, bytes); !status.ok()) return status;
  if (const Status status = fence_writes(thread); !status.ok()) return status;
  const GlobalAddress first(address.bits() & ~(line_bytes_at(address) - 1));
  // In the order of addresses, so that two threads with overlapping ranges do not wait for each other.
  for (GlobalAddress at = first; at < address + std::int64_t(bytes); at += std::int64_t(line_bytes_at(at))) {
    const Status status = lock_line(thread, at, mode, is_try);
    if (status.ok()) continue;
    for (GlobalAddress back = first; back < at; back += std::int64_t(line_bytes_at(back))) unlock_line(back, mode);
    return status;
  }
  thread.held.push_back({address, bytes, mode});
  return {};
}

/// The lock keeps the line, and with it the slot, where it is. A thread that has the line pinned or locked already may
/// not have it again, but to read.
Result<std::byte*> Runtime::pin(GlobalAddress address, std::uint64_t bytes, LockMode mode) {
  if (const Status status = lock(address, bytes, mode, false); !status.ok()) return status;
  const std::uint64_t line_bytes = line_bytes_at(address);
  if ((address.bits() & (line_bytes - 1)) + bytes > line_bytes) {
    (void)unlock(address, bytes);
    return {Errc::kInvalidArgument, "what is pinned must lie in one line"};
  }
  if (mode == LockMode::kWrite) threads_.current().held.back().pinned = true;
  return detail::find_line(lines_->table(), address.bits())->byte_at(address);
}

Status Runtime::unlock(GlobalAddress address, std::uint64_t bytes) {
  ThreadState& thread = threads_.current();
  const auto matches = [&](const HeldLock& held) { return held.address == address && held.bytes == bytes; };
  if (!thread.held.empty() && matches(thread.held.back()) && thread.pending_writes.load(std::memory_order_acquire) == 0)
      [[likely]] {
    const LockMode mode = thread.held.back().mode;
    Line& line = *detail::find_line(lines_->table(), address.bits());
    const std::uint64_t line_bytes = line_bytes_at(address);
    if ((address.bits() & (line_bytes - 1)) + bytes <= line_bytes) {  // the lock taken last, of one line
      const bool changed = journal_ != nullptr && thread.held.back().pinned;
      const Status logged = changed ? log_pinned(thread, address, bytes) : Status();
      thread.held.pop_back();
      if (coherence::drop_lock(line.lock, mode == LockMode::kWrite)) tell_unlocked(address);
      return logged.ok() ? settle(thread) : logged;
    }
  }
  const auto found = std::find_if(thread.held.rbegin(), thread.held.rend(), matches);
  if (found == thread.held.rend()) return {Errc::kNotHeld, "this thread has not locked exactly this range"};
  // What was written under the lock must be seen by who gets it next. A failure is reported, the lock released.
  Status fenced = fence_writes(thread);
  const LockMode mode = found->mode;
  if (journal_ != nullptr && found->pinned && fenced.ok()) fenced = log_pinned(thread, address, bytes);
  thread.held.erase(std::next(found).base());
  const GlobalAddress first(address.bits() & ~(line_bytes_at(address) - 1));
  const GlobalAddress end = address + std::int64_t(bytes);
  for (GlobalAddress at = first; at < end; at += std::int64_t(line_bytes_at(at))) unlock_line(at, mode);
  return fenced.ok() ? settle(thread) : fenced;
}

}  // namespace atoll::runtime
