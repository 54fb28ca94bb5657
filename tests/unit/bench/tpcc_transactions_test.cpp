// What each of the five transactions does to the tables.
#include <gmock/gmock.h>

#include <map>
#include <set>

#include "bench/tpcc/worker.hpp"
#include "tpcc_world.hpp"

namespace atoll::bench::tpcc {
namespace {

using testing::IsEmpty;
using Tabs = Tables<AtollDb>;

NewOrderInput order_of(std::vector<OrderedItem> lines) {
  NewOrderInput in;
  in.customer = 3;
  in.count = std::uint32_t(lines.size());
  std::copy(lines.begin(), lines.end(), in.lines.begin());
  in.now = kNow;
  return in;
}

Status do_new_order(World& world, const NewOrderInput& in, NewOrderOutput& out) {
  return world.on(0, [&](AtollDb& db, const Tabs& tables) { return new_order(db, tables, in, out); });
}

Status do_payment(World& world, const PaymentInput& in, PaymentOutput& out) {
  return world.on(0, [&](AtollDb& db, const Tabs& tables) { return payment(db, tables, in, out); });
}

TEST(TpccNewOrder, PutsAnOrder) {
  World world(Mix::kFull, {2, 1});
  const Tabs& tables = world.tables();
  const Stock before = *world.row(tables.stock, {1, 10}), far = *world.row(tables.stock, {2, 20});
  NewOrderOutput out;
  ASSERT_TRUE(do_new_order(world, order_of({{10, 1, 4}, {20, 2, 5}}), out).ok());
  EXPECT_EQ(out.order, 31u);
  EXPECT_EQ(world.row(tables.district, {1, 1})->next_order, 32u);
  const auto order = world.row(tables.order, {1, 1, 31});
  ASSERT_TRUE(order);
  EXPECT_EQ(order->customer, 3u);
  EXPECT_EQ(order->lines, 2u);
  EXPECT_EQ(order->all_local, 0u);
  EXPECT_EQ(order->carrier, 0u);
  EXPECT_EQ(order->entered, kNow);
  EXPECT_TRUE(world.row(tables.new_order, {1, 1, 31}));
  EXPECT_TRUE(world.row(*tables.order_index, {1, 1, 3, 31}));
  const auto line = world.row(tables.order_line, {1, 1, 31, 1});
  ASSERT_TRUE(line);
  const Cents price = world.row(tables.item, {10})->price, other = world.row(tables.item, {20})->price;
  EXPECT_EQ(line->amount, 4 * price);
  EXPECT_EQ(line->dist_info, before.dist[0]);
  EXPECT_EQ(line->delivered, 0);
  const Stock after = *world.row(tables.stock, {1, 10}), far_after = *world.row(tables.stock, {2, 20});
  EXPECT_EQ(after.ytd, before.ytd + 4);
  EXPECT_EQ(after.orders, before.orders + 1);
  EXPECT_EQ(after.remote_orders, before.remote_orders);
  EXPECT_EQ(far_after.remote_orders, far.remote_orders + 1);
  const double taxes = 1 + (world.row(tables.warehouse, {1})->tax + world.row(tables.district, {1, 1})->tax) / 1e4;
  const double discount = world.row(tables.customer, {1, 1, 3})->discount / 1e4;
  EXPECT_NEAR(double(out.total), double(4 * price + 5 * other) * (1 - discount) * taxes, 2);
  EXPECT_THAT(world.complaints(), IsEmpty());
}

TEST(TpccNewOrder, FillsStockUpThatIsLow) {
  Stock stock;
  stock.quantity = 15;
  detail::take_from_stock(stock, 5, false);
  EXPECT_EQ(stock.quantity, 10);
  detail::take_from_stock(stock, 1, true);
  EXPECT_EQ(stock.quantity, 100);
  EXPECT_EQ(stock.ytd, 6u);
  EXPECT_EQ(stock.orders, 2u);
  EXPECT_EQ(stock.remote_orders, 1u);
}

TEST(TpccNewOrder, OfAnItemThatDoesNotExistIsRolledBack) {
  World world;
  const Stock before = *world.row(world.tables().stock, {1, 10});
  NewOrderOutput out;
  NewOrderInput in = order_of({{10, 1, 4}, {101, 1, 5}});
  in.rolls_back = true;
  EXPECT_EQ(do_new_order(world, in, out).code(), kUnusedItem.code());
  EXPECT_EQ(world.row(world.tables().district, {1, 1})->next_order, 31u);
  EXPECT_FALSE(world.row(world.tables().order, {1, 1, 31}));
  EXPECT_FALSE(world.row(world.tables().order_line, {1, 1, 31, 1}));
  EXPECT_EQ(world.row(world.tables().stock, {1, 10})->ytd, before.ytd);
  EXPECT_EQ(world.db().counts().aborts, 1u);
  EXPECT_THAT(world.complaints(), IsEmpty());
}

TEST(TpccNewOrder, TakesTheSameItemTwice) {
  World world;
  NewOrderOutput out;
  ASSERT_TRUE(do_new_order(world, order_of({{10, 1, 4}, {10, 1, 5}}), out).ok());
  EXPECT_EQ(world.row(world.tables().stock, {1, 10})->ytd, 9u);
  EXPECT_EQ(world.row(world.tables().stock, {1, 10})->orders, 2u);
}

TEST(TpccNewOrder, OnlyReadsWhatItShall) {
  World world(Mix::kNewOrderPayment);
  NewOrderInput in = order_of({{10, 1, 4}, {11, 1, 5}});
  in.only_reads.bits = 0b011;  // the order, the first line's stock
  NewOrderOutput out;
  ASSERT_TRUE(do_new_order(world, in, out).ok());
  EXPECT_EQ(out.order, 30u);
  EXPECT_EQ(world.row(world.tables().district, {1, 1})->next_order, 31u);
  EXPECT_EQ(world.row(world.tables().stock, {1, 10})->ytd, 0u);
  EXPECT_EQ(world.row(world.tables().stock, {1, 11})->ytd, 5u);
  EXPECT_THAT(world.complaints(), IsEmpty());
}

TEST(TpccPayment, IsBookedEverywhere) {
  World world(Mix::kFull, {2, 1});
  const Tabs& tables = world.tables();
  PaymentInput in{1, 1, {2, 2, 5, {}}, 123'45, {1, 1, 1}, kNow, {}};
  PaymentOutput out;
  ASSERT_TRUE(do_payment(world, in, out).ok());
  EXPECT_EQ(out.customer, 5u);
  EXPECT_EQ(out.balance, -10'00 - 123'45);
  EXPECT_EQ(world.row(tables.warehouse, {1})->ytd, 2 * 30 * 10'00 + 123'45);
  EXPECT_EQ(world.row(tables.district, {1, 1})->ytd, 30 * 10'00 + 123'45);
  const auto customer = world.row(tables.customer, {2, 2, 5});
  EXPECT_EQ(customer->balance, out.balance);
  EXPECT_EQ(customer->ytd_payment, 10'00 + 123'45);
  EXPECT_EQ(customer->payments, 2u);
  const auto history = world.row(tables.history, {1, 1, 1});
  ASSERT_TRUE(history);
  EXPECT_EQ(history->amount, 123'45);
  EXPECT_EQ(history->customer_warehouse, 2u);
  EXPECT_EQ(history->warehouse, 1u);
  EXPECT_THAT(std::string(history->data.view()), testing::HasSubstr("    "));
  EXPECT_THAT(world.complaints(), IsEmpty());
}

TEST(TpccPayment, TakesTheMiddleOneOfAName) {
  for (const Mix mix : {Mix::kFull, Mix::kNewOrderPayment}) {
    World world(mix, {1, 1}, {1, 40, 9, 20});
    std::map<std::string, std::map<std::string, std::uint32_t>> by_name;  // last, first: customer
    for (std::uint32_t number = 1; number <= 40; ++number) {
      const auto row = world.row(world.tables().customer, {1, 1, number});
      by_name[std::string(row->last.view())][std::string(row->first.view())] = number;
    }
    std::uint32_t history = 0;
    for (const auto& [last, firsts] : by_name) {
      PaymentInput in{1, 1, {1, 1, 0, {last}}, 100, {1, 1, ++history}, kNow, {}};
      PaymentOutput out;
      ASSERT_TRUE(do_payment(world, in, out).ok());
      EXPECT_EQ(out.customer, std::next(firsts.begin(), std::ptrdiff_t((firsts.size() + 1) / 2 - 1))->second) << last;
    }
    EXPECT_THAT(world.complaints(), IsEmpty());
  }
}

TEST(TpccPayment, TheMiddleOfManyIsThatOfTheSpecification) {
  World world(Mix::kFull, {1, 1}, {1, 10, 3, 20});
  world.change([&](AtollDb::Txn& t, const Tabs& tables) -> Status {
    Status status;
    for (std::uint32_t i = 1; status.ok() && i <= 4; ++i) {  // BARBARBAR is customer 1 already, whatever its first name
      NameIndexKey key{1, 1, Text<16>("SOMEBODY"), Text<16>(std::string(1, char('e' - i))), i};
      status = t.insert(*tables.name_index, key, Nothing{});
    }
    return status;
  });
  PaymentOutput out;
  ASSERT_TRUE(do_payment(world, {1, 1, {1, 1, 0, {"SOMEBODY"}}, 100, {1, 1, 1}, kNow, {}}, out).ok());
  EXPECT_EQ(out.customer, 3u) << "the second of four by first name: a, b, c, d are 4, 3, 2, 1";
}

TEST(TpccPayment, WritesDownWhatBadCreditPays) {
  PaymentInput in{7, 8, {5, 6, 0, {}}, 1234'05, {}, 0, {}};
  Customer row;
  row.data = std::string(500, 'x');
  const std::string_view expected = "4 6 5 8 7 1234.05 ";
  const Text<500> data = detail::data_of_bad_credit(in, 4, row);
  EXPECT_EQ(data.view().substr(0, expected.size()), expected);
  EXPECT_EQ(data.view().size(), 500u);
  EXPECT_EQ(data.view().substr(expected.size()), std::string(500 - expected.size(), 'x'));
}

TEST(TpccPayment, OnlyReadsWhatItShall) {
  World world(Mix::kNewOrderPayment);
  PaymentInput in{1, 1, {1, 1, 5, {}}, 100, {1, 1, 1}, kNow, {0b1111}};
  PaymentOutput out;
  ASSERT_TRUE(do_payment(world, in, out).ok());
  EXPECT_EQ(world.row(world.tables().customer, {1, 1, 5})->balance, -10'00);
  EXPECT_FALSE(world.row(world.tables().history, {1, 1, 1}));
  EXPECT_THAT(world.complaints(), IsEmpty());
}

TEST(TpccOrderStatus, FindsTheLatestOrder) {
  World world;
  NewOrderOutput ordered;
  ASSERT_TRUE(do_new_order(world, order_of({{10, 1, 4}, {11, 1, 5}}), ordered).ok());
  ASSERT_TRUE(do_new_order(world, order_of({{12, 1, 1}, {13, 1, 2}, {14, 1, 3}}), ordered).ok());
  OrderStatusOutput out;
  const auto look = [&](const OrderStatusInput& in) {
    return world.on(0, [&](AtollDb& db, const Tabs& tables) { return order_status(db, tables, in, out); });
  };
  ASSERT_TRUE(look({{1, 1, 3, {}}}).ok());
  EXPECT_EQ(out.order, 32u);
  EXPECT_EQ(out.row.lines, 3u);
  EXPECT_EQ(out.lines[2].item, 14u);
  ASSERT_TRUE(look({{1, 1, 0, last_name(2)}}).ok());  // of thirty each has a name of its own
  EXPECT_EQ(out.customer, 3u);
  EXPECT_EQ(out.order, 32u);
  EXPECT_FALSE(look({{1, 1, 0, {"NOBODY"}}}).ok());
}

TEST(TpccDelivery, DeliversTheOldestOfEachDistrict) {
  World world;
  const Tabs& tables = world.tables();
  const auto deliver = [&] {
    DeliveryOutput out;
    const Status status = world.on(0, [&](AtollDb& db, const Tabs& of) { return delivery(db, of, {1, 4, kNow}, out); });
    EXPECT_TRUE(status.ok()) << status.to_string();
    return out;
  };
  const Order before = *world.row(tables.order, {1, 2, 22});
  const Cents balance = world.row(tables.customer, {1, 2, before.customer})->balance;
  EXPECT_EQ(deliver().delivered, 2u);
  EXPECT_FALSE(world.row(tables.new_order, {1, 2, 22}));
  EXPECT_TRUE(world.row(tables.new_order, {1, 2, 23}));
  EXPECT_EQ(world.row(tables.order, {1, 2, 22})->carrier, 4u);
  Cents sum = 0;
  for (std::uint32_t line = 1; line <= before.lines; ++line) {
    const auto row = world.row(tables.order_line, {1, 2, 22, line});
    EXPECT_EQ(row->delivered, kNow);
    sum += row->amount;
  }
  const auto customer = world.row(tables.customer, {1, 2, before.customer});
  EXPECT_EQ(customer->balance, balance + sum);
  EXPECT_EQ(customer->deliveries, 1u);
  EXPECT_THAT(world.complaints(), IsEmpty());
  for (int i = 0; i < 8; ++i) EXPECT_EQ(deliver().skipped, 0u);
  EXPECT_EQ(deliver().skipped, 2u) << "there is nothing left";
  EXPECT_THAT(world.complaints(), IsEmpty());
}

TEST(TpccStockLevel, CountsItemsOfTheLastTwentyOrders) {
  World world;
  const Tabs& tables = world.tables();
  std::set<std::uint32_t> items;
  for (std::uint32_t order = 11; order <= 30; ++order) {
    const std::uint32_t lines = world.row(tables.order, {1, 1, order})->lines;
    for (std::uint32_t line = 1; line <= lines; ++line) {
      items.insert(world.row(tables.order_line, {1, 1, order, line})->item);
    }
  }
  for (const std::int32_t threshold : {10, 15, 20, 1000}) {
    std::uint32_t low = 0;
    for (const std::uint32_t item : items)
      low += std::uint32_t(world.row(tables.stock, {1, item})->quantity < threshold);
    StockLevelOutput out;
    const Status status = world.on(0, [&](AtollDb& db, const Tabs& of) {
      return stock_level(db, of, {1, 1, threshold}, out);
    });
    ASSERT_TRUE(status.ok());
    EXPECT_EQ(out.low, low) << threshold;
  }
}

/// Threads of two nodes, all five transactions, on so few rows that they meet.
void run_all(Mix mix, double read_ratio, Conditions wanted) {
  constexpr unsigned kThreads = 2;
  World world(mix, {2, 2});
  world.shape.distribution_ratio = 0.3;
  world.shape.read_ratio = read_ratio;
  std::vector<Tallies> tallies(2 * kThreads);
  world.cluster().in_parallel([&](NodeId id) {
    ycsb::in_threads(kThreads, [&](unsigned t) {
      const unsigned worker = id * kThreads + t;
      Worker<AtollDb> runs(world.db(id), world.tables(id), Inputs(world.shape, id, t, kThreads, worker + 1), mix);
      while (tallies[worker].all() < 400) runs.run(0.02, tallies[worker]);
    });
  });
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    std::uint64_t done = 0;
    for (const Tallies& one : tallies) done += one.kinds[kind].done;
    EXPECT_EQ(done > 0, mix == Mix::kFull || kind < 2) << name_of(Kind(kind));
  }
  for (const unsigned condition : world.complaints()) {
    EXPECT_EQ(wanted >> (condition - 1) & 1, 0u) << "condition " << condition;
  }
}

TEST(TpccRun, AllFiveOnTwoNodesKeepTheConditions) {
  run_all(Mix::kFull, 0, kAllConditions);
}

TEST(TpccRun, NewOrderAndPaymentKeepTheConditions) {
  run_all(Mix::kNewOrderPayment, 0, kAllConditions);
}

TEST(TpccRun, WithReadsSomeOfThemStillHold) {
  run_all(Mix::kNewOrderPayment, 0.5, kConditionsWithReads);
}

}  // namespace
}  // namespace atoll::bench::tpcc
