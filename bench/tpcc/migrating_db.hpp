// A partitioned engine in the manner of L-Store under TPC-C.
#pragma once

#include "bench/tpcc/migrating_core.hpp"

namespace atoll::bench::tpcc {

/// Transactions without two-phase commit, after "Towards a Non-2PC Transaction Management in Distributed Database
/// Systems" (Lin et al., SIGMOD 2016): each row is owned by one node, and moves, ownership included, to the node whose
/// transaction needs it. There the transaction runs and commits alone, with local locks in two phases. All that it
/// knows beforehand to need is asked for at once, one message for each node that is asked. A row stays where it was
/// needed last; its home, which never changes, knows where that is.
///
/// In two things it is better than that paper's. Rows that are at home may be read by several nodes, each with a copy
/// that it gives up before anybody writes: without that every order would wait for items, which nobody ever writes; a
/// row that was moved by a writer is read by its owner alone. And messages are not TCP's, but rings in shared memory.
///
/// Thread-safety: `table` at set-up; `transact` and what counts, any thread.
class MigratingDb {
 public:
  template <typename Key, typename Row>
  class Table {
   public:
    explicit Table(const migrating::TableData& of) noexcept : of_(&of) {}

   private:
    friend class MigratingDb;
    const migrating::TableData* of_;
  };

  /// Thread-safety: none.
  class Txn {
   public:
    Txn(migrating::Core& core, migrating::Worker& worker) noexcept : core_(core), worker_(worker) {}
    template <typename Key, typename Row>
    Result<std::optional<Row>> read(const Table<Key, Row>& table, const std::type_identity_t<Key>& key) {
      return read_locked<Row>(table, key, false);
    }
    template <typename Key, typename Row>
    Result<std::optional<Row>> read_for_update(const Table<Key, Row>& table, const std::type_identity_t<Key>& key) {
      return read_locked<Row>(table, key, true);
    }
    template <typename Key, typename Row>
    Status update(const Table<Key, Row>& table, const std::type_identity_t<Key>& key,
                  const std::type_identity_t<Row>& row) {
      return change(table, key, &row, true, {Errc::kNotFound, "no such key"});
    }
    template <typename Key, typename Row>
    Status insert(const Table<Key, Row>& table, const std::type_identity_t<Key>& key,
                  const std::type_identity_t<Row>& row) {
      return change(table, key, &row, false, {Errc::kAlreadyExists, "there is such a key"});
    }
    template <typename Key, typename Row>
    Status erase(const Table<Key, Row>& table, const std::type_identity_t<Key>& key) {
      return change(table, key, static_cast<const Row*>(nullptr), true, {Errc::kNotFound, "no such key"});
    }
    template <typename Key, typename Row>
    Status prefetch(const Table<Key, Row>& table, std::span<const Key> keys, bool for_update) {
      if (core_.nodes() == 1) return {};
      for (const Key& key : keys) {
        const Place place(*table.of_, key);
        const Status status = core_.want(worker_, *table.of_, place.key, place.hash, place.entry, for_update);
        if (!status.ok()) return status;
      }
      return {};
    }
    /// Does nothing: they are inserted where the transaction runs.
    template <typename Key, typename Row>
    Status prefetch_inserts(const Table<Key, Row>&, std::span<const Key>) {
      return {};
    }

   private:
    /// Of a key in the index.
    struct Place {
      template <typename Key>
      Place(const migrating::TableData& table, const Key& of) noexcept
          : key(std::as_bytes(std::span(&of, 1)).data()),
            hash(migrating::hash_of(key, sizeof(Key))),
            entry(table.index.find(key, hash, sizeof(Key))) {}
      const std::byte* key;
      std::uint64_t hash;
      migrating::Entry* entry;  // null: none yet
    };

