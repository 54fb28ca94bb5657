// Copies of more than a word into and out of a line, each atomic against the other.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "atoll/detail/hit.hpp"
#include "base/racy_copy.hpp"
#include "coherence/line_version.hpp"
#include "wire/message.hpp"

namespace atoll::runtime {

/// One aligned word is atomic by itself and needs no version.
[[nodiscard]] inline bool is_one_word(std::uint64_t address, std::size_t bytes) noexcept {
  return (bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8) && address % bytes == 0;
}

/// One word in one piece. The line's side is aligned; the caller's need not be.
template <typename Word>
inline void copy_as(std::byte* to, const std::byte* from) noexcept {
  const auto is_aligned = [](const std::byte* at) { return reinterpret_cast<std::uintptr_t>(at) % sizeof(Word) == 0; };
  Word word;
  if (is_aligned(from)) {
    word = detail::load_shared(*reinterpret_cast<const Word*>(from));
  } else {
    std::memcpy(&word, from, sizeof(word));
  }
  if (is_aligned(to)) {
    detail::store_shared(*reinterpret_cast<Word*>(to), word);
  } else {
    std::memcpy(to, &word, sizeof(word));
  }
}
inline void copy_word(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  switch (bytes) {
    case 1: copy_as<std::uint8_t>(to, from); break;
    case 2: copy_as<std::uint16_t>(to, from); break;
    case 4: copy_as<std::uint32_t>(to, from); break;
    default: copy_as<std::uint64_t>(to, from); break;
  }
}

/// More than a word: not in one piece.
inline void copy_bytes(std::byte* into, const std::byte* from, std::size_t bytes) noexcept {
#ifdef ATOLL_LAB
  base::racy_copy(into, from, bytes / 2);
  ATOLL_POINT();
  base::racy_copy(into + bytes / 2, from + bytes / 2, bytes - bytes / 2);
#else
  base::racy_copy(into, from, bytes);
#endif
}

/// From the line to the caller. False: somebody wrote it meanwhile, or its bytes are not here (any more).
[[nodiscard]] inline bool copy_out(const detail::Line& line, const std::byte* from, std::byte* into,
                                   std::size_t bytes) noexcept {
  const std::uint32_t before = line.version.load(std::memory_order_acquire);
  if (!coherence::is_whole(before) && !ATOLL_FAULT(version_not_compared)) return false;
  copy_bytes(into, from, bytes);
  std::atomic_thread_fence(std::memory_order_acquire);
  return line.version.load(std::memory_order_relaxed) == before || ATOLL_FAULT(version_not_compared);
}

inline void copy_in(detail::Line& line, std::byte* into, const std::byte* from, std::size_t bytes) noexcept {
  if (!ATOLL_FAULT(version_not_taken)) coherence::begin_write(line);
  copy_bytes(into, from, bytes);
  if (!ATOLL_FAULT(version_not_taken)) coherence::end_write(line);
}

/// From the caller to the line, as one access.
inline void write_bytes(detail::Line& line, std::byte* into, const std::byte* from, GlobalAddress address,
                        std::size_t bytes) noexcept {
  if (is_one_word(address.bits(), bytes)) {
    copy_word(into, from, bytes);
  } else {
    copy_in(line, into, from, bytes);
  }
}

/// The second half of a guarded write, whose guard is the complement of what was expected meanwhile.
inline void finish_guarded(std::uint64_t& guard, std::byte* into, const wire::GuardedWrite& write,
                           std::size_t bytes) noexcept {
  std::atomic_thread_fence(std::memory_order_release);
  copy_bytes(into, write.bytes.data(), bytes);
  std::atomic_thread_fence(std::memory_order_release);
  detail::store_shared(guard, write.desired);
}

/// If the word `guard` is as expected, it becomes as desired and `bytes` are written. In between it is the complement
/// of what was expected: who reads without a look at the version sees by it that what it read may be of two moments,
/// and who compares and exchanges the guard meanwhile finds that, or was first. REQUIRES: nobody else writes the bytes.
inline bool write_if(detail::Line& line, std::byte* guard, std::byte* into, const wire::GuardedWrite& write,
                     std::size_t bytes) noexcept {
  auto& word = *reinterpret_cast<std::uint64_t*>(guard);
  std::uint64_t found = detail::load_shared(word);
  if (found != write.expected && !ATOLL_FAULT(guard_not_compared)) return false;
  coherence::begin_write(line);
  if (!__atomic_compare_exchange_n(&word, &found, ~write.expected, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
    coherence::end_write(line);
    return false;
  }
  finish_guarded(word, into, write, bytes);
  coherence::end_write(line);
  return true;
}

}  // namespace atoll::runtime
