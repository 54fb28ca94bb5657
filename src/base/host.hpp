// The machine that a node runs on, as far as time passes on it: the clock, sleep, threads. There are two: the real one,
// and the simulator's, on which time is virtual and threads are fibers that run one at a time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/futex.hpp"

namespace atoll::base {

/// Thread-safety: every method may be called from any thread of the host.
class Host {
 public:
  using Clock = std::chrono::steady_clock;

  /// A thread that was started. Its end is waited for by the destructor.
  class Thread {
   public:
    virtual ~Thread() = default;
  };

  virtual ~Host() = default;
  [[nodiscard]] virtual Clock::time_point now() const noexcept = 0;
  /// The same in nanoseconds, cheap to ask, and up to a tick of the system late: the clock of Membership::act_until.
  [[nodiscard]] virtual std::int64_t coarse_ns() const noexcept {
    return std::chrono::nanoseconds(now().time_since_epoch()).count();
  }
  /// Does time pass while a thread works? In the simulator it does only while threads wait.
  [[nodiscard]] virtual bool work_takes_time() const noexcept { return true; }
  /// Between two looks at something that will be there in a moment.
  virtual void relax() noexcept = 0;
  /// The same, when others may want the processor.
  virtual void yield() noexcept = 0;
  virtual void sleep_for(std::chrono::microseconds time) noexcept = 0;
  /// Returns when woken, when the word is not `expected`, when the time is over, or for no reason.
  virtual void wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, std::uint64_t timeout_us,
                    FutexScope scope) noexcept = 0;
  /// Wakes one who waits on the word.
  virtual void wake(std::atomic<std::uint32_t>& word, FutexScope scope) noexcept = 0;
  [[nodiscard]] virtual std::unique_ptr<Thread> start(std::function<void()> work) = 0;
  /// May threads of this host take the inlined hit path, which knows them by the system's own thread-local storage?
  [[nodiscard]] virtual bool has_inlined_hits() const noexcept = 0;

  /// The machine that this process runs on.
  static Host& real() noexcept;
};

}  // namespace atoll::base
