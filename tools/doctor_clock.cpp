// The clocks of a host.
#include <fmt/format.h>
#include <sys/timex.h>
#include <time.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <thread>

#include "doctor_checks.hpp"

namespace atoll::tools {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr auto kNap = std::chrono::milliseconds(20);

std::int64_t in_ns(const timespec& time) {
  return time.tv_sec * kSecond + time.tv_nsec;
}

std::int64_t now_ns(clockid_t clock) {
  timespec time{};
  return ::clock_gettime(clock, &time) == 0 ? in_ns(time) : -1;
}

/// What one look at the clock costs.
std::int64_t cost_ns(clockid_t clock) {
  constexpr int kLooks = 1000;
  const std::int64_t start = now_ns(CLOCK_MONOTONIC);
  for (int i = 0; i < kLooks; ++i) (void)now_ns(clock);
  return (now_ns(CLOCK_MONOTONIC) - start) / kLooks;
}

}  // namespace

Finding check_clock_source(const HostFiles& files) {
  const std::string folder = "/sys/devices/system/clocksource/clocksource0";
  const std::string source = files.line(folder + "/current_clocksource");
  bool fast = false;  // those that a program reads without a system call
  for (const std::string_view one : {"tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter"}) {
    fast |= source == one;
  }
  return {
      fast ? Health::kOk : Health::kWarning, "clock source",
      fmt::format("{} (of {})", source.empty() ? "unknown" : source, files.line(folder + "/available_clocksource")),
      "every wait looks at the clock, and this one is slow: the kernel's parameter clocksource=tsc, if it is stable"};
}

Finding check_boot_clock() {
  timespec step{};
  const bool there = ::clock_getres(CLOCK_BOOTTIME, &step) == 0;
  const std::int64_t boot = now_ns(CLOCK_BOOTTIME), monotonic = now_ns(CLOCK_MONOTONIC);
  std::this_thread::sleep_for(kNap);
  const std::int64_t boot_went = now_ns(CLOCK_BOOTTIME) - boot;
  const std::int64_t monotonic_went = now_ns(CLOCK_MONOTONIC) - monotonic;
  const bool goes = there && boot_went > 0 && monotonic_went > 0;
  const bool fine = in_ns(step) <= 1'000'000;  // leases are counted in hundreds of milliseconds
  return {!goes  ? Health::kProblem
          : fine ? Health::kOk
                 : Health::kWarning,
          "boot clock",
          fmt::format("resolution {} ns, {} ns a look; in {} ms of CLOCK_MONOTONIC it went {} ms; this host slept {} s",
                      in_ns(step), cost_ns(CLOCK_BOOTTIME), monotonic_went / 1'000'000, boot_went / 1'000'000,
                      (boot - monotonic) / kSecond),
          "a kernel with high resolution timers (CONFIG_HIGH_RES_TIMERS)"};
}

Finding check_time_of_day() {
  timex state{};
  const int result = ::adjtimex(&state);
  if (result < 0) {
    return {Health::kWarning, "time of day", fmt::format("unknown: adjtimex: {}", std::strerror(errno)),
            "let the container's seccomp filter pass adjtimex"};
  }
  const bool synchronised = result != TIME_ERROR && (state.status & STA_UNSYNC) == 0;
  return {synchronised ? Health::kOk : Health::kWarning, "time of day",
          synchronised ? fmt::format("synchronised, wrong by {} ms at most", state.maxerror / 1000)
                       : "not synchronised with others",
          "chrony or systemd-timesyncd, so that logs of several hosts fit together; nodes do not depend on it"};
}

}  // namespace atoll::tools
