// Operators: what all nodes combine at once.
#include <array>
#include <thread>
#include <vector>

#include "base/random.hpp"
#include "behaviour/together.hpp"

namespace atoll::test {
namespace {

class Operators : public Together {};

TEST_F(Operators, OperandsOfAllNodesAddUp) {
  constexpr std::uint64_t kWords = 300;
  const auto words = shared_objects<std::uint64_t>(kWords, NodeId(count() - 1));
  constexpr std::uint64_t kRounds = 3000;
  for (std::uint64_t i = 0; i < kRounds; ++i) {
    ASSERT_TRUE(node().apply(words + std::int64_t(i * 7 % kWords), op::add<std::uint64_t>, i).ok());
  }
  meet();
  std::vector<std::uint64_t> expected(kWords, 0);
  for (std::uint64_t i = 0; i < kRounds; ++i) expected[i * 7 % kWords] += i * count();
  for (std::uint64_t i = 0; i < kWords; ++i) {
    ASSERT_EQ(node().read(words + std::int64_t(i)).value(), expected[i]) << i;
  }
}

TEST_F(Operators, OfDifferentKindsTakeTurns) {
  const auto words = shared_objects<std::int32_t>(3, 0);
  for (std::int32_t i = 1; i <= 200; ++i) {
    const std::int32_t mine = i * (id() + 1);
    ASSERT_TRUE(node().apply(words, op::add<std::int32_t>, mine).ok());
    ASSERT_TRUE(node().apply(words + 1, op::max<std::int32_t>, mine).ok());
    ASSERT_TRUE(node().apply(words + 2, op::min<std::int32_t>, -mine).ok());
    if (i % 20 == 0) {
      ASSERT_GE(node().read(words + 1).value(), mine);
    }
  }
  meet();
  EXPECT_EQ(node().read(words).value(), 20'100 * count() * (count() + 1) / 2);
  EXPECT_EQ(node().read(words + 1).value(), 200 * count());
  EXPECT_EQ(node().read(words + 2).value(), -200 * count());
}

/// A histogram in a memory that is larger than the cache: operands leave by eviction, and none is lost.
TEST_F(Operators, AHistogramOfManyBins) {
  const std::uint64_t bins = 2 * node().stats().cache_lines * node().line_bytes() / 8;
  const auto histogram = shared_objects<std::uint64_t>(bins, 0);
  base::Random random(id());
  constexpr std::uint64_t kDraws = 20'000;
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    ASSERT_TRUE(node().apply(histogram + std::int64_t(random.below(bins)), op::add<std::uint64_t>, 1).ok());
  }
  meet();
  if (id() == 0) {
    std::uint64_t sum = 0;
    for (std::uint64_t i = 0; i < bins; ++i) sum += node().read(histogram + std::int64_t(i)).value();
    EXPECT_EQ(sum, kDraws * count());
  }
}

TEST_F(Operators, OfSeveralThreadsPerNode) {
  const auto sums = shared_objects<double>(8, NodeId(count() - 1));
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) ASSERT_TRUE(node().apply(sums + i % 8, op::add<double>, 0.5).ok());
      ASSERT_TRUE(node().fence().ok());
    });
  }
  for (auto& thread : threads) thread.join();
  meet();
  for (int i = 0; i < 8; ++i) EXPECT_EQ(node().read(sums + i).value(), 187.5 * count());
}

