// One attempt to run a transaction.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "txn/core.hpp"
#include "txn/hash_index.hpp"

namespace atoll::txn {

inline constexpr Status kConflict(Errc::kRefused, "another transaction is in the way: this one has to begin again");

/// Rows are read as they are and looked at again before the commit, rows that change are locked when they are first
/// changed; or, in an attempt that locks all, when they are first read. That a key is absent is known by the version of
/// its bucket, which every insert and erase locks and changes.
///
/// Why it is serializable: when all locks are held, each row and bucket that was read is seen not to have changed, nor
/// to be locked by another. So all that was read is there at that moment, and what is written was not changed by
/// anybody since, nor will be before it is published: the transaction is as if all of it were done at that moment.
/// (Reads take no shared locks: a lock is a write, and would take the row's line away from all others who read it.)
///
/// Thread-safety: none.
/// Invariants:
///   1. A lock that it holds is in `locks_`, and holds its id.
///   2. Nothing but locks is changed before the commit; its one step frees the locks of what it changes.
///   3. Nobody waits for a lock for longer than the patience, or for one of an older transaction: so there is no
///   deadlock.
class Transaction {
 public:
  struct Attempt {
    Id id;
    bool locks_all = false;
    std::chrono::steady_clock::time_point deadline;  // until which it may wait
  };
  Transaction(Database::Core& core, const Database& database, const Attempt& attempt);
  ~Transaction() { release(); }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  [[nodiscard]] const Database& database() const noexcept { return database_; }

  /// Null: there is no such row.
  [[nodiscard]] Result<const std::byte*> read(const TableData& table, std::span<const std::byte> key, bool to_update);
  [[nodiscard]] Status update(const TableData& table, std::span<const std::byte> key, std::span<const std::byte> row);
  [[nodiscard]] Status insert(const TableData& table, std::span<const std::byte> key, std::span<const std::byte> row);
  [[nodiscard]] Status erase(const TableData& table, std::span<const std::byte> key);
  [[nodiscard]] Status prefetch(const TableData& table, std::span<const std::byte> keys, bool to_update) {
    return conflict_ != Conflict::kNone ? kConflict : table.prefetch(keys, to_update, hints_);
  }
  [[nodiscard]] Status prefetch_inserts(const TableData& table, std::span<const std::byte> keys) {
    return conflict_ != Conflict::kNone ? kConflict : table.prefetch_inserts(keys);
  }
  [[nodiscard]] Status scan(const TableData& table, const Txn::Visit& visit);

  [[nodiscard]] Status scan_range(const TableData& table, std::span<const std::byte> first,
                                  std::span<const std::byte> last, const Txn::Visit& visit, Direction direction);

  /// Takes the leaf of the key out of its tree, if it is empty. For an attempt that does nothing else.
  [[nodiscard]] Status prune(const TableData& table, const std::string& key);
  /// Keys of leaves that the commit has left empty.
  using Keys = std::vector<std::pair<const TableData*, std::string>>;
  [[nodiscard]] const Keys& emptied() const noexcept { return emptied_; }

  /// Commits, if the function ended well; what it said otherwise. No use if `conflict()` then.
  [[nodiscard]] Status end(const Status& function);
  [[nodiscard]] Conflict conflict() const noexcept { return conflict_; }
  /// What it knows was there at one moment, without looking again: nothing, or one row.
  [[nodiscard]] bool is_of_one_moment() const noexcept {
    return scanned_.empty() && (accesses_.empty() || (accesses_.size() == 1 && accesses_.front()->was_there));
  }
  /// Something has its name as a version, or may have.
  [[nodiscard]] bool has_published() const noexcept { return has_published_; }

 private:
  /// A key of a table. What `key` shows lives as long as the attempt.
  struct Name {
    const TableData* table = nullptr;
    std::string_view key;
    std::uint64_t hash = 0;
    friend bool operator==(const Name& a, const Name& b) noexcept { return a.table == b.table && a.key == b.key; }
    friend bool operator<(const Name& a, const Name& b) noexcept {
      return a.table != b.table ? std::less<>()(a.table, b.table) : a.key < b.key;
    }
  };
  struct Access {  // to one key
    Name name;
    Found found;
    bool was_there = false;
    bool is_there = false;
    bool is_changed = false;
    std::span<std::byte> row;  // as this transaction has it

    [[nodiscard]] const TableData& table() const noexcept { return *name.table; }
    [[nodiscard]] std::span<const std::byte> key() const noexcept { return std::as_bytes(std::span(name.key)); }
  };
  struct Scanned {
    GlobalAddress bucket;
    std::uint64_t version = 0;
  };
  struct Parts {  // of the commit, in the order in which they become visible to threads of this node
    explicit Parts(Workspace& workspace) : Parts(workspace.memory()) {}
    explicit Parts(std::pmr::memory_resource* memory)
        : bodies(memory), heads(memory), entries(memory), versions(memory), unlocks(memory) {}

