// Starting one process that does not outlive us, and knowing how it ended.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/fd.hpp"

namespace atoll::cluster {

inline constexpr std::chrono::milliseconds kKillDelay{2000};  // from SIGTERM to SIGKILL

/// Where a child's standard input comes from.
enum class ChildInput : std::uint8_t {
  kInherit,  // ours
  kNull,     // /dev/null
  kSocket,   // what we write to ChildProcess::in
};

struct SpawnSpec {
  std::vector<std::string> argv;
  std::map<std::string, std::string> environment;  // added to ours
  ChildInput input = ChildInput::kInherit;
  bool capture = true;       // stdout and stderr through pipes; else ours
  bool own_session = false;  // out of reach of the signals of our terminal
  sigset_t signal_mask{};    // the child's
};

/// A child process. SIGKILL comes to it when the thread that started it ends, however that happens.
///
/// Thread-safety: none. REQUIRES: the thread that starts it stays until it has ended.
/// Invariants:
///   1. A child that was started is reaped exactly once; the destructor kills and reaps one that still runs.
///   2. Until it is reaped its pid cannot be reused, so a signal never hits a stranger.
class ChildProcess {
 public:
  ChildProcess() = default;
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  ~ChildProcess();

  /// Starts it and waits until the program is loaded. Returns 0, or the errno of execvp. Throws Error when no
  /// process can be made at all.
  int start(const SpawnSpec& spec);
  [[nodiscard]] bool running() const noexcept { return pid_ > 0; }
  /// Readable (poll) when the process has ended.
  [[nodiscard]] int exit_fd() const noexcept { return exit_fd_.get(); }
  void kill(int signal) const noexcept;
  /// The wait status. REQUIRES: running(). Blocks until the process has ended.
  int reap() noexcept;

  base::Fd in;        // our end of its standard input, when that is a socket
  base::Fd out, err;  // our ends of its pipes, non-blocking

 private:
  pid_t pid_ = 0;
  base::Fd exit_fd_;
};

/// Why a program could not be started, for people, and the code that a shell would give for it: 127 when there is none,
/// 126 when it cannot be executed. `error` is the errno of execvp.
struct ExecFailure {
  int code = 127;
  std::string why;
};
[[nodiscard]] ExecFailure describe_exec_failure(const std::string& program, int error);
/// How a process ended, for people: "exited with code 3", "killed by signal 9 (SIGKILL)".
[[nodiscard]] std::string describe_exit(int wait_status);
/// As a shell would say it: the code, or 128 + the signal.
[[nodiscard]] int exit_code(int wait_status) noexcept;

}  // namespace atoll::cluster
