// atoll::txn: tables of records in the memory of all nodes, and transactions on them. See docs/transactions.md.
#pragma once

#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "atoll/node.hpp"

namespace atoll::txn {

enum class FieldKind : std::uint8_t { kBytes, kUnsigned, kSigned, kFloat };

/// A named part of a row.
struct Field {
  std::string name;  // 1 to 31 bytes
  std::uint32_t offset = 0;
  std::uint32_t bytes = 0;
  FieldKind kind = FieldKind::kBytes;
  friend bool operator==(const Field&, const Field&) = default;
};

/// The field of this member: `field("balance", &Account::balance)`.
template <Shareable Row, typename Member>
[[nodiscard]] Field field(std::string_view name, Member Row::*member) {
  const Row row{};
  const auto offset = reinterpret_cast<const std::byte*>(&(row.*member)) - reinterpret_cast<const std::byte*>(&row);
  FieldKind kind = FieldKind::kBytes;
  if constexpr (std::is_floating_point_v<Member>) kind = FieldKind::kFloat;
  if constexpr (std::is_integral_v<Member>) {
    kind = std::is_signed_v<Member> ? FieldKind::kSigned : FieldKind::kUnsigned;
  }
  return {std::string(name), std::uint32_t(offset), std::uint32_t(sizeof(Member)), kind};
}

inline constexpr std::uint32_t kMaxKeyBytes = 64;
inline constexpr std::uint32_t kMaxRowBytes = 16 << 10;
inline constexpr std::uint32_t kMaxFields = 64;

/// What a table's records look like. The same on every node, and in every life of the cluster.
struct Schema {
  std::uint32_t key_bytes = 0;  // 1 to kMaxKeyBytes
  std::uint32_t row_bytes = 0;  // 1 to kMaxRowBytes
  std::vector<Field> fields;    // of the row, in any order, which do not overlap; none: nothing is said of it
};

struct TableOptions {
  std::uint64_t rows = 1024;  // that are expected. More do no harm; with ten times as many, searches take longer
  bool ordered = false;       // by the bytes of the keys, so that ranges can be scanned; else it has a hash index
  /// Rows whose keys begin with the same so many bytes are a group, which has an index of its own, on the node that
  /// inserts its first row: for what one node works on most of the time. 0: all rows share an index, which is spread
  /// over all nodes. Not for ordered tables, where keys that follow each other are together anyway.
  std::uint32_t group_bytes = 0;
  std::uint32_t groups = 1;  // that are expected. More do no harm, but share indexes
  /// Rows whose keys begin with the same so many bytes are in the same place of the index: for a few rows that come and
  /// go together, as the lines of an order do. It should be no more than 20. 0: each key has a place of its own. Not
  /// for ordered tables; at least group_bytes.
  std::uint32_t neighbour_bytes = 0;
};

enum class Direction : std::uint8_t { kForward, kBackward };

/// A number whose bytes are in the order of its values, for keys of ordered tables.
template <std::integral T>
class Sorted {
 public:
  constexpr Sorted() noexcept = default;
  constexpr Sorted(T value) noexcept {
    auto word = std::make_unsigned_t<T>(value) ^ kSign;
    for (std::size_t i = sizeof(T); i > 0; --i, word = std::make_unsigned_t<T>(std::uint64_t(word) >> 8)) {
      bytes_[i - 1] = std::uint8_t(word);
    }
  }
  constexpr operator T() const noexcept {
    std::uint64_t word = 0;
    for (const std::uint8_t byte : bytes_) word = word << 8 | byte;
    return T(std::make_unsigned_t<T>(word) ^ kSign);
  }

