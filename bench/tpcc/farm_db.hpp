// A FaRM-like engine under TPC-C: what Atoll's transactions are compared with.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "bench/tpcc/farm_work.hpp"

namespace atoll::bench::tpcc {

/// Distributed transactions as FaRM does them, over the memory that nodes of a machine share: rows and their indexes
/// are at their homes, what is read is read there by one-sided reads, each time anew, and what is written goes through
/// a two-phase commit with the homes. See FarmWork for the protocol and FarmShape for the rows.
///
/// Thread-safety: `table` at set-up, by all nodes alike; `transact` and what counts, any thread, `threads` of them at
/// the same time. There is a barrier of the nodes between the last transaction and the destructor.
class FarmDb {
 public:
  /// Thread-safety: that of the database.
  template <typename Key, typename Row>
  class Table {
   public:
    static_assert(sizeof(Key) >= 4 && sizeof(Key) + sizeof(Row) <= 8192 && std::is_trivially_copyable_v<Row>);
    static constexpr FarmShape kShape = FarmShape::of(sizeof(Key), sizeof(Row));

    [[nodiscard]] FarmPlace place(const Key& key) const noexcept {
      FarmPlace place;
      place.home = home(key);
      place.table = number_;
      place.memory = (*memories_)[place.home];
      const auto [bucket, slot] = farm_place<sizeof(Row)>(key, buckets_);
      place.slot = slot;
      place.bucket = &FarmBucket::at(place.memory + begin_ + bucket * kShape.stride);
      return place;
    }

   private:
    friend FarmDb;
    /// By the warehouse, which is quicker than to ask; or by asking.
    [[nodiscard]] NodeId home(const Key& key) const noexcept {
      if (memories_->size() == 1) return 0;
      if constexpr (sizeof(Key) >= sizeof(Number)) {
        if (!homes_.empty()) {
          Number warehouse;
          std::memcpy(static_cast<void*>(&warehouse), &key, sizeof(warehouse));
          const std::uint32_t number = warehouse;
          if (number < homes_.size()) return homes_[number];
        }
      }
      return home_(key);
    }

    std::uint16_t number_ = 0;
    std::uint64_t begin_ = 0, buckets_ = 0;
    const std::vector<std::byte*>* memories_ = nullptr;
    std::vector<NodeId> homes_;  // by the warehouse that the key begins with
    std::function<NodeId(const Key&)> home_;
  };

  /// Thread-safety: none.
  class Txn {
   public:
    explicit Txn(FarmWork& work) noexcept : work_(work) {}

    template <typename Key, typename Row>
    [[nodiscard]] Result<std::optional<Row>> read(const Table<Key, Row>& table, const Key& key);
    /// There are no locks to be taken before the end.
    template <typename Key, typename Row>
    [[nodiscard]] Result<std::optional<Row>> read_for_update(const Table<Key, Row>& table, const Key& key) {
      return read(table, key);
    }
    template <typename Key, typename Row>
    [[nodiscard]] Status update(const Table<Key, Row>& table, const Key& key, const Row& row) {
      return change(table, key, &row, [](bool is_there) { return is_there ? Status() : kNotThere; });
    }
    template <typename Key, typename Row>
    [[nodiscard]] Status insert(const Table<Key, Row>& table, const Key& key, const Row& row) {
      return change(table, key, &row, [](bool is_there) { return is_there ? kThere : Status(); });
    }
    template <typename Key, typename Row>
    [[nodiscard]] Status erase(const Table<Key, Row>& table, const Key& key) {
      return change(table, key, static_cast<const Row*>(nullptr),
                    [](bool is_there) { return is_there ? Status() : kNotThere; });
    }
    /// Fetches their buckets side by side, as far as the processor can.
    template <typename Key, typename Row>
    Status prefetch(const Table<Key, Row>& table, std::span<const Key> keys, bool to_update) noexcept;
    template <typename Key, typename Row>
    Status prefetch_inserts(const Table<Key, Row>& table, std::span<const Key> keys) noexcept {
      return prefetch(table, keys, true);
    }

   private:
    static constexpr Status kThere{Errc::kAlreadyExists, "there is such a row"};
    static constexpr Status kNotThere{Errc::kNotFound, "there is no such row"};

    template <typename Key, typename Row, typename Check>
    [[nodiscard]] Status change(const Table<Key, Row>& table, const Key& key, const Row* row, Check&& check);

    FarmWork& work_;
  };

  /// All nodes together. Throws Error.
  FarmDb(Node& node, const FarmOptions& options) : store_(node, options) {
    for (NodeId home = 0; home < node.count(); ++home) memories_.push_back(store_.memory(home));
    for (unsigned thread = 0; thread < options.threads; ++thread) {
      works_.push_back(std::make_unique<FarmWork>(store_, thread));
    }
  }

  template <typename Key, typename Row>
  [[nodiscard]] Table<Key, Row> table(std::string_view, const TableSpec<Key>& spec);

