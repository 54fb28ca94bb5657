// The version of a line: odd while its bytes are being written piece by piece, or are not here.
#pragma once

#include <atomic>
#include <cstdint>

#include "atoll/detail/line.hpp"

namespace atoll::coherence {

/// Makes this thread the only one that writes more than a word.
inline void begin_write(detail::Line& line) noexcept {
  std::uint32_t version = line.version.load(std::memory_order_relaxed) & ~1u;
  while (!line.version.compare_exchange_weak(version, version + 1, std::memory_order_acquire)) {
    version &= ~1u;
    ATOLL_GIVE_WAY();
  }
  std::atomic_thread_fence(std::memory_order_release);
}
inline void end_write(detail::Line& line) noexcept {
  // Nobody else changes a version that is odd.
  line.version.store(line.version.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

/// At the home: the bytes are an owner's from now on, and are back. REQUIRES: no thread writes the line, so that plain
/// stores do: an atomic instruction would wait for the copy of the line before it.
inline void mark_away(detail::Line& line) noexcept {
  line.version.store(line.version.load(std::memory_order_relaxed) | 1, std::memory_order_release);
}
inline void mark_here(detail::Line& line) noexcept {
  line.version.store((line.version.load(std::memory_order_relaxed) | 1) + 1, std::memory_order_release);
}

[[nodiscard]] inline bool is_whole(std::uint32_t version) noexcept {
  return (version & 1) == 0;
}

}  // namespace atoll::coherence
