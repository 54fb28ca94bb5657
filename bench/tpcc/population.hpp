// The initial database (clause 4.3.3).
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "bench/tpcc/tables.hpp"
#include "bench/ycsb_worker.hpp"

namespace atoll::bench::tpcc {

// Rows as clause 4.3.3.1 has them.
[[nodiscard]] Item make_item(base::Random& random);
[[nodiscard]] Stock make_stock(base::Random& random);
[[nodiscard]] Warehouse make_warehouse(base::Random& random, const Scale& scale);
[[nodiscard]] District make_district(base::Random& random, const Scale& scale);
[[nodiscard]] Customer make_customer(base::Random& random, const Scale& scale, const Constants& constants,
                                     std::uint32_t number, Time now);
[[nodiscard]] History make_history(base::Random& random, const CustomerKey& customer, Time now);
[[nodiscard]] Order make_order(base::Random& random, const Scale& scale, std::uint32_t number, std::uint32_t customer,
                               Time now);
[[nodiscard]] OrderLine make_line(base::Random& random, const Scale& scale, const Order& order,
                                  std::uint32_t warehouse);
/// 1 to `count` in a random order.
[[nodiscard]] std::vector<std::uint32_t> permutation(base::Random& random, std::uint32_t count);

/// What one node loads: its warehouses, its part of the items. What a row has depends on the seed alone, whoever loads
/// it, but for the time.
///
/// Thread-safety: `run` has threads of its own; else none.
template <Db D>
class Population {
 public:
  Population(D& db, const Tables<D>& tables, const Shape& shape, NodeId node, Time now)
      : db_(db), tables_(tables), shape_(shape), node_(node), now_(now) {
    make_tasks();
  }
  /// Throws Error. `told` hears now and then how much is loaded; one thread calls it.
  void run(unsigned threads, const std::function<void(int percent)>& told);

 private:
  struct Task {
    enum class What : std::uint8_t { kItems, kWarehouse, kStock, kCustomers, kOrders } what;
    std::uint32_t warehouse, district;
    std::uint32_t first, last;  // items
  };
  static constexpr std::uint32_t kItemsAtOnce = 2000;
  static constexpr std::size_t kRowsAtOnce = 32;  // of a transaction

  template <typename Key, typename Row>
  using Rows = std::vector<std::pair<Key, Row>>;

  void make_tasks();
  void run_task(const Task& task);
  void load_items(const Task& task, base::Random& random);
  void load_stock(const Task& task, base::Random& random);
  void load_warehouse(const Task& task, base::Random& random);
  void load_customers(const Task& task, base::Random& random);
  void load_names(const Task& task, const Rows<CustomerKey, Customer>& customers);
  void load_orders(const Task& task, base::Random& random);

  template <typename Table, typename Key, typename Row>
  void insert(const Table& table, const Rows<Key, Row>& rows) {
    for (std::size_t begin = 0; begin < rows.size(); begin += kRowsAtOnce) {
      const std::size_t end = std::min(rows.size(), begin + kRowsAtOnce);
      db_.transact([&](typename D::Txn& t) -> Status {
           Status status;
           for (std::size_t i = begin; status.ok() && i < end; ++i) {
             status = t.insert(table, rows[i].first, rows[i].second);
           }
           return status;
         })
          .or_throw();
    }
  }

