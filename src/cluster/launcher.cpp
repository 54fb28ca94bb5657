#include "cluster/launcher.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>

#include "base/log.hpp"
#include "cluster/control.hpp"
#include "cluster/master.hpp"
#include "cluster/output.hpp"
#include "cluster/spawn.hpp"

namespace atoll::cluster {
namespace {

const char* name_of(Consistency consistency) noexcept {
  switch (consistency) {
    case Consistency::kDefault:
    case Consistency::kPso: return "pso";
    case Consistency::kTso: return "tso";
    case Consistency::kSc: return "sc";
  }
  return "pso";
}

/// Tells the user, on stderr, with one write so that it stays a line of its own.
template <typename... Args>
void say(fmt::format_string<Args...> text, Args&&... args) {
  (void)write_all(STDERR_FILENO, "atoll: " + fmt::format(text, std::forward<Args>(args)...) + "\n");
}

double seconds(std::chrono::milliseconds time) {
  return double(time.count()) / 1000;
}

constexpr int kSshFailed = 255;

/// An agent ends with 128 + signal when a signal has ended the program: the wait status of a process that ended so.
int status_from_agent(int wait_status) noexcept {
  const int signal = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) - 128 : 0;
  return signal > 0 && ::sigabbrev_np(signal) != nullptr ? signal : wait_status;
}

/// Blocks the signals that are passed on, and reads them; puts everything back at the end.
///
/// Thread-safety: none; made and ended by the same thread.
class SignalSource {
 public:
  SignalSource() {
    sigset_t set;
    sigemptyset(&set);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, signal);
    (void)::pthread_sigmask(SIG_BLOCK, &set, &old_mask_);
    // A parent that ignores SIGCHLD would make the kernel reap the nodes, and their exit codes were lost.
    struct sigaction standard {};
    standard.sa_handler = SIG_DFL;
    (void)::sigaction(SIGCHLD, &standard, &old_child_);
    fd_ = base::Fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  ~SignalSource() {
    (void)::sigaction(SIGCHLD, &old_child_, nullptr);
    (void)::pthread_sigmask(SIG_SETMASK, &old_mask_, nullptr);
  }
  SignalSource(const SignalSource&) = delete;
  SignalSource& operator=(const SignalSource&) = delete;

  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  [[nodiscard]] const sigset_t& old_mask() const noexcept { return old_mask_; }
  [[nodiscard]] std::optional<signalfd_siginfo> next() const noexcept {
    signalfd_siginfo info{};
    if (::read(fd_.get(), &info, sizeof(info)) != ssize_t(sizeof(info))) return std::nullopt;
    return info;
  }

