// Leases and epochs in every state that small clusters can reach, and the same with one rule broken.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <random>

#include "explorer/visited.hpp"
#include "unit/cluster/lease_world.hpp"

namespace atoll::cluster {
namespace {

using ::testing::HasSubstr;
using Kind = LeaseStepKind;

struct LeaseExploration {
  std::uint64_t states = 0, transitions = 0;
  std::size_t most_acting = 0;
  bool complete = false;
  std::string violation, chart;
};

/// Breadth first, so that the first way found to a violation is a shortest one. From every `calm_every`th state the
/// world is also run on without faults; 0: from none.
class LeaseWalk {
 public:
  LeaseWalk(const LeaseWorldOptions& options, std::uint64_t max_states, std::uint32_t calm_every)
      : options_(options), max_states_(max_states), calm_every_(calm_every) {}

  LeaseExploration run() {
    std::vector<LeaseStep> steps;
    add(LeaseWorld(options_), explorer::Visited::kNone, 0);
    while (result_.violation.empty() && !open_.empty() && visited_.size() < max_states_) {
      const auto [number, world] = std::move(open_.front());
      open_.pop_front();
      world.enumerate(steps);
      for (std::size_t i = 0; i < steps.size() && result_.violation.empty(); ++i) {
        ++result_.transitions;
        LeaseWorld next = world;
        next.apply(steps[i]);
        add(std::move(next), number, steps[i].pack());
      }
    }
    result_.states = visited_.size();
    result_.complete = result_.violation.empty() && open_.empty();
    return std::move(result_);
  }

 private:
  void add(LeaseWorld world, std::uint32_t parent, std::uint16_t step) {
    world.encode(bytes_);
    const auto [number, is_new] = visited_.insert(bytes_, parent, step);
    if (!is_new) return;
    result_.most_acting = std::max(result_.most_acting, world.acting());
    result_.violation = world.violation();
    if (result_.violation.empty() && calm_every_ != 0 && number % calm_every_ == 0) {
      result_.violation = world.after_calm();
    }
    if (!result_.violation.empty()) chart(number);
    open_.emplace_back(number, std::move(world));
  }

  void chart(std::uint32_t number) {
    std::vector<LeaseStep> path;
    for (; visited_[number].parent != explorer::Visited::kNone; number = visited_[number].parent) {
      path.push_back(LeaseStep::unpack(visited_[number].step));
    }
    LeaseWorld world(options_);
    for (std::size_t i = path.size(); i-- > 0;) {
      result_.chart += fmt::format("{:<52} ", world.describe(path[i]));
      world.apply(path[i]);
      result_.chart += world.summary() + "\n";
    }
  }

