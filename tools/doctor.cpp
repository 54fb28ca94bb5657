// `atoll doctor`: is this host fit for nodes, and what do its transports do?
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "bench/channels.hpp"
#include "cluster/spawn.hpp"
#include "cluster/tcp.hpp"
#include "commands.hpp"
#include "doctor_checks.hpp"

namespace atoll::tools {
namespace {

using namespace std::chrono_literals;
using cluster::Clock;

constexpr auto kMasterPatience = 5s;
constexpr const char* kPairCommand = "doctor-pair";

struct DoctorArguments {
  std::string address, listen, master, json, root;
  std::vector<std::string> transports;
  unsigned patience_s = 30;  // two nodes take two or three; ten on a simulated device
  bool no_measure = false;
};

const char* word_for(Health health) {
  switch (health) {
    case Health::kOk: return "ok";
    case Health::kWarning: return "warning";
    case Health::kProblem: return "problem";
  }
  return "";
}

/// What was found. Shows each finding when it comes.
class Report {
 public:
  /// `json`: a file for the findings, one object per line; empty: none. Throws Error.
  explicit Report(const std::string& json) {
    if (json.empty()) return;
    file_.open(json);
    if (!file_) throw Error(fmt::format("cannot write {}: {}", json, std::strerror(errno)));
  }
  void add(const Finding& finding) {
    ++counts_[std::size_t(finding.health)];
    fmt::print("{:<8} {:<16} {}\n", word_for(finding.health), finding.what, finding.seen);
    const bool amiss = finding.health != Health::kOk && !finding.remedy.empty();
    if (amiss) fmt::print("{:<25} -> {}\n", "", finding.remedy);
    std::fflush(stdout);
    if (!file_.is_open()) return;
    nlohmann::json line = {{"what", finding.what}, {"health", word_for(finding.health)}, {"seen", finding.seen}};
    if (amiss) line["remedy"] = finding.remedy;
    if (!finding.figures.empty()) line["figures"] = finding.figures;
    file_ << line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
  }
  /// Says what it comes to. True when nodes can run. Throws Error when the file could not be written.
  bool conclude() {
    const unsigned warnings = counts_[std::size_t(Health::kWarning)], problems = counts_[std::size_t(Health::kProblem)];
    fmt::print("{}: {} problem{}, {} warning{}\n",
               problems == 0 ? "This host can run nodes" : "This host cannot run nodes as asked for", problems,
               problems == 1 ? "" : "s", warnings, warnings == 1 ? "" : "s");
    if (file_.is_open() && !file_) throw Error("the file for the findings could not be written");
    return problems == 0;
  }

