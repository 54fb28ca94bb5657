#include "bench/array.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/array_cases.hpp"
#include "cluster/job.hpp"

namespace atoll::bench {
namespace {

constexpr const char* kSuite = "array";

/// A row of the table, and the case that it comes with.
struct Row {
  std::string_view of;
  CaseInfo info;
};
constexpr Bar kNoBar{};
constexpr const char* kLoop = "native loop";
constexpr const char* kNoReadAhead = "no read-ahead";
constexpr std::uint32_t kDefaultChunk = 512;
constexpr std::uint32_t kSmallChunk = 64;  // a line of the heap: what is fetched is what is read next, and no more
/// The bars are those of the project's requirements; docs/benchmarks.md explains them.
constexpr Row kRows[] = {
    {"get_seq", {"get_seq", "ns", kLoop, false, {Bar::Side::kAtMost, 1.5}}},
    {"get_seq", {"get_seq_local", "ns", kLoop, false, kNoBar}},
    {"get_seq", {"get_seq_cached", "ns", kLoop, false, kNoBar}},
    {"set_seq", {"set_seq", "ns", kLoop, false, {Bar::Side::kAtMost, 2}}},
    {"set_seq", {"set_seq_local", "ns", kLoop, false, kNoBar}},
    {"set_seq", {"set_seq_owned", "ns", kLoop, false, kNoBar}},
    {"pin_sum", {"pin_sum", "ns", "vectorised loop", false, {Bar::Side::kAtMost, 1.1}}},
    {"pin_sum", {"pin_sum_few", "ns", "vectorised loop", false, kNoBar}},
    {"get_random", {"get_random", "ns", kLoop, false, {Bar::Side::kAtMost, 1.7}}},
    {"get_random", {"get_random_cached", "ns", kLoop, false, kNoBar}},
    {"refcount_seq", {"refcount_seq", "ns", kLoop, false, kNoBar}},
    {"refcount_random", {"refcount_random", "ns", kLoop, false, kNoBar}},
    {"get_seq_cold", {"get_seq_cold", "ns", kLoop, false, {Bar::Side::kAtMost, 5}}},
    {"get_seq_cold", {"get_seq_cold_asked", "ns", kLoop, false, kNoBar}},
    {"get_seq_cold", {"get_seq_cold_chunks", "ns", kLoop, false, kNoBar}},
    {"prefetch_gain", {"prefetch_gain", "Mops/s", kNoReadAhead, true, {Bar::Side::kAtLeast, 3}}},
    {"prefetch_gain", {"prefetch_gain_in_place", "Mops/s", kNoReadAhead, true, kNoBar}},
    {"prefetch_gain", {"prefetch_gain_chunks", "Mops/s", kNoReadAhead, true, kNoBar}},
    {"get_random_cold", {"get_random_cold", "Mops/s", kNoReadAhead, true, {Bar::Side::kAtLeast, 0.95}}},
    {"get_random_cold", {"get_random_cold_in_place", "Mops/s", kNoReadAhead, true, kNoBar}},
    {"threads", {"threads", "Mops/s", "1 thread", true, {Bar::Side::kAtLeast, 1.8}}},
    {"threads", {"threads_native", "Mops/s", "1 thread", true, kNoBar}},
    {"apply_seq", {"apply_seq", "ns", "std::atomic_ref", false, {Bar::Side::kAtMost, 1.5}}},
    {"apply_vs_lock", {"apply_vs_lock", "Mops/s", "lock, read, write", true, {Bar::Side::kAtLeast, 30}}},
    {"apply_vs_atomic", {"apply_vs_atomic", "Mops/s", "fetch_add", true, {Bar::Side::kAtLeast, 5}}},
};

const CaseInfo& info_of(std::string_view name) {
  return std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& row) { return row.info.name == name; })->info;
}

/// Runs cases, a launch or several for each.
///
/// Thread-safety: none.
class ArrayRun {
 public:
  explicit ArrayRun(const Settings& settings)
      : settings_(settings),
        repetitions_(settings.repetitions > 0 ? settings.repetitions : (settings.quick ? 3 : 5)),
        cases_(settings.cases.empty() ? array_cases() : settings.cases) {}

  /// 0, or the code of the first case that failed.
  int run() {
    int code = 0, done = 0;
    for (const std::string& name : array_cases()) {
      if (std::find(cases_.begin(), cases_.end(), name) == cases_.end()) continue;
      Progress progress(done++, int(cases_.size()));
      progress.begin(name);
      try {
        run_case(name, progress);
      } catch (const cluster::LaunchFailed& failure) {
        fmt::print(stderr, "atoll bench: {}\n", failure.what());
        if (code == 0) code = failure.code();
        if (failure.interrupted()) break;
      }
    }
    return code;
  }

  [[nodiscard]] const std::vector<Record>& records() const noexcept { return records_; }

 private:
  void run_case(const std::string& name, Progress& progress) {
    if (name == "prefetch_gain") return run_gains(name, "get_seq_cold", pair_options(), progress);
    if (name == "get_random_cold") {
      Options small = pair_options();
      small.cache_bytes = 8u << 20;  // a quarter of what is read
      return run_gains(name, name, small, progress);
    }
    if (name.starts_with("apply")) {
      Options options;
      options.memory_bytes = 64u << 20;
      options.cache_bytes = 32u << 20;
      return keep_all(launch(name, name == "apply_seq" ? 2 : kCountingNodes, options, repetitions_));
    }
    if (name == "get_seq_cold") return run_cold(name);
    keep_all(launch(name, 2, pair_options(), repetitions_));
  }

