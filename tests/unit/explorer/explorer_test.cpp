// The protocol core in every state that small worlds can reach, and the same with one mistake in it.
#include "explorer/explorer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "explorer/mutants.hpp"

namespace atoll::explorer {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

void expect_sound(const ExploreOptions& options) {
  const ExploreResult result = explore(options);
  EXPECT_FALSE(result.violation.has_value()) << *result.violation;
  EXPECT_TRUE(result.complete) << result.states << " states";
  EXPECT_THAT(result.never_rows_used(coherence::Tables{}), IsEmpty());
}

TEST(Explorer, TwoNodesOneLine) {
  expect_sound({.nodes = 2, .lines = 1});
}
TEST(Explorer, TwoNodesOneLineWithReadAheadAndOperationsTakenBack) {
  expect_sound({.nodes = 2, .lines = 1, .ops = kOpsAll | kOpsCancel | kOpsAhead});
}
TEST(Explorer, TwoNodesTwoThreadsWithoutTries) {
  expect_sound({.nodes = 2,
                .lines = 1,
                .threads = 2,
                .ops = kOpsRead | kOpsWrite | kOpsLeave | kOpsAway | kOpsLock | kOpsEvict});
}
TEST(Explorer, ThreeNodesReadWriteEvict) {
  expect_sound({.nodes = 3, .lines = 1, .ops = kOpsRead | kOpsWrite | kOpsLeave | kOpsEvict});
}
TEST(Explorer, ThreeNodesTwoOperators) {
  expect_sound({.nodes = 3, .lines = 1, .ops = kOpsRead | kOpsWrite | kOpsEvict | kOpsOperate});
}
TEST(Explorer, OperatorsBesideLocksOfTwoThreads) {
  expect_sound({.nodes = 2, .lines = 1, .threads = 2, .ops = kOpsRead | kOpsLock | kOpsOperate});
}
TEST(Explorer, TwoLinesLocksInOrder) {
  expect_sound({.nodes = 2, .lines = 2, .ops = kOpsWrite | kOpsLeave | kOpsLock});
}

// ---- logged worlds, in which nodes die and come back

constexpr std::uint32_t kOpsOfLogged = kOpsRead | kOpsWrite | kOpsAtomic | kOpsLock | kOpsTry | kOpsEvict;

TEST(ExplorerLogged, TwoNodesWithoutADeath) {
  expect_sound({.nodes = 2, .ops = kOpsOfLogged | kOpsCancel | kOpsAhead, .logged = true, .late_acks = true});
}
TEST(ExplorerLogged, TwoNodesOneDeath) {
  expect_sound({.nodes = 2, .ops = kOpsOfLogged, .logged = true, .crashes = 1});
}
TEST(ExplorerLogged, TwoNodesOneDeathWithReadAheadAndOperationsTakenBack) {
  expect_sound({.nodes = 2, .ops = kOpsOfLogged | kOpsCancel | kOpsAhead, .logged = true, .crashes = 1});
}
TEST(ExplorerLogged, TwoNodesTwoDeaths) {
  expect_sound({.nodes = 2, .ops = kOpsOfLogged, .logged = true, .crashes = 2});
}
TEST(ExplorerLogged, TwoNodesTwoDeathsLateAcknowledgements) {
  expect_sound({.nodes = 2, .ops = kOpsOfLogged, .logged = true, .crashes = 2, .late_acks = true});
}
TEST(ExplorerLogged, TwoNodesTwoDeathsThatTakeTheEndOfTheLog) {
  expect_sound({.nodes = 2, .ops = kOpsOfLogged, .logged = true, .crashes = 2, .power = true});
}
TEST(ExplorerLogged, TwoNodesTwoThreadsOneDeath) {
  expect_sound({.nodes = 2, .threads = 2, .ops = kOpsRead | kOpsWrite | kOpsEvict, .logged = true, .crashes = 1});
}
TEST(ExplorerLogged, ThreeNodesThatWriteOneDeath) {
  expect_sound({.nodes = 3, .ops = kOpsWrite, .logged = true, .crashes = 1, .late_acks = true});
}
TEST(ExplorerLogged, ThreeNodesWithoutADeath) {
  expect_sound({.nodes = 3, .ops = kOpsRead | kOpsWrite | kOpsEvict, .logged = true, .late_acks = true});
}

// ---- lines that have a file at their home

TEST(ExplorerFiles, TwoNodesOneFailureWithReadAhead) {
  expect_sound({.nodes = 2, .ops = kOpsAll | kOpsAhead, .files = true, .failures = 1});
}
TEST(ExplorerFiles, TwoNodesTwoFailuresWithOperationsTakenBack) {
  expect_sound({.nodes = 2,
                .ops = kOpsRead | kOpsWrite | kOpsLock | kOpsTry | kOpsEvict | kOpsCancel,
                .files = true,
                .failures = 2});
}
TEST(ExplorerFiles, TwoNodesTwoThreadsThatLock) {
  expect_sound({.nodes = 2, .threads = 2, .ops = kOpsRead | kOpsWrite | kOpsLock, .files = true});
}
TEST(ExplorerFiles, ThreeNodesThatTryOneFailure) {
  expect_sound({.nodes = 3, .ops = kOpsRead | kOpsWrite | kOpsTry, .files = true, .failures = 1});
}

TEST(Explorer, StopsAtTheGivenNumberOfStatesAndSaysSo) {
  const ExploreResult result = explore({.nodes = 3, .lines = 1, .max_states = 1000});
  EXPECT_FALSE(result.complete);
  EXPECT_FALSE(result.violation.has_value());
  EXPECT_LT(result.states, 1100U);
}

/// A row that only a logged cluster goes through.
bool needs_a_log(const std::string& row) {
  constexpr std::string_view kParts[] = {" + Return",
                                         " + Report",
                                         "Died",
                                         " + OwnerBack",
                                         " + Recall",
                                         " + HomeBack",
                                         " + HomeOpen",
                                         "home Orphaned",
                                         "cache DirtyToShared",
                                         "home SharedToUnshared + Local",
                                         "home DirtyToUnshared + Local"};
  return std::any_of(std::begin(kParts), std::end(kParts),
                     [&](std::string_view part) { return row.find(part) != std::string::npos; });
}

/// A row that only lines with a file go through.
bool needs_a_file(const std::string& row) {
  constexpr std::string_view kParts[] = {"home Stored",  "home Parked",  "home Fetching", " + Drop",
                                         " + FetchCopy", " + FetchIdle", " + Failed"};
  return std::any_of(std::begin(kParts), std::end(kParts),
                     [&](std::string_view part) { return row.find(part) != std::string::npos; });
}

/// The rows that none of the walks has used.
std::set<std::string> unused_by_all(const std::vector<ExploreOptions>& walks) {
  std::set<std::string> unused;
  bool first = true;
  for (const ExploreOptions& options : walks) {
    const ExploreResult result = explore(options);
    EXPECT_TRUE(result.complete);
    const std::vector<std::string> rows = result.unused_rows(coherence::Tables{});
    const std::set<std::string> now(rows.begin(), rows.end());
    if (std::exchange(first, false)) unused = now;
    std::erase_if(unused, [&](const std::string& row) { return !now.contains(row); });
  }
  return unused;
}

TEST(Explorer, UsesEveryRowOfLinesThatHaveAFile) {
  std::set<std::string> unused =
      unused_by_all({{.nodes = 2, .ops = kOpsAll | kOpsAhead, .files = true, .failures = 1},
                     {.nodes = 3, .ops = kOpsRead | kOpsWrite | kOpsEvict | kOpsAhead, .files = true},
                     {.nodes = 3, .ops = kOpsRead | kOpsOperate, .files = true},
                     {.nodes = 3, .ops = kOpsRead | kOpsWrite | kOpsLeave, .files = true}});
  std::erase_if(unused, [](const std::string& row) { return !needs_a_file(row) || needs_a_log(row); });
  EXPECT_THAT(unused, IsEmpty());
}

TEST(Explorer, UsesEveryRowThatThreeNodesCanReach) {
  // The rest needs four nodes, a second thread, more than 64 nodes, or a queue that a dead node has left behind.
  const std::set<std::string> expected = {"home SharedToDirty + Answer",
                                          "home DirtyToDirty + GetShared",
                                          "home DirtyToDirty + GetExclusive",
                                          "home DirtyToDirty + OperateFirst",
                                          "home DirtyToDirty + TryBlocked",
                                          "home DirtyToDirty + WriteElsewhere",
                                          "home DirtyToOperated + GetShared",
                                          "home DirtyToOperated + GetExclusive",
                                          "home DirtyToOperated + OperateFirst",
                                          "home DirtyToOperated + TryBlocked",
                                          "home DirtyToOperated + WriteElsewhere",
                                          "home Operated + TryBlocked",
                                          "home OperatedToUnshared + GetShared",
                                          "home OperatedToUnshared + GetExclusive",
                                          "home OperatedToUnshared + Upgrade",
                                          "home OperatedToUnshared + OperateFirst",
                                          "home OperatedToUnshared + LocalShared",
                                          "home OperatedToUnshared + LocalExclusive",
                                          "home OperatedToUnshared + Answer",
                                          "home OperatedToUnshared + AllGone",
                                          "cache SharedToDirty + Data",
                                          "cache SharedToDirty + Held",
                                          "cache SharedToDirty + TryHeld"};
  // Several walks, for all operations at once are many states: `atoll explore` goes through them.
  std::set<std::string> unused =
      unused_by_all({{.nodes = 3, .ops = kOpsAll & ~kOpsOperate},
                     {.nodes = 3, .ops = kOpsRead | kOpsWrite | kOpsEvict | kOpsLeave | kOpsOperate},
                     {.nodes = 3, .ops = kOpsRead | kOpsTry | kOpsOperate}});
  std::erase_if(unused, [](const std::string& row) { return needs_a_log(row) || needs_a_file(row); });
  EXPECT_EQ(unused, expected);
}

TEST(Explorer, TheChartIsTheShortestWayAndNamesTheInvariant) {
  coherence::Tables tables;
  find_mutant("home-keeps-reading")->apply(tables);
  const ExploreResult result = explore({.nodes = 2, .lines = 1, .tables = &tables});
  ASSERT_TRUE(result.violation.has_value());
  EXPECT_EQ(result.depth, 3U);
  EXPECT_THAT(*result.violation, HasSubstr("node 1 -> node 0: GetExclusive line 0"));
  EXPECT_THAT(*result.violation, HasSubstr("violated: node 0 sends Data"));
}

class EveryMutant : public ::testing::TestWithParam<Mutant> {};

TEST_P(EveryMutant, IsCaught) {
  coherence::Tables tables;
  GetParam().apply(tables);
  ExploreOptions options = GetParam().world();
  options.tables = &tables;
  const ExploreResult result = explore(options);
  EXPECT_TRUE(result.violation.has_value()) << GetParam().mistake;
}

INSTANTIATE_TEST_SUITE_P(Mutants, EveryMutant, ::testing::ValuesIn(mutants().begin(), mutants().end()),
                         [](const ::testing::TestParamInfo<Mutant>& mutant) {
                           std::string name(mutant.param.name);
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

TEST(Mutants, HaveDifferentNamesAndASentenceEach) {
  std::set<std::string_view> names;
  for (const Mutant& mutant : mutants()) {
    EXPECT_TRUE(names.insert(mutant.name).second) << mutant.name;
    EXPECT_TRUE(mutant.mistake.ends_with(".")) << mutant.name;
  }
  EXPECT_GE(names.size(), 14U);
  const auto logged = [](std::string_view name) { return name.starts_with("logged-"); };
  EXPECT_GE(std::count_if(names.begin(), names.end(), logged), 12);
  const auto files = [](std::string_view name) { return name.starts_with("files-"); };
  EXPECT_GE(std::count_if(names.begin(), names.end(), files), 12);
  EXPECT_EQ(find_mutant("no-such-mutant"), nullptr);
}

}  // namespace
}  // namespace atoll::explorer
