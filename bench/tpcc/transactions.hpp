// TPC-C's five transactions (clauses 2.4 to 2.8).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/tpcc/inputs.hpp"
#include "bench/tpcc/tables.hpp"

namespace atoll::bench::tpcc {

/// New-Order's answer when an item does not exist: it is rolled back.
inline constexpr Status kUnusedItem(Errc::kNotFound, "Item number is not valid");
inline constexpr Status kMissing(Errc::kStorage, "a row that TPC-C says must be there is not");

// What the terminals would show, as far as somebody looks at it.
struct NewOrderOutput {
  std::uint32_t order = 0;
  Cents total = 0;
};
struct PaymentOutput {
  std::uint32_t customer = 0;
  Cents balance = 0;
};
struct OrderStatusOutput {
  std::uint32_t customer = 0;
  std::uint32_t order = 0;  // 0: none
  Order row;
  std::array<OrderLine, kMaxLines> lines{};
};
struct DeliveryOutput {
  std::uint32_t delivered = 0, skipped = 0;  // districts
};
struct StockLevelOutput {
  std::uint32_t low = 0;
};

namespace detail {

/// What clause 2.5.3.4 wants in the data of a customer of bad credit: this payment, then what was there.
[[nodiscard]] Text<500> data_of_bad_credit(const PaymentInput& input, std::uint32_t customer, const Customer& row);
[[nodiscard]] Text<24> history_data(const Warehouse& warehouse, const District& district);
/// And the stock that is left when so much was taken (2.4.2.2).
void take_from_stock(Stock& stock, std::uint32_t quantity, bool remote) noexcept;

template <typename T, typename Table, typename Key, typename Row>
[[nodiscard]] Status read_row(T& t, const Table& table, const Key& key, Row& row, bool to_update = false) {
  const Result<std::optional<Row>> found = to_update ? t.read_for_update(table, key) : t.read(table, key);
  if (!found.ok()) return found.status();
  if (!*found) return kMissing;
  row = **found;
  return {};
}

/// Reads, lets `function(row)` change it, updates; with `only_read` it is not updated.
template <typename Row, typename T, typename Table, typename Key, typename Function>
[[nodiscard]] Status change_row(T& t, const Table& table, const Key& key, bool only_read, Function&& function) {
  const Result<std::optional<Row>> found = only_read ? t.read(table, key) : t.read_for_update(table, key);
  if (!found.ok()) return found.status();
  if (!*found) return kMissing;
  Row row = **found;
  function(row);
  return only_read ? Status() : t.update(table, key, row);
}

/// Of those who have the name, the one in the middle by first names (2.5.2.2).
template <Db D>
[[nodiscard]] Status find_customer(typename D::Txn& t, const Tables<D>& tables, const WhichCustomer& which,
                                   std::uint32_t& customer) {
  customer = which.customer;
  if (!which.by_name()) return {};
  if (tables.namesakes) {
    Namesakes all;
    const NameKey key{which.warehouse, which.district, which.last};
    if (const Status status = read_row(t, *tables.namesakes, key, all); !status.ok()) return status;
    customer = all.customers[(all.count + 1u) / 2 - 1];
    return {};
  }
  if constexpr (OrderedDb<D>) {
    NameIndexKey first{which.warehouse, which.district, which.last, {}, 0}, last = first;
    last.first.bytes.fill('\xff');
    std::vector<std::uint32_t> all;
    const auto collect = [&](const NameIndexKey& key, const Nothing&) { return all.push_back(key.customer), true; };
    const Status status = t.scan(*tables.name_index, first, last, collect, txn::Direction::kForward);
    if (!status.ok()) return status;
    if (all.empty()) return kMissing;
    customer = all[(all.size() + 1) / 2 - 1];
    return {};
  } else {
    return {Errc::kInvalidArgument, "there is no index of names"};
  }
}

// ---- New-Order ----

/// All that is known beforehand to be needed, at once.
template <Db D>
[[nodiscard]] Status prefetch_new_order(typename D::Txn& t, const Tables<D>& tables, const NewOrderInput& in) {
  const DistrictKey district{in.warehouse, in.district};
  const CustomerKey customer{in.warehouse, in.district, in.customer};
  std::array<ItemKey, kMaxLines> items;
  std::array<StockKey, kMaxLines> changed, read;
  std::size_t changes = 0, reads = 0;
  for (std::uint32_t i = 0; i < in.count; ++i) {
    items[i] = {in.lines[i].item};
    StockKey& stock = in.only_reads.at(1 + i) ? read[reads++] : changed[changes++];
    stock = {in.lines[i].supplier, in.lines[i].item};
  }
  Status status = t.prefetch(tables.district, std::span(&district, 1), !in.only_reads.at(0));
  if (status.ok()) status = t.prefetch(tables.customer, std::span(&customer, 1), false);
  if (status.ok()) status = t.prefetch(tables.item, std::span<const ItemKey>(items.data(), in.count), false);
  if (status.ok()) status = t.prefetch(tables.stock, std::span<const StockKey>(changed.data(), changes), true);
  if (status.ok()) status = t.prefetch(tables.stock, std::span<const StockKey>(read.data(), reads), false);
  return status;
}

/// Where the rows of the order will be, once its number is known. Its lines are neighbours.
template <Db D>
[[nodiscard]] Status prefetch_order(typename D::Txn& t, const Tables<D>& tables, const OrderKey& key) {
  const OrderLineKey line{key.warehouse, key.district, key.order, 1};
  Status status = t.prefetch_inserts(tables.order, std::span(&key, 1));
  if (status.ok()) status = t.prefetch_inserts(tables.new_order, std::span(&key, 1));
  return status.ok() ? t.prefetch_inserts(tables.order_line, std::span(&line, 1)) : status;
}

/// The rows of the order itself, without its lines. With `only_read` those of the district's last one.
template <Db D>
[[nodiscard]] Status put_order(typename D::Txn& t, const Tables<D>& tables, const NewOrderInput& in,
                               const OrderKey& key, Order& row) {
  if (in.only_reads.at(0)) {
    if (const Status status = read_row(t, tables.order, key, row); !status.ok()) return status;
    return t.read(tables.new_order, key).status();
  }
  if (const Status status = t.insert(tables.order, key, row); !status.ok()) return status;
  if (const Status status = t.insert(tables.new_order, key, {}); !status.ok()) return status;
  if (!tables.order_index) return {};
  return t.insert(*tables.order_index, OrderIndexKey{in.warehouse, in.district, in.customer, key.order}, {});
}

template <Db D>
[[nodiscard]] Status put_line(typename D::Txn& t, const Tables<D>& tables, const NewOrderInput& in, std::uint32_t i,
                              const OrderKey& order, std::uint32_t lines, Cents& amount) {
  const OrderedItem& line = in.lines[i];
  const Result<std::optional<Item>> item = t.read(tables.item, ItemKey{line.item});
  if (!item.ok()) return item.status();
  if (!*item) return kUnusedItem;
  amount = Cents{line.quantity} * (*item)->price;
  OrderLine row{amount, 0, line.item, line.supplier, line.quantity, {}};
  const auto take = [&](Stock& stock) {
    take_from_stock(stock, line.quantity, line.supplier != in.warehouse);
    row.dist_info = stock.dist[in.district - 1];
  };
  const StockKey stock{line.supplier, line.item};
  if (const Status status = change_row<Stock>(t, tables.stock, stock, in.only_reads.at(1 + i), take); !status.ok()) {
    return status;
  }
  if (in.only_reads.at(0)) {
    return t.read(tables.order_line, OrderLineKey{order.warehouse, order.district, order.order, i % lines + 1})
        .status();
  }
  return t.insert(tables.order_line, OrderLineKey{order.warehouse, order.district, order.order, i + 1}, row);
}

template <Db D>
[[nodiscard]] Status new_order_within(typename D::Txn& t, const Tables<D>& tables, const NewOrderInput& in,
                                      NewOrderOutput& out) {
  if (const Status status = prefetch_new_order<D>(t, tables, in); !status.ok()) return status;
  const bool only_read = in.only_reads.at(0);
  Warehouse warehouse;
  if (const Status status = read_row(t, tables.warehouse, WarehouseKey{in.warehouse}, warehouse); !status.ok()) {
    return status;
  }
  std::int32_t district_tax = 0;
  const auto number = [&](District& district) {
    district_tax = district.tax;
    out.order = only_read ? district.next_order - 1 : district.next_order++;
  };
  Status status = change_row<District>(t, tables.district, DistrictKey{in.warehouse, in.district}, only_read, number);
  if (!status.ok()) return status;
  const OrderKey key{in.warehouse, in.district, out.order};
  if (!only_read) {
    if (status = prefetch_order<D>(t, tables, key); !status.ok()) return status;
  }
  Customer customer;
  status = read_row(t, tables.customer, CustomerKey{in.warehouse, in.district, in.customer}, customer);
  if (!status.ok()) return status;

  const bool all_local = std::all_of(in.lines.begin(), in.lines.begin() + in.count,
                                     [&](const OrderedItem& line) { return line.supplier == in.warehouse; });
  Order order{in.now, in.customer, 0, in.count, all_local};
  if (status = put_order<D>(t, tables, in, key, order); !status.ok()) return status;
  Cents sum = 0;
  for (std::uint32_t i = 0; i < in.count; ++i) {
    Cents amount = 0;
    if (status = put_line<D>(t, tables, in, i, key, order.lines, amount); !status.ok()) return status;
    sum += amount;
  }
  out.total = sum * (10'000 - customer.discount) / 10'000 * (10'000 + warehouse.tax + district_tax) / 10'000;
  return {};
}

// ---- Payment ----

template <Db D>
[[nodiscard]] Status payment_within(typename D::Txn& t, const Tables<D>& tables, const PaymentInput& in,
                                    PaymentOutput& out) {
  const WhichCustomer& which = in.customer;
  if (const Status status = find_customer<D>(t, tables, which, out.customer); !status.ok()) return status;
  const CustomerKey key{which.warehouse, which.district, out.customer};
  Status status = t.prefetch(tables.customer, std::span(&key, 1), !in.only_reads.at(2));
  if (status.ok() && !in.only_reads.at(3)) status = t.prefetch_inserts(tables.history, std::span(&in.history, 1));
  if (!status.ok()) return status;
  Warehouse warehouse;
  District district;
  status =
      change_row<Warehouse>(t, tables.warehouse, WarehouseKey{in.warehouse}, in.only_reads.at(0), [&](Warehouse& row) {
        row.ytd += in.amount;
        warehouse = row;
      });
  if (!status.ok()) return status;
  status = change_row<District>(t, tables.district, DistrictKey{in.warehouse, in.district}, in.only_reads.at(1),
                                [&](District& row) {
                                  row.ytd += in.amount;
                                  district = row;
                                });
  if (!status.ok()) return status;
  status = change_row<Customer>(t, tables.customer, key, in.only_reads.at(2), [&](Customer& row) {
    row.balance -= in.amount;
    row.ytd_payment += in.amount;
    ++row.payments;
    if (row.credit == Text<2>("BC")) row.data = data_of_bad_credit(in, out.customer, row);
    out.balance = row.balance;
  });
  if (!status.ok()) return status;
  if (in.only_reads.at(3)) {  // of the population
    const std::uint32_t number = (which.district - 1) * tables.scale.customers + out.customer;
    return t.read(tables.history, HistoryKey{which.warehouse, 0, number}).status();
  }
  return t.insert(tables.history, in.history,
                  History{in.amount, in.now, out.customer, which.district, which.warehouse, in.district, in.warehouse,
                          history_data(warehouse, district)});
}

// ---- Order-Status, Delivery, Stock-Level ----

template <OrderedDb D>
[[nodiscard]] Status order_status_within(typename D::Txn& t, const Tables<D>& tables, const OrderStatusInput& in,
                                         OrderStatusOutput& out) {
  out = {};
  const WhichCustomer& which = in.customer;
  if (const Status status = find_customer<D>(t, tables, which, out.customer); !status.ok()) return status;
  Customer customer;
  Status status = read_row(t, tables.customer, CustomerKey{which.warehouse, which.district, out.customer}, customer);
  if (!status.ok()) return status;
  const OrderIndexKey first{which.warehouse, which.district, out.customer, 0};
  const OrderIndexKey last{which.warehouse, which.district, out.customer, UINT32_MAX};
  const auto take = [&](const OrderIndexKey& key, const Nothing&) { return out.order = key.order, false; };
  status = t.scan(*tables.order_index, first, last, take, txn::Direction::kBackward);
  if (!status.ok() || out.order == 0) return status;
  status = read_row(t, tables.order, OrderKey{which.warehouse, which.district, out.order}, out.row);
  for (std::uint32_t i = 1; status.ok() && i <= std::min(out.row.lines, kMaxLines); ++i) {
    const OrderLineKey key{which.warehouse, which.district, out.order, i};
    status = read_row(t, tables.order_line, key, out.lines[i - 1]);
  }
  return status;
}

/// The oldest order of a district that is not delivered; `order` is 0 if there is none.
template <OrderedDb D>
[[nodiscard]] Status deliver_within(typename D::Txn& t, const Tables<D>& tables, const DeliveryInput& in,
                                    std::uint32_t district, std::uint32_t& oldest) {
  oldest = 0;
  const OrderKey first{in.warehouse, district, 0}, last{in.warehouse, district, UINT32_MAX};
  const auto take = [&](const OrderKey& key, const NewOrder&) { return oldest = key.order, false; };
  Status status = t.scan(tables.new_order, first, last, take, txn::Direction::kForward);
  if (!status.ok() || oldest == 0) return status;
  const OrderKey key{in.warehouse, district, oldest};
  if (status = t.erase(tables.new_order, key); !status.ok()) return status;
  Order order;
  status = change_row<Order>(t, tables.order, key, false, [&](Order& row) {
    row.carrier = in.carrier;
    order = row;
  });
  Cents sum = 0;
  for (std::uint32_t i = 1; status.ok() && i <= std::min(order.lines, kMaxLines); ++i) {
    const OrderLineKey line{in.warehouse, district, oldest, i};
    status = change_row<OrderLine>(t, tables.order_line, line, false, [&](OrderLine& row) {
      row.delivered = in.now;
      sum += row.amount;
    });
  }
  if (!status.ok()) return status;
  const CustomerKey customer{in.warehouse, district, order.customer};
  return change_row<Customer>(t, tables.customer, customer, false, [&](Customer& row) {
    row.balance += sum;
    ++row.deliveries;
  });
}

template <OrderedDb D>
[[nodiscard]] Status stock_level_within(typename D::Txn& t, const Tables<D>& tables, const StockLevelInput& in,
                                        StockLevelOutput& out) {
  constexpr std::uint32_t kLastOrders = 20;
  District district;
  Status status = read_row(t, tables.district, DistrictKey{in.warehouse, in.district}, district);
  if (!status.ok()) return status;
  const std::uint32_t next = district.next_order;
  const OrderLineKey first{in.warehouse, in.district, next - std::min(next, kLastOrders), 0};
  const OrderLineKey last{in.warehouse, in.district, next - 1, UINT32_MAX};
  std::vector<std::uint32_t> items;
  const auto collect = [&](const OrderLineKey&, const OrderLine& line) { return items.push_back(line.item), true; };
  if (status = t.scan(tables.order_line, first, last, collect, txn::Direction::kForward); !status.ok()) return status;
  std::sort(items.begin(), items.end());
  items.erase(std::unique(items.begin(), items.end()), items.end());
  std::vector<StockKey> keys;
  for (const std::uint32_t item : items) keys.push_back({in.warehouse, item});
  if (status = t.prefetch(tables.stock, std::span<const StockKey>(keys), false); !status.ok()) return status;
  out.low = 0;
  for (const StockKey& key : keys) {
    Stock stock;
    if (status = read_row(t, tables.stock, key, stock); !status.ok()) return status;
    if (stock.quantity < in.threshold) ++out.low;
  }
  return {};
}

}  // namespace detail

/// kUnusedItem: it was rolled back.
template <Db D>
[[nodiscard]] Status new_order(D& db, const Tables<D>& tables, const NewOrderInput& in, NewOrderOutput& out) {
  return db.transact([&](typename D::Txn& t) -> Status { return detail::new_order_within<D>(t, tables, in, out); });
}

template <Db D>
[[nodiscard]] Status payment(D& db, const Tables<D>& tables, const PaymentInput& in, PaymentOutput& out) {
  return db.transact([&](typename D::Txn& t) -> Status { return detail::payment_within<D>(t, tables, in, out); });
}

template <OrderedDb D>
[[nodiscard]] Status order_status(D& db, const Tables<D>& tables, const OrderStatusInput& in, OrderStatusOutput& out) {
  return db.transact([&](typename D::Txn& t) -> Status { return detail::order_status_within<D>(t, tables, in, out); });
}

/// A transaction for each district, as clause 2.7.4.2 allows.
template <OrderedDb D>
[[nodiscard]] Status delivery(D& db, const Tables<D>& tables, const DeliveryInput& in, DeliveryOutput& out) {
  out = {};
  for (std::uint32_t district = 1; district <= tables.scale.districts; ++district) {
    std::uint32_t order = 0;
    const Status status = db.transact(
        [&](typename D::Txn& t) -> Status { return detail::deliver_within<D>(t, tables, in, district, order); });
    if (!status.ok()) return status;
    ++(order == 0 ? out.skipped : out.delivered);
  }
  return {};
}

template <OrderedDb D>
[[nodiscard]] Status stock_level(D& db, const Tables<D>& tables, const StockLevelInput& in, StockLevelOutput& out) {
  return db.transact([&](typename D::Txn& t) -> Status { return detail::stock_level_within<D>(t, tables, in, out); });
}

}  // namespace atoll::bench::tpcc
