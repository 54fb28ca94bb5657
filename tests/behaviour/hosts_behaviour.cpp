// `atoll run --hosts`, as a user calls it. Each test runs in two ways: with a script that pretends to be ssh, and
// through a real sshd that listens on this host.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "support/command.hpp"

namespace {

using namespace std::chrono_literals;
using atoll::test::Command;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// A port of the loopback that nobody listens at now.
int free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  const bool bound = ::bind(socket, generic, bytes) == 0 && ::getsockname(socket, generic, &bytes) == 0;
  ::close(socket);
  return bound ? ntohs(address.sin_port) : 0;
}

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A directory that is gone at the end.
class Scratch {
 public:
  Scratch() : path_(testing::TempDir() + "atoll-hosts-XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) std::abort();
  }
  ~Scratch() { std::filesystem::remove_all(path_); }
  Scratch(const Scratch&) = delete;
  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

enum class Way { kPretended, kSshd };

class OtherHosts : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    std::ofstream(scratch_.file("hosts")) << "# both are this host\n"
                                             "127.0.0.1 slots=2 env WHO=first\n"
                                             "localhost env WHO=second\n";
    ssh_ = ATOLL_PRETEND_SSH;
    if (GetParam() == Way::kSshd) start_sshd();
  }

  void start_sshd() {
    sshd_ = std::make_unique<Command>(fmt::format("{} {} {}", ATOLL_OWN_SSHD, scratch_.path(), free_port()));
    const auto end = std::chrono::steady_clock::now() + 20s;
    while (sshd_->output().find("Server listening") == std::string::npos) {
      if (sshd_->output().find("there is no sshd") != std::string::npos) GTEST_SKIP() << sshd_->output();
      if (std::chrono::steady_clock::now() > end) GTEST_SKIP() << "sshd does not start here: " << sshd_->output();
      std::this_thread::sleep_for(20ms);
    }
    ssh_ = read_text(scratch_.file("ssh"));
    ssh_.pop_back();  // the end of the line
    // Whether this user may log in at all is the system's affair, not ours.
    if (Command(ssh_ + " 127.0.0.1 true").wait() != 0) GTEST_SKIP() << "no login through sshd: " << sshd_->output();
  }

  [[nodiscard]] std::string run(const std::string& options, const std::string& program) const {
    return fmt::format("{} run --hosts {} --ssh '{}' --memory 2M --cache 256K {} -- {}", ATOLL_COMMAND,
                       scratch_.file("hosts"), ssh_, options, program);
  }
  [[nodiscard]] std::string scenario(const std::string& options, const std::string& what) const {
    return run(options, fmt::format("{} {}", ATOLL_SCENARIO, what));
  }

  Scratch scratch_;
  std::string ssh_;
  std::unique_ptr<Command> sshd_;
};

INSTANTIATE_TEST_SUITE_P(HostsBehaviour, OtherHosts, testing::Values(Way::kPretended, Way::kSshd),
                         [](const auto& each) {
                           return std::string(each.param == Way::kPretended ? "pretended" : "sshd");
                         });

TEST_P(OtherHosts, NodesJoinAndWork) {
  Command cluster(scenario("", "work"));
  EXPECT_EQ(cluster.wait(), 0) << cluster.output();
  Command two(scenario("-n 2", "work"));
  EXPECT_EQ(two.wait(), 0) << two.output();
}

TEST_P(OtherHosts, ProgramsFindTheirDirectoryArgumentsAndVariables) {
  Command cluster(run("", R"(sh -c 'echo "$WHO $ATOLL_NODE/$ATOLL_NODES in $PWD: $1"; read line || echo no input' )"
                          R"(sh "two  words, \$HOME and 'quotes'")"));
  EXPECT_EQ(cluster.wait(), 0) << cluster.output();
  const std::string rest =
      fmt::format("in {}: two  words, $HOME and 'quotes'\n", std::filesystem::current_path().string());
  EXPECT_THAT(cluster.output(), AllOf(HasSubstr("[0] first 0/3 " + rest), HasSubstr("[1] first 1/3 " + rest),
                                      HasSubstr("[2] second 2/3 " + rest), HasSubstr("[2] no input")));
}

