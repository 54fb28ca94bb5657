#include "cluster/spawn.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "atoll/status.hpp"

namespace atoll::cluster {
namespace {

struct Pipe {
  base::Fd read, write;
};

Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    throw Error(fmt::format("cannot make a pipe: {}; raise the limit on open files (ulimit -n)", std::strerror(errno)));
  }
  return {base::Fd(ends[0]), base::Fd(ends[1])};
}

/// Our end, and the child's.
Pipe make_input_socket() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw Error(
        fmt::format("cannot make a socket: {}; raise the limit on open files (ulimit -n)", std::strerror(errno)));
  }
  return {base::Fd(ends[0]), base::Fd(ends[1])};
}

std::vector<std::string> merged_environment(const std::map<std::string, std::string>& added) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (!added.contains(std::string(text.substr(0, text.find('='))))) result.emplace_back(text);
  }
  for (const auto& [name, value] : added) result.push_back(fmt::format("{}={}", name, value));
  return result;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

/// Everything that the child needs, made before the fork: after it, in a process with threads, only
/// async-signal-safe calls are allowed, so nothing may allocate.
struct Prepared {
  char** argv;
  char** environment;
  int in, out, err;  // -1: inherit
  int failure;       // tells errno when exec fails; closed by exec
  pid_t parent;
  bool own_session;
  const sigset_t* mask;
};

[[noreturn]] void run_child(const Prepared& child) noexcept {
  // Between fork and prctl the parent may have died already; then nobody would kill us.
  const bool bound = ::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0;
  if (!bound || ::getppid() != child.parent) ::_exit(127);
  if (child.own_session) (void)::setsid();  // cannot fail: a process that was just made leads no group
  const bool ready = (child.in < 0 || ::dup2(child.in, STDIN_FILENO) >= 0) &&
                     (child.out < 0 || ::dup2(child.out, STDOUT_FILENO) >= 0) &&
                     (child.err < 0 || ::dup2(child.err, STDERR_FILENO) >= 0) &&
                     ::sigprocmask(SIG_SETMASK, child.mask, nullptr) == 0;
  if (ready) ::execvpe(child.argv[0], child.argv, child.environment);
  const int error = errno;
  (void)!::write(child.failure, &error, sizeof(error));
  ::_exit(127);
}

}  // namespace

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : in(std::move(other.in)),
      out(std::move(other.out)),
      err(std::move(other.err)),
      pid_(std::exchange(other.pid_, 0)),
      exit_fd_(std::move(other.exit_fd_)) {}

ChildProcess::~ChildProcess() {
  if (!running()) return;
  kill(SIGKILL);
  (void)reap();
}

int ChildProcess::start(const SpawnSpec& spec) {
  std::vector<std::string> arguments = spec.argv;
  std::vector<std::string> variables = merged_environment(spec.environment);
  const std::vector<char*> argv = pointers(arguments), environment = pointers(variables);
  Pipe failure = make_pipe(), out_pipe, err_pipe, input;
  if (spec.input == ChildInput::kNull) input.write = base::Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (spec.input == ChildInput::kSocket) input = make_input_socket();
  if (spec.capture) {
    out_pipe = make_pipe();
    err_pipe = make_pipe();
  }
  const Prepared child{const_cast<char**>(argv.data()),
                       const_cast<char**>(environment.data()),
                       input.write.get(),
                       out_pipe.write.get(),
                       err_pipe.write.get(),
                       failure.write.get(),
                       ::getpid(),
                       spec.own_session,
                       &spec.signal_mask};
  pid_ = ::fork();
  if (pid_ == 0) run_child(child);
  if (pid_ < 0) {
    pid_ = 0;
    throw Error(fmt::format("cannot start a process: {}; start fewer nodes or raise ulimit -u", std::strerror(errno)));
  }
  failure.write.reset();
  int error = 0;
  ssize_t got = 0;
  while ((got = ::read(failure.read.get(), &error, sizeof(error))) < 0 && errno == EINTR) {
  }
  if (got == ssize_t(sizeof(error))) {
    (void)reap();
    return error;
  }
  exit_fd_ = base::Fd(int(::syscall(SYS_pidfd_open, pid_, 0)));
  if (!exit_fd_.valid()) {
    throw Error(
        fmt::format("cannot watch a process: pidfd_open: {} (Linux 5.3 or newer is needed)", std::strerror(errno)));
  }
  in = std::move(input.read);
  out = std::move(out_pipe.read);
  err = std::move(err_pipe.read);
  for (const base::Fd* fd : {&out, &err}) {
    if (fd->valid()) (void)::fcntl(fd->get(), F_SETFL, O_NONBLOCK);
  }
  return 0;
}

void ChildProcess::kill(int signal) const noexcept {
  if (running()) (void)::kill(pid_, signal);
}

int ChildProcess::reap() noexcept {
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
  exit_fd_.reset();
  return status;
}

ExecFailure describe_exec_failure(const std::string& program, int error) {
  if (error != ENOENT) return {126, fmt::format("cannot execute \"{}\": {}", program, std::strerror(error))};
  if (program.find('/') == std::string::npos) {
    return {127,
            fmt::format("there is no program \"{}\" in PATH; for one in this directory write ./{}", program, program)};
  }
  if (::access(program.c_str(), F_OK) != 0) return {127, fmt::format("there is no program \"{}\"", program)};
  return {127, fmt::format("cannot execute \"{}\": the interpreter or loader that it names does not exist", program)};
}

std::string describe_exit(int wait_status) {
  if (!WIFSIGNALED(wait_status)) return fmt::format("exited with code {}", WEXITSTATUS(wait_status));
  const int signal = WTERMSIG(wait_status);
  const char* name = ::sigabbrev_np(signal);
  const char* core = WCOREDUMP(wait_status) ? ", core dumped" : "";
  if (name == nullptr) return fmt::format("killed by signal {}{}", signal, core);
  return fmt::format("killed by signal {} (SIG{}){}", signal, name, core);
}

int exit_code(int wait_status) noexcept {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

}  // namespace atoll::cluster
