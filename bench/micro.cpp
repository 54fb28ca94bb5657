#include "bench/micro.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/check.hpp"
#include "bench/micro_many.hpp"
#include "bench/pair.hpp"
#include "cluster/job.hpp"

namespace atoll::bench {
namespace {

constexpr const char* kSuite = "micro";
constexpr const char* kAsked = "_asked";

constexpr Bar at_most(double limit) {
  return {Bar::Side::kAtMost, limit};
}
constexpr Bar at_least(double limit) {
  return {Bar::Side::kAtLeast, limit};
}

/// In the order of the table. The bars are those of the project's requirements; docs/benchmarks.md explains them.
constexpr CaseInfo kCases[] = {
    {"read_local", "ns", "native loop", false, at_most(3)},
    {"read_cached", "ns", "native loop", false, at_most(3)},
    {"write_local", "ns", "native loop", false, at_most(4)},
    {"write_owned", "ns", "native loop", false, at_most(4)},
    {"read_random_cached", "ns", "native loop", false, at_most(2)},
    {"lock_cached", "ns", "std::shared_mutex", false, at_most(2)},
    {"read_cold", "ns", "bare round trip", false, at_most(3)},
    {"stream_cold", "MiB/s", "memcpy of 64 MiB", true, at_least(0.4)},
    {"write_pso", "Mops/s", "the same, TSO", true, at_least(3)},
    {"lock_contended", "ns", "bare round trip", false, at_most(6)},
    {"atomic_bounce", "ns", "bare round trip", false, at_most(5)},
    {"idle", "cores", "one core", false, {Bar::Side::kBelow, 0.02}},
    {"crowd", "Mops/s", "2 nodes", true, at_least(0.5)},
};
/// Rows that come with a case, only to know: its own numbers against another baseline, what it does not count, or the
/// same case where nothing is read in place ("asked"), as between machines.
struct Companion {
  std::string_view of;
  CaseInfo info;
};
constexpr Companion kCompanions[] = {
    {"read_cold", {"read_cold_lines", "ns", "bare, cold lines", false, {}}},
    {"read_cold", {"read_cold_asked", "ns", "bare round trip", false, {}}},
    {"stream_cold", {"stream_cold_pieces", "MiB/s", "memcpy into 4 KiB", true, {}}},
    {"stream_cold", {"stream_cold_asked", "MiB/s", "memcpy of 64 MiB", true, {}}},
    {"write_pso", {"write_pso_first", "Mops/s", "the same, TSO", true, {}}},
    {"crowd", {"crowd_asked", "Mops/s", "2 nodes", true, {}}},
};

struct Row {
  const CaseInfo* info = nullptr;
  std::size_t rank = 0;  // in the table
};
/// REQUIRES: `name` is a case or a companion.
Row row_of(std::string_view name) {
  const auto named = [&name](const CaseInfo& info) { return info.name == name; };
  for (const Companion& companion : kCompanions) {
    if (named(companion.info)) return {&companion.info, row_of(companion.of).rank};
  }
  const CaseInfo* const found = std::find_if(std::begin(kCases), std::end(kCases), named);
  ATOLL_CHECK(found != std::end(kCases));
  return {found, std::size_t(found - std::begin(kCases))};
}

bool is_companion(std::string_view name) {
  return std::any_of(std::begin(kCompanions), std::end(kCompanions),
                     [name](const Companion& companion) { return companion.info.name == name; });
}

bool is_pair_case(std::string_view name) {
  const auto has = [name](std::span<const PairCase> cases) {
    return std::any_of(cases.begin(), cases.end(), [name](const PairCase& c) { return c.name == name; });
  };
  return has(hit_cases()) || has(miss_cases());
}

/// The launches of one `atoll bench micro`, and what came out of them.
///
/// Thread-safety: none.
class MicroRun {
 public:
  explicit MicroRun(const Settings& settings)
      : settings_(settings), repetitions_(settings.repetitions > 0 ? settings.repetitions : (settings.quick ? 3 : 5)) {
    for (const CaseInfo& info : kCases) {
      const auto& wanted = settings.cases;
      const std::string name(info.name);
      if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), name) == wanted.end()) continue;
      cases_.push_back(name);
      total_ += is_companion(name + kAsked) ? 2 : 1;
    }
  }

  /// 0, or the code of the first launch that failed.
  int run() {
    std::vector<std::string> pair_cases;
    std::copy_if(cases_.begin(), cases_.end(), std::back_inserter(pair_cases), is_pair_case);
    if (!pair_cases.empty()) attempt([&] { run_pair(pair_cases); });
    std::erase_if(pair_cases, [](const std::string& name) { return !is_companion(name + kAsked); });
    if (!pair_cases.empty()) attempt([&] { run_pair_asked(pair_cases); });
    if (chosen("idle")) attempt([this] { run_idle(); });
    if (chosen("crowd")) {
      Progress progress(done_, total_);
      attempt([&] { run_crowd("crowd", true, progress); });
      attempt([&] { run_crowd("crowd_asked", false, progress); });
    }
    return code_;
  }

  /// In the order of the table, whatever the order of running was.
  [[nodiscard]] std::vector<Record> records() const {
    std::vector<Samples> ordered = samples_;
    std::stable_sort(ordered.begin(), ordered.end(),
                     [](const Samples& a, const Samples& b) { return row_of(a.name).rank < row_of(b.name).rank; });
    std::vector<Record> result;
    for (const Samples& samples : ordered) result.push_back(make_record(kSuite, *row_of(samples.name).info, samples));
    return result;
  }

 private:
  [[nodiscard]] bool chosen(std::string_view name) const {
    return std::find(cases_.begin(), cases_.end(), name) != cases_.end();
  }

  /// A failed launch does not keep the others from running, unless the user ended it.
  template <typename Launch>
  void attempt(Launch&& launch) {
    if (interrupted_) return;
    try {
      launch();
    } catch (const cluster::LaunchFailed& failure) {
      fmt::print(stderr, "atoll bench: {}\n", failure.what());
      if (code_ == 0) code_ = failure.code();
      interrupted_ = failure.interrupted();
    }
  }

  void run_pair(const std::vector<std::string>& names) {
    for (Samples& samples : launch_pair(names, true)) samples_.push_back(std::move(samples));
  }

  void run_pair_asked(const std::vector<std::string>& names) {
    for (Samples& samples : launch_pair(names, false)) {
      samples.name += kAsked;
      if (is_companion(samples.name)) samples_.push_back(std::move(samples));
    }
  }

  std::vector<Samples> launch_pair(const std::vector<std::string>& names, bool read_in_place) {
    const base::Fd bare = Bare::make_file();
    Options options;
    options.read_in_place = read_in_place;
    options.memory_bytes = 256u << 20;
    options.cache_bytes = 192u << 20;  // all areas of node 1 at once: nothing is evicted
    const nlohmann::json job = {{"group", "pair"},
                                {"cases", names},
                                {"repetitions", repetitions_},
                                {"quick", settings_.quick},
                                {"total", total_},
                                {"bare", bare.get()},
                                {"done", done_}};
    done_ += int(names.size());
    std::vector<Samples> all;
    for (const nlohmann::json& result : cluster::run_job({"bench-node", kSuite}, kFewNodes, options, job)) {
      all.push_back(result.get<Samples>());
    }
    return all;
  }

  void run_idle() {
    Progress progress(done_++, total_);
    progress.begin("idle");
    const nlohmann::json job = {{"group", "idle"}, {"seconds", 3.0}, {"repetitions", settings_.quick ? 1 : 2}};
    samples_.push_back(cluster::run_job({"bench-node", kSuite}, kManyNodes, idle_options(), job).at(0).get<Samples>());
  }

  void run_crowd(const std::string& name, bool read_in_place, Progress& progress) {
    progress.begin(name);
    Options options = crowd_options();
    options.read_in_place = read_in_place;
    const nlohmann::json job = {{"group", "crowd"}, {"seconds", settings_.quick ? 0.5 : 1.0}};
    const auto rate = [&](NodeId nodes) {
      return cluster::run_job({"bench-node", kSuite}, nodes, options, job).at(0).get<Samples>().values.at(0);
    };
    Samples samples{name, kManyNodes, {}, {}};
    for (int i = 0; i < repetitions_; ++i) {
      progress.step(i + 1, repetitions_);
      samples.values.push_back(rate(kManyNodes));
      samples.baselines.push_back(rate(kFewNodes));
    }
    samples_.push_back(std::move(samples));
  }

  const Settings& settings_;
  const int repetitions_;
  std::vector<std::string> cases_;
  std::vector<Samples> samples_;
  int total_ = 0;  // cases, those that are asked included
  int done_ = 0;
  int code_ = 0;
  bool interrupted_ = false;
};

