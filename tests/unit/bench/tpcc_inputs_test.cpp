// What TPC-C's transactions are given: that it is in its range, and as often so or so as the specification wants.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "bench/tpcc/inputs.hpp"

namespace atoll::bench::tpcc {
namespace {

constexpr int kMany = 20'000;

Shape shape_of(std::uint32_t warehouses, NodeId nodes) {
  Shape shape;
  shape.homes = {warehouses, nodes};
  shape.constants = Constants::from_seed(1);
  return shape;
}

/// The part of `kMany` draws for which it is true.
template <typename Draw>
double part(Draw&& draw) {
  int count = 0;
  for (int i = 0; i < kMany; ++i) count += int(draw());
  return double(count) / kMany;
}

TEST(TpccHomes, AreDealtInRunsToAllNodes) {
  for (const auto& [warehouses, nodes] : {std::pair(1u, 1), {2u, 2}, {7u, 3}, {10u, 4}, {64u, 5}, {5u, 5}}) {
    const Homes homes{warehouses, NodeId(nodes)};
    std::uint32_t all = 0;
    for (NodeId node = 0; node < nodes; ++node) {
      EXPECT_EQ(homes.first(node), all + 1);
      EXPECT_GE(homes.count(node), warehouses / unsigned(nodes));
      for (std::uint32_t i = 0; i < homes.count(node); ++i) EXPECT_EQ(homes.of(homes.first(node) + i), node);
      all += homes.count(node);
    }
    EXPECT_EQ(all, warehouses);
  }
}

TEST(TpccConstants, AreAsFarApartAsTheyMust) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const Constants constants = Constants::from_seed(seed);
    const auto apart = unsigned(std::abs(int(constants.last_name) - int(constants.last_name_of_load)));
    EXPECT_GE(apart, 65u) << seed;
    EXPECT_LE(apart, 119u) << seed;
    EXPECT_NE(apart, 96u) << seed;
    EXPECT_NE(apart, 112u) << seed;
    EXPECT_LE(constants.last_name_of_load, 255u);
    EXPECT_LE(constants.last_name, 255u);
    EXPECT_LE(constants.customer, 1023u);
    EXPECT_LE(constants.item, 8191u);
  }
  EXPECT_EQ(Constants::from_seed(7).item, Constants::from_seed(7).item);
}

TEST(TpccNurand, IsInItsRangeAndSkewed) {
  base::Random random(1);
  std::map<std::uint32_t, int> times;
  for (int i = 0; i < kMany; ++i) ++times[nurand(random, 255, 0, 0, 999)];
  EXPECT_LT(times.rbegin()->first, 1000u);
  // All eight low bits are set with (3/4)^8, where each of four numbers has a quarter of that.
  for (const std::uint32_t hot : {255u, 511u, 767u}) EXPECT_NEAR(double(times[hot]) / kMany, 0.1001 / 4, 0.006) << hot;
  EXPECT_LT(times[256], times[255] / 20);
  std::map<std::uint32_t, int> shifted;
  for (int i = 0; i < kMany; ++i) ++shifted[nurand(random, 255, 100, 0, 999)];
  EXPECT_NEAR(double(shifted[355]) / kMany, 0.025, 0.006);
  for (int i = 0; i < kMany; ++i) {
    const std::uint32_t number = nurand(random, 1023, 1000, 1, 3000);
    ASSERT_GE(number, 1u);
    ASSERT_LE(number, 3000u);
  }
}

TEST(TpccNames, AreOfThreeSyllables) {
  EXPECT_EQ(last_name(0).view(), "BARBARBAR");
  EXPECT_EQ(last_name(371).view(), "PRICALLYOUGHT");
  EXPECT_EQ(last_name(999).view(), "EINGEINGEING");
  std::set<std::string_view> all;
  std::vector<Text<16>> names;
  for (std::uint32_t i = 0; i < kLastNames; ++i) names.push_back(last_name(i));
  for (const Text<16>& name : names) all.insert(name.view());
  EXPECT_EQ(all.size(), kLastNames);
}

