// What TPC-C asks of an engine. Transactions, population, checks and workers are templates over it.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "atoll/status.hpp"
#include "bench/tpcc/rows.hpp"

namespace atoll::bench::tpcc {

template <typename Key>
struct TableSpec {
  std::uint64_t rows = 0;                  // that there will be, all nodes together; more must do no harm
  bool ordered = false;                    // ranges are scanned: asked only of an OrderedDb
  std::function<NodeId(const Key&)> home;  // where a row should live; never empty
  std::uint32_t warehouses = 0;            // that keys begin with; 0: with something else
  std::uint32_t together_bytes = 0;        // rows whose keys begin with the same so many come together; 0: alone
};

/// What became of transactions, on this node. A transaction that is run again counts each attempt that failed.
struct Counts {
  std::uint64_t commits = 0;
  std::uint64_t aborts = 0;            // by the transaction's own error
  std::uint64_t lock_conflicts = 0;    // attempts that met a lock
  std::uint64_t change_conflicts = 0;  // attempts that had read what was changed since
  std::uint64_t other_conflicts = 0;
};

/// A transaction's handle, by the accesses that every table has. A call that ends with kRefused has met another
/// transaction, and so do all that follow: the function gives the status back and is run again.
template <typename T, typename Table, typename Key, typename Row>
concept TxnOn = requires(T& t, const Table& table, const Key& key, const Row& row, std::span<const Key> keys) {
  { t.read(table, key) } -> std::same_as<Result<std::optional<Row>>>;
  { t.read_for_update(table, key) } -> std::same_as<Result<std::optional<Row>>>;
  { t.update(table, key, row) } -> std::same_as<Status>;        // kNotFound: no such key
  { t.insert(table, key, row) } -> std::same_as<Status>;        // kAlreadyExists
  { t.erase(table, key) } -> std::same_as<Status>;              // kNotFound
  { t.prefetch(table, keys, true) } -> std::same_as<Status>;    // a hint: these are wanted soon, to be updated or not
  { t.prefetch_inserts(table, keys) } -> std::same_as<Status>;  // a hint: these will be inserted soon
};

/// An engine's side on one node. Every node has one; `table` is called by all of them alike, at set-up, and may throw;
/// `transact` by any thread at any time. It runs the function as one serializable transaction, again if need be; an
/// error that the function gives back is the answer, if what it had read was there at one moment, and nothing was done.
template <typename D>
concept Db = requires(D& db, const D& view, const TableSpec<StockKey>& spec) {
  {
    db.template table<StockKey, Stock>(std::string_view(), spec)
    } -> std::same_as<typename D::template Table<StockKey, Stock>>;
  {
    db.transact([](typename D::Txn&) -> Status { return {}; })
    } -> std::same_as<Status>;
  { view.counts() } -> std::same_as<Counts>;
  { view.memory_bytes() } -> std::same_as<std::uint64_t>;  // that rows and indexes take on this node
}
&&TxnOn<typename D::Txn, typename D::template Table<StockKey, Stock>, StockKey, Stock>;

/// And it has ordered tables: `scan` shows the rows from `first` to `last`, both included, until `visit` is false.
template <typename D>
concept OrderedDb = Db<D> &&
    requires(typename D::Txn& t, const typename D::template Table<OrderKey, NewOrder>& table, const OrderKey& key) {
  {
    t.scan(
        table, key, key, [](const OrderKey&, const NewOrder&) { return true; }, txn::Direction::kBackward)
    } -> std::same_as<Status>;
};

}  // namespace atoll::bench::tpcc
