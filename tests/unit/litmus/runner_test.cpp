// The runner on a cluster inside this process, where the sanitizers see it, and the judge.
#include "litmus/runner.hpp"

#include <gmock/gmock.h>

#include "litmus/judge.hpp"
#include "litmus/model.hpp"
#include "support/local_cluster.hpp"
#include "support/seed.hpp"

namespace atoll::litmus {
namespace {

using test::LocalCluster;

constexpr unsigned kInstances = 64;

/// Nodes in this process under one mode, and their view of the memory to test in.
class Cluster {
 public:
  explicit Cluster(Consistency mode, NodeId nodes = 4) : cluster_(nodes, options(mode)), arenas_(nodes) {
    cluster_.in_parallel([&](NodeId id) { arenas_[id].emplace(cluster_[id], kInstances); });
  }
  Histogram run(const Case& test, const RunSettings& settings) {
    Histogram histogram;
    cluster_.in_parallel([&](NodeId id) {
      Histogram found = run_node(cluster_[id], *arenas_[id], test, settings);
      if (id == 0) histogram = std::move(found);
    });
    return histogram;
  }

 private:
  static Options options(Consistency mode) {
    Options options = LocalCluster::small_options();
    options.consistency = mode;
    return options;
  }

  LocalCluster cluster_;
  std::vector<std::optional<Arena>> arenas_;
};

std::uint64_t total(const Histogram& histogram) {
  std::uint64_t sum = 0;
  for (const auto& [outcome, count] : histogram) sum += count;
  return sum;
}

class LitmusRunner : public testing::TestWithParam<Consistency> {};

/// Every test, a few times: nothing that the model forbids.
TEST_P(LitmusRunner, SeesNothingForbidden) {
  RunSettings settings;
  settings.runs = kInstances;
  settings.seed = test::fresh_seed();
  SCOPED_TRACE(test::repeat_with(settings.seed));
  Cluster cluster(GetParam());
  for (const Case& test : all_cases()) {
    const Histogram histogram = cluster.run(test, settings);
    EXPECT_EQ(total(histogram), kInstances);
    EXPECT_THAT(judge(test, GetParam(), GetParam(), histogram).forbidden, testing::IsEmpty()) << test.name();
  }
}

INSTANTIATE_TEST_SUITE_P(AllModes, LitmusRunner, testing::ValuesIn(kModes),
                         [](const auto& mode) { return std::string(to_string(mode.param)); });

/// The run can fail: what a PSO cluster does is not SC, and the judge says so.
TEST(LitmusRunnerCanFail, PsoIsFoundNotToBeSc) {
  RunSettings settings;
  settings.runs = kInstances;
  settings.until_seen = 200'000;
  settings.seed = test::fresh_seed();
  SCOPED_TRACE(test::repeat_with(settings.seed));
  const Case test{find_shape("2+2W"), Variant::kPlain, Layout::kTwoHomes};
  Cluster cluster(Consistency::kPso);
  const Histogram histogram = cluster.run(test, settings);
  EXPECT_TRUE(judge(test, Consistency::kPso, Consistency::kPso, histogram).ok());
  const Verdict verdict = judge(test, Consistency::kPso, Consistency::kSc, histogram);
  EXPECT_FALSE(verdict.ok());
  EXPECT_FALSE(verdict.allowed);
  EXPECT_GT(verdict.seen, 0u);
  EXPECT_THAT(complaints(verdict), testing::Contains(testing::HasSubstr("the forbidden outcome x=1 y=1 was seen")));
}

TEST(LitmusJudge, AnOutcomeThatNobodyAskedForIsForbiddenToo) {
  const Case test{find_shape("CoWR"), Variant::kPlain, Layout::kOneLine};
  const Outcome stale = in_register(0, 0) | at_the_end(Variable::kX, 1);  // the read sees not even the thread's own
  const Verdict verdict = judge(test, Consistency::kPso, Consistency::kPso, {{stale, 3}});
  EXPECT_EQ(verdict.seen, 0u);
  EXPECT_THAT(verdict.forbidden, testing::ElementsAre(std::pair(stale, 3)));
  EXPECT_THAT(complaints(verdict), testing::ElementsAre("CoWR plain one-line under pso: the forbidden outcome r0=0 "
                                                        "x=1 was seen 3 times in 3 runs"));
}

TEST(LitmusJudge, ARelaxationThatMustBeSeenIsMissed) {
  const Case test{find_shape("SB"), Variant::kPlain, Layout::kTwoHomes};
  const Outcome serial = in_register(1, 1) | at_the_end(Variable::kX, 1) | at_the_end(Variable::kY, 1);
  const Verdict verdict = judge(test, Consistency::kPso, Consistency::kPso, {{serial, 100}});
  EXPECT_TRUE(verdict.missing());
  EXPECT_THAT(complaints(verdict), testing::ElementsAre("SB plain two-homes under pso: r0=0 r1=0 is allowed and must "
                                                        "be seen, but was not in 100 runs"));
  EXPECT_THAT(table_of({verdict}), testing::HasSubstr("allowed        0!"));
  EXPECT_TRUE(judge(test, Consistency::kTso, Consistency::kTso, {{serial, 100}}).ok()) << "there it need not be seen";
}

/// Places follow the layout, and are the same for the same seed.
TEST(LitmusArena, PlacesFollowTheLayout) {
  LocalCluster cluster(3);
  std::vector<std::optional<Arena>> arenas(3);
  cluster.in_parallel([&](NodeId id) { arenas[id].emplace(cluster[id], kInstances); });
  const auto line_of = [&](GlobalAddress at) { return at.bits() / cluster[0].line_bytes(); };
  for (const Layout layout : kLayouts) {
    const Case test{find_shape("SB"), Variant::kPlain, layout};
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      const auto instances = arenas[0]->instances_for(test, seed), same = arenas[2]->instances_for(test, seed);
      std::set<std::uint64_t> places;
      for (unsigned i = 0; i < kInstances; ++i) {
        const auto& at = instances[i].at;
        EXPECT_EQ(at, same[i].at);
        EXPECT_EQ(line_of(at[0]) == line_of(at[1]), layout == Layout::kOneLine);
        if (layout == Layout::kOneHome) {
          EXPECT_EQ(at[0].node(), at[1].node());
        }
        if (layout == Layout::kTwoHomes) {
          EXPECT_NE(at[0].node(), at[1].node());
        }
        for (const GlobalAddress place : at) EXPECT_TRUE(places.insert(place.bits()).second) << "used twice";
      }
    }
  }
}

}  // namespace
}  // namespace atoll::litmus
