// GAM's Figures 11 and 12, and what a second node brings.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "bench/tpcc/engines.hpp"
#include "bench/tpcc/tpcc.hpp"
#include "cluster/job.hpp"

namespace atoll::bench::tpcc {
namespace {

/// A curve of a figure: throughput by distribution ratio.
struct Series {
  std::string engine;
  double read_ratio = 0, temporal_locality = 0;
};

/// Tables with a row for each distribution ratio. A cluster for each number: all begin with the same tables.
///
/// Thread-safety: none.
class FigureRun {
 public:
  FigureRun(const TpccSettings& settings, std::vector<std::string>& lines) : settings_(settings), lines_(lines) {
    for (const Engine& engine : engines()) {
      if (!engine.is_of_one_node) engines_.emplace_back(engine.name);
    }
  }

  /// 0; 1 when a condition does not hold.
  int run() {
    const bool quick = settings_.common.quick;
    if (settings_.figure == "gam11") {
      std::vector<Series> series;
      for (const std::string& engine : engines_) series.push_back({engine});
      const std::vector<int> all{0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100}, few{0, 50, 100};
      total_ = int(series.size() * (quick ? few : all).size());
      table("gam11: New-Order and Payment", series, quick ? few : all, [](const Series& one) { return one.engine; });
      return code_;
    }
    const std::vector<double> values = quick ? std::vector{0.0, 1.0} : std::vector{0.0, 0.5, 0.8, 1.0};
    const std::vector<int> ratios = quick ? std::vector{0, 100} : std::vector{0, 20, 50, 100};
    total_ = int(2 * engines_.size() * values.size() * ratios.size());
    for (const std::string& engine : engines_) {
      std::vector<Series> reads, localities;
      for (const double value : values) reads.push_back({engine, value, 0});
      for (const double value : values) localities.push_back({engine, 0, value});
      table(fmt::format("gam12a: {}, by read ratio", engine), reads, ratios,
            [](const Series& one) { return fmt::format("{:.0f} %", one.read_ratio * 100); });
      table(fmt::format("gam12b: {}, by temporal locality", engine), localities, ratios,
            [](const Series& one) { return fmt::format("{:.0f} %", one.temporal_locality * 100); });
    }
    return code_;
  }

 private:
  template <typename Name>
  void table(const std::string& title, const std::vector<Series>& series, const std::vector<int>& ratios, Name&& name) {
    const Job some = job(series.at(0), 0);
    std::string text = fmt::format("{}, {} warehouses, {} nodes of {} threads (transactions/s)\n{:>12}", title,
                                   some.shape.homes.warehouses, some.shape.homes.nodes, some.threads, "remote %");
    for (const Series& one : series) text += fmt::format("  {:>12}", name(one));
    for (const int ratio : ratios) {
      text += fmt::format("\n{:>12}", ratio);
      for (const Series& one : series) text += fmt::format("  {:>12.0f}", point(one, ratio));
    }
    fmt::print("{}\n\n", text);
    std::fflush(stdout);
  }

  [[nodiscard]] Job job(const Series& series, int ratio) const {
    TpccSettings settings = settings_;
    settings.engine = series.engine;
    settings.mix = "neworder-payment";
    settings.distribution_ratio = ratio / 100.0;
    settings.read_ratio = series.read_ratio;
    settings.temporal_locality = series.temporal_locality;
    if (settings.seconds <= 0) settings.seconds = settings.common.quick ? 0.2 : 2;
    Job job = job_of(settings);
    job.label = fmt::format("{}/{}/remote={}", settings.figure, series.engine, ratio);
    if (settings.figure == "gam12") {
      job.label +=
          fmt::format("/reads={:.0f}/locality={:.0f}", series.read_ratio * 100, series.temporal_locality * 100);
    }
    job.done = done_;
    job.total = total_;
    return job;
  }

  double point(const Series& series, int ratio) {
    const Job one = job(series, ratio);
    const Outcome outcome = run_cluster(one);
    ++done_;
    lines_.push_back(json_line(one, LogMode::kOff, outcome));
    if (!tell_violations(one, outcome)) code_ = 1;
    return outcome.rate();
  }

  const TpccSettings& settings_;
  std::vector<std::string>& lines_;
  std::vector<std::string> engines_;
  int done_ = 0, total_ = 1;
  int code_ = 0;
};

}  // namespace

int run_figure(const TpccSettings& settings, std::vector<std::string>& lines) {
  return FigureRun(settings, lines).run();
}

/// They take turns, each time with a new cluster.
int run_scaling(const TpccSettings& settings, std::vector<std::string>& lines) {
  constexpr NodeId kMore = 2;
  const int repetitions =
      settings.common.repetitions > 0 ? settings.common.repetitions : (settings.common.quick ? 1 : 3);
  int code = 0;
  Samples samples{"scaling", kMore, {}, {}};
  for (int i = 0; i < 2 * repetitions; ++i) {
    TpccSettings one = settings;
    const bool is_more = i % 2 == 1;
    one.nodes = is_more ? kMore : NodeId(1);
    one.scaling = false;
    one.common.repetitions = 1;
    one.distribution_ratio = 0;
    if (one.seconds <= 0 && !one.common.quick) one.seconds = 5;
    const unsigned threads = std::max(1u, settings.threads);
    const std::uint32_t of_a_node = settings.warehouses > 0 ? std::max(1u, settings.warehouses / kMore) : threads;
    one.warehouses = of_a_node * one.nodes;
    Job job = job_of(one);
    job.label = fmt::format("scaling/nodes={}", one.nodes);
    job.done = i;
    job.total = 2 * repetitions;
    const Outcome outcome = run_cluster(job);
    lines.push_back(json_line(job, LogMode::kOff, outcome));
    if (!tell_violations(job, outcome)) code = 1;
    (is_more ? samples.values : samples.baselines).push_back(outcome.rate());
  }
  constexpr CaseInfo kScaling{"", "tx/s", "1 node", true, {Bar::Side::kAtLeast, 1.7}};
  Record record = make_record("tpcc", kScaling, samples);
  record.threads = std::max(1u, settings.threads);
  print_table({record});
  return code;
}

}  // namespace atoll::bench::tpcc
