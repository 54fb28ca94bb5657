// `atoll run` and `atoll status` as a user calls them, with real nodes that die, exit or are none.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "support/command.hpp"

namespace {

using namespace std::chrono_literals;
using atoll::test::Command;
using testing::HasSubstr;

std::string run(const std::string& options, const std::string& program) {
  return fmt::format("{} run {} -- {}", ATOLL_COMMAND, options, program);
}
std::string scenario(const std::string& options, const std::string& what) {
  const std::string cache = options.find("--cache") == std::string::npos ? "--cache 256K " : "";
  return run("--memory 2M " + cache + options, fmt::format("{} {}", ATOLL_SCENARIO, what));
}

TEST(LauncherBehaviour, ExitCodes) {
  EXPECT_EQ(Command(scenario("-n 2", "work")).wait(), 0);
  EXPECT_EQ(Command(scenario("-n 3", "code 7")).wait(), 7);
  EXPECT_EQ(Command(run("-n 2", "/no/such/program")).wait(), 127);
  EXPECT_EQ(Command(run("-n 2", "/etc/passwd")).wait(), 126);
  EXPECT_NE(Command(run("-n 0", "true")).wait(), 0);
  EXPECT_NE(Command(fmt::format("{} run -n 2", ATOLL_COMMAND)).wait(), 0);
}

TEST(LauncherBehaviour, ProgramsThatAreNoNodes) {
  Command echo(run("-n 3", "echo hi"));
  EXPECT_EQ(echo.wait(), 0);
  for (int k = 0; k < 3; ++k) EXPECT_THAT(echo.output(), HasSubstr(fmt::format("[{}] hi", k)));
  EXPECT_EQ(Command(run("-n 2", "sh -c 'exit 3'")).wait(), 3);
}

class Dying : public testing::TestWithParam<const char*> {};

TEST_P(Dying, WhoWaitsForAKilledNodeGetsAnError) {
  Command cluster(scenario("-n 3 --keep-going", fmt::format("killed {}", GetParam())));
  EXPECT_EQ(cluster.wait(), 128 + SIGKILL) << cluster.output();
  for (const int survivor : {0, 2}) {
    EXPECT_THAT(cluster.output(), HasSubstr(fmt::format("node {} got: node died (node 1)", survivor)));
  }
}

TEST_P(Dying, WhoWaitsForANodeThatExitedWithoutLeavingGetsAnError) {
  for (const char* death : {"exit", "_exit"}) {
    Command cluster(scenario("-n 3 --keep-going", fmt::format("{} {}", death, GetParam())));
    EXPECT_EQ(cluster.wait(), 1) << cluster.output();
    for (const int survivor : {0, 2}) {
      EXPECT_THAT(cluster.output(), HasSubstr(fmt::format("node {} got: node died (node 1)", survivor))) << death;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(LauncherBehaviour, Dying,
                         testing::Values("read", "write", "lock", "atomic", "barrier", "allocate"),
                         [](const auto& each) { return std::string(each.param); });

TEST(LauncherBehaviour, EndsAllWhenOneDiesAndSaysWhichAndWhy) {
  Command cluster(scenario("-n 3 --grace 0.2", "killed barrier"));
  EXPECT_EQ(cluster.wait(), 128 + SIGKILL);
  EXPECT_THAT(cluster.output(), testing::ContainsRegex("node 1.*signal 9|node 1.*[Kk]illed"));
  Command aborted(scenario("-n 2 --grace 0.2", "aborted lock"));
  EXPECT_EQ(aborted.wait(), 128 + SIGABRT);
}

TEST(LauncherBehaviour, ANodeThatHangsIsDeclaredOutAndEnded) {
  for (const char* how : {"--grace 0.2", "--keep-going"}) {
    Command cluster(scenario(fmt::format("-n 3 --lease 1 {}", how), "stopped lock"));
    EXPECT_EQ(cluster.wait(), 1) << how;
    EXPECT_THAT(cluster.output(), HasSubstr("node 1 was declared out: nothing was heard of it for 1.0 s")) << how;
    for (const int survivor : {0, 2}) {
      EXPECT_THAT(cluster.output(), HasSubstr(fmt::format("node {} got: node died (node 1)", survivor))) << how;
    }
  }
}

TEST(LauncherBehaviour, KillNineOfTheLauncherLeavesNoProcess) {
  Command cluster(scenario("-n 3", "sleep"));
  const auto pids = cluster.wait_for("pid ([0-9]+)", 3);
  ASSERT_EQ(pids.size(), 3u);
  ASSERT_EQ(::kill(cluster.pid(), SIGKILL), 0);
  EXPECT_EQ(cluster.wait(), 128 + SIGKILL);
  for (const std::string& pid : pids) EXPECT_TRUE(atoll::test::is_gone_soon(std::stoi(pid))) << pid;
}

TEST(LauncherBehaviour, AnInterruptEndsTheCluster) {
  Command cluster(scenario("-n 2", "sleep"));
  ASSERT_EQ(cluster.wait_for("pid ([0-9]+)", 2).size(), 2u);
  ASSERT_EQ(::kill(cluster.pid(), SIGINT), 0);
  EXPECT_EQ(cluster.wait(), 128 + SIGINT);
}

TEST(LauncherBehaviour, StatusShowsTheClustersThatRun) {
  Command cluster(scenario("-n 3", "sleep"));
  const auto pids = cluster.wait_for("pid ([0-9]+)", 3);
  Command status(fmt::format("{} status --cluster {}", ATOLL_COMMAND, cluster.pid()));
  EXPECT_EQ(status.wait(), 0);
  EXPECT_THAT(status.output(), HasSubstr(fmt::format("cluster {} (3 nodes", cluster.pid())));
  for (const std::string& pid : pids) EXPECT_THAT(status.output(), HasSubstr(pid));
  Command json(fmt::format("{} status --json --cluster {}", ATOLL_COMMAND, cluster.pid()));
  EXPECT_EQ(json.wait(), 0);
  EXPECT_THAT(json.output(), HasSubstr("messages_sent"));
  Command nobody(fmt::format("{} status --cluster {}", ATOLL_COMMAND, ::getpid()));
  EXPECT_EQ(nobody.wait(), 1);
  EXPECT_THAT(nobody.output(), HasSubstr("no cluster"));
}

TEST(LauncherBehaviour, MoreNodesThanCores) {
  Command cluster(run("-n 16 --memory 1M --cache 64K", fmt::format("{} work", ATOLL_SCENARIO)));
  EXPECT_EQ(cluster.wait(), 0) << cluster.output();
}

TEST(LauncherBehaviour, LinesAndCachesOfAllSizes) {
  EXPECT_EQ(Command(scenario("-n 2 --line 64", "work")).wait(), 0);
  EXPECT_EQ(Command(scenario("-n 2 --line 512 --cache 32K", "work")).wait(), 0);
  EXPECT_EQ(Command(scenario("-n 2 --line 4096 --cache 256K", "work")).wait(), 0);
  for (const char* bad : {"--line 500", "--line 8192", "--line 0", "--cache 1K", "--memory 0", "--memory lots"}) {
    Command refused(run(fmt::format("-n 2 {}", bad), "true"));
    EXPECT_NE(refused.wait(), 0) << bad;
    EXPECT_THAT(refused.output(), testing::AnyOf(HasSubstr("give"), HasSubstr("for example"))) << bad;
  }
}

}  // namespace
