// Copies of a line's bytes that a reader may race with.
#pragma once

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "atoll/detail/line.hpp"

namespace atoll::base {

/// A copy that other threads may race with. A version or the epoch tells a reader afterwards whether one did; until
/// then the bytes are not used. ThreadSanitizer is shown atomic words and bytes; all others get a plain memcpy, which
/// is what those compile to but faster.
inline void racy_copy(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
#ifdef ATOLL_TSAN
  std::size_t i = 0;
  if ((reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from)) % sizeof(std::uint64_t) == 0) {
    for (; i + sizeof(std::uint64_t) <= bytes; i += sizeof(std::uint64_t)) {
      const auto word = __atomic_load_n(reinterpret_cast<const std::uint64_t*>(from + i), __ATOMIC_RELAXED);
      __atomic_store_n(reinterpret_cast<std::uint64_t*>(to + i), word, __ATOMIC_RELAXED);
    }
  }
  for (; i < bytes; ++i) {
    const auto byte = __atomic_load_n(reinterpret_cast<const std::uint8_t*>(from + i), __ATOMIC_RELAXED);
    __atomic_store_n(reinterpret_cast<std::uint8_t*>(to + i), byte, __ATOMIC_RELAXED);
  }
#else
  if (bytes != 0) std::memcpy(to, from, bytes);  // an empty span has no address
#endif
}

/// The same around the processor's cache: the place written to is not read first, which is half of the work when it is
/// in no cache. False where it is an ordinary copy. REQUIRES: both are aligned to 64, and so is `bytes`; end_stream
/// comes before anybody is told.
inline bool stream_copy(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
#if defined(__SSE2__) && !defined(ATOLL_TSAN)
  for (std::size_t at = 0; at < bytes; at += 64) {
    const auto* source = reinterpret_cast<const __m128i*>(from + at);
    auto* target = reinterpret_cast<__m128i*>(to + at);
    const __m128i a = _mm_load_si128(source), b = _mm_load_si128(source + 1);
    const __m128i c = _mm_load_si128(source + 2), d = _mm_load_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
  return true;
#else
  racy_copy(to, from, bytes);
  return false;
#endif
}

/// What stream_copy has written is there before what is written from now on.
inline void end_stream() noexcept {
#if defined(__SSE2__) && !defined(ATOLL_TSAN)
  _mm_sfence();
#endif
}

}  // namespace atoll::base
