// Keys and rows of TPC-C's nine tables (clause 1.3), and of the two that are indexes. Money is in cents, taxes and
// discounts in ten-thousandths, times in microseconds since 1970; 0 is the null of O_CARRIER_ID and OL_DELIVERY_D.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "atoll/txn.hpp"
#include "bench/tpcc/scale.hpp"

namespace atoll::bench::tpcc {

using Number = txn::Sorted<std::uint32_t>;  // of a key: its bytes are in the order of its values
using Cents = std::int64_t;
using Time = std::int64_t;

/// Up to N characters; zeros behind them.
template <std::size_t N>
struct Text {
  std::array<char, N> bytes{};

  Text() = default;
  template <std::convertible_to<std::string_view> T>
  Text(const T& from) noexcept {
    const std::string_view text(from);
    std::copy_n(text.begin(), std::min(text.size(), N), bytes.begin());
  }
  [[nodiscard]] std::string_view view() const noexcept {
    return {bytes.data(), std::size_t(std::find(bytes.begin(), bytes.end(), '\0') - bytes.begin())};
  }
  friend bool operator==(const Text&, const Text&) = default;
};

struct Address {
  Text<20> street_1, street_2, city;
  Text<2> state;
  Text<9> zip;
};

struct WarehouseKey {
  Number warehouse;
};
struct Warehouse {
  Cents ytd = 0;
  std::int32_t tax = 0;
  Text<10> name;
  Address address;
};

struct DistrictKey {
  Number warehouse, district;
};
struct District {
  Cents ytd = 0;
  std::uint32_t next_order = 0;
  std::int32_t tax = 0;
  Text<10> name;
  Address address;
};

struct CustomerKey {
  Number warehouse, district, customer;
};
struct Customer {
  Cents balance = 0, ytd_payment = 0, credit_limit = 0;
  std::uint32_t payments = 0, deliveries = 0;  // counts
  std::int32_t discount = 0;
  Text<2> credit;  // "GC" or "BC"
  Text<16> first, last;
  Text<2> middle;
  Text<16> phone;
  Time since = 0;
  Address address;
  Text<500> data;
};

/// A history row has no key of its own in TPC-C. `worker` is who inserted it, 0 at the population; it numbers the rows
/// of each warehouse from 1 on, so that they can be found by their keys.
struct HistoryKey {
  Number warehouse, worker, number;
};
struct History {
  Cents amount = 0;
  Time date = 0;
  std::uint32_t customer = 0, customer_district = 0, customer_warehouse = 0, district = 0, warehouse = 0;
  Text<24> data;
};

struct OrderKey {
  Number warehouse, district, order;
};
struct NewOrder {
  std::uint8_t zero = 0;
};
struct Order {
  Time entered = 0;
  std::uint32_t customer = 0;
  std::uint32_t carrier = 0;
  std::uint32_t lines = 0;
  std::uint32_t all_local = 0;
};

struct OrderLineKey {
  Number warehouse, district, order, line;
};
struct OrderLine {
  Cents amount = 0;
  Time delivered = 0;
  std::uint32_t item = 0, supplier = 0, quantity = 0;
  Text<24> dist_info;
};

struct ItemKey {
  Number item;
};
struct Item {
  Cents price = 0;
  std::uint32_t image = 0;
  Text<24> name;
  Text<50> data;
};

struct StockKey {
  Number warehouse, item;
};
struct Stock {
  std::int32_t quantity = 0;
  std::uint32_t ytd = 0, orders = 0, remote_orders = 0;
  std::array<Text<24>, 10> dist;
  Text<50> data;
};

/// Index for "customer by last name" where nothing is ordered: all of a name, sorted by their first names.
struct NameKey {
  Number warehouse, district;
  Text<16> last;
};
struct Namesakes {
  std::uint16_t count = 0;
  std::array<std::uint16_t, kMostNamesakes> customers{};
};

/// The same as an ordered index.
struct NameIndexKey {
  Number warehouse, district;
  Text<16> last, first;
  Number customer;
};
/// Orders of a customer, as an ordered index.
struct OrderIndexKey {
  Number warehouse, district, customer, order;
};
struct Nothing {
  std::uint8_t zero = 0;
};

static_assert(sizeof(NameIndexKey) == 44 && std::has_unique_object_representations_v<NameIndexKey>);
static_assert(std::has_unique_object_representations_v<NameKey> && sizeof(Namesakes) == 256);

}  // namespace atoll::bench::tpcc
