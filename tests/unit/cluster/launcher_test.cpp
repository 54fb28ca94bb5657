// The launcher with real processes. Each launch runs in a process of its own, as it does under `atoll run`.
#include "cluster/launcher.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <thread>

#include "base/fd.hpp"
#include "cluster/membership.hpp"
#include "cluster/output.hpp"
#include "memory/segment.hpp"

namespace atoll::cluster {
namespace {

using namespace std::chrono_literals;

struct Outcome {
  int code = -1;
  std::string out, err;
};

std::string contents(const base::Fd& fd) {
  // Not lseek: the process that writes shares the offset.
  struct stat info {};
  EXPECT_EQ(::fstat(fd.get(), &info), 0);
  std::string text(std::size_t(info.st_size), '\0');
  EXPECT_EQ(::pread(fd.get(), text.data(), text.size(), 0), ssize_t(text.size()));
  return text;
}

/// Waits, with a generous bound, until it holds.
bool eventually(const std::function<bool()>& holds) {
  for (const auto end = std::chrono::steady_clock::now() + 60s; std::chrono::steady_clock::now() < end;) {
    if (holds()) return true;
    std::this_thread::sleep_for(10ms);
  }
  return false;
}

/// A launch in a process of its own.
class LaunchProcess {
 public:
  explicit LaunchProcess(const LaunchSpec& spec)
      : out_(::memfd_create("out", MFD_CLOEXEC)), err_(::memfd_create("err", MFD_CLOEXEC)) {
    std::fflush(nullptr);  // or the child inherits, and under some sanitizers writes, what is buffered here
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::dup2(out_.get(), STDOUT_FILENO);
    ::dup2(err_.get(), STDERR_FILENO);
    int code = 99;
    try {
      code = launch(spec);
    } catch (const std::exception& error) {
      (void)write_all(STDERR_FILENO, error.what());
    }
    ::_exit(code);
  }
  ~LaunchProcess() {
    if (pid_ > 0) (void)wait(SIGKILL);
  }
  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] std::string out() const { return contents(out_); }
  [[nodiscard]] std::string err() const { return contents(err_); }
  Outcome wait(int signal = 0) {
    if (signal != 0) ::kill(pid_, signal);
    int status = 0;
    EXPECT_EQ(::waitpid(pid_, &status, 0), pid_);
    pid_ = 0;
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status), out(), err()};
  }

 private:
  base::Fd out_, err_;
  pid_t pid_ = 0;
};

LaunchSpec shell(NodeId nodes, const std::string& script) {
  LaunchSpec spec;
  spec.nodes = nodes;
  spec.argv = {"/bin/sh", "-c", script};
  spec.grace = 100ms;
  return spec;
}

Outcome run(const LaunchSpec& spec) {
  return LaunchProcess(spec).wait();
}

std::vector<std::string> sorted_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  std::sort(lines.begin(), lines.end());
  return lines;
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(Launcher, prefixes_the_lines_of_all_nodes) {
  const Outcome outcome = run(shell(2, "echo one; echo two >&2; printf partial"));
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(sorted_lines(outcome.out), (std::vector<std::string>{"[0] one", "[0] partial", "[1] one", "[1] partial"}));
  EXPECT_EQ(sorted_lines(outcome.err), (std::vector<std::string>{"[0] two", "[1] two"}));
  EXPECT_TRUE(outcome.out.ends_with('\n'));
}

TEST(Launcher, aligns_ids_of_two_digits) {
  const Outcome outcome = run(shell(11, "echo x"));
  EXPECT_TRUE(contains(outcome.out, "[ 3] x\n"));
  EXPECT_TRUE(contains(outcome.out, "[10] x\n"));
}

TEST(Launcher, without_prefixes_the_nodes_write_themselves) {
  LaunchSpec spec = shell(2, "printf abc");
  spec.prefix_output = false;
  EXPECT_EQ(run(spec).out, "abcabc");
}

TEST(Launcher, passes_much_output_unharmed) {
  const Outcome outcome = run(shell(2, "seq 1 50000"));
  int seen[2] = {0, 0};
  std::istringstream stream(outcome.out);
  for (std::string line; std::getline(stream, line);) {
    const int node = line.starts_with("[1] ") ? 1 : 0;
    ++seen[node];
    ASSERT_EQ(line, "[" + std::to_string(node) + "] " + std::to_string(seen[node]));
  }
  EXPECT_EQ(seen[0], 50000);
  EXPECT_EQ(seen[1], 50000);
}

