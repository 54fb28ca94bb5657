// `atoll run`: starts a program as the nodes of a cluster.
#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <filesystem>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "cluster/control.hpp"
#include "cluster/launcher.hpp"
#include "commands.hpp"
#include "lease_option.hpp"
#include "log_options.hpp"

namespace atoll::tools {
namespace {

struct RunArguments {
  unsigned nodes = 0;
  std::string memory = "256M", cache = "64M", line = "512", consistency = "pso", read_in_place = "on",
              write_at_home = "on", transport = "auto", address, file_space = "0", file_memory = "64M";
  bool keep_going = false, no_prefix = false;
  double grace = 3.0, lease = double(cluster::kDefaultLease_ms) / 1000;
  std::string hosts, ssh = "ssh -o BatchMode=yes", atoll, listen, key_file;
  LogArguments log;
};

/// Empty when `text` is a number of nodes, else what to give instead. A validator, as CLI11 wants it.
std::string check_nodes(const std::string& text) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc{} && end == text.data() + text.size() && value >= 1 && value <= cluster::kMaxNodes) return {};
  return fmt::format("\"{}\" nodes: give a number from 1 to {}, for example -n 4", text, cluster::kMaxNodes);
}

std::string check_size(const std::string& text, std::uint64_t min, const char* example) {
  const auto bytes = base::parse_bytes(text);
  if (!bytes.ok()) return fmt::format("\"{}\": {}", text, bytes.status().what());
  if (*bytes >= min) return {};
  return fmt::format("\"{}\" is too small: give at least {}, for example {}", text, base::format_bytes(min), example);
}

std::string check_memory(const std::string& text) {
  return check_size(text, 1u << 20, "256M");
}

std::string check_cache(const std::string& text) {
  return check_size(text, 64 * 64, "64M");
}

std::string check_file_space(const std::string& text) {
  return check_size(text, 0, "64G");
}

std::string check_file_memory(const std::string& text) {
  return check_size(text, 1u << 16, "1G");
}

std::string check_line(const std::string& text) {
  const auto bytes = base::parse_bytes(text);
  if (bytes.ok() && std::has_single_bit(*bytes) && *bytes >= 64 && *bytes <= 4096) return {};
  return fmt::format("\"{}\": give a power of two from 64 to 4096, for example 512", text);
}

Consistency parse_consistency(const std::string& text) {
  if (text == "tso") return Consistency::kTso;
  return text == "sc" ? Consistency::kSc : Consistency::kPso;
}

/// The program and its arguments: what stood behind "--", or, without one, from the first word that is no option.
std::vector<std::string> command_line(std::vector<std::string> before, const std::vector<std::string>& behind) {
  if (!before.empty() && before.front().starts_with('-')) {
    throw CLI::ParseError(fmt::format("there is no option {}", before.front()), CLI::ExitCodes::ExtrasError);
  }
  if (!before.empty() && !behind.empty()) {
    throw CLI::ParseError(fmt::format("\"{}\" before the --: give the program behind it", before.front()),
                          CLI::ExitCodes::ExtrasError);
  }
  if (before.empty()) before = behind;
  if (before.empty()) {
    throw CLI::ParseError("no program to run: give it behind --, for example atoll run -n 4 -- ./program arguments",
                          CLI::ExitCodes::RequiredError);
  }
  return before;
}

/// The words of a command, which blanks set apart.
std::vector<std::string> words_of(const std::string& command) {
  std::istringstream stream(command);
  return {std::istream_iterator<std::string>(stream), {}};
}

/// The key of the file or of the environment; else one for this run alone, which nobody has to know.
cluster::Key find_key(const std::string& file) {
  if (!file.empty()) return cluster::Key::read_file(file);
  if (auto key = cluster::Key::from_environment()) return *key;
  return cluster::Key::generate();
}

/// Where the other hosts reach the master: as given, else this host's address towards the first of them.
cluster::TcpAddress find_address(const std::string& listen, const cluster::Host& first) {
  if (!listen.empty()) return cluster::parse_tcp_address(listen, "--listen");
  return {cluster::address_towards(first.name), 0};
}

