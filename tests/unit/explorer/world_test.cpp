// The explorer's own machinery: states as bytes and back, and the set of states seen.
#include "explorer/world.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "explorer/visited.hpp"

namespace atoll::explorer {
namespace {

void expect_same_after_bytes_and_back(const WorldOptions& options) {
  World world(options);
  World twin(options);
  std::mt19937 random(7);
  std::vector<Step> steps;
  std::vector<std::uint8_t> bytes;
  std::vector<std::uint8_t> again;
  for (int i = 0; i < 20'000; ++i) {
    world.enumerate(steps);
    ASSERT_FALSE(steps.empty());
    world.apply(steps[random() % steps.size()]);
    world.check();
    ASSERT_EQ(world.violation(), "");
    world.encode(bytes);
    twin.decode(bytes);
    twin.encode(again);
    ASSERT_EQ(bytes, again) << "step " << i;
  }
}

TEST(World, EveryStateOfARandomWalkIsTheSameAfterBytesAndBack) {
  expect_same_after_bytes_and_back({.nodes = 3, .lines = 2, .threads = 2, .ops = kOpsAll | kOpsCancel | kOpsAhead});
}
TEST(World, SoIsEveryStateWithDeathsAndLogs) {
  for (const bool power : {false, true}) {
    expect_same_after_bytes_and_back({.nodes = 3,
                                      .lines = 2,
                                      .threads = 2,
                                      .ops = kOpsAll | kOpsCancel | kOpsAhead,
                                      .logged = true,
                                      .crashes = 15,
                                      .late_acks = true,
                                      .power = power});
  }
}

TEST(World, SoIsEveryStateWithFiles) {
  expect_same_after_bytes_and_back(
      {.nodes = 3, .lines = 2, .threads = 2, .ops = kOpsAll | kOpsCancel | kOpsAhead, .files = true, .failures = 15});
}

TEST(World, AStepIsTheSameAfterPacking) {
  World world({.nodes = 3, .lines = 2, .threads = 2});
  std::vector<Step> steps;
  world.enumerate(steps);
  for (const Step& step : steps) EXPECT_EQ(Step::unpack(step.pack()).pack(), step.pack());
  const Step step{StepKind::kLoaded, 3, 2, 1, 1, coherence::OpKind::kTryWriteLock, 3};
  const Step copy = Step::unpack(step.pack());
  EXPECT_EQ(copy.kind, step.kind);
  EXPECT_EQ(copy.node, step.node);
  EXPECT_EQ(copy.peer, step.peer);
  EXPECT_EQ(copy.thread, step.thread);
  EXPECT_EQ(copy.line, step.line);
  EXPECT_EQ(copy.op, step.op);
  EXPECT_EQ(copy.ask, step.ask);
}

TEST(Visited, NumbersStatesInOrderAndKnowsThemAgain) {
  Visited visited;
  const auto bytes_of = [](std::uint32_t n) {
    return std::vector<std::uint8_t>{std::uint8_t(n), std::uint8_t(n >> 8), std::uint8_t(n >> 16), 1, 2, 3, 4, 5, 6};
  };
  constexpr std::uint32_t kCount = 200'000;  // enough to grow several times
  for (std::uint32_t n = 0; n < kCount; ++n) {
    const auto [number, is_new] = visited.insert(bytes_of(n), n == 0 ? Visited::kNone : n - 1, 9);
    ASSERT_EQ(number, n);
    ASSERT_TRUE(is_new);
  }
  for (std::uint32_t n = 0; n < kCount; ++n) {
    const auto [number, is_new] = visited.insert(bytes_of(n), 0, 0);
    ASSERT_EQ(number, n);
    ASSERT_FALSE(is_new);
  }
  EXPECT_EQ(visited[7].parent, 6U);
  EXPECT_EQ(visited[7].step, 9U);
}

}  // namespace
}  // namespace atoll::explorer
