// The lock word of a line: taken and released by the fast path and by the core alike.
#pragma once

#include <atomic>
#include <cstdint>

#include "atoll/detail/line.hpp"

namespace atoll::coherence {

/// May a lock be added to a word in this state? Waiters are the caller's matter.
[[nodiscard]] constexpr bool lock_fits(std::uint32_t word, bool exclusive) noexcept {
  return exclusive ? (word & (detail::kLockWriter | detail::kLockReaders)) == 0 : (word & detail::kLockWriter) == 0;
}

/// Takes the lock if the word allows it, whatever the waiters bit says.
[[nodiscard]] inline bool take_lock(std::atomic<std::uint32_t>& lock, bool exclusive) noexcept {
  std::uint32_t word = lock.load(std::memory_order_relaxed);
  while (lock_fits(word, exclusive)) {
    if (lock.compare_exchange_weak(word, exclusive ? word | detail::kLockWriter : word + 1,
                                   std::memory_order_seq_cst)) {
      return true;
    }
  }
  return false;
}

/// Releases it; true when somebody waits and must be told through Protocol::unlocked.
[[nodiscard]] inline bool drop_lock(std::atomic<std::uint32_t>& lock, bool exclusive) noexcept {
  const std::uint32_t held = exclusive ? detail::kLockWriter : 1u;
  const std::uint32_t before = lock.fetch_sub(held, std::memory_order_seq_cst);
  return (before & detail::kLockWaiters) != 0;
}

}  // namespace atoll::coherence