 private:
  static constexpr std::make_unsigned_t<T> kSign =
      std::is_signed_v<T> ? std::make_unsigned_t<T>(std::make_unsigned_t<T>(1) << (sizeof(T) * 8 - 1)) : 0;
  std::array<std::uint8_t, sizeof(T)> bytes_ = to_bytes_of_zero();
  static constexpr std::array<std::uint8_t, sizeof(T)> to_bytes_of_zero() noexcept {
    std::array<std::uint8_t, sizeof(T)> bytes{};
    if (std::is_signed_v<T>) bytes[0] = 0x80;
    return bytes;
  }
};

class Database;
class TableData;
class Transaction;

/// A table whose types are not known to the compiler. It is good as long as its Database.
class AnyTable {
 public:
  AnyTable(const Database& of, const TableData& data) noexcept : database_(&of), data_(&data) {}
  [[nodiscard]] const std::string& name() const noexcept;
  [[nodiscard]] const Schema& schema() const noexcept;

 private:
  friend class Txn;
  const Database* database_;
  const TableData* data_;
};

/// Keys that are equal must have equal bytes: no padding.
template <Shareable Key, Shareable Row>
requires std::has_unique_object_representations_v<Key>
class Table : public AnyTable {
 public:
  explicit Table(const AnyTable& table) noexcept : AnyTable(table) {}
};

/// What a transaction does; the function that Database::transact runs gets one.
///
/// A call that ends with kRefused has met another transaction, and so do all that follow: give the status back, and the
/// function is run again. Any other error is the call's own; the transaction may go on.
/// Thread-safety: none; it is used by the thread that runs the function, and no longer than that runs.
/// Invariants:
///   1. A transaction that commits has read what was there at one moment, and changed it at that moment.
///   2. It sees its own changes. Nobody else does before it commits.
class Txn {
 public:
  explicit Txn(Transaction& transaction) noexcept : transaction_(transaction) {}
  Txn(const Txn&) = delete;
  Txn& operator=(const Txn&) = delete;

  template <typename Key, typename Row>
  Result<std::optional<Row>> read(const Table<Key, Row>& table, const std::type_identity_t<Key>& key) {
    return read_typed(table, key, false);
  }
  /// And locks the row: nobody else changes it until the end. For what will be updated by what was read, it saves that
  /// others come in between.
  template <typename Key, typename Row>
  Result<std::optional<Row>> read_for_update(const Table<Key, Row>& table, const std::type_identity_t<Key>& key) {
    return read_typed(table, key, true);
  }
  /// kNotFound: there is no such key.
  template <typename Key, typename Row>
  Status update(const Table<Key, Row>& table, const std::type_identity_t<Key>& key,
                const std::type_identity_t<Row>& row) {
    return update(static_cast<const AnyTable&>(table), bytes(key), bytes(row));
  }
  /// kAlreadyExists: the key is there.
  template <typename Key, typename Row>
  Status insert(const Table<Key, Row>& table, const std::type_identity_t<Key>& key,
                const std::type_identity_t<Row>& row) {
    return insert(static_cast<const AnyTable&>(table), bytes(key), bytes(row));
  }
  /// kNotFound: there is no such key.
  template <typename Key, typename Row>
  Status erase(const Table<Key, Row>& table, const std::type_identity_t<Key>& key) {
    return erase(static_cast<const AnyTable&>(table), bytes(key));
  }
  /// A hint: the rows of these keys will be wanted soon, to be changed or not. Those that other nodes have are asked
  /// for at once and come together, instead of one after the other. Nothing is read or locked by it. It does nothing
  /// for ordered tables.
  template <typename Key, typename Row>
  Status prefetch(const Table<Key, Row>& table, std::type_identity_t<std::span<const Key>> keys,
                  bool to_update = false) {
    return prefetch(static_cast<const AnyTable&>(table), std::as_bytes(keys), to_update);
  }
  /// A hint: these keys will be inserted soon. Their places in the index are asked for at once, where other nodes have
  /// them, and brought nearer to the processor where they are here. Of neighbours (TableOptions) one is enough.
  template <typename Key, typename Row>
  Status prefetch_inserts(const Table<Key, Row>& table, std::type_identity_t<std::span<const Key>> keys) {
    return prefetch_inserts(static_cast<const AnyTable&>(table), std::as_bytes(keys));
  }
  /// Every row, in no order where the table has none, those that this transaction has inserted too; `visit(const Key&,
  /// const Row&)` ends it by false, and must not use the transaction. No row comes or goes unseen before the commit:
  /// what was visited of the table is the whole of it (as far as the walk went).
  template <typename Key, typename Row, typename Visit>
  requires std::predicate<Visit&, const Key&, const Row&> Status scan(const Table<Key, Row>& table, Visit&& visit) {
    return scan(table, [&](std::span<const std::byte> key, std::span<const std::byte> row) {
      return visit(from<Key>(key), from<Row>(row));
    });
  }

