// What tables are made of in global memory: root, buckets, rows.
//
//   root ──> slots ──> blocks of buckets ──> rows
//                          └─> overflow buckets ──> rows
//
// There is a block on each node, or, in a table with groups, one for each group, which is made with its first row.
//
// Rows and buckets begin with a lock and a version. The lock names the transaction that holds it; it has nothing to do
// with the lock of the line. The version names the transaction that changed the object last: no two changes have the
// same. Memory of a row stays a row of its bucket for ever: what was read of its version, or locked, is never something
// else. Rows that were erased wait in their bucket for the next that is inserted there.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "atoll/address.hpp"
#include "atoll/txn.hpp"

namespace atoll::txn {

/// The name of a transaction: one attempt of one process of one node, or several of which one commits.
struct Id {
  std::uint64_t word = 0;

  [[nodiscard]] static constexpr Id make(NodeId node, std::uint64_t life, std::uint32_t number) noexcept {
    return {std::uint64_t(node) << 48 | (life & 0xffff) << 32 | number};
  }
  [[nodiscard]] constexpr NodeId node() const noexcept { return NodeId(word >> 48); }
  /// Its lowest bits: two lives whose locks are there at the same time are not 65536 apart.
  [[nodiscard]] constexpr std::uint16_t life() const noexcept { return std::uint16_t(word >> 32); }
  [[nodiscard]] constexpr std::uint32_t number() const noexcept { return std::uint32_t(word); }
  /// An order of all that are less than 2^31 numbers apart. A process whose transactions meet those of another gives
  /// higher numbers than they have from then on (Owners::note): so an old one becomes the oldest.
  [[nodiscard]] constexpr bool is_older_than(Id other) const noexcept {
    if (number() != other.number()) return std::int32_t(number() - other.number()) < 0;
    return node() < other.node();
  }
};

/// Begins a row; the key follows, then the row, each up to a multiple of 8.
struct RowHead {
  std::uint64_t lock = 0;
  std::uint64_t version = 0;
  std::uint64_t is_there = 0;  // 1: it is a row; 0: it was erased
};
static_assert(sizeof(RowHead) == 24);

/// Where a bucket has a row: its address, and above it, where the kind of memory is 0, eight bits of the key's hash.
struct Entry {
  static constexpr std::uint64_t kErased = 1;  // rows are aligned to more than that
  static constexpr unsigned kHashShift = GlobalAddress::kKindShift;
  std::uint64_t word = 0;  // 0: none

  [[nodiscard]] static Entry make(GlobalAddress row, std::uint64_t hash) noexcept {
    return {row.bits() | hash >> kHashShift << kHashShift};
  }
  [[nodiscard]] Entry erased() const noexcept { return {word | kErased}; }
  [[nodiscard]] bool is_erased() const noexcept { return (word & kErased) != 0; }
  /// It may lead to a key of this hash.
  [[nodiscard]] bool fits(std::uint64_t hash) const noexcept {
    return word != 0 && !is_erased() && word >> kHashShift == hash >> kHashShift;
  }
  [[nodiscard]] GlobalAddress address() const noexcept {
    return GlobalAddress(word << (64 - kHashShift) >> (64 - kHashShift) & ~kErased);
  }
};

/// Eight other bits of a key's hash, which are not 0.
[[nodiscard]] constexpr std::uint8_t tag_of(std::uint64_t hash) noexcept {
  const auto tag = std::uint8_t(hash >> (Entry::kHashShift - 8));
  return tag != 0 ? tag : std::uint8_t{1};
}

inline constexpr unsigned kEntries = 53;

/// What a search looks at first of a bucket.
struct BucketHead {
  std::uint64_t lock = 0;
  std::uint64_t version = 0;
  std::uint64_t next = 0;
  std::uint64_t zero = 0;
  std::array<std::uint8_t, 56> tags{};  // of the entries; 0: there is none, nor behind it

  [[nodiscard]] unsigned count() const noexcept {
    unsigned count = 0;
    while (count < kEntries && tags[count] != 0) ++count;
    return count;
  }
};
static_assert(sizeof(BucketHead) == 88);

/// Lock and version of the first bucket of a chain are for all of it: they say which keys are there.
struct Bucket : BucketHead {
  std::array<Entry, kEntries> entries{};
};
static_assert(sizeof(Bucket) == 512);

inline constexpr std::int64_t kVersionAt = 8;  // of rows, buckets, nodes of trees and slots; the lock is at 0
inline constexpr std::int64_t kNextAt = offsetof(BucketHead, next);
[[nodiscard]] constexpr std::int64_t tag_at(std::size_t index) noexcept {
  return std::int64_t(offsetof(BucketHead, tags) + index);
}
[[nodiscard]] constexpr std::int64_t entry_at(std::size_t index) noexcept {
  return std::int64_t(sizeof(BucketHead) + index * sizeof(Entry));
}

/// Leads to a block of buckets, or to the root of a tree. It begins as rows and buckets do, so that a key may be known
/// to be absent because there is no block: what stands for the version is set once.
struct Slot {
  std::uint64_t lock = 0;
  std::uint64_t block = 0;  // its address; 0: it is not made yet
};
static_assert(sizeof(Slot) == 16);

struct StoredField {
  std::array<char, 32> name{};
  std::uint32_t offset = 0;
  std::uint32_t bytes = 0;
  std::uint32_t kind = 0;
  std::uint32_t zero = 0;
};
static_assert(sizeof(StoredField) == 48);

/// A table. `blocks` slots follow.
struct Root {
  static constexpr std::uint64_t kMagic = 0x324c4254'4c4c5441;  // "ATLLTBL2"
  std::uint64_t magic = kMagic;
  std::uint64_t buckets = 0;  // of a block: a power of two
  std::uint64_t seed = 0;
  std::uint32_t blocks = 0;
  std::uint32_t key_bytes = 0;
  std::uint32_t row_bytes = 0;
  std::uint32_t fields = 0;
  std::uint32_t is_ordered = 0;       // 1: there is one block, which is the root of a tree (tree.hpp)
  std::uint32_t group_bytes = 0;      // how a key begins says which block it is in; 0: its hash does
  std::uint32_t neighbour_bytes = 0;  // the same of the bucket
  std::uint32_t zero = 0;
  std::array<StoredField, kMaxFields> field{};
};

[[nodiscard]] constexpr std::uint64_t padded(std::uint64_t bytes) noexcept {
  return (bytes + 7) & ~std::uint64_t{7};
}

}  // namespace atoll::txn
