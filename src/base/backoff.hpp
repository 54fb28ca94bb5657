// How to wait for something that mostly comes soon: spin, then give the CPU to others, then say that it is time to
// sleep.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/host.hpp"

namespace atoll::base {

/// One wait: call `pause` between looks at what is waited for, until it says false; then sleep.
///
/// It learns whether others want the CPU: a sched_yield that comes back at once says that nobody does, and then
/// spinning costs nothing and notices sooner; one that takes long says that the machine is crowded, and then nearly
/// every step yields. It learns, too, how long its caller's looks take, so that the clock is asked about every 20 us:
/// a look at shared memory is a load, one at libfabric a system call, and 256 of these would be a long wait.
///
/// Thread-safety: one thread's own.
class Backoff {
 public:
  using Clock = Host::Clock;
  /// Kept by the caller from one wait to the next.
  struct Learned {
    bool crowded = false;
    std::uint32_t rounds = kMostRounds;  // without a look at the clock
  };
  Backoff(Host& host, std::uint32_t spin_ns, std::uint32_t yield_us, Learned& learned) noexcept
      : host_(host), spin_(spin_ns), yield_(yield_us), learned_(learned) {}

  /// What was waited for has come: the next wait begins anew. What was learned stays.
  void reset() noexcept {
    rounds_ = 0;
    looked_ = true;
    started_ = false;
  }
  /// Has the wait come to the point where the clock was read? (Then `now` is that reading.)
  [[nodiscard]] bool looked() const noexcept { return looked_; }
  [[nodiscard]] Clock::time_point now() const noexcept { return now_; }
  [[nodiscard]] Clock::time_point start() const noexcept { return start_; }

  /// False when the time to spin and yield is over.
  [[nodiscard]] bool pause() noexcept {
    if (++rounds_ < learned_.rounds && !learned_.crowded) {
      looked_ = false;
      host_.relax();
      return true;
    }
    look();
    if (now_ - start_ < (learned_.crowded ? spin_ / kLessWhereCrowded : spin_)) return true;
    if (now_ - start_ >= yield_) return false;
    host_.yield();
    since_ = host_.now();
    learned_.crowded = since_ - now_ > kLongYield;
    return true;
  }

 private:
  static constexpr std::uint32_t kMostRounds = 256;
  static constexpr std::uint32_t kFewestRounds = 4;
  static constexpr std::chrono::microseconds kBetweenLooks{20};
  static constexpr std::chrono::nanoseconds kLongYield{1000};
  static constexpr int kLessWhereCrowded = 8;  // whom one waits for may need this processor

  void look() noexcept {
    now_ = host_.now();
    if (!started_) start_ = now_;  // a short wait never asks for the time
    if (started_ && !learned_.crowded && host_.work_takes_time()) learn(now_ - since_);
    started_ = true;
    since_ = now_;
    looked_ = true;
    rounds_ = 0;
  }

  void learn(std::chrono::nanoseconds took) noexcept {
    if (took > 2 * kBetweenLooks) learned_.rounds = std::max(learned_.rounds / 2, kFewestRounds);
    if (took < kBetweenLooks / 2) learned_.rounds = std::min(learned_.rounds * 2, kMostRounds);
  }

  Host& host_;
  std::chrono::nanoseconds spin_;
  std::chrono::microseconds yield_;
  Learned& learned_;
  std::uint32_t rounds_ = 0;  // since the last look
  bool looked_ = true;
  bool started_ = false;     // has the clock been asked in this wait?
  Clock::time_point start_;  // when it was for the first time
  Clock::time_point since_;  // when these rounds began
  Clock::time_point now_;
};

}  // namespace atoll::base