TEST(TpccNames, TextsAreAsLongAsTheyShall) {
  base::Random random(1);
  std::set<std::size_t> lengths;
  for (int i = 0; i < 1000; ++i) lengths.insert(draw_text(random, 8, 16).size());
  EXPECT_EQ(*lengths.begin(), 8u);
  EXPECT_EQ(*lengths.rbegin(), 16u);
  for (const char digit : draw_digits(random, 100)) EXPECT_TRUE(digit >= '0' && digit <= '9');
}

TEST(TpccMix, HasTheSpecifiedParts) {
  base::Random random(1);
  std::map<Kind, int> full, two;
  for (int i = 0; i < kMany; ++i) ++full[draw_kind(Mix::kFull, random)];
  for (int i = 0; i < kMany; ++i) ++two[draw_kind(Mix::kNewOrderPayment, random)];
  EXPECT_NEAR(full[Kind::kNewOrder] / double(kMany), 0.45, 0.015);
  EXPECT_NEAR(full[Kind::kPayment] / double(kMany), 0.43, 0.015);
  for (const Kind kind : {Kind::kOrderStatus, Kind::kDelivery, Kind::kStockLevel}) {
    EXPECT_NEAR(full[kind] / double(kMany), 0.04, 0.006) << name_of(kind);
    EXPECT_EQ(two[kind], 0) << name_of(kind);
  }
  EXPECT_NEAR(two[Kind::kNewOrder] / double(kMany), 0.5, 0.015);
}

