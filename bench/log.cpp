#include "bench/log.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "atoll/options.hpp"
#include "base/check.hpp"
#include "base/fd.hpp"
#include "bench/folder.hpp"
#include "cluster/job.hpp"

namespace atoll::bench {
namespace {

constexpr const char* kSuite = "log";
constexpr const char* kNoLog = "no log";
constexpr NodeId kRateNodes = 2;
constexpr Bar kNoBar{};
constexpr Bar kMostOfIt{Bar::Side::kAtLeast, 0.7};

/// In the order of the table: a mode, then what is done (log_node.cpp).
constexpr CaseInfo kCases[] = {
    {"process_write_0", "Mops/s", kNoLog, true, kMostOfIt},
    {"process_write_50", "Mops/s", kNoLog, true, kMostOfIt},
    {"process_write_100", "Mops/s", kNoLog, true, kMostOfIt},
    {"process_local", "Mops/s", kNoLog, true, kNoBar},
    {"process_remote", "Mops/s", kNoLog, true, kNoBar},
    {"power_write_0", "Mops/s", kNoLog, true, kNoBar},
    {"power_write_50", "Mops/s", kNoLog, true, kNoBar},
    {"power_write_100", "Mops/s", kNoLog, true, kNoBar},
    {"power_local", "Mops/s", kNoLog, true, kNoBar},
    {"power_remote", "Mops/s", kNoLog, true, kNoBar},
    {"recovery", "s/GiB", "reading the files", false, kNoBar},
    {"recovery_read", "MiB/s", "sequential read", true, {Bar::Side::kAtLeast, 0.5}},
};
constexpr std::pair<const char*, LogMode> kModes[] = {{"process_", LogMode::kProcess}, {"power_", LogMode::kPower}};

const CaseInfo& info_of(std::string_view name) {
  const CaseInfo* const found =
      std::find_if(std::begin(kCases), std::end(kCases), [name](const CaseInfo& info) { return info.name == name; });
  ATOLL_CHECK(found != std::end(kCases));
  return *found;
}

/// What is not in memory any more has to come from the disk.
void drop_caches(const Folder& folder) {
  for (const std::string& file : folder.files()) {
    const base::Fd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd.valid()) throw Error(fmt::format("cannot open {}", file));
    (void)::fdatasync(fd.get());  // what is not written yet cannot be dropped
    (void)::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
  }
}

struct Reading {
  double seconds = 0;
  std::uint64_t bytes = 0;
};
/// All checkpoints of the folder, from beginning to end.
Reading read_sequentially(const Folder& folder) {
  Reading reading;
  std::vector<char> piece(1u << 20);
  const Clock::time_point begun = Clock::now();
  for (const std::string& file : folder.files()) {
    if (file.find("checkpoint") == std::string::npos) continue;
    const base::Fd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd.valid()) throw Error(fmt::format("cannot open {}", file));
    (void)::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
    for (ssize_t got; (got = ::read(fd.get(), piece.data(), piece.size())) > 0;) reading.bytes += std::uint64_t(got);
  }
  reading.seconds = seconds_since(begun);
  return reading;
}

/// The launches of one `atoll bench log`, and what came out of them.
///
/// Thread-safety: none.
class LogRun {
 public:
  explicit LogRun(const LogSettings& settings) : settings_(settings) {
    const Settings& common = settings.common;
    repetitions_ = common.repetitions > 0 ? common.repetitions : (common.quick ? 3 : 5);
    for (const CaseInfo& info : kCases) {
      const std::string name(info.name);
      if (!common.cases.empty() && std::count(common.cases.begin(), common.cases.end(), name) == 0) continue;
      samples_.push_back({name, name.starts_with("recovery") ? NodeId(1) : kRateNodes, {}, {}});
    }
  }

  /// 0, or the code of the first launch that failed.
  int run() {
    try {
      const std::vector<std::string> works = works_of("");
      Progress progress(0, int(!works.empty()) + int(has_recovery()));
      if (!works.empty()) run_rates(works, progress);
      if (has_recovery()) run_recovery(progress);
    } catch (const cluster::LaunchFailed& failure) {
      fmt::print(stderr, "atoll bench: {}\n", failure.what());
      return failure.code();
    }
    return 0;
  }

  [[nodiscard]] std::vector<Record> records() const {
    std::vector<Record> result;
    for (const Samples& samples : samples_) {
      if (!samples.values.empty()) result.push_back(make_record(kSuite, info_of(samples.name), samples));
    }
    return result;
  }

