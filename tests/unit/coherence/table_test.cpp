// The tables as data: complete, explained, and without states that nothing leads to.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "coherence/cache_table.hpp"
#include "coherence/directory_table.hpp"
#include "coherence/element_table.hpp"

namespace atoll::coherence {
namespace {

using ::testing::IsEmpty;

template <typename Table>
std::vector<std::string> pairs_not_covered_once(const Table& table) {
  std::vector<std::string> wrong;
  for (std::size_t s = 0; s < Table::kStates; ++s) {
    for (std::size_t e = 0; e < Table::kEvents; ++e) {
      const int rows = table.cells[s][e].rows;
      if (rows == 1) continue;
      wrong.push_back(fmt::format("({}, {}) has {} rows", to_string(typename Table::StateType(s)),
                                  to_string(typename Table::EventType(e)), rows));
    }
  }
  return wrong;
}

template <typename RowType, std::size_t N>
std::vector<std::string> rows_ill_formed(const RowType (&rows)[N]) {
  std::vector<std::string> wrong;
  for (const RowType& row : rows) {
    const std::string name = fmt::format("{} + {}", to_string(row.state), to_string(row.events[0]));
    if (std::string_view(row.why).size() < 5) wrong.push_back(name + " gives no reason");
    if (row.never && row.action_count != 0) wrong.push_back(name + " never happens, but does something");
    if (row.event_count == 0) wrong.push_back(name + " covers no event");
  }
  return wrong;
}

template <typename RowType, std::size_t N>
std::vector<std::string> states_not_reached(const RowType (&rows)[N]) {
  using State = decltype(rows[0].state);
  std::set<State> reached = {State(0)};
  for (std::size_t before = 0; before != reached.size();) {
    before = reached.size();
    for (const RowType& row : rows) {
      if (!row.never && reached.contains(row.state)) reached.insert(row.next);
    }
  }
  std::vector<std::string> missing;
  for (std::size_t s = 0; s < std::size_t(State::kCount); ++s) {
    if (!reached.contains(State(s))) missing.emplace_back(to_string(State(s)));
  }
  return missing;
}

TEST(DirectoryTable, EveryStateAndEventHasExactlyOneRow) {
  EXPECT_THAT(pairs_not_covered_once(kDirTable), IsEmpty());
}
TEST(DirectoryTable, EveryRowHasAReasonAndNeverDoesNothing) {
  EXPECT_THAT(rows_ill_formed(kDirRows), IsEmpty());
}
TEST(DirectoryTable, EveryStateIsReached) {
  EXPECT_THAT(states_not_reached(kDirRows), IsEmpty());
}

TEST(CacheTable, EveryStateAndEventHasExactlyOneRow) {
  EXPECT_THAT(pairs_not_covered_once(kCacheTable), IsEmpty());
}
TEST(CacheTable, EveryRowHasAReasonAndNeverDoesNothing) {
  EXPECT_THAT(rows_ill_formed(kCacheRows), IsEmpty());
}
TEST(CacheTable, EveryStateIsReached) {
  EXPECT_THAT(states_not_reached(kCacheRows), IsEmpty());
}

TEST(ElementTable, EveryStateAndEventHasExactlyOneRow) {
  EXPECT_THAT(pairs_not_covered_once(kElementTable), IsEmpty());
}
TEST(ElementTable, EveryRowHasAReasonAndNeverDoesNothing) {
  EXPECT_THAT(rows_ill_formed(kElementRows), IsEmpty());
}
TEST(ElementTable, EveryStateIsReached) {
  EXPECT_THAT(states_not_reached(kElementRows), IsEmpty());
}

TEST(Tables, ADoubledAndAMissingRowAreNoticed) {
  constexpr DirRow kRows[] = {{DirState::kUnshared, {DirEvent::kPutDirty, DirEvent::kPutDirty}, "given twice"}};
  const DirTable table(kRows);
  EXPECT_FALSE(table.complete());
  EXPECT_THAT(pairs_not_covered_once(table), ::testing::Contains("(Unshared, PutDirty) has 2 rows"));
  EXPECT_THAT(pairs_not_covered_once(table), ::testing::Contains("(Dirty, GetShared) has 0 rows"));
}

}  // namespace
}  // namespace atoll::coherence
