// Commands as a user calls them, for tests that start real clusters.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "atoll/detail/namespace.hpp"
#include "support/process.hpp"

namespace atoll::test {

using Clock = std::chrono::steady_clock;

inline constexpr auto kHang =
    std::chrono::seconds(120);  // nothing here takes a tenth of it; it only tells a hang from slowness

/// A shell command in a process group of its own, with stdout and stderr in one stream.
class Command {
 public:
  explicit Command(const std::string& line) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::setpgid(0, 0);
      ::dup2(ends[1], STDOUT_FILENO);
      ::dup2(ends[1], STDERR_FILENO);
      const std::string exec = "exec " + line;
      ::execl("/bin/sh", "sh", "-c", exec.c_str(), nullptr);
      ::_exit(99);
    }
    ::close(ends[1]);
    out_ = ends[0];
    ::fcntl(out_, F_SETFL, O_NONBLOCK);
  }
  ~Command() {
    if (pid_ > 0) {
      ::kill(-pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    ::close(out_);
  }
  Command(const Command&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] const std::string& output() {
    char buffer[4096];
    for (ssize_t got; (got = ::read(out_, buffer, sizeof(buffer))) > 0;) output_.append(buffer, std::size_t(got));
    return output_;
  }
  /// Waits until the output has `number` matches of the pattern.
  std::vector<std::string> wait_for(const std::string& pattern, std::size_t number) {
    const std::regex regex(pattern);
    for (const auto end = Clock::now() + kHang; Clock::now() < end;
         std::this_thread::sleep_for(std::chrono::milliseconds(10))) {
      std::vector<std::string> found;
      const std::string& text = output();
      for (std::sregex_iterator at(text.begin(), text.end(), regex), none; at != none; ++at) found.push_back((*at)[1]);
      if (found.size() >= number) return found;
    }
    ADD_FAILURE() << "never saw " << pattern << " in\n" << output();
    return {};
  }
  /// The exit code, as a shell gives it; -1 and a failure when it hangs.
  int wait() {
    for (const auto end = Clock::now() + kHang; Clock::now() < end;
         std::this_thread::sleep_for(std::chrono::milliseconds(10))) {
      (void)output();  // or it may wait for us
      int status = 0;
      if (::waitpid(pid_, &status, WNOHANG) != pid_) continue;
      pid_ = -1;
      (void)output();
      return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    ADD_FAILURE() << "hangs; so far:\n" << output();
    return -1;
  }

 private:
  pid_t pid_ = -1;
  int out_ = -1;
  std::string output_;
};

/// Whether it is gone, or goes before that counts as hanging.
inline bool is_gone_soon(pid_t pid) {
  const auto end = Clock::now() + kHang;
  while (!is_gone(pid) && Clock::now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return is_gone(pid);
}

}  // namespace atoll::test