 private:
  [[nodiscard]] bool has_recovery() const {
    return std::any_of(samples_.begin(), samples_.end(), [](const Samples& one) { return one.nodes == 1; });
  }
  /// What is to be done under a mode's log: its cases without the mode. Under any, when `prefix` is empty.
  [[nodiscard]] std::vector<std::string> works_of(std::string_view prefix) const {
    std::vector<std::string> works;
    for (const Samples& samples : samples_) {
      for (const auto& [mode, log] : kModes) {
        if (!samples.name.starts_with(mode) || (!prefix.empty() && prefix != mode)) continue;
        const std::string work = samples.name.substr(std::string_view(mode).size());
        if (std::count(works.begin(), works.end(), work) == 0) works.push_back(work);
      }
    }
    return works;
  }
  [[nodiscard]] Samples* samples_of(const std::string& name) {
    const auto found =
        std::find_if(samples_.begin(), samples_.end(), [&](const Samples& one) { return one.name == name; });
    return found == samples_.end() ? nullptr : &*found;
  }

  std::map<std::string, double> rates(const std::vector<std::string>& works, LogMode mode) {
    const Folder folder(settings_.directory);
    Options options;
    options.memory_bytes = 128u << 20;
    options.cache_bytes = 64u << 20;
    options.log = mode;
    options.log_dir = folder.path() + "/logs";
    const bool quick = settings_.common.quick;
    const nlohmann::json job = {
        {"group", "rates"}, {"works", works}, {"seconds", quick ? 0.3 : 1.0}, {"records", quick ? 5'000 : 20'000}};
    std::map<std::string, double> found;
    for (const nlohmann::json& result : cluster::run_job({"bench-node", kSuite}, kRateNodes, options, job)) {
      found[result.at("work").get<std::string>()] = result.at("rate").get<double>();
    }
    return found;
  }

  /// A cluster without a log, one with, one with another: they take turns.
  void run_rates(const std::vector<std::string>& works, Progress& progress) {
    progress.begin("throughput");
    for (int i = 0; i < repetitions_; ++i) {
      progress.step(i + 1, repetitions_);
      const std::map<std::string, double> without = rates(works, LogMode::kOff);
      for (const auto& [prefix, mode] : kModes) {
        const std::vector<std::string> wanted = works_of(prefix);
        if (wanted.empty()) continue;
        for (const auto& [work, rate] : rates(wanted, mode)) {
          Samples* const samples = samples_of(prefix + work);
          samples->values.push_back(rate);
          samples->baselines.push_back(without.at(work));
        }
      }
    }
  }

  /// A node that fills its memory, and is killed when a checkpoint has it; and those that come after it, each of which
  /// is killed as well.
  void run_recovery(Progress& progress) {
    progress.begin("recovery");
    const double gib = settings_.gib > 0 ? settings_.gib : (settings_.common.quick ? 0.25 : 1);
    const Folder folder(settings_.directory);
    Options options;
    options.memory_bytes = std::uint64_t(gib * double(1u << 30)) + (64u << 20);
    options.cache_bytes = 1u << 20;
    options.log = LogMode::kProcess;
    options.log_dir = folder.path() + "/logs";
    options.log_bytes = 64u << 20;
    const std::string notes = folder.path() + "/seconds";  // a job whose node is killed has no results
    nlohmann::json job = {{"group", "fill"}, {"gib", gib}, {"notes", notes}};
    progress.tell("fills the memory");
    run_killed(options, job);
    options.recover = true;
    job["group"] = "return";
    for (int i = 0; i < repetitions_; ++i) {
      progress.step(i + 1, repetitions_);
      drop_caches(folder);
      const Reading reading = read_sequentially(folder);
      drop_caches(folder);
      run_killed(options, job);
      double seconds = 0;
      if (std::ifstream file(notes); !(file >> seconds)) throw Error(fmt::format("there is no time in {}", notes));
      const double mib = double(reading.bytes) / double(1u << 20);
      add("recovery", seconds / gib, reading.seconds / gib);
      add("recovery_read", mib / seconds, mib / reading.seconds);
    }
  }

  /// A node that kills itself when it has done what it shall.
  static void run_killed(const Options& options, const nlohmann::json& job) {
    try {
      (void)cluster::run_job({"bench-node", kSuite}, 1, options, job);
    } catch (const cluster::LaunchFailed& failure) {
      if (failure.code() == 128 + SIGKILL) return;
      throw;
    }
    throw Error("a node that was to end by a signal has ended in another way");
  }

  void add(const char* name, double value, double baseline) {
    Samples* const samples = samples_of(name);
    if (samples == nullptr) return;
    samples->values.push_back(value);
    samples->baselines.push_back(baseline);
  }

  const LogSettings& settings_;
  int repetitions_ = 1;
  std::vector<Samples> samples_;
};

}  // namespace

std::vector<std::string> log_cases() {
  std::vector<std::string> names;
  for (const CaseInfo& info : kCases) names.emplace_back(info.name);
  return names;
}

int run_log(const LogSettings& settings) {
  const std::string& json = settings.common.json;
  if (!json.empty()) write_json_lines(json, {});  // complain now, not after a minute
  warn_if_busy();
  LogRun run(settings);
  const int code = run.run();
  const std::vector<Record> records = run.records();
  if (!records.empty()) print_table(records);
  if (!json.empty()) write_json_lines(json, records);
  return code;
}

}  // namespace atoll::bench
