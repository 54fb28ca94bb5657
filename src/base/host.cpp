#include "base/host.hpp"

#include <sched.h>

#include <thread>
#include <utility>

#include "base/boot_clock.hpp"

namespace atoll::base {
namespace {

void cpu_relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

class RealThread final : public Host::Thread {
 public:
  explicit RealThread(std::function<void()> work) : thread_(std::move(work)) {}
  ~RealThread() override { thread_.join(); }

 private:
  std::thread thread_;
};

class RealHost final : public Host {
 public:
  [[nodiscard]] Clock::time_point now() const noexcept override { return Clock::now(); }
  [[nodiscard]] std::int64_t coarse_ns() const noexcept override { return base::coarse_ns(); }
  void relax() noexcept override { cpu_relax(); }
  void yield() noexcept override { ::sched_yield(); }
  void sleep_for(std::chrono::microseconds time) noexcept override { std::this_thread::sleep_for(time); }
  void wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, std::uint64_t timeout_us,
            FutexScope scope) noexcept override {
    futex_wait(word, expected, timeout_us, scope);
  }
  void wake(std::atomic<std::uint32_t>& word, FutexScope scope) noexcept override { futex_wake(word, 1, scope); }
  [[nodiscard]] std::unique_ptr<Thread> start(std::function<void()> work) override {
    return std::make_unique<RealThread>(std::move(work));
  }
  [[nodiscard]] bool has_inlined_hits() const noexcept override { return true; }
};

}  // namespace

Host& Host::real() noexcept {
  static RealHost host;
  return host;
}

}  // namespace atoll::base