TEST(Launcher, does_not_wait_for_what_a_node_leaves_behind) {
  const Outcome outcome = run(shell(1, "sleep 120 & echo $!"));
  EXPECT_EQ(outcome.code, 0);
  ASSERT_TRUE(outcome.out.starts_with("[0] "));
  ::kill(std::stoi(outcome.out.substr(4)), SIGKILL);
}

TEST(Launcher, sets_the_environment) {
  LaunchSpec spec = shell(2,
                          "echo $ATOLL_NODE/$ATOLL_NODES $ATOLL_MEMORY $ATOLL_CACHE $ATOLL_LINE $ATOLL_CONSISTENCY "
                          "$EXTRA; case $ATOLL_MASTER in atoll-*) ;; *) exit 9;; esac");
  spec.options.memory_bytes = 1 << 20;
  spec.options.cache_bytes = 2 << 20;
  spec.options.line_bytes = 256;
  spec.options.consistency = Consistency::kTso;
  spec.environment["EXTRA"] = "a b";
  const Outcome outcome = run(spec);
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(sorted_lines(outcome.out),
            (std::vector<std::string>{"[0] 0/2 1048576 2097152 256 tso a b", "[1] 1/2 1048576 2097152 256 tso a b"}));
}

TEST(Launcher, returns_the_first_code_that_is_not_zero) {
  const Outcome outcome = run(shell(3, "if [ $ATOLL_NODE = 1 ]; then exit 7; fi; exec sleep 120"));
  EXPECT_EQ(outcome.code, 7);
  EXPECT_TRUE(contains(outcome.err, "atoll: node 1 exited with code 7; ending the others in 0.1 s\n")) << outcome.err;
}

TEST(Launcher, a_killed_node_ends_the_others) {
  const Outcome outcome = run(shell(3, "if [ $ATOLL_NODE = 2 ]; then kill -9 $$; fi; exec sleep 120"));
  EXPECT_EQ(outcome.code, 128 + 9);
  EXPECT_TRUE(contains(outcome.err, "atoll: node 2 was killed by signal 9 (SIGKILL); ending the others"))
      << outcome.err;
  EXPECT_FALSE(contains(outcome.err, "SIGTERM")) << outcome.err;
}

TEST(Launcher, who_ignores_sigterm_is_killed) {
  const Outcome outcome =
      run(shell(2, "if [ $ATOLL_NODE = 1 ]; then exit 1; fi; trap '' TERM; while :; do sleep 1; done"));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(contains(outcome.err, "did not end within 2.0 s of SIGTERM")) << outcome.err;
}

TEST(Launcher, keeps_going_when_told) {
  LaunchSpec spec = shell(2, "if [ $ATOLL_NODE = 1 ]; then exit 4; fi; sleep 1; echo done");
  spec.keep_going = true;
  const Outcome outcome = run(spec);
  EXPECT_EQ(outcome.code, 4);
  EXPECT_TRUE(contains(outcome.out, "[0] done"));
  EXPECT_TRUE(contains(outcome.err, "the others go on"));
}

TEST(Launcher, passes_signals_on) {
  LaunchProcess process(shell(2, "trap 'echo got; exit 5' TERM; echo ready; while :; do sleep 0.05; done"));
  ASSERT_TRUE(eventually([&] { return sorted_lines(process.out()).size() == 2; }));
  const Outcome outcome = process.wait(SIGTERM);
  EXPECT_EQ(outcome.code, 5);
  EXPECT_TRUE(contains(outcome.out, "[0] got"));
  EXPECT_TRUE(contains(outcome.out, "[1] got"));
}