/// Where to start the nodes, and how many of them: all slots, or as many as were asked for.
void add_hosts(const RunArguments& arguments, cluster::LaunchSpec& spec) {
  const std::string here = std::filesystem::read_symlink("/proc/self/exe").string();
  auto hosts = cluster::read_hosts(arguments.hosts);
  cluster::TcpAddress address = find_address(arguments.listen, hosts.front());
  cluster::Remote remote{std::move(hosts), words_of(arguments.ssh), arguments.atoll.empty() ? here : arguments.atoll,
                         std::move(address), find_key(arguments.key_file)};
  if (remote.ssh.empty()) throw CLI::ValidationError("--ssh", "give a command, for example ssh -o BatchMode=yes");
  if (spec.nodes == 0) spec.nodes = cluster::slots_of(remote.hosts);
  spec.remote = std::move(remote);
}

/// REQUIRES: the validators took the arguments.
cluster::LaunchSpec make_spec(const RunArguments& arguments, std::vector<std::string> program) {
  cluster::LaunchSpec spec;
  spec.options = Options::from_environment();  // for what has no option here
  spec.argv = std::move(program);
  spec.nodes = NodeId(arguments.nodes);
  spec.options.memory_bytes = base::parse_bytes(arguments.memory).value();
  spec.options.cache_bytes = base::parse_bytes(arguments.cache).value();
  spec.options.line_bytes = std::uint32_t(base::parse_bytes(arguments.line).value());
  spec.options.file_space_bytes = base::parse_bytes(arguments.file_space).value();
  spec.options.file_memory_bytes = base::parse_bytes(arguments.file_memory).value();
  spec.options.consistency = parse_consistency(arguments.consistency);
  spec.options.read_in_place = arguments.read_in_place == "on";
  spec.options.write_at_home = arguments.write_at_home == "on";
  spec.options.transport = arguments.transport;
  spec.options.address = arguments.address;
  spec.prefix_output = !arguments.no_prefix;
  spec.keep_going = arguments.keep_going;
  spec.lease = lease_of(arguments.lease);
  spec.grace = std::chrono::milliseconds(std::int64_t(arguments.grace * 1000));
  if (spec.options.cache_bytes < 64ull * spec.options.line_bytes) {
    throw CLI::ValidationError(
        "--cache", fmt::format("\"{}\" holds less than 64 lines of {} bytes: give at least {}", arguments.cache,
                               spec.options.line_bytes, base::format_bytes(64ull * spec.options.line_bytes)));
  }
  if (!arguments.hosts.empty()) {
    add_hosts(arguments, spec);
  } else if (spec.nodes == 0) {
    throw CLI::ParseError("give -n NODES, or --hosts FILE", CLI::ExitCodes::RequiredError);
  }
  apply(arguments.log, spec);
  return spec;
}

void add_host_options(CLI::App& run, RunArguments& arguments) {
  CLI::Option* hosts =
      run.add_option("--hosts", arguments.hosts, "Start the nodes on the hosts that this file lists, over ssh")
          ->type_name("FILE");
  run.add_option("--listen", arguments.listen,
                 "Where they reach the master (default: this host's address towards the first of them, any port)")
      ->type_name("HOST:PORT")
      ->needs(hosts);
  run.add_option("--key-file", arguments.key_file,
                 "The cluster key (default: ATOLL_KEY_FILE, ATOLL_KEY, or one for this run alone)")
      ->type_name("FILE")
      ->needs(hosts);
  run.add_option("--ssh", arguments.ssh, "The command that leads to another host")
      ->type_name("COMMAND")
      ->capture_default_str()
      ->needs(hosts);
  run.add_option("--atoll", arguments.atoll, "Where this command is on the other hosts (default: where it is here)")
      ->type_name("PATH")
      ->needs(hosts);
}

}  // namespace

