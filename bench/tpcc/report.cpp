// What `atoll bench tpcc` says.
#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/units.hpp"
#include "bench/tpcc/tpcc.hpp"

namespace atoll::bench::tpcc {
namespace {

constexpr std::pair<const char*, double> kPercentiles[] = {{"p50", 50}, {"p90", 90}, {"p99", 99}, {"max", 100}};

const char* name_of(LogMode log) {
  switch (log) {
    case LogMode::kOff: return "off";
    case LogMode::kProcess: return "process";
    case LogMode::kPower: return "power";
  }
  return "";
}

const char* name_of(Mix mix) {
  switch (mix) {
    case Mix::kFull: return "full";
    case Mix::kNewOrderPayment: return "neworder-payment";
  }
  return "";
}

double us(const KindTally& tally, double percent) {
  return double(tally.times.percentile(percent)) / 1e3;
}

Tallies sum_of(const Outcome& outcome) {
  Tallies all;
  for (const Tallies& one : outcome.repetitions) all.merge(one);
  return all;
}

}  // namespace

bool tell_violations(const Job& job, const Outcome& outcome) {
  for (const Violation& one : outcome.violations) {
    fmt::print(stderr, "atoll bench: {}: consistency condition {} does not hold: {}{}\n", job.label, one.condition,
               one.what, one.count > 1 ? fmt::format("; and {} more", one.count - 1) : "");
  }
  return outcome.violations.empty();
}

bool print(const Job& job, LogMode log, const Outcome& outcome) {
  const Shape& shape = job.shape;
  fmt::print("{}: {} warehouses{}, {} nodes of {} threads, {} mix, log {}, seed {}\n", job.engine,
             shape.homes.warehouses, shape.scale == Scale() ? "" : " (small)", shape.homes.nodes, job.threads,
             name_of(job.mix), name_of(log), shape.seed);
  const Tallies all = sum_of(outcome);
  fmt::print("{:<14}  {:>10}  {:>6}  {:>10}  {:>10}  {:>10}  {:>10}\n", "transaction", "count", "%", "p50 us", "p90 us",
             "p99 us", "max us");
  for (std::size_t i = 0; i < kKinds; ++i) {
    const KindTally& tally = all.kinds[i];
    if (tally.done == 0) continue;
    fmt::print("{:<14}  {:>10}  {:>6.1f}", tpcc::name_of(Kind(i)), tally.done,
               100.0 * double(tally.done) / double(all.all()));
    for (const auto& [name, percent] : kPercentiles) fmt::print("  {:>10.1f}", us(tally, percent));
    fmt::print("\n");
  }
  const Counts& counts = outcome.counts;
  fmt::print("tpmC {:.0f}\nall {:.0f} transactions/s\n", outcome.tpmc(), outcome.rate());
  fmt::print("aborts: {} rolled back by an unused item, {} attempts met a lock, {} had read what changed, {} else\n",
             all.of(Kind::kNewOrder).rolled_back, counts.lock_conflicts, counts.change_conflicts,
             counts.other_conflicts);
  if (all.skipped > 0) fmt::print("deliveries: {} districts had nothing to deliver\n", all.skipped);
  fmt::print("memory {}\n", base::format_bytes(outcome.memory_bytes));
  if (outcome.violations.empty()) fmt::print("consistency: conditions {} hold\n", describe(job.conditions()));
  std::fflush(stdout);
  return tell_violations(job, outcome);
}

std::string json_line(const Job& job, LogMode log, const Outcome& outcome) {
  const Shape& shape = job.shape;
  const Tallies all = sum_of(outcome);
  nlohmann::ordered_json line = {
      {"bench", "tpcc"},
      {"case", job.label},
      {"engine", job.engine},
      {"mix", name_of(job.mix)},
      {"warehouses", shape.homes.warehouses},
      {"nodes", shape.homes.nodes},
      {"threads", job.threads},
      {"distribution_ratio",
       shape.distribution_ratio ? nlohmann::ordered_json(*shape.distribution_ratio) : nlohmann::ordered_json()},
      {"read_ratio", shape.read_ratio},
      {"temporal_locality", shape.temporal_locality},
      {"log", name_of(log)},
      {"seed", shape.seed},
      {"seconds", all.seconds()},
      {"tpmC", outcome.tpmc()},
      {"rate", outcome.rate()}};
  for (std::size_t i = 0; i < kKinds; ++i) {
    const KindTally& tally = all.kinds[i];
    if (tally.done == 0) continue;
    nlohmann::ordered_json& of = line["transactions"][tpcc::name_of(Kind(i))];
    of["count"] = tally.done;
    for (const auto& [name, percent] : kPercentiles) of[fmt::format("{}_us", name)] = us(tally, percent);
  }
  line["aborts"] = {{"rolled_back", all.of(Kind::kNewOrder).rolled_back},
                    {"lock", outcome.counts.lock_conflicts},
                    {"change", outcome.counts.change_conflicts},
                    {"other", outcome.counts.other_conflicts}};
  line["skipped_deliveries"] = all.skipped;
  line["memory_bytes"] = outcome.memory_bytes;
  line["checked_conditions"] = describe(job.conditions());
  line["violations"] = nlohmann::ordered_json::array();
  for (const Violation& one : outcome.violations) {
    line["violations"].push_back({{"condition", one.condition}, {"what", one.what}, {"count", one.count}});
  }
  line["ok"] = outcome.violations.empty();
  return line.dump();
}

}  // namespace atoll::bench::tpcc