  D& db_;
  const Tables<D>& tables_;
  const Shape shape_;
  const NodeId node_;
  const Time now_;
  std::vector<Task> tasks_;
};

template <Db D>
void Population<D>::make_tasks() {
  using What = typename Task::What;
  const Scale& scale = shape_.scale;
  const Homes& homes = shape_.homes;
  const auto pieces = [&](What what, std::uint32_t warehouse, std::uint32_t first, std::uint32_t end) {
    for (; first < end; first += kItemsAtOnce) {
      tasks_.push_back({what, warehouse, 0, first, std::min(end - 1, first + kItemsAtOnce - 1)});
    }
  };
  const auto share = [&](NodeId node) { return std::uint32_t(std::uint64_t{scale.items} * node / homes.nodes) + 1; };
  pieces(What::kItems, 0, share(node_), share(NodeId(node_ + 1)));
  for (std::uint32_t warehouse = homes.first(node_); warehouse < homes.first(NodeId(node_ + 1)); ++warehouse) {
    tasks_.push_back({What::kWarehouse, warehouse, 0, 0, 0});
    pieces(What::kStock, warehouse, 1, scale.items + 1);
    for (std::uint32_t district = 1; district <= scale.districts; ++district) {
      tasks_.push_back({What::kCustomers, warehouse, district, 0, 0});
      tasks_.push_back({What::kOrders, warehouse, district, 0, 0});
    }
  }
}

template <Db D>
void Population<D>::run(unsigned threads, const std::function<void(int percent)>& told) {
  std::atomic<std::size_t> next{0};
  ycsb::in_threads(threads, [&](unsigned thread) {
    for (std::size_t i; (i = next++) < tasks_.size();) {
      run_task(tasks_[i]);
      if (thread == 0) told(int((i + 1) * 100 / tasks_.size()));
    }
  });
}

template <Db D>
void Population<D>::run_task(const Task& task) {
  base::Random seeds(shape_.seed);
  for (const std::uint64_t part : {std::uint64_t(task.what), std::uint64_t{task.warehouse},
                                   std::uint64_t{task.district}, std::uint64_t{task.first}}) {
    seeds = base::Random(seeds.next() ^ part);
  }
  base::Random random(seeds.next());
  switch (task.what) {
    case Task::What::kItems: return load_items(task, random);
    case Task::What::kWarehouse: return load_warehouse(task, random);
    case Task::What::kStock: return load_stock(task, random);
    case Task::What::kCustomers: return load_customers(task, random);
    case Task::What::kOrders: return load_orders(task, random);
  }
}

template <Db D>
void Population<D>::load_items(const Task& task, base::Random& random) {
  Rows<ItemKey, Item> rows;
  for (std::uint32_t i = task.first; i <= task.last; ++i) rows.emplace_back(ItemKey{i}, make_item(random));
  insert(tables_.item, rows);
}

template <Db D>
void Population<D>::load_stock(const Task& task, base::Random& random) {
  Rows<StockKey, Stock> rows;
  for (std::uint32_t i = task.first; i <= task.last; ++i) {
    rows.emplace_back(StockKey{task.warehouse, i}, make_stock(random));
  }
  insert(tables_.stock, rows);
}

template <Db D>
void Population<D>::load_warehouse(const Task& task, base::Random& random) {
  insert(tables_.warehouse,
         Rows<WarehouseKey, Warehouse>{{WarehouseKey{task.warehouse}, make_warehouse(random, shape_.scale)}});
  Rows<DistrictKey, District> districts;
  for (std::uint32_t district = 1; district <= shape_.scale.districts; ++district) {
    districts.emplace_back(DistrictKey{task.warehouse, district}, make_district(random, shape_.scale));
  }
  insert(tables_.district, districts);
}

template <Db D>
void Population<D>::load_customers(const Task& task, base::Random& random) {
  Rows<CustomerKey, Customer> customers;
  Rows<HistoryKey, History> histories;
  for (std::uint32_t number = 1; number <= shape_.scale.customers; ++number) {
    const CustomerKey key{task.warehouse, task.district, number};
    customers.emplace_back(key, make_customer(random, shape_.scale, shape_.constants, number, now_));
    const HistoryKey history{task.warehouse, 0, (task.district - 1) * shape_.scale.customers + number};
    histories.emplace_back(history, make_history(random, key, now_));
  }
  insert(tables_.customer, customers);
  insert(tables_.history, histories);
  load_names(task, customers);
}

template <Db D>
void Population<D>::load_names(const Task& task, const Rows<CustomerKey, Customer>& customers) {
  Rows<NameIndexKey, Nothing> index;
  for (const auto& [key, row] : customers) {
    index.emplace_back(NameIndexKey{task.warehouse, task.district, row.last, row.first, key.customer}, Nothing{});
  }
  const auto order = [](const auto& a, const auto& b) {
    return std::tuple(a.first.last.view(), a.first.first.view(), std::uint32_t(a.first.customer)) <
           std::tuple(b.first.last.view(), b.first.first.view(), std::uint32_t(b.first.customer));
  };
  std::sort(index.begin(), index.end(), order);
  if (tables_.name_index) return insert(*tables_.name_index, index);
  Rows<NameKey, Namesakes> names;
  for (const auto& [key, nothing] : index) {
    if (names.empty() || !(names.back().first.last == key.last)) {
      names.emplace_back(NameKey{task.warehouse, task.district, key.last}, Namesakes{});
    }
    Namesakes& all = names.back().second;
    if (all.count == kMostNamesakes)
      throw Error("more customers of a district have one last name than there is room for");
    all.customers[all.count++] = std::uint16_t(std::uint32_t(key.customer));
  }
  insert(*tables_.namesakes, names);
}

template <Db D>
void Population<D>::load_orders(const Task& task, base::Random& random) {
  Rows<OrderKey, Order> orders;
  Rows<OrderKey, NewOrder> news;
  Rows<OrderIndexKey, Nothing> index;
  Rows<OrderLineKey, OrderLine> lines;
  const std::vector<std::uint32_t> customers = permutation(random, shape_.scale.customers);
  for (std::uint32_t number = 1; number <= customers.size(); ++number) {
    const OrderKey key{task.warehouse, task.district, number};
    const std::uint32_t customer = customers[number - 1];
    const Order order = make_order(random, shape_.scale, number, customer, now_);
    orders.emplace_back(key, order);
    if (order.carrier == 0) news.emplace_back(key, NewOrder{});
    index.emplace_back(OrderIndexKey{task.warehouse, task.district, customer, number}, Nothing{});
    for (std::uint32_t line = 1; line <= order.lines; ++line) {
      lines.emplace_back(OrderLineKey{task.warehouse, task.district, number, line},
                         make_line(random, shape_.scale, order, task.warehouse));
    }
  }
  insert(tables_.order, orders);
  insert(tables_.new_order, news);
  insert(tables_.order_line, lines);
  if (!tables_.order_index) return;
  std::sort(index.begin(), index.end(), [](const auto& a, const auto& b) {
    return std::uint32_t(a.first.customer) < std::uint32_t(b.first.customer);
  });
  insert(*tables_.order_index, index);
}

}  // namespace atoll::bench::tpcc
