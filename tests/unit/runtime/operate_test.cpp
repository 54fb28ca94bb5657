// Operands that many nodes and threads combine at once, and those who read, write and lock beside them.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "base/random.hpp"
#include "unit/runtime/operating.hpp"
#include "wire/kinds.hpp"

namespace atoll {
namespace {

using wire::Kind;

class Operate : public test::Operating {
 protected:
  static constexpr std::int64_t kLine = 64;  // words

  global_ptr<std::uint64_t> words = home.allocate<std::uint64_t>(256 * kLine).value();

  [[nodiscard]] static std::uint64_t sent(Node& node, Kind kind) {
    return node.stats().sent_by_kind[std::size_t(kind)];
  }
};

TEST_F(Operate, OperandsOfAllNodesAddUp) {
  constexpr std::uint64_t kRounds = 2000;
  on_all(2, [&](Node& node, NodeId, int) {
    for (std::uint64_t i = 0; i < kRounds; ++i) {
      ASSERT_TRUE(node.apply(words + std::int64_t(i % 100), op::add<std::uint64_t>, i).ok());
    }
  });
  std::array<std::uint64_t, 100> expected{};
  for (std::uint64_t i = 0; i < kRounds; ++i) expected[i % 100] += 6 * i;
  for (NodeId node = 0; node < 3; ++node) {
    for (int i = 0; i < 100; ++i) ASSERT_EQ(read(cluster[node], words + i), expected[std::size_t(i)]) << node;
  }
}

TEST_F(Operate, TheyAreCombinedHereWithoutAMessageEach) {
  in_thread([&] {
    Node& node = cluster[0];
    for (int i = 0; i < 1000; ++i) ASSERT_TRUE(node.apply(words + i % kLine, op::add<std::uint64_t>, 1).ok());
    ASSERT_TRUE(node.fence().ok());
    EXPECT_EQ(sent(node, Kind::kGetOperated), 1u);
    EXPECT_EQ(node.stats().lines_sent, 0u);
  });
  EXPECT_EQ(read(home, words), 1000u / kLine + 1);
  EXPECT_EQ(sent(cluster[0], Kind::kPutOperated), 1u);
  EXPECT_EQ(home.stats().merges, 1u);
}

TEST_F(Operate, SeveralNodesAtOnceTakeNothingFromEachOther) {
  for (NodeId node : {NodeId(0), NodeId(2), NodeId(1)}) {
    in_thread([&] {
      for (int i = 0; i < 100; ++i) ASSERT_TRUE(cluster[node].apply(words, op::add<std::uint64_t>, 1).ok());
      ASSERT_TRUE(cluster[node].fence().ok());
    });
  }
  EXPECT_EQ(sent(home, Kind::kInvalidate), 0u);
  EXPECT_EQ(read(cluster[2], words), 300u);
  EXPECT_EQ(sent(home, Kind::kInvalidate), 1u);  // node 2 returned its own when it wanted to read
}

template <typename T>
T reference(int function, T a, T b) {
  switch (function) {
    case 0: return T(a + b);
    case 1: return T(a * b);
    case 2: return std::min(a, b);
    case 3: return std::max(a, b);
    case 4:
      if constexpr (std::is_integral_v<T>)
        return T(a & b);
      else
        return a;
    case 5:
      if constexpr (std::is_integral_v<T>)
        return T(a | b);
      else
        return a;
    default:
      if constexpr (std::is_integral_v<T>)
        return T(a ^ b);
      else
        return a;
  }
}

template <typename T>
Status apply(Node& node, global_ptr<T> at, int function, T operand) {
  switch (function) {
    case 0: return node.apply(at, op::add<T>, operand);
    case 1: return node.apply(at, op::multiply<T>, operand);
    case 2: return node.apply(at, op::min<T>, operand);
    case 3: return node.apply(at, op::max<T>, operand);
    default: break;
  }
  if constexpr (std::is_integral_v<T>) {
    if (function == 4) return node.apply(at, op::bit_and<T>, operand);
    if (function == 5) return node.apply(at, op::bit_or<T>, operand);
    return node.apply(at, op::bit_xor<T>, operand);
  }
  return {};
}

template <typename T>
class OperateOn : public Operate {};
using Types = testing::Types<std::int8_t, std::uint8_t, std::int16_t, std::uint16_t, std::int32_t, std::uint32_t,
                             std::int64_t, long long, unsigned long long, float, double>;
TYPED_TEST_SUITE(OperateOn, Types);

/// Whole numbers, so that the order of additions does not show in floating point either.
TYPED_TEST(OperateOn, EveryFunctionDoesWhatItSays) {
  using T = TypeParam;
  for (int function = 0; function < (std::is_integral_v<T> ? 7 : 4); ++function) {
    const auto at = global_ptr<T>((this->words + function * this->kLine).address());
    const T first = T(function == 4 ? 0x7f : 3);
    T expected = first;
    this->in_thread([&] { ASSERT_TRUE(this->cluster[2].write(at, first, Consistency::kTso).ok()); });
    for (int i = 0; i < 9; ++i) {
      const T operand = function == 1 ? T(2) : T(i * 7 % 11 - (std::is_signed_v<T> ? 4 : 0));
      expected = reference(function, expected, operand);
      this->in_thread([&] {
        Node& node = this->cluster[NodeId(i % 3)];
        ASSERT_TRUE(apply(node, at, function, operand).ok());
        ASSERT_TRUE(node.fence().ok());
      });
    }
    for (NodeId node = 0; node < 3; ++node) EXPECT_EQ(this->read(this->cluster[node], at), expected) << function;
  }
}

TEST_F(Operate, WhatNobodyCombinedWithKeepsEveryBit) {
  const global_ptr<double> reals(words.address());
  const std::uint64_t signalling = 0x7ff0000000000001, minus_zero = 0x8000000000000000;
  in_thread([&] {
    ASSERT_TRUE(home.write(words + 1, signalling).ok());
    ASSERT_TRUE(home.write(words + 2, minus_zero).ok());
  });
  in_thread([&] { ASSERT_TRUE(cluster[0].apply(reals, op::add<double>, 1.5, Consistency::kTso).ok()); });
  EXPECT_EQ(read(cluster[2], reals), 1.5);
  EXPECT_EQ(read(cluster[2], words + 1), signalling);
  EXPECT_EQ(read(cluster[2], words + 2), minus_zero);
}

TEST_F(Operate, AnOperatorOfOnesOwn) {
  const auto larger_by_size = [](std::int64_t a, std::int64_t b) -> std::int64_t {
    return std::abs(a) != std::abs(b) ? (std::abs(a) > std::abs(b) ? a : b) : std::max(a, b);
  };
  std::vector<Operator<std::int64_t>> by;
  for (NodeId node = 0; node < 3; ++node) {
    by.push_back(cluster[node].register_op<std::int64_t>("larger by size", 0, larger_by_size).value());
    EXPECT_EQ(cluster[node].register_op<std::int64_t>("larger by size", 0, larger_by_size).status().code(),
              Errc::kAlreadyExists);
  }
  EXPECT_EQ(by[0].number, by[2].number);
  const global_ptr<std::int64_t> at(words.address());
  on_all(1, [&](Node& node, NodeId id, int) {
    for (std::int64_t i = 0; i < 500; ++i) ASSERT_TRUE(node.apply(at, by[id], (i % 2 == 0 ? i : -i) * (id + 1)).ok());
  });
  EXPECT_EQ(read(cluster[2], at), -499 * 3);
}

TEST_F(Operate, WrongArgumentsAreRefused) {
  in_thread([&] {
    Node& node = cluster[0];
    EXPECT_EQ(node.apply(global_ptr<std::uint64_t>(words.address() + 4), op::add<std::uint64_t>, 1).code(),
              Errc::kInvalidArgument);
    EXPECT_EQ(node.apply(global_ptr<std::uint64_t>(), op::add<std::uint64_t>, 1).code(), Errc::kNullAddress);
    EXPECT_EQ(node.apply(global_ptr<std::uint64_t>(GlobalAddress::make(9, 4096)), op::add<std::uint64_t>, 1).code(),
              Errc::kBadAddress);
    const Operator<std::uint64_t> unknown{200, nullptr};
    EXPECT_EQ(node.apply(words, unknown, 1, Consistency::kTso).code(), Errc::kNotFound);
    const Operator<std::uint64_t> of_other_size{op::add<std::uint32_t>.number, nullptr};
    EXPECT_EQ(node.apply(words, of_other_size, 1, Consistency::kTso).code(), Errc::kInvalidArgument);
    EXPECT_EQ(node.register_op<std::uint64_t>("", 0, nullptr).status().code(), Errc::kInvalidArgument);
  });
}

/// Two operators, reads, writes and locks, all on the same few lines. What is left does not depend on the order.
TEST_F(Operate, OperatorsBesideReadersWritersAndLocks) {
  std::atomic<std::uint64_t> locked{0};
  on_all(2, [&](Node& node, NodeId id, int t) {
    base::Random random(std::uint64_t(id) * 2 + std::uint64_t(t) + 1);
    for (std::uint64_t i = 0; i < 600; ++i) {
      const std::int64_t line = std::int64_t(random.below(4)) * kLine;
      switch (random.below(6)) {
        case 0:
        case 1: ASSERT_TRUE(node.apply(words + line, op::add<std::uint64_t>, 1).ok()); break;
        case 2: ASSERT_TRUE(node.apply(words + line + 1, op::max<std::uint64_t>, i).ok()); break;
        case 3: ASSERT_TRUE(node.read(words + line).ok()); break;
        case 4: ASSERT_TRUE(node.write(words + line + 8 + id * 2 + t, i).ok()); break;
        default: {
          const WriteGuard guard(node, words + line + 2);
          ASSERT_TRUE(node.write(words + line + 2, node.read(words + line + 2).value() + 1).ok());
          ++locked;
          break;
        }
      }
      if (i % 50 == 0) (void)node.read(words + std::int64_t(random.below(256)) * kLine);
    }
  });
  std::uint64_t added = 0, counted = 0;
  for (std::int64_t line = 0; line < 4; ++line) {
    added += read(cluster[2], words + line * kLine);
    counted += read(cluster[0], words + line * kLine + 2);
    EXPECT_LT(read(cluster[1], words + line * kLine + 1), 600u);
  }
  EXPECT_EQ(counted, locked.load());
  std::uint64_t expected = 0;
  for (NodeId id = 0; id < 3; ++id) {
    for (int t = 0; t < 2; ++t) {
      base::Random random(std::uint64_t(id) * 2 + std::uint64_t(t) + 1);
      for (std::uint64_t i = 0; i < 600; ++i) {
        (void)random.below(4);
        expected += random.below(6) <= 1 ? 1 : 0;
        if (i % 50 == 0) (void)random.below(256);
      }
    }
  }
  EXPECT_EQ(added, expected);
}

/// Far more lines than slots: operands leave by eviction.
TEST_F(Operate, EvictionLosesNoOperand) {
  const std::int64_t lines = 256;
  for (int round = 0; round < 3; ++round) {
    on_all(1, [&](Node& node, NodeId, int) {
      for (std::int64_t i = 0; i < lines; ++i) {
        ASSERT_TRUE(node.apply(words + (i * 37 % lines) * kLine + i % 8, op::add<std::uint64_t>, 1).ok());
      }
    });
  }
  EXPECT_GT(cluster[0].stats().evictions_dirty, 0u);
  std::uint64_t sum = 0;
  in_thread([&] {
    for (std::int64_t i = 0; i < 256 * kLine; ++i) sum += home.read(words + i).value();
  });
  EXPECT_EQ(sum, 9u * 256);
}

}  // namespace
}  // namespace atoll
