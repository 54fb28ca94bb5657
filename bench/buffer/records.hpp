// Records by key in the pages of a file, and a tree over them: what LMDB is compared with.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "atoll/buffer_pool.hpp"
#include "bench/buffer/pages.hpp"

namespace atoll::bench {

/// Keys of 8 bytes and values of 100, sorted, packed into leaves: the first pages of the file. Behind them come nodes
/// of a tree, each a sorted array of keys and children, level by level: the last page is the root. Read only, once
/// made.
///
/// Thread-safety: any thread, after `make`.
class RecordFile {
 public:
  static constexpr std::uint64_t kValueBytes = 100;
  using Value = std::array<std::byte, kValueBytes>;

  /// As many records as such a number of leaves holds.
  explicit RecordFile(std::uint64_t leaves);

  [[nodiscard]] std::uint64_t records() const noexcept { return leaves_ * kPerLeaf; }
  [[nodiscard]] std::uint64_t pages() const noexcept { return pages_; }
  /// Of record i: not its number, so that a tree has something to find; but of one order with it.
  [[nodiscard]] static std::uint64_t key_of(std::uint64_t record) noexcept { return 2 * record + 1; }
  [[nodiscard]] static Value value_of(std::uint64_t key) noexcept;

  /// Writes the file; none of it stays in the system's page cache. Throws Error.
  void make(const std::string& path) const;

  /// The record's page follows from its key: one page is read. False: there is no such key. Throws Error.
  bool get(BufferPool& pool, std::uint64_t key, Value& into) const;
  /// From the root to the leaf, each page searched by halves. The same.
  bool find(BufferPool& pool, std::uint64_t key, Value& into) const;

 private:
  struct Entry {
    std::uint64_t first_key;  // of all below it
    std::uint64_t child;
  };
  static constexpr std::uint64_t kRecordBytes = sizeof(std::uint64_t) + kValueBytes;
  static constexpr std::uint64_t kPerLeaf = kPageBytes / kRecordBytes;
  static constexpr std::uint64_t kPerNode = kPageBytes / sizeof(Entry);

  static bool search_leaf(std::span<const std::byte> page, std::uint64_t key, Value& into);
  static std::uint64_t search_node(std::span<const std::byte> page, std::uint64_t key);

  std::uint64_t leaves_;
  std::vector<std::uint64_t> levels_;  // nodes of each level above the leaves, from below
  std::uint64_t pages_;
};

}  // namespace atoll::bench
