// The hit path: an access that finds its line here. See DESIGN in docs/architecture.md, "The hit path".
#pragma once

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
  std::memcpy(&value, &word, sizeof(T));
  return value;
}

template <typename T>
inline void store_word(std::byte* at, const T& value) noexcept {
  using Word = typename WordOf<sizeof(T)>::type;
  Word word;
  std::memcpy(&word, &value, sizeof(T));
  __atomic_store_n(reinterpret_cast<Word*>(at), word, __ATOMIC_RELEASE);
}

/// The line that holds `address`, or nullptr when no node has such memory. `base` and `bytes` of the line.
struct Found {
  Line* line = nullptr;
  std::uint64_t base = 0;
  std::uint64_t bytes = 0;
};
inline Found find_line(const LineTable& table, std::uint64_t address) noexcept {
  const std::uint64_t node = address >> GlobalAddress::kNodeShift;
  if (node >= table.nodes) [[unlikely]] return {};
  const Home& home = table.homes[node];
  // The kind bits stand above the offset: an address that is not memory is beyond every home's bytes.
  const std::uint64_t offset = address & ((std::uint64_t{1} << GlobalAddress::kNodeShift) - 1);
  if (offset >= home.bytes) [[unlikely]] return {};
  const Slab& slab = home.slabs[offset >> kSlabShift];
  const std::uint64_t within = offset & ((std::uint64_t{1} << kSlabShift) - 1);
  const std::uint64_t bytes = std::uint64_t{1} << slab.line_shift;
  return {slab.lines + (within >> slab.line_shift), address & ~(bytes - 1), bytes};
}

inline void count_hit(ThreadSlot& slot) noexcept {
  slot.hits.store(slot.hits.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

/// Runs `use(data)` under the hazard if the line grants `need`; false when it does not.
template <std::uint8_t Need, typename Use>
inline bool use_line(ThreadSlot& slot, Line* line, std::uint64_t at, Use&& use) noexcept {
  enter_hazard(slot, line);
  const std::uint8_t access = load_access(line);
  if ((access & (Need | kFenced)) == Need) [[likely]] {
    use(line->data + at);
    leave_hazard(slot);
    count_hit(slot);
    return true;
  }
  if ((access & (Need | kFenced)) == (Need | kFenced)) {
    enter_hazard_fenced(slot, line);
    if ((load_access(line) & Need) != 0) {
      use(line->data + at);
      leave_hazard(slot);
      count_hit(slot);
      return true;
    }
  }
  leave_hazard(slot);
  return false;
}

/// The walk through the table for a line other than the last one; leaves it in the memo.
/// REQUIRES: the thread is registered with `owner`.
template <std::uint8_t Need, std::size_t Bytes, typename Use>
inline bool hit_by_table(const LineTable& table, ThreadSlot& slot, std::uint64_t address, Use&& use) noexcept {
  const Found found = find_line(table, address);
  if (found.line == nullptr) [[unlikely]] return false;
  if (!use_line<Need>(slot, found.line, address - found.base, use)) return false;
  slot.line.store(found.line, std::memory_order_relaxed);
  slot.base = found.base;
  slot.bytes = found.bytes;
  if (found.line->referenced.load(std::memory_order_relaxed) == 0) {
    found.line->referenced.store(1, std::memory_order_relaxed);
  }
  return true;
}

/// One aligned access of 1, 2, 4 or 8 bytes. False: not a hit, take the slow path.
template <std::uint8_t Need, std::size_t Bytes, typename Use>
inline bool hit(const LineTable& table, const void* owner, std::uint64_t address, Use&& use) noexcept {
  ThreadSlot& slot = t_slot;
  if (slot.owner != owner || (address & (Bytes - 1)) != 0) [[unlikely]] return false;
  const std::uint64_t at = address - slot.base;
  if (at < slot.bytes) [[likely]] return use_line<Need>(slot, slot.line.load(std::memory_order_relaxed), at, use);
  return hit_by_table<Need, Bytes>(table, slot, address, use);
}

}  // namespace atoll::detail