TEST_P(OtherHosts, ExitCodesComeBack) {
  Command seven(scenario("--grace 0.1", "code 7"));
  EXPECT_EQ(seven.wait(), 7);
  EXPECT_THAT(seven.output(), HasSubstr("node 1 exited with code 7 on 127.0.0.1"));
  Command killed(scenario("--grace 0.1", "killed barrier"));
  EXPECT_EQ(killed.wait(), 128 + SIGKILL) << killed.output();
  EXPECT_THAT(killed.output(), HasSubstr("node 1 was killed by signal 9 (SIGKILL) on 127.0.0.1"));
  Command missing(run("--grace 0.1", "/no/such/program"));
  EXPECT_EQ(missing.wait(), 127);
  EXPECT_THAT(missing.output(), HasSubstr("there is no program \"/no/such/program\""));
}

TEST_P(OtherHosts, AnInterruptReachesThem) {
  Command cluster(run("", "sh -c 'trap \"echo interrupted; exit 5\" INT; echo up; while :; do sleep 0.05; done'"));
  ASSERT_EQ(cluster.wait_for("(up)", 3).size(), 3u);
  ASSERT_EQ(::kill(cluster.pid(), SIGINT), 0);
  EXPECT_EQ(cluster.wait(), 5);
  for (int k = 0; k < 3; ++k) EXPECT_THAT(cluster.output(), HasSubstr(fmt::format("[{}] interrupted", k)));
}

TEST_P(OtherHosts, NothingIsLeftWhenTheLauncherIsKilled) {
  Command cluster(scenario("", "sleep"));
  const auto pids = cluster.wait_for("pid ([0-9]+)", 3);
  ASSERT_EQ(pids.size(), 3u);
  ASSERT_EQ(::kill(cluster.pid(), SIGKILL), 0);
  EXPECT_EQ(cluster.wait(), 128 + SIGKILL);
  for (const std::string& pid : pids) EXPECT_TRUE(atoll::test::is_gone_soon(std::stoi(pid))) << pid;
}

TEST_P(OtherHosts, TheKeyShowsOnNoCommandLine) {
  const std::string key_file = scratch_.file("key");
  ASSERT_EQ(Command(fmt::format("{} key --out {}", ATOLL_COMMAND, key_file)).wait(), 0);
  const std::string key = read_text(key_file).substr(0, 64);
  Command cluster(scenario("--key-file " + key_file, "sleep"));
  ASSERT_EQ(cluster.wait_for("pid ([0-9]+)", 3).size(), 3u) << cluster.output();
  int looked_at = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string command = read_text(entry.path() / "cmdline");
    looked_at += command.find("agent") != std::string::npos ? 1 : 0;
    EXPECT_EQ(command.find(key), std::string::npos) << command;
  }
  EXPECT_GE(looked_at, 3);  // the agents, and the ssh that started each
  EXPECT_THAT(cluster.output(), Not(HasSubstr(key)));
}

TEST_P(OtherHosts, TheMasterListensWhereItIsTold) {
  const std::string show = "sh -c 'echo \"at $ATOLL_MASTER, ${#ATOLL_KEY} digits\"'";
  Command chosen(run("-n 1", show));
  EXPECT_EQ(chosen.wait(), 0);
  EXPECT_THAT(chosen.output(), testing::ContainsRegex("at 127\\.0\\.0\\.1:[0-9]+, 64 digits"));
  // Everywhere: then each host is told the address that leads from it to here.
  const int port = free_port();
  Command everywhere(run(fmt::format("-n 1 --listen 0.0.0.0:{}", port), show));
  EXPECT_EQ(everywhere.wait(), 0);
  EXPECT_THAT(everywhere.output(), HasSubstr(fmt::format("at 127.0.0.1:{}, 64 digits", port)));
}

TEST_P(OtherHosts, WhatIsWrongIsSaid) {
  Command elsewhere(run("--grace 0.1 --atoll /no/such/atoll", "true"));
  EXPECT_EQ(elsewhere.wait(), 127);
  EXPECT_THAT(elsewhere.output(), HasSubstr("/no/such/atoll"));
  Command many(run("-n 4", "true"));
  EXPECT_EQ(many.wait(), 1);
  EXPECT_THAT(many.output(), HasSubstr("4 nodes, but the hosts have 3 slots"));
  std::ofstream(scratch_.file("hosts")) << "one\ntwo slots=none\n";
  Command wrong(run("", "true"));
  EXPECT_EQ(wrong.wait(), 1);
  EXPECT_THAT(wrong.output(), HasSubstr("hosts:2: slots=none"));
}

