// GAM's Figures 11 and 12.
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
  FigureRun(const TpccSettings& settings, std::vector<std::string>& lines)
      : settings_(settings), lines_(lines), repetitions_(repetitions_of(settings)) {
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
      total_ = repetitions_ * int(series.size() * (quick ? few : all).size());
      table("gam11: New-Order and Payment", series, quick ? few : all, [](const Series& one) { return one.engine; });
      print_table(records_);
      return code_;
    }
    const std::vector<double> values = quick ? std::vector{0.0, 1.0} : std::vector{0.0, 0.5, 0.8, 1.0};
    const std::vector<int> ratios = quick ? std::vector{0, 100} : std::vector{0, 20, 50, 100};
    total_ = repetitions_ * int(2 * engines_.size() * values.size() * ratios.size());
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
      std::vector<std::vector<double>> rates(series.size());
      for (int i = 0; i < repetitions_; ++i) {  // by turns
        for (std::size_t k = 0; k < series.size(); ++k) rates[k].push_back(point(series[k], ratio));
      }
      text += fmt::format("\n{:>12}", ratio);
      for (const std::vector<double>& of_one : rates) text += fmt::format("  {:>12.0f}", median(of_one));
      if (settings_.figure == "gam11") compare(ratio, rates, some.threads);
    }
    fmt::print("{}\n\n", text);
    std::fflush(stdout);
  }

  /// Atoll's engine, which is the first, with each of the others.
  void compare(int ratio, const std::vector<std::vector<double>>& rates, unsigned threads) {
    constexpr int kLocalMostly = 40;
    for (std::size_t k = 1; k < rates.size(); ++k) {
      const bool has_bar = engines_[k] == "farm";
      const Bar bar{has_bar ? Bar::Side::kAtLeast : Bar::Side::kNone, ratio <= kLocalMostly ? 1.3 : 0.95};
      const std::string name = fmt::format("remote_{}", ratio);
      const Samples samples{name, settings_.nodes > 0 ? settings_.nodes : NodeId(2), rates[0], rates[k]};
      records_.push_back(make_record("tpcc", CaseInfo{name, "tx/s", engines_[k], true, bar}, samples));
      records_.back().threads = threads;
      lines_.push_back(json_line(records_.back()));
    }
  }

  [[nodiscard]] Job job(const Series& series, int ratio) const {
    TpccSettings settings = settings_;
    settings.engine = series.engine;
    settings.mix = "neworder-payment";
    settings.common.repetitions = 1;
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
  const int repetitions_;
  std::vector<Record> records_;
  int done_ = 0, total_ = 1;
  int code_ = 0;
};

}  // namespace

int run_figure(const TpccSettings& settings, std::vector<std::string>& lines) {
  return FigureRun(settings, lines).run();
}

}  // namespace atoll::bench::tpcc
