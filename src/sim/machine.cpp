#include "sim/machine.hpp"

#include <algorithm>
#include <boost/context/preallocated.hpp>
#include <utility>

#include "base/check.hpp"

#if defined(__SANITIZE_ADDRESS__)
#define ATOLL_SIM_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ATOLL_SIM_ASAN 1
#endif
#endif
#ifdef ATOLL_SIM_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace atoll::sim {
namespace {

// AddressSanitizer keeps the bounds of the stack that runs; it must be told before and after each switch.
void before_switch([[maybe_unused]] void** keep, [[maybe_unused]] const void* stack,
                   [[maybe_unused]] std::size_t bytes) noexcept {
#ifdef ATOLL_SIM_ASAN
  __sanitizer_start_switch_fiber(keep, stack, bytes);
#endif
}
void after_switch([[maybe_unused]] void* kept, [[maybe_unused]] const void** from,
                  [[maybe_unused]] std::size_t* bytes) noexcept {
#ifdef ATOLL_SIM_ASAN
  __sanitizer_finish_switch_fiber(kept, from, bytes);
#endif
}

}  // namespace

void Machine::Stacks::deallocate(boost::context::stack_context& stack) noexcept {
#ifdef ATOLL_SIM_ASAN
  __asan_unpoison_memory_region(static_cast<const std::byte*>(stack.sp) - stack.size, stack.size);
#endif
  boost::context::protected_fixedsize_stack::deallocate(stack);
}

class Machine::Fiber {
 public:
  NodeId group = 0;
  std::function<void()> work;
  boost::context::fiber context;
  runtime::Seat seat{0, nullptr, true};
  std::uint64_t ticket = 0;     // bumped whenever it runs: an older event is not meant for it any more
  const void* word = nullptr;   // what it waits on, besides time
  const void* stack = nullptr;  // for AddressSanitizer
  std::size_t stack_bytes = 0;
  bool done = false;
};

Machine::Machine(std::uint64_t seed) : random_(seed) {}

Machine::~Machine() {
  // A fiber that has not ended cannot be unwound: much of what stands on its stack may not throw. After a failure that
  // is how it is; the process ends.
  for (auto& fiber : fibers_) {
    if (!fiber->done) (void)new boost::context::fiber(std::move(fiber->context));
  }
}

bool Machine::is_done(const Fiber& fiber) noexcept {
  return fiber.done;
}

Machine::Fiber& Machine::spawn(NodeId group, std::function<void()> work) {
  fibers_.push_back(std::make_unique<Fiber>());
  Fiber& fiber = *fibers_.back();
  fiber.group = group;
  fiber.work = std::move(work);
  const boost::context::stack_context stack = stacks_.allocate();
  fiber.stack = static_cast<const std::byte*>(stack.sp) - stack.size;
  fiber.stack_bytes = stack.size;
  const boost::context::preallocated place(stack.sp, stack.size, stack);
  fiber.context =
      boost::context::fiber(std::allocator_arg, place, stacks_, [this, &fiber](boost::context::fiber&& main) {
        after_switch(nullptr, &main_stack_, &main_stack_bytes_);
        main_ = std::move(main);
        try {
          fiber.work();
        } catch (...) {
          thrown_ = std::current_exception();
        }
        fiber.done = true;
        fiber.work = nullptr;
        before_switch(nullptr, main_stack_, main_stack_bytes_);
        return std::move(main_);
      });
  schedule(fiber, time_);
  return fiber;
}

std::unique_ptr<base::Host::Thread> Machine::start(std::function<void()> work) {
  class FiberThread final : public Thread {
   public:
    FiberThread(Machine& machine, Fiber& fiber) noexcept : machine_(machine), fiber_(fiber) {}
    ~FiberThread() override {
      while (!fiber_.done) machine_.sleep_ns(10'000);
    }

   private:
    Machine& machine_;
    Fiber& fiber_;
  };
  const NodeId group = current_ == nullptr ? group_ : current_->group;
  return std::make_unique<FiberThread>(*this, spawn(group, std::move(work)));
}

void Machine::schedule(Fiber& fiber, Time when) {
  events_.push({when, random_.next(), &fiber, fiber.ticket, nullptr});
}

void Machine::at(Time when, Timed& what) {
  events_.push({std::max(when, time_), random_.next(), nullptr, 0, &what});
}

bool Machine::step(Time until) {
  if (events_.empty() || events_.top().at > until) {
    if (until != UINT64_MAX) time_ = std::max(time_, until);
    return false;
  }
  const Event event = events_.top();
  events_.pop();
  if (event.timed == nullptr && (event.fiber->done || event.fiber->ticket != event.ticket)) return true;
  time_ = std::max(time_, event.at);
  if (event.timed != nullptr) {
    event.timed->fire();
  } else if (event.fiber->group < frozen_.size() && frozen_[event.fiber->group]) {
    parked_.push_back(event.fiber);
  } else {
    resume(*event.fiber);
  }
  return true;
}

void Machine::resume(Fiber& fiber) {
  ++fiber.ticket;
  ++switches_;
  if (fiber.word != nullptr) {
    auto& queue = waiting_[fiber.word];
    std::erase(queue, &fiber);
    if (queue.empty()) waiting_.erase(fiber.word);
    fiber.word = nullptr;
  }
  current_ = &fiber;
  const runtime::Seat outer = runtime::ThreadRegistry::take_seat(fiber.seat);
  void* kept = nullptr;
  before_switch(&kept, fiber.stack, fiber.stack_bytes);
  fiber.context = std::move(fiber.context).resume();
  after_switch(kept, nullptr, nullptr);
  fiber.seat = runtime::ThreadRegistry::take_seat(outer);
  current_ = nullptr;
  if (thrown_ != nullptr) std::rethrow_exception(std::exchange(thrown_, nullptr));
}

void Machine::suspend() noexcept {
  ATOLL_CHECK(current_ != nullptr);
  void* kept = nullptr;
  before_switch(&kept, main_stack_, main_stack_bytes_);
  main_ = std::move(main_).resume();
  after_switch(kept, &main_stack_, &main_stack_bytes_);
}

void Machine::sleep_ns(Time time) noexcept {
  ATOLL_CHECK(current_ != nullptr);
  schedule(*current_, time_ + time);
  suspend();
}

void Machine::wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, std::uint64_t timeout_us,
                   base::FutexScope /*scope*/) noexcept {
  ATOLL_CHECK(current_ != nullptr);
  if (word.load(std::memory_order_relaxed) != expected) return;
  current_->word = &word;
  waiting_[&word].push_back(current_);
  schedule(*current_, time_ + timeout_us * 1000);
  suspend();
}

void Machine::wake(std::atomic<std::uint32_t>& word, base::FutexScope /*scope*/) noexcept {
  const auto found = waiting_.find(&word);
  if (found == waiting_.end()) return;
  Fiber& fiber = *found->second.front();
  found->second.pop_front();
  if (found->second.empty()) waiting_.erase(found);
  fiber.word = nullptr;
  ++fiber.ticket;  // its timeout does not count any more
  schedule(fiber, time_ + random_.below(2 * kWake_ns));
}

void Machine::freeze(NodeId group, bool frozen) {
  if (frozen_.size() <= group) frozen_.resize(group + 1u, false);
  frozen_[group] = frozen;
  if (frozen) return;
  std::vector<Fiber*> parked;
  parked.swap(parked_);
  for (Fiber* fiber : parked) {
    ++fiber->ticket;
    if (fiber->group == group) {
      schedule(*fiber, time_);
    } else {
      parked_.push_back(fiber);
    }
  }
}

}  // namespace atoll::sim
