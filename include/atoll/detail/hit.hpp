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
  const Word word = load_shared(*reinterpret_cast<const Word*>(at));
  T value;
  std::memcpy(static_cast<void*>(&value), &word, sizeof(T));  // void*: T may have constructors, as global_ptr has
  return value;
}

template <typename T>
inline void store_word(std::byte* at, const T& value) noexcept {
  using Word = typename WordOf<sizeof(T)>::type;
  Word word;
  std::memcpy(&word, &value, sizeof(T));
  store_shared(*reinterpret_cast<Word*>(at), word);
}

inline void count_hits(ThreadSlot& slot, std::uint64_t hits) noexcept {
#ifdef ATOLL_TSAN
  __atomic_store_n(&slot.hits, slot.hits + hits, __ATOMIC_RELAXED);
#else
  slot.hits += hits;  // one instruction; who reads it meanwhile gets a guess
#endif
}

/// Inlined hits are counted by a sample: one block of 512 bytes in 64 stands for the others. A counter that every
/// access bumps would cost more than the rest of the access.
inline void sample_hit(ThreadSlot& slot, std::uint64_t address) noexcept {
  constexpr std::uint64_t kBlocks = 64;
  if ((address & (kBlocks - 1) << 9) == 0) [[unlikely]]
    count_hits(slot, kBlocks);
}

/// The line that holds an address, nullptr when no node has such memory.
inline Line* find_line(const LineTable& table, std::uint64_t address) noexcept {
  const std::uint64_t node =
      address >> GlobalAddress::kNodeShift;  // with the kind above it: what is no memory is no node
  const std::uint64_t offset = address & GlobalAddress::kOffsetMask;
  if (node >= table.nodes || offset >= table.bytes[node]) [[unlikely]]
    return nullptr;
  const unsigned larger = load_shared(table.larger[node][offset >> kGrainShift]) & kLargerMask;
  return table.lines[node] + (offset >> table.line_shift >> larger << larger);
}

/// log2 of the bytes of the line that holds an address. REQUIRES: some node has such memory.
inline std::uint32_t line_shift_at(const LineTable& table, std::uint64_t address) noexcept {
  const std::uint64_t offset = address & GlobalAddress::kOffsetMask;
  const std::uint8_t larger = load_shared(table.larger[address >> GlobalAddress::kNodeShift][offset >> kGrainShift]);
  return table.line_shift + (larger & kLargerMask);
}

/// An array of hot words. The compiler is told where it stands but not the number, or it would add that to every index
/// instead of keeping it in a register.
template <std::uint64_t At>
inline const HotWord* hot_words() noexcept {
  const HotWord* words = reinterpret_cast<const HotWord*>(At);
  asm("" : "+r"(words));
  return words;
}

/// The index of an address's hot word, or kNoWord when the access is not aligned or not to any node's memory. One
/// comparison says both: the bits that must be zero are rotated to the top, where they make the number too large.
inline constexpr std::uint64_t kNoWord = ~std::uint64_t{0};
template <std::size_t Bytes>
inline std::uint64_t word_index(std::uint64_t limit, std::uint64_t address) noexcept {
  constexpr int kShift = std::countr_zero(Bytes);
  const std::uint64_t rotated = std::rotr(address, kShift);
  if (rotated >= limit << (3 - kShift)) [[unlikely]]
    return kNoWord;
  return rotated >> (kHotShift - kShift);
}

// ---- reading: no store at all ----
//
// A reader leaves no trace. It loads the line's word, the bytes, and then looks whether it was told meanwhile that some
// line was taken away; if so it reads again by the slow path. The bytes of every line that was ever granted stay mapped
// as long as the node lives, so what is loaded in vain is rubbish at worst, and thrown away.

/// One aligned read of 1, 2, 4 or 8 bytes. False: not a hit, take the slow path.
///
/// How few instructions this is decides the speed of random access: it sets how many misses of the processor's own
/// caches are under way at once.
template <typename T>
inline bool read_hit(std::uint64_t address, T& value) noexcept {
  ThreadSlot& slot = t_slot;
  const std::uint64_t index = word_index<sizeof(T)>(slot.read_limit, address);
  if (index == kNoWord) [[unlikely]]
    return false;
  const std::uint64_t distance = load_shared(hot_words<kHotReadsAt>()[index]);
  if (distance == 0) [[unlikely]]
    return false;
  value = load_word<T>(reinterpret_cast<const std::byte*>(distance + address));
  if (load_shared(slot.told) != 0) [[unlikely]]
    return false;
  sample_hit(slot, address);
  return true;
}

