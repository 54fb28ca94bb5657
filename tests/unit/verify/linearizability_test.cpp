// Histories that a word or a lock can have had, and histories that it cannot.
#include "verify/linearizability.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace atoll::verify {
namespace {

using testing::HasSubstr;

struct Case {
  const char* name;
  const char* history;
};
void PrintTo(const Case& one, std::ostream* out) {
  *out << one.name;
}
std::string name_of(const testing::TestParamInfo<Case>& info) {
  return info.param.name;
}

LinearizabilityReport check(const std::string& text, const LinearizabilityOptions& options = {}) {
  const auto parsed = parse_operations(text);
  EXPECT_EQ(parsed.error, "");
  return check_linearizable(parsed.all, options);
}

// ---- accepted ----

class Accepted : public testing::TestWithParam<Case> {};

TEST_P(Accepted, Is) {
  const auto report = check(GetParam().history);
  EXPECT_EQ(report.verdict, Verdict::kAccepted) << report.explanation;
  EXPECT_EQ(report.explanation, "");
}

const Case kAcceptedCases[] = {
    {"Nothing", ""},
    {"TheFirstValue", "0.0 1 2 k0 read = 0"},
    {"OneAfterTheOther", "0.0 1 2 k0 write 5\n0.1 3 4 k0 read = 5\n0.0 5 6 k0 exchange 6 = 5\n0.1 7 8 k0 read = 6\n"},
    {"AReadBesideAWriteSeesTheOldValue", "0.0 1 9 k0 write 5\n0.1 2 3 k0 read = 0\n"},
    {"AReadBesideAWriteSeesTheNewValue", "0.0 1 9 k0 write 5\n0.1 2 3 k0 read = 5\n"},
    {"OldThenNew", "0.0 1 9 k0 write 5\n0.1 2 3 k0 read = 0\n0.1 4 5 k0 read = 5\n"},
    {"WritesBesideEachOtherInAnyOrder", "0.0 1 9 k0 write 1\n0.1 1 9 k0 write 2\n0.2 10 11 k0 read = 1\n"},
    // A return and a call at the same tick: the clock does not say which came first.
    {"ATieIsNoOrder", "0.0 1 5 k0 write 1\n0.1 5 6 k0 read = 0\n"},
    {"CompareExchange",
     "0.0 1 2 k0 compare_exchange 0 7 = 0\n0.1 3 4 k0 compare_exchange 0 8 = 7\n"
     "0.0 5 6 k0 read = 7\n"},
    {"Counter", "0.0 1 5 k0 fetch_add 1 = 1\n0.1 1 5 k0 fetch_add 1 = 0\n0.2 2 6 k0 read = 1\n0.2 7 8 k0 read = 2\n"},
    {"ACounterWrapsAround",
     "0.0 1 2 k0 write 18446744073709551615\n0.0 3 4 k0 fetch_add 2 = 18446744073709551615\n"
     "0.0 5 6 k0 read = 1\n"},
    {"KeysAreApart", "0.0 1 2 k0 write 5\n0.0 3 4 k1 read = 0\n"},
    {"AWordAndALockUnderOneKey", "0.0 1 2 k0 write 5\n0.0 3 4 k0 write_lock\n0.1 5 6 k0 read = 5\n"},
    {"APendingWriteThatWasSeen", "0.0 1 ? k0 write 5\n0.1 2 3 k0 read = 0\n0.1 4 5 k0 read = 5\n"},
    {"APendingWriteThatNobodySaw", "0.0 1 ? k0 write 5\n0.1 2 3 k0 read = 0\n0.1 400 500 k0 read = 0\n"},
    {"APendingWriteThatComesLate",
     "0.0 1 ? k0 write 5\n0.1 2 3 k0 write 6\n0.1 4 5 k0 read = 6\n0.1 9 9 k0 read = 5\n"},
    {"OneOfTwoPendingAdds", "0.0 1 ? k0 fetch_add 1\n0.1 1 ? k0 fetch_add 1\n0.2 5 6 k0 read = 1\n"},
    {"BothPendingAdds", "0.0 1 ? k0 fetch_add 1\n0.1 1 ? k0 fetch_add 1\n0.2 5 6 k0 read = 1\n0.2 7 8 k0 read = 2\n"},
    {"APendingCompareExchangeOverAPendingWrite",
     "0.0 1 ? k0 write 5\n0.1 2 ? k0 compare_exchange 5 6\n0.2 3 4 k0 read = 6\n"},
    {"APendingAddOverAPendingWrite", "0.0 1 ? k0 write 5\n0.1 2 ? k0 fetch_add 2\n0.2 3 4 k0 read = 7\n"},
    {"OneWriterAfterTheOther",
     "0.0 1 2 k0 write_lock\n0.1 2 6 k0 write_lock\n0.0 4 5 k0 unlock_write\n"
     "0.1 7 8 k0 unlock_write\n"},
    {"ManyReaders",
     "0.0 1 2 k0 read_lock\n0.1 3 4 k0 read_lock\n0.1 5 6 k0 read_lock\n0.0 7 8 k0 unlock_read\n"
     "0.1 9 10 k0 unlock_read\n0.1 11 12 k0 unlock_read\n0.2 13 14 k0 write_lock\n"},
    {"ATryMayBeRefusedForNoReason",
     "0.0 1 2 k0 try_write_lock = refused\n0.0 3 4 k0 try_write_lock = taken\n"
     "0.1 5 6 k0 try_read_lock = refused\n"},
    {"AnUnlockThatIsUnderWayIsEnough", "0.0 1 2 k0 write_lock\n0.0 3 9 k0 unlock_write\n0.1 4 5 k0 write_lock\n"},
    {"APendingUnlock", "0.0 1 2 k0 write_lock\n0.0 3 ? k0 unlock_write\n0.1 4 5 k0 write_lock\n"},
    {"APendingLock", "0.0 1 ? k0 write_lock\n0.1 4 5 k0 write_lock\n0.1 6 7 k0 unlock_write\n0.2 8 9 k0 read_lock\n"},
    {"APendingLockThatWasUnlocked", "0.0 1 ? k0 write_lock\n0.0 4 5 k0 unlock_write\n0.1 6 7 k0 read_lock\n"},
};
INSTANTIATE_TEST_SUITE_P(Linearizability, Accepted, testing::ValuesIn(kAcceptedCases), name_of);

// ---- rejected ----

class Rejected : public testing::TestWithParam<Case> {};

TEST_P(Rejected, Is) {
  const auto report = check(GetParam().history);
  EXPECT_EQ(report.verdict, Verdict::kRejected);
  EXPECT_THAT(report.explanation, HasSubstr("have no order"));
  // The part that is shown is wrong by itself.
  EXPECT_EQ(check_linearizable(report.window).verdict, Verdict::kRejected) << report.explanation;
}

const Case kRejectedCases[] = {
    {"StaleRead", "0.0 1 2 k0 write 5\n0.1 3 4 k0 read = 0\n"},
    {"AValueNeverWritten", "0.0 1 2 k0 write 5\n0.1 3 4 k0 read = 6\n"},
    {"AValueFromAnotherKey", "0.0 1 2 k1 write 5\n0.1 3 4 k0 read = 5\n"},
    {"AReadBeforeItsWrite", "0.1 1 2 k0 read = 5\n0.0 3 4 k0 write 5\n"},
    {"AReadBeforeItsPendingWrite", "0.1 1 2 k0 read = 5\n0.0 3 ? k0 write 5\n"},
    {"AReadThatGoesBack", "0.0 1 9 k0 write 5\n0.1 2 3 k0 read = 5\n0.2 4 5 k0 read = 0\n"},
    {"ReadersThatDisagree",
     "0.0 1 9 k0 write 1\n0.1 1 9 k0 write 2\n0.2 1 2 k0 read = 1\n0.2 3 4 k0 read = 2\n"
     "0.3 1 2 k0 read = 2\n0.3 3 4 k0 read = 1\n"},
    {"LostUpdate", "0.0 1 5 k0 exchange 1 = 0\n0.1 1 5 k0 exchange 2 = 0\n"},
    {"BothReplaced", "0.0 1 5 k0 compare_exchange 0 1 = 0\n0.1 1 5 k0 compare_exchange 0 2 = 0\n"},
    {"ASuccessThatChangedNothing",
     "0.0 1 2 k0 compare_exchange 0 1 = 0\n0.0 3 4 k0 compare_exchange 1 2 = 1\n"
     "0.0 5 6 k0 read = 1\n"},
    {"LostIncrement", "0.0 1 5 k0 fetch_add 1 = 0\n0.1 1 5 k0 fetch_add 1 = 0\n"},
    {"LostIncrementAtTheEnd", "0.0 1 2 k0 fetch_add 1 = 0\n0.1 3 4 k0 fetch_add 1 = 1\n0.1 5 6 k0 read = 1\n"},
    {"ACounterThatSkips", "0.0 1 2 k0 fetch_add 1 = 0\n0.1 3 4 k0 fetch_add 1 = 2\n"},
    {"TooManyForThePendingAdds", "0.0 1 ? k0 fetch_add 1\n0.1 1 ? k0 fetch_add 1\n0.2 5 6 k0 read = 3\n"},
    {"APendingWriteTakesEffectOnce",
     "0.0 1 ? k0 write 5\n0.1 2 3 k0 read = 5\n0.1 4 5 k0 write 6\n"
     "0.1 6 7 k0 read = 6\n0.2 8 9 k0 read = 5\n"},
    {"TwoWriters", "0.0 1 2 k0 write_lock\n0.1 3 4 k0 write_lock\n0.0 5 6 k0 unlock_write\n0.1 7 8 k0 unlock_write\n"},
    {"TwoWritersByTry", "0.0 1 2 k0 write_lock\n0.1 3 4 k0 try_write_lock = taken\n0.0 5 6 k0 unlock_write\n"},
    {"TwoWritersWhoLockAtOnce", "0.0 1 4 k0 write_lock\n0.1 1 4 k0 write_lock\n0.0 5 6 k0 unlock_write\n"},
    {"AReaderBesideAWriter", "0.0 1 2 k0 write_lock\n0.1 3 4 k0 read_lock\n0.0 5 6 k0 unlock_write\n"},
    {"AWriterBesideAReader",
     "0.0 1 2 k0 read_lock\n0.2 1 2 k0 read_lock\n0.0 3 4 k0 unlock_read\n"
     "0.1 5 6 k0 write_lock\n0.2 7 8 k0 unlock_read\n"},
    {"UnlockOfNothing", "0.0 1 2 k0 unlock_write\n"},
    {"UnlockOfAnothersLock", "0.0 1 2 k0 write_lock\n0.1 3 4 k0 unlock_write\n"},
    {"UnlockTwice", "0.0 1 2 k0 read_lock\n0.1 1 2 k0 read_lock\n0.0 3 4 k0 unlock_read\n0.0 5 6 k0 unlock_read\n"},
    {"UnlockAfterARefusal", "0.0 1 2 k0 try_read_lock = refused\n0.0 3 4 k0 unlock_read\n"},
};
INSTANTIATE_TEST_SUITE_P(Linearizability, Rejected, testing::ValuesIn(kRejectedCases), name_of);

// ---- bounds and explanations ----

/// Writers beside each other whose values nobody can tell apart by time, and a read that fits none of their orders.
std::string hard(int writers) {
  std::string text;
  for (int i = 0; i < writers; ++i)
    text += "0." + std::to_string(i) + " 1 1000 k0 fetch_add " + std::to_string(1 << i) + " = 999999999\n";
  for (int i = 0; i < writers; ++i)
    text += "1." + std::to_string(i) + " 1 1000 k0 write " + std::to_string(i + 1) + "\n";
  return text;
}

TEST(Linearizability, ASearchBeyondItsBoundIsUnknown) {
  LinearizabilityOptions options;
  options.max_states = 1000;
  const auto report = check(hard(16), options);
  EXPECT_EQ(report.verdict, Verdict::kUnknown);
  EXPECT_THAT(report.explanation, HasSubstr("given up after 1000 states"));
  EXPECT_LE(report.states, 1001u);
}

TEST(Linearizability, ARejectedKeyCountsMoreThanAnUnknownOne) {
  LinearizabilityOptions options;
  options.max_states = 1000;
  EXPECT_EQ(check(hard(16) + "0.0 1 2 k1 read = 3\n", options).verdict, Verdict::kRejected);
}

TEST(Linearizability, WhatCannotBeAnOperationIsUnknown) {
  Operation odd;
  odd.kind = OpKind(77);
  EXPECT_EQ(check_linearizable(std::vector{odd}).verdict, Verdict::kUnknown);
}

/// Of a long history only the part is shown that is wrong.
TEST(Linearizability, TheExplanationIsSmall) {
  std::string text;
  const auto at = [](int time) { return std::to_string(time * 10) + " " + std::to_string(time * 10 + 5); };
  for (int i = 1; i <= 300; ++i) {
    text += "0.0 " + at(3 * i) + " k7 write " + std::to_string(i) + "\n";
    text += "0.1 " + at(3 * i + 1) + " k7 read = " + std::to_string(i) + "\n";
    text += "1.0 " + at(3 * i + 2) + " k7 read = " + std::to_string(i == 200 ? 198 : i) + "\n";
  }
  const auto report = check(text);
  ASSERT_EQ(report.verdict, Verdict::kRejected);
  // The old write, the one over it, and the stale read.
  EXPECT_LE(report.window.size(), 3u) << report.explanation;
  EXPECT_THAT(report.explanation, HasSubstr("read = 198"));
  EXPECT_THAT(report.explanation, HasSubstr("the word is"));
  EXPECT_THAT(report.explanation, HasSubstr("1.0"));
}

TEST(Linearizability, TheExplanationOfALockNamesTheHolder) {
  std::string text;
  for (int i = 1; i <= 100; ++i) {
    const std::string client = "0." + std::to_string(i % 3), start = std::to_string(i * 40);
    text += client + " " + start + " " + std::to_string(i * 40 + 5) + " k0 write_lock\n";
    if (i == 50) text += "1.0 2010 2015 k0 try_read_lock = taken\n1.0 2016 2017 k0 unlock_read\n";
    text += client + " " + std::to_string(i * 40 + 20) + " " + std::to_string(i * 40 + 25) + " k0 unlock_write\n";
  }
  const auto report = check(text);
  ASSERT_EQ(report.verdict, Verdict::kRejected);
  EXPECT_LE(report.window.size(), 4u) << report.explanation;
  EXPECT_THAT(report.explanation, HasSubstr("held for"));
}

/// What real clients do: many operations, few at once. It must take about as many states as there are operations.
TEST(Linearizability, LongHistoriesTakeLinearTime) {
  std::string text;
  for (int i = 0; i < 5000; ++i) {
    text += std::to_string(i % 8) + ".0 " + std::to_string(i * 10) + " " + std::to_string(i * 10 + 75) +
            " k0 fetch_add 1 = " + std::to_string(i) + "\n";
  }
  const auto report = check(text);
  EXPECT_EQ(report.verdict, Verdict::kAccepted);
  EXPECT_LT(report.states, 20000u);
}

}  // namespace
}  // namespace atoll::verify