TEST(TpccInputs, NewOrdersAreInTheirRanges) {
  const Shape shape = shape_of(4, 2);
  Inputs inputs(shape, 1, 0, 1, 1);
  std::set<std::uint32_t> warehouses, districts, counts;
  std::set<std::uint32_t> quantities;
  for (int i = 0; i < kMany; ++i) {
    const NewOrderInput in = inputs.new_order(77);
    warehouses.insert(in.warehouse);
    districts.insert(in.district);
    counts.insert(in.count);
    ASSERT_GE(in.customer, 1u);
    ASSERT_LE(in.customer, shape.scale.customers);
    EXPECT_EQ(in.now, 77);
    EXPECT_EQ(in.only_reads.bits, 0u);
    for (std::uint32_t line = 0; line < in.count; ++line) {
      const bool unused = in.rolls_back && line == in.count - 1;
      ASSERT_GE(in.lines[line].item, 1u);
      ASSERT_EQ(in.lines[line].item > shape.scale.items, unused);
      ASSERT_GE(in.lines[line].supplier, 1u);
      ASSERT_LE(in.lines[line].supplier, 4u);
      quantities.insert(in.lines[line].quantity);
    }
  }
  EXPECT_EQ(warehouses, (std::set<std::uint32_t>{3, 4}));
  EXPECT_EQ(districts.size(), 10u);
  EXPECT_EQ(counts, (std::set<std::uint32_t>{5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}));
  EXPECT_EQ(quantities, (std::set<std::uint32_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
}

TEST(TpccInputs, OneInAHundredNewOrdersRollsBackAndOneLineIsRemote) {
  Inputs inputs(shape_of(4, 1), 0, 0, 1, 1);
  int lines = 0, remote = 0;
  const double rolled_back = part([&] {
    const NewOrderInput in = inputs.new_order(0);
    lines += int(in.count);
    for (std::uint32_t i = 0; i < in.count; ++i) remote += int(in.lines[i].supplier != in.warehouse);
    return in.rolls_back;
  });
  EXPECT_NEAR(rolled_back, 0.01, 0.004);
  EXPECT_NEAR(double(remote) / lines, 0.01, 0.002);
  EXPECT_NEAR(double(lines) / kMany, 10, 0.2);
}

TEST(TpccInputs, PaymentsAreAsTheSpecificationHasThem) {
  Inputs inputs(shape_of(4, 1), 0, 0, 1, 1);
  int remote = 0;
  std::set<std::uint32_t> remote_districts;
  const double by_name = part([&] {
    const PaymentInput in = inputs.payment(0);
    EXPECT_GE(in.amount, 1'00);
    EXPECT_LE(in.amount, 5'000'00);
    if (in.customer.warehouse != in.warehouse) {
      ++remote;
      remote_districts.insert(in.customer.district);
    } else {
      EXPECT_EQ(in.customer.district, in.district);
    }
    return in.customer.by_name();
  });
  EXPECT_NEAR(by_name, 0.6, 0.02);
  EXPECT_NEAR(remote / double(kMany), 0.15, 0.01);
  EXPECT_EQ(remote_districts.size(), 10u);
}

TEST(TpccInputs, WithOneWarehouseNothingIsRemote) {
  Inputs inputs(shape_of(1, 1), 0, 0, 1, 1);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(inputs.payment(0).customer.warehouse, 1u);
    const NewOrderInput in = inputs.new_order(0);
    for (std::uint32_t line = 0; line < in.count; ++line) EXPECT_EQ(in.lines[line].supplier, 1u);
  }
}

TEST(TpccInputs, TheOthersAreInTheirRanges) {
  Inputs inputs(shape_of(2, 2), 1, 0, 1, 1);
  std::set<std::uint32_t> carriers;
  std::set<std::int32_t> thresholds;
  for (int i = 0; i < 1000; ++i) {
    const DeliveryInput delivery = inputs.delivery(5);
    EXPECT_EQ(delivery.warehouse, 2u);
    carriers.insert(delivery.carrier);
    const StockLevelInput level = inputs.stock_level();
    EXPECT_EQ(level.warehouse, 2u);
    thresholds.insert(level.threshold);
    EXPECT_EQ(inputs.order_status().customer.warehouse, 2u);
  }
  EXPECT_EQ(carriers.size(), 10u);
  EXPECT_EQ(*thresholds.begin(), 10);
  EXPECT_EQ(*thresholds.rbegin(), 20);
}

TEST(TpccInputs, ThreadsShareWarehousesOnlyIfTheyMust) {
  std::set<std::uint32_t> of_threads[2];
  for (const unsigned thread : {0u, 1u}) {
    Inputs inputs(shape_of(8, 2), 0, thread, 2, thread + 1);
    for (int i = 0; i < 500; ++i) of_threads[thread].insert(inputs.new_order(0).warehouse);
  }
  EXPECT_EQ(of_threads[0], (std::set<std::uint32_t>{1, 3}));
  EXPECT_EQ(of_threads[1], (std::set<std::uint32_t>{2, 4}));
  Inputs third(shape_of(2, 2), 1, 2, 3, 1);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(third.new_order(0).warehouse, 2u);
}

TEST(TpccInputs, TheDistributionRatioIsAboutOtherNodes) {
  for (const double ratio : {0.0, 0.3, 1.0}) {
    Shape shape = shape_of(6, 3);
    shape.distribution_ratio = ratio;
    Inputs inputs(shape, 1, 0, 1, 1);
    int lines = 0, remote = 0;
    std::set<std::uint32_t> others;
    const auto see = [&](std::uint32_t warehouse, std::uint32_t home) {
      if (warehouse == home) return false;
      EXPECT_NE(shape.homes.of(warehouse), 1) << "a warehouse of the same node";
      others.insert(warehouse);
      return true;
    };
    const double payers = part([&] {
      const PaymentInput payment = inputs.payment(0);
      const NewOrderInput in = inputs.new_order(0);
      lines += int(in.count);
      for (std::uint32_t i = 0; i < in.count; ++i) remote += int(see(in.lines[i].supplier, in.warehouse));
      return see(payment.customer.warehouse, payment.warehouse);
    });
    EXPECT_NEAR(payers, ratio, 0.015);
    EXPECT_NEAR(double(remote) / lines, ratio, 0.005);
    EXPECT_EQ(others.size(), ratio > 0 ? 4u : 0u);
  }
}

TEST(TpccInputs, TheReadRatioIsAPartOfTheWrites) {
  for (const double ratio : {0.25, 1.0}) {
    Shape shape = shape_of(2, 1);
    shape.read_ratio = ratio;
    Inputs inputs(shape, 0, 0, 1, 1);
    int writes = 0, reads = 0;
    for (int i = 0; i < kMany; ++i) {
      const NewOrderInput in = inputs.new_order(0);
      for (unsigned write = 0; write < 1 + in.count; ++write) reads += int(in.only_reads.at(write));
      writes += 1 + int(in.count);
      const PaymentInput payment = inputs.payment(0);
      for (unsigned write = 0; write < 4; ++write) reads += int(payment.only_reads.at(write));
      writes += 4;
    }
    EXPECT_NEAR(double(reads) / writes, ratio, 0.01);
  }
}

/// By whom they can be found (Audit).
TEST(TpccInputs, HistoryIsNumberedWithoutGaps) {
  Shape shape = shape_of(3, 1);
  shape.read_ratio = 0.5;
  Inputs inputs(shape, 0, 0, 1, 9);
  std::map<std::uint32_t, std::uint32_t> last;
  for (int i = 0; i < 1000; ++i) {
    const PaymentInput in = inputs.payment(0);
    if (in.only_reads.at(3)) continue;
    EXPECT_EQ(in.history.worker, 9u);
    EXPECT_EQ(in.history.warehouse, in.warehouse);
    EXPECT_EQ(in.history.number, ++last[in.warehouse]);
  }
  EXPECT_EQ(last.size(), 3u);
}

TEST(TpccInputs, WithTemporalLocalityTheSameDataCome) {
  Shape shape = shape_of(4, 2);
  shape.temporal_locality = 1;
  shape.distribution_ratio = 0;
  Inputs inputs(shape, 0, 0, 1, 1);
  const auto items_of = [](const NewOrderInput& in) {
    std::set<std::pair<std::uint32_t, std::uint32_t>> items;
    for (std::uint32_t i = 0; i < in.count - (in.rolls_back ? 1 : 0); ++i) {
      items.emplace(in.lines[i].supplier, in.lines[i].item);
    }
    return items;
  };
  NewOrderInput before = inputs.new_order(0);
  for (int i = 0; i < 500; ++i) {
    const NewOrderInput in = inputs.new_order(0);
    EXPECT_EQ(in.warehouse, before.warehouse);
    EXPECT_EQ(in.district, before.district);
    EXPECT_EQ(in.customer, before.customer);
    const auto now = items_of(in), then = items_of(before);
    // A larger order has new items besides; one that is rolled back has lost one.
    std::size_t known = 0;
    for (const auto& item : now) known += then.count(item);
    EXPECT_GE(known + 1, std::min(now.size(), then.size()));
    before = in;
  }
}

TEST(TpccInputs, TemporalLocalityLeavesTheDistributionRatioAlone) {
  Shape shape = shape_of(4, 2);
  shape.temporal_locality = 0.8;
  shape.distribution_ratio = 0.5;
  Inputs inputs(shape, 0, 0, 1, 1);
  int lines = 0, remote = 0;
  for (int i = 0; i < kMany; ++i) {
    const NewOrderInput in = inputs.new_order(0);
    lines += int(in.count);
    for (std::uint32_t line = 0; line < in.count; ++line) remote += int(shape.homes.of(in.lines[line].supplier) != 0);
  }
  EXPECT_NEAR(double(remote) / lines, 0.5, 0.02);
}

TEST(TpccInputs, TheSeedDecides) {
  const auto customers = [](std::uint64_t seed, std::uint32_t worker) {
    Shape shape = shape_of(2, 1);
    shape.seed = seed;
    Inputs inputs(shape, 0, 0, 1, worker);
    std::vector<std::uint32_t> all;
    for (int i = 0; i < 20; ++i) all.push_back(inputs.new_order(0).customer);
    return all;
  };
  EXPECT_EQ(customers(1, 1), customers(1, 1));
  EXPECT_NE(customers(1, 1), customers(2, 1));
  EXPECT_NE(customers(1, 1), customers(1, 2));
}

}  // namespace
}  // namespace atoll::bench::tpcc
