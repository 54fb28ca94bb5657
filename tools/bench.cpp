// `atoll bench`: measures Atoll on this machine.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "base/units.hpp"
#include "bench/array.hpp"
#include "bench/buffer/buffer.hpp"
#include "bench/buffer/rival.hpp"
#include "bench/channels.hpp"
#include "bench/darray.hpp"
#include "bench/fabric.hpp"
#include "bench/gam.hpp"
#include "bench/log.hpp"
#include "bench/micro.hpp"
#include "bench/tpcc/tpcc.hpp"
#include "bench/ycsb.hpp"
#include "commands.hpp"

namespace atoll::tools {
namespace {

void exit_with(int code) {
  if (code != 0) throw CLI::RuntimeError(code);
}

void add_common(CLI::App& suite, bench::Settings& settings) {
  suite.add_flag("--quick", settings.quick, "Fewer and shorter runs: about a minute in all");
  suite.add_option("--repetitions", settings.repetitions, "How often each case is measured; the median counts")
      ->type_name("N")
      ->check(CLI::Range(1, 1000).description(""));
  suite.add_option("--json", settings.json, "Write the results to a file too, one JSON object per line")
      ->type_name("FILE");
}

/// A suite of named cases.
CLI::App& add_suite(CLI::App& bench, const char* name, const char* what, const std::vector<std::string>& cases,
                    int (*run)(const bench::Settings&)) {
  auto settings = std::make_shared<bench::Settings>();
  CLI::App* suite = bench.add_subcommand(name, what);
  add_common(*suite, *settings);
  suite->add_option("--case", settings->cases, "Only this case; may be given several times")
      ->type_name("NAME")
      ->check(CLI::IsMember(cases).description(""));
  suite->callback([settings, run] { exit_with(run(*settings)); });
  return *suite;
}

void add_micro(CLI::App& bench) {
  const std::vector<std::string> cases = bench::micro_cases();
  add_suite(bench, "micro", "What single operations cost, each against the bare machine", cases, bench::run_micro)
      .footer(fmt::format("Cases: {}\n\nExamples:\n"
                          "  atoll bench micro --quick\n"
                          "  atoll bench micro --case read_cold --case lock_contended --repetitions 20",
                          fmt::join(cases, ", ")));
}

void add_array(CLI::App& bench) {
  const std::vector<std::string> cases = bench::array_cases();
  add_suite(bench, "array", "What arrays and operators cost, against plain loops, locks and atomics", cases,
            bench::run_array)
      .footer(fmt::format("Cases: {}\n\nExamples:\n"
                          "  atoll bench array --quick\n"
                          "  atoll bench array --case get_seq --case prefetch_gain",
                          fmt::join(cases, ", ")));
}

struct GamArguments {
  bench::GamSettings settings;
  std::string workload = "rw", consistency = "pso", working_set;
};

/// REQUIRES: the validators took the arguments.
bench::GamSettings gam_settings(const GamArguments& arguments) {
  bench::GamSettings settings = arguments.settings;
  if (arguments.workload == "lock") settings.point.workload = bench::Workload::kLock;
  if (arguments.workload == "lockrw") settings.point.workload = bench::Workload::kLockedReadWrite;
  if (arguments.consistency == "tso") settings.point.consistency = Consistency::kTso;
  if (!arguments.working_set.empty()) settings.working_set = base::parse_bytes(arguments.working_set).value();
  if (settings.remote_ratio >= 0) settings.point.remote_ratio = settings.remote_ratio;
  return settings;
}

void add_gam_point(CLI::App& gam, GamArguments& arguments) {
  bench::GamPoint& point = arguments.settings.point;
  const auto ratio = [&gam](const char* name, double& value, const char* what) {
    return gam.add_option(name, value, what)->type_name("0..1")->check(CLI::Range(0.0, 1.0).description(""));
  };
  gam.add_option("--nodes", point.nodes, "Nodes of the cluster")
      ->capture_default_str()
      ->type_name("N")
      ->check(CLI::Range(1, 64).description(""));
  ratio("--read-ratio", point.read_ratio, "Part of the operations that read")->capture_default_str();
  ratio("--remote-ratio", arguments.settings.remote_ratio,
        "Part of the working set that lives on other nodes [(nodes - 1) / nodes]");
  ratio("--locality", point.locality, "Probability that an operation stays in the line of the one before")
      ->capture_default_str();
  ratio("--sharing", point.sharing, "Part of the operations that access what all nodes share")->capture_default_str();
  gam.add_option("--workload", arguments.workload, "rw: read and write; lock: lock and unlock; lockrw: both")
      ->type_name("WORKLOAD")
      ->capture_default_str()
      ->check(CLI::IsMember({"rw", "lock", "lockrw"}).description(""));
  gam.add_option("--consistency", arguments.consistency, "Order of a thread's writes: pso or tso")
      ->type_name("ORDER")
      ->capture_default_str()
      ->check(CLI::IsMember({"pso", "tso"}).description(""));
}

/// Empty when `text` is a size, else what is wrong with it. A validator, as CLI11 wants it.
std::string check_working_set(const std::string& text) {
  constexpr std::uint64_t kLeast = 256u << 10, kMost = 1u << 30;
  const auto bytes = base::parse_bytes(text);
  if (!bytes.ok()) return fmt::format("\"{}\": {}", text, bytes.status().what());
  if (*bytes >= kLeast && *bytes <= kMost) return {};
  return fmt::format("\"{}\": give {} to {}, for example 8M", text, base::format_bytes(kLeast),
                     base::format_bytes(kMost));
}

void add_gam(CLI::App& bench) {
  auto arguments = std::make_shared<GamArguments>();
  CLI::App* gam = bench.add_subcommand("gam", "The micro benchmark of GAM's paper: throughput of a cluster");
  add_common(*gam, arguments->settings.common);
  add_gam_point(*gam, *arguments);
  gam->add_option("--working-set", arguments->working_set, "What each node accesses [8M, with --quick 2M]")
      ->type_name("SIZE")
      ->check(CLI::Validator(check_working_set, "", "working set"));
  gam->add_option("--ops", arguments->settings.operations, "Operations per node and run, instead of a time")
      ->type_name("N")
      ->check(CLI::Validator(CLI::PositiveNumber).description(""));
  gam->add_option("--figure", arguments->settings.figure,
                  "Sweep as a figure of the paper does: 6, 7, 8, 9, 10 or all. Only --nodes, --working-set and --ops "
                  "count then")
      ->type_name("FIGURE")
      ->check(CLI::IsMember({"6", "7", "8", "9", "10", "all"}).description(""));
  gam->footer(
      "Examples:\n"
      "  atoll bench gam --figure all --quick\n"
      "  atoll bench gam --nodes 2 --workload lock --read-ratio 0.9 --sharing 0.1");
  gam->callback([arguments] { exit_with(bench::run_gam(gam_settings(*arguments))); });
}

void add_darray(CLI::App& bench) {
  auto settings = std::make_shared<bench::DarraySettings>();
  CLI::App* darray = bench.add_subcommand("darray", "The micro benchmarks of DArray's paper: accesses of an array");
  add_common(*darray, settings->common);
  const std::vector<std::string> figures = bench::darray_figures();
  darray->add_option("--figure", settings->figure, fmt::format("A figure of the paper: {}", fmt::join(figures, ", ")))
      ->type_name("FIGURE")
      ->capture_default_str()
      ->check(CLI::IsMember(figures).description(""));
  darray->footer(
      "Examples:\n"
      "  atoll bench darray --quick\n"
      "  atoll bench darray --figure 14 --repetitions 5");
  darray->callback([settings] { exit_with(bench::run_darray(*settings)); });
}

void add_ycsb_workload(CLI::App& ycsb, bench::YcsbSettings& settings) {
  ycsb.add_option("--workload", settings.workload, "One workload, with the latencies of its operations: A to F, custom")
      ->type_name("NAME")
      ->check(CLI::IsMember({"A", "B", "C", "D", "E", "F", "custom"}).description(""));
  ycsb.add_option("--get-ratio", settings.get_ratio, "Part of the operations that read, for a custom workload")
      ->type_name("0..1")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1.0).description(""));
  ycsb.add_option("--zipf", settings.zipf, "How skewed the zipfian and latest distributions are")
      ->type_name("0..1")
      ->capture_default_str()
      ->check(CLI::Range(0.01, 0.999).description(""));
  ycsb.add_option("--distribution", settings.distribution, "zipfian, latest or uniform [the workload's own]")
      ->type_name("NAME")
      ->check(CLI::IsMember({"zipfian", "latest", "uniform"}).description(""));
}

