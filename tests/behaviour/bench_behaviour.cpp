// `atoll bench` as a user calls it: that it runs, and the shape of what it says. Never a time.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace {

using nlohmann::json;
using testing::Contains;
using testing::HasSubstr;

struct Outcome {
  int code = -1;
  std::string text;         // stdout
  std::vector<json> lines;  // of the JSON file
  std::vector<std::string> cases;
};

/// Runs `atoll bench ARGUMENTS --quick --repetitions 1`.
Outcome bench(const std::string& arguments) {
  char path[] = "/tmp/atoll-bench-XXXXXX";
  ::close(::mkstemp(path));
  Outcome outcome;
  std::FILE* pipe = ::popen(
      fmt::format("{} bench {} --quick --repetitions 1 --json {} 2>/dev/null", ATOLL_COMMAND, arguments, path).c_str(),
      "r");
  char buffer[4096];
  for (std::size_t got; (got = std::fread(buffer, 1, sizeof(buffer), pipe)) > 0;) outcome.text.append(buffer, got);
  const int status = ::pclose(pipe);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    outcome.lines.push_back(json::parse(line));
    outcome.cases.push_back(outcome.lines.back().at("case"));
  }
  ::unlink(path);
  return outcome;
}

void expect_sound(const json& line, const std::string& suite) {
  SCOPED_TRACE(line.dump());
  EXPECT_EQ(line.at("bench"), suite);
  EXPECT_GE(line.at("nodes").get<int>(), 1);
  EXPECT_GE(line.at("threads").get<int>(), 1);
  for (const char* key : {"value", "baseline_value", "ratio", "best", "median"}) {
    ASSERT_TRUE(line.at(key).is_number()) << key;
    EXPECT_GT(line.at(key).get<double>(), 0) << key;
    EXPECT_TRUE(std::isfinite(line.at(key).get<double>())) << key;
  }
  EXPECT_FALSE(line.at("unit").get<std::string>().empty());
  EXPECT_FALSE(line.at("baseline").get<std::string>().empty());
  EXPECT_TRUE(line.at("ok").is_boolean());
}

TEST(BenchBehaviour, ArrayHasARowForEachCase) {
  const Outcome outcome = bench("array");
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  for (const json& line : outcome.lines) expect_sound(line, "array");
  for (const char* name :
       {"get_seq", "get_seq_local", "get_seq_cached", "set_seq", "set_seq_local", "set_seq_owned", "pin_sum",
        "get_random", "get_random_cached", "get_seq_cold", "get_seq_cold_chunks", "prefetch_gain",
        "prefetch_gain_chunks", "get_random_cold", "threads", "apply_seq", "apply_vs_lock", "apply_vs_atomic"}) {
    EXPECT_THAT(outcome.cases, Contains(name));
    EXPECT_THAT(outcome.text, HasSubstr(fmt::format("\n{} ", name)));
  }
  for (const json& line : outcome.lines) {
    const auto name = line.at("case").get<std::string>();
    EXPECT_EQ(line.at("threads"), name.starts_with("threads") ? 2 : 1) << name;
    if (name.starts_with("refcount") || name == "threads_native") {
      EXPECT_EQ(line.at("bar"), "") << name;
    }
  }
}

TEST(BenchBehaviour, ArrayRunsOneCaseWithItsCompanions) {
  const Outcome outcome = bench("array --case refcount_seq --case get_seq");
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_THAT(outcome.cases, testing::ElementsAre("get_seq", "get_seq_local", "get_seq_cached", "refcount_seq"));
}

TEST(BenchBehaviour, DarrayHasATableForEachFigure) {
  const Outcome outcome = bench("darray");
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  for (const json& line : outcome.lines) expect_sound(line, "darray");
  for (const char* figure : {"fig1", "fig12a", "fig12b", "fig12c", "fig13a", "fig13b", "fig13c", "fig14a", "fig14b",
                             "fig15", "fig18a", "fig18b", "fig18c"}) {
    EXPECT_THAT(outcome.text, HasSubstr(fmt::format("{}: ", figure)));
    EXPECT_THAT(outcome.cases, Contains(testing::StartsWith(fmt::format("{}/atoll/", figure))));
  }
  EXPECT_THAT(outcome.text, testing::Not(HasSubstr(" -\n")));  // nothing that was not measured
  for (const char* name : {"fig1/uncached/nodes=6", "fig12a/refcount/threads=2", "fig13c/atomic/nodes=4",
                           "fig14a/lock/nodes=2", "fig18b/native/nodes=1"}) {
    EXPECT_THAT(outcome.cases, Contains(name));
  }
}

