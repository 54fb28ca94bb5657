// A machine that was started again under a log of mode process, which promises nothing for that.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/logged_cluster.hpp"

namespace atoll {
namespace {

using test::LoggedCluster;
using testing::HasSubstr;

class Reboot : public testing::Test {
 protected:
  void write(LoggedCluster& cluster) {
    cluster.on(0, [&](Node& node) {
      word_ = node.allocate<std::uint64_t>().value();
      node.write(word_, 7).or_throw();
      node.fence().or_throw();
    });
  }
  void expect_written(LoggedCluster& cluster) {
    cluster.on(0, [&](Node& node) { EXPECT_EQ(node.read(word_).value(), 7u); });
  }
  static std::string refusal(LoggedCluster& cluster) {
    try {
      cluster.restart(0);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  global_ptr<std::uint64_t> word_;
};

TEST_F(Reboot, IsRefusedInModeProcess) {
  LoggedCluster cluster(1);
  write(cluster);
  cluster.crash(0);
  cluster.disk().write_back(1);
  for (int sector = 0; sector < 64; ++sector) cluster.disk().write_back(std::uint64_t(sector));  // the system had time
  cluster.disk().crash_power(1);
  EXPECT_THAT(refusal(cluster), HasSubstr("--recover-after-reboot"));
  cluster.options().recover_after_reboot = true;
  EXPECT_EQ(refusal(cluster), "");
  expect_written(cluster);
  // It goes on from what it has taken, in this life of the machine.
  cluster.options().recover_after_reboot = false;
  cluster.crash(0);
  EXPECT_EQ(refusal(cluster), "");
  expect_written(cluster);
}

TEST_F(Reboot, IsNothingForModePower) {
  LoggedCluster cluster(1, LogMode::kPower);
  write(cluster);
  cluster.crash(0, 1);
  EXPECT_EQ(refusal(cluster), "");
  expect_written(cluster);
}

/// At an orderly end the disk has everything, of the first life and of one that had a checkpoint.
TEST_F(Reboot, IsNothingAfterAnOrderlyEnd) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    LoggedCluster cluster(1);
    write(cluster);
    for (int life = 0; life < 3; ++life) {
      cluster.end();
      cluster.disk().crash_power(seed);
      ASSERT_EQ(refusal(cluster), "");
      expect_written(cluster);
    }
  }
}

/// The machine ends at each operation of a recovery from a log that ended in order: what stands there then is refused
/// or right.
TEST_F(Reboot, DuringARecoveryIsSeen) {
  for (std::uint64_t n = 1; n < 200; ++n) {
    LoggedCluster cluster(1);
    write(cluster);
    cluster.end();
    cluster.disk().fail_from(n);
    const bool failed = !refusal(cluster).empty();
    cluster.disk().fail_operation(0);
    if (!failed) cluster.crash(0);
    cluster.disk().crash_power(n);
    if (refusal(cluster).empty()) expect_written(cluster);  // any file may be torn or missing: each has its own words
    if (!failed) break;
    ASSERT_LT(n, 199u);
  }
}

}  // namespace
}  // namespace atoll
