#include "cluster/lease_keeper.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace atoll::cluster {
namespace {

using testing::HasSubstr;

constexpr LeaseTime kMs = 1'000'000;
constexpr Term kTerm = 7;

Epoch epoch_of(std::uint32_t number, std::vector<std::uint32_t> incarnations) {
  std::vector<std::uint32_t> since;
  for (const std::uint32_t each : incarnations) since.push_back(each == 0 ? 0 : 1);
  return {number, std::move(incarnations), std::move(since)};
}

/// Node 0, incarnation 10, of three; leases of a second, and four without a master.
class Keeper : public testing::Test {
 protected:
  void answer(Verdict verdict, const Epoch& epoch, LeaseTime echo, LeaseTime now) {
    keeper.on_answer({kTerm, echo, verdict, epoch}, now);
  }
  void begin() {
    ASSERT_TRUE(keeper.connected(kTerm, 0));
    ASSERT_TRUE(keeper.due_report(0));
    answer(Verdict::kHeld, all, 0, 1 * kMs);
    ASSERT_TRUE(keeper.due_report(2 * kMs));
    answer(Verdict::kRenewed, all, 2 * kMs, 3 * kMs);
    const auto notices = keeper.take_notices();
    ASSERT_EQ(notices.size(), 1u);
    EXPECT_EQ(notices[0].standing, Standing::kActive);
  }

  const Epoch all = epoch_of(1, {10, 11, 12});
  LeaseKeeper keeper{0, 10, LeaseTimes::of_ms(1000, 3000)};
};

TEST_F(Keeper, reports_when_it_is_time_to) {
  EXPECT_FALSE(keeper.due_report(0));  // nobody to report to
  begin();
  EXPECT_TRUE(keeper.due_report(10 * kMs));  // the others may wait to hear that it has the epoch
  EXPECT_FALSE(keeper.due_report(209 * kMs));
  EXPECT_EQ(keeper.next_look(), 210 * kMs);
  EXPECT_TRUE(keeper.due_report(210 * kMs));
  keeper.disconnected();
  EXPECT_FALSE(keeper.due_report(900 * kMs));
  EXPECT_EQ(keeper.next_look(), 952 * kMs);  // the end of what it has
}

TEST_F(Keeper, tells_a_death_once_and_with_its_reason) {
  begin();
  keeper.note_reason(2, "its cable was pulled");
  answer(Verdict::kHeld, epoch_of(2, {10, 11, 0}), 0, 10 * kMs);
  auto notices = keeper.take_notices();
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_EQ(notices[0].node, 2);
  EXPECT_EQ(notices[0].why, "its cable was pulled");
  answer(Verdict::kHeld, epoch_of(2, {10, 11, 0}), 0, 11 * kMs);
  EXPECT_TRUE(keeper.take_notices().empty());
  answer(Verdict::kHeld, epoch_of(3, {10, 0, 0}), 0, 12 * kMs);
  notices = keeper.take_notices();
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_EQ(notices[0].node, 1);
  EXPECT_THAT(notices[0].why, HasSubstr("declared it out"));
}

TEST_F(Keeper, suspends_by_its_own_clock_goes_on_when_renewed_and_is_fenced_when_out) {
  begin();
  keeper.on_clock(951 * kMs);
  EXPECT_TRUE(keeper.take_notices().empty());
  keeper.on_clock(952 * kMs);
  auto notices = keeper.take_notices();
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_EQ(notices[0].standing, Standing::kSuspended);
  EXPECT_EQ(keeper.lease().act_until(), kLongAgo);
  answer(Verdict::kRenewed, all, 940 * kMs, 960 * kMs);
  notices = keeper.take_notices();
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_EQ(notices[0].standing, Standing::kActive);
  keeper.note_reason(0, "it was too slow");
  answer(Verdict::kHeld, epoch_of(2, {0, 11, 12}), 0, 970 * kMs);
  notices = keeper.take_notices();
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_EQ(notices[0].standing, Standing::kFenced);
  EXPECT_EQ(notices[0].why, "it was too slow");
  EXPECT_TRUE(keeper.fenced());
}

TEST_F(Keeper, gives_up_when_nobody_comes_for_as_long_as_nodes_work_without_a_master) {
  begin();
  keeper.disconnected();
  keeper.master_ended(500 * kMs);
  EXPECT_EQ(keeper.lease().state(), LeaseState::kOrphaned);
  EXPECT_TRUE(keeper.take_notices().empty());  // it works on
  keeper.on_clock(3802 * kMs);                 // 95 % of four seconds from its last report
  EXPECT_EQ(keeper.take_notices().at(0).standing, Standing::kSuspended);
  EXPECT_FALSE(keeper.is_hopeless(7000 * kMs));
  EXPECT_EQ(keeper.next_look(), 7802 * kMs);
  EXPECT_TRUE(keeper.is_hopeless(7802 * kMs));
}

TEST_F(Keeper, names_who_cannot_be_reached_until_they_can) {
  begin();
  keeper.set_reachable(1, false);
  keeper.set_reachable(2, false);
  EXPECT_EQ(keeper.due_report(300 * kMs).value().unreachable, (std::vector<NodeId>{1, 2}));
  keeper.set_reachable(2, true);
  EXPECT_EQ(keeper.due_report(600 * kMs).value().unreachable, (std::vector<NodeId>{1}));
  answer(Verdict::kRenewed, epoch_of(2, {10, 0, 12}), 600 * kMs, 601 * kMs);  // who is out is no news
  EXPECT_TRUE(keeper.due_report(900 * kMs).value().unreachable.empty());
}

}  // namespace
}  // namespace atoll::cluster
