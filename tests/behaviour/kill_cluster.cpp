#include "behaviour/kill_cluster.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <fstream>
#include <sstream>
#include <thread>

#include "support/process.hpp"

namespace atoll::test {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

KillCluster::KillCluster(const KillSettings& settings)
    : settings_(settings), board_(Board::open(settings.directory)), killed_(settings.nodes) {}

KillCluster::~KillCluster() {
  if (launcher_ > 0) end_launcher(SIGKILL);
}

void KillCluster::start(bool recover) {
  std::string line = fmt::format("exec {} run -n {} --memory {} --cache {} --transport {}", settings_.atoll,
                                 settings_.nodes, settings_.memory, settings_.cache, settings_.transport);
  if (settings_.log != "off") {
    line += fmt::format(" --log {} --log-dir {} --log-size {} --restart 100000", settings_.log, settings_.log_directory,
                        settings_.log_bytes);
    if (recover) line += " --recover";
  }
  line += fmt::format(" -- {} {} --load {} --threads {} --seed {}", settings_.program, settings_.directory,
                      settings_.load, settings_.threads, settings_.seed);
  const std::string output = settings_.directory + "/output";
  const pid_t parent = ::getpid();
  launcher_ = ::fork();
  if (launcher_ < 0) throw Error("cannot fork");
  if (launcher_ == 0) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int file = ::open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::dup2(file, STDOUT_FILENO);
    ::dup2(file, STDERR_FILENO);
    ::setenv("ATOLL_RECOVERY_WAIT_MS", std::to_string(settings_.recovery_wait.count()).c_str(), 1);
    if (::getppid() == parent) ::execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
    ::_exit(99);
  }
  (void)await_serving();
}

bool KillCluster::is_serving(unsigned node) const {
  const Cell& cell = board_.cells[node];
  const std::uint32_t serving = cell.serving.load();
  return serving != 0 && serving == cell.pid.load() && serving != killed_[node];
}

bool KillCluster::kill_node(unsigned node) {
  const std::uint32_t pid = board_.cells[node].pid.load();
  if (pid == 0 || pid == killed_[node]) return false;
  if (::kill(pid_t(pid), SIGKILL) != 0) return false;
  killed_[node] = pid;
  return true;
}

void KillCluster::kill_all() {
  end_launcher(SIGKILL);
  for (unsigned node = 0; node < settings_.nodes; ++node) {
    const std::uint32_t pid = board_.cells[node].pid.load();
    await("the nodes end with their launcher", [&] { return is_gone(pid_t(pid)); });
    killed_[node] = board_.cells[node].pid.load();
  }
}

void KillCluster::end_launcher(int signal) {
  ::kill(launcher_, signal);
  ::waitpid(launcher_, nullptr, 0);
  launcher_ = -1;
}

void KillCluster::check_launcher() {
  if (launcher_ <= 0) return;
  int status = 0;
  if (::waitpid(launcher_, &status, WNOHANG) != launcher_) return;
  launcher_ = -1;
  throw Error(fmt::format("the launcher has ended, {}", WIFEXITED(status)
                                                            ? fmt::format("with code {}", WEXITSTATUS(status))
                                                            : fmt::format("by signal {}", WTERMSIG(status))));
}

template <typename Done>
void KillCluster::await(const char* what, Done done) {
  const auto end = Clock::now() + settings_.patience;
  while (!done()) {
    check_launcher();
    if (Clock::now() > end) throw Error(fmt::format("it takes too long until {}", what));
    std::this_thread::sleep_for(1ms);
  }
}

std::chrono::milliseconds KillCluster::await_serving() {
  const auto begun = Clock::now();
  for (unsigned node = 0; node < settings_.nodes; ++node) {
    await(fmt::format("node {} serves", node).c_str(), [&] { return is_serving(node); });
  }
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begun);
}

void KillCluster::rest_and_dump() {
  const std::uint64_t phase = board_.phase.fetch_add(1) + 1;
  for (unsigned node = 0; node < settings_.nodes; ++node) {
    for (unsigned thread = 0; thread < settings_.threads; ++thread) {
      await(fmt::format("worker {} of node {} rests", thread, node).c_str(), [&] {
        if (errors() > 0) throw Error("a call has failed");
        return board_.cells[node].quiet[thread].load() == phase;
      });
    }
  }
  const std::uint64_t wanted = board_.show.fetch_add(1) + 1;
  for (unsigned node = 0; node < settings_.nodes; ++node) {
    await(fmt::format("node {} has read everything", node).c_str(),
          [&] { return board_.cells[node].shown.load() == wanted; });
  }
}

void KillCluster::finish() {
  board_.phase.store(Board::kEnd);
  try {
    await("the cluster ends", [] { return false; });
  } catch (const Error&) {
    if (launcher_ > 0) throw;  // else it has ended, as it should
  }
}

unsigned KillCluster::errors() const {
  unsigned sum = 0;
  for (const Cell& cell : board_.cells) sum += cell.errors.load();
  return sum;
}

void KillCluster::forgive() {
  for (unsigned node = 0; node < settings_.nodes; ++node) {
    board_.cells[node].errors.store(0);
    (void)::unlink(errors_path(settings_.directory, node).c_str());
  }
}

std::string KillCluster::said() const {
  constexpr std::size_t kMost = 8000;
  std::ifstream file(settings_.directory + "/output");
  std::stringstream all;
  all << file.rdbuf();
  const std::string text = all.str();
  return text.size() > kMost ? "...\n" + text.substr(text.size() - kMost) : text;
}

}  // namespace atoll::test