void run_pair_node(const nlohmann::json& job) {
  const auto names = job.at("cases").get<std::vector<std::string>>();
  Node node;
  Pair pair(node, job);
  for (const auto& cases : {hit_cases(), miss_cases()}) {
    for (const PairCase& one : cases) {
      if (std::find(names.begin(), names.end(), one.name) == names.end()) continue;
      if (pair.measures()) pair.progress.begin(one.name);
      const std::vector<Samples> found = one.run(pair);
      if (!pair.measures()) continue;
      for (const Samples& samples : found) cluster::report(job, samples);
    }
  }
}

}  // namespace

Pair::Pair(Node& joined, const nlohmann::json& job)
    : TwoNodes(joined, job),
      near(share("near", 0, kNearWords)),
      cached(share("cached", 1, kFarWords)),
      cold(share("cold", 1, kFarWords)),
      word(share("word", 1, joined.line_bytes() / sizeof(std::uint64_t))),
      notes(share("notes", 1, joined.line_bytes() / sizeof(std::uint64_t))),
      progress(job.at("done").get<int>(), job.at("total").get<int>()),
      bare_(job.at("bare").get<int>()) {}

Area Pair::share(const char* name, NodeId home, std::uint64_t words) {
  if (node.id() == home) {
    const Area area{node.allocate<std::uint64_t>(words, Placement::local()).value(), words};
    node.publish(name, area.first.address()).or_throw();
  }
  const Area area{global_ptr<std::uint64_t>(node.lookup(name).value()), words};
  make_cold(area);
  return area;
}