  const LeaseWorldOptions& options_;
  const std::uint64_t max_states_;
  const std::uint32_t calm_every_;
  LeaseExploration result_;
  explorer::Visited visited_;
  std::deque<std::pair<std::uint32_t, LeaseWorld>> open_;
  std::vector<std::uint8_t> bytes_;
};

LeaseExploration explore(const LeaseWorldOptions& options, std::uint64_t max_states, std::uint32_t calm_every) {
  return LeaseWalk(options, max_states, calm_every).run();
}

// ---- worlds ----

/// Clocks differ and messages overlap, in the smallest cluster.
const LeaseWorldOptions kOneMaster{.overlap = true};
const LeaseWorldOptions kFounding{.founded = false, .drift = false, .times = kWithoutDrift};
const LeaseWorldOptions kThreeNodes{.ids = {0, 1, 2}, .early = 3, .drift = false, .times = kWithoutDrift};
/// Node 1 has a successor, which may come while the first one is still there.
const LeaseWorldOptions kSuccessor{.ids = {0, 1, 1}, .deaths = 1, .drift = false, .times = kWithoutDrift};
const LeaseWorldOptions kRestart{.last_term = 2};
const LeaseWorldOptions kTwoMasters{.masters = 2, .last_term = 2, .drift = false, .times = kWithoutDrift};
const LeaseWorldOptions kComplaints{.complaints = 2, .times = {2, 3, 1, 2, 1, 1}};

// Those below are too large from their beginnings: they begin where the rare things are under way.

/// A stranger has taken over from the first master, which goes on.
const LeaseWorldOptions kStranger{.masters = 2,
                                  .last_term = 2,
                                  .drift = false,
                                  .times = kWithoutDrift,
                                  .prefix = {{Kind::kMasterStart, 0, 1},
                                             {Kind::kReport, 0, 0},
                                             {Kind::kTakeReport, 0, 0},
                                             {Kind::kConnect, 0, 1},
                                             {Kind::kReport, 0, 0},
                                             {Kind::kTakeReport, 0, 1},
                                             {Kind::kConnect, 1, 1},
                                             {Kind::kReport, 1, 0},
                                             {Kind::kTakeReport, 1, 1}}};
/// The first master has declared node 1 out, node 0 is about to hear of it, and a stranger starts.
const LeaseWorldOptions kHalfGone{.masters = 2,
                                  .last_term = 2,
                                  .drift = false,
                                  .times = kWithoutDrift,
                                  .prefix = {{Kind::kMasterTick, 0, 0},
                                             {Kind::kReport, 0, 0},
                                             {Kind::kTakeReport, 0, 0},
                                             {Kind::kLoseAnswer, 0, 0},
                                             {Kind::kMasterClock, 0, 0},
                                             {Kind::kReport, 0, 0},
                                             {Kind::kTakeReport, 0, 0},
                                             {Kind::kMasterStart, 0, 1}}};
/// The stranger has taken over, and the first master comes back with a record that is old.
const LeaseWorldOptions kTakenOver{.masters = 2,
                                   .last_term = 3,
                                   .drift = false,
                                   .times = kWithoutDrift,
                                   .prefix = {{Kind::kMasterStart, 0, 1},
                                              {Kind::kConnect, 0, 1},
                                              {Kind::kReport, 0, 0},
                                              {Kind::kTakeReport, 0, 1},
                                              {Kind::kConnect, 1, 1},
                                              {Kind::kReport, 1, 0},
                                              {Kind::kTakeReport, 1, 1},
                                              {Kind::kMasterDie, 0, 0},
                                              {Kind::kMasterStart, 0, 0}}};
/// The same, and the record has a newcomer that the others never heard of.
const LeaseWorldOptions kNewcomerWitness{
    .ids = {0, 1, 0},
    .masters = 2,
    .last_term = 3,
    .last_epoch = 4,
    .drift = false,
    .times = kWithoutDrift,
    .prefix = {
        {Kind::kMasterTick, 0, 0},  {Kind::kReport, 1, 0},     {Kind::kTakeReport, 1, 0},  {Kind::kLoseAnswer, 1, 0},
        {Kind::kMasterClock, 0, 0}, {Kind::kStart, 2, 0},      {Kind::kConnect, 2, 0},     {Kind::kReport, 2, 0},
        {Kind::kTakeReport, 2, 0},  {Kind::kTakeAnswer, 2, 0}, {Kind::kMasterStart, 0, 1}, {Kind::kConnect, 0, 1},
        {Kind::kReport, 0, 0},      {Kind::kTakeReport, 0, 1}, {Kind::kConnect, 1, 1},     {Kind::kReport, 1, 0},
        {Kind::kTakeReport, 1, 1},  {Kind::kMasterDie, 0, 0},  {Kind::kMasterStart, 0, 0}, {Kind::kConnect, 2, 0},
        {Kind::kReport, 2, 0},      {Kind::kTakeReport, 2, 0}}};
/// A newcomer was let in; its first renewal, and another report, are under way.
const LeaseWorldOptions kInAndOut{
    .ids = {0, 1, 1},
    .last_epoch = 5,
    .deaths = 1,
    .drift = false,
    .overlap = true,
    .times = kWithoutDrift,
    .prefix = {
        {Kind::kDie, 1, 0},        {Kind::kToldEnded, 1, 0},  {Kind::kReport, 0, 0},     {Kind::kTakeReport, 0, 0},
        {Kind::kTakeAnswer, 0, 0}, {Kind::kReport, 0, 0},     {Kind::kTakeReport, 0, 0}, {Kind::kTakeAnswer, 0, 0},
        {Kind::kStart, 2, 0},      {Kind::kConnect, 2, 0},    {Kind::kReport, 2, 0},     {Kind::kTakeReport, 2, 0},
        {Kind::kLoseAnswer, 2, 0}, {Kind::kReport, 0, 0},     {Kind::kTakeReport, 0, 0}, {Kind::kTakeAnswer, 0, 0},
        {Kind::kReport, 0, 0},     {Kind::kTakeReport, 0, 0}, {Kind::kTakeAnswer, 0, 0}, {Kind::kReport, 2, 0},
        {Kind::kTakeReport, 2, 0}, {Kind::kReport, 2, 0}}};
/// All members were declared out, and a newcomer asks to be let in.
const LeaseWorldOptions kAllLost{.ids = {0, 1, 1},
                                 .last_term = 2,
                                 .drift = false,
                                 .times = kWithoutDrift,
                                 .prefix = {{Kind::kStart, 2, 0},
                                            {Kind::kConnect, 2, 0},
                                            {Kind::kReport, 2, 0},
                                            {Kind::kMasterTick, 0, 0},
                                            {Kind::kMasterClock, 0, 0}}};

/// Both nodes end, and have successors: their cluster is founded anew.
const LeaseWorldOptions kAllEnded{.ids = {0, 1, 0, 1},
                                  .last_epoch = 5,
                                  .deaths = 2,
                                  .drift = false,
                                  .times = kWithoutDrift,
                                  .prefix = {{Kind::kStart, 2, 0}, {Kind::kStart, 3, 0}, {Kind::kDie, 1, 0}}};
/// One has a successor that was let in beside it, and ends before that one has begun.
const LeaseWorldOptions kEndedBeside{.ids = {0, 1, 1, 0},
                                     .last_epoch = 6,
                                     .deaths = 2,
                                     .drift = false,
                                     .times = kWithoutDrift,
                                     .prefix = {{Kind::kDie, 1, 0},
                                                {Kind::kToldEnded, 1, 0},
                                                {Kind::kReport, 0, 0},
                                                {Kind::kTakeReport, 0, 0},
                                                {Kind::kTakeAnswer, 0, 0},
                                                {Kind::kStart, 2, 0},
                                                {Kind::kConnect, 2, 0},
                                                {Kind::kReport, 2, 0},
                                                {Kind::kTakeReport, 2, 0},
                                                {Kind::kTakeAnswer, 2, 0},
                                                {Kind::kReport, 0, 0},
                                                {Kind::kTakeReport, 0, 0},
                                                {Kind::kDie, 0, 0},
                                                {Kind::kStart, 3, 0},
                                                {Kind::kConnect, 3, 0},
                                                {Kind::kReport, 3, 0}}};
/// All members were declared out, and their successors ask to be let in; a stranger starts.
const LeaseWorldOptions kAllOut{.ids = {0, 1, 0, 1},
                                .masters = 2,
                                .last_term = 2,
                                .last_epoch = 4,
                                .drift = false,
                                .times = kWithoutDrift,
                                .prefix = {{Kind::kStart, 2, 0},
                                           {Kind::kConnect, 2, 0},
                                           {Kind::kReport, 2, 0},
                                           {Kind::kStart, 3, 0},
                                           {Kind::kConnect, 3, 0},
                                           {Kind::kReport, 3, 0},
                                           {Kind::kMasterTick, 0, 0},
                                           {Kind::kMasterClock, 0, 0},
                                           {Kind::kTakeReport, 2, 0},
                                           {Kind::kTakeReport, 3, 0},
                                           {Kind::kTakeAnswer, 2, 0},
                                           {Kind::kTakeAnswer, 3, 0},
                                           {Kind::kMasterStart, 0, 1},
                                           {Kind::kConnect, 0, 1},
                                           {Kind::kReport, 0, 0},
                                           {Kind::kTakeReport, 0, 1},
                                           {Kind::kConnect, 1, 1},
                                           {Kind::kReport, 1, 0}}};

/// For worlds that have too many.
std::uint64_t states_wanted() {
  const char* text = std::getenv("ATOLL_LEASE_STATES");
  return text == nullptr ? 150'000 : std::strtoull(text, nullptr, 10);
}

void expect_sound(const char* name, const LeaseWorldOptions& options, bool all = true, std::uint32_t calm_every = 4) {
  const LeaseExploration result = explore(options, all ? 100'000'000 : states_wanted(), calm_every);
  EXPECT_EQ(result.violation, "") << result.chart;
  EXPECT_GE(result.most_acting, 1U);
  EXPECT_TRUE(result.complete || !all);
  std::printf("%s: %llu states, %llu steps%s\n", name, static_cast<unsigned long long>(result.states),
              static_cast<unsigned long long>(result.transitions), result.complete ? "" : ", not all of them");
}

TEST(LeaseExplorer, OneMaster) {
  expect_sound("one master", kOneMaster, true, 1);
}
TEST(LeaseExplorer, Founding) {
  expect_sound("founding", kFounding, true, 1);
}
TEST(LeaseExplorer, ThreeNodes) {
  expect_sound("three nodes", kThreeNodes);
}
TEST(LeaseExplorer, ANodeAndItsSuccessor) {
  expect_sound("a node and its successor", kSuccessor);
}
TEST(LeaseExplorer, ARestartOfTheMaster) {
  expect_sound("a restart of the master", kRestart);
}
TEST(LeaseExplorer, TwoMasters) {
  expect_sound("two masters", kTwoMasters);
}
TEST(LeaseExplorer, NodesThatDoNotReachEachOther) {
  expect_sound("complaints", kComplaints);
}
TEST(LeaseExplorer, LongStranger) {
  expect_sound("a stranger has taken over", kStranger, false);
}
TEST(LeaseExplorer, LongHalfGone) {
  expect_sound("one node is out, and a stranger starts", kHalfGone, false);
}
TEST(LeaseExplorer, LongTakenOver) {
  expect_sound("taken over", kTakenOver, false);
}
TEST(LeaseExplorer, LongNewcomerAsWitness) {
  expect_sound("a newcomer as witness", kNewcomerWitness, false);
}
TEST(LeaseExplorer, LongInAndOut) {
  expect_sound("in and out", kInAndOut, false);
}
TEST(LeaseExplorer, LongAllLost) {
  expect_sound("all lost", kAllLost, false);
}
TEST(LeaseExplorer, LongAllEnded) {
  expect_sound("all ended, and have successors", kAllEnded, false);
}
TEST(LeaseExplorer, LongEndedBesideANewcomer) {
  expect_sound("the last member ended beside a newcomer", kEndedBeside, false);
}
TEST(LeaseExplorer, LongAllOut) {
  expect_sound("all out, and a stranger starts", kAllOut, false);
}
TEST(LeaseExplorer, LongTwoMastersWithDrift) {
  expect_sound("two masters, clocks that differ", {.masters = 2, .last_term = 3}, false);
}
TEST(LeaseExplorer, LongThreeNodesAndARestart) {
  expect_sound("three nodes and a restart",
               {.ids = {0, 1, 2}, .early = 3, .last_term = 2, .deaths = 1, .drift = false, .times = kWithoutDrift},
               false);
}
TEST(LeaseExplorer, LongSuccessorAndTwoMasters) {
  expect_sound("a successor and two masters",
               {.ids = {0, 1, 1}, .masters = 2, .last_term = 3, .deaths = 1, .drift = false, .times = kWithoutDrift},
               false);
}
TEST(LeaseExplorer, LongFoundingWithTwoMasters) {
  expect_sound("founding with two masters", {.masters = 2, .last_term = 2, .founded = false}, false);
}

/// Deeper than a walk of all states can go: everything at once, for some hundred steps.
TEST(LeaseExplorer, LongRandomWalksThroughTheLargestWorld) {
  const LeaseWorldOptions options{
      .ids = {0, 1, 2, 1}, .early = 3, .masters = 2, .last_term = 4, .last_epoch = 12, .deaths = 2, .overlap = true};
  std::mt19937 random(11);
  std::vector<LeaseStep> steps;
  std::uint64_t taken = 0;
  for (std::uint64_t walk = 0; walk < states_wanted() / 30; ++walk) {
    LeaseWorld world(options);
    std::string chart;
    for (int i = 0; i < 300; ++i, ++taken) {
      world.enumerate(steps);
      if (steps.empty()) break;
      const LeaseStep step = steps[random() % steps.size()];
      const bool rare = step.kind == Kind::kDie || step.kind == Kind::kMasterDie || step.kind == Kind::kMasterStart ||
                        step.kind == Kind::kConnect || step.kind == Kind::kLoseReport || step.kind == Kind::kLoseAnswer;
      if (rare && random() % 8 != 0) continue;
      chart += fmt::format("{:<52} ", world.describe(step));
      world.apply(step);
      chart += world.summary() + "\n";
      ASSERT_EQ(world.violation(), "") << chart;
    }
    ASSERT_EQ(world.after_calm(), "") << chart;
  }
  std::printf("random walks: %llu steps\n", static_cast<unsigned long long>(taken));
}

// ---- each rule is needed ----

struct BrokenRule {
  LeaseRule rule;
  const LeaseWorldOptions& world;  // the smallest in which it shows
};

const BrokenRule kBroken[] = {
    {LeaseRule::kCountFromSending, kOneMaster},
    {LeaseRule::kMargin, kOneMaster},
    {LeaseRule::kInOnce, kInAndOut},
    {LeaseRule::kLetItRunOut, kComplaints},
    {LeaseRule::kNewcomersWait, kSuccessor},
    {LeaseRule::kNewcomersNeedAMember, kAllLost},
    {LeaseRule::kFoundAnew, kAllOut},
    {LeaseRule::kEstablishFirst, kRestart},
    {LeaseRule::kAllReport, kRestart},
    {LeaseRule::kRecordNeedsWitness, kTakenOver},
    {LeaseRule::kNewcomersKnowLess, kNewcomerWitness},
    {LeaseRule::kCountFromStart, kRestart},
    {LeaseRule::kOrphansLastLonger, kRestart},
    {LeaseRule::kOneMaster, kHalfGone},
    {LeaseRule::kHigherTermsOnly, kStranger},
    {LeaseRule::kOwnMasterEnded, kTwoMasters},
    {LeaseRule::kIncarnations, kSuccessor},
};
static_assert(std::size(kBroken) == std::size_t(LeaseRule::kCount));

class LeaseExplorerRule : public ::testing::TestWithParam<std::size_t> {};

TEST_P(LeaseExplorerRule, IsNeeded) {
  const BrokenRule& broken = kBroken[GetParam()];
  ASSERT_EQ(std::size_t(broken.rule), GetParam());
  LeaseWorldOptions options = broken.world;
  options.rules.broken = 1U << GetParam();
  const LeaseExploration result = explore(options, 2'000'000, 0);
  EXPECT_THAT(result.violation, HasSubstr("acts in ")) << result.states << " states, and nothing is wrong";
  EXPECT_NE(result.chart, "");
  std::printf("broken %s: found among %llu states\n", std::string(kLeaseRules[GetParam()].name).c_str(),
              static_cast<unsigned long long>(result.states));
}
INSTANTIATE_TEST_SUITE_P(Rules, LeaseExplorerRule, ::testing::Range(std::size_t{0}, std::size_t(LeaseRule::kCount)),
                         [](const auto& rule) {
                           std::string name(kLeaseRules[rule.param].name);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace atoll::cluster
