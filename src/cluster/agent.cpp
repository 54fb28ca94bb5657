#include "cluster/agent.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>

#include "base/fd.hpp"
#include "cluster/control.hpp"
#include "cluster/output.hpp"
#include "cluster/spawn.hpp"

namespace atoll::cluster {
namespace {

constexpr std::size_t kMaxProgramWords = 8192;
constexpr int kMaxSignal = 64;

/// Why the agent ends with 1, on its standard error, which ssh passes on.
int complain(const std::string& why) {
  (void)write_all(STDERR_FILENO, "atoll agent: " + why + "\n");
  return 1;
}

/// A word for a shell, whatever is in it.
std::string quoted(const std::string& word) {
  std::string result = "'";
  for (const char c : word) {
    if (c == '\'') {
      result += "'\\''";
    } else {
      result += c;
    }
  }
  return result + "'";
}

/// What can be an argument or a variable's value: a NUL would end it early.
bool is_word(const Json& value) {
  return value.is_string() && value.get_ref<const std::string&>().find('\0') == std::string::npos;
}

/// An agent at work.
///
/// Thread-safety: none; one thread makes, runs and ends it.
/// Invariants:
///   1. Waits only in poll(2), until an event or the next deadline.
///   2. The program does not outlive it: ChildProcess sees to that.
class Agent {
 public:
  explicit Agent(int in) noexcept : in_(in) {}
  int run();

 private:
  /// Waits for the next frame of the input; none when it has ended or the time is over. Throws Error when the input
  /// makes no sense, or its end is not that of a frame.
  std::optional<Frame> next_frame(Clock::time_point deadline);
  int start(const StartRequest& request);
  int watch();
  void read_input();
  void on_frame(const Frame& frame);
  void end_program();

