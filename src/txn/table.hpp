// A table in global memory, as one node sees it.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "txn/hash_index.hpp"
#include "txn/tree.hpp"
#include "txn/workspace.hpp"

namespace atoll::txn {

/// What was read of a key: its row, or that there is none.
struct Found {
  GlobalAddress bucket;              // the first of the key's chain, or the leaf that has it, or a slot without a block
  std::uint64_t bucket_version = 0;  // of which all that was read of the chain or leaf is
  GlobalAddress row;                 // null: the key is not there
  RowHead head;
  std::span<std::byte> block;  // head, key and row, in the workspace
};

/// Where a prefetch has found what is likely the row of a key, and its bucket.
struct Hint {
  const TableData* table = nullptr;
  GlobalAddress row, bucket;
};

/// Hints of an attempt, by the hashes of their keys.
///
/// Thread-safety: none.
class Hints {
 public:
  explicit Hints(std::pmr::memory_resource* memory) : index_(memory, kRoom), hints_(memory) {}
  /// The first of this hash; null: there is none.
  [[nodiscard]] const Hint* find(const TableData* table, std::uint64_t hash) const {
    if (hints_.empty()) return nullptr;
    const std::uint32_t i = index_.find(hash, [&](std::uint32_t k) { return hints_[k].table == table; });
    return i == HashIndex::kNone ? nullptr : &hints_[i];
  }
  void add(std::uint64_t hash, const Hint& hint) {
    if (find(hint.table, hash) != nullptr) return;
    index_.add(hash, std::uint32_t(hints_.size()));
    hints_.push_back(hint);
  }

 private:
  static constexpr std::size_t kRoom = 32;
  HashIndex index_;
  std::pmr::vector<Hint> hints_;
};

/// Thread-safety: any thread; what changes is remembered once (the blocks that are there).
/// Invariants:
///   1. A key has one row at most, in the chain of the bucket that its group and its hash name.
///   2. Entries are added to a chain and marked as erased, but never moved or taken away.
///   3. A slot gets its block once.
class TableData {
 public:
  /// Throws Error.
  static std::unique_ptr<TableData> create(Node& node, std::string name, const Schema& schema,
                                           const TableOptions& options);
  static std::unique_ptr<TableData> open(Node& node, std::string name, GlobalAddress root);
  /// Throws Error: they make no sense.
  static void check(const Schema& schema, const TableOptions& options);
  /// Gives its memory back. REQUIRES: it was created, and nobody else knows of it.
  void destroy() noexcept;

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const Schema& schema() const noexcept { return schema_; }
  [[nodiscard]] GlobalAddress root() const noexcept { return root_address_; }
  [[nodiscard]] Node& node() const noexcept { return node_; }

  [[nodiscard]] std::uint64_t hash(std::span<const std::byte> key) const noexcept;
  [[nodiscard]] bool has_groups() const noexcept { return root_.group_bytes != 0; }
  [[nodiscard]] std::uint32_t blocks() const noexcept { return root_.blocks; }
  [[nodiscard]] std::uint64_t buckets_of_block() const noexcept { return root_.buckets; }
  [[nodiscard]] GlobalAddress slot(std::uint32_t block) const noexcept {
    return root_address_ + std::int64_t(sizeof(Root) + block * sizeof(Slot));
  }
  /// Which block a key is in.
  [[nodiscard]] std::uint32_t block_of(std::span<const std::byte> key, std::uint64_t hash) const noexcept;
  /// Which bucket of its block.
  [[nodiscard]] std::uint64_t bucket_of(std::span<const std::byte> key, std::uint64_t hash) const noexcept {
    return place(key, hash) & (root_.buckets - 1);
  }
  /// Null: it is not made yet.
  [[nodiscard]] Result<GlobalAddress> block(std::uint32_t number) const noexcept;
  /// Makes it, on this node, if nobody else does.
  [[nodiscard]] Status make_block(std::uint32_t number) const;
  [[nodiscard]] static GlobalAddress bucket(GlobalAddress block, std::uint64_t number) noexcept {
    return block + std::int64_t(number * sizeof(Bucket));
  }

  /// Null: it has a hash index.
  [[nodiscard]] const Tree* tree() const noexcept { return tree_ ? &*tree_ : nullptr; }
  [[nodiscard]] Spares& spare_rows() const noexcept { return spare_rows_; }
  [[nodiscard]] Spares& spare_nodes() const noexcept { return spare_nodes_; }

