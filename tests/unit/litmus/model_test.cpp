// The model against what is known: the answers of the literature for PSO, TSO and SC, and the rules of our own.
#include "litmus/model.hpp"

#include <gmock/gmock.h>

#include <algorithm>

namespace atoll::litmus {
namespace {

Case test_of(std::string_view shape, Variant variant = Variant::kPlain, Layout layout = Layout::kTwoHomes) {
  return {find_shape(shape), variant, layout};
}

struct Answer {
  std::string_view shape;
  bool pso, tso, sc;
};
/// With variables in different lines. PSO as SPARC's: writes pass writes and are passed by reads; TSO as SPARC's and
/// x86's. (Owens, Sarkar, Sewell: A better x86 memory model; Adve, Gharachorloo: Shared memory consistency models.)
constexpr Answer kClassic[] = {
    {"SB", true, true, false},     {"MP", true, false, false},    {"LB", false, false, false},
    {"S", true, false, false},     {"R", true, true, false},      {"2+2W", true, false, false},
    {"IRIW", false, false, false}, {"WRC", false, false, false},  {"RWC", true, true, false},
    {"CoRR", false, false, false}, {"CoRW", false, false, false}, {"CoWR", false, false, false},
    {"CoWW", false, false, false},
};

TEST(LitmusModel, GivesTheClassicAnswers) {
  ASSERT_EQ(std::size(kClassic), std::size(kShapes));
  for (const Answer& answer : kClassic) {
    SCOPED_TRACE(answer.shape);
    for (const Layout layout : {Layout::kOneHome, Layout::kTwoHomes, Layout::kOneNode}) {
      const Case test = test_of(answer.shape, Variant::kPlain, layout);
      EXPECT_EQ(allows_interesting(test, Consistency::kPso), answer.pso);
      EXPECT_EQ(allows_interesting(test, Consistency::kTso), answer.tso);
      EXPECT_EQ(allows_interesting(test, Consistency::kSc), answer.sc);
    }
  }
}

/// Within a line nothing passes anything; nor where every access waits.
TEST(LitmusModel, OneLineFencesLocksAndAtomicsForbidEverything) {
  for (const Case& test : all_cases()) {
    const bool ordered = test.layout == Layout::kOneLine || test.variant == Variant::kFence ||
                         test.variant == Variant::kLock || test.variant == Variant::kMutex ||
                         test.variant == Variant::kAtomic;
    for (const Consistency mode : kModes) {
      if (ordered) {
        EXPECT_FALSE(allows_interesting(test, mode)) << test.name();
      }
    }
  }
}

TEST(LitmusModel, AStrongerModeAllowsNoMore) {
  for (const Case& test : all_cases()) {
    const auto pso = allowed_outcomes(test, Consistency::kPso), tso = allowed_outcomes(test, Consistency::kTso),
               sc = allowed_outcomes(test, Consistency::kSc);
    EXPECT_TRUE(std::includes(pso.begin(), pso.end(), tso.begin(), tso.end())) << test.name();
    EXPECT_TRUE(std::includes(tso.begin(), tso.end(), sc.begin(), sc.end())) << test.name();
    EXPECT_FALSE(sc.empty()) << test.name();
  }
}

/// All outcomes of one shape, as one can count them by hand: the four of SB, of which SC lacks one.
TEST(LitmusModel, NamesEveryOutcome) {
  const auto end = at_the_end(Variable::kX, 1) | at_the_end(Variable::kY, 1);
  const auto outcome = [&](unsigned r0, unsigned r1) { return in_register(0, r0) | in_register(1, r1) | end; };
  EXPECT_THAT(allowed_outcomes(test_of("SB"), Consistency::kTso),
              testing::UnorderedElementsAre(outcome(0, 0), outcome(0, 1), outcome(1, 0), outcome(1, 1)));
  EXPECT_THAT(allowed_outcomes(test_of("SB"), Consistency::kSc),
              testing::UnorderedElementsAre(outcome(0, 1), outcome(1, 0), outcome(1, 1)));
}

/// Under a mutex the threads run one after the other.
TEST(LitmusModel, AMutexMakesThreadsRunOneAfterTheOther) {
  const auto end = at_the_end(Variable::kX, 1) | at_the_end(Variable::kY, 1);
  EXPECT_THAT(allowed_outcomes(test_of("SB", Variant::kMutex), Consistency::kPso),
              testing::UnorderedElementsAre(in_register(0, 1) | end, in_register(1, 1) | end));
}

/// Accesses of other nodes wait for a lock, those of the same node do not.
TEST(LitmusModel, AGuardKeepsOtherNodesOut) {
  const auto sees_the_first_write = [](Layout layout) {
    const auto allowed = allowed_outcomes(test_of("CoWW", Variant::kGuard, layout), Consistency::kPso);
    return std::any_of(allowed.begin(), allowed.end(), [](Outcome outcome) { return (outcome & 0xf) == 1; });
  };
  EXPECT_FALSE(sees_the_first_write(Layout::kOneLine));
  EXPECT_TRUE(sees_the_first_write(Layout::kOneNode));
}

/// A thread sees its own write before others do.
TEST(LitmusModel, AReadIsServedByTheThreadsOwnWrite) {
  static constexpr Shape kOwn = make_shape("own", "Wx1 Rx | Rx", "r0=0", "?");
  for (const Consistency mode : kModes) EXPECT_FALSE(allows_interesting({&kOwn}, mode));
}

TEST(LitmusModel, WhatMustBeSeenIsAllowed) {
  int required = 0;
  for (const Case& test : all_cases()) {
    for (const Consistency mode : kModes) {
      if (!must_be_seen(test, mode)) continue;
      ++required;
      EXPECT_TRUE(allows_interesting(test, mode)) << test.name();
    }
  }
  EXPECT_EQ(required, 6);
}

}  // namespace
}  // namespace atoll::litmus
