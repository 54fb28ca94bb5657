// Whole simulations: random programs with all checkers.
#include "sim/simulation.hpp"

#include <gtest/gtest.h>

namespace atoll::sim {
namespace {

class SimulationTest : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, SimulationTest, testing::Range<std::uint64_t>(1, 13));

TEST_P(SimulationTest, HoldsWhatIsPromised) {
  Wishes wishes;
  wishes.ops = 2'000;
  const Plan plan = draw(GetParam(), wishes);
  const Outcome outcome = simulate(plan);
  EXPECT_TRUE(outcome.ok) << to_string(plan) << "\n"
                          << outcome.failure << "\nrepeat: atoll sim --seed " << GetParam() << " --ops 2000";
}

class LoggedSimulationTest : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, LoggedSimulationTest, testing::Range<std::uint64_t>(1, 25));

TEST_P(LoggedSimulationTest, LosesNothingThatWasAcknowledged) {
  Wishes wishes;
  wishes.ops = 1'000;
  wishes.logged = true;
  const Plan plan = draw(GetParam(), wishes);
  const Outcome outcome = simulate(plan);
  EXPECT_TRUE(outcome.ok) << to_string(plan) << "\n"
                          << outcome.failure << "\nrepeat: atoll sim --logged --seed " << GetParam() << " --ops 1000";
  EXPECT_TRUE(outcome.logged);
}

TEST(Simulation, CrashedNodesComeBack) {
  Wishes wishes;
  wishes.ops = 2'000;
  wishes.logged = true;
  const Outcome outcome = simulate(draw(3, wishes));
  ASSERT_TRUE(outcome.ok) << outcome.failure;
  EXPECT_GT(outcome.crashes, 0u);
  EXPECT_GT(outcome.returns, 0u);
}

TEST(Simulation, TheSameSeedGivesTheSameHistory) {
  Wishes wishes;
  wishes.ops = 1'000;
  const Plan plan = draw(42, wishes);
  const Outcome a = simulate(plan);
  const Outcome b = simulate(plan);
  EXPECT_EQ(a.messages, b.messages);
  EXPECT_EQ(a.switches, b.switches);
  EXPECT_EQ(a.virtual_ns, b.virtual_ns);
  EXPECT_EQ(a.done, b.done);
}

}  // namespace
}  // namespace atoll::sim
