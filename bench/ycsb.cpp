#include "bench/ycsb.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cluster/job.hpp"

namespace atoll::bench {
namespace ycsb {
namespace {

constexpr const char* kSuite = "ycsb";
constexpr const char* kOfTheBar = "half of std's, or 5";
constexpr double kLeastCached = 5;  // million gets per second,
constexpr double kPartOfStd = 0.5;  // or so much of what std::unordered_map does, whichever is larger
constexpr std::uint64_t kMemorySizes[] = {50'000, 75'000, 100'000, 150'000, 200'000};
/// The bars are those of the project's requirements; docs/benchmarks.md explains them.
constexpr Bar kNoBar{};
constexpr CaseInfo kCached{"", "Mops/s", kOfTheBar, true, {Bar::Side::kAtLeast, 1}};
constexpr CaseInfo kCachedStd{"", "Mops/s", "std::unordered_map", true, kNoBar};
constexpr CaseInfo kHalf{"", "Mops/s", "bucket locks", true, {Bar::Side::kAtLeast, 3}};
constexpr CaseInfo kRate{"", "Mops/s", "bucket locks", true, kNoBar};
constexpr CaseInfo kTime{"", "us", "bucket locks", false, kNoBar};
constexpr CaseInfo kMemory{"", "B", "bytes of a pair", false, {Bar::Side::kAtMost, 1.5}};
constexpr CaseInfo kMemoryAt{"", "B", "bytes of a pair", false, kNoBar};
constexpr CaseInfo kGrowth{"", "pairs", "pairs put", true, {Bar::Side::kAtLeast, 1}};
constexpr std::pair<const char*, double> kPercentiles[] = {
    {"p50", 50}, {"p95", 95}, {"p99", 99}, {"p99.9", 99.9}, {"max", 100}};

/// Cases, a launch or several for each; or one workload.
///
/// Thread-safety: none.
class YcsbRun {
 public:
  explicit YcsbRun(const YcsbSettings& settings) : settings_(settings) {
    const Settings& common = settings.common;
    repetitions_ = common.repetitions > 0 ? common.repetitions : (common.quick ? 3 : 5);
    seconds_ = settings.seconds > 0 ? settings.seconds : (common.quick ? 0.2 : 1);
  }

  /// 0, or the code of the first case that failed.
  int run_cases() {
    const std::vector<std::string> all = ycsb_cases();
    const std::vector<std::string>& wanted = settings_.common.cases;
    std::vector<std::string> cases;
    for (const std::string& name : all) {
      if (wanted.empty() || std::find(wanted.begin(), wanted.end(), name) != wanted.end()) cases.push_back(name);
    }
    total_ = int(cases.size());
    int code = 0;
    for (const std::string& name : cases) {
      try {
        run_case(name);
      } catch (const cluster::LaunchFailed& failure) {
        fmt::print(stderr, "atoll bench: {}\n", failure.what());
        if (code == 0) code = failure.code();
        if (failure.interrupted()) break;
      }
      ++done_;
    }
    return code;
  }

  /// The workload of the command line.
  int run_workload() {
    Mix mix = settings_.workload == "custom" ? get_put_mix(settings_.get_ratio)
                                             : standard_mix(settings_.workload.at(0)).value();
    mix.zipf = settings_.zipf;
    if (settings_.distribution == "zipfian") mix.distribution = Distribution::kZipfian;
    if (settings_.distribution == "latest") mix.distribution = Distribution::kLatest;
    if (settings_.distribution == "uniform") mix.distribution = Distribution::kUniform;
    try {
      keep_mix(settings_.workload, mix, settings_.nodes > 0 ? settings_.nodes : NodeId(2), kRate, true);
    } catch (const cluster::LaunchFailed& failure) {
      fmt::print(stderr, "atoll bench: {}\n", failure.what());
      return failure.code();
    }
    return 0;
  }

  [[nodiscard]] const std::vector<Record>& records() const noexcept { return records_; }

 private:
  void run_case(const std::string& name) {
    if (name == "get_cached") return keep_cached(name, 2);
    if (name == "get_cached_one") return keep_cached(name, 1);
    if (name == "half_get") return keep_mix(name, get_put_mix(0.5), 4, kHalf, false);
    if (name == "memory") return keep_memory(name);
    if (name == "growth") return keep_growth(name);
    keep_mix(name, standard_mix(name.back()).value(), 2, kRate, true);
  }

  [[nodiscard]] Job job_for(Job::Task task, const std::string& label, NodeId nodes) const {
    const bool quick = settings_.common.quick;
    Job job;
    job.task = task;
    job.points = {{label, get_put_mix(1), settings_.threads > 0 ? settings_.threads : 1}};
    job.nodes = settings_.nodes > 0 ? settings_.nodes : nodes;
    job.records = settings_.records > 0 ? settings_.records : (quick ? 50'000 : 100'000);
    job.value_size = settings_.value_size;
    job.operations = settings_.operations;
    job.seconds = seconds_;
    job.repetitions = repetitions_;
    job.done = done_;
    job.total = total_;
    return job;
  }

  void keep(const CaseInfo& info, const Samples& samples, unsigned threads = 1) {
    records_.push_back(make_record(kSuite, info, samples));
    records_.back().threads = threads;
  }

  void keep_cached(const std::string& name, NodeId nodes) {
    Job job = job_for(Job::Task::kCached, name, nodes);
    job.nodes = nodes;
    job.points[0].threads = 1;
    job.stores = {StoreKind::kAtoll, StoreKind::kStd};
    for (Samples samples : run_task(job)) {
      Samples of_std = samples;
      of_std.name += "_std";
      for (double& value : samples.baselines) value = std::max(kLeastCached, kPartOfStd * value);
      keep(kCached, samples);
      keep(kCachedStd, of_std);
    }
  }

  void keep_mix(const std::string& name, const Mix& mix, NodeId nodes, const CaseInfo& info, bool latencies) {
    Job job = job_for(Job::Task::kMixes, name, nodes);
    job.points[0].mix = mix;
    job.stores = {StoreKind::kAtoll, StoreKind::kBucketLocks};
    job.latencies = latencies;
    const std::vector<Found> found = run_mixes(job);
    const Found& ours = found.at(0);
    const Found& other = found.at(1);
    const unsigned threads = job.points[0].threads;
    keep(info, {name, job.nodes, ours.values, other.values}, threads);
    for (const auto& [operation, times] : ours.times) {
      const auto theirs = std::find_if(other.times.begin(), other.times.end(),
                                       [&, o = operation](const auto& one) { return one.first == o; });
      if (theirs == other.times.end()) continue;
      for (const auto& [percentile, percent] : kPercentiles) {
        const std::string row = fmt::format("{}/{}/{}", name, name_of(operation), percentile);
        const auto us = [p = percent](const metrics::Histogram& of) { return double(of.percentile(p)) / 1e3; };
        keep(kTime, {row, job.nodes, {us(times)}, {us(theirs->second)}}, threads);
      }
    }
  }

  /// The worst of several sizes counts: tables grow in steps.
  void keep_memory(const std::string& name) {
    std::vector<Samples> all;
    for (const std::uint64_t pairs : kMemorySizes) {
      if (settings_.common.quick && pairs > 100'000) continue;
      Job job = job_for(Job::Task::kMemory, fmt::format("{}/{}", name, pairs), 2);
      job.nodes = 2;
      job.records = pairs;
      const std::vector<Samples> found = run_task(job);
      all.insert(all.end(), found.begin(), found.end());
    }
    Samples worst = *std::max_element(
        all.begin(), all.end(), [](const Samples& a, const Samples& b) { return a.values.at(0) < b.values.at(0); });
    worst.name = name;
    keep(kMemory, worst);
    for (const Samples& samples : all) keep(kMemoryAt, samples);
  }

  void keep_growth(const std::string& name) {
    Job job = job_for(Job::Task::kGrowth, name, 2);
    if (settings_.threads == 0) job.points[0].threads = 2;
    for (const Samples& samples : run_task(job)) keep(kGrowth, samples, job.points[0].threads);
  }

  const YcsbSettings& settings_;
  int repetitions_ = 0;
  double seconds_ = 0;
  int done_ = 0, total_ = 1;
  std::vector<Record> records_;
};

}  // namespace
}  // namespace ycsb

std::vector<std::string> ycsb_cases() {
  return {"get_cached", "get_cached_one", "half_get",   "memory",     "growth",    "workload_A",
          "workload_B", "workload_C",     "workload_D", "workload_E", "workload_F"};
}

int run_ycsb(const YcsbSettings& settings) {
  const Settings& common = settings.common;
  if (!common.json.empty()) write_json_lines(common.json, {});  // complain now, not after a minute
  warn_if_busy();
  std::vector<Record> records;
  int code = 0;
  if (!settings.figure.empty()) {
    code = ycsb::run_figures(settings, records);
  } else {
    ycsb::YcsbRun run(settings);
    code = settings.workload.empty() ? run.run_cases() : run.run_workload();
    records = run.records();
    print_table(records);
  }
  if (!common.json.empty()) write_json_lines(common.json, records);
  return code;
}

}  // namespace atoll::bench
