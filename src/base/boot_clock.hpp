// The clocks of leases.
#pragma once

#include "atoll/detail/namespace.hpp"

#include <cstdint>
#include <ctime>

namespace atoll::base {

/// Nanoseconds since this machine started. It goes on while a process is stopped and while the machine sleeps.
[[nodiscard]] inline std::int64_t boot_ns() noexcept {
  timespec time{};
  (void)::clock_gettime(CLOCK_BOOTTIME, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

/// A clock that costs next to nothing to ask and goes on while a process is stopped. It is up to kCoarseTick_ns late.
[[nodiscard]] inline std::int64_t coarse_ns() noexcept {
  timespec time{};
  (void)::clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}
inline constexpr std::int64_t kCoarseTick_ns = 10'000'000;  // of the slowest kernels: 100 ticks a second

}  // namespace atoll::base