/// Aligned words that lie within 512 bytes, each of them whole, not all of one moment. False: as above.
inline bool read_words_hit(std::uint64_t address, std::byte* into, std::size_t bytes) noexcept {
  ThreadSlot& slot = t_slot;
  const std::uint64_t index = word_index<8>(slot.read_limit, address);
  constexpr std::uint64_t kReach = std::uint64_t{1} << kHotShift;
  if (index == kNoWord || (address & (kReach - 1)) + bytes > kReach) [[unlikely]]
    return false;
  const std::uint64_t distance = load_shared(hot_words<kHotReadsAt>()[index]);
  if (distance == 0) [[unlikely]]
    return false;
  const std::byte* const from = reinterpret_cast<const std::byte*>(distance + address);
#ifdef ATOLL_TSAN
  for (std::size_t i = 0; i < bytes; ++i) into[i] = load_word<std::byte>(from + i);
#else
  std::memcpy(into, from, bytes);
#endif
  __atomic_signal_fence(__ATOMIC_SEQ_CST);  // the processor keeps loads in order, the compiler should
  if (load_shared(slot.told) != 0) [[unlikely]]
    return false;
  sample_hit(slot, address);
  return true;
}

/// Brings up to `kMostNear` bytes nearer to the processor, to read them. False: not all of them are hits, or there are
/// more.
inline constexpr std::uint64_t kMostNear = 4096;
inline constexpr std::uint64_t kNearBytes = 64;  // that the processor brings at once
inline bool bring_near_to_read(std::uint64_t address, std::uint64_t bytes) noexcept {
  const ThreadSlot& slot = t_slot;
  if (bytes == 0 || bytes > kMostNear || word_index<1>(slot.read_limit, address + bytes - 1) == kNoWord) return false;
  const HotWord* const words = hot_words<kHotReadsAt>();
  for (const std::uint64_t end = address + bytes; address < end; address = (address | (kNearBytes - 1)) + 1) {
    const std::uint64_t distance = load_shared(words[address >> kHotShift]);
    if (distance == 0) return false;
    __builtin_prefetch(reinterpret_cast<const std::byte*>(distance + address), 0);
  }
  return true;
}

/// The same to write them. It looks at the records of their lines, as atomics and locks do, and not at the words for
/// writes, which only plain writes need: that would be one more miss for each row of a table.
inline bool bring_near_to_write(const LineTable& table, std::uint64_t address, std::uint64_t bytes) noexcept {
  if (bytes == 0 || bytes > kMostNear || word_index<1>(t_slot.read_limit, address + bytes - 1) == kNoWord) return false;
  for (const std::uint64_t end = address + bytes; address < end;) {
    const Line* const line = find_line(table, address);  // null: the thread was another node's of late
    if (line == nullptr || (line->access.load(std::memory_order_relaxed) & kWritable) == 0) return false;
    __builtin_prefetch(hot_words<kHotReadsAt>() + (address >> kHotShift), 0);
    const std::uint64_t line_end = ((address >> kHotShift) + 1) << kHotShift;  // or a part of it, if it is larger
    for (; address < end && address < line_end; address = (address | (kNearBytes - 1)) + 1) {
      __builtin_prefetch(line->byte_at(GlobalAddress(address)), 1);
    }
  }
  return true;
}

/// What the two above look at, for who is about to call them for several addresses: they would wait for one after the
/// other.
inline void bring_records_near(const LineTable& table, std::uint64_t address, bool to_write) noexcept {
  if (word_index<1>(t_slot.read_limit, address) == kNoWord) return;
  __builtin_prefetch(hot_words<kHotReadsAt>() + (address >> kHotShift), 0);
  if (to_write) __builtin_prefetch(find_line(table, address), 1);
}

/// One element of an array, if it is among those of the line that this thread has read last. `index` is the element's
/// number among all elements of all arrays that ever were (ArrayLayout::origin).
///
/// The memo stands for a line that was readable when it was made, after `told` was reset. As long as the thread was not
/// told since that some line was taken away, it still is. Every slow path forgets it (ThreadRegistry::enter), and so
/// does who resets `told`: what the thread itself has under way is seen as well.
template <typename T>
inline bool read_memo(std::uint64_t index, T& value) noexcept {
  const ThreadSlot& slot = t_slot;
  const std::uint64_t at = index - slot.memo_first;
  if (at >= slot.memo_count) return false;
  value = load_word<T>(slot.memo_bytes + at * sizeof(T));
  return load_shared(slot.told) == 0;
}

/// The words of an array's chunks; see ChunkWord.
struct ChunkWords {
  const HotWord* words = nullptr;
  std::uint64_t size = 0;  // elements; 0: there are no words
  std::uint64_t mask = 0;  // elements of a chunk less one
  unsigned shift = 0;      // log2 of them
};

/// One element of an array whose chunks have words. REQUIRES: i < words.size. Not counted; see make_memo.
template <typename T>
inline bool read_chunk(const ChunkWords& words, std::uint64_t i, T& value) noexcept {
  const std::uint64_t zero = load_shared(words.words[i >> words.shift]);
  if (zero == 0) [[unlikely]]
    return false;
  value = load_word<T>(reinterpret_cast<const std::byte*>(zero + i * sizeof(T)));
  return load_shared(t_slot.told) == 0;
}

/// Does a read of this element go on where the thread left off, forwards or backwards? Then its line is worth a memo.
inline bool goes_on(std::uint64_t index) noexcept {
  ThreadSlot& slot = t_slot;
  const bool on = index + 2 - slot.memo_next <= 2;
  slot.memo_next = index + 1;
  return on;
}

