// What a hash map is made of in global memory: root, block tables, buckets, pairs.
//
//   root ──> block tables (one for each doubling) ──> blocks of 8 buckets ──> pairs
//                                                        └─> overflow buckets ──> pairs
//
// A bucket is 512 bytes:
//
//   0    8         16        48                                             512
//   | head | overflow | 29 tags | 29 entries of 16 bytes: address, hash and size |
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
inline constexpr unsigned kEntries = 29;
inline constexpr unsigned kBlockBuckets = 8;

[[nodiscard]] constexpr std::uint64_t low_bits(std::uint64_t value, unsigned bits) noexcept {
  return value & ((std::uint64_t{1} << bits) - 1);
}

/// A key and its hash.
struct Key {
  std::string_view bytes;
  std::uint64_t hash = 0;

  /// Never 0, which is the tag of no entry.
  [[nodiscard]] std::uint8_t tag() const noexcept { return std::uint8_t(hash >> 56 == 0 ? 1 : hash >> 56); }
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
  [[nodiscard]] bool may_be(const Key& key) const noexcept {
    return address != 0 && hash() == low_bits(key.hash, kHashBits);
  }
};

/// The part of a bucket that a search looks at first.
struct Front {
  Head head;
  std::uint64_t overflow = 0;           // the address of the next bucket of the chain, or 0
  std::array<std::uint8_t, 32> tags{};  // of the entries; 0: free. The last three are not used
};

struct Bucket {
  Front front;
  std::array<Entry, kEntries> entries{};
};

static_assert(sizeof(Front) == 48 && sizeof(Bucket) == 512);
inline constexpr std::size_t kBucketBytes = sizeof(Bucket);
inline constexpr std::size_t kOverflowAt = offsetof(Front, overflow);
inline constexpr std::size_t kTagsAt = offsetof(Front, tags);
[[nodiscard]] constexpr std::int64_t entry_at(unsigned index) noexcept {
  return std::int64_t(sizeof(Front) + index * sizeof(Entry));
}

/// The entries whose tag is this one, a bit for each.
[[nodiscard]] inline std::uint32_t match(const std::array<std::uint8_t, 32>& tags, std::uint8_t tag) noexcept {
  std::uint32_t found = 0;
  for (unsigned i = 0; i < 32; ++i) found |= std::uint32_t(tags[i] == tag) << i;
  return std::uint32_t(low_bits(found, kEntries));
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
