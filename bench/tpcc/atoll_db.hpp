// Atoll's own engine under TPC-C.
#pragma once

#include "atoll/node.hpp"
#include "bench/tpcc/db.hpp"

namespace atoll::bench::tpcc {

/// atoll::txn as a Db. Rows are where they were inserted: on the node that loads their warehouse.
///
/// Thread-safety: `table` at set-up; `transact` and what counts, any thread.
class AtollDb {
 public:
  template <typename Key, typename Row>
  using Table = txn::Table<Key, Row>;

  /// Thread-safety: none.
  class Txn {
   public:
    explicit Txn(txn::Txn& t) noexcept : t_(t) {}
    template <typename Key, typename Row>
    Result<std::optional<Row>> read(const Table<Key, Row>& table, const Key& key) {
      return t_.read(table, key);
    }
    template <typename Key, typename Row>
    Result<std::optional<Row>> read_for_update(const Table<Key, Row>& table, const Key& key) {
      return t_.read_for_update(table, key);
    }
    template <typename Key, typename Row>
    Status update(const Table<Key, Row>& table, const Key& key, const Row& row) {
      return t_.update(table, key, row);
    }
    template <typename Key, typename Row>
    Status insert(const Table<Key, Row>& table, const Key& key, const Row& row) {
      return t_.insert(table, key, row);
    }
    template <typename Key, typename Row>
    Status erase(const Table<Key, Row>& table, const Key& key) {
      return t_.erase(table, key);
    }
    template <typename Key, typename Row>
    Status prefetch(const Table<Key, Row>& table, std::span<const Key> keys, bool to_update) {
      return t_.prefetch(table, keys, to_update);
    }
    template <typename Key, typename Row>
    Status prefetch_inserts(const Table<Key, Row>& table, std::span<const Key> keys) {
      return t_.prefetch_inserts(table, keys);
    }
    template <typename Key, typename Row, typename Visit>
    Status scan(const Table<Key, Row>& table, const Key& first, const Key& last, Visit&& visit,
                txn::Direction direction) {
      return t_.scan(table, first, last, std::forward<Visit>(visit), direction);
    }

   private:
    txn::Txn& t_;
  };

  /// Throws Error.
  explicit AtollDb(Node& node) : node_(node), database_(node) {}

  template <typename Key, typename Row>
  Table<Key, Row> table(std::string_view name, const TableSpec<Key>& spec) {
    txn::TableOptions options{.rows = spec.rows, .ordered = spec.ordered};
    if (spec.warehouses > 0 && !spec.ordered) {  // a warehouse's rows have their index where it is loaded
      options.group_bytes = sizeof(Number);
      options.groups = spec.warehouses;
      options.neighbour_bytes = spec.together_bytes;
    }
    return database_.table<Key, Row>(name, {}, options);
  }
  template <typename Function>
  Status transact(Function&& function) {
    return database_.transact([&](txn::Txn& t) -> Status {
      Txn handle(t);
      return function(handle);
    });
  }
  [[nodiscard]] Counts counts() const noexcept {
    const txn::DatabaseStats stats = database_.stats();
    return {stats.commits, stats.aborts, stats.lock_conflicts, stats.read_conflicts, 0};
  }
  [[nodiscard]] std::uint64_t memory_bytes() const noexcept {
    const Stats stats = node_.stats();
    return stats.memory_bytes - stats.memory_free_bytes;
  }

 private:
  Node& node_;
  txn::Database database_;
};
static_assert(OrderedDb<AtollDb>);

}  // namespace atoll::bench::tpcc