  /// The rows of an ordered table whose keys are from `first` to `last`, both included, in their order or against it.
  template <typename Key, typename Row, typename Visit>
  requires std::predicate<Visit&, const Key&, const Row&> Status scan(const Table<Key, Row>& table,
                                                                      const std::type_identity_t<Key>& first,
                                                                      const std::type_identity_t<Key>& last,
                                                                      Visit&& visit,
                                                                      Direction direction = Direction::kForward) {
    return scan(
        table, bytes(first), bytes(last),
        [&](std::span<const std::byte> key, std::span<const std::byte> row) {
          return visit(from<Key>(key), from<Row>(row));
        },
        direction);
  }

  // The same with bytes. kInvalidArgument: not as many as the schema says, or a table of another Database.

  /// Whether it is there; `row` is as it was if not.
  Result<bool> read(const AnyTable& table, std::span<const std::byte> key, std::span<std::byte> row, bool to_update);
  Status update(const AnyTable& table, std::span<const std::byte> key, std::span<const std::byte> row);
  Status insert(const AnyTable& table, std::span<const std::byte> key, std::span<const std::byte> row);
  Status erase(const AnyTable& table, std::span<const std::byte> key);
  /// `keys` follow each other.
  Status prefetch(const AnyTable& table, std::span<const std::byte> keys, bool to_update);
  Status prefetch_inserts(const AnyTable& table, std::span<const std::byte> keys);
  using Visit = std::function<bool(std::span<const std::byte> key, std::span<const std::byte> row)>;
  Status scan(const AnyTable& table, const Visit& visit);
  Status scan(const AnyTable& table, std::span<const std::byte> first, std::span<const std::byte> last,
              const Visit& visit, Direction direction);

  /// What a function may give back that wants nothing to be done; any other error does the same.
  [[nodiscard]] static Status abort(const char* why = "the transaction was aborted by its function") noexcept {
    return {Errc::kRefused, why};
  }

 private:
  template <typename T>
  static std::span<const std::byte> bytes(const T& value) noexcept {
    return std::as_bytes(std::span(&value, 1));
  }
  template <typename T>
  static T from(std::span<const std::byte> stored) noexcept {
    T value{};
    std::memcpy(static_cast<void*>(&value), stored.data(), sizeof(T));
    return value;
  }
  /// Becomes a T where one is made of it.
  template <typename T>
  struct Stored {
    std::span<const std::byte> bytes;
    operator T() const noexcept { return from<T>(bytes); }
  };
  /// Rows may be large: this one is copied once.
  template <typename Key, typename Row>
  Result<std::optional<Row>> read_typed(const Table<Key, Row>& table, const Key& key, bool to_update) {
    const Result<const std::byte*> row = look(table, bytes(key), sizeof(Row), to_update);
    if (!row.ok()) return row.status();
    if (*row == nullptr) return std::optional<Row>();
    return Result<std::optional<Row>>(std::in_place, std::in_place, Stored<Row>{{*row, sizeof(Row)}});
  }
  /// The row as the transaction has it, until its next call; null: there is none.
  Result<const std::byte*> look(const AnyTable& table, std::span<const std::byte> key, std::size_t row_bytes,
                                bool to_update);
  [[nodiscard]] Status check(const AnyTable& table, std::size_t key_bytes) const noexcept;

