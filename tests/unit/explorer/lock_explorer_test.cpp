// The locks of elements in every state that small clusters can reach, and the same with one mistake in them.
#include "explorer/lock_explorer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>

namespace atoll::explorer {
namespace {

using ::testing::HasSubstr;

void expect_sound(const LockWorldOptions& world) {
  const LockExploreResult result = explore_locks({world});
  EXPECT_FALSE(result.violation.has_value()) << *result.violation;
  EXPECT_TRUE(result.complete) << result.states << " states";
}

/// The rows that were not used, but for those of clusters of the other sort: logged, or not.
std::set<std::string> unused_rows(const LockExploreResult& result, bool logged) {
  std::set<std::string> rows;
  for (const std::string& row : result.unused_rows(coherence::kElementTable)) {
    const auto has = [&](std::string_view word) { return row.find(word) != std::string::npos; };
    if (logged ? !has("Abandoned") && !has("HolderDied") : !has("Away") && !has("Reinstate")) rows.insert(row);
  }
  return rows;
}

TEST(LockExplorer, ThreeNodesOneElementWithEverything) {
  const LockExploreResult result = explore_locks({{.nodes = 3}});
  EXPECT_FALSE(result.violation.has_value()) << *result.violation;
  EXPECT_TRUE(result.complete);
  // The rest needs a second thread, or more requests than a node may have.
  const std::set<std::string> expected = {
      "Free + Excess",          "Reading + Excess",   "ReadingQueued + Excess",   "Writing + Excess",
      "WritingQueued + Excess", "Abandoned + Excess", "ReadingQueued + TurnRead", "ReadingQueued + TurnWrite"};
  EXPECT_EQ(unused_rows(result, false), expected);
}
TEST(LockExplorer, ThreeNodesTwoElements) {
  expect_sound({.nodes = 3, .elements = 2, .ops = kLockOpsWrite | kLockOpsDeath});
}
TEST(LockExplorer, TwoNodesTwoElementsOfTwoHomes) {
  expect_sound({.nodes = 2, .elements = 2, .ops = kLockOpsRead | kLockOpsWrite | kLockOpsTry | kLockOpsDeath});
}
TEST(LockExplorer, TwoThreadsOfTwoNodes) {
  expect_sound({.nodes = 2, .threads = 2, .ops = kLockOpsRead | kLockOpsWrite | kLockOpsCancel});
}
TEST(LockExplorer, MoreThreadsThanANodeMayHaveRequests) {
  expect_sound({.nodes = 2,
                .threads = 2,
                .ops = kLockOpsRead | kLockOpsWrite | kLockOpsCancel | kLockOpsDeath,
                .most_requests = 1});
}

// ---- logged: nodes that die come back ----

constexpr std::uint8_t kReturns = kLockOpsRead | kLockOpsWrite | kLockOpsDeath | kLockOpsReturn;

TEST(LockExplorer, LoggedThreeNodesOfWhichTwoDie) {
  expect_sound({.nodes = 3, .ops = kReturns, .most_deaths = 2});
}
TEST(LockExplorer, LoggedTwoNodesWithEverythingThreeDeaths) {
  expect_sound({.nodes = 2, .ops = kLockOpsLogged, .most_deaths = 3});
}
TEST(LockExplorer, LoggedTwoNodesTwoElementsOfTwoHomes) {
  expect_sound({.nodes = 2, .elements = 2, .ops = kLockOpsWrite | kLockOpsDeath | kLockOpsReturn, .most_deaths = 2});
}
TEST(LockExplorer, LoggedEveryRowIsUsed) {
  LockExploreResult all;
  const LockWorldOptions worlds[] = {
      {.nodes = 3, .ops = kLockOpsLogged},
      {.nodes = 3, .ops = kReturns},
      {.nodes = 2, .threads = 2, .ops = kReturns | kLockOpsCancel},
      {.nodes = 2, .threads = 2, .ops = kReturns, .most_requests = 1},
  };
  for (const LockWorldOptions& world : worlds) {
    const LockExploreResult result = explore_locks({world, 300'000});  // the nearest, of the largest of these worlds
    EXPECT_FALSE(result.violation.has_value()) << *result.violation;
    for (std::size_t s = 0; s < all.coverage.size(); ++s) {
      for (std::size_t e = 0; e < all.coverage[s].size(); ++e) all.coverage[s][e] += result.coverage[s][e];
    }
  }
  // The rest needs a second element of the same home.
  EXPECT_EQ(unused_rows(all, true), (std::set<std::string>{"Free + Excess", "Away + Excess"}));
}

TEST(LockExplorer, StopsAtTheGivenNumberOfStatesAndSaysSo) {
  const LockExploreResult result = explore_locks({.world = {}, .max_states = 1000});
  EXPECT_FALSE(result.complete);
  EXPECT_FALSE(result.violation.has_value());
}

TEST(LockExplorer, TheChartIsTheShortestWayAndNamesTheInvariant) {
  coherence::ElementTable table = coherence::kElementTable;
  find_lock_mutant("writer-beside-readers")->apply(table);
  const LockExploreResult result = explore_locks({{.nodes = 2, .table = &table}});
  ASSERT_TRUE(result.violation.has_value());
  EXPECT_EQ(result.depth, 3U);
  EXPECT_THAT(*result.violation, HasSubstr("wants to write element 0"));
  EXPECT_THAT(*result.violation, HasSubstr("violated: node 1 is given element 0 beside others"));
}

TEST(LockWorld, EveryStateOfARandomWalkIsTheSameAfterBytesAndBack) {
  LockWorldOptions options{.nodes = 3, .elements = 2, .threads = 2, .most_deaths = 3};
  std::mt19937 random(7);
  std::vector<LockStep> steps;
  std::vector<std::uint8_t> bytes, again;
  for (int walk = 0; walk < 20; ++walk) {
    options.ops = walk % 2 == 0 ? kLockOpsAll : kLockOpsLogged;
    LockWorld world(options), twin(options);
    for (int i = 0; i < 1000; ++i) {
      world.enumerate(steps);
      if (steps.empty()) break;
      const LockStep step = LockStep::unpack(steps[random() % steps.size()].pack());
      if (step.kind == LockStepKind::kDie && random() % 100 != 0) continue;
      world.apply(step);
      world.check();
      ASSERT_EQ(world.violation(), "");
      world.encode(bytes);
      twin.decode(bytes);
      twin.check();
      ASSERT_EQ(twin.violation(), "");
      ASSERT_EQ(twin.summary(), world.summary());
      twin.encode(again);
      ASSERT_EQ(bytes, again) << "step " << i;
    }
  }
}

class EveryLockMutant : public ::testing::TestWithParam<LockMutant> {};

TEST_P(EveryLockMutant, IsCaught) {
  coherence::ElementTable table = coherence::kElementTable;
  LockWorldOptions world;
  make_mistake(GetParam(), table, world);
  const LockExploreResult result = explore_locks({world});
  EXPECT_TRUE(result.violation.has_value()) << GetParam().mistake;
}

INSTANTIATE_TEST_SUITE_P(Mutants, EveryLockMutant, ::testing::ValuesIn(lock_mutants().begin(), lock_mutants().end()),
                         [](const ::testing::TestParamInfo<LockMutant>& mutant) {
                           std::string name(mutant.param.name);
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

TEST(LockMutants, HaveDifferentNamesAndASentenceEach) {
  std::set<std::string_view> names;
  for (const LockMutant& mutant : lock_mutants()) {
    EXPECT_TRUE(names.insert(mutant.name).second) << mutant.name;
    EXPECT_TRUE(mutant.mistake.ends_with(".")) << mutant.name;
  }
  EXPECT_EQ(find_lock_mutant("no-such-mutant"), nullptr);
}

}  // namespace
}  // namespace atoll::explorer
