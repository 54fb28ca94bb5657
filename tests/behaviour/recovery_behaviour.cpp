// Real clusters whose nodes are killed under load and come back: nothing that was acknowledged is lost. Each test is a
// few rounds of kill_rounds; scripts/kill-rounds does as many as one likes.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "support/command.hpp"
#include "support/seed.hpp"

namespace atoll::test {
namespace {

using testing::HasSubstr;

struct Setting {
  const char* name;
  const char* options;
};
void PrintTo(const Setting& setting, std::ostream* out) {
  *out << setting.name;
}

std::string rounds(const std::string& options) {
  return fmt::format("{} --seed {} {}", ATOLL_KILL_ROUNDS, fresh_seed(), options);
}

class Killed : public testing::TestWithParam<Setting> {};

TEST_P(Killed, LosesNothing) {
  Command run(rounds(GetParam().options));
  EXPECT_EQ(run.wait(), 0) << run.output();
  EXPECT_THAT(run.output(), HasSubstr(" 0 losses"));
}

INSTANTIATE_TEST_SUITE_P(Recovery, Killed,
                         testing::Values(Setting{"Bank", "--rounds 6 --load bank"},
                                         Setting{"Ycsb", "--rounds 6 --load ycsb"},
                                         Setting{"Tpcc", "--rounds 5 --load tpcc"},
                                         Setting{"TpccFullStop", "--rounds 2 --load tpcc --full-stop --log power"},
                                         Setting{"BankAllAtOnce", "--rounds 3 --load bank --all"},
                                         Setting{"YcsbAllAtOnce", "--rounds 3 --load ycsb --all"},
                                         Setting{"BankFullStop", "--rounds 3 --load bank --full-stop"},
                                         Setting{"YcsbFullStop", "--rounds 3 --load ycsb --full-stop"},
                                         Setting{"BankPower", "--rounds 3 --load bank --log power"},
                                         Setting{"YcsbPower", "--rounds 3 --load ycsb --log power"},
                                         Setting{"BankOverTcp", "--rounds 3 --load bank --transport tcp"}),
                         [](const auto& test) { return std::string(test.param.name); });

// A tmpfs of a mount namespace of its own, which goes with it.
TEST(Recovery, ADiskThatRunsFullLosesNothing) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may mount a small disk";
  std::string small = testing::TempDir() + "atoll-small-XXXXXX";
  ASSERT_NE(::mkdtemp(small.data()), nullptr);
  const std::string filled =
      rounds(fmt::format("--rounds 2 --load grow --fill --nodes 2 --memory 64M --log-dir {}/logs", small));
  Command run(fmt::format("unshare --mount sh -c 'mount -t tmpfs -o size=128M small {} && exec {}'", small, filled));
  EXPECT_EQ(run.wait(), 0) << run.output();
  EXPECT_THAT(run.output(), HasSubstr("the disk was full (storage full"));
  EXPECT_THAT(run.output(), HasSubstr(" 0 losses"));
  std::filesystem::remove(small);
}

// Nobody is killed: what is found then is the test's own mistake.
TEST(Recovery, LoadsAreExactByThemselves) {
  for (const char* load : {"bank", "ycsb", "tpcc"}) {
    Command run(rounds(fmt::format("--rounds 2 --log off --load {}", load)));
    EXPECT_EQ(run.wait(), 0) << run.output();
  }
}

TEST(Recovery, ALossIsFound) {
  for (const char* load : {"bank", "ycsb", "tpcc"}) {
    Command run(rounds(fmt::format("--rounds 1 --log off --forge --load {}", load)));
    EXPECT_EQ(run.wait(), 1) << run.output();
    // An order that nobody was told of may be one that another worker was told of.
    const bool may_be_another = std::string(load) == "tpcc";
    EXPECT_THAT(run.output(), HasSubstr(may_be_another ? "LOST: " : "LOST: node 0 reads "));
    const auto left = run.wait_for("stays in ([^ ]+)\\.", 1);
    ASSERT_EQ(left.size(), 1u);
    std::filesystem::remove_all(left[0]);
  }
}

}  // namespace
}  // namespace atoll::test
