#include "cluster/agent.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <thread>

#include "base/fd.hpp"
#include "cluster/output.hpp"
#include "cluster/spawn.hpp"

namespace atoll::cluster {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

/// An agent in a thread of this process, and our end of its input.
class AgentUnderTest {
 public:
  AgentUnderTest() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
    theirs_ = base::Fd(ends[0]);
    ours_ = base::Fd(ends[1]);
    thread_ = std::thread([this] { code_ = run_agent(theirs_.get()); });
  }
  ~AgentUnderTest() {
    hang_up();
    if (thread_.joinable()) thread_.join();
    std::filesystem::current_path(directory_);  // an agent changes it, which in its own process hurts nobody
  }
  void tell(const std::string& bytes) { ASSERT_TRUE(write_all(ours_.get(), bytes)); }
  void hang_up() { ours_.reset(); }
  int code() {
    thread_.join();
    return code_;
  }

 private:
  base::Fd theirs_, ours_;
  int code_ = -1;
  const std::filesystem::path directory_ = std::filesystem::current_path();
  std::thread thread_;
};

StartRequest shell(const std::string& script) {
  return {"/", {"sh", "-c", script}, {}};
}

TEST(Agent, ends_as_the_program_does) {
  AgentUnderTest three;
  three.tell(encode_start(shell("exit 3")));
  EXPECT_EQ(three.code(), 3);
  AgentUnderTest killed;
  killed.tell(encode_start(shell("kill -9 $$")));
  EXPECT_EQ(killed.code(), 128 + SIGKILL);
}

TEST(Agent, gives_the_program_its_directory_and_variables) {
  StartRequest request = shell("test \"$PWD\" = /usr && test \"$A\" = 'b  c' && ! read line");
  request.directory = "/usr";
  request.environment["A"] = "b  c";
  AgentUnderTest agent;
  agent.tell(encode_start(request));
  EXPECT_EQ(agent.code(), 0);
}

TEST(Agent, another_key_on_its_host_does_not_count) {
  ::setenv("ATOLL_KEY_FILE", "/of/another/cluster", 1);
  StartRequest request = shell("test \"$ATOLL_KEY\" = ours && test -z \"$ATOLL_KEY_FILE\"");
  request.environment["ATOLL_KEY"] = "ours";
  AgentUnderTest agent;
  agent.tell(encode_start(request));
  EXPECT_EQ(agent.code(), 0);
  ::unsetenv("ATOLL_KEY_FILE");
}

TEST(Agent, requests_that_make_no_sense_start_nothing) {
  const Json sound = {{"op", "start"}, {"directory", "/"}, {"program", {"true"}}, {"environment", Json::object()}};
  EXPECT_EQ(decode_start({sound, {}}).program, std::vector<std::string>{"true"});
  const std::multimap<std::string, Json> changes = {
      {"op", "begin"},       {"directory", 3},       {"program", Json::array()},
      {"program", {"a", 1}}, {"environment", "A=b"}, {"environment", {{"A=", "b"}}}};
  for (const auto& [key, value] : changes) {
    Json changed = sound;
    changed[key] = value;
    EXPECT_THROW((void)decode_start({changed, {}}), Error) << changed.dump();
    if (key == "op") continue;  // no frame is without
    changed.erase(key);
    EXPECT_THROW((void)decode_start({changed, {}}), Error) << changed.dump();
  }
}

TEST(Agent, passes_signals_on) {
  AgentUnderTest agent;
  // In one write, and cut anywhere: a stream has no borders.
  const std::string bytes = encode_start({"/", {"sleep", "1000"}, {}}) + encode_signal(SIGUSR1);
  agent.tell(bytes.substr(0, 7));
  std::this_thread::sleep_for(10ms);
  agent.tell(bytes.substr(7));
  EXPECT_EQ(agent.code(), 128 + SIGUSR1);
}

TEST(Agent, ends_the_program_when_the_input_ends) {
  AgentUnderTest agent;
  agent.tell(encode_start({"/", {"sleep", "1000"}, {}}));
  agent.hang_up();
  EXPECT_EQ(agent.code(), 128 + SIGTERM);
}

TEST(Agent, kills_a_program_that_does_not_end) {
  AgentUnderTest agent;
  agent.tell(encode_start(shell("trap '' TERM; while :; do sleep 0.05; done")));
  std::this_thread::sleep_for(200ms);  // for the trap
  const auto start = std::chrono::steady_clock::now();
  agent.hang_up();
  EXPECT_EQ(agent.code(), 128 + SIGKILL);
  EXPECT_GE(std::chrono::steady_clock::now() - start, kKillDelay);
}

TEST(Agent, nonsense_ends_the_program) {
  for (const std::string& bytes : {encode_signal(65), encode_signal(0), std::string("garbage"), encode_signal(-3)}) {
    AgentUnderTest agent;
    agent.tell(encode_start({"/", {"sleep", "1000"}, {}}));
    agent.tell(bytes);
    EXPECT_EQ(agent.code(), 128 + SIGTERM) << bytes;
  }
}

TEST(Agent, says_what_cannot_be_started) {
  AgentUnderTest missing;
  missing.tell(encode_start({"/", {"/no/such/program"}, {}}));
  EXPECT_EQ(missing.code(), 127);
  AgentUnderTest no_program;
  no_program.tell(encode_start({"/", {"/etc/passwd"}, {}}));
  EXPECT_EQ(no_program.code(), 126);
  AgentUnderTest nowhere;
  nowhere.tell(encode_start({"/no/such/directory", {"true"}, {}}));
  EXPECT_EQ(nowhere.code(), 1);
}

TEST(Agent, what_does_not_fit_or_is_no_text_is_refused_here) {
  EXPECT_THROW((void)encode_start({"/", {"true", std::string(70'000, 'x')}, {}}), Error);
  EXPECT_THROW((void)encode_start({"/", {"true", "\xff\xfe"}, {}}), Error);
}

TEST(Agent, the_command_is_safe_for_a_shell) {
  const Remote remote{{}, {"ssh", "-o", "BatchMode=yes"}, "/opt/it's here/atoll", {}, Key::generate()};
  const std::vector<std::string> expected = {"ssh", "-o", "BatchMode=yes", "node7",
                                             R"(exec '/opt/it'\''s here/atoll' agent)"};
  EXPECT_EQ(agent_command(remote, {"node7", 1, {}}), expected);
}

TEST(Agent, others_get_our_settings_but_not_our_place) {
  for (const char* name : {"ATOLL_LOG_TEST", "FI_TEST", "ATOLL_NODE", "ATOLL_KEY", "OTHER"}) ::setenv(name, "7", 1);
  const auto variables = variables_for_others();
  for (const char* name : {"ATOLL_LOG_TEST", "FI_TEST", "ATOLL_NODE", "ATOLL_KEY", "OTHER"}) ::unsetenv(name);
  EXPECT_EQ(variables.at("ATOLL_LOG_TEST"), "7");
  EXPECT_EQ(variables.at("FI_TEST"), "7");
  for (const char* name : {"ATOLL_NODE", "ATOLL_KEY", "OTHER", "PATH"}) EXPECT_FALSE(variables.contains(name)) << name;
}

TEST(Agent, our_address_is_the_one_that_leads_to_a_host) {
  EXPECT_EQ(address_towards("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(address_towards("user@127.0.0.1"), "127.0.0.1");
  try {
    (void)address_towards("no such host");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("--listen"));
  }
}

}  // namespace
}  // namespace atoll::cluster
