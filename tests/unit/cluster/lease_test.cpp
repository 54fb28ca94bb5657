// Leases one at a time, in the order in which things happen; the explorer looks at all orders.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "cluster/lease_master.hpp"
#include "cluster/lease_node.hpp"
#include "support/source_folder.hpp"

namespace atoll::cluster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr LeaseTime kMs = 1'000'000;
constexpr LeaseTimes kTimes = LeaseTimes::of_ms(5'000, 30'000);

/// A master and its nodes, without a network: `report` is a report and its answer, at one time.
struct Cluster {
  explicit Cluster(NodeId count, LeaseTime now = 0) : master(7, count, kTimes, now) {
    for (NodeId k = 0; k < count; ++k) nodes.emplace_back(k, 100 + k, kTimes);
    for (LeaseNode& node : nodes) EXPECT_TRUE(node.connected(7));
    for (int round = 0; round < 4; ++round) report_all(now);
  }
  void report(NodeId k, LeaseTime now, std::vector<NodeId> unreachable = {}) {
    nodes[k].on_answer(master.on_report(nodes[k].report(now, std::move(unreachable)), now), now);
  }
  void report_all(LeaseTime now) {
    for (NodeId k = 0; k < nodes.size(); ++k) report(k, now);
  }
  LeaseMaster master;
  std::vector<LeaseNode> nodes;
};

TEST(Lease, ANodeActsWhenAllHaveComeAndKnowOfEachOther) {
  LeaseMaster master(7, 2, kTimes, 0);
  LeaseNode a(0, 100, kTimes), b(1, 101, kTimes);
  ASSERT_TRUE(a.connected(7) && b.connected(7));
  a.on_answer(master.on_report(a.report(0), 0), 0);
  EXPECT_THAT(master.awaited(), ElementsAre(1));
  b.on_answer(master.on_report(b.report(0), 0), 0);
  EXPECT_EQ(b.epoch().number, 1U);
  EXPECT_FALSE(a.may_act(0) || b.may_act(0)) << "node 0 does not know of the epoch yet";
  a.on_answer(master.on_report(a.report(0), 0), 0);
  EXPECT_EQ(a.epoch().number, 1U);
  EXPECT_FALSE(a.may_act(0)) << "the master does not know that node 1 knows";
  b.on_answer(master.on_report(b.report(0), 0), 0);
  EXPECT_FALSE(b.may_act(0)) << "nor that node 0 does";
  a.on_answer(master.on_report(a.report(0), 0), 0);
  b.on_answer(master.on_report(b.report(0), 0), 0);
  EXPECT_TRUE(a.may_act(0) && b.may_act(0));
  EXPECT_TRUE(a.epoch().has(1, 101));
  EXPECT_FALSE(a.epoch().has(1, 102)) << "another process";
  EXPECT_FALSE(a.epoch().has(9, 101)) << "no such node";
}