  /// In chunks of one line of the heap; the same without reads in place; and in chunks of the default size.
  void run_cold(const std::string& name) {
    const auto keep_as = [&](const char* row, bool in_place, std::uint32_t chunk) {
      Options options = pair_options();
      options.read_in_place = in_place;
      std::vector<Samples> found = launch(name, 2, options, repetitions_, chunk);
      found.at(0).name = row;
      keep_all(found);
    };
    keep_as("get_seq_cold", true, kSmallChunk);
    keep_as("get_seq_cold_asked", false, kSmallChunk);
    keep_as("get_seq_cold_chunks", true, kDefaultChunk);
  }

  /// With read-ahead and without, in turns. First as over a network, where what is not here must be asked for: that is
  /// what read-ahead is for, and what the bar is about. Then with reads in place on both sides.
  void run_gains(const std::string& row, const std::string& timed, const Options& options, Progress& progress) {
    const bool in_order = timed == "get_seq_cold";
    keep_gain(row, timed, options, false, in_order ? kSmallChunk : kDefaultChunk, progress);
    keep_gain(row + "_in_place", timed, options, true, in_order ? kSmallChunk : kDefaultChunk, progress);
    if (in_order) keep_gain(row + "_chunks", timed, options, false, kDefaultChunk, progress);
  }
  void keep_gain(const std::string& row, const std::string& timed, Options options, bool in_place, std::uint32_t chunk,
                 Progress& progress) {
    const std::uint32_t lines = options.read_ahead_lines;
    options.read_in_place = in_place;
    Samples samples{row, 2, {}, {}};
    // Million operations per second of a case that tells ns.
    const auto rate = [&] { return 1e3 / median(launch(timed, 2, options, 3, chunk).at(0).values); };
    for (int i = 0; i < repetitions_; ++i) {
      progress.step(i + 1, repetitions_);
      options.read_ahead_lines = lines;
      samples.values.push_back(rate());
      options.read_ahead_lines = 0;
      samples.baselines.push_back(rate());
    }
    keep_all({samples});
  }

  static Options pair_options() {
    Options options;
    options.memory_bytes = 96u << 20;
    options.cache_bytes = 96u << 20;  // more than twice the other node's half: nothing is evicted
    return options;
  }

  std::vector<Samples> launch(const std::string& name, NodeId nodes, const Options& options, int repetitions,
                              std::uint32_t chunk = kDefaultChunk) {
    const nlohmann::json job = {
        {"case", name}, {"repetitions", repetitions}, {"quick", settings_.quick}, {"chunk", chunk}};
    std::vector<Samples> found;
    for (const nlohmann::json& result : cluster::run_job({"bench-node", kSuite}, nodes, options, job)) {
      found.push_back(result.get<Samples>());
    }
    return found;
  }

  void keep_all(const std::vector<Samples>& found) {
    for (const Samples& samples : found) {
      records_.push_back(make_record(kSuite, info_of(samples.name), samples));
      if (samples.name.starts_with("threads")) records_.back().threads = 2;
    }
  }

  const Settings& settings_;
  const int repetitions_;
  const std::vector<std::string> cases_;
  std::vector<Record> records_;
};

}  // namespace

ArrayPair::ArrayPair(Node& joined, const nlohmann::json& job)
    : TwoNodes(joined, job), array(joined, kWords, {.chunk = job.at("chunk").get<std::uint32_t>()}) {
  make_cold();
}

void ArrayPair::make_cold() {
  together();
  std::vector<std::uint64_t> piece(512);
  for (std::uint64_t at = array.local_begin(); at < array.local_end(); at += piece.size()) {
    for (std::uint64_t i = 0; i < piece.size(); ++i) piece[i] = at + i;
    array.write(at, piece).or_throw();
  }
  node.fence().or_throw();
  together();
}

std::vector<std::string> array_cases() {
  std::vector<std::string> names;
  for (const Row& row : kRows) {
    if (row.of == row.info.name) names.emplace_back(row.of);
  }
  return names;
}

int run_array(const Settings& settings) {
  if (!settings.json.empty()) write_json_lines(settings.json, {});  // complain now, not after a minute
  warn_if_busy();
  ArrayRun run(settings);
  const int code = run.run();
  print_table(run.records());
  if (!settings.json.empty()) write_json_lines(settings.json, run.records());
  return code;
}

void run_array_node() {
  const nlohmann::json job = cluster::current_job();
  const auto name = job.at("case").get<std::string>();
  Node node;
  if (name.starts_with("apply")) return run_apply_case(node, job);
  ArrayPair pair(node, job);
  for (const auto& cases : {array_hit_cases(), array_cold_cases()}) {
    for (const ArrayCase& one : cases) {
      if (one.name != name) continue;
      const std::vector<Samples> found = one.run(pair);
      if (!pair.measures()) continue;
      for (const Samples& samples : found) cluster::report(job, samples);
    }
  }
}

}  // namespace atoll::bench
