#include "runtime/threads.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/log.hpp"

namespace atoll::detail {
constinit thread_local ThreadSlot t_slot;
}  // namespace atoll::detail

namespace atoll::runtime {
namespace {

/// The thread has no inlined hits any more.
void close(detail::ThreadSlot& slot) noexcept {
  __atomic_store_n(&slot.read_limit, 0, __ATOMIC_RELAXED);
  __atomic_store_n(&slot.write_limit, 0, __ATOMIC_RELAXED);
  __atomic_store_n(&slot.part_count, 0, __ATOMIC_RELAXED);
  __atomic_store_n(&slot.told, 1, __ATOMIC_RELEASE);
}

int membarrier(int command) noexcept {
  return int(::syscall(SYS_membarrier, command, 0, 0));
}

// Registries that exist, so that a thread that exits does not call one that is gone. Never destroyed: threads may
// exit after static objects are.
struct Living {
  base::Mutex mutex;
  std::vector<ThreadRegistry*> registries ATOLL_GUARDED_BY(mutex);
  std::uint64_t made ATOLL_GUARDED_BY(mutex) = 0;
};
Living& living() {
  static auto* instance = new Living;
  return *instance;
}

}  // namespace

/// This thread has given up its places; what it still does (destructors of its own) must not rely on them, nor on its
/// slot, which goes with it.
static constinit thread_local bool t_gone = false;

/// What a thread leaves behind it: its places in the registries.
struct ThreadExit {
  struct Place {
    std::uint64_t registry;  // its number: a registry that is gone may have a successor at the same address
    ThreadState* state;
  };
  std::vector<Place> places;

