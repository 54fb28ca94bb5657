// TPC-C's tables in an engine.
#pragma once

#include <optional>

#include "bench/tpcc/db.hpp"
#include "bench/tpcc/inputs.hpp"

namespace atoll::bench::tpcc {

/// The nine tables, and what finds customers by name: `namesakes` for the mix of New-Order and Payment, which needs no
/// ranges; the full mix has the ordered indexes instead.
template <Db D>
struct Tables {
  template <typename Key, typename Row>
  using Table = typename D::template Table<Key, Row>;

  Scale scale;
  Table<WarehouseKey, Warehouse> warehouse;
  Table<DistrictKey, District> district;
  Table<CustomerKey, Customer> customer;
  Table<HistoryKey, History> history;
  Table<OrderKey, NewOrder> new_order;
  Table<OrderKey, Order> order;
  Table<OrderLineKey, OrderLine> order_line;
  Table<ItemKey, Item> item;
  Table<StockKey, Stock> stock;
  std::optional<Table<NameKey, Namesakes>> namesakes;
  std::optional<Table<NameIndexKey, Nothing>> name_index;
  std::optional<Table<OrderIndexKey, Nothing>> order_index;
};

/// All nodes alike. `new_orders`: how many of all nodes together are to be expected. Throws Error.
template <Db D>
[[nodiscard]] Tables<D> open_tables(D& db, const Scale& scale, const Homes& homes, Mix mix, std::uint64_t new_orders) {
  const bool ranges = mix == Mix::kFull;
  const std::uint64_t districts = std::uint64_t{homes.warehouses} * scale.districts;
  const std::uint64_t customers = districts * scale.customers;
  const std::uint64_t orders = customers + new_orders;
  const auto open = [&]<typename Key, typename Row>(const char* name, std::uint64_t rows, bool ordered) {
    TableSpec<Key> spec{rows, ordered, {}, 0, 0};
    if constexpr (std::is_same_v<Key, ItemKey>) {
      spec.home = [scale, homes](const ItemKey& key) {
        return NodeId(std::uint64_t{key.item - 1} * homes.nodes / scale.items % homes.nodes);
      };
    } else {
      spec.home = [homes](const Key& key) { return homes.of(key.warehouse); };
      spec.warehouses = homes.warehouses;
      if constexpr (std::is_same_v<Key, OrderLineKey>) spec.together_bytes = sizeof(OrderKey);
    }
    return db.template table<Key, Row>(name, spec);
  };
  Tables<D> tables{
      scale,
      open.template operator()<WarehouseKey, Warehouse>("warehouse", homes.warehouses, false),
      open.template operator()<DistrictKey, District>("district", districts, false),
      open.template operator()<CustomerKey, Customer>("customer", customers, false),
      open.template operator()<HistoryKey, History>("history", orders, false),
      open.template operator()<OrderKey, NewOrder>("new_order", orders, ranges),
      open.template operator()<OrderKey, Order>("order", orders, false),
      open.template operator()<OrderLineKey, OrderLine>("order_line", 10 * orders, ranges),
      open.template operator()<ItemKey, Item>("item", scale.items, false),
      open.template operator()<StockKey, Stock>("stock", std::uint64_t{scale.items} * homes.warehouses, false),
      {},
      {},
      {}};
  if (ranges) {
    tables.name_index = open.template operator()<NameIndexKey, Nothing>("name_index", customers, true);
    tables.order_index = open.template operator()<OrderIndexKey, Nothing>("order_index", orders, true);
  } else {
    tables.namesakes = open.template operator()<NameKey, Namesakes>("namesakes", districts * scale.names(), false);
  }
  return tables;
}

}  // namespace atoll::bench::tpcc