/// Makes the memo, if the line of `address` is readable here: `count` elements from `index` on, at `address` and behind
/// it. REQUIRES: they lie in one line.
inline bool make_memo(std::uint64_t index, std::uint64_t count, std::uint64_t address) noexcept {
  ThreadSlot& slot = t_slot;
  slot.memo_count = 0;
  const std::uint64_t word = word_index<1>(slot.read_limit, address);
  if (word == kNoWord) return false;  // nobody tells this thread anything
  // An exchange: what is loaded after it is no older than what we are told from now on.
  if (load_shared(slot.told) != 0) __atomic_exchange_n(&slot.told, 0, __ATOMIC_SEQ_CST);
  const std::uint64_t distance = load_shared(hot_words<kHotReadsAt>()[word]);
  if (distance == 0) return false;
  slot.memo_first = index;
  slot.memo_count = count;
  slot.memo_bytes = reinterpret_cast<const std::byte*>(distance + address);
  slot.memo_next = index + count;
  count_hits(slot, count);  // those who come for the first element of a chunk stand for all
  return true;
}

/// A read of any size: runs `copy(bytes)`; false when the line is not readable or went away meanwhile.
template <typename Copy>
inline bool read_line(ThreadSlot& slot, const Line& line, GlobalAddress address, Copy&& copy) noexcept {
  // An exchange: what is loaded after it is no older than what we are told from now on.
  if (load_shared(slot.told) != 0) {
    slot.memo_count = 0;
    __atomic_exchange_n(&slot.told, 0, __ATOMIC_SEQ_CST);
  }
  if ((line.access.load(std::memory_order_acquire) & kReadable) == 0) return false;
  ATOLL_POINT();
  if (ATOLL_FAULT(told_reset_late)) slot.told = 0;
  copy(line.byte_at(address));
  ATOLL_POINT();
  std::atomic_thread_fence(std::memory_order_acquire);
  return load_shared(slot.told) == 0 || ATOLL_FAULT(told_not_looked_at);
}

// ---- writing: under a hazard, because what was written cannot be taken back ----

/// Writes a word if its line may be written by the inlined path. REQUIRES: `index` is the address's hot word.
template <typename T>
inline bool write_word(ThreadSlot& slot, std::uint64_t address, std::uint64_t index, const T& value) noexcept {
  enter_hazard(slot, address);
  const std::uint64_t distance = load_shared(hot_words<kHotWritesAt>()[index]);
  if (distance == 0) [[unlikely]] {
    leave_hazard(slot);
    return false;
  }
  store_word(reinterpret_cast<std::byte*>(distance + address), value);
  leave_hazard(slot);
  sample_hit(slot, address);
  return true;
}

/// One aligned write of 1, 2, 4 or 8 bytes. False: not a hit, take the slow path.
template <typename T>
inline bool write_hit(std::uint64_t address, const T& value) noexcept {
  ThreadSlot& slot = t_slot;
  const std::uint64_t index = word_index<sizeof(T)>(slot.write_limit, address);
  if (index == kNoWord) [[unlikely]]
    return false;
  return write_word(slot, address, index, value);
}

/// One element of an array, if it is in the part that this thread has written last. `index` as in read_memo.
///
/// Parts do not move: what is remembered is good as long as the array is. It is there only if the thread's writes are
/// inlined (ThreadRegistry closes it with them), so neither that nor the address is looked at again.
template <typename T>
inline bool write_part(std::uint64_t index, const T& value) noexcept {
  ThreadSlot& slot = t_slot;
  const std::uint64_t at = index - slot.part_first;
  if (at >= slot.part_count) [[unlikely]]
    return false;
  const std::uint64_t address = slot.part_address + at * sizeof(T);
  return write_word(slot, address, address >> kHotShift, value);
}

/// Runs `use(bytes)` under the hazard if the line may be written, fenced or not; false when it may not.
template <typename Use>
inline bool write_line(ThreadSlot& slot, const Line& line, GlobalAddress address, Use&& use) noexcept {
  bool fence = line.fenced.load(std::memory_order_relaxed) && !ATOLL_FAULT(fenced_bit_ignored);
  while (true) {
    if (fence) {
      enter_hazard_fenced(slot, address.bits());
    } else {
      enter_hazard(slot, address.bits());
    }
    const bool granted = (line.access.load(std::memory_order_seq_cst) & kWritable) != 0;
    // The line may have become fenced after we looked; it did so before it was granted again, so we see it now.
    const bool right = fence || !line.fenced.load(std::memory_order_relaxed) || ATOLL_FAULT(fenced_bit_ignored);
    if (ATOLL_FAULT(hazard_cleared_early)) leave_hazard(slot);
    ATOLL_POINT();
    if (granted && right) use(line.byte_at(address));
    leave_hazard(slot);
    if (!granted || right) return granted;
    fence = true;
  }
}

}  // namespace atoll::detail