  Transaction& transaction_;
};

/// What a transaction does that meets a row which another has locked. In both ways none waits for ever for one that
/// waits for it.
enum class OnLock : std::uint8_t {
  kNoWait,   // it begins again, after lock_patience
  kWaitDie,  // it waits if it is the older one; else it begins again, and is as old as it was: so its turn comes
};

struct DatabaseOptions {
  OnLock on_lock = OnLock::kNoWait;  // the same on every node
  /// How long a transaction waits for a row that another has locked before it begins again, with OnLock::kNoWait.
  std::chrono::microseconds lock_patience{0};
  /// How long one that meets others again and again is begun again: then its status is kDeadline.
  std::chrono::milliseconds give_up_after{60'000};
  /// Attempts in which rows that are read are not locked; those that follow lock them.
  unsigned optimistic_attempts = 8;
  /// Before attempt n there is a pause of up to backoff * 2^n, up to max_backoff.
  std::chrono::nanoseconds backoff{2'000};
  std::chrono::nanoseconds max_backoff{1'000'000};
  std::function<std::uint64_t()> random;                // for any thread; empty: one of its own
  std::function<void(std::chrono::nanoseconds)> pause;  // waits so long; empty: yields or sleeps
};

/// Counts of one Database, as a plain copy.
struct DatabaseStats {
  std::uint64_t commits = 0;
  std::uint64_t aborts = 0;          // by the function's own error
  std::uint64_t lock_conflicts = 0;  // attempts that met a lock
  std::uint64_t read_conflicts = 0;  // attempts that had read what was changed since
  std::uint64_t locks_cleared = 0;   // of processes that are over
};

/// The transactions of one node, and its tables.
///
/// Thread-safety: any thread, any time. Make it before threads use it, and keep it until they are done.
/// Invariants:
///   1. All transactions of all nodes that committed are as if they had been run one after the other, in an order in
///   which one that ended before another began comes before it.
///   2. In a cluster with a log a transaction that was acknowledged survives as its mode says, and any other is there
///   whole or not at all.
class Database {
 public:
  /// Throws Error. Node 0 must make one too.
  explicit Database(Node& node, DatabaseOptions options = {});
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  /// The table of this name, the same for all nodes and for their next lives: node 0 makes it, where it is not there;
  /// the others wait for it, up to `patience`. Throws Error: kDeadline or kNotFound, nobody made it; kInvalidArgument,
  /// it has another schema, or the schema makes no sense.
  AnyTable table(std::string_view name, const Schema& schema, const TableOptions& options = {},
                 std::chrono::milliseconds patience = std::chrono::seconds(30));
  template <Shareable Key, Shareable Row>
  Table<Key, Row> table(std::string_view name, std::vector<Field> fields, const TableOptions& options = {},
                        std::chrono::milliseconds patience = std::chrono::seconds(30)) {
    static_assert(sizeof(Key) <= kMaxKeyBytes && sizeof(Row) <= kMaxRowBytes);
    return Table<Key, Row>(table(name, Schema{sizeof(Key), sizeof(Row), std::move(fields)}, options, patience));
  }

  /// Runs the function as one transaction, which commits if it gives back an ok status. It may be run many times, so it
  /// must have no other effects; an error that it gives back is the answer, and nothing was done. An exception goes on
  /// to the caller, and nothing was done. Errors besides the function's: kInvalidArgument, more was changed than fits a
  /// block of the log; kWouldDeadlock, this thread runs a transaction already; kDeadline, see DatabaseOptions; and
  /// those of the memory below.
  Status transact(const std::function<Status(Txn&)>& function);

  [[nodiscard]] DatabaseStats stats() const noexcept;

  class Core;  // of the implementation

 private:
  std::unique_ptr<Core> core_;
};

}  // namespace atoll::txn
