// The threads of a node: who they are, and how to be sure that none of them is writing a line.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/mutex.hpp"
#include "metrics/counters.hpp"
#include "runtime/task.hpp"

namespace atoll::runtime {

/// Counts the threads that are in some place. Coming and going is a full fence.
class Present {
 public:
  explicit Present(std::atomic<std::uint32_t>& count) noexcept : count_(count) {
    count_.fetch_add(1, std::memory_order_seq_cst);
  }
  ~Present() { count_.fetch_sub(1, std::memory_order_seq_cst); }
  Present(const Present&) = delete;
  Present& operator=(const Present&) = delete;

 private:
  std::atomic<std::uint32_t>& count_;
};

/// Where a thread last was at home: the registry, by number, and the thread's record there.
struct Seat {
  std::uint64_t registry = 0;
  ThreadState* state = nullptr;
  bool is_fiber = false;  // one of several that share a thread of the system, and with it what is thread-local
};

/// Thread-safety: every method may be called from any thread; `wait_for_writers` and `barrier` by one at a time.
/// Invariants:
///   1. Every thread whose hazard slot may name a line of this node is in the list, until it exits.
///   2. A ThreadState is never freed before the registry: who completes a thread's operation may still be about to
///   notify
///      it when it has seen the result and exited, and its writes may be under way for longer. It is used again by
///      another thread, but not before those are done.
class ThreadRegistry {
 public:
  explicit ThreadRegistry(base::Host& host);
  ~ThreadRegistry();

  /// Where the lines are, and whether every write must fence. REQUIRES: called once, before `current`.
  void set_table(const detail::LineTable& table, bool fence_writes) noexcept {
    table_ = table;
    fence_writes_ = fence_writes;
  }
  /// The calling thread, registered if it was not yet. Its memo is forgotten: who comes here may change what it may
  /// read.
  ThreadState& current() {
    if (t_seat.registry != number_) [[unlikely]]
      return enter();
    t_seat.state->slot->memo_count = 0;
    return *t_seat.state;
  }
  /// For who switches between fibers: the calling thread is the one of this seat from now on. Returns the seat before.
  static Seat take_seat(const Seat& seat) noexcept { return std::exchange(t_seat, seat); }
  /// The node is going: no thread hits its lines any more.
  void forget_lines() noexcept;
  /// Are as many threads counted in `present` as there are? REQUIRES: it counts threads of this node alone, and coming
  /// and going is a fence.
  [[nodiscard]] bool all_are(const std::atomic<std::uint32_t>& present);
  /// Is membarrier(2) there? If not, every line must be fenced.
  [[nodiscard]] bool has_barrier() const noexcept { return has_barrier_; }
  /// Makes the hazard stores of all threads visible, and ours of the access bytes to them.
  void barrier() const noexcept;
  /// Returns when no hazard slot names one of the lines. REQUIRES: their access was lowered, and a barrier issued (or
  /// the lines are fenced).
  void wait_for_writers(std::span<const GlobalAddress> lines);
  /// Returns when every thread has been seen outside of a write: those that were begun before are done.
  void wait_for_all_writers();
  /// Readers that are at it now will read again. REQUIRES: the access was lowered.
  void tell_readers();
  void for_each(const std::function<void(ThreadState&)>& f);
  /// What all threads have counted, those that have exited included.
  struct Counts {
    std::uint64_t hits = 0;
    std::uint64_t reads_in_place = 0;
  };
  [[nodiscard]] Counts counts();

 private:
  friend struct ThreadExit;
  static constinit thread_local Seat t_seat;
  ThreadState& enter();
  ThreadState& add(detail::ThreadSlot& slot);
  void remove(ThreadState& state) noexcept;

  base::Host& host_;
  detail::LineTable table_;
  bool fence_writes_ = false;
  std::uint64_t number_ = 0;  // unlike the address, never used again; 0 is none
  bool has_barrier_;
  base::Mutex mutex_;
  std::vector<std::unique_ptr<ThreadState>> threads_ ATOLL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<ThreadState>> retired_ ATOLL_GUARDED_BY(mutex_);  // of threads that have exited
  Counts retired_counts_ ATOLL_GUARDED_BY(mutex_);
};

}  // namespace atoll::runtime