  ~ThreadExit() {
    close(detail::t_slot);
    ThreadRegistry::t_seat = {};
    t_gone = true;
    base::MutexLock lock(living().mutex);
    for (const Place& place : places) {
      for (ThreadRegistry* registry : living().registries) {
        if (registry->number_ == place.registry) registry->remove(*place.state);
      }
    }
  }
};
static thread_local ThreadExit t_exit;

ThreadRegistry::ThreadRegistry(base::Host& host)
    : host_(host), has_barrier_(membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0) {
#ifdef ATOLL_TSAN
  has_barrier_ = false;  // ThreadSanitizer does not know it; under it every access fences
#endif
  if (!has_barrier_) spdlog::info("membarrier(2) is not used: every access fences");
  base::MutexLock lock(living().mutex);
  number_ = ++living().made;
  living().registries.push_back(this);
}

ThreadRegistry::~ThreadRegistry() {
  base::MutexLock lock(living().mutex);
  auto& registries = living().registries;
  registries.erase(std::find(registries.begin(), registries.end(), this));
}

void ThreadRegistry::forget_lines() noexcept {
  base::MutexLock lock(mutex_);
  for (const auto& thread : threads_) {
    close(*thread->slot);
  }
}

constinit thread_local Seat ThreadRegistry::t_seat;

ThreadState& ThreadRegistry::enter() {
  if (t_gone || t_seat.is_fiber) {
    auto own = std::make_unique<detail::ThreadSlot>();
    t_seat.state = &add(*own);
    t_seat.state->own_slot = std::move(own);
    t_seat.registry = number_;
    return *t_seat.state;
  }
  detail::ThreadSlot& slot = detail::t_slot;
  const auto place = std::find_if(t_exit.places.begin(), t_exit.places.end(),
                                  [this](const ThreadExit::Place& p) { return p.registry == number_; });
  if (place != t_exit.places.end()) {
    t_seat.state = place->state;
  } else {
    // Who has no inlined hits must not touch the slot that they look at: it says what another node has told.
    auto own = table_.reads == nullptr ? std::make_unique<detail::ThreadSlot>() : nullptr;
    t_seat.state = &add(own != nullptr ? *own : slot);
    if (own != nullptr) t_seat.state->own_slot = std::move(own);
    t_exit.places.push_back({number_, t_seat.state});
  }
  close(slot);
  slot.memo_count = 0;
  if (table_.reads != nullptr) {
    const std::uint64_t limit = (table_.nodes << GlobalAddress::kNodeShift) / 8;
    __atomic_store_n(&slot.read_limit, limit, __ATOMIC_RELAXED);
    __atomic_store_n(&slot.write_limit, fence_writes_ ? 0 : limit, __ATOMIC_RELAXED);
  }
  t_seat.registry = number_;
  return *t_seat.state;
}

ThreadState& ThreadRegistry::add(detail::ThreadSlot& slot) {
  base::MutexLock lock(mutex_);
  const auto idle = std::find_if(retired_.begin(), retired_.end(), [](const auto& state) {
    return state->pending_writes.load(std::memory_order_acquire) == 0;
  });
  if (idle == retired_.end()) {
    threads_.push_back(std::make_unique<ThreadState>(host_));
  } else {
    threads_.push_back(std::move(*idle));
    retired_.erase(idle);
  }
  ThreadState& state = *threads_.back();
  state.slot = &slot;
  state.hits_before = slot.hits;
  state.write_error.store(0, std::memory_order_relaxed);
  state.held.clear();
  state.elements.clear();
  state.strides = {};
  state.last_missed_write = 0;
  return state;
}

void ThreadRegistry::remove(ThreadState& state) noexcept {
  base::MutexLock lock(mutex_);
  if (const std::size_t held = state.held.size() + state.elements.size(); held != 0) {
    spdlog::error("a thread ended while it held {} lock(s); they stay locked", held);
  }
  if (const auto error = Errc(state.write_error.load(std::memory_order_relaxed)); error != Errc::kOk) {
    spdlog::error("a thread ended without a fence, and a write of it had failed: {}", to_string(error));
  }
  retired_counts_.hits += state.slot->hits - state.hits_before;
  retired_counts_.reads_in_place += state.reads_in_place.exchange(0, std::memory_order_relaxed);
  const auto at = std::find_if(threads_.begin(), threads_.end(), [&](const auto& t) { return t.get() == &state; });
  retired_.push_back(std::move(*at));
  threads_.erase(at);
}

void ThreadRegistry::barrier() const noexcept {
#ifdef ATOLL_LAB
  lab::drain_stores();
#endif
  if (has_barrier_) membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

void ThreadRegistry::wait_for_writers(std::span<const GlobalAddress> lines) {
  if (ATOLL_FAULT(hazard_not_awaited)) return;
  base::MutexLock lock(mutex_);
  for (const auto& thread : threads_) {
    // An access takes nanoseconds; a thread that was preempted inside one needs the CPU more than we do.
    while (true) {
      const std::uint64_t written = __atomic_load_n(&thread->slot->hazard, __ATOMIC_SEQ_CST);
      // A writer enters its slot before it knows whether there is any memory.
      const std::uint64_t node = written >> GlobalAddress::kNodeShift;
      if (written == 0 || node >= table_.nodes) break;
      if ((written & GlobalAddress::kOffsetMask) >= table_.bytes[node]) break;
      const std::uint32_t shift = detail::line_shift_at(table_, written);
      const GlobalAddress line(written >> shift << shift);
      if (std::find(lines.begin(), lines.end(), line) == lines.end()) break;
      host_.yield();
    }
  }
}

void ThreadRegistry::wait_for_all_writers() {
  barrier();
  base::MutexLock lock(mutex_);
  for (const auto& thread : threads_) {
    while (__atomic_load_n(&thread->slot->hazard, __ATOMIC_SEQ_CST) != 0) host_.yield();
  }
}

void ThreadRegistry::tell_readers() {
  if (ATOLL_FAULT(readers_not_told)) return;
  base::MutexLock lock(mutex_);
  for (const auto& thread : threads_) __atomic_store_n(&thread->slot->told, 1, __ATOMIC_RELEASE);
}

bool ThreadRegistry::all_are(const std::atomic<std::uint32_t>& present) {
  // Under the lock none can come or go for good: who is counted is one of those in the list. What the caller has stored
  // comes before the look.
  base::MutexLock lock(mutex_);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return present.load(std::memory_order_seq_cst) >= threads_.size();
}

void ThreadRegistry::for_each(const std::function<void(ThreadState&)>& f) {
  base::MutexLock lock(mutex_);
  for (const auto& thread : threads_) f(*thread);
}

ThreadRegistry::Counts ThreadRegistry::counts() {
  base::MutexLock lock(mutex_);
  Counts sum = retired_counts_;
  for (const auto& thread : threads_) {
    sum.hits += __atomic_load_n(&thread->slot->hits, __ATOMIC_RELAXED) - thread->hits_before;
    sum.reads_in_place += thread->reads_in_place.load(std::memory_order_relaxed);
  }
  return sum;
}

}  // namespace atoll::runtime
