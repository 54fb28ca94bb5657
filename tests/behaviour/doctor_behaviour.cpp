// `atoll doctor` as a user calls it, on the host that it runs on.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/command.hpp"

namespace {

using atoll::test::Command;
using nlohmann::json;
using testing::HasSubstr;

class DoctorBehaviour : public testing::Test {
 protected:
  DoctorBehaviour() {
    std::string path = (std::filesystem::temp_directory_path() / "atoll-doctor-XXXXXX").string();
    if (::mkdtemp(path.data()) == nullptr) std::abort();
    folder_ = path;
  }
  ~DoctorBehaviour() override { std::filesystem::remove_all(folder_); }

  /// Small nodes, and nothing of the environment that the tests were started in.
  static std::string command_line(const std::string& arguments, const std::string& environment) {
    return fmt::format(
        "env -u ATOLL_MASTER -u ATOLL_KEY_FILE -u ATOLL_KEY -u ATOLL_TRANSPORT -u ATOLL_ADDRESS "
        "ATOLL_MEMORY=8M ATOLL_CACHE=1M {} {} doctor {}",
        environment, ATOLL_COMMAND, arguments);
  }
  /// Runs it; the findings are those of the file.
  int doctor(const std::string& arguments, const std::string& environment = "") {
    const std::string file = folder_ + "/findings";
    Command command(command_line(arguments + " --json " + file, environment));
    const int code = command.wait();
    text_ = command.output();
    findings_.clear();
    std::ifstream lines(file);
    for (std::string line; std::getline(lines, line);) {
      const json finding = json::parse(line);
      findings_[finding.at("what")] = finding;
    }
    return code;
  }
  [[nodiscard]] json found(const std::string& what) const {
    const auto at = findings_.find(what);
    return at == findings_.end() ? json::object() : at->second;
  }
  [[nodiscard]] std::string health(const std::string& what) const { return found(what).value("health", "not there"); }

  std::string folder_, text_;
  std::map<std::string, json> findings_;
};

TEST_F(DoctorBehaviour, LooksAtEverythingAndLetsNodesTalk) {
  ASSERT_EQ(doctor("--transport shm --transport tcp"), 0) << text_;
  for (const char* what : {"processors", "membarrier", "memory", "huge pages", "locked memory", "address space",
                           "open files", "clock source", "boot clock", "time of day", "port", "nodes' ports",
                           "libfabric", "transport shm", "transport tcp"}) {
    EXPECT_THAT(health(what), testing::AnyOf("ok", "warning")) << what;
    EXPECT_THAT(text_, HasSubstr(what));
  }
  for (const std::string transport : {"shm", "tcp"}) {
    EXPECT_GT(found(transport + " control").at("figures").at("us").get<double>(), 0);
    EXPECT_GT(found(transport + " control").at("figures").at("per_s").get<double>(), 0);
    EXPECT_GT(found(transport + " data").at("figures").at("us").get<double>(), 0);
    EXPECT_GT(found(transport + " data").at("figures").at("mb_per_s").get<double>(), 0);
    EXPECT_GT(found(transport + " stream").at("figures").at("mb_per_s_4k").get<double>(), 0);
    EXPECT_GT(found(transport + " stream").at("figures").at("mb_per_s_64k").get<double>(), 0);
  }
  EXPECT_THAT(text_, HasSubstr("This host can run nodes: 0 problems"));
  for (const auto& [what, finding] : findings_) {
    EXPECT_EQ(finding.contains("remedy"), finding.at("health") != "ok") << finding.dump();
  }
}

TEST_F(DoctorBehaviour, MeasuresNothingWhenToldSo) {
  ASSERT_EQ(doctor("--no-measure --transport auto"), 0) << text_;
  EXPECT_EQ(health("transport tcp"), "ok");
  EXPECT_EQ(health("tcp control"), "not there");
  EXPECT_EQ(health("master"), "not there");
}

TEST_F(DoctorBehaviour, ATransportThatCannotBeHadIsAProblem) {
  EXPECT_EQ(doctor("--no-measure --transport no-such-provider"), 1);
  EXPECT_EQ(health("transport no-such-provider"), "problem");
  EXPECT_THAT(text_, HasSubstr("This host cannot run nodes as asked for: 1 problem,"));
  EXPECT_EQ(doctor("--no-measure", "ATOLL_TRANSPORT=no-such-provider"), 1);
  EXPECT_EQ(doctor("--no-measure --transport tcp --address 192.0.2.7 --listen 127.0.0.1:0"), 1);
  EXPECT_THAT(found("transport tcp").at("remedy"), HasSubstr("192.0.2.7"));
}

TEST_F(DoctorBehaviour, NodesThatDoNotStartAreAProblem) {
  EXPECT_EQ(doctor("--transport shm", fmt::format("TMPDIR={}/not-there", folder_)), 1) << text_;
  EXPECT_EQ(health("shm ping-pong"), "problem");
  EXPECT_THAT(found("shm ping-pong").at("seen"), HasSubstr("failed: filesystem error"));
  EXPECT_THAT(found("shm ping-pong").at("remedy"), HasSubstr("atoll bench fabric"));
}

/// The processes of this group that were started with these words.
std::vector<pid_t> processes_of(pid_t group, const std::string& words) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 0 || ::getpgid(pid) != group) continue;
    std::ifstream file(entry.path() / "cmdline");
    std::string line(std::istreambuf_iterator<char>(file), {});
    std::replace(line.begin(), line.end(), '\0', ' ');
    if (line.find(words) != std::string::npos) found.push_back(pid);
  }
  return found;
}