TEST(Launcher, who_does_not_stop_in_time_is_killed_if_that_is_wanted) {
  LaunchSpec spec = shell(2, "trap 'echo got' TERM; echo ready; while :; do sleep 0.05; done");
  spec.stop_within = 300ms;
  LaunchProcess process(spec);
  ASSERT_TRUE(eventually([&] { return sorted_lines(process.out()).size() == 2; }));
  const Outcome outcome = process.wait(SIGTERM);
  EXPECT_EQ(outcome.code, 128 + 9);
  EXPECT_TRUE(contains(outcome.out, "[0] got"));
  EXPECT_TRUE(contains(outcome.err, "2 of the nodes did not end within 0.3 s of SIGTERM; killing them")) << outcome.err;
}

TEST(Launcher, the_second_interrupt_kills) {
  LaunchProcess process(shell(2, "trap 'echo got' INT; echo ready; while :; do sleep 0.05; done"));
  ASSERT_TRUE(eventually([&] { return sorted_lines(process.out()).size() == 2; }));
  ::kill(process.pid(), SIGINT);
  ASSERT_TRUE(eventually([&] { return sorted_lines(process.out()).size() == 4; }));
  const Outcome outcome = process.wait(SIGINT);
  EXPECT_EQ(outcome.code, 128 + 9);
}

TEST(Launcher, a_program_that_cannot_be_executed) {
  LaunchSpec spec = shell(4, "");
  spec.argv = {"no-such-program-anywhere"};
  Outcome outcome = run(spec);
  EXPECT_EQ(outcome.code, 127);
  EXPECT_TRUE(contains(outcome.err, "there is no program \"no-such-program-anywhere\" in PATH"));
  EXPECT_EQ(sorted_lines(outcome.err).size(), 1u);
  spec.argv = {"/etc/passwd"};
  outcome = run(spec);
  EXPECT_EQ(outcome.code, 126);
  EXPECT_EQ(sorted_lines(outcome.err).size(), 1u);
}

TEST(Launcher, refuses_what_makes_no_sense) {
  EXPECT_THROW((void)launch(shell(0, "true")), Error);
  EXPECT_THROW((void)launch(shell(1025, "true")), Error);
  EXPECT_THROW((void)launch(LaunchSpec{}), Error);
}

TEST(Launcher, only_node_0_reads_stdin) {
  base::Fd input(::memfd_create("in", MFD_CLOEXEC));
  ASSERT_EQ(::write(input.get(), "hello\n", 6), 6);
  ::lseek(input.get(), 0, SEEK_SET);
  const base::Fd saved(::dup(STDIN_FILENO));
  ::dup2(input.get(), STDIN_FILENO);
  const Outcome outcome = run(shell(2, "read x; echo \"<$x>\""));
  ::dup2(saved.get(), STDIN_FILENO);
  EXPECT_EQ(sorted_lines(outcome.out), (std::vector<std::string>{"[0] <hello>", "[1] <>"}));
}

TEST(Launcher, gives_the_nodes_no_descriptors_beyond_the_standard_ones) {
  // What the test's own parent left open is inherited on both ways.
  std::vector<std::string> expected;
  FILE* plain = ::popen("exec ls /proc/self/fd", "r");
  ASSERT_NE(plain, nullptr);
  for (char line[64]; std::fgets(line, sizeof(line), plain) != nullptr;) expected.push_back(line);
  ::pclose(plain);
  LaunchSpec spec = shell(2, "");
  spec.argv = {"ls", "/proc/self/fd"};
  const Outcome outcome = run(spec);
  EXPECT_EQ(sorted_lines(outcome.out).size(), 2 * expected.size()) << outcome.out;
}

/// Whether the process is there and not a zombie that its new parent has not reaped yet.
bool is_running(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  if (!std::getline(file, text)) return false;
  const std::size_t at = text.rfind(") ");
  return at != std::string::npos && text[at + 2] != 'Z' && text[at + 2] != 'X';
}

TEST(Launcher, kill_9_of_the_launcher_leaves_no_node) {
  LaunchProcess process(shell(3, "trap '' TERM HUP INT; echo $$; exec sleep 120"));
  ASSERT_TRUE(eventually([&] { return sorted_lines(process.out()).size() == 3; }));
  std::vector<pid_t> pids;
  for (const std::string& line : sorted_lines(process.out())) pids.push_back(std::stoi(line.substr(4)));
  for (const pid_t pid : pids) EXPECT_TRUE(is_running(pid));
  EXPECT_EQ(process.wait(SIGKILL).code, 1000 + SIGKILL);
  for (const pid_t pid : pids) EXPECT_TRUE(eventually([&] { return !is_running(pid); })) << pid;
}

