// The hit path: an access that finds its line here. See DESIGN in docs/architecture.md, "The hit path".
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "atoll/detail/line.hpp"

namespace atoll::detail {

/// Sizes that the processor reads and writes in one piece when aligned.
template <typename T>
inline constexpr bool is_word = std::is_trivially_copyable_v<T> &&
                                (sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8);

template <std::size_t Bytes>
struct WordOf;
template <>
struct WordOf<1> {
  using type = std::uint8_t;
};
template <>
struct WordOf<2> {
  using type = std::uint16_t;
};
template <>
struct WordOf<4> {
  using type = std::uint32_t;
};
template <>
struct WordOf<8> {
  using type = std::uint64_t;
};

template <typename T>
inline T load_word(const std::byte* at) noexcept {
  using Word = typename WordOf<sizeof(T)>::type;
  const Word word = __atomic_load_n(reinterpret_cast<const Word*>(at), __ATOMIC_RELAXED);
  T value;
  std::memcpy(static_cast<void*>(&value), &word, sizeof(T));  // void*: T may have constructors, as global_ptr has
  return value;
}

template <typename T>
inline void store_word(std::byte* at, const T& value) noexcept {
  using Word = typename WordOf<sizeof(T)>::type;
  Word word;
  std::memcpy(&word, &value, sizeof(T));
  __atomic_store_n(reinterpret_cast<Word*>(at), word, __ATOMIC_RELEASE);
}

inline void count_hit(ThreadSlot& slot) noexcept {
#ifdef ATOLL_TSAN
  __atomic_store_n(&slot.hits, slot.hits + 1, __ATOMIC_RELAXED);
#else
  slot.hits += 1;  // one instruction; who reads it meanwhile gets a guess
#endif
}

/// The line that holds an address; `word` is nullptr when no node has such memory.
struct Found {
  HotWord* word = nullptr;
  Line* line = nullptr;
  std::uint64_t base = 0;  // address of the line's first byte
};
inline Found find_line(const LineTable& table, std::uint64_t address) noexcept {
  // The kind bits stand above the offset: an address that is not memory is beyond every home's end.
  const Home& home = table.homes[address >> GlobalAddress::kNodeShift];
  if (address >= home.end) [[unlikely]]
    return {};
  return {home.word_of(address), home.line_of(address), address & ~table.line_mask};
}

/// Runs `use(bytes)` under the hazard if the line grants `Need` plainly; false when it does not.
template <std::uint8_t Need, typename Use>
inline bool use_plain_line(ThreadSlot& slot, const HotWord* line, std::uint64_t address, Use&& use) noexcept {
  enter_hazard(slot, line);
  const std::uint64_t word = line->load();
  const bool granted = (word & Need) != 0;
  if (granted) [[likely]]
    use(HotWord::byte_at(word, address));
  leave_hazard(slot);
  return granted;
}

/// The same for fenced lines too. Not for the inlined path: they are rare, and it is better short.
template <std::uint8_t Need, typename Use>
inline bool use_line(ThreadSlot& slot, const HotWord* line, std::uint64_t address, Use&& use) noexcept {
  if (use_plain_line<Need>(slot, line, address, use)) return true;
  if (!line->fenced()) return false;
  enter_hazard_fenced(slot, line);
  const std::uint64_t word = line->load();
  const bool granted = (HotWord::access_of(word) & Need) != 0;
  if (granted) use(HotWord::byte_at(word, address));
  leave_hazard(slot);
  return granted;
}

/// The next plain access of this thread to the line needs no walk.
inline void remember_line(ThreadSlot& slot, const HotWord* line, std::uint64_t base) noexcept {
  slot.word.store(line, std::memory_order_relaxed);
  slot.base.store(base, std::memory_order_relaxed);
}

/// The walk through the table for a line other than the last one.
///
/// How few instructions this is decides the speed of random access: it sets how many misses of the processor's own
/// caches are under way at once.
template <std::uint8_t Need, std::size_t Bytes, typename Use>
inline bool hit_by_table(ThreadSlot& slot, std::uint64_t base, std::uint64_t address, Use&& use) noexcept {
  const std::uint64_t guard = slot.guard.load(std::memory_order_relaxed) >> std::countr_zero(8 / Bytes);
  const Home& home = g_homes[address >> GlobalAddress::kNodeShift];
  if (address >= home.end || (address & guard) != 0) [[unlikely]]
    return false;
  const HotWord* line = home.word_of(address);
  if (!use_plain_line<Need>(slot, line, address, use)) [[unlikely]]
    return false;
  // Hits are counted when a thread turns to another line, not at every access: a counter in memory is a chain of
  // store-to-load forwardings, several times as long as the access itself.
  count_hit(slot);
  remember_line(slot, line, base);
  return true;
}

/// One aligned access of 1, 2, 4 or 8 bytes. False: not a hit, take the slow path.
template <std::uint8_t Need, std::size_t Bytes, typename Use>
inline bool hit(std::uint64_t address, Use&& use) noexcept {
  ThreadSlot& slot = t_slot;
  // One comparison for "within the line" and "aligned": the key keeps the low bits that must be zero.
  const std::uint64_t key = Bytes == 8 ? slot.key : (slot.key & ~std::uint64_t{7}) | (Bytes - 1);
  const std::uint64_t base = address & key;
  if (base == slot.base.load(std::memory_order_relaxed)) [[likely]] {
    return use_plain_line<Need>(slot, slot.word.load(std::memory_order_relaxed), address, use);
  }
  return hit_by_table<Need, Bytes>(slot, base, address, use);
}

}  // namespace atoll::detail