TEST(Lease, ASilentNodeStopsByItselfBeforeTheMasterDeclaresItOut) {
  Cluster cluster(3);
  LeaseTime stopped = 0, out = 0;
  for (LeaseTime now = 0; out == 0; now += 10 * kMs) {
    if (now % kTimes.report_every == 0) {
      cluster.report(0, now);
      cluster.report(2, now);
    }
    if (stopped == 0 && !cluster.nodes[1].may_act(now)) stopped = now;
    const std::vector<Loss> losses = cluster.master.on_clock(now);
    if (losses.empty()) continue;
    out = now;
    EXPECT_THAT(losses, ElementsAre(Loss{1, 101, LossReason::kSilent}));
  }
  EXPECT_EQ(stopped, 4'750 * kMs);
  EXPECT_EQ(out, 5'000 * kMs);
  EXPECT_EQ(cluster.master.epoch().number, 2U);
  cluster.nodes[0].on_answer(cluster.master.notice(), out);
  EXPECT_FALSE(cluster.nodes[0].epoch().has(1, 101));
  EXPECT_TRUE(cluster.nodes[0].may_act(out));
  // It wakes up: suspended by its own clock, fenced by the answer, and for ever.
  cluster.nodes[1].on_clock(out);
  EXPECT_EQ(cluster.nodes[1].state(), LeaseState::kSuspended);
  cluster.report(1, out);
  EXPECT_EQ(cluster.nodes[1].state(), LeaseState::kFenced);
  cluster.report(1, out);
  EXPECT_FALSE(cluster.nodes[1].may_act(out));
}

TEST(Lease, ANodeThatWasOnlySlowGoesOn) {
  Cluster cluster(2);
  const LeaseTime late = 4'900 * kMs;
  cluster.nodes[1].on_clock(late);
  EXPECT_EQ(cluster.nodes[1].state(), LeaseState::kSuspended);
  cluster.report(1, late);
  EXPECT_TRUE(cluster.nodes[1].may_act(late));
  EXPECT_EQ(cluster.nodes[1].epoch().number, 1U);
}

TEST(Lease, AnAnswerThatTookLongIsWorthWhatIsLeftOfIt) {
  Cluster cluster(2);
  const Answer answer = cluster.master.on_report(cluster.nodes[1].report(1'000 * kMs), 3'000 * kMs);
  cluster.nodes[1].on_answer(answer, 4'000 * kMs);
  EXPECT_EQ(cluster.nodes[1].act_until(), (1'000 + 4'750) * kMs);
  EXPECT_THAT(cluster.master.on_clock(7'999 * kMs), ElementsAre(Loss{0, 100, LossReason::kSilent}));
}

TEST(Lease, ANodeThatHearsNothingIsOutThoughItsReportsArrive) {
  Cluster cluster(2);
  std::vector<Loss> losses;
  LeaseTime now = 0;
  for (; losses.empty() && now < 60'000 * kMs; now += kTimes.report_every) {
    cluster.report(0, now);
    (void)cluster.master.on_report(cluster.nodes[1].report(now), now);  // the answer is lost
    losses = cluster.master.on_clock(now);
  }
  EXPECT_THAT(losses, ElementsAre(Loss{1, 101, LossReason::kSuspended}));
  // One lease until it suspends itself, one of patience, one to let what was renewed meanwhile run out.
  EXPECT_LE(now, 3 * kTimes.lease + 3 * kTimes.report_every);
  EXPECT_TRUE(cluster.nodes[0].may_act(now));
}

struct Complaint {
  const char* name;
  std::vector<std::vector<NodeId>> unreachable;  // per node
  NodeId victim;
};
class LeaseComplaint : public ::testing::TestWithParam<Complaint> {};

TEST_P(LeaseComplaint, OneOfThePairGoesWhenItsLeaseHasRunOut) {
  Cluster cluster(3);
  std::vector<Loss> losses;
  for (LeaseTime now = 0; losses.empty() && now < 60'000 * kMs; now += kTimes.report_every) {
    for (NodeId k = 0; k < 3; ++k) cluster.report(k, now, GetParam().unreachable[k]);
    losses = cluster.master.on_clock(now);
    EXPECT_TRUE(losses.empty() || !cluster.nodes[GetParam().victim].may_act(now));
  }
  ASSERT_THAT(losses, ElementsAre(Loss{GetParam().victim, 100U + GetParam().victim, LossReason::kUnreachable}));
}
INSTANTIATE_TEST_SUITE_P(Pairs, LeaseComplaint,
                         ::testing::Values(Complaint{"BothComplain", {{1}, {0}, {}}, 1},
                                           Complaint{"OneComplains", {{}, {0}, {}}, 0},
                                           Complaint{"TwoAgainstOne", {{}, {0}, {0}}, 0},
                                           Complaint{"TheOneWithMore", {{1, 2}, {0}, {0}}, 0}),
                         [](const auto& complaint) { return complaint.param.name; });

TEST(Lease, AComplaintThatHealsInTimeIsForgotten) {
  Cluster cluster(2);
  for (LeaseTime now = 0; now < 60'000 * kMs; now += kTimes.report_every) {
    const bool bad = now % (4 * kTimes.report_every) != 0;
    cluster.report(0, now);
    cluster.report(1, now, bad ? std::vector<NodeId>{0} : std::vector<NodeId>{});
    EXPECT_THAT(cluster.master.on_clock(now), IsEmpty());
  }
}

TEST(Lease, ComplaintsOfWhoeverIsNotInAreOfNoConsequence) {
  Cluster cluster(2);
  for (LeaseTime now = 0; now < 20'000 * kMs; now += kTimes.report_every) {
    cluster.report(0, now, {0, 2, 60'000});
    cluster.report(1, now);
    EXPECT_THAT(cluster.master.on_clock(now), IsEmpty());
  }
}

TEST(Lease, AProcessThatEndedIsOutAtOnceAndItsSuccessorComesIn) {
  Cluster cluster(2);
  EXPECT_THAT(cluster.master.node_ended(1, 101, 10), ElementsAre(Loss{1, 101, LossReason::kEnded}));
  EXPECT_THAT(cluster.master.node_ended(1, 101, 10), IsEmpty()) << "known already";
  LeaseNode next(1, 202, kTimes);
  ASSERT_TRUE(next.connected(7));
  next.on_answer(cluster.master.on_report(next.report(20), 20), 20);
  EXPECT_EQ(next.epoch().number, 3U);
  next.on_answer(cluster.master.on_report(next.report(30), 30), 30);
  EXPECT_FALSE(next.may_act(30)) << "node 0 would not take its messages yet";
  cluster.report(0, 40);
  cluster.report(0, 50);
  next.on_answer(cluster.master.on_report(next.report(60), 60), 60);
  EXPECT_TRUE(next.may_act(60));
  EXPECT_TRUE(cluster.nodes[0].epoch().has(1, 202));
  EXPECT_FALSE(cluster.nodes[0].epoch().has(1, 101)) << "a late message of the one before";
}

TEST(Lease, AMasterThatWasStoppedBlamesNobody) {
  Cluster cluster(2);
  const LeaseTime awake = 60'000 * kMs;
  cluster.master.slept(awake);
  EXPECT_THAT(cluster.master.on_clock(awake), IsEmpty());
  cluster.report_all(awake);
  EXPECT_TRUE(cluster.nodes[0].may_act(awake) && cluster.nodes[1].may_act(awake));
}

// ---- the master ends ----

TEST(Lease, TheClusterWorksOnWithoutItsMasterForAWhileAndStopsThen) {
  Cluster cluster(2);
  cluster.nodes[0].master_ended(7, 1'000 * kMs);
  cluster.nodes[0].on_clock(6'000 * kMs);
  EXPECT_EQ(cluster.nodes[0].state(), LeaseState::kOrphaned);
  EXPECT_EQ(cluster.nodes[0].act_until(), kTimes.node_orphan);
  EXPECT_FALSE(cluster.nodes[1].may_act(6'000 * kMs)) << "it was only silent for node 1";
  cluster.nodes[0].on_clock(kTimes.node_orphan);
  EXPECT_EQ(cluster.nodes[0].state(), LeaseState::kSuspended);
}

TEST(Lease, ASuccessorWithTheRecordGoesOnAtOnceAndWaitsForTheOthersInFull) {
  Cluster cluster(2);
  const LeaseTime start = 2'000 * kMs;
  LeaseMaster next(8, 2, kTimes, start, cluster.master.record());
  for (LeaseNode& node : cluster.nodes) node.master_ended(7, start);
  ASSERT_TRUE(cluster.nodes[0].connected(8));
  EXPECT_FALSE(cluster.nodes[1].connected(6)) << "older than the one that it obeys";
  cluster.nodes[0].on_answer(next.on_report(cluster.nodes[0].report(start), start), start);
  EXPECT_TRUE(next.established());
  EXPECT_EQ(cluster.nodes[0].state(), LeaseState::kActive);
  for (LeaseTime now = start; now < start + kTimes.orphan; now += kTimes.report_every) {
    cluster.nodes[0].on_answer(next.on_report(cluster.nodes[0].report(now), now), now);
    EXPECT_THAT(next.on_clock(now), IsEmpty()) << "node 1 may act for so long";
  }
  EXPECT_FALSE(cluster.nodes[1].may_act(start + kTimes.orphan));
  EXPECT_THAT(next.on_clock(start + kTimes.orphan), ElementsAre(Loss{1, 101, LossReason::kSilent}));
}

TEST(Lease, AMasterWithoutTheRecordWaitsForAll) {
  Cluster cluster(3);
  LeaseMaster stranger(9, 3, kTimes, 0);
  for (NodeId k = 0; k < 3; ++k) {
    EXPECT_FALSE(stranger.established());
    EXPECT_THAT(stranger.on_clock(1'000'000 * kMs), IsEmpty()) << "it declares nobody out";
    ASSERT_TRUE(cluster.nodes[k].connected(9));
    const Answer answer = stranger.on_report(cluster.nodes[k].report(10), 10);
    EXPECT_EQ(answer.verdict, k < 2 ? Verdict::kHeld : Verdict::kRenewed);
  }
  EXPECT_TRUE(stranger.established());
  EXPECT_EQ(stranger.epoch(), cluster.master.epoch());
}

TEST(Lease, ARecordThatNobodyBearsWitnessToIsNotBelieved) {
  Cluster cluster(2);
  LeaseMaster stranger(9, 2, kTimes, 0);
  for (LeaseNode& node : cluster.nodes) {
    ASSERT_TRUE(node.connected(9));
    (void)stranger.on_report(node.report(10), 10);
  }
  ASSERT_TRUE(stranger.established());
  LeaseMaster next(10, 2, kTimes, 20, cluster.master.record());  // of the one before the stranger
  ASSERT_TRUE(cluster.nodes[0].connected(10));
  (void)next.on_report(cluster.nodes[0].report(30), 30);
  EXPECT_FALSE(next.established()) << "node 1 may act with the stranger";
  EXPECT_THAT(next.awaited(), ElementsAre(1));
}

// ---- words ----

TEST(LeaseTables, EveryPairOfStateAndEventHasOneRowWithAReason) {
  EXPECT_TRUE(kLeaseTable.complete());
  for (const LeaseRow& row : kLeaseRows) EXPECT_NE(*row.why, '\0');
  for (std::size_t k = 0; k < std::size(kLeaseRules); ++k) EXPECT_EQ(std::size_t(kLeaseRules[k].rule), k);
}

std::string generated() {
  std::string text = "\n| state | event | next | right | why |\n|---|---|---|---|---|\n";
  for (const LeaseRow& row : kLeaseRows) {
    std::string events;
    for (std::size_t e = 0; e < row.event_count; ++e) {
      events += fmt::format("{}{}", e == 0 ? "" : ", ", to_string(row.events[e]));
    }
    const std::string_view next = row.never ? "never" : to_string(row.next);
    text += fmt::format("| {} | {} | {} | {} | {} |\n", to_string(row.state), events, next, to_string(row.actions[0]),
                        row.why);
  }
  text += "\n| rule | what | because |\n|---|---|---|\n";
  for (const LeaseRuleText& rule : kLeaseRules) {
    text += fmt::format("| {} | {} | {} |\n", rule.name, rule.text, rule.why);
  }
  return text;
}

TEST(LeaseTables, AreWhatTheDocumentSays) {
  const auto path = test::source_folder() / "docs/membership.md";
  std::ifstream file(path);
  ASSERT_TRUE(file) << path;
  std::stringstream content;
  content << file.rdbuf();
  const std::string text = content.str(), begin = "<!-- begin generated -->\n", end = "\n<!-- end generated -->";
  const std::size_t from = text.find(begin), to = text.find(end);
  ASSERT_TRUE(from != std::string::npos && to != std::string::npos);
  EXPECT_EQ(text.substr(from + begin.size(), to - from - begin.size()), generated()) << generated();
}

}  // namespace
}  // namespace atoll::cluster
