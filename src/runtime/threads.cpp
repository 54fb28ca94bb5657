#include "runtime/threads.hpp"

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/log.hpp"

namespace atoll::detail {
namespace {
constexpr Home kNoHome{};
constinit const auto kNoHomes = [] {
  std::array<const Home*, 65536> homes{};
  for (const Home*& home : homes) home = &kNoHome;
  return homes;
}();
}  // namespace
constinit const LineTable kEmptyTable{kNoHomes.data(), 0};
constinit thread_local ThreadSlot t_slot;
}  // namespace atoll::detail

namespace atoll::runtime {
namespace {

int membarrier(int command) noexcept { return int(::syscall(SYS_membarrier, command, 0, 0)); }

// Registries that exist, so that a thread that exits does not call one that is gone. Never destroyed: threads may
// exit after static objects are.
struct Living {
  base::Mutex mutex;
  std::vector<ThreadRegistry*> registries ATOLL_GUARDED_BY(mutex);
};
Living& living() {
  static auto* instance = new Living;
  return *instance;
}

}  // namespace

/// What a thread leaves behind it: its places in the registries.
struct ThreadExit {
  struct Place {
    ThreadRegistry* registry;
    ThreadState* state;
  };
  std::vector<Place> places;
  ThreadState* current = nullptr;  // of detail::t_slot.owner

  ~ThreadExit() {
    detail::t_slot.table.store(&detail::kEmptyTable, std::memory_order_relaxed);
    base::MutexLock lock(living().mutex);
    const auto& registries = living().registries;
    for (const Place& place : places) {
      if (std::find(registries.begin(), registries.end(), place.registry) != registries.end()) {
        place.registry->remove(*place.state);
      }
    }
  }
};
static thread_local ThreadExit t_exit;

ThreadRegistry::ThreadRegistry() : has_barrier_(membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0) {
#ifdef ATOLL_TSAN
  has_barrier_ = false;  // ThreadSanitizer does not know it; under it every access fences
#endif
  if (!has_barrier_) spdlog::info("membarrier(2) is not used: every access fences");
  base::MutexLock lock(living().mutex);
  living().registries.push_back(this);
}

ThreadRegistry::~ThreadRegistry() {
  base::MutexLock lock(living().mutex);
  auto& registries = living().registries;
  registries.erase(std::find(registries.begin(), registries.end(), this));
  base::MutexLock also(mutex_);
  for (const auto& thread : threads_) {
    if (thread->slot->table.load(std::memory_order_relaxed) != table_) continue;
    // The thread may not notice that the node is gone: it must find nothing through what it remembers of it.
    thread->slot->table.store(&detail::kEmptyTable, std::memory_order_relaxed);
    __atomic_store_n(&thread->slot->base, detail::ThreadSlot::kNoBase, __ATOMIC_RELAXED);
  }
}

ThreadState& ThreadRegistry::current() {
  detail::ThreadSlot& slot = detail::t_slot;
  if (slot.table.load(std::memory_order_relaxed) == table_) [[likely]] return *t_exit.current;
  ThreadState* state = nullptr;
  for (const ThreadExit::Place& place : t_exit.places) {
    if (place.registry == this) state = place.state;
  }
  if (state == nullptr) {
    auto made = std::make_unique<ThreadState>();
    state = made.get();
    state->slot = &slot;
    state->hits_before = slot.hits;
    base::MutexLock lock(mutex_);
    threads_.push_back(std::move(made));
    t_exit.places.push_back({this, state});
  }
  // The memo belongs to one node at a time.
  slot.base = detail::ThreadSlot::kNoBase;
  slot.key = ~table_->line_mask | 7;
  slot.word.store(nullptr, std::memory_order_relaxed);
  slot.table.store(table_, std::memory_order_relaxed);
  t_exit.current = state;
  return *state;
}

void ThreadRegistry::remove(ThreadState& state) noexcept {
  base::MutexLock lock(mutex_);
  if (!state.held.empty()) {
    spdlog::error("a thread ended while it held {} lock(s); they stay locked", state.held.size());
  }
  retired_hits_ += state.slot->hits - state.hits_before;
  std::erase_if(threads_, [&](const auto& thread) { return thread.get() == &state; });
}

void ThreadRegistry::barrier() const noexcept {
  if (has_barrier_) membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

void ThreadRegistry::wait_until_unused(std::span<const detail::HotWord* const> lines) {
  base::MutexLock lock(mutex_);
  for (const auto& thread : threads_) {
    // An access takes nanoseconds; a thread that was preempted inside one needs the CPU more than we do.
    while (true) {
      const detail::HotWord* used = thread->slot->hazard.load(std::memory_order_seq_cst);
      if (used == nullptr || std::find(lines.begin(), lines.end(), used) == lines.end()) break;
      ::sched_yield();
    }
  }
}

bool ThreadRegistry::is_recent(const detail::HotWord* line) {
  base::MutexLock lock(mutex_);
  return std::any_of(threads_.begin(), threads_.end(), [&](const auto& thread) {
    return thread->slot->word.load(std::memory_order_relaxed) == line;
  });
}

void ThreadRegistry::for_each(const std::function<void(ThreadState&)>& f) {
  base::MutexLock lock(mutex_);
  for (const auto& thread : threads_) f(*thread);
}

std::uint64_t ThreadRegistry::hits() {
  base::MutexLock lock(mutex_);
  std::uint64_t sum = retired_hits_;
  for (const auto& thread : threads_) {
    sum += __atomic_load_n(&thread->slot->hits, __ATOMIC_RELAXED) - thread->hits_before;
  }
  return sum;
}

}  // namespace atoll::runtime
