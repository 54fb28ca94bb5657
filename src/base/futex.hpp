// Waiting on a word of memory, between threads or between processes.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>
#include <ctime>

#include "atoll/detail/namespace.hpp"

namespace atoll::base {

enum class FutexScope : int { kProcess = FUTEX_PRIVATE_FLAG, kShared = 0 };

/// Returns when woken, when the word is not `expected`, when the time is over, or for no reason.
inline void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, std::uint64_t timeout_us,
                       FutexScope scope) noexcept {
  const timespec timeout{time_t(timeout_us / 1'000'000), long(timeout_us % 1'000'000) * 1000};
  ::syscall(SYS_futex, &word, FUTEX_WAIT | int(scope), expected, &timeout, nullptr, 0);
}

inline void futex_wake(std::atomic<std::uint32_t>& word, int count, FutexScope scope) noexcept {
  ::syscall(SYS_futex, &word, FUTEX_WAKE | int(scope), count, nullptr, nullptr, 0);
}

}  // namespace atoll::base