  int in_;  // -1: it has ended
  FrameDecoder decoder_;
  ChildProcess program_;
  std::optional<Clock::time_point> kill_at_;
};

int Agent::run() {
  const auto first = next_frame(Clock::now() + kStartRequestWithin);
  if (!first) return complain("it was not told what to start; it is started by `atoll run --hosts`");
  if (const int code = start(decode_start(*first)); code != 0) return code;
  return watch();
}

std::optional<Frame> Agent::next_frame(Clock::time_point deadline) {
  Frame frame;
  while (true) {
    const Decoded decoded = decoder_.next(frame);
    if (decoded == Decoded::kFrame) return frame.fds.empty() ? std::optional(std::move(frame)) : std::nullopt;
    if (decoded == Decoded::kBad) throw Error(decoder_.why());
    pollfd entry{in_, POLLIN, 0};
    if (in_ < 0 || Clock::now() >= deadline) return std::nullopt;
    if (::poll(&entry, 1, poll_timeout(deadline)) > 0) read_input();
  }
}

void Agent::read_input() {
  std::array<char, 64 * 1024> buffer;
  const ssize_t got = ::read(in_, buffer.data(), buffer.size());
  if (got > 0) {
    decoder_.feed(std::string_view(buffer.data(), std::size_t(got)), {});
  } else if (got == 0 || (errno != EINTR && errno != EAGAIN)) {
    in_ = -1;
  }
}

/// 0, or the code to end with.
int Agent::start(const StartRequest& request) {
  if (::chdir(request.directory.c_str()) != 0) {
    return complain(fmt::format("cannot change to {} on this host: {}", request.directory, std::strerror(errno)));
  }
  // This user's settings on this host may name another cluster's key, and a file would count before ours.
  (void)::unsetenv("ATOLL_KEY_FILE");
  SpawnSpec spawn;
  spawn.argv = request.program;
  spawn.environment = request.environment;
  spawn.input = ChildInput::kNull;
  spawn.capture = false;
  sigemptyset(&spawn.signal_mask);
  const int error = program_.start(spawn);
  if (error == 0) return 0;
  const ExecFailure failure = describe_exec_failure(request.program[0], error);
  (void)complain(failure.why);
  return failure.code;
}

/// The code of the program, when it has ended.
int Agent::watch() {
  while (true) {
    // First what came together with the start.
    for (Frame frame; decoder_.next(frame) == Decoded::kFrame;) on_frame(frame);
    if (in_ < 0 || !decoder_.why().empty()) end_program();
    const bool kill = kill_at_ && *kill_at_ <= Clock::now();
    if (kill) program_.kill(SIGKILL);
    std::array<pollfd, 2> polls = {{{program_.exit_fd(), POLLIN, 0}, {in_, POLLIN, 0}}};  // poll skips what is -1
    const int timeout = kill_at_ && !kill ? poll_timeout(*kill_at_) : -1;
    if (::poll(polls.data(), polls.size(), timeout) < 0 && errno != EINTR) {
      throw Error(fmt::format("cannot watch the program: poll: {}", std::strerror(errno)));
    }
    if (polls[0].revents != 0) return exit_code(program_.reap());
    if (polls[1].revents != 0) read_input();
  }
}

void Agent::on_frame(const Frame& frame) {
  Fields fields(frame.body);
  const std::uint64_t signal = fields.number("signal", kMaxSignal);
  if (frame.op() != "signal" || !fields.ok() || signal == 0) {
    end_program();
  } else {
    program_.kill(int(signal));
  }
}

/// The connection is over, or what comes through it makes no sense.
void Agent::end_program() {
  in_ = -1;
  if (kill_at_) return;
  kill_at_ = Clock::now() + kKillDelay;
  program_.kill(SIGTERM);
}

}  // namespace

std::string encode_start(const StartRequest& request) {
  const Json body = {{"op", "start"},
                     {"directory", request.directory},
                     {"program", request.program},
                     {"environment", request.environment}};
  try {
    // Text that is not UTF-8 must not be repaired here: it would be another program, or another argument.
    const std::size_t bytes = body.dump().size();
    if (bytes <= kMaxFrameBytes) return encode_frame(body);
    throw Error(
        fmt::format("the command line and the environment of a node on another host take {} bytes: {} are "
                    "possible",
                    bytes, kMaxFrameBytes));
  } catch (const Json::exception&) {
    throw Error("the command line and the environment of a node on another host must be UTF-8");
  }
}

std::string encode_signal(int signal) {
  return encode_frame({{"op", "signal"}, {"signal", signal}});
}

StartRequest decode_start(const Frame& frame) {
  if (frame.op() != "start") throw Error(fmt::format("\"{}\" before a start", clipped(frame.op(), 32)));
  Fields fields(frame.body);
  StartRequest request;
  request.directory = fields.text("directory", kMaxFrameBytes);
  if (!fields.ok()) throw Error(fields.why());
  const auto program = frame.body.find("program");
  if (program == frame.body.end() || !program->is_array() || program->empty() || program->size() > kMaxProgramWords) {
    throw Error("there is no program in it");
  }
  for (const Json& word : *program) {
    if (!is_word(word)) throw Error("a word of the program is no text");
    request.program.push_back(word.get<std::string>());
  }
  const auto environment = frame.body.find("environment");
  if (environment == frame.body.end() || !environment->is_object()) throw Error("there is no environment in it");
  for (const auto& [name, value] : environment->items()) {
    if (name.empty() || name.find_first_of(std::string_view("=\0", 2)) != std::string::npos || !is_word(value)) {
      throw Error("a variable in it makes no sense");
    }
    request.environment[name] = value.get<std::string>();
  }
  return request;
}

std::vector<std::string> agent_command(const Remote& remote, const Host& host) {
  std::vector<std::string> words = remote.ssh;
  words.push_back(host.name);
  words.push_back("exec " + quoted(remote.atoll) + " agent");  // for the user's shell on that host
  return words;
}

std::map<std::string, std::string> variables_for_others() {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    const std::string_view name = text.substr(0, equals);
    if (equals == std::string_view::npos || !(name.starts_with("ATOLL_") || name.starts_with("FI_"))) continue;
    if (!is_launchers_own(name)) variables[std::string(name)] = text.substr(equals + 1);
  }
  return variables;
}

std::string address_towards(const std::string& host) {
  const auto give_it = [&](const std::string& why) {
    return Error(fmt::format("cannot find this host's address towards {}: {}; give it with --listen", host, why));
  };
  std::string name = host.substr(host.rfind('@') + 1);
  if (name.starts_with('[') && name.ends_with(']')) name = name.substr(1, name.size() - 2);
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_DGRAM;
  if (const int error = ::getaddrinfo(name.c_str(), "9", &hints, &found); error != 0) {
    throw give_it(::gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(found, ::freeaddrinfo);
  int error = 0;
  for (const addrinfo* each = list.get(); each != nullptr; each = each->ai_next) {
    // Connecting a datagram socket sends nothing; it makes the system choose the way, and with it our address.
    const base::Fd socket(::socket(each->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_storage ours{};
    socklen_t bytes = sizeof(ours);
    std::array<char, NI_MAXHOST> text{};
    if (socket.valid() && ::connect(socket.get(), each->ai_addr, each->ai_addrlen) == 0 &&
        ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&ours), &bytes) == 0 &&
        ::getnameinfo(reinterpret_cast<sockaddr*>(&ours), bytes, text.data(), socklen_t(text.size()), nullptr, 0,
                      NI_NUMERICHOST) == 0) {
      return text.data();
    }
    error = errno;
  }
  throw give_it(std::strerror(error));
}

int run_agent(int in) {
  try {
    return Agent(in).run();
  } catch (const std::exception& error) {
    return complain(fmt::format("what it was told makes no sense: {}", error.what()));
  }
}

}  // namespace atoll::cluster