// ---- what needs no sshd ----

class Connections : public testing::Test {
 protected:
  Connections() { std::ofstream(scratch_.file("hosts")) << "far-away\n"; }
  /// A cluster whose "ssh" is this script.
  std::string run_with(const std::string& script) {
    std::ofstream(scratch_.file("ssh")) << "#!/bin/sh\n" << script << "\n";
    std::filesystem::permissions(scratch_.file("ssh"), std::filesystem::perms::owner_all);
    return fmt::format("{} run --hosts {} --listen 127.0.0.1:0 --ssh {} --memory 2M --cache 256K -- true",
                       ATOLL_COMMAND, scratch_.file("hosts"), scratch_.file("ssh"));
  }
  Scratch scratch_;
};

TEST_F(Connections, AHostThatCannotBeReached) {
  Command cluster(run_with("echo no route >&2; exit 255"));
  EXPECT_EQ(cluster.wait(), 255);
  EXPECT_THAT(cluster.output(), AllOf(HasSubstr("[0] no route"), HasSubstr("on far-away"), HasSubstr("ssh")));
}

TEST_F(Connections, AHostWithoutAnAddress) {
  std::ofstream(scratch_.file("hosts")) << "no-such-host.invalid\n";
  Command cluster(fmt::format("{} run --hosts {} --ssh false -- true", ATOLL_COMMAND, scratch_.file("hosts")));
  EXPECT_EQ(cluster.wait(), 1);
  EXPECT_THAT(cluster.output(), AllOf(HasSubstr("no-such-host.invalid"), HasSubstr("give it with --listen")));
}

TEST_F(Connections, OneThatDoesNothingIsEndedByTheSecondInterrupt) {
  Command cluster(run_with("echo up; exec sleep 1000"));
  ASSERT_EQ(cluster.wait_for("(up)", 1).size(), 1u);
  ASSERT_EQ(::kill(cluster.pid(), SIGINT), 0);
  std::this_thread::sleep_for(100ms);
  ASSERT_EQ(::kill(cluster.pid(), SIGINT), 0);
  EXPECT_EQ(cluster.wait(), 128 + SIGKILL) << cluster.output();
}

TEST_F(Connections, TheCommandIsOneWordForTheShell) {
  Command cluster(run_with("printf '<%s>' \"$@\""));
  EXPECT_EQ(cluster.wait(), 0) << cluster.output();
  EXPECT_THAT(cluster.output(), HasSubstr(fmt::format("<far-away><exec '{}' agent>", ATOLL_COMMAND)));
}

TEST(HostsBehaviour, OptionsForHostsNeedHosts) {
  for (const char* option : {"--listen 127.0.0.1:0", "--key-file x", "--ssh x", "--atoll x"}) {
    Command refused(fmt::format("{} run -n 1 {} -- true", ATOLL_COMMAND, option));
    EXPECT_EQ(refused.wait(), 2) << option;
    EXPECT_THAT(refused.output(), HasSubstr("--hosts")) << option;
  }
  Command nothing(fmt::format("{} run -- true", ATOLL_COMMAND));
  EXPECT_EQ(nothing.wait(), 2);
  EXPECT_THAT(nothing.output(), HasSubstr("give -n NODES, or --hosts FILE"));
}

TEST(Agent, TakesNothingFromStrangers) {
  const std::string agent = fmt::format("{} agent", ATOLL_COMMAND);
  Command nothing(agent + " </dev/null");
  EXPECT_EQ(nothing.wait(), 1);
  EXPECT_THAT(nothing.output(), HasSubstr("atoll run --hosts"));
  for (const char* bytes : {"random bytes, many of them", R"(\020\000\000\000{\"op\":\"signal\"})",
                            R"(\002\000\000\000{})", R"(\016\000\000\000{\"op\":\"start\"})"}) {
    Command told(fmt::format("sh -c \"printf '{}' | {}\"", bytes, agent));
    EXPECT_EQ(told.wait(), 1) << bytes;
    EXPECT_THAT(told.output(), HasSubstr("atoll agent: ")) << bytes;
  }
}

}  // namespace