  template <typename Function>
  [[nodiscard]] Status transact(Function&& function) {
    const Result<unsigned> thread = store_.peers().thread();
    if (!thread.ok()) return thread.status();
    FarmWork& work = *works_[*thread];
    for (unsigned attempt = 0;; ++attempt) {
      work.begin();
      Txn txn(work);
      const Status status = work.end(function(txn));
      if (!work.is_refused()) return status;
      if (const Status hopeless = work.back_off(attempt); !hopeless.ok()) return hopeless;
    }
  }
  [[nodiscard]] Counts counts() const noexcept {
    Counts all;
    for (const auto& work : works_) {
      const Counts one = work->counts();
      all.commits += one.commits;
      all.aborts += one.aborts;
      all.lock_conflicts += one.lock_conflicts;
      all.change_conflicts += one.change_conflicts;
    }
    return all;
  }
  [[nodiscard]] std::uint64_t memory_bytes() const noexcept { return store_.memory_bytes(); }

 private:
  std::vector<std::byte*> memories_;  // by node
  FarmStore store_;
  std::vector<std::unique_ptr<FarmWork>> works_;  // by the place of a thread
};

template <typename Key, typename Row>
FarmDb::Table<Key, Row> FarmDb::table(std::string_view, const TableSpec<Key>& spec) {
  const std::uint64_t nodes = memories_.size();
  // Warehouses are dealt as equal as can be, which still may give one node a warehouse more than another.
  const std::uint64_t share = spec.warehouses > 0
                                  ? spec.rows * ((spec.warehouses + nodes - 1) / nodes) / spec.warehouses
                                  : spec.rows / nodes + 1;
  Table<Key, Row> made;
  made.number_ = store_.add_table(made.kShape, share);
  made.begin_ = store_.table(made.number_).begin;
  made.buckets_ = store_.table(made.number_).buckets;
  made.memories_ = &memories_;
  made.home_ = spec.home;
  if constexpr (sizeof(Key) >= sizeof(Number)) {
    for (std::uint32_t number = 0; spec.warehouses > 0 && number <= spec.warehouses; ++number) {
      Key key{};
      const Number warehouse = std::max(number, 1u);  // there is none of number 0
      std::memcpy(static_cast<void*>(&key), &warehouse, sizeof(warehouse));
      made.homes_.push_back(spec.home(key));
    }
  }
  return made;
}

template <typename Key, typename Row>
Result<std::optional<Row>> FarmDb::Txn::read(const Table<Key, Row>& table, const Key& key) {
  if (work_.is_refused()) return FarmWork::kConflict;
  constexpr FarmShape kShape = Table<Key, Row>::kShape;
  const FarmPlace place = table.place(key);
  std::optional<Row> row(std::in_place);
  auto* const into = reinterpret_cast<std::byte*>(&*row);
  bool is_there = false;
  if (FarmWork::Write* const own = work_.find_write(place, key); own != nullptr) {
    is_there = own->is_there();
    if (is_there) std::memcpy(into, work_.row_of(*own, kShape), sizeof(Row));
  } else {
    const Status status = work_.look(place, [&] {
      FarmBucket* const found = farm_find(place, kShape, key);
      is_there = found != nullptr;
      if (is_there) base::racy_copy(into, found->row(kShape, place.slot), sizeof(Row));
    });
    if (!status.ok()) return status;
  }
  if (!is_there) row.reset();
  return row;
}

/// `row` is what the key has from now on, null: nothing. `check(is_there)` says whether that may be.
template <typename Key, typename Row, typename Check>
Status FarmDb::Txn::change(const Table<Key, Row>& table, const Key& key, const Row* row, Check&& check) {
  if (work_.is_refused()) return FarmWork::kConflict;
  constexpr FarmShape kShape = Table<Key, Row>::kShape;
  const FarmPlace place = table.place(key);
  FarmWork::Write* write = work_.find_write(place, key);
  if (write == nullptr) {
    FarmBucket* found = nullptr;
    if (const Status status = work_.look(place, [&] { found = farm_find(place, kShape, key); }); !status.ok()) {
      return status;
    }
    if (const Status status = check(found != nullptr); !status.ok()) return status;
    write = &work_.add_write(place, kShape, &key, found);
  } else if (const Status status = check(write->is_there()); !status.ok()) {
    return status;
  }
  if (row == nullptr) {
    write->what = write->found == nullptr ? FarmPut::kNothing : FarmPut::kErase;
    return {};
  }
  write->what = write->found == nullptr ? FarmPut::kInsert : FarmPut::kUpdate;
  std::memcpy(work_.row_of(*write, kShape), row, sizeof(Row));
  return {};
}

template <typename Key, typename Row>
Status FarmDb::Txn::prefetch(const Table<Key, Row>& table, std::span<const Key> keys, bool) noexcept {
  constexpr FarmShape kShape = Table<Key, Row>::kShape;
  constexpr std::uint32_t kMost = 6 * kFarmLine;  // what follows the processor fetches by itself
  for (const Key& key : keys) {
    const FarmPlace place = table.place(key);
    const std::byte* const bucket = place.bucket->bytes();
    if constexpr (kShape.slots == 1) {
      for (std::uint32_t at = 0; at < std::min(kShape.stride, kMost); at += kFarmLine) __builtin_prefetch(bucket + at);
    } else {
      __builtin_prefetch(bucket);
      __builtin_prefetch(bucket + kShape.rows_at + place.slot * kShape.row_stride);
    }
  }
  return {};
}
static_assert(Db<FarmDb> && !OrderedDb<FarmDb>);

}  // namespace atoll::bench::tpcc
