// How the FaRM-like engine keeps rows: hash tables whose buckets have the rows in them, so that a row is looked up with
// one one-sided read of its home's memory, and mostly no more.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/racy_copy.hpp"

namespace atoll::bench::tpcc {

constexpr std::uint32_t kFarmLine = 64;

/// Of a bucket: what readers look at before and after, keys, rows. The buckets of a hash value that has more rows are
/// chained; the first one's word is for all of them. A row stands in the one slot of a bucket that its key says.
///
/// A bucket of small rows has eight slots, for rows whose keys differ in their last three bits alone: such are often
/// inserted or read together. One of larger rows has one slot, and such keys have buckets that follow each other.
/// (Then a lock, which is of a bucket, is of one row mostly; and small rows are those that one district's or one
/// thread's transactions insert, which exclude each other anyway.)
struct FarmShape {
  std::uint32_t key_bytes = 0, row_bytes = 0;
  std::uint32_t slots = 0;
  std::uint32_t rows_at = 0, row_stride = 0;  // in a bucket
  std::uint32_t stride = 0;                   // of buckets

  static constexpr std::uint32_t kKeysAt = 16;
  static constexpr std::uint32_t kManySlots = 8;
  static constexpr std::uint32_t kLargestOfMany = 80;

  [[nodiscard]] static constexpr FarmShape of(std::uint32_t key_bytes, std::uint32_t row_bytes) noexcept {
    FarmShape shape{key_bytes, row_bytes, 1, 0, row_bytes < 8 ? row_bytes : round_up(row_bytes, 8u), 0};
    if (key_bytes + shape.row_stride <= kLargestOfMany) shape.slots = kManySlots;
    shape.rows_at = round_up(kKeysAt + shape.slots * key_bytes, 8u);
    shape.stride = round_up(shape.rows_at + shape.slots * shape.row_stride, kFarmLine);
    return shape;
  }
  template <typename T>
  [[nodiscard]] static constexpr T round_up(T value, T unit) noexcept {
    return (value + unit - 1) / unit * unit;
  }
};

/// What a bucket begins with. All zeros is an empty one.
struct FarmBucket {
  std::atomic<std::uint64_t> word{0};  // bit 0: locked; the rest is the version, which each change makes higher
  std::atomic<std::uint32_t> next{0};  // of the chain, in lines from the beginning of the home's memory; 0: none
  std::atomic<std::uint32_t> used{0};  // slots, bit by bit

  static constexpr std::uint64_t kLocked = 1;

  [[nodiscard]] static FarmBucket& at(std::byte* bytes) noexcept { return *reinterpret_cast<FarmBucket*>(bytes); }
  [[nodiscard]] std::byte* bytes() noexcept { return reinterpret_cast<std::byte*>(this); }
  [[nodiscard]] bool is_used(std::uint32_t slot) const noexcept {
    return (used.load(std::memory_order_relaxed) >> slot & 1) != 0;
  }
  [[nodiscard]] std::byte* key(const FarmShape& shape, std::uint32_t slot) noexcept {
    return bytes() + FarmShape::kKeysAt + slot * shape.key_bytes;
  }
  [[nodiscard]] std::byte* row(const FarmShape& shape, std::uint32_t slot) noexcept {
    return bytes() + shape.rows_at + slot * shape.row_stride;
  }
  /// The next one of the chain, in the memory of its home.
  [[nodiscard]] FarmBucket* following(std::byte* memory) const noexcept {
    const std::uint32_t line = next.load(std::memory_order_acquire);
    return line == 0 ? nullptr : &at(memory + std::uint64_t{line} * kFarmLine);
  }
};
static_assert(sizeof(FarmBucket) == FarmShape::kKeysAt);

/// Where a key belongs.
struct FarmPlace {
  std::byte* memory = nullptr;   // of its home
  FarmBucket* bucket = nullptr;  // the first of its chain
  std::uint16_t home = 0;
  std::uint16_t table = 0;
  std::uint32_t slot = 0;
};

/// The bucket of the chain that has the key, or null. What it looks at may change meanwhile: the word of the first
/// bucket tells.
template <typename Key>
[[nodiscard]] FarmBucket* farm_find(const FarmPlace& place, const FarmShape& shape, const Key& key) noexcept {
  for (FarmBucket* bucket = place.bucket; bucket != nullptr; bucket = bucket->following(place.memory)) {
    if (!bucket->is_used(place.slot)) continue;
    Key found;
    base::racy_copy(reinterpret_cast<std::byte*>(&found), bucket->key(shape, place.slot), sizeof(Key));
    if (std::memcmp(&found, &key, sizeof(Key)) == 0) return bucket;
  }
  return nullptr;
}

namespace detail {

[[nodiscard]] inline std::uint64_t farm_mix(std::uint64_t a, std::uint64_t b) noexcept {
  const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  return std::uint64_t(product) ^ std::uint64_t(product >> 64);
}
[[nodiscard]] inline std::uint64_t farm_hash(const void* bytes, std::size_t count) noexcept {
  std::uint64_t hash = 0x9e3779b97f4a7c15;
  for (std::size_t at = 0; at < count; at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, static_cast<const std::byte*>(bytes) + at, std::min(count - at, sizeof(word)));
    hash = farm_mix(hash ^ word, 0xd6e8feb86659fd93);
  }
  return farm_mix(hash, 0xa0761d6478bd642f);
}
[[nodiscard]] inline std::uint32_t farm_number(const void* bytes) noexcept {
  std::uint32_t number = 0;
  std::memcpy(&number, bytes, sizeof(number));
  return __builtin_bswap32(number);
}

}  // namespace detail

/// The bucket and the slot of a key, whose last four bytes are taken for a number (Number), of `buckets`.
///
/// With many slots to a bucket, rows that are numbered on stand side by side: those of an order, and one order after
/// the other, so that what is inserted touches no more memory than it fills. Where such a row of rows begins is a hash
/// of what the number is of.
template <std::uint32_t kRowBytes, typename Key>
[[nodiscard]] std::pair<std::uint64_t, std::uint32_t> farm_place(const Key& key, std::uint64_t buckets) noexcept {
  const auto scale = [&](std::uint64_t hash) {
    return std::uint64_t((static_cast<unsigned __int128>(hash) * buckets) >> 64);
  };
  const auto* const bytes = reinterpret_cast<const std::byte*>(&key);
  constexpr std::size_t kNumber = sizeof(std::uint32_t), kLast = sizeof(Key) - kNumber;
  const std::uint32_t last = detail::farm_number(bytes + kLast);
  std::uint64_t bucket = 0;
  std::uint32_t slot = 0;
  if constexpr (FarmShape::of(sizeof(Key), kRowBytes).slots == 1) {
    Key group = key;
    reinterpret_cast<std::uint8_t*>(&group)[sizeof(Key) - 1] &= std::uint8_t(~(FarmShape::kManySlots - 1));
    bucket = scale(detail::farm_hash(&group, sizeof(Key))) + last % FarmShape::kManySlots;
  } else {
    constexpr bool kIsLine = sizeof(Key) == 4 * kNumber;  // of an order, which has up to fifteen
    bucket = scale(detail::farm_hash(bytes, kIsLine ? kLast - kNumber : kLast)) + last / FarmShape::kManySlots;
    if constexpr (kIsLine) bucket += 2 * std::uint64_t{detail::farm_number(bytes + kLast - kNumber)};
    slot = last % FarmShape::kManySlots;
  }
  if (bucket >= buckets) [[unlikely]]
    bucket %= buckets;
  return {bucket, slot};
}

}  // namespace atoll::bench::tpcc
