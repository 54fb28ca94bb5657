// What tables are made of in global memory: root, buckets, rows.
//
//   root ──> blocks of buckets (one on each node) ──> rows
//                                 └─> overflow buckets ──> rows
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

/// The name of a transaction: one attempt of one process of one node.
struct Id {
  std::uint64_t word = 0;

  [[nodiscard]] static constexpr Id make(NodeId node, std::uint64_t life, std::uint32_t number) noexcept {
    return {std::uint64_t(node) << 48 | (life & 0xffff) << 32 | number};
  }
  [[nodiscard]] constexpr NodeId node() const noexcept { return NodeId(word >> 48); }
  /// Its lowest bits: two lives whose locks are there at the same time are not 65536 apart.
  [[nodiscard]] constexpr std::uint16_t life() const noexcept { return std::uint16_t(word >> 32); }
};

/// Begins a row; the key follows, then the row, each up to a multiple of 8.
struct RowHead {
  std::uint64_t lock = 0;
  std::uint64_t version = 0;
  std::uint64_t is_there = 0;  // 1: it is a row; 0: it was erased
};
static_assert(sizeof(RowHead) == 24);

/// Where a bucket has a row.
struct Entry {
  static constexpr std::uint64_t kErased = 1;  // rows are aligned to more than that
  std::uint64_t row = 0;                       // 0: none, nor in the entries that follow
  std::uint64_t hash = 0;

  [[nodiscard]] bool is_empty() const noexcept { return row == 0; }
  [[nodiscard]] bool is_erased() const noexcept { return (row & kErased) != 0; }
  [[nodiscard]] GlobalAddress address() const noexcept { return GlobalAddress(row & ~kErased); }
};

inline constexpr unsigned kEntries = 30;

/// Lock and version of the first bucket of a chain are for all of it: they say which keys are there.
struct Bucket {
  std::uint64_t lock = 0;
  std::uint64_t version = 0;
  std::uint64_t next = 0;
  std::uint64_t zero = 0;
  std::array<Entry, kEntries> entries{};
};
static_assert(sizeof(Bucket) == 512);

inline constexpr std::int64_t kVersionAt = 8;  // of rows and buckets; the lock is at 0
inline constexpr std::int64_t kNextAt = 16;

struct StoredField {
  std::array<char, 32> name{};
  std::uint32_t offset = 0;
  std::uint32_t bytes = 0;
  std::uint32_t kind = 0;
  std::uint32_t zero = 0;
};
static_assert(sizeof(StoredField) == 48);

/// A table. The addresses of `blocks` blocks of buckets follow: bucket b is in block b % blocks.
struct Root {
  static constexpr std::uint64_t kMagic = 0x314c4254'4c4c5441;  // "ATLLTBL1"
  std::uint64_t magic = kMagic;
  std::uint64_t buckets = 0;
  std::uint64_t seed = 0;
  std::uint32_t blocks = 0;
  std::uint32_t key_bytes = 0;
  std::uint32_t row_bytes = 0;
  std::uint32_t fields = 0;
  std::uint64_t is_ordered = 0;  // 1: there is one block, which is the root of a tree (tree.hpp)
  std::array<StoredField, kMaxFields> field{};
};

[[nodiscard]] constexpr std::uint64_t padded(std::uint64_t bytes) noexcept {
  return (bytes + 7) & ~std::uint64_t{7};
}

}  // namespace atoll::txn
