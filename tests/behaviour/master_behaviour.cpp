// `atoll key` and `atoll master` as a user calls them, with real nodes that join over TCP, and some that may not.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "support/command.hpp"

namespace {

using namespace std::chrono_literals;
using atoll::test::Command;
using testing::HasSubstr;

/// A folder with a key, and a master that has it.
class MasterBehaviour : public testing::Test {
 protected:
  MasterBehaviour() {
    std::string path = (std::filesystem::temp_directory_path() / "atoll-master-XXXXXX").string();
    if (::mkdtemp(path.data()) == nullptr) std::abort();
    folder_ = path;
    EXPECT_EQ(Command(fmt::format("{} key --out {}", ATOLL_COMMAND, key())).wait(), 0);
  }
  ~MasterBehaviour() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string key(const char* name = "cluster.key") const { return (folder_ / name).string(); }

  /// Starts a master for so many nodes at a port that the system chooses.
  std::unique_ptr<Command> start_master(int nodes) {
    nodes_ = nodes;
    auto master = std::make_unique<Command>(
        fmt::format("{} master --listen 127.0.0.1:0 --nodes {} --key-file {}", ATOLL_COMMAND, nodes, key()));
    const auto found = master->wait_for("listening at (127\\.0\\.0\\.1:[0-9]+);", 1);
    if (!found.empty()) address_ = found[0];
    return master;
  }
  std::unique_ptr<Command> start_node(int node, const std::string& scenario, const std::string& key_file) const {
    return std::make_unique<Command>(
        fmt::format("env ATOLL_MASTER={} ATOLL_KEY_FILE={} ATOLL_NODES={} ATOLL_NODE={} ATOLL_MEMORY=2M "
                    "ATOLL_CACHE=256K {} {}",
                    address_, key_file, nodes_, node, ATOLL_SCENARIO, scenario));
  }
  std::vector<std::unique_ptr<Command>> start_nodes(const std::string& scenario) const {
    std::vector<std::unique_ptr<Command>> nodes;
    for (int k = 0; k < nodes_; ++k) nodes.push_back(start_node(k, scenario, key()));
    return nodes;
  }

