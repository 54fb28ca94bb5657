// What a hash map is made of in global memory: root, block tables, buckets, pairs.
//
//   root ──> block tables (one for each doubling) ──> blocks of 8 buckets ──> pairs
//                                                        └─> overflow buckets ──> pairs
//
// A bucket is 512 bytes:
//
//   0      8          16                                                 512
//   | head | overflow | 31 entries of 16 bytes: address, hash and size |
//
// and eight groups of 64 bytes, which a processor reads in one piece. An entry is in the group that its hash names, if
// that had room: then a search touches the head and one group.
//
// A pair is the key's length (16 bits), the key, the value, wherever it was written.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "atoll/address.hpp"
#include "atoll/hash_map.hpp"

namespace atoll::hash {

inline constexpr unsigned kHashBits = 43;  // of the key's hash that entries keep: enough for any level
inline constexpr unsigned kMaxLevel = 40;
inline constexpr unsigned kSizeBits = 64 - kHashBits;
inline constexpr unsigned kEntries = 31;
inline constexpr unsigned kBlockBuckets = 8;
inline constexpr unsigned kGroups = 8;
inline constexpr unsigned kGroupBits = 3;  // the highest of the hash that entries keep
static_assert(kMaxLevel + kGroupBits <= kHashBits);

[[nodiscard]] constexpr std::uint64_t low_bits(std::uint64_t value, unsigned bits) noexcept {
  return value & ((std::uint64_t{1} << bits) - 1);
}

/// A key and its hash.
struct Key {
  std::string_view bytes;
  std::uint64_t hash = 0;
};

/// The first word of a bucket: how often it has changed, whether it is being changed, its level.
///
/// A bucket of level L has the pairs whose hashes agree with its number in the L lowest bits. 0: there is no such
/// bucket yet.
struct Head {
  std::uint64_t word = 0;

  [[nodiscard]] unsigned level() const noexcept { return unsigned(word & 0x7f); }
  [[nodiscard]] bool is_changing() const noexcept { return (word & 0x80) != 0; }
  [[nodiscard]] Head changing() const noexcept { return {word | 0x80}; }
  [[nodiscard]] Head changed(unsigned level) const noexcept { return {((word >> 8) + 1) << 8 | level}; }
  /// Is the bucket of this number the one for keys of this hash?
  [[nodiscard]] bool covers(std::uint64_t number, std::uint64_t hash) const noexcept {
    return low_bits(hash, level()) == number;
  }
};

struct Entry {
  std::uint64_t address = 0;  // of the pair; 0: no entry
  std::uint64_t about = 0;    // kHashBits of the hash, kSizeBits of the pair's size

  static Entry make(GlobalAddress address, std::uint64_t hash, std::size_t bytes) noexcept {
    return {address.bits(), hash << kSizeBits | bytes};
  }
  [[nodiscard]] std::uint64_t hash() const noexcept { return about >> kSizeBits; }
  [[nodiscard]] std::size_t bytes() const noexcept { return std::size_t(low_bits(about, kSizeBits)); }
};

/// 64 bytes of a bucket as entries. The first of group 0 is none: head and overflow are there.
using Group = std::array<Entry, 4>;

struct Bucket {
  Head head;
  std::uint64_t overflow = 0;  // the address of the next bucket of the chain, or 0
  std::array<Entry, kEntries> entries{};

  /// The entries that may be the hash's, a bit for each.
  [[nodiscard]] std::uint32_t match(std::uint64_t hash) const noexcept {
    std::uint32_t found = 0;
    for (unsigned i = 0; i < kEntries; ++i) found |= std::uint32_t(entries[i].hash() == low_bits(hash, kHashBits)) << i;
    return found;
  }
  /// An entry that is not used, in the hash's group if there is one, or kEntries.
  [[nodiscard]] unsigned free_for(std::uint64_t hash) const noexcept;
};

static_assert(sizeof(Bucket) == kGroups * sizeof(Group));
inline constexpr std::size_t kBucketBytes = sizeof(Bucket);
inline constexpr std::size_t kOverflowAt = offsetof(Bucket, overflow);
[[nodiscard]] constexpr std::int64_t entry_at(unsigned index) noexcept {
  return std::int64_t(offsetof(Bucket, entries) + index * sizeof(Entry));
}
[[nodiscard]] constexpr unsigned group_of(std::uint64_t hash) noexcept {
  return unsigned(hash >> (kHashBits - kGroupBits) & (kGroups - 1));
}
/// The number of a group's first entry in the bucket. (Group 0's is -1: it has none there.)
[[nodiscard]] constexpr int first_of(unsigned group) noexcept {
  return int(group * 4) - 1;
}

inline unsigned Bucket::free_for(std::uint64_t hash) const noexcept {
  const int first = first_of(group_of(hash));
  for (int i = first < 0 ? 0 : first; i < first + 4; ++i) {
    if (entries[unsigned(i)].address == 0) return unsigned(i);
  }
  unsigned any = 0;
  while (any < kEntries && entries[any].address != 0) ++any;
  return any;
}

inline constexpr std::size_t kPairHeadBytes = 2;
inline constexpr std::size_t kMaxPairBytes = kPairHeadBytes + HashMap::kMaxKeyBytes + HashMap::kMaxValueBytes;
static_assert(kMaxPairBytes < std::size_t(1) << kSizeBits);

/// A pair's bytes, taken apart; empty when they make no sense, as memory that was reused under a reader may.
struct Pair {
  std::string_view key;
  std::string_view value;

  static Pair parse(std::string_view bytes) noexcept {
    std::uint16_t key_bytes = 0;
    if (bytes.size() < kPairHeadBytes) return {};
    std::memcpy(&key_bytes, bytes.data(), sizeof(key_bytes));
    if (key_bytes > bytes.size() - kPairHeadBytes) return {};
    return {bytes.substr(kPairHeadBytes, key_bytes), bytes.substr(kPairHeadBytes + key_bytes)};
  }
};

/// The map itself, at HashMap::address(). What never changes first, so that nodes keep it.
struct Root {
  static constexpr std::uint64_t kMagic = 0x70616d6c6c6f7461;  // "atollmap"
  std::uint64_t magic = kMagic;
  std::uint64_t seed = 0;
  std::uint32_t first_level = 0;  // it began with 2^this buckets
  std::uint32_t max_level = 0;
  std::uint64_t counts = 0;  // the address of a count for each node, a line apart: what it has put less what it erased
  /// Block tables: [0] of the buckets that the map began with, [L] of those that buckets of level L are split off to.
  std::array<std::uint64_t, kMaxLevel + 1> tables{};
};
static_assert(sizeof(Root) == 32 + 8 * (kMaxLevel + 1));

}  // namespace atoll::hash
