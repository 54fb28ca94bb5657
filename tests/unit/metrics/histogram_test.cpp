#include "metrics/histogram.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/random.hpp"

namespace atoll::metrics {
namespace {

TEST(Histogram, OfNothingIsZero) {
  const Histogram histogram;
  EXPECT_EQ(histogram.count(), 0u);
  EXPECT_EQ(histogram.min(), 0u);
  EXPECT_EQ(histogram.max(), 0u);
  EXPECT_EQ(histogram.mean(), 0);
  for (const double percent : {0.0, 50.0, 100.0}) EXPECT_EQ(histogram.percentile(percent), 0u);
  EXPECT_TRUE(histogram.buckets().empty());
}

TEST(Histogram, SmallValuesAreExact) {
  Histogram histogram;
  for (std::uint64_t value = 1; value <= 1000; ++value) histogram.record(value);
  EXPECT_EQ(histogram.percentile(0), 1u);
  EXPECT_EQ(histogram.percentile(50), 500u);
  EXPECT_EQ(histogram.percentile(99), 990u);
  EXPECT_EQ(histogram.percentile(99.9), 999u);
  EXPECT_EQ(histogram.percentile(100), 1000u);
  EXPECT_DOUBLE_EQ(histogram.mean(), 500.5);
}

TEST(Histogram, NoValueIsFartherOffThanItsDigitsSay) {
  for (int digits = 1; digits <= 5; ++digits) {
    base::Random random(1);
    for (int i = 0; i < 200; ++i) {
      const std::uint64_t value = random.next() >> (23 + random.below(41));
      Histogram histogram(digits, std::uint64_t{1} << 41);
      histogram.record(value);
      histogram.record(std::uint64_t{1} << 41);  // so that the largest value does not tell
      const std::uint64_t told = histogram.percentile(50);
      ASSERT_GE(told, value);
      ASSERT_LE(double(told - value), double(value) * std::pow(10, -digits)) << value << " with " << digits;
    }
  }
}

TEST(Histogram, PercentilesAreThoseOfTheSortedValues) {
  base::Random random(7);
  std::vector<std::uint64_t> values;
  Histogram histogram;
  for (int i = 0; i < 50'000; ++i) {
    values.push_back(std::uint64_t(std::exp(double(random.below(20'000)) / 1000)));
    histogram.record(values.back());
  }
  std::sort(values.begin(), values.end());
  for (const double percent : {0.0, 1.0, 25.0, 50.0, 95.0, 99.0, 99.9, 100.0}) {
    const auto rank = std::max<std::size_t>(1, std::size_t(std::ceil(percent / 100 * double(values.size()) - 1e-6)));
    const double exact = double(values[rank - 1]);
    EXPECT_NEAR(double(histogram.percentile(percent)), exact, exact / 1000) << percent;
  }
  EXPECT_EQ(histogram.min(), values.front());
  EXPECT_EQ(histogram.max(), values.back());
}

TEST(Histogram, MergedIsAsIfRecordedInOne) {
  base::Random random(3);
  Histogram one, other, both;
  for (int i = 0; i < 10'000; ++i) {
    const std::uint64_t value = random.next() >> (24 + random.below(40));
    (i % 3 == 0 ? one : other).record(value);
    both.record(value);
  }
  one.merge(other);
  EXPECT_EQ(one.count(), both.count());
  EXPECT_EQ(one.min(), both.min());
  EXPECT_EQ(one.max(), both.max());
  for (double percent = 0; percent <= 100; percent += 0.5) EXPECT_EQ(one.percentile(percent), both.percentile(percent));
  one.merge(Histogram());
  EXPECT_EQ(one.min(), both.min());
}

TEST(Histogram, BucketsCarryIt) {
  base::Random random(5);
  Histogram histogram, copy;
  for (int i = 0; i < 5'000; ++i) histogram.record(random.next() >> (24 + random.below(40)));
  for (const auto& [value, count] : histogram.buckets()) copy.record(value, count);
  EXPECT_EQ(copy.count(), histogram.count());
  EXPECT_EQ(copy.max(), histogram.max());
  for (double percent = 0.5; percent <= 100; percent += 0.5) {
    EXPECT_EQ(copy.percentile(percent), histogram.percentile(percent));
  }
}

TEST(Histogram, WhatIsTooLargeCountsAsTheLargest) {
  Histogram histogram(2, 1'000'000);
  histogram.record(UINT64_MAX);
  histogram.record(10);
  EXPECT_EQ(histogram.count(), 2u);
  EXPECT_EQ(histogram.max(), 1'000'000u);
  EXPECT_EQ(histogram.percentile(100), 1'000'000u);
}

TEST(Histogram, NeedsLittleMemory) {
  EXPECT_LT(Histogram(3).memory_bytes(), 512u << 10);
  EXPECT_LT(Histogram(2).memory_bytes(), 64u << 10);
}

}  // namespace
}  // namespace atoll::metrics