    std::pmr::vector<WritePart> bodies, heads, entries, versions;
    std::pmr::vector<WritePart> unlocks;                    // of all objects that change, behind all of the above
    std::map<GlobalAddress, TreeNode> inner;                // nodes above leaves that were divided, as they will be
    std::vector<std::pair<Spares*, GlobalAddress>> spared;  // memory that is not used when it is done
    Keys emptied;
  };
  using Link = TableData::Link;
  using Chain = TableData::Chain;

  [[nodiscard]] Result<Access*> touch(const TableData& table, std::span<const std::byte> key, bool to_update);
  /// Of a key that a leaf leads to. `leaf` is where it was found, and as which version.
  [[nodiscard]] Result<Access*> touch_at(const TableData& table, std::string_view key, GlobalAddress row,
                                         const Scanned& leaf);
  [[nodiscard]] Access* known(const Name& name) const;
  [[nodiscard]] std::uint32_t find_lock(GlobalAddress object) const;
  [[nodiscard]] Access& remember(const Name& name, const Found& found);
  [[nodiscard]] Result<Found> find(const Name& name);
  [[nodiscard]] Result<Found> find_free(const Name& name);
  [[nodiscard]] Status lock(GlobalAddress object);
  [[nodiscard]] Status lock_row(Access& access);
  /// Of a lock that is in the way: ok when it was left behind and is cleared, or when it is worth looking again.
  [[nodiscard]] Status wait_for(GlobalAddress object, std::uint64_t holder, std::chrono::nanoseconds& waited);
  [[nodiscard]] bool may_wait(Id holder, std::chrono::nanoseconds waited) const noexcept;
  [[nodiscard]] Status meet(Conflict what);
  [[nodiscard]] Result<bool> is_as_read(GlobalAddress object, std::uint64_t version);
  [[nodiscard]] Status validate();
  [[nodiscard]] Status scan_bucket(const TableData& table, GlobalAddress first, const Txn::Visit& visit, bool& go_on);
  [[nodiscard]] Status commit();
  [[nodiscard]] Status change_chain(GlobalAddress first, std::span<Access* const> accesses, Parts& parts);
  [[nodiscard]] Status add_rows(std::span<Access* const> accesses, Chain& chain, Parts& parts);
  void put_entries(const Link& link, std::size_t first, std::size_t end, Parts& parts);
  [[nodiscard]] Status erase_row(const Access& access, std::span<const Link> chain, Parts& parts);
  [[nodiscard]] Result<GlobalAddress> place_row(const Access& access, GlobalAddress reused, Parts& parts);
  void put_row(const Access& access, Parts& parts);
  static void put_block(GlobalAddress row, std::span<const std::byte> block, Parts& parts);
  static void unlock(GlobalAddress object, Parts& parts);
  template <Shareable T>
  [[nodiscard]] std::span<const std::byte> keep(const T& value) {
    return workspace_.copy(std::as_bytes(std::span(&value, 1)));
  }
  // ordered.cpp
  struct LeafEntry {
    std::string key;
    GlobalAddress row;
  };
  [[nodiscard]] Status change_leaf(GlobalAddress leaf, std::span<Access* const> accesses, Parts& parts);
  [[nodiscard]] Status divide_leaf(const TableData& table, GlobalAddress leaf, std::span<const LeafEntry> entries,
                                   Parts& parts);
  [[nodiscard]] Status divide_inner(const TableData& table, const TreePath& path, std::size_t depth);
  [[nodiscard]] Status lock_as_read(const TreeStep& step);
  [[nodiscard]] Result<GlobalAddress> make_node(const TableData& table, TreeNode& node, std::uint32_t level,
                                                Parts& parts);
  void put_node(GlobalAddress at, TreeNode& node, std::uint32_t level, Parts& parts);
  [[nodiscard]] Result<GlobalAddress> take_spare(Spares& spares);
  [[nodiscard]] Status visit_leaf(const TableData& table, const TreePath& path, std::string_view first,
                                  std::string_view last, const Txn::Visit& visit, Direction direction, bool& go_on);

  void forget_locks(const Parts& parts);
  [[nodiscard]] Status publish(Parts& parts);
  void release() noexcept;

  Database::Core& core_;
  Node& node_;
  const Database& database_;
  const Id id_;
  const bool locks_all_;
  const std::chrono::steady_clock::time_point deadline_;
  bool has_published_ = false;
  Conflict conflict_ = Conflict::kNone;
  Workspace workspace_;
  std::pmr::vector<Access*> accesses_;  // to each key once; in the workspace
  HashIndex access_index_;
  Hints hints_;
  std::pmr::map<Name, Access*> inserted_;  // those in ordered tables
  std::pmr::vector<Scanned> scanned_;
  std::pmr::vector<GlobalAddress> locks_;  // each once; null: it was freed
  HashIndex lock_index_;
  Chain chain_;                                           // that is being looked at
  std::pmr::vector<GlobalAddress> allocated_;             // by this attempt, and nobody knows of it
  std::vector<std::pair<Spares*, GlobalAddress>> taken_;  // the same, of what was spare
  Keys emptied_;
};

}  // namespace atoll::txn