TEST_F(Operators, OfOnesOwn) {
  const auto by = node().register_op<std::uint32_t>("product modulo 65537", 1, [](std::uint32_t a, std::uint32_t b) {
    return std::uint32_t(std::uint64_t(a) * b % 65'537);
  });
  ASSERT_TRUE(by.ok());
  const auto product = shared_objects<std::uint32_t>(1, 0);
  if (id() == 0) {
    ASSERT_TRUE(node().write(product, 1).ok());
  }
  meet();  // everyone has registered it, and the value is there
  for (std::uint32_t i = 0; i < 100; ++i) ASSERT_TRUE(node().apply(product, *by, 3 + 2 * id()).ok());
  meet();
  std::uint32_t expected = 1;
  for (NodeId node = 0; node < count(); ++node) {
    for (int i = 0; i < 100; ++i) expected = std::uint32_t(std::uint64_t(expected) * (3u + 2u * node) % 65'537);
  }
  EXPECT_EQ(node().read(product).value(), expected);
}

/// Mean and spread of what all nodes have measured, in one value.
struct Moments {
  double sum = 0;
  double squares = 0;
  std::uint64_t count = 0;
};

TEST_F(Operators, OfWideValues) {
  const auto by = node().register_op<Moments>("moments", {}, [](Moments a, Moments b) {
    return Moments{a.sum + b.sum, a.squares + b.squares, a.count + b.count};
  });
  ASSERT_TRUE(by.ok());
  // More than the cache holds: some leave by eviction, some when they are read.
  const std::uint64_t size = 2 * node().stats().cache_lines * (node().line_bytes() / sizeof(Moments));
  const Array<Moments> moments(node(), size, {.chunk = 64});
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      base::Random random(2 * id() + t);
      for (int i = 0; i < 5000; ++i) {
        const std::uint64_t at = i % 2 == 0 ? random.below(100) : random.below(size);
        ASSERT_TRUE(moments.apply(at, *by, {3, 9, 1}).ok());
        if (i % 50 == 0) {
          const Moments found = moments.get(at).value();
          ASSERT_TRUE(found.sum == 3.0 * double(found.count) && found.squares == 9.0 * double(found.count));
        }
      }
      ASSERT_TRUE(node().fence().ok());
    });
  }
  for (auto& thread : threads) thread.join();
  meet();
  std::uint64_t here = 0;
  for (std::uint64_t i = moments.local_begin(); i < moments.local_end(); ++i) {
    const Moments found = moments.get(i).value();
    ASSERT_EQ(found.sum, 3.0 * double(found.count));
    here += found.count;
  }
  const auto total = shared_objects<std::uint64_t>(1, 0);
  ASSERT_TRUE(node().apply(total, op::add<std::uint64_t>, here).ok());
  meet();
  EXPECT_EQ(node().read(total).value(), 10'000u * count());
}

/// Sizes that do not divide a line's: the values lie at multiples of their size from the beginning of each line.
TEST_F(Operators, OfValuesThatLeaveGaps) {
  using Three = std::array<std::uint32_t, 3>;
  const auto by = node().register_op<Three>("three sums", {}, [](Three a, Three b) {
    return Three{a[0] + b[0], a[1] + b[1], a[2] + b[2]};
  });
  ASSERT_TRUE(by.ok());
  const Array<Three> sums(node(), 1000, {.chunk = 50});
  for (std::uint32_t i = 0; i < 3000; ++i) ASSERT_TRUE(sums.apply(i * 7 % 1000, *by, {1, 10, i}).ok());
  meet();
  for (std::uint32_t i = 0; i < 3000; i += 101) {
    const std::uint32_t first = i % 1000;  // those that met in one element
    const Three expected = {3u * count(), 30u * count(), (3 * first + 3000) * count()};
    ASSERT_EQ(sums.get(i * 7 % 1000).value(), expected);
  }
  const GlobalAddress heap = shared_bytes(2 * node().line_bytes());
  EXPECT_EQ(node().apply(global_ptr<Three>(heap + 4), *by, {}).code(), Errc::kInvalidArgument);
  const std::int64_t last = node().line_bytes() / 12 * 12;
  EXPECT_EQ(node().apply(global_ptr<Three>(heap + last), *by, {}).code(), Errc::kInvalidArgument);
  EXPECT_TRUE(node().apply(global_ptr<Three>(heap + (last - 12)), *by, {}).ok());
}

}  // namespace
}  // namespace atoll::test