void add_run(CLI::App& app, const std::vector<std::string>& program) {
  auto arguments = std::make_shared<RunArguments>();
  CLI::App* run = app.add_subcommand("run",
                                     "Run a program as the nodes of a cluster, on this host or on others: "
                                     "atoll run -n NODES [OPTIONS] -- program [arguments...]");
  run->add_option("-n,--nodes", arguments->nodes, "How many processes to start (with --hosts: all slots)")
      ->type_name("NODES")
      ->check(CLI::Validator(check_nodes, "", "nodes"));
  run->add_option("--memory", arguments->memory, "Memory that each node brings")
      ->type_name("SIZE")
      ->envname("ATOLL_MEMORY")
      ->capture_default_str()
      ->check(CLI::Validator(check_memory, "", "memory"));
  run->add_option("--cache", arguments->cache, "Room for other nodes' lines, in each node")
      ->type_name("SIZE")
      ->envname("ATOLL_CACHE")
      ->capture_default_str()
      ->check(CLI::Validator(check_cache, "", "cache"));
  run->add_option("--file-space", arguments->file_space,
                  "How long all files that a node opens may be together (docs/files.md); 0: it opens none")
      ->type_name("SIZE")
      ->envname("ATOLL_FILE_SPACE")
      ->capture_default_str()
      ->check(CLI::Validator(check_file_space, "", "file space"));
  run->add_option("--file-memory", arguments->file_memory, "Memory for pages of files, in each node")
      ->type_name("SIZE")
      ->envname("ATOLL_FILE_MEMORY")
      ->capture_default_str()
      ->check(CLI::Validator(check_file_memory, "", "file memory"));
  run->add_option("--line", arguments->line, "Bytes that move and are owned together: a power of two, 64 to 4096")
      ->type_name("BYTES")
      ->envname("ATOLL_LINE")
      ->capture_default_str()
      ->check(CLI::Validator(check_line, "", "line"));
  run->add_option("--consistency", arguments->consistency, "Order of a thread's writes")
      ->envname("ATOLL_CONSISTENCY")
      ->capture_default_str()
      ->check(CLI::IsMember({"pso", "tso", "sc"}));
  run->add_option("--read-in-place", arguments->read_in_place, "Read lines that are not cached at their home directly")
      ->envname("ATOLL_READ_IN_PLACE")
      ->capture_default_str()
      ->check(CLI::IsMember({"on", "off"}));
  run->add_option("--write-at-home", arguments->write_at_home,
                  "Send small writes of lines that are not cached to their home")
      ->envname("ATOLL_WRITE_AT_HOME")
      ->capture_default_str()
      ->check(CLI::IsMember({"on", "off"}));
  run->add_option("--transport", arguments->transport,
                  "How nodes reach each other: auto, shm, tcp, verbs, or a "
                  "provider of libfabric")
      ->envname("ATOLL_TRANSPORT")
      ->capture_default_str();
  run->add_option("--address", arguments->address, "Address of this host for transports between hosts")
      ->envname("ATOLL_ADDRESS");
  run->add_flag("--keep-going", arguments->keep_going, "Let the others go on when a node dies");
  run->add_option("--grace", arguments->grace, "From the death of a node to the end of the others")
      ->type_name("SECONDS")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 86400.0));
  add_lease_option(*run, arguments->lease);
  add_log_options(*run, arguments->log);
  run->add_flag("--no-prefix", arguments->no_prefix, "Do not put [node] before the lines of the program's output");
  add_host_options(*run, *arguments);
  run->prefix_command();
  run->footer(
      "The exit code is that of the first node that failed (128 + signal for a signal), 127 when there is no\n"
      "such program, 126 when it cannot be executed.\n\n"
      "Examples:\n"
      "  atoll run -n 4 -- ./sum --size 1000\n"
      "  atoll run -n 2 --memory 4G --cache 512M -- ./graph input.bin\n"
      "  atoll run -n 8 --keep-going --no-prefix -- ./server\n"
      "  atoll run -n 4 --log process --log-dir ./logs --restart 5 -- ./server\n"
      "  atoll run --hosts hosts.txt -- ./graph input.bin");
  run->callback([run, arguments, program] {
    const int code = cluster::launch(make_spec(*arguments, command_line(run->remaining(), program)));
    if (code != 0) throw CLI::RuntimeError(code);
  });
}

}  // namespace atoll::tools
