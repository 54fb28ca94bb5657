// The initial database: how many rows, and what is in them.
#include <gmock/gmock.h>

#include <map>
#include <set>

#include "tpcc_world.hpp"

namespace atoll::bench::tpcc {
namespace {

using testing::IsEmpty;

constexpr int kMany = 5'000;
constexpr Homes kTwo{2, 2};

/// All rows of a table, as the first node sees them.
template <typename Key, typename Row>
std::vector<std::pair<Key, Row>> all(World& world, const txn::Table<Key, Row>& table) {
  std::vector<std::pair<Key, Row>> rows;
  std::thread([&] {
    txn::Database database(world.cluster()[0]);
    const auto again = database.table<Key, Row>(
        table.name(), {}, {.ordered = std::is_same_v<Key, OrderLineKey> || std::is_same_v<Row, NewOrder>});
    database
        .transact([&](txn::Txn& t) {
          rows.clear();
          return t.scan(again, [&](const Key& key, const Row& row) { return rows.emplace_back(key, row), true; });
        })
        .or_throw();
  }).join();
  return rows;
}

TEST(TpccPopulation, HasAsManyRowsAsItMust) {
  World world(Mix::kFull, kTwo);
  const auto& tables = world.tables();
  EXPECT_EQ(all(world, tables.warehouse).size(), 2u);
  EXPECT_EQ(all(world, tables.district).size(), 2u * 2);
  EXPECT_EQ(all(world, tables.customer).size(), 2u * 2 * 30);
  EXPECT_EQ(all(world, tables.history).size(), 2u * 2 * 30);
  EXPECT_EQ(all(world, tables.order).size(), 2u * 2 * 30);
  EXPECT_EQ(all(world, tables.new_order).size(), 2u * 2 * 9);
  EXPECT_EQ(all(world, tables.item).size(), 100u);
  EXPECT_EQ(all(world, tables.stock).size(), 2u * 100);
  std::uint64_t lines = 0;
  std::set<std::array<std::uint32_t, 3>> customers;
  for (const auto& [key, row] : all(world, tables.order)) {
    lines += row.lines;
    EXPECT_GE(row.lines, 5u);
    EXPECT_LE(row.lines, 15u);
    EXPECT_EQ(row.carrier == 0, key.order > 21u);
    EXPECT_EQ(row.entered, kLoaded);
    customers.insert({key.warehouse, key.district, row.customer});
  }
  EXPECT_EQ(customers.size(), 2u * 2 * 30) << "each customer has one order";
  EXPECT_EQ(all(world, tables.order_line).size(), lines);
}

TEST(TpccPopulation, HoldsTheConditionsOnAllNodes) {
  World world(Mix::kFull, {3, 2});
  EXPECT_THAT(world.complaints(), IsEmpty());
  World other(Mix::kNewOrderPayment, kTwo);
  EXPECT_THAT(other.complaints(), IsEmpty());
}

TEST(TpccPopulation, RowsAreAsTheySpecificationWants) {
  World world;
  const auto& tables = world.tables();
  const auto warehouse = world.row(tables.warehouse, {1});
  ASSERT_TRUE(warehouse);
  EXPECT_EQ(warehouse->ytd, 2 * 30 * 10'00);
  EXPECT_LE(warehouse->tax, 2000);
  EXPECT_EQ(warehouse->address.zip.view().substr(4), "11111");
  const auto district = world.row(tables.district, {1, 2});
  ASSERT_TRUE(district);
  EXPECT_EQ(district->next_order, 31u);
  EXPECT_EQ(district->ytd, 30 * 10'00);
  const auto customer = world.row(tables.customer, {1, 2, 7});
  ASSERT_TRUE(customer);
  EXPECT_EQ(customer->last, last_name(6));
  EXPECT_EQ(customer->middle.view(), "OE");
  EXPECT_EQ(customer->balance, -10'00);
  EXPECT_EQ(customer->credit_limit, 50'000'00);
  EXPECT_EQ(customer->phone.view().size(), 16u);
  for (const auto& [key, line] : all(world, tables.order_line)) {
    EXPECT_EQ(line.quantity, 5u);
    EXPECT_EQ(line.supplier, 1u);
    EXPECT_EQ(line.delivered != 0, key.order <= 21u);
    EXPECT_EQ(line.amount == 0, key.order <= 21u);
    EXPECT_EQ(line.dist_info.view().size(), 24u);
  }
}

TEST(TpccPopulation, TheSeedAloneDecides) {
  World two(Mix::kFull, {2, 1}), one(Mix::kNewOrderPayment, {2, 2});
  for (const std::uint32_t warehouse : {1u, 2u}) {
    const auto a = two.row(two.tables().customer, {warehouse, 1, 9});
    const auto b = one.row(one.tables().customer, {warehouse, 1, 9});
    EXPECT_EQ(a->first, b->first);
    EXPECT_EQ(a->data, b->data);
  }
  EXPECT_FALSE(two.row(two.tables().customer, {1, 1, 9})->data == two.row(two.tables().customer, {2, 1, 9})->data);
}

TEST(TpccPopulation, OneInTenIsOriginalOrOfBadCredit) {
  base::Random random(1);
  int items = 0, stocks = 0, bad = 0;
  for (int i = 0; i < kMany; ++i) {
    const Item item = make_item(random);
    items += int(item.data.view().find("ORIGINAL") != std::string_view::npos);
    EXPECT_GE(item.data.view().size(), 26u);
    EXPECT_GE(item.price, 1'00);
    EXPECT_LE(item.price, 100'00);
    const Stock stock = make_stock(random);
    stocks += int(stock.data.view().find("ORIGINAL") != std::string_view::npos);
    EXPECT_GE(stock.quantity, 10);
    EXPECT_LE(stock.quantity, 100);
    const Customer customer = make_customer(random, Scale(), Constants::from_seed(1), 2000, 0);
    bad += int(customer.credit.view() == "BC");
    EXPECT_GE(customer.data.view().size(), 300u);
    EXPECT_LE(customer.discount, 5000);
  }
  for (const int count : {items, stocks, bad}) EXPECT_NEAR(count / double(kMany), 0.1, 0.02);
}

TEST(TpccPopulation, NamesakesOfAFullDistrictHaveRoom) {
  std::map<std::string, unsigned> namesakes;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    base::Random random(seed);
    const Constants constants = Constants::from_seed(seed);
    namesakes.clear();
    for (std::uint32_t number = 1; number <= 3000; ++number) {
      ++namesakes[std::string(make_customer(random, Scale(), constants, number, 0).last.view())];
    }
    EXPECT_EQ(namesakes.size(), kLastNames);
    for (const auto& [name, count] : namesakes) EXPECT_LT(count, kMostNamesakes) << name;
  }
}

TEST(TpccPopulation, APermutationHasEachNumberOnce) {
  base::Random random(1);
  const std::vector<std::uint32_t> numbers = permutation(random, 100);
  EXPECT_EQ(std::set<std::uint32_t>(numbers.begin(), numbers.end()).size(), 100u);
  EXPECT_FALSE(std::is_sorted(numbers.begin(), numbers.end()));
  EXPECT_EQ(*std::max_element(numbers.begin(), numbers.end()), 100u);
}

}  // namespace
}  // namespace atoll::bench::tpcc
