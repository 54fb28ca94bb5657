// `atoll kv serve`: a cluster whose every node is a server for Redis clients.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/log.hpp"
#include "base/units.hpp"
#include "cluster/control.hpp"
#include "cluster/job.hpp"
#include "cluster/launcher.hpp"
#include "commands.hpp"
#include "kv/server.hpp"
#include "log_options.hpp"

namespace atoll::tools {
namespace {

struct KvArguments {
  unsigned nodes = 1, port = 6379, threads = 1;
  std::string bind = "127.0.0.1", password_file;
  bool no_password = false;
  std::string memory = "256M", cache = "64M", line = "512";
  std::size_t max_clients = kv::Limits().clients;
  std::string max_request = "16M", output_pause = "1M", output_limit = "64M", buffers = "1G";
  std::int64_t stalled = kv::Limits().stalled.count(), idle = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(KvArguments, nodes, port, threads, bind, password_file, no_password, memory, cache,
                                   line, max_clients, max_request, output_pause, output_limit, buffers, stalled, idle)

std::uint64_t bytes_of(const std::string& text) {
  return base::parse_bytes(text).value();
}

/// Empty when `text` is a size of at least `min`, else what to give instead.
std::string check_size(const std::string& text, std::uint64_t min) {
  const auto bytes = base::parse_bytes(text);
  if (!bytes.ok()) return fmt::format("\"{}\": {}", text, bytes.status().what());
  if (*bytes >= min) return {};
  return fmt::format("\"{}\" is too small: give at least {}", text, base::format_bytes(min));
}

/// The first line of the file. Throws Error.
std::string read_password(const std::string& path) {
  if (path.empty()) return {};
  std::ifstream file(path);
  std::string password;
  if (!file || !std::getline(file, password)) throw Error(fmt::format("cannot read a password from {}", path));
  if (password.ends_with('\r')) password.pop_back();
  if (password.empty()) throw Error(fmt::format("the first line of {} is empty: it should be the password", path));
  if (password.size() > kv::kStrangerBytes) {
    throw Error(
        fmt::format("the first line of {} is longer than a client may send before it has given the password: "
                    "{} bytes at most",
                    path, kv::kStrangerBytes));
  }
  return password;
}

/// What can be found wrong before anything is started. Throws Error.
void check(const KvArguments& arguments) {
  (void)read_password(arguments.password_file);
  if (arguments.port + arguments.nodes - 1 > 65535) {
    throw Error(fmt::format("{} nodes from port {} on need ports beyond 65535", arguments.nodes, arguments.port));
  }
  if (!kv::is_loopback(arguments.bind) && arguments.password_file.empty() && !arguments.no_password) {
    throw Error(
        fmt::format("others could reach {} and nobody asks them for a password: give --password-file, or "
                    "--no-password if the network is yours alone",
                    arguments.bind));
  }
  // So that a client which takes its answers is never cut for a value of its own.
  if (bytes_of(arguments.output_limit) < bytes_of(arguments.output_pause) + 2 * HashMap::kMaxValueBytes) {
    throw Error("--output-limit must be at least 2 MiB more than --output-pause");
  }
}

int start(const KvArguments& arguments, const LogArguments& log) {
  check(arguments);
  nlohmann::json job = arguments;
  cluster::LaunchSpec spec;
  spec.argv = {"/proc/self/exe", "kv-node"};
  spec.nodes = NodeId(arguments.nodes);
  spec.options = Options::from_environment();
  spec.options.memory_bytes = bytes_of(arguments.memory);
  spec.options.cache_bytes = bytes_of(arguments.cache);
  spec.options.line_bytes = std::uint32_t(bytes_of(arguments.line));
  spec.prefix_output = false;
  spec.grace = std::chrono::milliseconds(200);
  spec.stop_within = std::chrono::seconds(5);  // for a node may be in the middle of a command that takes long
  spec.environment["ATOLL_JOB"] = job.dump();
  apply(log, spec);
  return cluster::launch(spec);
}

kv::ServiceOptions service_options(const KvArguments& arguments, std::uint16_t port) {
  kv::ServiceOptions options;
  options.password = read_password(arguments.password_file);
  options.bind = arguments.bind;
  options.port = port;
  options.version = ATOLL_VERSION;
  options.limits.clients = kv::raise_file_limit(arguments.max_clients);
  if (options.limits.clients < arguments.max_clients) {
    spdlog::warn("kv: at most {} clients, for so many files may be open: see ulimit -n", options.limits.clients);
  }
  options.limits.request_bytes = bytes_of(arguments.max_request);
  options.limits.output_pause_bytes = bytes_of(arguments.output_pause);
  options.limits.output_limit_bytes = bytes_of(arguments.output_limit);
  options.limits.buffer_bytes = bytes_of(arguments.buffers);
  options.limits.stalled = std::chrono::seconds(arguments.stalled);
  options.limits.idle = std::chrono::seconds(arguments.idle);
  return options;
}

kv::Server* serving = nullptr;  // for the signal handler

void stop_serving(int) {
  serving->stop();
}

void on_signals(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) (void)::sigaction(signal, &action, nullptr);
}

/// What tells redis-cli the address, unless it is the one that it takes by itself.
std::string host_option(const std::string& bind) {
  if (bind == "127.0.0.1" || bind == "localhost" || bind == "0.0.0.0") return "";
  return fmt::format("-h {} ", bind == "::" ? "::1" : bind);
}

void run_node() {
  const auto arguments = cluster::current_job().get<KvArguments>();
  const char* const id = std::getenv("ATOLL_NODE");
  const auto port = std::uint16_t(arguments.port + unsigned(id != nullptr ? std::atoi(id) : 0));
  base::Fd listener =
      kv::listen_at(arguments.bind, port);  // before joining, so that a port that is taken ends all soon
  const kv::ServiceOptions options = service_options(arguments, port);
  Node node;
  HashMap map(node, "kv");
  kv::Service service(node, map, options);
  kv::Server server(service, std::move(listener), arguments.threads, node.id() == 0);
  serving = &server;
  on_signals(stop_serving);
  std::string text = fmt::format("node {} listens on {}:{}\n", node.id(), arguments.bind, port);
  if (node.id() == 0)
    text += fmt::format("Try `redis-cli {}-p {}`; Ctrl-C ends it.\n", host_option(arguments.bind), port);
  (void)!::write(STDOUT_FILENO, text.data(), text.size());
  server.run();
  on_signals(SIG_DFL);  // the node leaves now; a second signal does not wait for that
}

void add_limits(CLI::App& serve, KvArguments& arguments) {
  serve.add_option("--max-clients", arguments.max_clients, "Clients at once, of each node")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000'000));
  const auto size = [&serve](const char* name, std::string& value, const char* what, std::uint64_t min) {
    serve.add_option(name, value, what)
        ->type_name("SIZE")
        ->capture_default_str()
        ->check(CLI::Validator([min](const std::string& text) { return check_size(text, min); }, "", "size"));
  };
  size("--max-request", arguments.max_request, "The largest request, and what MULTI may queue", 4096);
  size("--output-pause", arguments.output_pause,
       "While so much waits for a client to take it, no more of its requests are run", 4096);
  size("--output-limit", arguments.output_limit, "A client whom more waits for is cut", 64 << 10);
  size("--buffers", arguments.buffers, "What all clients of a node may hold; beyond, who holds most is cut", 1 << 20);
  serve.add_option("--stalled", arguments.stalled, "A client that takes nothing of what waits for it so long is cut")
      ->type_name("SECONDS")
      ->capture_default_str()
      ->check(CLI::Range(1, 86400));
  serve.add_option("--idle", arguments.idle, "A client that asks nothing for so long is cut; 0: never")
      ->type_name("SECONDS")
      ->capture_default_str()
      ->check(CLI::Range(0, 86400 * 365));
}

void add_memory(CLI::App& serve, KvArguments& arguments) {
  const auto size = [&serve](const char* name, std::string& value, const char* what, const char* variable,
                             std::uint64_t min) {
    serve.add_option(name, value, what)
        ->type_name("SIZE")
        ->envname(variable)
        ->capture_default_str()
        ->check(CLI::Validator([min](const std::string& text) { return check_size(text, min); }, "", "size"));
  };
  size("--memory", arguments.memory, "Memory that each node brings", "ATOLL_MEMORY", 1 << 20);
  size("--cache", arguments.cache, "Room for other nodes' lines, in each node", "ATOLL_CACHE", 64 << 10);
  serve.add_option("--line", arguments.line, "Bytes that move and are owned together: a power of two, 64 to 4096")
      ->type_name("BYTES")
      ->envname("ATOLL_LINE")
      ->capture_default_str()
      ->check(CLI::IsMember({"64", "128", "256", "512", "1024", "2048", "4096"}));
}

}  // namespace

void add_kv(CLI::App& app) {
  auto arguments = std::make_shared<KvArguments>();
  CLI::App* kv = app.add_subcommand("kv", "A key-value store for Redis clients");
  kv->require_subcommand(1);
  CLI::App* serve = kv->add_subcommand(
      "serve", "Run a cluster on this host; its nodes listen on one port after the other, and all have the same keys");
  serve->add_option("-n,--nodes", arguments->nodes, "How many processes to start")
      ->type_name("NODES")
      ->capture_default_str()
      ->check(CLI::Range(1u, unsigned(cluster::kMaxNodes)));
  serve->add_option("-p,--port", arguments->port, "Port of the first node; those of the others follow")
      ->capture_default_str()
      ->check(CLI::Range(1, 65535));
  serve->add_option("--threads", arguments->threads, "Threads that serve clients, of each node")
      ->capture_default_str()
      ->check(CLI::Range(1, 256));
  serve->add_option("--bind", arguments->bind, "Address to listen on")->type_name("ADDRESS")->capture_default_str();
  serve->add_option("--password-file", arguments->password_file, "Clients must give the first line of this file")
      ->type_name("FILE");
  serve->add_flag("--no-password", arguments->no_password, "Let others than this host in without a password");
  add_memory(*serve, *arguments);
  add_limits(*serve, *arguments);
  auto log = std::make_shared<LogArguments>();
  add_log_options(*serve, *log);
  serve->footer(
      "Examples:\n"
      "  atoll kv serve -n 2 --port 7000              then: redis-cli -p 7000, redis-cli -p 7001\n"
      "  atoll kv serve --memory 4G --cache 512M\n"
      "  atoll kv serve --bind 0.0.0.0 --password-file secret\n\n"
      "SIGINT and SIGTERM end it; what was stored is gone then, unless it was logged (--log). See docs/kv.md.");
  serve->callback([arguments, log] {
    if (const int code = start(*arguments, *log); code != 0) throw CLI::RuntimeError(code);
  });
  // What `atoll kv serve` starts its nodes with; nobody needs to see it.
  app.add_subcommand("kv-node", "A node of `atoll kv serve`")->group("")->callback([] { run_node(); });
}

}  // namespace atoll::tools