TEST(BenchBehaviour, DarrayRunsOneFigure) {
  const Outcome outcome = bench("darray --figure 1");
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_THAT(outcome.cases, testing::Each(testing::StartsWith("fig1/")));
  EXPECT_THAT(outcome.text, testing::StartsWith("fig1: "));
}

TEST(BenchBehaviour, YcsbHasARowForEachCase) {
  const Outcome outcome = bench("ycsb --records 3000 --seconds 0.02");
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  for (const json& line : outcome.lines) expect_sound(line, "ycsb");
  for (const char* name :
       {"get_cached", "get_cached_std", "get_cached_one", "get_cached_one_std", "half_get", "memory", "memory/50000",
        "growth", "workload_A", "workload_B", "workload_C", "workload_D", "workload_E", "workload_F"}) {
    EXPECT_THAT(outcome.cases, Contains(name));
    EXPECT_THAT(outcome.text, HasSubstr(fmt::format("\n{} ", name)));
  }
  for (const json& line : outcome.lines) {
    const auto name = line.at("case").get<std::string>();
    const bool bar =
        name == "get_cached" || name == "get_cached_one" || name == "half_get" || name == "memory" || name == "growth";
    EXPECT_EQ(line.at("bar") != "", bar) << name;
    if (name == "memory") {
      EXPECT_EQ(line.at("baseline_value"), 116);
    }
  }
}

TEST(BenchBehaviour, YcsbTellsHowLongOperationsTake) {
  const Outcome outcome = bench("ycsb --workload F --records 2000 --operations 2000 --nodes 3 --threads 2");
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  ASSERT_EQ(outcome.lines.size(), 11u);
  for (const json& line : outcome.lines) {
    expect_sound(line, "ycsb");
    EXPECT_EQ(line.at("nodes"), 3);
    EXPECT_EQ(line.at("threads"), 2);
  }
  EXPECT_EQ(outcome.cases.front(), "F");
  for (const std::string prefix : {"F/read/", "F/modify/"}) {
    double before = 0;
    for (const char* percentile : {"p50", "p95", "p99", "p99.9", "max"}) {
      const auto at = std::find(outcome.cases.begin(), outcome.cases.end(), prefix + percentile);
      ASSERT_NE(at, outcome.cases.end()) << prefix << percentile;
      const json& line = outcome.lines[std::size_t(at - outcome.cases.begin())];
      EXPECT_EQ(line.at("unit"), "us");
      EXPECT_GE(line.at("value").get<double>(), before);
      before = line.at("value").get<double>();
    }
  }
}

TEST(BenchBehaviour, YcsbTakesAnyMixAndDistribution) {
  for (const char* more : {"--workload D", "--workload E", "--workload custom --get-ratio 0 --value-size 1000",
                           "--workload custom --get-ratio 0.9 --distribution uniform --nodes 1",
                           "--workload B --distribution latest --zipf 0.5"}) {
    const Outcome outcome = bench(fmt::format("ycsb {} --records 500 --operations 500", more));
    EXPECT_EQ(outcome.code, 0) << more << '\n' << outcome.text;
    for (const json& line : outcome.lines) expect_sound(line, "ycsb");
    EXPECT_GE(outcome.lines.size(), 6u) << more;
  }
}

/// Fails when a record is missing, torn or old after several nodes have put and replaced them in a table that grew.
TEST(BenchBehaviour, YcsbLosesNothingWhileTheTableGrows) {
  const Outcome outcome = bench("ycsb --case growth --records 30000 --nodes 3 --threads 2");
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  ASSERT_EQ(outcome.lines.size(), 1u);
  EXPECT_EQ(outcome.lines[0].at("value"), 30000);
  EXPECT_EQ(outcome.lines[0].at("baseline_value"), 30000);
  EXPECT_EQ(outcome.lines[0].at("ok"), true);
}

