// The lock word of a line: taken and released by the fast path and by the core alike.
#pragma once

#include <atomic>
#include <cstdint>

#include "atoll/detail/line.hpp"

namespace atoll::coherence {

/// Is there nothing in a word that excludes such a lock? Waiters are the caller's matter.
[[nodiscard]] constexpr bool lock_fits(std::uint32_t word, bool exclusive) noexcept {
  return (word & (exclusive ? detail::kLockHeld : detail::kLockWriter)) == 0;
}

/// Does nobody hold the lock, and nobody wait for it?
[[nodiscard]] constexpr bool is_idle(std::uint32_t word) noexcept {
  return (word & (detail::kLockHeld | detail::kLockWaiters)) == 0;
}

/// May it be taken? There is room for so many readers and no more.
[[nodiscard]] constexpr bool can_take(std::uint32_t word, bool exclusive) noexcept {
  return lock_fits(word, exclusive) && (exclusive || (word & detail::kLockReaders) != detail::kLockReaders);
}

/// Takes the lock if the word allows it, whatever the waiters bit says.
[[nodiscard]] inline bool take_lock(std::atomic<std::uint32_t>& lock, bool exclusive) noexcept {
  std::uint32_t word = lock.load(std::memory_order_relaxed);
  while (can_take(word, exclusive)) {
    if (lock.compare_exchange_weak(word, exclusive ? word | detail::kLockWriter : word + 1,
                                   std::memory_order_seq_cst)) {
      return true;
    }
  }
  return false;
}

/// Releases it; true when somebody waits and must be told through Protocol::unlocked.
[[nodiscard]] inline bool drop_lock(std::atomic<std::uint32_t>& lock, bool exclusive) noexcept {
  // A writer adds its bit once more: it is clear again, and the count above it has gone on.
  const std::uint32_t before = exclusive ? lock.fetch_add(detail::kLockWriter, std::memory_order_seq_cst)
                                         : lock.fetch_sub(1, std::memory_order_seq_cst);
  return (before & detail::kLockWaiters) != 0;
}

}  // namespace atoll::coherence