    template <typename Key, typename Row>
    Result<migrating::Entry*> acquire(const Table<Key, Row>& table, const Key& key, bool exclusive) noexcept {
      const Place place(*table.of_, key);
      return core_.acquire(worker_, *table.of_, place.key, place.hash, place.entry, exclusive);
    }
    template <typename Row, typename Key>
    Result<std::optional<Row>> read_locked(const Table<Key, Row>& table, const Key& key, bool exclusive) noexcept {
      const Result<migrating::Entry*> entry = acquire(table, key, exclusive);
      if (!entry.ok()) return entry.status();
      if (!(*entry)->present) return std::optional<Row>();
      std::optional<Row> row(std::in_place);
      std::memcpy(&*row, (*entry)->row(migrating::round_up_to_8(sizeof(Key))), sizeof(Row));
      return row;
    }
    /// Puts the row, or takes it away if it is null.
    template <typename Key, typename Row>
    Status change(const Table<Key, Row>& table, const Key& key, const Row* row, bool must_be_there,
                  const Status& otherwise) {
      const Result<migrating::Entry*> entry = acquire(table, key, true);
      if (!entry.ok()) return entry.status();
      if ((*entry)->present != must_be_there) return otherwise;
      core_.note_change(worker_, *table.of_, **entry);
      (*entry)->present = row != nullptr;
      if (row != nullptr) std::memcpy((*entry)->row(migrating::round_up_to_8(sizeof(Key))), row, sizeof(Row));
      return {};
    }

    migrating::Core& core_;
    migrating::Worker& worker_;
  };

  /// All nodes together. Throws Error.
  MigratingDb(Node& node, unsigned threads) : core_(node, threads) {}

  template <typename Key, typename Row>
  Table<Key, Row> table(std::string_view name, const TableSpec<Key>& spec) {
    static_assert(sizeof(Key) <= txn::kMaxKeyBytes && std::has_unique_object_representations_v<Key>);
    // Rows come from others, too; those whose keys begin with no warehouse will be read everywhere.
    const std::uint64_t rows = spec.warehouses == 0 ? spec.rows : spec.rows / core_.nodes() * 5 / 4;
    const auto home = [of = spec.home](const std::byte* bytes) {
      Key key;
      std::memcpy(&key, bytes, sizeof(Key));
      return of(key);
    };
    return Table<Key, Row>(core_.add_table(name, sizeof(Key), sizeof(Row), rows, home));
  }
  template <typename Function>
  Status transact(Function&& function) {
    const Result<migrating::Worker*> worker = core_.begin();
    if (!worker.ok()) return worker.status();
    const Ending ending(core_, **worker);
    for (unsigned attempt = 0;; ++attempt) {
      Txn t(core_, **worker);
      Status status = function(t);
      if (!(*worker)->broken.ok()) status = (*worker)->broken;
      if (status.ok()) {
        core_.commit(**worker);
        return status;
      }
      const bool again = (*worker)->broken.code() == Errc::kRefused;
      core_.roll_back(**worker);
      if (!again) {
        core_.aborts.fetch_add(1, std::memory_order_relaxed);
        return status;
      }
      status = core_.back_off(**worker, attempt);
      if (!status.ok()) return status;
    }
  }
  [[nodiscard]] Counts counts() const noexcept {
    return {core_.commits.load(std::memory_order_relaxed), core_.aborts.load(std::memory_order_relaxed),
            core_.lock_conflicts.load(std::memory_order_relaxed), 0, 0};
  }
  [[nodiscard]] std::uint64_t memory_bytes() const noexcept { return core_.memory_bytes(); }

 private:
  /// Rolls back what the function threw out of.
  struct Ending {
    Ending(migrating::Core& core, migrating::Worker& worker) noexcept : core_(core), worker_(worker) {}
    ~Ending() { core_.roll_back(worker_); }
    Ending(const Ending&) = delete;
    Ending& operator=(const Ending&) = delete;

   private:
    migrating::Core& core_;
    migrating::Worker& worker_;
  };

  migrating::Core core_;
};
static_assert(Db<MigratingDb> && !OrderedDb<MigratingDb>);

}  // namespace atoll::bench::tpcc
