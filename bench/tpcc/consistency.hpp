// The specification's consistency conditions 1 to 12 (clause 3.3.2), on whatever is in the tables.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/tpcc/tables.hpp"
#include "bench/ycsb_worker.hpp"

namespace atoll::bench::tpcc {

inline constexpr unsigned kConditions = 12;

/// What a condition complains of.
struct Violation {
  unsigned condition = 0;  // 1 to kConditions
  std::string what;        // of the first that breaks it
  std::uint64_t count = 1;
};

/// Which conditions have a meaning: bit c - 1 is condition c.
using Conditions = std::uint32_t;
inline constexpr Conditions kAllConditions = (1u << kConditions) - 1;
/// Where some writes are only reads, what a payment adds to warehouse, district, customer and history is not the same
/// any more. An order is there whole or not at all, and a customer's row is one write: the others still hold.
inline constexpr Conditions kConditionsWithReads = kAllConditions & ~(1u << 0 | 1u << 7 | 1u << 8 | 1u << 9);
[[nodiscard]] std::string describe(Conditions conditions);

/// The sums and counts of some warehouses that conditions are about.
///
/// Thread-safety: none.
class Books {
 public:
  /// Warehouses from `first` to before `end`.
  Books(const Scale& scale, std::uint32_t first, std::uint32_t end);

  void add(const WarehouseKey& key, const Warehouse& row);
  void add(const DistrictKey& key, const District& row);
  void add(const CustomerKey& key, const Customer& row);
  void add(const History& row);
  /// What has one order number: the order, if there is one; whether it is new; its lines, those that there are.
  struct OrderFound {
    OrderKey key;
    std::optional<Order> order;
    bool is_new = false;
    std::array<std::optional<OrderLine>, kMaxLines> lines;
  };
  void add(const OrderFound& found);

  /// The conditions that do not hold, in their order, each once.
  [[nodiscard]] std::vector<Violation> violations(Conditions wanted) const;

 private:
  struct CustomerSums {
    Cents balance = 0, ytd_payment = 0, delivered = 0, paid = 0;
  };
  struct DistrictSums {
    Cents ytd = 0, paid = 0;
    std::uint32_t next_order = 0;
    std::uint32_t last_order = 0;  // 0: none
    std::uint32_t first_new = 0, last_new = 0;
    std::uint64_t orders = 0, news = 0, lines = 0, lines_said = 0, deliveries = 0;
    std::vector<CustomerSums> customers;
  };
  struct WarehouseSums {
    Cents ytd = 0, paid = 0;
    std::vector<DistrictSums> districts;
  };
  using Findings = std::map<unsigned, Violation>;
  static void complain(Findings& findings, unsigned condition, std::string what);
  /// Null: it is not one of these.
  [[nodiscard]] WarehouseSums* warehouse_of(std::uint32_t warehouse);
  [[nodiscard]] DistrictSums* district_of(std::uint32_t warehouse, std::uint32_t district);
  [[nodiscard]] CustomerSums* customer_of(std::uint32_t warehouse, std::uint32_t district, std::uint32_t customer);
  void judge(const std::string& where, const DistrictSums& sums, Findings& findings) const;
  void judge(const std::string& where, const CustomerSums& sums, Findings& findings) const;

  const Scale scale_;
  const std::uint32_t first_;
  std::vector<WarehouseSums> warehouses_;
  Findings of_orders_;  // conditions 5, 6 and 7: they are about one order each
};

/// Reads the tables of a node's warehouses, and the history of all, by their keys, with several threads; then judges.
/// Nobody changes anything meanwhile. `workers`: the highest number of those who have inserted history. Of each
/// district the order numbers from 0 to some beyond the next one are looked at. Throws Error.
template <Db D>
class Audit {
 public:
  Audit(D& db, const Tables<D>& tables, const Homes& homes, NodeId node, std::uint32_t workers)
      : db_(db),
        tables_(tables),
        homes_(homes),
        first_(homes.first(node)),
        end_(homes.first(NodeId(node + 1))),
        workers_(workers),
        books_(tables.scale, first_, end_) {}
  [[nodiscard]] std::vector<Violation> run(unsigned threads, Conditions wanted);

 private:
  static constexpr std::uint32_t kBeyond = 16;  // numbers that are looked at after the last that is there
  static constexpr std::uint32_t kAtOnce = 16;  // of a transaction

