// Two ways to run the same transactions, by turns: Atoll's engine and SQLite, two nodes and one.
#include <fmt/format.h>

#include <algorithm>

#include "bench/tpcc/engines.hpp"
#include "bench/tpcc/tpcc.hpp"
#include "cluster/job.hpp"

namespace atoll::bench::tpcc {
namespace {

struct Side {
  std::string engine = "atoll";
  NodeId nodes = 1;
};

struct Comparison {
  std::string_view name;
  Side ours, theirs;
  std::string_view mix;  // empty: the settings'
  CaseInfo info;
};

const Comparison kComparisons[] = {
    {"scaling", {"atoll", 2}, {"atoll", 1}, "", {"", "tx/s", "1 node", true, {Bar::Side::kAtLeast, 1.7}}},
    {"sqlite", {}, {"sqlite"}, "neworder-payment", {"", "tx/s", "sqlite", true, {Bar::Side::kAtLeast, 3}}},
    {"sqlite-full", {}, {"sqlite"}, "full", {"", "tx/s", "sqlite", true, {}}},
};

Job job_of_side(const TpccSettings& settings, const Comparison& comparison, const Side& side) {
  TpccSettings one = settings;
  one.engine = side.engine;
  one.nodes = side.nodes;
  one.common.repetitions = 1;
  if (!comparison.mix.empty()) one.mix = comparison.mix;
  if (side.nodes > 1) one.distribution_ratio = 0;
  // As many warehouses for each node on both sides.
  const NodeId most = std::max(comparison.ours.nodes, comparison.theirs.nodes);
  if (one.warehouses > 0) one.warehouses = std::max(1u, one.warehouses / most * side.nodes);
  Job job = job_of(one);
  job.label = fmt::format("{}/{}/nodes={}", comparison.name, side.engine, side.nodes);
  return job;
}

}  // namespace

std::vector<std::string> comparison_names() {
  std::vector<std::string> names;
  for (const Comparison& one : kComparisons) names.emplace_back(one.name);
  return names;
}

int repetitions_of(const TpccSettings& settings) {
  if (settings.common.repetitions > 0) return settings.common.repetitions;
  return settings.common.quick ? 1 : 3;
}

/// They take turns, each time with a new cluster.
int run_comparison(const TpccSettings& settings, std::vector<std::string>& lines) {
  const Comparison& comparison = *std::find_if(std::begin(kComparisons), std::end(kComparisons),
                                               [&](const Comparison& one) { return one.name == settings.compare; });
  const int turns = 2 * repetitions_of(settings);
  int code = 0;
  Samples samples{settings.compare, comparison.ours.nodes, {}, {}};
  for (int turn = 0; turn < turns; ++turn) {
    const bool is_ours = turn % 2 == 1;
    Job job = job_of_side(settings, comparison, is_ours ? comparison.ours : comparison.theirs);
    job.done = turn;
    job.total = turns;
    const Outcome outcome = run_cluster(job);
    lines.push_back(json_line(job, LogMode::kOff, outcome));
    if (!tell_violations(job, outcome)) code = 1;
    (is_ours ? samples.values : samples.baselines).push_back(outcome.rate());
  }
  Record record = make_record("tpcc", comparison.info, samples);
  record.threads = std::max(1u, settings.threads);
  print_table({record});
  lines.push_back(json_line(record));
  return code;
}

}  // namespace atoll::bench::tpcc
