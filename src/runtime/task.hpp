// Operations of threads as the engine sees them, and the threads themselves.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "atoll/detail/line.hpp"
#include "atoll/node.hpp"
#include "base/backoff.hpp"
#include "base/host.hpp"
#include "base/mutex.hpp"
#include "coherence/types.hpp"
#include "log/log.hpp"
#include "runtime/strides.hpp"

namespace atoll::runtime {

/// A range of lines that a thread has locked.
struct HeldLock {
  GlobalAddress address;
  std::uint64_t bytes = 0;
  LockMode mode = LockMode::kRead;
  bool pinned = false;  // it is written through a pointer: the log is told at the end
};

/// An element that a thread has locked.
struct HeldElement {
  std::uint64_t ticket = 0;  // which the home knows the lock by
  LockMode mode = LockMode::kRead;
  std::uint32_t times = 1;  // a reader's second lock needs no turn, and the home does not hear of it
};

/// One thread of one node.
///
/// Thread-safety: `pending_writes`, `sleeping`, `bell` and `write_error` are shared with whoever completes the thread's
/// operations; all else belongs to the thread.
struct ThreadState {
  explicit ThreadState(base::Host& on) noexcept : host(on) {}

  base::Host& host;
  detail::ThreadSlot* slot = nullptr;
  std::unique_ptr<detail::ThreadSlot> own_slot;  // of a thread that is past its end; see ThreadRegistry::enter
  std::atomic<std::uint32_t> pending_writes{0};
  std::atomic<std::uint8_t> write_error{0};  // Errc of the first asynchronous write that failed
  std::atomic<std::uint32_t> sleeping{0};
  std::atomic<std::uint32_t> bell{0};  // futex
  std::vector<HeldLock> held;
  std::unordered_map<std::uint64_t, HeldElement> elements;  // that the thread has locked, by address
  Strides strides;                                          // readers who go on are read ahead for
  std::uint64_t last_missed_write = 0;
  std::uint32_t fenced_hits = 0;
  std::uint32_t passes = 0;                      // see Runtime::look_in_passing
  std::uint32_t visits_per_fetch = 16;           // see Runtime::read_in_place
  std::atomic<std::uint64_t> reads_in_place{0};  // counted by the thread, read by anyone
  base::Backoff::Learned waiting;
  std::unique_ptr<log::Log::Writer> log;  // where there is a log: made at the first write
  std::atomic<log::Sequence> logged{0};   // the last record of a write of this thread
  std::uint64_t hits_before = 0;          // slot->hits when the thread came to this node

  /// The thread itself, and who does its writes for it.
  void note_logged(log::Sequence sequence) noexcept {
    log::Sequence before = logged.load(std::memory_order_relaxed);
    while (before < sequence && !logged.compare_exchange_weak(before, sequence, std::memory_order_relaxed)) {
    }
  }
  /// Something that the thread may wait for has happened.
  void notify() noexcept {
    if (ATOLL_FAULT(wakeup_lost)) return;
    // What has happened first, then the look at the sleeper; who goes to sleep does it the other way round.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (sleeping.load(std::memory_order_seq_cst) == 0) return;
    bell.fetch_add(1, std::memory_order_release);
    host.wake(bell, base::FutexScope::kProcess);
  }
};

/// What Runtime::perform does with the line's bytes.
enum class Action : std::uint8_t {
  kNone,
  kCopyOut,
  kCopyIn,
  kAdd,
  kExchange,
  kCompareExchange,
  kCall,
  kOperate,
  kWriteIf
};

/// One operation on one line. Lives on the stack of the thread that waits for it, or in the WritePool.
struct Task : coherence::Op {
  Task(coherence::OpKind op, Action what, GlobalAddress at, std::uint32_t size, std::byte* bytes_at,
       ThreadState* who) noexcept
      : Op(op), action(what), address(at), bytes(size), buffer(bytes_at), thread(who) {}

  Action action;
  bool asynchronous = false;
  std::atomic<bool> done{false};
  Errc result = Errc::kOk;
  Errc code_from_function = Errc::kOk;  // kCall: what perform made of it
  GlobalAddress address;
  std::uint32_t bytes;
  std::byte* buffer;  // kCopyOut: to; kCopyIn: from; kOperate: the operand; kWriteIf: a wire::GuardedWrite
  ThreadState* thread;
  std::uint64_t operand = 0;  // kWriteIf: where in the line the guard is
  std::uint64_t expected = 0;
  std::uint64_t value = 0;  // what kAdd, kExchange and kCompareExchange found; kWriteIf: whether it was written
  const AtomicFunction* function = nullptr;
  std::span<const std::byte> arguments;
};

/// fetch_add and its relatives, on the bytes themselves.
std::uint64_t read_modify_write(std::byte* at, const Task& task) noexcept;

/// What a function for atomic() makes of the bytes; kInvalidArgument when it throws.
Errc call_function(const AtomicFunction& function, std::span<std::byte> bytes, std::span<const std::byte> arguments);

/// What a function for atomic() may change at once.
inline constexpr std::uint32_t kMaxCallBytes = 4096;

/// Asynchronous writes under way: a fixed number, each with room for so many bytes.
///
/// Thread-safety: the caller holds the engine lock, but for has_room, which is a guess without it.
class WritePool {
 public:
  WritePool(std::uint32_t count, std::uint32_t room_bytes);
  [[nodiscard]] std::uint32_t room_bytes() const noexcept { return room_bytes_; }
  /// nullptr when all are under way.
  [[nodiscard]] Task* take() noexcept;
  void give_back(Task& task) noexcept;
  /// Is it worth while to go on after it was empty? Not for a single one, or who waits would do so for every write.
  [[nodiscard]] bool has_room() const noexcept {
    return free_count_.load(std::memory_order_relaxed) * 8 >= tasks_.size();
  }
  [[nodiscard]] bool all_free() const noexcept { return free_count_.load(std::memory_order_relaxed) == tasks_.size(); }
  /// Every write under way of this thread.
  template <typename F>
  void for_each_of(const ThreadState& thread, F&& f) {
    for (auto& task : tasks_) {
      if (task->asynchronous && task->thread == &thread) f(*task);
    }
  }

 private:
  std::uint32_t room_bytes_;
  std::vector<std::unique_ptr<Task>> tasks_;
  std::unique_ptr<std::byte[]> payload_;
  std::vector<Task*> free_;
  std::atomic<std::uint32_t> free_count_{0};
};

}  // namespace atoll::runtime