  template <typename Table, typename Key>
  static Status read(typename D::Txn& t, const Table& table, const Key& key, auto& row) {
    const auto found = t.read(table, key);
    if (!found.ok()) return found.status();
    row = *found;
    return {};
  }
  /// The rows of these keys.
  template <typename Row, typename Table, typename Key>
  [[nodiscard]] std::vector<std::optional<Row>> rows_of(const Table& table, std::span<const Key> keys) {
    std::vector<std::optional<Row>> rows(keys.size());
    db_.transact([&](typename D::Txn& t) -> Status {
         Status status;
         for (std::size_t i = 0; status.ok() && i < keys.size(); ++i) status = read(t, table, keys[i], rows[i]);
         return status;
       })
        .or_throw();
    return rows;
  }
  void read_warehouse(std::uint32_t warehouse);
  void read_customers(const DistrictKey& district);
  void read_orders(const DistrictKey& district, std::uint32_t end);
  void read_history(std::uint32_t warehouse, std::uint32_t worker);

  D& db_;
  const Tables<D>& tables_;
  const Homes homes_;
  const std::uint32_t first_, end_, workers_;
  std::mutex mutex_;
  Books books_;
};

template <Db D>
std::vector<Violation> Audit<D>::run(unsigned threads, Conditions wanted) {
  const std::uint32_t mine = (end_ - first_) * (tables_.scale.districts + 1);
  const std::uint32_t all = mine + homes_.warehouses * (workers_ + 1);
  std::atomic<std::uint32_t> next{0};
  ycsb::in_threads(threads, [&](unsigned) {
    for (std::uint32_t i; (i = next++) < all;) {
      if (i >= mine) {
        read_history((i - mine) % homes_.warehouses + 1, (i - mine) / homes_.warehouses);
        continue;
      }
      const std::uint32_t warehouse = first_ + i / (tables_.scale.districts + 1);
      const DistrictKey district{warehouse, i % (tables_.scale.districts + 1)};
      if (district.district == 0) {
        read_warehouse(warehouse);
        continue;
      }
      const auto row = rows_of<District>(tables_.district, std::span(&district, 1)).front();
      if (!row) throw Error("a district is missing");
      {
        const std::lock_guard lock(mutex_);
        books_.add(district, *row);
      }
      read_customers(district);
      read_orders(district, row->next_order + kBeyond);
    }
  });
  return books_.violations(wanted);
}

template <Db D>
void Audit<D>::read_warehouse(std::uint32_t warehouse) {
  const WarehouseKey key{warehouse};
  const auto row = rows_of<Warehouse>(tables_.warehouse, std::span(&key, 1)).front();
  if (!row) throw Error("a warehouse is missing");
  const std::lock_guard lock(mutex_);
  books_.add(key, *row);
}

template <Db D>
void Audit<D>::read_customers(const DistrictKey& district) {
  for (std::uint32_t number = 1; number <= tables_.scale.customers; number += kAtOnce) {
    std::vector<CustomerKey> keys;
    for (std::uint32_t i = number; i <= tables_.scale.customers && i < number + kAtOnce; ++i) {
      keys.push_back({district.warehouse, district.district, i});
    }
    const auto rows = rows_of<Customer>(tables_.customer, std::span<const CustomerKey>(keys));
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (!rows[i]) throw Error("a customer is missing");
      books_.add(keys[i], *rows[i]);
    }
  }
}

template <Db D>
void Audit<D>::read_orders(const DistrictKey& district, std::uint32_t end) {
  for (std::uint32_t number = 0; number < end; number += kAtOnce) {
    std::vector<Books::OrderFound> all(std::min(kAtOnce, end - number));
    db_.transact([&](typename D::Txn& t) -> Status {
         Status status;
         for (std::uint32_t i = 0; status.ok() && i < all.size(); ++i) {
           const OrderKey key{district.warehouse, district.district, number + i};
           std::optional<NewOrder> is_new;
           all[i].key = key;
           status = read(t, tables_.order, key, all[i].order);
           if (status.ok()) status = read(t, tables_.new_order, key, is_new);
           all[i].is_new = is_new.has_value();
           for (std::uint32_t line = 1; status.ok() && line <= kMaxLines; ++line) {
             const OrderLineKey line_key{key.warehouse, key.district, key.order, line};
             status = read(t, tables_.order_line, line_key, all[i].lines[line - 1]);
           }
         }
         return status;
       })
        .or_throw();
    const std::lock_guard lock(mutex_);
    for (const Books::OrderFound& found : all) books_.add(found);
  }
}

template <Db D>
void Audit<D>::read_history(std::uint32_t warehouse, std::uint32_t worker) {
  for (std::uint32_t number = 1, absent = 0; absent < kBeyond; number += kAtOnce) {
    std::vector<HistoryKey> keys;
    for (std::uint32_t i = number; i < number + kAtOnce; ++i) keys.push_back({warehouse, worker, i});
    const auto rows = rows_of<History>(tables_.history, std::span<const HistoryKey>(keys));
    const std::lock_guard lock(mutex_);
    for (const std::optional<History>& row : rows) {
      absent = row ? 0 : absent + 1;
      if (row) books_.add(*row);
    }
  }
}

}  // namespace atoll::bench::tpcc