 private:
  std::filesystem::path folder_;
  std::string address_;
  int nodes_ = 0;
};

TEST_F(MasterBehaviour, NodesThatOthersStartedWorkTogether) {
  auto master = start_master(3);
  EXPECT_THAT(master->output(), HasSubstr(fmt::format("ATOLL_KEY_FILE={} ATOLL_NODES=3 ATOLL_NODE={{0..2}}", key())));
  auto nodes = start_nodes("work");
  for (auto& node : nodes) EXPECT_EQ(node->wait(), 0) << node->output();
  EXPECT_EQ(master->wait(), 0) << master->output();
}

TEST_F(MasterBehaviour, WithAnotherKeyNobodyJoinsAndTheOthersDo) {
  EXPECT_EQ(Command(fmt::format("{} key --out {}", ATOLL_COMMAND, key("other.key"))).wait(), 0);
  auto master = start_master(2);
  auto stranger = start_node(0, "work", key("other.key"));
  EXPECT_EQ(stranger->wait(), 5);
  EXPECT_THAT(stranger->output(), HasSubstr("it did not take our cluster key"));
  auto nodes = start_nodes("work");
  for (auto& node : nodes) EXPECT_EQ(node->wait(), 0) << node->output();
  EXPECT_EQ(master->wait(), 0) << master->output();
  EXPECT_THAT(master->output(), HasSubstr("it does not have the cluster key"));
}

TEST_F(MasterBehaviour, ADeathIsToldToTheOthers) {
  auto master = start_master(3);
  auto nodes = start_nodes("killed barrier");
  EXPECT_EQ(nodes[1]->wait(), 128 + SIGKILL);
  for (const std::size_t survivor : {0u, 2u}) {
    EXPECT_EQ(nodes[survivor]->wait(), 0) << nodes[survivor]->output();
    EXPECT_THAT(nodes[survivor]->output(), HasSubstr(fmt::format("node {} got: node died (node 1)", survivor)));
  }
  EXPECT_EQ(master->wait(), 1);
  EXPECT_THAT(master->output(), HasSubstr("atoll: node 1: nothing was heard of it for 5.0 s (its connection ended)"));
}

TEST_F(MasterBehaviour, StatusFindsIt) {
  auto master = start_master(2);
  auto nodes = start_nodes("sleep");
  std::vector<std::string> pids;
  for (auto& node : nodes) pids.push_back(node->wait_for("pid ([0-9]+)", 1).at(0));
  const std::string ask = fmt::format("{} status --json --cluster {}", ATOLL_COMMAND, master->pid());
  // The counters come with the first report.
  std::string shown;
  for (const auto end = atoll::test::Clock::now() + atoll::test::kHang; atoll::test::Clock::now() < end;) {
    Command status(ask);
    EXPECT_EQ(status.wait(), 0);
    shown = status.output();
    if (shown.find("messages_sent") != shown.rfind("messages_sent")) break;
  }
  EXPECT_NE(shown.find("messages_sent"), shown.rfind("messages_sent")) << shown;
  for (const std::string& pid : pids) EXPECT_THAT(shown, HasSubstr(pid));
}

TEST_F(MasterBehaviour, AStartThatFailsAndASignalEndIt) {
  auto failing = start_master(2);
  auto node = start_node(0, "work", key());
  // It has to be there before it can be lost.
  for (bool joined = false; !joined; std::this_thread::sleep_for(10ms)) {
    Command status(fmt::format("{} status --json --cluster {}", ATOLL_COMMAND, failing->pid()));
    EXPECT_EQ(status.wait(), 0);
    joined = status.output().find(fmt::format("\"pid\": {}", node->pid())) != std::string::npos;
  }
  ASSERT_EQ(::kill(node->pid(), SIGKILL), 0);
  EXPECT_EQ(failing->wait(), 1);
  EXPECT_THAT(failing->output(), HasSubstr("the cluster did not start: node 0 ended before all nodes had joined"));
  for (const int signal : {SIGINT, SIGTERM}) {
    auto master = start_master(1);
    ASSERT_EQ(::kill(master->pid(), signal), 0);
    EXPECT_EQ(master->wait(), 128 + signal);
  }
}

TEST_F(MasterBehaviour, WrongUseIsAnErrorWithTheRemedy) {
  const auto says = [](const std::string& arguments, int code) {
    Command command(fmt::format("env -u ATOLL_KEY -u ATOLL_KEY_FILE {} {}", ATOLL_COMMAND, arguments));
    EXPECT_EQ(command.wait(), code) << arguments;
    return command.output();
  };
  EXPECT_THAT(says("master --nodes 2", 2), HasSubstr("--listen is required"));
  EXPECT_THAT(says("master --listen here --nodes 2", 2), HasSubstr("there is no port"));
  EXPECT_THAT(says("master --listen 127.0.0.1:0 --nodes 0", 2), HasSubstr("--nodes"));
  EXPECT_THAT(says("master --listen 127.0.0.1:0 --nodes 2", 1), HasSubstr("`atoll key --out FILE` makes one"));
  EXPECT_THAT(says("master --listen 198.51.100.1:0 --nodes 2 --key-file " + key(), 1), HasSubstr("cannot listen at"));
  EXPECT_THAT(says("key --out " + key(), 1), HasSubstr("not overwritten"));
  ASSERT_EQ(::chmod(key().c_str(), 0644), 0);
  EXPECT_THAT(says("master --listen 127.0.0.1:0 --nodes 2 --key-file " + key(), 1), HasSubstr("chmod 600 " + key()));
  EXPECT_TRUE(std::regex_search(says("key", 0), std::regex("^[0-9a-f]{64}\n$")));
}

}  // namespace
