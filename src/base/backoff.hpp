// How to wait for something that mostly comes soon: spin, then give the CPU to others, then say that it is time to
// sleep.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/host.hpp"

namespace atoll::base {

/// One wait: call `pause` between looks at what is waited for, until it says false; then sleep.
///
/// It learns whether others want the CPU: a sched_yield that comes back at once says that nobody does, and then
/// spinning costs nothing and notices sooner; one that takes long says that the machine is crowded, and then nearly
/// every step yields.
///
/// Thread-safety: one thread's own.
class Backoff {
 public:
  using Clock = Host::Clock;
  /// `crowded`: what was learned, kept by the caller from one wait to the next.
  Backoff(Host& host, std::uint32_t spin_ns, std::uint32_t yield_us, bool& crowded) noexcept
      : host_(host), spin_(spin_ns), yield_(yield_us), crowded_(crowded) {}

  /// What was waited for has come: the next wait begins anew. What was learned stays.
  void reset() noexcept { rounds_ = 0; }
  /// Has the wait come to the point where the clock was read? (Then `now` is that reading.)
  [[nodiscard]] bool looked() const noexcept { return rounds_ % kRounds == 0; }
  [[nodiscard]] Clock::time_point now() const noexcept { return now_; }
  [[nodiscard]] Clock::time_point start() const noexcept { return start_; }

  /// False when the time to spin and yield is over.
  [[nodiscard]] bool pause() noexcept {
    if (++rounds_ % kRounds != 0 && !crowded_) {
      host_.relax();
      return true;
    }
    now_ = host_.now();
    if (rounds_ <= kRounds) start_ = now_;  // the first look: a short wait never asks for the time
    if (crowded_) rounds_ = 2 * kRounds;
    if (now_ - start_ < (crowded_ ? spin_ / kLessWhereCrowded : spin_)) return true;
    if (now_ - start_ >= yield_) return false;
    host_.yield();
    crowded_ = host_.now() - now_ > kLongYield;
    return true;
  }

 private:
  static constexpr std::uint32_t kRounds = 256;
  static constexpr std::chrono::nanoseconds kLongYield{1000};
  static constexpr int kLessWhereCrowded = 8;  // whom one waits for may need this processor

  Host& host_;
  std::chrono::nanoseconds spin_;
  std::chrono::microseconds yield_;
  std::uint32_t rounds_ = 0;
  bool& crowded_;
  Clock::time_point start_;
  Clock::time_point now_;
};

}  // namespace atoll::base
