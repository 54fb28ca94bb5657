// SQLite under TPC-C: what a program has that keeps its tables in its own memory, on one node.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "bench/tpcc/db.hpp"

struct sqlite3;
struct sqlite3_stmt;

namespace atoll::bench::tpcc {

/// Bits for each number of a key. Together they make one integer in the order of the keys, which SQLite finds rows by
/// fastest: as the "INTEGER PRIMARY KEY" it is the row's place in the B-tree, and nothing is decoded to compare it. No
/// bits: the key is no such integer, and its bytes are the primary key.
template <typename Key>
inline constexpr std::array<unsigned, 0> kKeyBits{};
template <>
inline constexpr std::array kKeyBits<WarehouseKey>{31u};
template <>
inline constexpr std::array kKeyBits<DistrictKey>{31u, 32u};
template <>
inline constexpr std::array kKeyBits<CustomerKey>{16u, 15u, 32u};
template <>
inline constexpr std::array kKeyBits<HistoryKey>{15u, 16u, 32u};
template <>
inline constexpr std::array kKeyBits<OrderKey>{16u, 15u, 32u};
template <>
inline constexpr std::array kKeyBits<OrderLineKey>{15u, 8u, 32u, 8u};
template <>
inline constexpr std::array kKeyBits<ItemKey>{32u};
template <>
inline constexpr std::array kKeyBits<StockKey>{31u, 32u};
template <>
inline constexpr std::array kKeyBits<OrderIndexKey>{12u, 7u, 16u, 28u};

/// A key as SQLite is given it.
struct SqliteKey {
  std::int64_t number = 0;
  std::span<const std::byte> bytes;  // empty: it is `number`
  bool fits = true;                  // else `number` is the greatest of those that are less
};

template <typename Key>
[[nodiscard]] SqliteKey to_sqlite(const Key& key) noexcept {
  constexpr auto kBits = kKeyBits<Key>;
  SqliteKey to;
  if constexpr (kBits.empty()) {
    to.bytes = std::as_bytes(std::span(&key, 1));
  } else {
    static_assert(std::accumulate(kBits.begin(), kBits.end(), 0u) <= 63, "SQLite's integers have a sign");
    const auto numbers = std::bit_cast<std::array<Number, kBits.size()>>(key);
    for (std::size_t i = 0; i < kBits.size(); ++i) {
      const std::uint64_t most = (std::uint64_t{1} << kBits[i]) - 1;
      to.fits = to.fits && numbers[i] <= most;
      const std::uint64_t value = to.fits ? std::uint32_t(numbers[i]) : most;
      to.number = to.number << kBits[i] | std::int64_t(value);
    }
  }
  return to;
}

template <typename Key>
[[nodiscard]] Key from_sqlite(const SqliteKey& from) noexcept {
  constexpr auto kBits = kKeyBits<Key>;
  if constexpr (kBits.empty()) {
    Key key;
    std::memcpy(&key, from.bytes.data(), sizeof(Key));
    return key;
  } else {
    std::array<Number, kBits.size()> numbers;
    std::uint64_t left = std::uint64_t(from.number);
    for (std::size_t i = kBits.size(); i > 0; --i) {
      numbers[i - 1] = std::uint32_t(left & ((std::uint64_t{1} << kBits[i - 1]) - 1));
      left >>= kBits[i - 1];
    }
    return std::bit_cast<Key>(numbers);
  }
}

struct SqliteClose {
  void operator()(sqlite3* connection) const noexcept;
  void operator()(sqlite3_stmt* statement) const noexcept;
};
using SqliteConnection = std::unique_ptr<sqlite3, SqliteClose>;
using SqliteStatement = std::unique_ptr<sqlite3_stmt, SqliteClose>;
/// Throws Error.
[[nodiscard]] SqliteStatement prepare(sqlite3& connection, const std::string& text);

/// A table and its statements.
///
/// The row is one BLOB. Columns of their own were slower by half (2.3 us against 1.5 for reading and updating a row of
/// STOCK, and 3.7 with a primary key of two columns): SQLite writes a row anew whatever changes in it, and the
/// transactions want it whole.
/// Thread-safety: none.
class SqliteTable {
 public:
  /// Makes the table unless it is there. Throws Error.
  SqliteTable(sqlite3& connection, std::string_view name, bool by_number);

  /// False: there is none.
  [[nodiscard]] Result<bool> read(const SqliteKey& key, std::span<std::byte> row) const noexcept;
  [[nodiscard]] Status update(const SqliteKey& key, std::span<const std::byte> row) const noexcept;
  [[nodiscard]] Status insert(const SqliteKey& key, std::span<const std::byte> row) const noexcept;
  [[nodiscard]] Status erase(const SqliteKey& key) const noexcept;

  /// Rows from `first` to `last`, one after the other. One of a table and direction at a time.
  ///
  /// Thread-safety: none.
  class Scan {
   public:
    Scan(const SqliteTable& table, const SqliteKey& first, const SqliteKey& last, txn::Direction direction) noexcept;
    ~Scan();
    Scan(const Scan&) = delete;
    Scan& operator=(const Scan&) = delete;
    /// The next row; false: there is none.
    [[nodiscard]] Result<bool> next(std::span<std::byte> row) noexcept;
    /// Of the row that `next` gave.
    [[nodiscard]] SqliteKey key() const noexcept;

   private:
    sqlite3_stmt& statement_;
    const bool is_empty_;
  };

