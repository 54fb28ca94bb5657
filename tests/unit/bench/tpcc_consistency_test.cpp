// Each of the twelve consistency conditions complains, alone, when the data are broken in its way.
#include <gmock/gmock.h>

#include "tpcc_world.hpp"

namespace atoll::bench::tpcc {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using T = AtollDb::Txn;
using Tabs = Tables<AtollDb>;
constexpr std::uint32_t kNobody = 99;  // a district, a customer

class TpccConditions : public testing::Test {
 protected:
  /// Reads a row, lets `function` change it.
  template <typename Row, typename Key>
  void edit(const txn::Table<Key, Row>& table, const std::type_identity_t<Key>& key,
            const std::function<void(Row&)>& function) {
    world.change([&](T& t, const Tabs&) -> Status {
      const auto row = t.read_for_update(table, key);
      if (!row.ok()) return row.status();
      if (!*row) return kMissing;
      Row changed = **row;
      function(changed);
      return t.update(table, key, changed);
    });
  }
  /// One more row of history, of this amount, for whatever district and customer.
  void pay(Cents amount, std::uint32_t district, std::uint32_t customer) {
    world.change([&](T& t, const Tabs& of) {
      const History row{amount, kNow, customer, 1, 1, district, 1, {}};
      return t.insert(of.history, HistoryKey{1, 1, 1}, row);
    });
  }

  World world;
  const Tabs& tables = world.tables();
  static constexpr OrderKey kOpen{1, 1, 30}, kDelivered{1, 1, 1};  // orders
};

TEST_F(TpccConditions, HoldAtFirst) {
  EXPECT_THAT(world.complaints(), IsEmpty());
}

TEST_F(TpccConditions, OneIsTheSumOfDistricts) {
  edit<Warehouse>(tables.warehouse, {1}, [](Warehouse& row) { row.ytd += 5; });
  pay(5, kNobody, kNobody);  // or the eighth would complain
  EXPECT_THAT(world.complaints(), ElementsAre(1));
}

TEST_F(TpccConditions, TwoIsTheNextOrder) {
  edit<District>(tables.district, {1, 2}, [](District& row) { ++row.next_order; });
  EXPECT_THAT(world.complaints(), ElementsAre(2));
}

TEST_F(TpccConditions, ThreeIsThatNewOrdersHaveNoGap) {
  world.change([&](T& t, const Tabs& of) {
    const Status status = t.insert(of.new_order, OrderKey{1, 1, 0}, NewOrder{});
    // And an order for it, without lines, or the eleventh would complain.
    return status.ok() ? t.insert(of.order, OrderKey{1, 1, 0}, Order{kNow, 1, 0, 0, 1}) : status;
  });
  EXPECT_THAT(world.complaints(), ElementsAre(3));
}

TEST_F(TpccConditions, FourIsTheSumOfLines) {
  world.change([&](T& t, const Tabs& of) {  // of an order that does not exist
    return t.insert(of.order_line, OrderLineKey{1, 1, 33, 1}, OrderLine{});
  });
  EXPECT_THAT(world.complaints(), ElementsAre(4));
}

TEST_F(TpccConditions, FiveIsThatNewOrdersHaveNoCarrier) {
  std::uint32_t lines = 0;
  edit<Order>(tables.order, kOpen, [&](Order& row) {
    row.carrier = 3;
    lines = row.lines;
  });
  for (std::uint32_t line = 1; line <= lines; ++line) {  // as if delivered, for nothing
    edit<OrderLine>(tables.order_line, {kOpen.warehouse, kOpen.district, kOpen.order, line}, [](OrderLine& row) {
      row.delivered = kNow;
      row.amount = 0;
    });
  }
  EXPECT_THAT(world.complaints(), ElementsAre(5));
}

TEST_F(TpccConditions, SixIsTheLinesOfEachOrder) {
  edit<Order>(tables.order, kOpen, [](Order& row) { ++row.lines; });
  edit<Order>(tables.order, kDelivered, [](Order& row) { --row.lines; });
  EXPECT_THAT(world.complaints(), ElementsAre(6));
}

TEST_F(TpccConditions, SevenIsThatDeliveredLinesHaveADate) {
  edit<OrderLine>(tables.order_line, {1, 1, 1, 1}, [](OrderLine& row) { row.delivered = 0; });
  EXPECT_THAT(world.complaints(), ElementsAre(7));
}

TEST_F(TpccConditions, SevenIsThatOthersHaveNone) {
  edit<OrderLine>(tables.order_line, {1, 1, 30, 2}, [](OrderLine& row) {
    row.delivered = kNow;
    row.amount = 0;
  });
  EXPECT_THAT(world.complaints(), ElementsAre(7));
}

TEST_F(TpccConditions, EightIsTheHistoryOfAWarehouse) {
  pay(5, kNobody, kNobody);
  EXPECT_THAT(world.complaints(), ElementsAre(8));
}

TEST_F(TpccConditions, NineIsTheHistoryOfADistrict) {
  edit<District>(tables.district, {1, 1}, [](District& row) { row.ytd += 7; });
  edit<District>(tables.district, {1, 2}, [](District& row) { row.ytd -= 7; });
  EXPECT_THAT(world.complaints(), ElementsAre(9));
}

TEST_F(TpccConditions, TenIsTheHistoryOfACustomer) {
  edit<Customer>(tables.customer, {1, 2, 30}, [](Customer& row) {
    row.balance -= 1;
    row.ytd_payment += 1;
  });
  EXPECT_THAT(world.complaints(), ElementsAre(10));
}

TEST_F(TpccConditions, ElevenIsThatWhatIsNotNewWasDelivered) {
  edit<Customer>(tables.customer, {1, 2, 30}, [](Customer& row) { ++row.deliveries; });
  EXPECT_THAT(world.complaints(), ElementsAre(11));
}

TEST_F(TpccConditions, TwelveIsWhatACustomerHasPaid) {
  edit<Customer>(tables.customer, {1, 1, 1}, [](Customer& row) { row.ytd_payment += 1; });
  EXPECT_THAT(world.complaints(), ElementsAre(12));
}

TEST_F(TpccConditions, SayWhatTheyFound) {
  edit<Customer>(tables.customer, {1, 1, 7}, [](Customer& row) { row.ytd_payment += 1; });
  edit<Customer>(tables.customer, {1, 2, 8}, [](Customer& row) { row.ytd_payment += 1; });
  const auto found = world.on(0, [&](AtollDb& db, const Tabs& of) {
    return Audit<AtollDb>(db, of, world.shape.homes, 0, 0).run(1, kAllConditions);
  });
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].count, 2u);
  EXPECT_THAT(found[0].what, testing::StartsWith("warehouse 1, district 1, customer 7: C_BALANCE is -10.00"));
}

TEST_F(TpccConditions, OnlyThoseThatAreWantedComplain) {
  pay(5, kNobody, kNobody);
  const auto found = world.on(0, [&](AtollDb& db, const Tabs& of) {
    return Audit<AtollDb>(db, of, world.shape.homes, 0, 1).run(1, kConditionsWithReads);
  });
  EXPECT_THAT(found, IsEmpty());
  EXPECT_EQ(describe(kAllConditions), "1 to 12");
  EXPECT_EQ(describe(kConditionsWithReads), "2, 3, 4, 5, 6, 7, 11, 12");
}

}  // namespace
}  // namespace atoll::bench::tpcc