// ---- programs that join: this test itself, run again as the node ----

LaunchSpec helper(NodeId nodes, const std::string& what) {
  LaunchSpec spec = shell(nodes, "");
  spec.argv = {"/proc/self/exe", "--gtest_filter=LauncherHelper.DISABLED_node", "--gtest_also_run_disabled_tests",
               "--gtest_brief=1"};
  spec.options.memory_bytes = 1 << 20;
  spec.options.cache_bytes = 64 << 10;
  spec.environment["ATOLL_TEST_HELPER"] = what;
  spec.grace = 10s;  // the others end by themselves, as soon as a busy machine lets them
  return spec;
}

/// The program of a node; ATOLL_TEST_HELPER says what node 1 does.
TEST(LauncherHelper, DISABLED_node) {
  const char* given = std::getenv("ATOLL_TEST_HELPER");
  if (given == nullptr) GTEST_SKIP() << "only makes sense under the launcher";
  const std::string what = given;
  try {
    const Options options = Options::from_environment();
    auto membership = Membership::connect(options);
    const bool odd = membership->id() == 1;
    if (odd && what == "exit-before-exchange") ::_exit(3);
    const auto segment = memory::Segment::create(options, membership->count());
    Events events;
    events.on_death = [](NodeId node, const std::string& why) {
      (void)write_all(STDOUT_FILENO, "death of " + std::to_string(node) + ": " + why + "\n");
    };
    events.on_return = [](const Peer& peer, std::uint32_t /*epoch*/) {
      (void)write_all(STDOUT_FILENO, "return of " + std::to_string(peer.id) + "\n");
    };
    events.on_given_up = [](NodeId node, const std::string& why) {
      (void)write_all(STDOUT_FILENO, "no return of " + std::to_string(node) + ": " + why + "\n");
    };
    (void)membership->exchange({segment.fd(), {}}, std::move(events));
    const bool first = !membership->is_return();
    if (!first)
      (void)write_all(STDOUT_FILENO, std::string("again, ATOLL_RECOVER=") + std::getenv("ATOLL_RECOVER") + "\n");
    if (odd && first && what == "killed-once") ::raise(SIGKILL);
    if (odd && first && what == "stopped-once") ::raise(SIGSTOP);
    if (first && what == "all-killed-once") ::raise(SIGKILL);
    if (odd && what == "exit-without-leaving") ::_exit(0);
    if (odd && what == "killed") ::raise(SIGKILL);
    if (what == "waits") {
      (void)write_all(STDOUT_FILENO, "waits\n");
      while (true) ::pause();
    }
    membership->leave();
  } catch (const Error& error) {
    (void)write_all(STDERR_FILENO, std::string(error.what()) + "\n");
    ::_exit(1);
  }
  ::_exit(0);
}

TEST(LauncherNodes, that_join_and_leave_end_well) {
  const Outcome outcome = run(helper(3, "well"));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
}

TEST(LauncherNodes, that_exit_without_leaving_are_dead) {
  const Outcome outcome = run(helper(2, "exit-without-leaving"));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(contains(outcome.err, "atoll: node 1 exited with code 0 without leaving")) << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "[0] death of 1: exited with code 0 without leaving")) << outcome.out;
}

TEST(LauncherNodes, that_are_killed_are_dead_with_the_reason) {
  const Outcome outcome = run(helper(3, "killed"));
  EXPECT_EQ(outcome.code, 128 + 9);
  EXPECT_TRUE(contains(outcome.out, "[0] death of 1: killed by signal 9 (SIGKILL)")) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "[2] death of 1: killed by signal 9 (SIGKILL)")) << outcome.out;
}

TEST(LauncherNodes, that_exit_early_fail_the_joins_of_the_others) {
  const Outcome outcome = run(helper(2, "exit-before-exchange"));
  EXPECT_EQ(outcome.code, 3);
  EXPECT_TRUE(contains(outcome.err, "node 1 ended before all nodes had joined: exited with code 3")) << outcome.err;
}

// ---- nodes that are started again ----

