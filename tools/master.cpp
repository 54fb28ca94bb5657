// `atoll master`: a master alone, for nodes that others start, on this host or elsewhere.
#include "cluster/master.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>

#include "commands.hpp"
#include "lease_option.hpp"

namespace atoll::tools {
namespace {

struct MasterArguments {
  std::string listen, key_file, state_file, program = "(nodes started by others)";
  unsigned nodes = 0;
  bool recoverable = false;
  double lease = double(cluster::kDefaultLease_ms) / 1000, grace = double(cluster::kDefaultMasterGrace_ms) / 1000;
};

/// SIGINT, SIGTERM and SIGHUP as a descriptor. To be made before any thread, which would take them.
base::Fd block_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, signal);
  (void)::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  base::Fd fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd.valid()) throw Error(fmt::format("cannot watch for signals: {}", std::strerror(errno)));
  return fd;
}

/// One descriptor for each node, and room for those who knock.
void raise_file_limit(unsigned nodes) {
  rlimit limit{};
  const rlim_t needed = nodes + 2 * cluster::Gate::kMaxHalfOpen;
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return;
  limit.rlim_cur = limit.rlim_max == RLIM_INFINITY ? needed : std::min(needed, limit.rlim_max);
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

cluster::Key find_key(const std::string& file) {
  if (!file.empty()) return cluster::Key::read_file(file);
  if (auto key = cluster::Key::from_environment()) return *key;
  throw Error("there is no cluster key: give --key-file FILE; `atoll key --out FILE` makes one");
}

/// Where nodes find a master that listens at `address`: for one that listens everywhere, by the name of this host.
cluster::TcpAddress reachable(cluster::TcpAddress address) {
  if (address.host != "0.0.0.0" && address.host != "::") return address;
  char name[HOST_NAME_MAX + 1] = {};
  if (::gethostname(name, sizeof(name) - 1) == 0 && name[0] != '\0') address.host = name;
  return address;
}

void announce(const cluster::Master& master, const MasterArguments& arguments) {
  const char* file = std::getenv("ATOLL_KEY_FILE");
  std::string key = "ATOLL_KEY=...";
  if (!arguments.key_file.empty() || file != nullptr) {
    const std::string path = arguments.key_file.empty() ? file : arguments.key_file;
    key = "ATOLL_KEY_FILE=" + std::filesystem::absolute(path).lexically_normal().string();
  }
  const unsigned last = arguments.nodes - 1;
  fmt::print("listening at {}; each node joins with ATOLL_MASTER={} {} ATOLL_NODES={} ATOLL_NODE={}\n",
             master.tcp_address()->text(), reachable(*master.tcp_address()).text(), key, arguments.nodes,
             last == 0 ? "0" : fmt::format("{{0..{}}}", last));
  std::fflush(stdout);
}

/// The signal that ended the wait, or 0 when the cluster is over.
int wait_for_end(const cluster::Master& master, const base::Fd& signals) {
  while (true) {
    pollfd polls[] = {{signals.get(), POLLIN, 0}, {master.over_fd(), POLLIN, 0}};
    if (::poll(polls, 2, -1) < 0 && errno != EINTR) {
      throw Error(fmt::format("cannot wait for the cluster's end: {}", std::strerror(errno)));
    }
    signalfd_siginfo info{};
    if (::read(signals.get(), &info, sizeof(info)) == ssize_t(sizeof(info))) return int(info.ssi_signo);
    if (polls[1].revents != 0) return 0;
  }
}

int serve(const MasterArguments& arguments) {
  const base::Fd signals = block_signals();
  raise_file_limit(arguments.nodes);
  cluster::MasterConfig config{NodeId(arguments.nodes), arguments.program};
  config.listen = cluster::parse_tcp_address(arguments.listen, "--listen");
  config.key = find_key(arguments.key_file);
  config.lease = lease_of(arguments.lease);
  config.grace = std::chrono::milliseconds(std::int64_t(arguments.grace * 1000));
  if (!arguments.state_file.empty()) config.state_file = arguments.state_file;
  config.returns = true;
  config.recoverable = arguments.recoverable;
  cluster::Master master(std::move(config));
  announce(master, arguments);
  if (const int signal = wait_for_end(master, signals); signal != 0) {
    fmt::print(stderr, "atoll: ended by SIG{}; nodes that still run go on without a master for {} s\n",
               ::sigabbrev_np(signal), arguments.grace);
    return 128 + signal;
  }
  const cluster::Master::Outcome outcome = master.outcome();
  if (!outcome.failure.empty()) fmt::print(stderr, "atoll: the cluster did not start: {}\n", outcome.failure);
  for (const std::string& death : outcome.deaths) fmt::print(stderr, "atoll: {}\n", death);
  return outcome.failure.empty() && outcome.deaths.empty() ? 0 : 1;
}

}  // namespace

std::string check_address(const std::string& text) {
  try {
    (void)cluster::parse_tcp_address(text, "address");
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

void add_master(CLI::App& app) {
  auto arguments = std::make_shared<MasterArguments>();
  CLI::App* master = app.add_subcommand(
      "master", "Run a master alone, for nodes that are started elsewhere: atoll master --listen ADDRESS --nodes N");
  master->add_option("--listen", arguments->listen, "Where nodes reach it; port 0 lets the system choose")
      ->required()
      ->type_name("HOST:PORT")
      ->check(CLI::Validator(check_address, "", "address"));
  master->add_option("-n,--nodes", arguments->nodes, "How many nodes the cluster has")
      ->required()
      ->type_name("NODES")
      ->check(CLI::Range(1u, unsigned(cluster::kMaxNodes)));
  master->add_option("--key-file", arguments->key_file, "The cluster key; without, ATOLL_KEY_FILE or ATOLL_KEY")
      ->type_name("FILE");
  master
      ->add_option("--state", arguments->state_file,
                   "Where it keeps who is in, for the master that is started after it; without, that one needs all "
                   "nodes of the cluster")
      ->type_name("FILE");
  master->add_flag("--recoverable", arguments->recoverable,
                   "Let another process take the place of a node that died; nodes need logs (ATOLL_LOG_MODE)");
  add_lease_option(*master, arguments->lease);
  master->add_option("--grace", arguments->grace, "So long nodes work on when the master has ended")
      ->type_name("SECONDS")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 86400.0));
  master->add_option("--program", arguments->program, "What `atoll status` shows as the program")
      ->type_name("TEXT")
      ->capture_default_str();
  master->footer(
      "It prints where it listens and how nodes join, and runs until the cluster is over: exit code 0 when all nodes\n"
      "have left, 1 when the start failed or a node died, 128 + signal when a signal ended it. When it is started\n"
      "again at the same address the nodes come back to it.\n\n"
      "Examples:\n"
      "  atoll key --out ~/cluster.key\n"
      "  atoll master --listen 10.0.0.1:7470 --nodes 3 --key-file ~/cluster.key\n"
      "and, for k = 0, 1, 2, on any host that has the key file:\n"
      "  ATOLL_MASTER=10.0.0.1:7470 ATOLL_KEY_FILE=~/cluster.key ATOLL_NODES=3 ATOLL_NODE=k ./program");
  master->callback([arguments] {
    if (const int code = serve(*arguments); code != 0) throw CLI::RuntimeError(code);
  });
}

}  // namespace atoll::tools
