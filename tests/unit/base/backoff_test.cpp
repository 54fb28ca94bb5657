#include "base/backoff.hpp"

#include <gtest/gtest.h>

namespace atoll::base {
namespace {

/// A machine on which a look at what is waited for takes `look_ns`, and a yield `yield_ns`.
class SlowHost : public Host {
 public:
  explicit SlowHost(std::int64_t look_ns, std::int64_t yield_ns = 100) : look_(look_ns), yield_(yield_ns) {}
  [[nodiscard]] Clock::time_point now() const noexcept override { return now_; }
  void relax() noexcept override {}
  void yield() noexcept override {
    now_ += yield_;
    ++yields;
  }
  void sleep_for(std::chrono::microseconds time) noexcept override { now_ += time; }
  void wait(std::atomic<std::uint32_t>&, std::uint32_t, std::uint64_t, FutexScope) noexcept override {}
  void wake(std::atomic<std::uint32_t>&, FutexScope) noexcept override {}
  [[nodiscard]] std::unique_ptr<Thread> start(std::function<void()>) override { return nullptr; }
  [[nodiscard]] bool has_inlined_hits() const noexcept override { return false; }

  /// Looks until the wait says that it is time to sleep; how often.
  int looks_until_sleep(Backoff& backoff) {
    int looks = 0;
    do {
      now_ += look_;
      ++looks;
    } while (backoff.pause());
    return looks;
  }
  int yields = 0;

 private:
  std::chrono::nanoseconds look_;
  std::chrono::nanoseconds yield_;
  Clock::time_point now_{};
};

TEST(Backoff, EndsWhenItsTimeIsOver) {
  SlowHost host(40);
  Backoff::Learned learned;
  Backoff backoff(host, 1000, 100, learned);
  const auto before = host.now();
  (void)host.looks_until_sleep(backoff);
  EXPECT_GE(host.now() - before, std::chrono::microseconds(100));
  EXPECT_LE(host.now() - before, std::chrono::microseconds(140));
  EXPECT_GT(host.yields, 2);
}

TEST(Backoff, OfSlowLooksFewAreMadeBetweenYields) {
  SlowHost host(2000);
  Backoff::Learned learned;
  for (int wait = 0; wait < 8; ++wait) {
    Backoff backoff(host, 1000, 100, learned);
    (void)host.looks_until_sleep(backoff);
  }
  Backoff backoff(host, 1000, 100, learned);
  host.yields = 0;
  EXPECT_LE(host.looks_until_sleep(backoff), 100);  // not 256 and more
  EXPECT_GE(host.yields, 2);
}

TEST(Backoff, LooksThatAreFastAgainAreManyAgain) {
  Backoff::Learned learned;
  learned.rounds = 4;
  SlowHost host(10);
  for (int wait = 0; wait < 8; ++wait) {
    Backoff backoff(host, 1000, 100, learned);
    (void)host.looks_until_sleep(backoff);
  }
  EXPECT_EQ(learned.rounds, Backoff::Learned().rounds);
}

TEST(Backoff, WhereWorkTakesNoTimeNothingIsLearnedFromIt) {
  class VirtualHost : public SlowHost {
   public:
    using SlowHost::SlowHost;
    [[nodiscard]] bool work_takes_time() const noexcept override { return false; }
  };
  VirtualHost host(2000);
  Backoff::Learned learned;
  for (int wait = 0; wait < 8; ++wait) {
    Backoff backoff(host, 1000, 1000, learned);
    (void)host.looks_until_sleep(backoff);
  }
  EXPECT_EQ(learned.rounds, Backoff::Learned().rounds);
}

TEST(Backoff, WhereOthersWantTheProcessorEveryStepYields) {
  SlowHost host(40, 5000);
  Backoff::Learned learned;
  Backoff backoff(host, 1000, 100, learned);
  (void)host.looks_until_sleep(backoff);
  EXPECT_TRUE(learned.crowded);
  Backoff next(host, 1000, 100, learned);
  host.yields = 0;
  const int looks = host.looks_until_sleep(next);
  EXPECT_GE(host.yields, looks - 6);
}

TEST(Backoff, AnewItHasAllItsTime) {
  SlowHost host(40);
  Backoff::Learned learned;
  Backoff backoff(host, 1000, 100, learned);
  (void)host.looks_until_sleep(backoff);
  backoff.reset();
  EXPECT_TRUE(backoff.looked());
  const auto before = host.now();
  (void)host.looks_until_sleep(backoff);
  EXPECT_GE(host.now() - before, std::chrono::microseconds(100));
}

}  // namespace
}  // namespace atoll::base