TEST(BenchBehaviour, YcsbHasATableForEachFigure) {
  const Outcome outcome = bench("ycsb --figure all --nodes 2 --threads 2 --records 500 --operations 500");
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  for (const json& line : outcome.lines) expect_sound(line, "ycsb");
  EXPECT_THAT(outcome.text, HasSubstr("gam13: 0 % gets"));
  EXPECT_THAT(outcome.text, HasSubstr("darray17: 100 % gets"));
  for (const char* name : {"gam13/get=50/threads=2/atoll", "gam13/get=99/threads=2/line locks",
                           "darray17/get=95/threads=2/bucket locks", "darray17/get=100/threads=2/line locks"}) {
    EXPECT_THAT(outcome.cases, Contains(name));
  }
}

TEST(BenchBehaviour, LogHasARowForEachCase) {
  const Outcome outcome = bench("log --gib 0.05");
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  for (const json& line : outcome.lines) expect_sound(line, "log");
  EXPECT_THAT(outcome.cases,
              testing::ElementsAre("process_write_0", "process_write_50", "process_write_100", "process_local",
                                   "process_remote", "power_write_0", "power_write_50", "power_write_100",
                                   "power_local", "power_remote", "recovery", "recovery_read"));
}

TEST(BenchBehaviour, BufferHasARowForEachCase) {
  const Outcome outcome = bench("buffer");
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  for (const json& line : outcome.lines) {
    // What comes from another node's memory needs no reads: 0.
    if (!line.at("case").get<std::string>().ends_with("_reads")) expect_sound(line, "buffer");
  }
  for (const char* name : {"mem_read_local",
                           "mem_read_remote",
                           "mem_read_cached",
                           "mem_write_local",
                           "mem_write_remote",
                           "mem_write_cached",
                           "file_read_local",
                           "file_read_remote",
                           "file_read_cached",
                           "file_write_local",
                           "file_write_remote",
                           "hash_insert_fits",
                           "hash_insert",
                           "hash_update",
                           "hash_insert_alone",
                           "hash_update_alone",
                           "frames_1_30",
                           "frames_31_60",
                           "frames_61_300",
                           "frames_set_30",
                           "frames_set_60",
                           "frames_set_300",
                           "hit",
                           "hit_read",
                           "hit_threads",
                           "disk_1",
                           "disk_8",
                           "disk_32",
                           "disk_8_threads",
                           "disk_32_threads",
                           "remote_frame",
                           "set_reads",
                           "set_rate",
                           "lmdb_key_fits",
                           "lmdb_tree_fits"}) {
    EXPECT_THAT(outcome.cases, Contains(name));  // fio and groups of bounded memory are not everywhere
    EXPECT_THAT(outcome.text, HasSubstr(fmt::format("\n{} ", name)));
  }
  for (const json& line : outcome.lines) {
    const auto name = line.at("case").get<std::string>();
    EXPECT_EQ(line.at("threads"), name.find("_threads") == std::string::npos ? 1 : 2) << name;
  }
}

TEST(BenchBehaviour, BufferRunsOneCase) {
  const Outcome outcome = bench("buffer --case hit_read --case set_rate");
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_THAT(outcome.cases, testing::ElementsAre("hit_read", "set_rate"));
}

TEST(BenchBehaviour, WhatIsUnknownIsRefused) {
  EXPECT_NE(bench("buffer --case nonsense").code, 0);
  EXPECT_NE(bench("log --case nonsense").code, 0);
  EXPECT_NE(bench("array --case nonsense").code, 0);
  EXPECT_NE(bench("darray --figure 2").code, 0);
  EXPECT_NE(bench("ycsb --workload G").code, 0);
  EXPECT_NE(bench("ycsb --workload A --case growth").code, 0);
  EXPECT_NE(bench("ycsb --figure 13").code, 0);
  EXPECT_NE(bench("ycsb --workload A --value-size 8").code, 0);
}

}  // namespace
