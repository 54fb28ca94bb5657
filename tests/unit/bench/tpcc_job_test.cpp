// What `atoll bench tpcc` takes, what it says, and what its nodes are told.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "bench/tpcc/engines.hpp"
#include "bench/tpcc/tpcc.hpp"

namespace atoll::bench::tpcc {
namespace {

using testing::HasSubstr;

TEST(TpccSettings, WithoutAnyAreSound) {
  EXPECT_EQ(check_tpcc({}), "");
  const Job job = job_of({});
  EXPECT_EQ(job.shape.homes.nodes, 2);
  EXPECT_EQ(job.shape.homes.warehouses, 2u);
  EXPECT_EQ(job.mix, Mix::kFull);
  EXPECT_EQ(job.shape.scale, Scale());
  EXPECT_FALSE(job.shape.distribution_ratio);
}

TEST(TpccSettings, ThatMakeNoSenseAreNamed) {
  TpccSettings few;
  few.nodes = 3;
  few.warehouses = 2;
  EXPECT_THAT(check_tpcc(few), HasSubstr("2 warehouses are fewer than 3 nodes"));
  TpccSettings alone;
  alone.nodes = 1;
  alone.distribution_ratio = 0.5;
  EXPECT_THAT(check_tpcc(alone), HasSubstr("--distribution-ratio"));
  TpccSettings large;
  large.warehouses = 10'000;
  large.nodes = 2;
  EXPECT_THAT(check_tpcc(large), testing::MatchesRegex("10000 warehouses.* need up to .*TiB of memory.*"));
}

TEST(TpccEngines, AreFoundByName) {
  ASSERT_FALSE(engines().empty());
  EXPECT_EQ(engines()[0].name, "atoll");
  for (const Engine& engine : engines()) EXPECT_EQ(&engine_of(engine.name), &engine);
  EXPECT_THROW((void)engine_of("none"), Error);
}

TEST(TpccEngines, HaveTheMemoryThatTheyNeed) {
  TpccSettings settings;
  settings.warehouses = 4;
  const Options atoll = job_of(settings).options();
  EXPECT_GT(atoll.memory_bytes, 2 * job_of(settings).bytes_of_warehouse());
  settings.engine = "farm";  // which brings its own
  EXPECT_LT(job_of(settings).options().memory_bytes, 64u << 20);
  EXPECT_LT(job_of(settings).options().cache_bytes, 64u << 20);
}

TEST(TpccJob, ComesToNodesAsItIs) {
  TpccSettings settings;
  settings.common.quick = true;
  settings.common.repetitions = 3;
  settings.nodes = 3;
  settings.warehouses = 9;
  settings.threads = 2;
  settings.mix = "neworder-payment";
  settings.distribution_ratio = 0.25;
  settings.read_ratio = 0.5;
  settings.temporal_locality = 0.75;
  settings.seed = 42;
  const Job job = job_of(settings);
  const auto copy = nlohmann::json(job).get<Job>();
  EXPECT_EQ(nlohmann::json(copy), nlohmann::json(job));
  EXPECT_EQ(copy.shape.scale, Scale::small());
  EXPECT_EQ(copy.shape.distribution_ratio, 0.25);
  EXPECT_EQ(copy.shape.constants.item, Constants::from_seed(42).item);
  EXPECT_EQ(copy.conditions(), kConditionsWithReads);
  EXPECT_FALSE(nlohmann::json(job_of({})).get<Job>().shape.distribution_ratio);
}

Tallies some() {
  Tallies tallies;
  tallies.begun_ns = 1'000'000'000;
  tallies.ended_ns = 3'000'000'000;
  tallies.kinds[0].done = 100;
  tallies.kinds[0].rolled_back = 1;
  tallies.kinds[0].times.record(5'000, 99);
  tallies.kinds[0].times.record(1'000'000);
  tallies.kinds[1].done = 50;
  return tallies;
}

TEST(TpccTallies, AreAddedUp) {
  Tallies all = some(), other = some();
  other.begun_ns = 500'000'000;
  all.merge(other);
  all.merge(Tallies());  // of a thread that did nothing
  EXPECT_EQ(all.all(), 300u);
  EXPECT_DOUBLE_EQ(all.seconds(), 2.5);
  EXPECT_DOUBLE_EQ(all.rate(), 120);
  EXPECT_DOUBLE_EQ(all.tpmc(), 200 * 60 / 2.5);
  const auto copy = nlohmann::json(all).get<Tallies>();
  EXPECT_EQ(nlohmann::json(copy), nlohmann::json(all));
  EXPECT_EQ(copy.of(Kind::kNewOrder).times.count(), 200u);
}

TEST(TpccReport, SaysWhatHolds) {
  const Job job = job_of({});
  Outcome outcome;
  outcome.repetitions = {some()};
  testing::internal::CaptureStdout();
  EXPECT_TRUE(print(job, LogMode::kOff, outcome));
  const std::string text = testing::internal::GetCapturedStdout();
  for (const char* part : {"tpmC 3000\n", "all 75 transactions/s", "\nnew_order ",
                           "consistency: conditions 1 to 12 hold", "1 rolled back by an unused item", "p99 us"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_THAT(text, testing::Not(HasSubstr("delivery")));
  const auto line = nlohmann::json::parse(json_line(job, LogMode::kProcess, outcome));
  EXPECT_EQ(line.at("tpmC"), 3000);
  EXPECT_EQ(line.at("log"), "process");
  EXPECT_EQ(line.at("ok"), true);
  EXPECT_EQ(line.at("transactions").at("new_order").at("count"), 100);
}

TEST(TpccReport, SaysWhatDoesNotHold) {
  const Job job = job_of({});
  Outcome outcome;
  outcome.repetitions = {some()};
  outcome.violations = {{4, "district 7 has a line too many", 3}};
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  EXPECT_FALSE(print(job, LogMode::kOff, outcome));
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_THAT(testing::internal::GetCapturedStdout(), testing::Not(HasSubstr("hold")));
  EXPECT_THAT(text, HasSubstr("consistency condition 4 does not hold: district 7 has a line too many; and 2 more"));
  const auto line = nlohmann::json::parse(json_line(job, LogMode::kOff, outcome));
  EXPECT_EQ(line.at("ok"), false);
  EXPECT_EQ(line.at("violations").at(0).at("condition"), 4);
}

}  // namespace
}  // namespace atoll::bench::tpcc
