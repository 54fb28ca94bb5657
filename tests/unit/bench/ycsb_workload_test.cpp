#include "bench/ycsb_workload.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace atoll::bench::ycsb {
namespace {

constexpr std::size_t kMany = 200'000;

/// How often each record was drawn, and the parts of the operations.
struct Shape {
  std::map<std::uint64_t, std::size_t> records;
  std::array<double, kOperations> parts{};
  std::size_t most = 0;  // draws of the record that was drawn most
  std::uint64_t at = 0;  // that record
};
Shape shape_of(const Mix& mix, std::uint64_t records) {
  Shape shape;
  for (const Draw& draw : draw_operations(mix, records, kMany, 42)) {
    shape.parts[std::size_t(draw.operation)] += 1.0 / double(kMany);
    const std::uint64_t record = draw.record;
    const std::size_t times = ++shape.records[record];
    if (times <= shape.most) continue;
    shape.most = times;
    shape.at = record;
  }
  return shape;
}

TEST(YcsbZeta, IsTheSum) {
  for (const double skew : {0.5, 0.9, 0.99}) {
    double sum = 0;
    for (std::uint64_t i = 1; i <= 100'000; ++i) {
      sum += std::pow(double(i), -skew);
      if (i == 1 || i == 2 || i == 1000 || i == 1001 || i == 100'000) {
        EXPECT_NEAR(zeta(i, skew), sum, sum * 1e-9) << i;
      }
    }
  }
  EXPECT_NEAR(zeta(kScrambledRanks, 0.99), 26.46902820178302, 1e-6);  // the constant in YCSB's source
}

TEST(YcsbZipfian, RanksHaveTheirProbabilities) {
  constexpr std::uint64_t kRanks = 1000;
  base::Random random(1);
  Zipfian zipfian(kRanks, 0.99);
  std::vector<double> parts(kRanks);
  for (std::size_t i = 0; i < kMany; ++i) {
    const std::uint64_t rank = zipfian.next(random);
    ASSERT_LT(rank, kRanks);
    parts[rank] += 1.0 / double(kMany);
  }
  const double sum = zeta(kRanks, 0.99);
  EXPECT_NEAR(parts[0], 1 / sum, 0.01);
  EXPECT_NEAR(parts[1], std::pow(2, -0.99) / sum, 0.01);
  double first_hundred = 0;
  for (int i = 0; i < 100; ++i) first_hundred += parts[std::size_t(i)];
  EXPECT_NEAR(first_hundred, zeta(100, 0.99) / sum, 0.03);
  EXPECT_GT(parts[999], 0);
}

TEST(YcsbZipfian, FewRanksAreEnough) {
  base::Random random(1);
  for (const std::uint64_t ranks : {1u, 2u, 3u}) {
    Zipfian zipfian(ranks, 0.99);
    std::set<std::uint64_t> seen;
    for (int i = 0; i < 1000; ++i) seen.insert(zipfian.next(random));
    EXPECT_EQ(seen.size(), ranks);
    EXPECT_LT(*seen.rbegin(), ranks);
  }
}

TEST(YcsbZipfian, GrowsWithItsRanks) {
  base::Random random(1);
  Zipfian zipfian(10, 0.99);
  zipfian.resize(100'000);
  std::uint64_t largest = 0;
  for (int i = 0; i < 10'000; ++i) largest = std::max(largest, zipfian.next(random));
  EXPECT_GT(largest, 50'000u);
  EXPECT_LT(largest, 100'000u);
}

TEST(YcsbHash, IsThatOfYcsb) {
  // 0xcbf29ce484222325, eight times multiplied by 1099511628211; negative as a Java long, hence negated.
  std::uint64_t hash = 0xcbf29ce484222325;
  for (int i = 0; i < 8; ++i) hash *= 1099511628211u;
  EXPECT_EQ(fnv_hash(0), std::int64_t(hash) < 0 ? std::uint64_t(0) - hash : hash);
  std::set<std::uint64_t> seen;
  for (std::uint64_t i = 0; i < 10'000; ++i) {
    EXPECT_LT(fnv_hash(i), std::uint64_t{1} << 63);
    seen.insert(fnv_hash(i));
  }
  EXPECT_EQ(seen.size(), 10'000u);
}

TEST(YcsbDraws, ZipfianIsSkewedAndScattered) {
  const Shape shape = shape_of(get_put_mix(1), 10'000);
  const double most = double(shape.most) / double(kMany);
  EXPECT_GT(most, 0.03);  // 1 / 26.47 and what else falls on it
  EXPECT_LT(most, 0.05);
  EXPECT_EQ(shape.at, fnv_hash(0) % 10'000);
  EXPECT_GT(shape.records.size(), 9'000u);  // of ten thousand million ranks some fall on nearly every record
  EXPECT_LT(shape.records.rbegin()->first, 10'000u);
}

TEST(YcsbDraws, AStrongerSkewIsSeen) {
  Mix flat = get_put_mix(1);
  flat.zipf = 0.5;
  EXPECT_LT(shape_of(flat, 10'000).most * 10, shape_of(get_put_mix(1), 10'000).most);
}

TEST(YcsbDraws, UniformIsFlat) {
  Mix mix = get_put_mix(0.5);
  mix.distribution = Distribution::kUniform;
  const Shape shape = shape_of(mix, 100);
  ASSERT_EQ(shape.records.size(), 100u);
  for (const auto& [record, times] : shape.records) EXPECT_NEAR(double(times), 2000, 400) << record;
}

TEST(YcsbDraws, LatestPrefersTheLast) {
  Mix mix = get_put_mix(1);
  mix.distribution = Distribution::kLatest;
  const Shape shape = shape_of(mix, 10'000);
  EXPECT_EQ(shape.at, 0u);  // how far behind the last one
  EXPECT_NEAR(double(shape.most) / double(kMany), 1 / zeta(10'000, 0.99), 0.01);
  std::size_t last_hundred = 0;
  for (std::uint64_t i = 0; i < 100; ++i) last_hundred += shape.records.contains(i) ? shape.records.at(i) : 0;
  EXPECT_GT(double(last_hundred) / double(kMany), 0.4);
}

TEST(YcsbDraws, EveryWorkloadHasItsMix) {
  using Parts = std::array<double, kOperations>;  // read, update, insert, scan, modify
  const std::pair<char, Parts> kExpected[] = {{'A', {0.5, 0.5, 0, 0, 0}},   {'B', {0.95, 0.05, 0, 0, 0}},
                                              {'C', {1, 0, 0, 0, 0}},       {'D', {0.95, 0, 0.05, 0, 0}},
                                              {'E', {0, 0, 0.05, 0.95, 0}}, {'F', {0.5, 0, 0, 0, 0.5}}};
  for (const auto& [workload, parts] : kExpected) {
    const auto mix = standard_mix(workload);
    ASSERT_TRUE(mix) << workload;
    EXPECT_EQ(mix->distribution, workload == 'D' ? Distribution::kLatest : Distribution::kZipfian) << workload;
    const Shape shape = shape_of(*mix, 1000);
    for (std::size_t i = 0; i < kOperations; ++i) {
      EXPECT_NEAR(shape.parts[i], parts[i], 0.01) << workload << ' ' << name_of(Operation(i));
      if (parts[i] == 0) {
        EXPECT_EQ(shape.parts[i], 0) << workload << ' ' << name_of(Operation(i));
      }
    }
  }
  EXPECT_FALSE(standard_mix('G'));
}

TEST(YcsbDraws, ScansAreAsLongAsTheyShall) {
  std::set<unsigned> lengths;
  double sum = 0;
  std::size_t scans = 0;
  for (const Draw& draw : draw_operations(*standard_mix('E'), 1000, kMany, 1)) {
    if (draw.operation != Operation::kScan) continue;
    lengths.insert(draw.length);
    sum += draw.length;
    ++scans;
  }
  EXPECT_EQ(*lengths.begin(), 1u);
  EXPECT_EQ(*lengths.rbegin(), kLongestScan);
  EXPECT_NEAR(sum / double(scans), 50.5, 1);
}

TEST(YcsbDraws, TheSeedDecides) {
  const auto of = [](std::uint64_t seed) {
    std::vector<std::uint64_t> records;
    for (const Draw& draw : draw_operations(get_put_mix(0.5), 1000, 100, seed)) records.push_back(draw.record);
    return records;
  };
  EXPECT_EQ(of(1), of(1));
  EXPECT_NE(of(1), of(2));
}

TEST(YcsbKey, IsOfSixteenBytes) {
  EXPECT_EQ(Key(0).view(), "user000000000000");
  EXPECT_EQ(Key(1234567).view(), "user000001234567");
  EXPECT_EQ(Key(999'999'999'999).view(), "user999999999999");
}

TEST(YcsbValue, KnowsItsRecordAndItsStamp) {
  for (const std::size_t size : {16u, 17u, 23u, 24u, 100u, 1000u}) {
    std::string value(size, '\0');
    fill_value(7, 99, value);
    EXPECT_EQ(stamp_of(7, value), 99u) << size;
    EXPECT_FALSE(stamp_of(8, value)) << size;
    for (std::size_t i = 0; i < size; ++i) {
      std::string torn = value;
      torn[i] = char(torn[i] + 1);
      EXPECT_FALSE(stamp_of(7, torn)) << size << " at " << i;
    }
  }
  EXPECT_FALSE(stamp_of(7, ""));
  EXPECT_FALSE(stamp_of(7, "short"));
}

TEST(YcsbValue, HalvesOfTwoPutsAreNoValue) {
  std::string one(100, '\0'), other(100, '\0');
  fill_value(7, 1, one);
  fill_value(7, 2, other);
  EXPECT_FALSE(stamp_of(7, one.substr(0, 50) + other.substr(50)));
  EXPECT_FALSE(stamp_of(7, one.substr(0, 96) + other.substr(96)));
}

}  // namespace
}  // namespace atoll::bench::ycsb