  [[nodiscard]] std::uint32_t key_at() const noexcept { return sizeof(RowHead); }
  [[nodiscard]] std::uint32_t row_at() const noexcept { return key_at() + std::uint32_t(padded(root_.key_bytes)); }
  [[nodiscard]] std::span<std::byte> row_of(std::span<std::byte> block) const noexcept {
    return block.subspan(row_at(), root_.row_bytes);
  }
  /// Of head, key and row.
  [[nodiscard]] std::uint32_t block_bytes() const noexcept { return row_at() + std::uint32_t(padded(root_.row_bytes)); }

  /// kRefused: others changed it again and again.
  [[nodiscard]] Result<Found> find(std::span<const std::byte> key, std::uint64_t hash, Workspace& workspace) const;
  /// A hint, see Txn::prefetch.
  [[nodiscard]] Status prefetch(std::span<const std::byte> keys, bool to_update, Hints& hints) const;
  /// The same of keys that are to be inserted, see Txn::prefetch_inserts.
  [[nodiscard]] Status prefetch_inserts(std::span<const std::byte> keys) const;
  /// What the row at this address has, if it is the key's; else no row. REQUIRES: it is, or was, one of this table.
  [[nodiscard]] Result<Found> find_at(GlobalAddress row, std::span<const std::byte> key, Workspace& workspace) const;
  /// Head, key and row as they are at one moment. False: they are being changed. REQUIRES: it is a row of this table,
  /// and there is room for block_bytes().
  [[nodiscard]] Result<bool> read_block(GlobalAddress row, std::span<std::byte> block) const;
  /// All buckets of the chain. They are of one moment if its lock is held, or its version is the same afterwards.
  struct Link {
    GlobalAddress address;
    Bucket bucket;
  };
  using Chain = std::pmr::vector<Link>;
  [[nodiscard]] Status read_chain(GlobalAddress first, Chain& chain) const;

 private:
  TableData(Node& node, std::string name) : node_(node), name_(std::move(name)) {}
  enum class Seen : std::uint8_t { kThere, kAnother, kAbsent, kChanging };
  [[nodiscard]] Result<Seen> look_in_tree(std::span<const std::byte> key, Found& found, Workspace& workspace) const;
  [[nodiscard]] Result<Seen> look_at_row(std::span<const std::byte> key, GlobalAddress row, Found& found,
                                         Workspace& workspace) const;
  void make_blocks(const TableOptions& options, std::vector<Slot>& slots);
  void make_tree(std::vector<Slot>& slots);
  void remember_blocks(std::span<const Slot> slots);
  [[nodiscard]] Result<Seen> look(std::span<const std::byte> key, std::uint64_t hash, Found& found,
                                  Workspace& workspace) const;
  [[nodiscard]] Result<Seen> look_in_bucket(GlobalAddress bucket, const BucketHead& head,
                                            std::span<const std::byte> key, std::uint64_t hash, Found& found,
                                            Workspace& workspace) const;

  /// The hash that neighbours have in common.
  [[nodiscard]] std::uint64_t place(std::span<const std::byte> key, std::uint64_t hash) const noexcept;
  static constexpr std::size_t kSoughtAtOnce = 32;
  struct Sought {  // by prefetch; null: there is nothing to be fetched
    std::array<std::uint64_t, kSoughtAtOnce> hashes;
    std::array<GlobalAddress, kSoughtAtOnce> buckets, entries, rows;
    std::size_t count = 0;
  };
  /// The buckets of the first keys, which are taken from `keys`.
  [[nodiscard]] Status seek(std::span<const std::byte>& keys, Sought& sought) const;
  [[nodiscard]] Status prefetch_entries(Sought& sought) const;
  [[nodiscard]] Status prefetch_rows(Sought& sought, bool to_update, Hints& hints) const;

  Node& node_;
  std::string name_;
  Schema schema_;
  GlobalAddress root_address_;
  Root root_;
  std::unique_ptr<std::atomic<std::uint64_t>[]> blocks_;  // addresses, as far as they are known; 0: not yet
  mutable std::mutex making_;                             // of blocks
  std::optional<Tree> tree_;
  mutable Spares spare_rows_, spare_nodes_;  // of a tree
};

}  // namespace atoll::txn
