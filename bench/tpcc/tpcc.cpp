#include "bench/tpcc/tpcc.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/units.hpp"
#include "bench/folder.hpp"
#include "bench/tpcc/engines.hpp"
#include "cluster/job.hpp"

namespace atoll::bench {
namespace tpcc {

Job job_of(const TpccSettings& settings) {
  const Settings& common = settings.common;
  Job job;
  job.engine = settings.engine;
  job.label = settings.engine;
  const bool one_node = engine_of(settings.engine).is_of_one_node;
  Shape& shape = job.shape;
  shape.homes.nodes = settings.nodes > 0 ? settings.nodes : NodeId(one_node ? 1 : 2);
  job.threads = settings.threads > 0 ? settings.threads : 1;
  shape.homes.warehouses =
      settings.warehouses > 0 ? settings.warehouses : std::uint32_t(shape.homes.nodes) * job.threads;
  if (common.quick) shape.scale = Scale::small();
  shape.seed = settings.seed;
  shape.constants = Constants::from_seed(settings.seed);
  if (settings.distribution_ratio >= 0) shape.distribution_ratio = settings.distribution_ratio;
  shape.read_ratio = settings.read_ratio;
  shape.temporal_locality = settings.temporal_locality;
  job.mix =
      settings.mix == "neworder-payment" || !engine_of(settings.engine).is_ordered ? Mix::kNewOrderPayment : Mix::kFull;
  job.seconds = settings.seconds > 0 ? settings.seconds : (common.quick ? 0.5 : 5);
  job.repetitions = common.repetitions > 0 ? common.repetitions : 1;
  return job;
}

std::uint64_t free_memory_bytes() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    unsigned long long kib = 0;
    if (std::sscanf(line.c_str(), "MemAvailable: %llu", &kib) == 1) return std::uint64_t{kib} << 10;
  }
  return 0;
}

namespace {

int run_one(const TpccSettings& settings, std::vector<std::string>& lines) {
  const Job job = job_of(settings);
  std::optional<Folder> folder;
  if (settings.log != LogMode::kOff) folder.emplace(settings.directory);
  const Outcome outcome = run_cluster(job, settings.log, folder ? folder->path() + "/logs" : "");
  lines.push_back(json_line(job, settings.log, outcome));
  return print(job, settings.log, outcome) ? 0 : 1;
}

void write_lines(const std::string& path, const std::vector<std::string>& lines) {
  if (path.empty()) return;
  std::ofstream file(path);
  for (const std::string& line : lines) file << line << '\n';
  file.close();
  if (!file) throw Error(fmt::format("cannot write {}: {}", path, std::strerror(errno)));
}

}  // namespace
}  // namespace tpcc

std::vector<std::string> tpcc_engines() {
  return tpcc::engine_names();
}

std::vector<std::string> tpcc_figures() {
  return {"gam11", "gam12"};
}

std::vector<std::string> tpcc_comparisons() {
  return tpcc::comparison_names();
}

std::string check_tpcc(const TpccSettings& settings) {
  const tpcc::Engine& engine = tpcc::engine_of(settings.engine);
  const tpcc::Job job = tpcc::job_of(settings);
  const tpcc::Homes& homes = job.shape.homes;
  if (homes.warehouses < homes.nodes) {
    return fmt::format("{} warehouses are fewer than {} nodes: each node needs one of its own", homes.warehouses,
                       homes.nodes);
  }
  if (engine.is_of_one_node && homes.nodes > 1) {
    return fmt::format("the engine {} is of one node: take --nodes 1", engine.name);
  }
  if (settings.mix == "full" && !engine.is_ordered) {
    return fmt::format("the engine {} has no ordered tables, which the full mix needs: take --mix neworder-payment",
                       engine.name);
  }
  if (settings.distribution_ratio > 0 && homes.nodes == 1) {
    return "with one node there is no other that --distribution-ratio could be about";
  }
  if (settings.log != LogMode::kOff && engine.name != "atoll") {
    return fmt::format("the engine {} keeps no log: --log is for atoll", engine.name);
  }
  const std::uint64_t there = tpcc::free_memory_bytes();
  if (there > 0 && job.bytes() > there) {
    return fmt::format(
        "{} warehouses and {} s of new orders need up to {} of memory, and {} are free: take fewer warehouses "
        "(each {}) or seconds",
        homes.warehouses, job.seconds, base::format_bytes(job.bytes()), base::format_bytes(there),
        base::format_bytes(job.bytes_of_warehouse()));
  }
  return {};
}

int run_tpcc(const TpccSettings& settings) {
  tpcc::write_lines(settings.common.json, {});  // complain now, not after a minute
  warn_if_busy();
  std::vector<std::string> lines;
  int code = 0;
  try {
    if (!settings.figure.empty()) {
      code = tpcc::run_figure(settings, lines);
    } else {
      code = settings.compare.empty() ? tpcc::run_one(settings, lines) : tpcc::run_comparison(settings, lines);
    }
  } catch (const cluster::LaunchFailed& failure) {
    fmt::print(stderr, "atoll bench: {}\n", failure.what());
    code = failure.code();
  }
  tpcc::write_lines(settings.common.json, lines);
  return code;
}

void run_tpcc_node() {
  const nlohmann::json json = cluster::current_job();
  const auto job = json.get<tpcc::Job>();
  Node node;
  tpcc::engine_of(job.engine).run(node, json, job);
}

}  // namespace atoll::bench