void add_ycsb_size(CLI::App& ycsb, bench::YcsbSettings& settings) {
  ycsb.add_option("--records", settings.records, "Records that are loaded [100000, quick: half of it]")
      ->type_name("N")
      ->check(CLI::Range(std::uint64_t{100}, std::uint64_t{100'000'000}).description(""));
  ycsb.add_option("--value-size", settings.value_size, "Bytes of a value; keys have 16")
      ->type_name("BYTES")
      ->capture_default_str()
      ->check(CLI::Range(std::uint64_t{bench::ycsb::kLeastValue}, std::uint64_t{60'000}).description(""));
  ycsb.add_option("--operations", settings.operations, "Operations per thread and run, instead of a time")
      ->type_name("N")
      ->check(CLI::Validator(CLI::PositiveNumber).description(""));
  ycsb.add_option("--seconds", settings.seconds, "How long a run takes [1, quick: 0.2]")
      ->type_name("S")
      ->check(CLI::Range(0.001, 3600.0).description(""));
  ycsb.add_option("--nodes", settings.nodes, "Nodes of the cluster [2; what a case or figure is about]")
      ->type_name("N")
      ->check(CLI::Range(1, 64).description(""));
  ycsb.add_option("--threads", settings.threads, "Threads of a node [1; figures: 1 to 4]")
      ->type_name("N")
      ->check(CLI::Range(1, 64).description(""));
}

void add_ycsb(CLI::App& bench) {
  auto settings = std::make_shared<bench::YcsbSettings>();
  CLI::App* ycsb = bench.add_subcommand("ycsb", "YCSB on hash maps, against tables that lock their buckets");
  add_common(*ycsb, settings->common);
  const std::vector<std::string> cases = bench::ycsb_cases(), figures = bench::ycsb_figures();
  CLI::Option* one = ycsb->add_option("--case", settings->common.cases, "Only this case; may be given several times")
                         ->type_name("NAME")
                         ->check(CLI::IsMember(cases).description(""));
  add_ycsb_workload(*ycsb, *settings);
  add_ycsb_size(*ycsb, *settings);
  CLI::Option* figure = ycsb->add_option("--figure", settings->figure,
                                         fmt::format("Sweep as a figure of a paper does: {}", fmt::join(figures, ", ")))
                            ->type_name("FIGURE")
                            ->check(CLI::IsMember(figures).description(""));
  CLI::Option* workload = ycsb->get_option("--workload");
  workload->excludes(one)->excludes(figure);
  figure->excludes(one);
  ycsb->footer(
      fmt::format("Cases: {}\n\nExamples:\n"
                  "  atoll bench ycsb --quick\n"
                  "  atoll bench ycsb --workload B --nodes 4 --threads 2\n"
                  "  atoll bench ycsb --figure darray17 --nodes 6",
                  fmt::join(cases, ", ")));
  ycsb->callback([settings] { exit_with(bench::run_ycsb(*settings)); });
}

struct TpccArguments {
  bench::TpccSettings settings;
  std::string log = "off";
};

void add_tpcc_size(CLI::App& tpcc, bench::TpccSettings& settings) {
  tpcc.add_option("--warehouses", settings.warehouses, "Warehouses of all nodes together [one for each thread]")
      ->type_name("N")
      ->check(CLI::Range(1, 10'000).description(""));
  tpcc.add_option("--nodes", settings.nodes, "Nodes of the cluster [2]")
      ->type_name("N")
      ->check(CLI::Range(1, 64).description(""));
  tpcc.add_option("--threads", settings.threads, "Threads of a node [1]")
      ->type_name("N")
      ->check(CLI::Range(1, 64).description(""));
  tpcc.add_option("--seconds", settings.seconds, "How long a run takes [5, figures 2, quick 0.5]")
      ->type_name("S")
      ->check(CLI::Range(0.01, 3600.0).description(""));
  tpcc.add_option("--seed", settings.seed, "What all random numbers come from")->type_name("N")->capture_default_str();
}

void add_tpcc_shape(CLI::App& tpcc, TpccArguments& arguments) {
  bench::TpccSettings& settings = arguments.settings;
  const auto ratio = [&tpcc](const char* name, double& value, const char* what) {
    return tpcc.add_option(name, value, what)->type_name("0..1")->check(CLI::Range(0.0, 1.0).description(""));
  };
  tpcc.add_option("--mix", settings.mix, "full, or neworder-payment: these two, half of each [full]")
      ->type_name("MIX")
      ->check(CLI::IsMember({"full", "neworder-payment"}).description(""));
  ratio("--distribution-ratio", settings.distribution_ratio,
        "Part of the suppliers and of the customers who pay that are of another node "
        "[0.01 and 0.15 of other warehouses, as the specification has it]");
  ratio("--read-ratio", settings.read_ratio, "Part of the writes of New-Order and Payment that only read [0]");
  ratio("--temporal-locality", settings.temporal_locality, "Part of the data that the last transaction had too [0]");
  tpcc.add_option("--engine", settings.engine, fmt::format("{}", fmt::join(bench::tpcc_engines(), ", ")))
      ->type_name("ENGINE")
      ->capture_default_str()
      ->check(CLI::IsMember(bench::tpcc_engines()).description(""));
  tpcc.add_option("--log", arguments.log, "off, process, power: what a crash may cost")
      ->type_name("MODE")
      ->capture_default_str()
      ->check(CLI::IsMember({"off", "process", "power"}).description(""));
  tpcc.add_option("--dir", settings.directory, "Where logs go meanwhile [the directory for temporary files]")
      ->type_name("DIR")
      ->check(CLI::ExistingDirectory.description(""));
}

void add_tpcc(CLI::App& bench) {
  auto arguments = std::make_shared<TpccArguments>();
  bench::TpccSettings& settings = arguments->settings;
  CLI::App* tpcc = bench.add_subcommand("tpcc", "TPC-C: transactions on many nodes, with all consistency checks");
  add_common(*tpcc, settings.common);
  add_tpcc_size(*tpcc, settings);
  add_tpcc_shape(*tpcc, *arguments);
  const std::vector<std::string> figures = bench::tpcc_figures();
  CLI::Option* figure = tpcc->add_option("--figure", settings.figure,
                                         fmt::format("Sweep as a figure of a paper does: {}", fmt::join(figures, ", ")))
                            ->type_name("FIGURE")
                            ->check(CLI::IsMember(figures).description(""));
  const std::vector<std::string> comparisons = bench::tpcc_comparisons();
  CLI::Option* compare =
      tpcc->add_option("--compare", settings.compare,
                       fmt::format("Two sides by turns, with their ratio: {}", fmt::join(comparisons, ", ")))
          ->type_name("NAME")
          ->check(CLI::IsMember(comparisons).description(""));
  for (const char* own :
       {"--mix", "--distribution-ratio", "--read-ratio", "--temporal-locality", "--engine", "--log"}) {
    figure->excludes(tpcc->get_option(own));
  }
  for (const char* own : {"--nodes", "--distribution-ratio", "--log", "--engine"}) {
    compare->excludes(tpcc->get_option(own));
  }
  compare->excludes(figure);
  tpcc->footer(
      "Examples:\n"
      "  atoll bench tpcc --quick\n"
      "  atoll bench tpcc --warehouses 4 --nodes 2 --threads 2 --seconds 30 --log process\n"
      "  atoll bench tpcc --mix neworder-payment --distribution-ratio 0.2\n"
      "  atoll bench tpcc --figure gam11\n"
      "  atoll bench tpcc --compare sqlite");
  tpcc->callback([arguments] {
    bench::TpccSettings& chosen = arguments->settings;
    if (arguments->log == "process") chosen.log = LogMode::kProcess;
    if (arguments->log == "power") chosen.log = LogMode::kPower;
    if (const std::string wrong = bench::check_tpcc(chosen); !wrong.empty()) throw CLI::ValidationError("tpcc", wrong);
    exit_with(bench::run_tpcc(chosen));
  });
}

void add_fabric(CLI::App& bench) {
  auto settings = std::make_shared<bench::FabricSettings>();
  CLI::App* fabric = bench.add_subcommand("fabric", "What transports cost, against fi_pingpong and plain TCP");
  add_common(*fabric, settings->common);
  fabric->add_option("--transport", settings->transports, "Which: shm, tcp, verbs, ...; may be given several times")
      ->type_name("NAME");
  fabric->add_option("--address", settings->address, "Address of this host for them")->type_name("ADDRESS");
  fabric->footer(
      "Examples:\n"
      "  atoll bench fabric --quick\n"
      "  atoll bench fabric --transport verbs --address 192.0.2.7");
  fabric->callback([settings] { exit_with(bench::run_fabric(*settings)); });
}

void add_log_suite(CLI::App& bench) {
  auto settings = std::make_shared<bench::LogSettings>();
  CLI::App* log = bench.add_subcommand("log", "What logging costs, and how long a node takes to come back");
  add_common(*log, settings->common);
  const std::vector<std::string> cases = bench::log_cases();
  log->add_option("--case", settings->common.cases, "Only this case; may be given several times")
      ->type_name("NAME")
      ->check(CLI::IsMember(cases).description(""));
  log->add_option("--dir", settings->directory, "Where the logs go meanwhile [the directory for temporary files]")
      ->type_name("DIR")
      ->check(CLI::ExistingDirectory.description(""));
  log->add_option("--gib", settings->gib, "Memory of the node that comes back [1, quick: 0.25]")
      ->type_name("GIB")
      ->check(CLI::Range(0.05, 1024.0).description(""));
  log->footer(
      fmt::format("Cases: {}\n\nExamples:\n"
                  "  atoll bench log --quick\n"
                  "  atoll bench log --case process_write_50 --case power_write_50 --repetitions 9\n"
                  "  atoll bench log --case recovery --case recovery_read --gib 4 --dir .",
                  fmt::join(cases, ", ")));
  log->callback([settings] { exit_with(bench::run_log(*settings)); });
}

void add_buffer(CLI::App& bench) {
  auto settings = std::make_shared<bench::BufferSettings>();
  CLI::App* buffer = bench.add_subcommand("buffer", "Files and the buffer pool, against the bare disk, mmap and LMDB");
  add_common(*buffer, settings->common);
  const std::vector<std::string> cases = bench::buffer_cases();
  buffer->add_option("--case", settings->common.cases, "Only this case; may be given several times")
      ->type_name("NAME")
      ->check(CLI::IsMember(cases).description(""));
  buffer->add_option("--dir", settings->directory, "Where the files go meanwhile [the directory for temporary files]")
      ->type_name("DIR")
      ->check(CLI::ExistingDirectory.description(""));
  buffer->footer(
      fmt::format("Cases: {}\n\nExamples:\n"
                  "  atoll bench buffer --quick\n"
                  "  atoll bench buffer --case disk_8 --case disk_32 --dir . --repetitions 9",
                  fmt::join(cases, ", ")));
  buffer->callback([settings] { exit_with(bench::run_buffer(*settings)); });
}

}  // namespace

void add_bench(CLI::App& app) {
  CLI::App* bench = app.add_subcommand("bench", "Measure Atoll on this machine");
  bench->require_subcommand(1);
  bench->footer(
      "Examples:\n"
      "  atoll bench micro --quick                 single operations, in less than a minute\n"
      "  atoll bench array --quick                 arrays and operators\n"
      "  atoll bench gam --figure all --quick      the sweeps of GAM's paper\n"
      "  atoll bench darray --quick                those of DArray's\n"
      "  atoll bench ycsb --quick                  hash maps\n"
      "  atoll bench tpcc --quick                  transactions\n"
      "  atoll bench fabric --quick                transports\n"
      "  atoll bench log --quick                   logging and recovery\n"
      "  atoll bench buffer --quick                files and the buffer pool");
  add_micro(*bench);
  add_array(*bench);
  add_gam(*bench);
  add_darray(*bench);
  add_ycsb(*bench);
  add_tpcc(*bench);
  add_fabric(*bench);
  add_log_suite(*bench);
  add_buffer(*bench);
  // What `atoll bench` starts its own nodes with; nobody needs to see it.
  CLI::App* node = app.add_subcommand("bench-node", "A node of `atoll bench`")->group("");
  node->require_subcommand(1);
  node->add_subcommand("micro", "")->callback([] { bench::run_micro_node(); });
  node->add_subcommand("array", "")->callback([] { bench::run_array_node(); });
  node->add_subcommand("gam", "")->callback([] { bench::run_gam_node(); });
  node->add_subcommand("darray", "")->callback([] { bench::run_darray_node(); });
  node->add_subcommand("ycsb", "")->callback([] { bench::run_ycsb_node(); });
  node->add_subcommand("tpcc", "")->callback([] { bench::run_tpcc_node(); });
  node->add_subcommand("fabric", "")->callback([] { bench::run_fabric_node(); });
  node->add_subcommand("log", "")->callback([] { bench::run_log_node(); });
  node->add_subcommand("buffer", "")->callback([] { bench::run_buffer_node(); });
  node->add_subcommand("buffer-rival", "")->callback([] { bench::run_rival_process(); });
  node->add_subcommand("channels", "")->callback([] { bench::run_channels_node(); });
}

}  // namespace atoll::tools