/// A folder that is gone when this object is.
struct Folder {
  Folder() : path((std::filesystem::temp_directory_path() / "atoll-launcher-XXXXXX").string()) {
    EXPECT_NE(::mkdtemp(path.data()), nullptr);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] LogSpec logs(bool recover = false) const { return {"process", path + "/logs", 0, recover}; }
  std::string path;
};

LaunchSpec restarting(const Folder& folder, NodeId nodes, const std::string& what, unsigned restarts) {
  LaunchSpec spec = helper(nodes, what);
  spec.log = folder.logs();
  spec.restarts = restarts;
  return spec;
}

TEST(LauncherRestarts, a_node_that_was_killed) {
  const Folder folder;
  const Outcome outcome = run(restarting(folder, 3, "killed-once", 5));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "atoll: node 1 was killed by signal 9 (SIGKILL); starting it again (1 of 5)\n");
  for (const char* line :
       {"[0] death of 1: killed by signal 9 (SIGKILL)", "[2] death of 1: killed by signal 9 (SIGKILL)",
        "[0] return of 1", "[2] return of 1", "[1] again, ATOLL_RECOVER=on"}) {
    EXPECT_TRUE(contains(outcome.out, line)) << line << "\n" << outcome.out;
  }
}

TEST(LauncherRestarts, all_nodes_when_all_were_killed) {
  const Folder folder;
  const Outcome outcome = run(restarting(folder, 3, "all-killed-once", 1));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const char* node : {"0", "1", "2"}) {
    EXPECT_TRUE(contains(outcome.out, "[" + std::string(node) + "] again")) << outcome.out;
    EXPECT_TRUE(contains(outcome.err, "node " + std::string(node) +
                                          " was killed by signal 9 (SIGKILL); starting it "
                                          "again (1 of 1)\n"))
        << outcome.err;
  }
}

TEST(LauncherRestarts, a_node_only_so_often) {
  const Folder folder;
  const Outcome outcome = run(restarting(folder, 2, "killed", 2));
  EXPECT_EQ(outcome.code, 128 + 9);
  EXPECT_TRUE(contains(outcome.err, "starting it again (1 of 2)")) << outcome.err;
  EXPECT_TRUE(contains(outcome.err, "starting it again (2 of 2)")) << outcome.err;
  EXPECT_TRUE(contains(outcome.err, "atoll: node 1 was killed by signal 9 (SIGKILL); ending the others"))
      << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "[0] no return of 1: killed by signal 9 (SIGKILL)")) << outcome.out;
}

TEST(LauncherRestarts, a_node_that_was_declared_out_when_what_is_left_of_it_is_killed) {
  const Folder folder;
  LaunchSpec spec = restarting(folder, 2, "stopped-once", 1);
  spec.lease = 1000ms;
  const Outcome outcome = run(spec);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(contains(
      outcome.err, "atoll: node 1 was declared out: nothing was heard of it for 1.0 s; starting it again (1 of 1)\n"))
      << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "[0] return of 1")) << outcome.out;
}

TEST(LauncherRestarts, no_node_that_ended_by_itself) {
  const Folder folder;
  const Outcome outcome = run(restarting(folder, 2, "exit-without-leaving", 5));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_FALSE(contains(outcome.err, "again")) << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "[0] no return of 1: exited with code 0 without leaving")) << outcome.out;
}

TEST(LauncherRestarts, no_node_that_the_user_ends) {
  const Folder folder;
  LaunchProcess process(restarting(folder, 2, "waits", 5));
  ASSERT_TRUE(eventually([&] { return sorted_lines(process.out()).size() == 2; }));
  const Outcome outcome = process.wait(SIGTERM);
  EXPECT_EQ(outcome.code, 128 + SIGTERM);
  EXPECT_FALSE(contains(outcome.err, "again")) << outcome.err;
}

TEST(LauncherRestarts, need_a_log) {
  LaunchSpec spec = shell(2, "true");
  spec.restarts = 1;
  EXPECT_THROW((void)launch(spec), Error);
}

// ---- the folder of the logs ----

