// What the memory model promises: fence under PSO, TSO and SC per call and per node.
#include <cstdlib>
#include <string_view>
#include <thread>

#include "behaviour/together.hpp"

namespace atoll::test {
namespace {

class Order : public Together {
 protected:
  static constexpr int kLines = 16;
  /// Node 0 writes data on lines of all nodes, orders it as `publish` does, then raises a flag; who has seen the flag
  /// must see the data. The number of times that somebody did not.
  int pass_messages(Consistency of_data, Consistency of_flag, bool fence) {
    std::vector<GlobalAddress> data;
    for (int i = 0; i < kLines; ++i) data.push_back(shared_bytes(node().line_bytes(), NodeId(i % count())));
    const auto flag = shared_objects<std::uint64_t>(1, NodeId(count() - 1));
    constexpr std::uint64_t kRounds = 200;
    int stale = 0;
    meet();
    for (std::uint64_t round = 1; id() == 0 && round <= kRounds; ++round) {
      for (const GlobalAddress line : data) EXPECT_TRUE(node().write<std::uint64_t>(line, round, of_data).ok());
      if (fence) {
        EXPECT_TRUE(node().fence().ok());
      }
      EXPECT_TRUE(node().write(flag, round, of_flag).ok());
      if (round % 8 == 0) std::this_thread::yield();
    }
    for (std::uint64_t seen = 0; id() != 0 && seen < kRounds;) {
      seen = node().read(flag).value();
      for (auto line = data.rbegin(); line != data.rend(); ++line)
        stale += node().read<std::uint64_t>(*line).value() < seen;
      std::this_thread::yield();
    }
    EXPECT_TRUE(node().fence().ok());
    meet();
    return stale;
  }
  static std::string_view of_this_node() {
    const char* given = std::getenv("ATOLL_CONSISTENCY");
    return given == nullptr ? "pso" : given;
  }
};

TEST_F(Order, AFenceOrdersWritesUnderPso) {
  EXPECT_EQ(pass_messages(Consistency::kPso, Consistency::kPso, true), 0);
}

TEST_F(Order, WritesUnderTsoNeedNoFence) {
  EXPECT_EQ(pass_messages(Consistency::kTso, Consistency::kPso, false), 0);
}

TEST_F(Order, WritesUnderScNeedNoFence) {
  EXPECT_EQ(pass_messages(Consistency::kSc, Consistency::kSc, false), 0);
}

TEST_F(Order, TheNodesOwnConsistencyIsTheDefault) {
  if (of_this_node() == "pso") GTEST_SKIP() << "pso promises no order without a fence";
  EXPECT_EQ(pass_messages(Consistency::kDefault, Consistency::kDefault, false), 0);
}

/// Dekker: under SC two writers that then read each other's flag never both find it unset.
TEST_F(Order, UnderScSomebodySeesTheOther) {
  ATOLL_NEEDS_NODES(2);
  const auto x = shared_objects<std::uint64_t>(1, 0), y = shared_objects<std::uint64_t>(1, 1);
  const auto seen = shared_objects<std::uint64_t>(2);
  const Consistency sc = of_this_node() == "sc" ? Consistency::kDefault : Consistency::kSc;
  for (std::uint64_t round = 1; round <= 100; ++round) {
    meet();
    if (id() < 2) {
      ASSERT_TRUE(node().write(id() == 0 ? x : y, round, sc).ok());
      ASSERT_TRUE(node().write(seen + id(), node().read(id() == 0 ? y : x).value()).ok());
    }
    meet();
    const bool somebody = node().read(seen).value() == round || node().read(seen + 1).value() == round;
    ASSERT_TRUE(somebody) << "round " << round;
  }
}

TEST_F(Order, AThreadSeesItsOwnWritesAtOnce) {
  const GlobalAddress base = node().allocate(64 * node().line_bytes(), Placement::on(next())).value();
  for (std::uint64_t i = 1; i <= 500; ++i) {
    const GlobalAddress at = base + std::int64_t(i * 37 % 64 * node().line_bytes());
    ASSERT_TRUE(node().write<std::uint64_t>(at, i).ok());
    ASSERT_EQ(node().read<std::uint64_t>(at).value(), i);
  }
  EXPECT_TRUE(node().fence().ok());
}

/// Every access within one line is atomic, whatever its size.
TEST_F(Order, BlocksWithinALineAreNeverTorn) {
  struct Block {
    std::uint64_t words[8];
  };
  const auto block = shared_objects<Block>(1, NodeId(count() - 1));
  ASSERT_EQ(block.address().offset() % 64, 0u) << "a block of 64 bytes is aligned to them";
  for (std::uint64_t i = 1; i <= 500; ++i) {
    Block mine;
    for (auto& word : mine.words) word = i * count() + id();
    ASSERT_TRUE(node().write(block, mine).ok());
    const Block found = node().read(block).value();
    for (const std::uint64_t word : found.words) ASSERT_EQ(word, found.words[0]);
  }
  ASSERT_TRUE(node().fence().ok());
}

}  // namespace
}  // namespace atoll::test
