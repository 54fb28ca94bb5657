// Nodes that are started by others than `atoll run`.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>

#include "cluster/master.hpp"
#include "support/command.hpp"

namespace atoll {
namespace {

using cluster::Master;
using test::Command;
using testing::HasSubstr;

// Debian's mpirun: the tests run as root in containers, and with fewer CPUs than nodes.
constexpr const char* kMpirun = "mpirun --allow-run-as-root --oversubscribe";

bool mpirun_is_here() {
  return Command("sh -c 'command -v mpirun >/dev/null'").wait() == 0;
}

/// A master for so many nodes, and the command that has mpirun start `started` of them.
std::string mpirun(const Master& master, int started, const char* scenario) {
  return fmt::format("env ATOLL_MASTER={} ATOLL_MEMORY=2M ATOLL_CACHE=256K ATOLL_LOG=info {} -n {} {} {}",
                     master.socket_name(), kMpirun, started, ATOLL_SCENARIO, scenario);
}

TEST(StartedByMpirun, NodesFindTheirPlace) {
  if (!mpirun_is_here()) GTEST_SKIP() << "there is no mpirun (Debian's openmpi-bin)";
  Master master({3, "mpirun"});
  Command cluster(mpirun(master, 3, "work"));
  EXPECT_EQ(cluster.wait(), 0) << cluster.output();
  for (int k = 0; k < 3; ++k) {
    EXPECT_THAT(cluster.output(), HasSubstr(fmt::format("node {} of 3, as Open MPI (OMPI_COMM_WORLD_RANK", k)));
  }
}

TEST(StartedByMpirun, NodesJoinAMasterOfAnotherHost) {
  if (!mpirun_is_here()) GTEST_SKIP() << "there is no mpirun (Debian's openmpi-bin)";
  cluster::MasterConfig config{3, "mpirun"};
  config.listen = cluster::TcpAddress{"127.0.0.1", 0};
  config.key = cluster::Key::generate();
  const Master master(config);
  Command cluster(fmt::format("env ATOLL_MASTER={} ATOLL_KEY={} ATOLL_MEMORY=2M ATOLL_CACHE=256K {} -n 3 {} work",
                              master.tcp_address()->text(), config.key->reveal(), kMpirun, ATOLL_SCENARIO));
  EXPECT_EQ(cluster.wait(), 0) << cluster.output();
}

TEST(StartedByMpirun, AnotherNumberOfNodesThanTheMastersIsAnError) {
  if (!mpirun_is_here()) GTEST_SKIP() << "there is no mpirun (Debian's openmpi-bin)";
  Master master({3, "mpirun"});
  Command cluster(mpirun(master, 2, "work"));
  EXPECT_NE(cluster.wait(), 0);
  EXPECT_THAT(cluster.output(), HasSubstr("started as one of 2, but the master has 3 nodes"));
}

TEST(StartedByMpirun, ItsExitCodeIsTheProgramsAndAllEnd) {
  if (!mpirun_is_here()) GTEST_SKIP() << "there is no mpirun (Debian's openmpi-bin)";
  Master master({2, "mpirun"});
  Command cluster(mpirun(master, 2, "killed barrier"));
  EXPECT_EQ(cluster.wait(), 128 + SIGKILL) << cluster.output();
}

TEST(StartedByHand, NothingSaysWhichNode) {
  Master master({1, "hand"});
  Command node(fmt::format("env -i ATOLL_MASTER={} {} work", master.socket_name(), ATOLL_SCENARIO));
  EXPECT_EQ(node.wait(), 5);
  EXPECT_THAT(node.output(), HasSubstr("nothing says which node this is"));
}

TEST(StartedByHand, AsSlurmWould) {
  Master master({2, "slurm"});
  const auto start = [&](int rank) {
    return fmt::format("env -i ATOLL_MASTER={} ATOLL_MEMORY=2M ATOLL_CACHE=256K SLURM_PROCID={} SLURM_NTASKS=2 {} work",
                       master.socket_name(), rank, ATOLL_SCENARIO);
  };
  Command one(start(0)), other(start(1));
  EXPECT_EQ(one.wait(), 0) << one.output();
  EXPECT_EQ(other.wait(), 0) << other.output();
}

}  // namespace
}  // namespace atoll
