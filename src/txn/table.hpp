// A table in global memory, as one node sees it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "txn/tree.hpp"

namespace atoll::txn {

/// What was read of a key: its row, or that there is none.
struct Found {
  GlobalAddress bucket;              // the first of the key's chain, or the leaf that has it
  std::uint64_t bucket_version = 0;  // of which all that was read of the chain or leaf is
  GlobalAddress row;                 // null: the key is not there
  RowHead head;
  std::vector<std::byte> bytes;  // of the row alone
};

/// Thread-safety: any thread; it does not change.
/// Invariants:
///   1. A key has one row at most, in the chain of the bucket that its hash names.
///   2. Entries are added to a chain and marked as erased, but never moved or taken away.
class TableData {
 public:
  /// Throws Error.
  static std::unique_ptr<TableData> create(Node& node, std::string name, const Schema& schema,
                                           const TableOptions& options);
  static std::unique_ptr<TableData> open(Node& node, std::string name, GlobalAddress root);
  /// Throws Error: the schema makes no sense.
  static void check(const Schema& schema);
  /// Gives its memory back. REQUIRES: it was created, and nobody else knows of it.
  void destroy() noexcept;

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const Schema& schema() const noexcept { return schema_; }
  [[nodiscard]] GlobalAddress root() const noexcept { return root_address_; }
  [[nodiscard]] Node& node() const noexcept { return node_; }

  [[nodiscard]] std::uint64_t hash(std::span<const std::byte> key) const noexcept;
  [[nodiscard]] std::uint64_t buckets() const noexcept { return root_.buckets; }
  [[nodiscard]] GlobalAddress bucket(std::uint64_t number) const noexcept;
  [[nodiscard]] GlobalAddress bucket_of(std::uint64_t hash) const noexcept {
    return bucket(hash & (root_.buckets - 1));
  }

  /// Null: it has a hash index.
  [[nodiscard]] const Tree* tree() const noexcept { return tree_ ? &*tree_ : nullptr; }
  [[nodiscard]] Spares& spare_rows() const noexcept { return spare_rows_; }
  [[nodiscard]] Spares& spare_nodes() const noexcept { return spare_nodes_; }

  [[nodiscard]] std::uint32_t key_at() const noexcept { return sizeof(RowHead); }
  [[nodiscard]] std::uint32_t row_at() const noexcept { return key_at() + std::uint32_t(padded(root_.key_bytes)); }
  /// Of head, key and row.
  [[nodiscard]] std::uint32_t block_bytes() const noexcept { return row_at() + std::uint32_t(padded(root_.row_bytes)); }

  /// kRefused: others changed it again and again.
  [[nodiscard]] Result<Found> find(std::span<const std::byte> key, std::uint64_t hash) const;
  /// Head, key and row as they are at one moment. False: they are being changed. REQUIRES: it is a row of this table.
  [[nodiscard]] Result<bool> read_block(GlobalAddress row, std::vector<std::byte>& block) const;
  /// All buckets of the chain. They are of one moment if its lock is held, or its version is the same afterwards.
  struct Link {
    GlobalAddress address;
    Bucket bucket;
  };
  [[nodiscard]] Result<std::vector<Link>> read_chain(GlobalAddress first) const;

 private:
  TableData(Node& node, std::string name) : node_(node), name_(std::move(name)) {}
  enum class Seen : std::uint8_t { kThere, kAnother, kAbsent, kChanging };
  [[nodiscard]] Result<Seen> look_in_tree(std::span<const std::byte> key, Found& found) const;
  [[nodiscard]] Result<Seen> look_at_row(std::span<const std::byte> key, GlobalAddress row, Found& found) const;
  void make_buckets(std::uint64_t rows);
  void make_tree();
  [[nodiscard]] Result<Seen> look(std::span<const std::byte> key, std::uint64_t hash, Found& found) const;

  Node& node_;
  std::string name_;
  Schema schema_;
  GlobalAddress root_address_;
  Root root_;
  std::vector<GlobalAddress> blocks_;
  std::optional<Tree> tree_;
  mutable Spares spare_rows_, spare_nodes_;  // of a tree
};

}  // namespace atoll::txn