 private:
  sigset_t old_mask_{};
  struct sigaction old_child_ {};
  base::Fd fd_;
};

/// Six descriptors per node are needed here, and one per peer in each node, which inherits the limit.
void raise_file_limit(NodeId nodes) {
  const rlim_t needed = rlim_t(nodes) * 7 + 128;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return;
  if (limit.rlim_max != RLIM_INFINITY && limit.rlim_max < needed) {
    throw Error(fmt::format("{} nodes need {} open files, the limit is {}: start fewer nodes or raise ulimit -n", nodes,
                            needed, limit.rlim_max));
  }
  limit.rlim_cur = needed;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

/// Pipes must not get the numbers of the standard streams, or setting up a child's streams would mix them up.
void ensure_standard_streams() {
  for (int fd = ::open("/dev/null", O_RDWR); fd >= 0; fd = ::open("/dev/null", O_RDWR)) {
    if (fd <= STDERR_FILENO) continue;
    ::close(fd);
    return;
  }
}

/// One cluster being run.
///
/// Thread-safety: none; one thread makes, runs and ends it.
/// Invariants:
///   1. Waits only in poll(2), until an event or the next deadline.
///   2. No node outlives it: the nodes' destructors kill what still runs.
///   3. A node has one process at a time: what was there before is reaped when another one is started.
class Launcher {
 public:
  explicit Launcher(const LaunchSpec& spec) : spec_(spec), logs_(log_folder(spec)), master_(master_config(spec)) {}
  int run();

 private:
  struct Running {
    ChildProcess process;               // the node, or, on another host, the ssh that leads there
    std::array<LineWriter, 2> writers;  // of stdout and stderr
    std::string lost;                   // why it was declared out, whatever its process does; empty: it was not
    unsigned restarts = 0;              // how often it was started again
  };

  static MasterConfig master_config(const LaunchSpec& spec);
  static std::optional<LogFolder> log_folder(const LaunchSpec& spec);
  void add_log(std::map<std::string, std::string>& environment, NodeId node) const;
  [[nodiscard]] std::map<std::string, std::string> node_environment(NodeId node) const;
  [[nodiscard]] SpawnSpec spawn_spec(NodeId node) const;
  [[nodiscard]] std::string start_request(NodeId node) const;
  [[nodiscard]] bool remote() const noexcept { return spec_.remote.has_value(); }
  int start_all();
  [[nodiscard]] int not_executed(int error) const;
  void wait_for_events();
  void on_signal();
  void pass_output(Running& node, int max_reads);
  void on_exit(NodeId id);
  [[nodiscard]] bool wants_restart(const Running& node, int signal, Master::Exit exit) const;
  [[nodiscard]] bool start_again(NodeId id, const std::string& why);
  [[nodiscard]] int start(NodeId id);
  void kill_lost(const Running& node);
  void on_losses();
  void on_failure(NodeId id, const std::string& why, bool expected);
  void on_clock();
  void kill_after(std::chrono::milliseconds delay, int signal);
  void signal_all(int signal);
  static bool tell(const Running& node, const std::string& frame) noexcept;
  [[nodiscard]] std::size_t alive() const;

  const LaunchSpec& spec_;
  const std::optional<LogFolder> logs_;
  const SignalSource signals_;  // before the master, whose thread must not take the signals
  Master master_;
  std::vector<const Host*> hosts_;  // of each node, when they run on others
  std::vector<Running> nodes_;
  bool ending_ = false;  // nobody is started again
  int code_ = 0;
  int passed_on_ = 0;  // the last signal that the user had us pass on
  int interrupts_ = 0;
  bool terminated_ = false, killed_ = false;  // by us
  std::optional<Clock::time_point> terminate_at_, kill_at_;
  std::optional<Clock::time_point> hang_up_at_;  // when connections to hosts that do not answer are ended
  std::string kill_reason_;
};

int Launcher::run() {
  if (const int error = start_all(); error != 0) return not_executed(error);
  while (alive() > 0) {
    wait_for_events();
    on_clock();
  }
  return code_;
}

MasterConfig Launcher::master_config(const LaunchSpec& spec) {
  MasterConfig config{spec.nodes, fmt::format("{}", fmt::join(spec.argv, " "))};
  config.lease = spec.lease;
  config.recoverable = spec.restarts > 0;
  if (spec.remote) {
    config.listen = spec.remote->listen;
    config.key = spec.remote->key;
  }
  return config;
}

std::optional<LogFolder> Launcher::log_folder(const LaunchSpec& spec) {
  if (!spec.log) return std::nullopt;
  return LogFolder(*spec.log, {spec.nodes, spec.options.line_bytes, spec.options.memory_bytes, !spec.remote});
}

void Launcher::add_log(std::map<std::string, std::string>& environment, NodeId node) const {
  environment["ATOLL_LOG_MODE"] = spec_.log ? spec_.log->mode : "off";
  environment["ATOLL_RECOVER"] = "off";
  environment["ATOLL_RECOVER_AFTER_REBOOT"] = "off";
  if (!spec_.log) return;
  environment["ATOLL_LOG_DIR"] = logs_->of_node(node);
  if (spec_.log->bytes != 0) environment["ATOLL_LOG_SIZE"] = std::to_string(spec_.log->bytes);
  const bool again = node < nodes_.size() && nodes_[node].restarts > 0;
  if (again || spec_.log->recover) environment["ATOLL_RECOVER"] = "on";
  if (!again && spec_.log->after_reboot) environment["ATOLL_RECOVER_AFTER_REBOOT"] = "on";
}

std::map<std::string, std::string> Launcher::node_environment(NodeId node) const {
  const Options& options = spec_.options;
  std::map<std::string, std::string> result = {{"ATOLL_MEMORY", std::to_string(options.memory_bytes)},
                                               {"ATOLL_CACHE", std::to_string(options.cache_bytes)},
                                               {"ATOLL_FILE_SPACE", std::to_string(options.file_space_bytes)},
                                               {"ATOLL_FILE_MEMORY", std::to_string(options.file_memory_bytes)},
                                               {"ATOLL_LINE", std::to_string(options.line_bytes)},
                                               {"ATOLL_CONSISTENCY", name_of(options.consistency)},
                                               {"ATOLL_OUTSTANDING_WRITES", std::to_string(options.outstanding_writes)},
                                               {"ATOLL_SPIN_NS", std::to_string(options.spin_ns)},
                                               {"ATOLL_YIELD_US", std::to_string(options.yield_us)},
                                               {"ATOLL_READ_AHEAD", std::to_string(options.read_ahead_lines)},
                                               {"ATOLL_EVICT_BELOW", std::to_string(options.evict_below_percent)},
                                               {"ATOLL_EVICT_UNTIL", std::to_string(options.evict_until_percent)},
                                               {"ATOLL_WRITE_AT_HOME", options.write_at_home ? "on" : "off"},
                                               {"ATOLL_READ_IN_PLACE", options.read_in_place ? "on" : "off"},
                                               {"ATOLL_TRANSPORT", options.transport}};
  if (!options.address.empty() && !remote()) result["ATOLL_ADDRESS"] = options.address;  // of this host alone
  add_log(result, node);
  for (const auto& [name, value] : spec_.environment) result[name] = value;
  result["ATOLL_MASTER"] = master_.socket_name();
  result["ATOLL_NODE"] = std::to_string(node);
  result["ATOLL_NODES"] = std::to_string(spec_.nodes);
  return result;
}

SpawnSpec Launcher::spawn_spec(NodeId node) const {
  SpawnSpec spawn;
  spawn.capture = spec_.prefix_output;
  spawn.signal_mask = signals_.old_mask();
  if (remote()) {
    spawn.argv = agent_command(*spec_.remote, *hosts_[node]);
    spawn.input = ChildInput::kSocket;
    // Or a Ctrl-C would end the connections before the nodes could end in their own way.
    spawn.own_session = true;
  } else {
    spawn.argv = spec_.argv;
    spawn.environment = node_environment(node);
    spawn.input = node == 0 ? ChildInput::kInherit : ChildInput::kNull;
  }
  return spawn;
}

/// What the agent of a node on another host is told.
std::string Launcher::start_request(NodeId node) const {
  StartRequest request{std::filesystem::current_path().string(), spec_.argv, variables_for_others()};
  for (const auto& [name, value] : node_environment(node)) request.environment[name] = value;
  for (const auto& [name, value] : hosts_[node]->environment) request.environment[name] = value;
  TcpAddress address = *master_.tcp_address();
  // One that listens everywhere is told by the address that leads from that host to here.
  if (address.host == "0.0.0.0" || address.host == "::") address.host = address_towards(hosts_[node]->name);
  request.environment["ATOLL_MASTER"] = address.text();
  request.environment["ATOLL_KEY"] = spec_.remote->key.reveal();
  return encode_start(request);
}

/// 0, or the errno of the first node that could not be started; what was started before ends with this object.
int Launcher::start_all() {
  const bool out_colour = wants_colour(STDOUT_FILENO), err_colour = wants_colour(STDERR_FILENO);
  nodes_.reserve(spec_.nodes);
  if (remote()) {
    for (const Host& host : spec_.remote->hosts) hosts_.insert(hosts_.end(), host.slots, &host);
  }
  for (NodeId id = 0; id < spec_.nodes; ++id) {
    nodes_.push_back({ChildProcess(),
                      {LineWriter(line_prefix(id, spec_.nodes, out_colour), STDOUT_FILENO),
                       LineWriter(line_prefix(id, spec_.nodes, err_colour), STDERR_FILENO)},
                      {},
                      0});
    if (const int error = start(id); error != 0) return error;
  }
  return 0;
}

/// 0, or the errno of what could not be started.
int Launcher::start(NodeId id) {
  const std::string request = remote() ? start_request(id) : std::string();
  Running& node = nodes_[id];
  if (const int error = node.process.start(spawn_spec(id)); error != 0) return error;
  // A connection that ends at once does not take it; why it ended is told when that is found.
  if (remote()) (void)tell(node, request);
  return 0;
}

int Launcher::not_executed(int error) const {
  const ExecFailure failure = describe_exec_failure(remote() ? spec_.remote->ssh[0] : spec_.argv[0], error);
  say("{}", failure.why);
  return failure.code;
}

// ---- events ----

void Launcher::wait_for_events() {
  std::vector<pollfd> polls = {{signals_.fd(), POLLIN, 0}, {master_.loss_fd(), POLLIN, 0}};
  for (const Running& node : nodes_) {
    polls.push_back({node.process.exit_fd(), POLLIN, 0});  // poll skips what is -1
    polls.push_back({node.process.out.get(), POLLIN, 0});
    polls.push_back({node.process.err.get(), POLLIN, 0});
  }
  auto until = Clock::time_point::max();
  for (const auto& deadline : {terminate_at_, kill_at_, hang_up_at_}) {
    if (deadline) until = std::min(until, *deadline);
  }
  const int timeout = until == Clock::time_point::max() ? -1 : poll_timeout(until);
  if (::poll(polls.data(), polls.size(), timeout) < 0) {
    if (errno == EINTR) return;
    throw Error(fmt::format("cannot watch the nodes: poll: {}", std::strerror(errno)));
  }
  if (polls[0].revents != 0) on_signal();
  // Exits first: why a node died shall be said before the complaints of the others.
  for (std::size_t k = 0; k < nodes_.size(); ++k) {
    if (polls[2 + 3 * k].revents != 0) on_exit(NodeId(k));
  }
  for (std::size_t k = 0; k < nodes_.size(); ++k) {
    if (polls[3 + 3 * k].revents != 0 || polls[4 + 3 * k].revents != 0) pass_output(nodes_[k], 2);
  }
  if (polls[1].revents != 0) on_losses();
}

/// Nodes that hang, or cannot be reached: the others go on without them, and nobody waits for their end. One that is to
/// be started again is killed, and the rest is done when it has ended.
void Launcher::on_losses() {
  for (const Master::LostNode& lost : master_.take_losses()) {
    Running& node = nodes_[lost.node];
    if (!node.process.running()) continue;
    node.lost = lost.why;
    if (wants_restart(node, SIGKILL, Master::Exit::kDied)) {
      kill_lost(node);
      continue;
    }
    master_.give_up_on(lost.node);
    if (code_ == 0) code_ = 1;
    on_failure(lost.node, "was declared out: " + lost.why, false);
  }
}

/// On another host its agent does it, if it can be reached; when its connection ends, it has to.
void Launcher::kill_lost(const Running& node) {
  if (!remote()) return node.process.kill(SIGKILL);
  (void)tell(node, encode_signal(SIGKILL));
  if (!hang_up_at_) hang_up_at_ = Clock::now() + kKillDelay;
}

void Launcher::on_signal() {
  while (const auto info = signals_.next()) {
    const int signal = int(info->ssi_signo);
    passed_on_ = signal;
    ending_ = true;
    if (signal == SIGINT && ++interrupts_ > 1) {
      say("interrupted again; killing the {} nodes that still run", alive());
      signal_all(SIGKILL);
    } else if (info->ssi_code != SI_KERNEL || remote()) {
      // The terminal sends its signals to the whole foreground group, nodes included; they shall not come twice.
      // Nodes on other hosts are not in it.
      signal_all(signal);
    }
    if (spec_.stop_within && !kill_at_) kill_after(*spec_.stop_within, signal);
  }
}

void Launcher::kill_after(std::chrono::milliseconds delay, int signal) {
  kill_at_ = Clock::now() + delay;
  kill_reason_ = fmt::format("{:.1f} s of SIG{}", seconds(delay), ::sigabbrev_np(signal));
}

/// Passes on what is in the node's pipes now. The reads are bounded, or a node that never stops writing would shut
/// out the others.
void Launcher::pass_output(Running& node, int max_reads) {
  std::array<char, 64 * 1024> buffer;
  const std::array<base::Fd*, 2> pipes = {&node.process.out, &node.process.err};
  for (std::size_t k = 0; k < pipes.size(); ++k) {
    for (int reads = 0; reads < max_reads && pipes[k]->valid(); ++reads) {
      const ssize_t got = ::read(pipes[k]->get(), buffer.data(), buffer.size());
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) break;
      if (got > 0) {
        node.writers[k].feed(std::string_view(buffer.data(), std::size_t(got)));
        continue;
      }
      node.writers[k].finish();
      pipes[k]->reset();
    }
  }
}

void Launcher::on_exit(NodeId id) {
  if (spec_.restarts > 0) on_losses();  // it may have ended because it found itself out
  Running& node = nodes_[id];
  pass_output(node, 64);  // more than a pipe can hold
  // A process that the node left behind may hold its pipes open; nobody waits for that.
  for (LineWriter& writer : node.writers) writer.finish();
  node.process.out.reset();
  node.process.err.reset();
  node.process.in.reset();
  const int status = remote() ? status_from_agent(node.process.reap()) : node.process.reap();
  const int code = exit_code(status);
  std::string why = code == 0 ? "exited with code 0 without leaving" : describe_exit(status);
  if (remote()) why += fmt::format(" on {}", hosts_[id]->name);
  if (remote() && code == kSshFailed) why += " (so does ssh when the host cannot be reached)";
  const Master::Exit exit = master_.node_exited(id, why);
  if (code == 0 && exit != Master::Exit::kDied) return;
  const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  if (wants_restart(node, signal, exit)) {
    const std::string lost = std::exchange(node.lost, {});
    if (start_again(id, lost.empty() ? "was " + why : "was declared out: " + lost)) return;
  }
  master_.give_up_on(id);
  if (code_ == 0) code_ = code == 0 ? 1 : code;
  // We, or the user through us, made it end that way; that needs no report.
  const bool expected = signal != 0 && (signal == passed_on_ || (signal == SIGTERM && terminated_) ||
                                        (signal == SIGKILL && (killed_ || interrupts_ > 1)));
  on_failure(id, signal != 0 ? "was " + why : why, expected);
}

/// One that crashed, in a cluster that goes on. Who ends by itself, with whatever code, meant to.
bool Launcher::wants_restart(const Running& node, int signal, Master::Exit exit) const {
  const bool crashed = signal != 0 || !node.lost.empty();
  if (!crashed || exit != Master::Exit::kDied || ending_ || terminate_at_ || terminated_ || killed_) return false;
  return node.restarts < spec_.restarts;
}

/// False when it could not be.
bool Launcher::start_again(NodeId id, const std::string& why) {
  Running& node = nodes_[id];
  ++node.restarts;
  say("node {} {}; starting it again ({} of {})", id, why, node.restarts, spec_.restarts);
  const int error = start(id);
  if (error != 0) (void)not_executed(error);
  return error == 0;
}

void Launcher::on_failure(NodeId id, const std::string& why, bool expected) {
  const std::size_t others = alive();
  const bool ending = !spec_.keep_going && others > 0 && !terminate_at_ && !terminated_;
  if (ending) terminate_at_ = Clock::now() + spec_.grace;
  if (expected) return;
  std::string next;
  if (ending) next = fmt::format("; ending the others in {:.1f} s", seconds(spec_.grace));
  if (spec_.keep_going && others > 0) next = "; the others go on";
  say("node {} {}{}", id, why, next);
}

void Launcher::on_clock() {
  const auto now = Clock::now();
  if (terminate_at_ && *terminate_at_ <= now && alive() > 0) {
    terminate_at_.reset();
    terminated_ = true;
    if (!kill_at_) kill_after(kKillDelay, SIGTERM);
    signal_all(SIGTERM);
  }
  if (kill_at_ && *kill_at_ <= now && alive() > 0) {
    kill_at_.reset();
    killed_ = true;
    say("{} of the nodes did not end within {}; killing them", alive(), kill_reason_);
    signal_all(SIGKILL);
  }
  const auto hangs = [this](const Running& n) {
    return n.process.running() && !n.lost.empty() && !wants_restart(n, SIGKILL, Master::Exit::kDied);
  };
  const auto hanging = std::size_t(std::count_if(nodes_.begin(), nodes_.end(), hangs));
  if (hanging > 0 && hanging == alive() && !kill_at_ && !killed_) {
    kill_after(kKillDelay, SIGTERM);  // they may say something when they find themselves fenced
    signal_all(SIGTERM);
  }
  if (hang_up_at_ && *hang_up_at_ <= now) {
    hang_up_at_.reset();
    const bool all = terminated_ || killed_ || ending_;
    for (const Running& node : nodes_) {
      if (all || !node.lost.empty()) node.process.kill(SIGKILL);
    }
  }
}

void Launcher::signal_all(int signal) {
  if (remote() && signal == SIGKILL) hang_up_at_ = Clock::now() + kKillDelay;
  for (const Running& node : nodes_) {
    if (!remote()) node.process.kill(signal);
    // A connection that takes nothing any more is of no use to the node either.
    if (remote() && node.process.running() && !tell(node, encode_signal(signal))) node.process.kill(SIGKILL);
  }
}

/// Passes a frame to the agent of a node. False when the connection does not take it.
bool Launcher::tell(const Running& node, const std::string& frame) noexcept {
  const ssize_t sent = ::send(node.process.in.get(), frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  return sent == ssize_t(frame.size());
}

std::size_t Launcher::alive() const {
  return std::size_t(std::count_if(nodes_.begin(), nodes_.end(), [](const Running& n) { return n.process.running(); }));
}

}  // namespace

int launch(const LaunchSpec& spec) {
  base::init_logging();
  if (spec.argv.empty()) throw Error("there is no program to launch");
  if (spec.nodes == 0 || spec.nodes > kMaxNodes) {
    throw Error(fmt::format("{} nodes: give 1 to {}", spec.nodes, kMaxNodes));
  }
  if (spec.remote && slots_of(spec.remote->hosts) < spec.nodes) {
    throw Error(fmt::format("{} nodes, but the hosts have {} slots", spec.nodes, slots_of(spec.remote->hosts)));
  }
  if (spec.restarts > 0 && !spec.log) {
    throw Error("a node that is started again has lost what it had: --restart needs --log process or --log power");
  }
  if (spec.remote && spec.remote->ssh.empty()) throw Error("there is no command that leads to other hosts");
  ensure_standard_streams();
  raise_file_limit(spec.nodes);
  return Launcher(spec).run();
}

}  // namespace atoll::cluster
