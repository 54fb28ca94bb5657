// Operators on values that are no words.
#include <array>
#include <atomic>
#include <cstring>
#include <limits>
#include <vector>

#include "base/random.hpp"
#include "unit/runtime/operating.hpp"

namespace atoll {
namespace {

using test::LocalCluster;
using test::Operating;

/// Words that are added each by itself; with 32 bits and an odd number of them the size is no power of two.
template <typename Word, std::size_t Count>
struct Words {
  std::array<Word, Count> word{};

  /// All words differ, and none is that of another value.
  static Words of(std::uint64_t value) {
    Words made;
    for (std::size_t i = 0; i < Count; ++i) made.word[i] = Word(value * (i + 1));
    return made;
  }
  static Words add(Words a, Words b) {
    for (std::size_t i = 0; i < Count; ++i) a.word[i] = Word(a.word[i] + b.word[i]);
    return a;
  }
  friend bool operator==(const Words&, const Words&) = default;
};

class OperateWide : public Operating {
 protected:
  static constexpr std::uint32_t kLineBytes = 512;

  explicit OperateWide(const Options& options = LocalCluster::small_options()) : Operating(options) {}

  GlobalAddress lines = home.allocate(256 * kLineBytes).value();

  /// The i-th value of so many bytes each, as many to a line as fit.
  template <typename T>
  [[nodiscard]] global_ptr<T> at(std::uint64_t i) const {
    constexpr std::uint64_t kPerLine = kLineBytes / sizeof(T);
    return global_ptr<T>(lines + std::int64_t(i / kPerLine * kLineBytes + i % kPerLine * sizeof(T)));
  }
  /// On every node; the same number on each.
  template <typename T>
  Operator<T> register_op(const char* name, const T& identity, T (*function)(T, T)) {
    Operator<T> made;
    for (NodeId node = 0; node < 3; ++node) made = cluster[node].register_op<T>(name, identity, function).value();
    return made;
  }
  template <typename T>
  Operator<T> register_add() {
    return register_op<T>("add", T{}, [](T a, T b) { return T::add(a, b); });
  }
};

template <typename T>
class OperateOnWide : public OperateWide {};
using Types = testing::Types<Words<std::uint8_t, 3>, Words<std::uint32_t, 3>, Words<std::uint64_t, 2>,
                             Words<std::uint64_t, 5>, Words<std::uint64_t, 8>, Words<std::uint64_t, 32>>;
TYPED_TEST_SUITE(OperateOnWide, Types);

TYPED_TEST(OperateOnWide, OperandsOfAllThreadsOfAllNodesAddUp) {
  using T = TypeParam;
  const auto add = this->template register_add<T>();
  constexpr std::uint64_t kRounds = 1200, kValues = 70;
  this->on_all(3, [&](Node& node, NodeId, int t) {
    for (std::uint64_t i = 0; i < kRounds; ++i) {
      ASSERT_TRUE(node.apply(this->template at<T>(i % kValues), add, T::of(i + std::uint64_t(t))).ok());
      if (i % 300 == 299) {
        ASSERT_TRUE(node.read(this->template at<T>(i % kValues)).ok());  // all give the line up
      }
    }
  });
  for (NodeId node = 0; node < 3; ++node) {
    for (std::uint64_t value = 0; value < kValues; ++value) {
      T expected{};
      for (std::uint64_t i = value; i < kRounds; i += kValues) {
        for (std::uint64_t t = 0; t < 3; ++t) {
          for (int n = 0; n < 3; ++n) expected = T::add(expected, T::of(i + t));
        }
      }
      ASSERT_EQ(this->read(this->cluster[node], this->template at<T>(value)).word, expected.word) << value;
    }
  }
}

/// Far more lines than slots.
TYPED_TEST(OperateOnWide, EvictionLosesNoOperand) {
  using T = TypeParam;
  const auto add = this->template register_add<T>();
  constexpr std::uint64_t kPerLine = TestFixture::kLineBytes / sizeof(T), kValues = 256 * kPerLine;
  for (int round = 0; round < 2; ++round) {
    this->on_all(1, [&](Node& node, NodeId, int) {
      for (std::uint64_t i = 0; i < 512; ++i) {
        ASSERT_TRUE(node.apply(this->template at<T>(i * (37 * kPerLine + 1) % kValues), add, T::of(1)).ok());
      }
    });
  }
  EXPECT_GT(this->cluster[0].stats().evictions_dirty, 0u);
  T sum{}, expected{};
  this->in_thread([&] {
    for (std::uint64_t i = 0; i < kValues; ++i) sum = T::add(sum, this->home.read(this->template at<T>(i)).value());
  });
  for (int i = 0; i < 2 * 3 * 512; ++i) expected = T::add(expected, T::of(1));
  EXPECT_EQ(sum.word, expected.word);
}

/// Sum and count. Who reads must find both of the same moment.
struct Mean {
  double sum = 0;
  std::uint64_t count = 0;
};
Mean both(Mean a, Mean b) {
  return {a.sum + b.sum, a.count + b.count};
}

class OperateBesideReaders : public OperateWide, public testing::WithParamInterface<bool> {
 protected:
  OperateBesideReaders() : OperateWide(options()) {}
  static Options options() {
    Options options = LocalCluster::small_options();
    options.read_in_place = GetParam();
    return options;
  }
};
INSTANTIATE_TEST_SUITE_P(, OperateBesideReaders, testing::Bool(),
                         [](const auto& how) { return std::string(how.param ? "InPlace" : "ByMessages"); });

TEST_P(OperateBesideReaders, WholeValuesAreSeen) {
  const auto by = register_op<Mean>("mean", {}, both);
  const auto place = [&](std::uint64_t i) { return at<Mean>(i * 20); };
  std::atomic<std::uint64_t> applied{0};
  on_all(3, [&](Node& node, NodeId id, int t) {
    base::Random random(std::uint64_t(id) * 3 + std::uint64_t(t) + 1);
    for (int i = 0; i < 800; ++i) {
      const auto which = place(random.below(4));
      if (random.below(3) != 0) {
        ASSERT_TRUE(node.apply(which, by, {2.5, 1}).ok());
        ++applied;
      } else {
        const Mean found = node.read(which).value();
        ASSERT_EQ(found.sum, 2.5 * double(found.count));
      }
    }
  });
  std::uint64_t count = 0;
  for (std::uint64_t i = 0; i < 4; ++i) count += read(cluster[0], place(i)).count;
  EXPECT_EQ(count, applied.load());
}

/// Writes of the whole value, locks, another wide operator and one of words, all in the same two lines.
TEST_F(OperateWide, BesideWritersLocksAndOtherOperators) {
  using Most = Words<std::uint32_t, 3>;
  const auto by = register_op<Mean>("mean", {}, both);
  const auto most = register_op<Most>("most of each", {}, [](Most a, Most b) {
    for (std::size_t i = 0; i < 3; ++i) a.word[i] = std::max(a.word[i], b.word[i]);
    return a;
  });
  std::atomic<std::uint64_t> means{0}, words{0}, locked{0};
  on_all(2, [&](Node& node, NodeId id, int t) {
    base::Random random(std::uint64_t(id) * 2 + std::uint64_t(t) + 1);
    for (std::uint64_t i = 0; i < 500; ++i) {
      const GlobalAddress line = lines + std::int64_t(random.below(2) * kLineBytes);
      const GlobalAddress own = line + 256 + 16 * (2 * id + t);
      switch (random.below(6)) {
        case 0: ASSERT_TRUE(node.apply(global_ptr<Mean>(line), by, {0.5, 1}).ok() && ++means > 0); break;
        case 1: ASSERT_TRUE(node.apply(global_ptr<Most>(line + 36), most, Most::of(i)).ok()); break;
        case 2:
          ASSERT_TRUE(node.apply(global_ptr<std::uint64_t>(line + 64), op::add<std::uint64_t>, 1).ok() && ++words > 0);
          break;
        case 3: ASSERT_TRUE(node.write(own, Mean{double(i), i}).ok()); break;
        case 4: {
          const Mean found = node.read<Mean>(own).value();
          ASSERT_EQ(found.sum, double(found.count));
          break;
        }
        default: {
          const WriteGuard guard(node, global_ptr<Mean>(line + 96));
          const Mean before = node.read<Mean>(line + 96).value();
          ASSERT_TRUE(node.apply(global_ptr<Mean>(line + 96), by, {1, 1}, Consistency::kTso).ok());
          ASSERT_EQ(node.read<Mean>(line + 96).value().count, before.count + 1);
          ++locked;
        }
      }
    }
  });
  std::uint64_t sum = 0, added = 0, under_lock = 0;
  for (const GlobalAddress line : {lines, lines + kLineBytes}) {
    const Mean mean = read(cluster[0], global_ptr<Mean>(line));
    EXPECT_EQ(mean.sum, 0.5 * double(mean.count));
    sum += mean.count;
    added += read(cluster[2], global_ptr<std::uint64_t>(line + 64));
    under_lock += read(cluster[1], global_ptr<Mean>(line + 96)).count;
    const Most found = read(cluster[1], global_ptr<Most>(line + 36));
    EXPECT_EQ(found.word, Most::of(found.word[0]).word);
  }
  EXPECT_EQ(sum, means.load());
  EXPECT_EQ(added, words.load());
  EXPECT_EQ(under_lock, locked.load());
}

/// What is beside the values, behind the last of a line, and values of which nobody has changed anything.
TEST_F(OperateWide, WhatNobodyCombinedWithKeepsEveryBit) {
  const auto by = register_op<Words<double, 5>>("sums", {}, [](Words<double, 5> a, Words<double, 5> b) {
    for (std::size_t i = 0; i < 5; ++i) a.word[i] += b.word[i];
    return a;
  });
  std::vector<std::uint64_t> line(kLineBytes / 8), found(kLineBytes / 8);
  for (std::size_t i = 0; i < line.size(); ++i) line[i] = i % 2 == 0 ? 0x7ff0000000000001 : 0x8000000000000000;
  std::fill(line.begin() + 5, line.begin() + 10, 0);
  in_thread([&] { ASSERT_TRUE(home.write(lines, std::as_bytes(std::span(line))).ok()); });
  for (const NodeId node : {NodeId(0), NodeId(1), NodeId(2)}) {
    in_thread([&] {
      ASSERT_TRUE(cluster[node].apply(at<Words<double, 5>>(1), by, {{1, 2, 3, 4, 5}}, Consistency::kTso).ok());
    });
  }
  in_thread([&] { ASSERT_TRUE(cluster[2].read(lines, std::as_writable_bytes(std::span(found))).ok()); });
  for (std::size_t i = 5; i < 10; ++i) {
    const double expected = 3.0 * double(i - 4);
    std::memcpy(&line[i], &expected, 8);
  }
  EXPECT_EQ(found, line);
}

/// Bytes between the members are anything, and mean nothing.
TEST_F(OperateWide, PaddingIsHarmless) {
  struct Padded {
    std::uint64_t sum = 0;
    std::uint8_t most = 0;
  };
  static_assert(sizeof(Padded) == 16);
  const auto with_padding = [](std::uint64_t sum, std::uint8_t most, int padding) {
    Padded made;
    std::memset(static_cast<void*>(&made), padding, sizeof(made));
    made.sum = sum;
    made.most = most;
    return made;
  };
  const auto by = register_op<Padded>("padded", with_padding(0, 0, 0xaa), [](Padded a, Padded b) {
    return Padded{a.sum + b.sum, std::max(a.most, b.most)};
  });
  on_all(2, [&](Node& node, NodeId id, int t) {
    for (int i = 0; i < 200; ++i) {
      ASSERT_TRUE(node.apply(at<Padded>(0), by, with_padding(0, 0, i)).ok());
      ASSERT_TRUE(node.apply(at<Padded>(1), by, with_padding(1, std::uint8_t(10 * id + t), i)).ok());
    }
  });
  EXPECT_EQ(read(cluster[0], at<Padded>(0)).sum, 0u);
  EXPECT_EQ(read(cluster[0], at<Padded>(0)).most, 0u);
  EXPECT_EQ(read(cluster[0], at<Padded>(1)).sum, 1200u);
  EXPECT_EQ(read(cluster[0], at<Padded>(1)).most, 21u);
}

TEST_F(OperateWide, WrongArgumentsAreRefused) {
  using Three = Words<std::uint32_t, 3>;
  const auto add = register_add<Three>();
  in_thread([&] {
    Node& node = cluster[0];
    const auto code = [&](GlobalAddress address, const Operator<Three>& by) {
      return node.apply(global_ptr<Three>(address), by, Three::of(1), Consistency::kTso).code();
    };
    EXPECT_EQ(code(lines + 12 * 41, add), Errc::kOk);
    EXPECT_EQ(code(lines + 4, add), Errc::kInvalidArgument);
    EXPECT_EQ(code(lines + 12 * 42, add), Errc::kInvalidArgument);         // does not end in the line
    EXPECT_EQ(code(lines + kLineBytes + 4, add), Errc::kInvalidArgument);  // 516 = 43 * 12: what counts is the line
    EXPECT_EQ(code(lines + kLineBytes + 12, add), Errc::kOk);
    EXPECT_EQ(code(GlobalAddress(), add), Errc::kNullAddress);
    EXPECT_EQ(code(GlobalAddress::make(9, 4096), add), Errc::kBadAddress);
    EXPECT_EQ(code(lines, {op::add<std::uint64_t>.number, nullptr}), Errc::kInvalidArgument);
    EXPECT_EQ(code(lines, {std::uint8_t(add.number ^ 1), nullptr}), Errc::kNotFound);
    EXPECT_EQ(node.register_op<Three>("add", {}, Three::add).status().code(), Errc::kAlreadyExists);
    EXPECT_EQ(node.register_op<Three>("none", {}, nullptr).status().code(), Errc::kInvalidArgument);
    EXPECT_EQ(node.register_op<Three>("", {}, Three::add).status().code(), Errc::kInvalidArgument);
  });
}

}  // namespace
}  // namespace atoll