TEST(LauncherLogs, are_in_a_folder_for_each_node) {
  const Folder folder;
  LaunchSpec spec =
      shell(2,
            "echo x > $ATOLL_LOG_DIR/log.1; test -d $ATOLL_LOG_DIR && echo $ATOLL_LOG_MODE $ATOLL_LOG_DIR "
            "$ATOLL_LOG_SIZE $ATOLL_RECOVER");
  spec.log = folder.logs();
  spec.log->bytes = 4096;
  EXPECT_EQ(sorted_lines(run(spec).out),
            (std::vector<std::string>{"[0] process " + folder.path + "/logs/node-0 4096 off",
                                      "[1] process " + folder.path + "/logs/node-1 4096 off"}));
  spec.log = folder.logs(true);
  spec.log->mode = "power";
  EXPECT_EQ(sorted_lines(run(spec).out), (std::vector<std::string>{"[0] power " + folder.path + "/logs/node-0 on",
                                                                   "[1] power " + folder.path + "/logs/node-1 on"}));
  spec.log.reset();
  spec.argv[2] = "echo $ATOLL_LOG_MODE";
  EXPECT_EQ(sorted_lines(run(spec).out), (std::vector<std::string>{"[0] off", "[1] off"}));
}

TEST(LauncherLogs, are_neither_mixed_nor_read_by_another_cluster) {
  const Folder folder;
  const ClusterShape shape{2, 512, 1 << 20};
  const auto refusal = [&](bool recover, const ClusterShape& other) -> std::string {
    try {
      const LogFolder logs(folder.logs(recover), other);
    } catch (const Error& error) {
      return error.what();
    }
    return "taken";
  };
  EXPECT_TRUE(contains(refusal(true, shape), "there are no logs of a cluster in " + folder.path + "/logs"));
  { const LogFolder empty(folder.logs(), shape); }
  EXPECT_TRUE(contains(refusal(true, shape), "there are no logs of a cluster"));
  {
    const LogFolder logs(folder.logs(), shape);  // nothing was written, and nothing is lost
    for (const NodeId k : {NodeId(0), NodeId(1)}) std::ofstream(logs.of_node(k) + "/lock") << "x";
    EXPECT_TRUE(contains(refusal(true, shape), "there are no logs of a cluster"));  // a start that failed
  }
  {
    const LogFolder logs(folder.logs(), shape);  // is no reason to refuse the next
    for (const NodeId k : {NodeId(0), NodeId(1)}) std::ofstream(logs.of_node(k) + "/log.1") << "x";
    EXPECT_TRUE(contains(refusal(true, shape), "another cluster runs with the logs in"));
  }
  EXPECT_TRUE(contains(refusal(false, shape), "has the logs of a cluster already: go on from them with --recover"));
  EXPECT_EQ(refusal(true, shape), "taken");
  EXPECT_TRUE(contains(refusal(true, {3, 512, 1 << 20}), "with 2 nodes, this one has 3: give -n 2"));
  EXPECT_TRUE(
      contains(refusal(true, {2, 256, 1 << 20}), "lines of 512 bytes, this one has lines of 256: give --line 512"));
  EXPECT_TRUE(
      contains(refusal(true, {2, 512, 2 << 20}), "1 MiB of memory on each node, this one has 2 MiB: give --memory 1M"));
  std::filesystem::remove_all(folder.path + "/logs/node-1");
  EXPECT_TRUE(contains(refusal(true, shape), "the log of node 1 is not in"));
  std::filesystem::rename(folder.path + "/logs/cluster.json", folder.path + "/cluster.json");
  EXPECT_TRUE(contains(refusal(true, shape), "/logs/cluster.json is missing, which says of what cluster the logs in"));
  std::ofstream(folder.path + "/logs/cluster.json") << "[";
  EXPECT_TRUE(contains(refusal(true, shape), "does not say what the cluster was"));
}

// ---- LineWriter ----

TEST(LineWriter, cuts_lines_that_never_end) {
  base::Fd file(::memfd_create("lines", MFD_CLOEXEC));
  LineWriter writer("> ", file.get());
  writer.feed(std::string(LineWriter::kMaxLineBytes + 5, 'x'));
  writer.feed("y\n\nz");
  writer.finish();
  EXPECT_EQ(contents(file), "> " + std::string(LineWriter::kMaxLineBytes, 'x') + "\n> xxxxxy\n> \n> z\n");
}

}  // namespace
}  // namespace atoll::cluster
