// Copies of a line's bytes that a reader may race with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "atoll/detail/line.hpp"

namespace atoll::base {

/// A copy that other threads may race with. A version or the epoch tells a reader afterwards whether one did; until
/// then the bytes are not used. ThreadSanitizer is shown atomic bytes; all others get a plain memcpy, which is what
/// those compile to but faster.
inline void racy_copy(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
#ifdef ATOLL_TSAN
  for (std::size_t i = 0; i < bytes; ++i) {
    const auto byte = __atomic_load_n(reinterpret_cast<const std::uint8_t*>(from + i), __ATOMIC_RELAXED);
    __atomic_store_n(reinterpret_cast<std::uint8_t*>(to + i), byte, __ATOMIC_RELAXED);
  }
#else
  std::memcpy(to, from, bytes);
#endif
}

}  // namespace atoll::base
