// A machine on which time is virtual: its threads are fibers that run one at a time, in an order that the seed decides.
#pragma once

#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <queue>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "atoll/address.hpp"
#include "base/host.hpp"
#include "base/random.hpp"
#include "runtime/threads.hpp"

namespace atoll::sim {

/// Nanoseconds since the machine was made.
using Time = std::uint64_t;

/// What a checker has found. Thrown in a fiber, it ends the run; `Machine::run` throws it again.
class Failure : public std::runtime_error {
 public:
  explicit Failure(const std::string& what, GlobalAddress about = {}) : std::runtime_error(what), about_(about) {}
  /// The line concerned, null when it is none in particular.
  [[nodiscard]] GlobalAddress about() const noexcept { return about_; }

 private:
  GlobalAddress about_;
};

/// Something that happens at a time.
class Timed {
 public:
  virtual ~Timed() = default;
  virtual void fire() = 0;
};

/// Thread-safety: none; everything happens on the thread that calls `run`. Invariants:
///   1. The same seed and the same calls give the same history, to the bit.
///   2. Time passes only in `run`, from one event to the next; a fiber runs without time passing until it waits.
class Machine final : public base::Host {
 public:
  explicit Machine(std::uint64_t seed);
  ~Machine() override;

  // ---- base::Host; all but `now` and `wake` are called by fibers only ----
  [[nodiscard]] Clock::time_point now() const noexcept override { return Clock::time_point(Clock::duration(time_)); }
  [[nodiscard]] bool work_takes_time() const noexcept override { return false; }
  void relax() noexcept override { sleep_ns(random_.below(2 * relax_ns_)); }
  void yield() noexcept override { sleep_ns(random_.below(2 * kYield_ns)); }
  void sleep_for(std::chrono::microseconds time) noexcept override { sleep_ns(std::uint64_t(time.count()) * 1000); }
  void wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, std::uint64_t timeout_us,
            base::FutexScope scope) noexcept override;
  void wake(std::atomic<std::uint32_t>& word, base::FutexScope scope) noexcept override;
  [[nodiscard]] std::unique_ptr<Thread> start(std::function<void()> work) override;
  [[nodiscard]] bool has_inlined_hits() const noexcept override { return false; }

  // ---- what the simulator adds ----
  class Fiber;
  /// Threads that `start` makes from now on belong to this node, but for those that a fiber makes: they belong to its
  /// own.
  void set_group(NodeId group) noexcept { group_ = group; }
  /// A fiber that begins now. It must have ended before the machine does.
  Fiber& spawn(NodeId group, std::function<void()> work);
  [[nodiscard]] static bool is_done(const Fiber& fiber) noexcept;
  void sleep_ns(Time time) noexcept;
  /// How much time passes between two looks of who spins, on the average: the longer, the fewer switches.
  void set_pace(Time relax_ns) noexcept { relax_ns_ = relax_ns; }
  void at(Time when, Timed& what);
  /// Lets time pass until `done()`, or until nothing is left to happen. False: the latter, or `until` is reached.
  /// Throws what a fiber threw.
  template <typename Done>
  bool run(Done done, Time until = UINT64_MAX) {
    while (!done()) {
      if (!step(until)) return false;
    }
    return true;
  }
  /// The fibers of a node stop where they are, or go on.
  void freeze(NodeId group, bool frozen);
  [[nodiscard]] Time time() const noexcept { return time_; }
  [[nodiscard]] base::Random& random() noexcept { return random_; }
  [[nodiscard]] bool in_fiber() const noexcept { return current_ != nullptr; }
  [[nodiscard]] std::uint64_t switches() const noexcept { return switches_; }

 private:
  static constexpr Time kYield_ns = 900;
  static constexpr Time kWake_ns = 3'000;  // from a wake-up to the first step of who was woken, on the average
  static constexpr std::size_t kStackBytes = 256 * 1024;

  struct Event {
    Time at;
    std::uint64_t order;  // random: what happens at the same time happens in any order
    Fiber* fiber;         // either this, if it still waits with this ticket
    std::uint64_t ticket;
    Timed* timed;  // or that
    friend bool operator>(const Event& a, const Event& b) noexcept {
      return a.at != b.at ? a.at > b.at : a.order > b.order;
    }
  };
  bool step(Time until);
  void resume(Fiber& fiber);
  void suspend() noexcept;
  void schedule(Fiber& fiber, Time when);

  base::Random random_;
  Time relax_ns_ = 300;
  Time time_ = 1;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::unordered_map<const void*, std::deque<Fiber*>> waiting_;  // by the word waited for
  std::vector<bool> frozen_;
  std::vector<Fiber*> parked_;  // whose time has come while their node is frozen
  Fiber* current_ = nullptr;
  NodeId group_ = 0;
  boost::context::fiber main_;
  /// Stacks of fibers. What AddressSanitizer remembers of the last functions on one goes with it: other memory may
  /// come to lie there.
  class Stacks : public boost::context::protected_fixedsize_stack {
   public:
    Stacks() : boost::context::protected_fixedsize_stack(kStackBytes) {}
    void deallocate(boost::context::stack_context& stack) noexcept;
  };
  Stacks stacks_;
  std::exception_ptr thrown_;
  std::uint64_t switches_ = 0;
  const void* main_stack_ = nullptr;  // for AddressSanitizer, which must be told of every switch
  std::size_t main_stack_bytes_ = 0;
};

}  // namespace atoll::sim