TEST_F(DoctorBehaviour, NodesThatHangAreGivenUpAndEnded) {
  Command command(command_line("--transport shm --patience 3", ""));
  std::vector<pid_t> nodes;
  const auto end = atoll::test::Clock::now() + atoll::test::kHang;
  while (nodes.size() < 2 && atoll::test::Clock::now() < end)
    nodes = processes_of(command.pid(), "bench-node channels");
  ASSERT_EQ(nodes.size(), 2u) << command.output();
  for (const pid_t node : nodes) ::kill(node, SIGSTOP);
  EXPECT_EQ(command.wait(), 1);
  EXPECT_THAT(command.output(), HasSubstr("two nodes were not done after 3 s"));
  for (const pid_t node : nodes) EXPECT_TRUE(atoll::test::is_gone_soon(node));
}

TEST_F(DoctorBehaviour, AMasterMustAnswerAndHaveTheKey) {
  for (const char* name : {"cluster.key", "other.key"}) {
    ASSERT_EQ(Command(fmt::format("{} key --out {}/{}", ATOLL_COMMAND, folder_, name)).wait(), 0);
  }
  auto master = std::make_unique<Command>(
      fmt::format("{} master --listen 127.0.0.1:0 --nodes 2 --key-file {}/cluster.key", ATOLL_COMMAND, folder_));
  const auto at = master->wait_for("listening at (127\\.0\\.0\\.1:[0-9]+);", 1);
  ASSERT_EQ(at.size(), 1u);
  const std::string with_key = fmt::format("ATOLL_KEY_FILE={}/cluster.key", folder_);
  EXPECT_EQ(doctor("--no-measure --master " + at[0], with_key), 0) << text_;
  EXPECT_EQ(health("master"), "ok");
  EXPECT_EQ(doctor("--no-measure", fmt::format("{} ATOLL_MASTER={}", with_key, at[0])), 0) << text_;
  EXPECT_EQ(health("master"), "ok");
  EXPECT_EQ(doctor("--no-measure --listen " + at[0]), 1);
  EXPECT_EQ(health("port"), "problem");
  EXPECT_EQ(doctor("--no-measure --master " + at[0]), 1);
  EXPECT_THAT(found("master").at("seen"), HasSubstr("there is no cluster key"));
  EXPECT_EQ(doctor("--no-measure --master " + at[0], fmt::format("ATOLL_KEY_FILE={}/other.key", folder_)), 1);
  EXPECT_THAT(found("master").at("remedy"), HasSubstr("key"));
  EXPECT_EQ(master->output().find("dead"), std::string::npos) << master->output();  // looking is not joining
  master.reset();
  EXPECT_EQ(doctor("--no-measure --master " + at[0], with_key), 1);
  EXPECT_THAT(found("master").at("remedy"), HasSubstr("atoll master"));
}

TEST_F(DoctorBehaviour, WrongArgumentsAreRefused) {
  EXPECT_EQ(doctor("--listen nonsense"), 2);
  EXPECT_EQ(doctor("--master 10.0.0.1"), 2);
  EXPECT_EQ(doctor("--no-such-option"), 2);
  EXPECT_EQ(doctor("--transport ''"), 2);
  EXPECT_EQ(doctor("--patience 0"), 2);
  EXPECT_EQ(doctor("more"), 2);
  EXPECT_EQ(Command(fmt::format("{} doctor --no-measure --json /no/such/folder/file", ATOLL_COMMAND)).wait(), 1);
  Command help(fmt::format("{} doctor --help", ATOLL_COMMAND));
  EXPECT_EQ(help.wait(), 0);
  EXPECT_THAT(help.output(), HasSubstr("--no-measure"));
  EXPECT_THAT(help.output(), testing::Not(HasSubstr("--root")));
}

}  // namespace