 private:
  unsigned counts_[3] = {};
  std::ofstream file_;
};

void drain(int fd, std::string& text) {
  char buffer[4096];
  for (ssize_t got; (got = ::read(fd, buffer, sizeof(buffer))) > 0;) text.append(buffer, std::size_t(got));
}

/// Reads what a process says until it ends. False when it has not by the deadline.
bool wait_for_end(const cluster::ChildProcess& process, Clock::time_point deadline, std::string& out,
                  std::string& err) {
  while (true) {
    // A pipe that has ended would be ready for ever: it is read again when the process ends, or after a while.
    pollfd end{process.exit_fd(), POLLIN, 0};
    const bool ended = ::poll(&end, 1, std::min(cluster::poll_timeout(deadline), 20)) > 0;
    drain(process.out.get(), out);
    drain(process.err.get(), err);
    if (ended) return true;
    if (Clock::now() >= deadline) return false;
  }
}

/// The first thing that `atoll` complained about.
std::string complaint_in(const std::string& text) {
  constexpr std::string_view kOurs = "atoll: ";
  std::size_t at = text.find(kOurs);
  at = at == std::string::npos ? 0 : at + kOurs.size();
  const std::string line = text.substr(at, text.find('\n', at) - at);
  return line.empty() ? "without a word" : line;
}

/// Lets two nodes talk, in processes of their own: whatever a provider does, this one goes on.
std::vector<Finding> measure(const std::string& transport, const std::string& address, std::chrono::seconds patience) {
  cluster::SpawnSpec spec;
  spec.argv = {"/proc/self/exe", kPairCommand, transport, address};
  spec.input = cluster::ChildInput::kNull;
  const auto failed = [&](const std::string& why) {
    return std::vector<Finding>{{Health::kProblem, fmt::format("{} ping-pong", transport), why,
                                 fmt::format("atoll bench fabric --quick --transport {}{}{} shows all that is said",
                                             transport, address.empty() ? "" : " --address ", address)}};
  };
  cluster::ChildProcess pair;
  if (const int error = pair.start(spec); error != 0) return failed(std::strerror(error));
  std::string out, err;
  if (!wait_for_end(pair, Clock::now() + patience, out, err)) {
    pair.kill(SIGTERM);
    (void)wait_for_end(pair, Clock::now() + cluster::kKillDelay, out, err);
    return failed(fmt::format("two nodes were not done after {} s", patience.count()));
  }
  const int code = cluster::exit_code(pair.reap());
  const nlohmann::json found = nlohmann::json::parse(out, nullptr, false);
  if (code != 0 || !found.is_object()) return failed(fmt::format("failed: {}", complaint_in(err)));
  const auto figures = found.get<bench::ChannelFigures>();
  return {{Health::kOk,
           fmt::format("{} control", transport),
           fmt::format("a message there and back: {:.2f} us; {:.0f} thousand/s each way, 16 at a time",
                       figures.control_us, figures.control_per_s / 1e3),
           "",
           {{"us", figures.control_us}, {"per_s", figures.control_per_s}}},
          {Health::kOk,
           fmt::format("{} data", transport),
           fmt::format("a message there, 512 B with notice back: {:.2f} us; {:.0f} MB/s, 16 at a time", figures.data_us,
                       figures.data_mb_per_s),
           "",
           {{"us", figures.data_us}, {"mb_per_s", figures.data_mb_per_s}}},
          {Health::kOk,
           fmt::format("{} stream", transport),
           fmt::format("lines of 4 KiB: {:.0f} MB/s; of 64 KiB: {:.0f} MB/s", figures.stream_4k_mb_per_s,
                       figures.stream_64k_mb_per_s),
           "",
           {{"mb_per_s_4k", figures.stream_4k_mb_per_s}, {"mb_per_s_64k", figures.stream_64k_mb_per_s}}}};
}

void examine_machine(const HostFiles& files, const Options& options, Report& report) {
  report.add(check_processors(files, std::thread::hardware_concurrency()));
  report.add(check_membarrier());
  for (const Finding& finding : check_memory(files, options)) report.add(finding);
  report.add(check_locked_memory(files, options));
  report.add(check_address_space(files));
  report.add(check_open_files(files));
  report.add(check_clock_source(files));
  report.add(check_boot_clock());
  report.add(check_time_of_day());
}

/// Those that were asked for, which then must be there; else all that Atoll has a name for.
void examine_transports(const DoctorArguments& arguments, const HostFiles& files, const Options& options,
                        Report& report) {
  std::vector<std::string> names = arguments.transports;
  if (names.empty()) names = {options.transport};
  std::erase(names, "auto");
  const bool required = !names.empty();
  if (!required) names = {"shm", "tcp", "verbs"};
  std::vector<std::pair<std::string, std::string>> usable;
  for (const std::string& name : names) {
    const bool needed = required || (name == "tcp" && !arguments.master.empty());
    const FoundTransport found = check_transport(files, name, options.address, needed);
    report.add(found.finding);
    if (found.usable) usable.emplace_back(name, found.address);
  }
  if (arguments.no_measure) return;
  for (const auto& [name, address] : usable) {
    for (const Finding& finding : measure(name, address, std::chrono::seconds(arguments.patience_s)))
      report.add(finding);
  }
}

bool examine(DoctorArguments arguments) {
  const HostFiles files{arguments.root};
  Options options = Options::from_environment();
  if (!arguments.address.empty()) options.address = arguments.address;
  const char* const master = std::getenv("ATOLL_MASTER");
  if (arguments.master.empty() && master != nullptr && cluster::is_tcp_address(master)) arguments.master = master;
  if (arguments.listen.empty()) {
    arguments.listen = cluster::TcpAddress{options.address.empty() ? "127.0.0.1" : options.address, 0}.text();
  }
  Report report(arguments.json);
  examine_machine(files, options, report);
  for (const Finding& finding : check_rdma(files)) report.add(finding);
  report.add(check_listen(arguments.listen));
  report.add(check_port_range(files));
  if (!arguments.master.empty()) report.add(check_master(arguments.master, kMasterPatience));
  report.add(check_libfabric(options.address));
  examine_transports(arguments, files, options, report);
  return report.conclude();
}

/// The command that `measure` starts.
void add_pair(CLI::App& app) {
  auto words = std::make_shared<std::vector<std::string>>();
  CLI::App* pair = app.add_subcommand(kPairCommand, "")->group("");
  pair->add_option("words", *words)->expected(2);
  pair->callback(
      [words] { fmt::print("{}\n", nlohmann::json(bench::measure_channels(words->at(0), words->at(1))).dump()); });
}

}  // namespace

void add_doctor(CLI::App& app) {
  auto arguments = std::make_shared<DoctorArguments>();
  CLI::App* doctor = app.add_subcommand("doctor", "Check whether this host can run nodes, and what its transports do");
  doctor
      ->add_option("--transport", arguments->transports,
                   "This one must work: shm, tcp, verbs, ...; may be given several times [all that this host has]")
      ->type_name("NAME")
      ->check(CLI::Validator([](const std::string& name) { return name.empty() ? "give a name" : ""; }, "", "name"));
  doctor->add_option("--address", arguments->address, "Address of this host that other hosts reach [ATOLL_ADDRESS]")
      ->type_name("ADDRESS");
  doctor->add_option("--listen", arguments->listen, "Where a master shall listen on this host")
      ->type_name("HOST:PORT")
      ->check(CLI::Validator(check_address, "", "address"));
  doctor->add_option("--master", arguments->master, "A master that nodes of this host shall reach [ATOLL_MASTER]")
      ->type_name("HOST:PORT")
      ->check(CLI::Validator(check_address, "", "address"));
  doctor->add_flag("--no-measure", arguments->no_measure, "Do not let two nodes talk over each transport");
  doctor->add_option("--patience", arguments->patience_s, "How long two nodes may take over a transport")
      ->type_name("SECONDS")
      ->capture_default_str()
      ->check(CLI::Range(1u, 3600u).description(""));
  doctor->add_option("--json", arguments->json, "Write the findings to a file too, one JSON object per line")
      ->type_name("FILE");
  doctor->add_option("--root", arguments->root, "Where the kernel's files are, for tests")->group("");
  doctor->footer(
      "Each line is ok, a warning (nodes run, but not as well as they could) or a problem, with what to do about it.\n"
      "ATOLL_MEMORY and ATOLL_CACHE say how large nodes shall be. The exit code is 0 when nodes can run here, 1 when\n"
      "there is a problem.\n\n"
      "Examples:\n"
      "  atoll doctor\n"
      "  atoll doctor --transport verbs --address 10.0.0.2\n"
      "  ATOLL_KEY_FILE=cluster.key atoll doctor --master 10.0.0.1:7470 --no-measure");
  doctor->callback([arguments] {
    if (!examine(*arguments)) throw CLI::RuntimeError(1);
  });
  add_pair(app);
}

}  // namespace atoll::tools