 private:
  [[nodiscard]] Status change(sqlite3_stmt& statement, const SqliteKey& key, std::span<const std::byte> row,
                              Errc nothing) const noexcept;

  sqlite3* connection_;
  SqliteStatement read_, update_, insert_, erase_, forward_, backward_;
};

/// SQLite as an OrderedDb, all in memory.
///
/// The threads of the node share one connection, each for a whole transaction. SQLite lets one transaction write at a
/// time whatever one does, and nearly all of TPC-C's write; connections of their own would have to share the tables by
/// SQLite's shared cache, whose locks cost each of them more than they gain.
///
/// Thread-safety: `table` at set-up; `transact` and what counts, any thread.
/// Invariants:
///   1. A transaction is open only while mutex_ is held, so that no call meets another transaction: none is refused.
///   2. Statements are prepared at set-up. Nothing is parsed after it.
class SqliteDb {
 public:
  template <typename Key, typename Row>
  class Table {
   public:
    explicit Table(const SqliteTable& of) noexcept : of_(&of) {}

   private:
    friend class SqliteDb;
    const SqliteTable* of_;
  };

  /// Thread-safety: none.
  class Txn {
   public:
    template <typename Key, typename Row>
    Result<std::optional<Row>> read(const Table<Key, Row>& table, const std::type_identity_t<Key>& key) {
      Row row;
      const Result<bool> found = table.of_->read(to_sqlite(key), std::as_writable_bytes(std::span(&row, 1)));
      if (!found.ok()) return found.status();
      return *found ? std::optional<Row>(row) : std::nullopt;
    }
    template <typename Key, typename Row>
    Result<std::optional<Row>> read_for_update(const Table<Key, Row>& table, const std::type_identity_t<Key>& key) {
      return read(table, key);
    }
    template <typename Key, typename Row>
    Status update(const Table<Key, Row>& table, const std::type_identity_t<Key>& key,
                  const std::type_identity_t<Row>& row) {
      return table.of_->update(to_sqlite(key), std::as_bytes(std::span(&row, 1)));
    }
    template <typename Key, typename Row>
    Status insert(const Table<Key, Row>& table, const std::type_identity_t<Key>& key,
                  const std::type_identity_t<Row>& row) {
      return table.of_->insert(to_sqlite(key), std::as_bytes(std::span(&row, 1)));
    }
    template <typename Key, typename Row>
    Status erase(const Table<Key, Row>& table, const std::type_identity_t<Key>& key) {
      return table.of_->erase(to_sqlite(key));
    }
    /// Does nothing: all is here.
    template <typename Key, typename Row>
    Status prefetch(const Table<Key, Row>&, std::span<const Key>, bool) {
      return {};
    }
    template <typename Key, typename Row>
    Status prefetch_inserts(const Table<Key, Row>&, std::span<const Key>) {
      return {};
    }
    /// REQUIRES: `visit` scans the table no further.
    template <typename Key, typename Row, typename Visit>
    Status scan(const Table<Key, Row>& table, const std::type_identity_t<Key>& first,
                const std::type_identity_t<Key>& last, Visit&& visit, txn::Direction direction) {
      SqliteTable::Scan scan(*table.of_, to_sqlite(first), to_sqlite(last), direction);
      Row row;
      while (true) {
        const Result<bool> found = scan.next(std::as_writable_bytes(std::span(&row, 1)));
        if (!found.ok()) return found.status();
        if (!*found || !visit(from_sqlite<Key>(scan.key()), std::as_const(row))) return {};
      }
    }
  };

  /// Throws Error.
  SqliteDb();

  template <typename Key, typename Row>
  Table<Key, Row> table(std::string_view name, const TableSpec<Key>&) {
    const std::lock_guard lock(mutex_);
    tables_.push_back(std::make_unique<SqliteTable>(*connection_, name, !kKeyBits<Key>.empty()));
    return Table<Key, Row>(*tables_.back());
  }
  template <typename Function>
  Status transact(Function&& function) {
    const std::lock_guard lock(mutex_);
    Open open(*this);
    if (!open.begun().ok()) return open.begun();
    Txn t;
    const Status status = function(t);
    return open.end(status);
  }
  [[nodiscard]] Counts counts() const noexcept {
    return {commits_.load(std::memory_order_relaxed), aborts_.load(std::memory_order_relaxed), 0, 0, 0};
  }
  /// The pages of the database.
  [[nodiscard]] std::uint64_t memory_bytes() const noexcept;

 private:
  /// From BEGIN to COMMIT, or else ROLLBACK.
  ///
  /// Thread-safety: none.
  class Open {
   public:
    explicit Open(SqliteDb& db) noexcept;
    ~Open();
    Open(const Open&) = delete;
    Open& operator=(const Open&) = delete;
    [[nodiscard]] const Status& begun() const noexcept { return begun_; }
    /// Commits what ended well, and says how that went; else what it is given.
    [[nodiscard]] Status end(const Status& status) noexcept;

   private:
    SqliteDb& db_;
    const Status begun_;
    bool is_open_;
  };

  mutable std::mutex mutex_;
  SqliteConnection connection_;
  SqliteStatement begin_, commit_, rollback_, count_pages_;
  std::vector<std::unique_ptr<SqliteTable>> tables_;
  std::atomic<std::uint64_t> commits_{0}, aborts_{0};
};
static_assert(OrderedDb<SqliteDb>);

}  // namespace atoll::bench::tpcc