void Pair::make_cold(const Area& area) {
  together();
  if (node.id() == area.first.node()) {
    std::vector<std::uint64_t> piece(std::min(kPieceWords, area.count));
    for (std::uint64_t at = 0; at < area.count; at += piece.size()) {
      for (std::uint64_t i = 0; i < piece.size(); ++i) piece[i] = at + i;
      node.write((area.first + std::int64_t(at)).address(), std::as_bytes(std::span(piece))).or_throw();
    }
    node.fence().or_throw();
  }
  together();
}

double Pair::bare_round_trip(BareLines lines) {
  const std::uint32_t trips = quick ? 10'000 : 50'000;
  together();
  double ns = 0;
  if (measures()) {
    ns = bare_.ping(trips, lines);
  } else {
    bare_.serve(trips, lines);
  }
  together();
  return ns;
}

std::vector<std::string> micro_cases() {
  std::vector<std::string> names;
  for (const CaseInfo& info : kCases) names.emplace_back(info.name);
  return names;
}

int run_micro(const Settings& settings) {
  if (!settings.json.empty()) write_json_lines(settings.json, {});  // complain now, not after a minute
  warn_if_busy();
  MicroRun run(settings);
  const int code = run.run();
  const std::vector<Record> records = run.records();
  if (!records.empty()) print_table(records);
  if (!settings.json.empty()) write_json_lines(settings.json, records);
  return code;
}

void run_micro_node() {
  const nlohmann::json job = cluster::current_job();
  const auto group = job.at("group").get<std::string>();
  if (group == "idle") return run_idle_node(job);
  if (group == "crowd") return run_crowd_node(job);
  run_pair_node(job);
}

}  // namespace atoll::bench
