#include "bench/gam.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "cluster/job.hpp"

namespace atoll::bench {
namespace {

constexpr const char* kSuite = "gam";

struct Column {
  const char* name;
  Workload workload;
  Consistency consistency;
};
/// The paper's systems. Locks wait in either case, so there is no TSO of them.
constexpr Column kColumns[] = {
    {"rw-pso", Workload::kReadWrite, Consistency::kPso},
    {"rw-tso", Workload::kReadWrite, Consistency::kTso},
    {"lock", Workload::kLock, Consistency::kPso},
    {"lockrw", Workload::kLockedReadWrite, Consistency::kPso},
};

const char* name_of(const GamPoint& point) {
  for (const Column& column : kColumns) {
    const bool same_order = point.workload != Workload::kReadWrite || column.consistency == point.consistency;
    if (column.workload == point.workload && same_order) return column.name;
  }
  return "rw-tso";
}

/// One curve family of the paper: all columns over one parameter.
struct Sweep {
  std::string name;  // "fig7a"
  std::string title;
  std::string x;  // the parameter's name
  std::vector<int> values;
  GamPoint fixed;
  void (*set)(GamPoint& point, int value);
};

void set_read(GamPoint& point, int percent) {
  point.read_ratio = percent / 100.0;
}
void set_remote(GamPoint& point, int percent) {
  point.remote_ratio = percent / 100.0;
}
void set_locality(GamPoint& point, int percent) {
  point.locality = percent / 100.0;
}
void set_sharing(GamPoint& point, int percent) {
  point.sharing = percent / 100.0;
}
double spread_evenly(NodeId nodes) {
  return double(nodes - 1) / nodes;
}
void set_nodes(GamPoint& point, int nodes) {
  point.nodes = NodeId(nodes);
  point.remote_ratio = spread_evenly(point.nodes);
}

/// A point of a sweep that was or will be measured.
struct Cell {
  GamPoint point;
  std::string label;     // "fig7a/rw-pso/remote=50"
  std::string baseline;  // label of what it is compared with
  std::size_t sweep = 0;
  int x = 0;
  std::size_t column = 0;
};

std::vector<Sweep> sweeps_of(const std::string& figure, NodeId nodes, bool quick) {
  const std::vector<int> percents = quick ? std::vector{0, 50, 100} : std::vector{0, 20, 40, 50, 60, 80, 100};
  const std::vector<int> counts = quick ? std::vector{1, 2, 4} : std::vector{1, 2, 4, 8};
  GamPoint base;
  base.nodes = nodes;
  base.remote_ratio = spread_evenly(nodes);
  const auto with = [&base](auto&& change) {
    GamPoint point = base;
    change(point);
    return point;
  };
  std::vector<Sweep> all = {
      {"fig6a", "read ratio; remote ratio 0", "read", percents, with([](auto& p) { p.remote_ratio = 0; }), set_read},
      {"fig6b", "read ratio; remote ratio 100", "read", percents, with([](auto& p) { p.remote_ratio = 1; }), set_read},
      {"fig7a", "remote ratio; writes", "remote", percents, with([](auto& p) { p.read_ratio = 0; }), set_remote},
      {"fig7b", "remote ratio; reads", "remote", percents, with([](auto& p) { p.read_ratio = 1; }), set_remote},
      {"fig8a", "spatial locality; writes", "locality", percents, with([](auto& p) { p.read_ratio = 0; }),
       set_locality},
      {"fig8b", "spatial locality; reads", "locality", percents, with([](auto& p) { p.read_ratio = 1; }), set_locality},
      {"fig9a", "sharing ratio; the cache holds half", "sharing", percents, base, set_sharing},
      {"fig9b", "sharing ratio; the cache holds all", "sharing", percents,
       with([](auto& p) { p.cache_holds_all = true; }), set_sharing},
      {"fig10a", "nodes; sharing ratio 0", "nodes", counts, with([](auto& p) { p.cache_holds_all = true; }), set_nodes},
      {"fig10b", "nodes; sharing ratio 50", "nodes", counts, with([](auto& p) {
         p.cache_holds_all = true;
         p.sharing = 0.5;
       }),
       set_nodes},
  };
  const std::string wanted = "fig" + figure;
  std::erase_if(all, [&](const Sweep& sweep) {
    return figure != "all" && sweep.name.substr(0, sweep.name.size() - 1) != wanted;
  });
  return all;
}

/// PSO is compared with TSO at the same place, everything else with the first place of its own curve.
std::vector<Cell> cells_of(const std::vector<Sweep>& sweeps) {
  std::vector<Cell> cells;
  for (std::size_t s = 0; s < sweeps.size(); ++s) {
    const Sweep& sweep = sweeps[s];
    const auto label = [&sweep](const char* column, int x) {
      return fmt::format("{}/{}/{}={}", sweep.name, column, sweep.x, x);
    };
    for (const int x : sweep.values) {
      for (std::size_t c = 0; c < std::size(kColumns); ++c) {
        Cell cell{sweep.fixed, label(kColumns[c].name, x), label(kColumns[c].name, sweep.values.front()), s, x, c};
        cell.point.workload = kColumns[c].workload;
        cell.point.consistency = kColumns[c].consistency;
        sweep.set(cell.point, x);
        if (c == 0) cell.baseline = label(kColumns[1].name, x);
        cells.push_back(std::move(cell));
      }
    }
  }
  return cells;
}

/// The one point of the command line, and the same without remote accesses to compare it with.
std::vector<Cell> single_cells(const GamSettings& settings) {
  Cell base{settings.point, "", "", 0, 0, 0};
  if (settings.remote_ratio < 0) base.point.remote_ratio = spread_evenly(base.point.nodes);
  std::vector<Cell> cells;
  for (const double remote : {0.0, base.point.remote_ratio}) {
    base.point.remote_ratio = remote;
    base.label = fmt::format("{}/remote={:.3g}", name_of(base.point), remote * 100);
    base.baseline = cells.empty() ? base.label : cells.front().label;
    if (cells.empty() || cells.front().label != base.label) cells.push_back(base);
  }
  return cells;
}

/// Measures cells, a launch for all that need the same cluster.
///
/// Thread-safety: none.
class GamRun {
 public:
  GamRun(const GamSettings& settings, const std::vector<Cell>& cells) : settings_(settings), cells_(cells) {
    const bool quick = settings.common.quick;
    working_set_ = settings.working_set > 0 ? settings.working_set : (quick ? 2ull << 20 : 8ull << 20);
  }

  int run() {
    std::map<std::pair<NodeId, bool>, std::vector<const Cell*>> launches;
    for (const Cell& cell : cells_) launches[{cell.point.nodes, cell.point.cache_holds_all}].push_back(&cell);
    for (const auto& [key, cells] : launches) {
      try {
        launch(key.first, key.second, cells);
      } catch (const cluster::LaunchFailed& failure) {
        fmt::print(stderr, "atoll bench: {}\n", failure.what());
        if (code_ == 0) code_ = failure.code();
        if (failure.interrupted()) break;
      }
    }
    return code_;
  }

  [[nodiscard]] const std::map<std::string, Samples>& found() const noexcept { return found_; }

  [[nodiscard]] std::vector<Record> records() const {
    std::vector<Record> result;
    for (const Cell& cell : cells_) {
      const auto mine = found_.find(cell.label), other = found_.find(cell.baseline);
      if (mine == found_.end() || other == found_.end()) continue;
      const CaseInfo info{cell.label, "Mops/s", cell.baseline, true, {}};
      result.push_back(
          make_record(kSuite, info, {cell.label, cell.point.nodes, mine->second.values, other->second.values}));
    }
    return result;
  }

 private:
  void launch(NodeId nodes, bool cache_holds_all, const std::vector<const Cell*>& cells) {
    const Settings& common = settings_.common;
    Options options;
    options.memory_bytes = std::max<std::uint64_t>(64ull << 20, 4 * working_set_);
    // A little more than what it shall hold: a cache begins to evict before it is full.
    const std::uint64_t held = cache_holds_all ? working_set_ : working_set_ / 2;
    options.cache_bytes = held + held / 8;
    options.evict_below_percent = options.evict_until_percent = 0;  // the paper's cache is used to its end
    std::vector<GamPoint> points;
    std::vector<std::string> labels;
    for (const Cell* cell : cells) {
      points.push_back(cell->point);
      labels.push_back(cell->label);
    }
    const int repetitions = common.repetitions > 0 ? common.repetitions : (common.quick ? 1 : 3);
    const nlohmann::json job = {{"points", points},
                                {"labels", labels},
                                {"working_set", working_set_},
                                {"operations", settings_.operations},
                                {"seconds", common.quick ? 0.1 : 0.5},
                                {"repetitions", repetitions},
                                {"done", done_},
                                {"total", cells_.size()}};
    done_ += int(cells.size());
    for (const nlohmann::json& result : cluster::run_job({"bench-node", kSuite}, nodes, options, job)) {
      auto samples = result.get<Samples>();
      found_[samples.name] = samples;
    }
  }

  const GamSettings& settings_;
  const std::vector<Cell>& cells_;
  std::uint64_t working_set_ = 0;
  std::map<std::string, Samples> found_;
  int done_ = 0;
  int code_ = 0;
};

void print_figures(const std::vector<Sweep>& sweeps, const std::vector<Cell>& cells, const GamRun& run) {
  for (std::size_t s = 0; s < sweeps.size(); ++s) {
    const Sweep& sweep = sweeps[s];
    const std::string where = sweep.x == "nodes" ? "" : fmt::format(", {} nodes", sweep.fixed.nodes);
    fmt::print("{}{}: {} (Mops/s of all nodes{})\n{:>10}", s == 0 ? "" : "\n", sweep.name, sweep.title, where, sweep.x);
    for (const Column& column : kColumns) fmt::print("  {:>10}", column.name);
    for (const Cell& cell : cells) {
      if (cell.sweep != s) continue;
      if (cell.column == 0) fmt::print("\n{:>10}", cell.x);
      const auto found = run.found().find(cell.label);
      fmt::print("  {:>10}", found == run.found().end() ? "-" : fmt::format("{:.3f}", median(found->second.values)));
    }
    fmt::print("\n");
  }
  std::fflush(stdout);
}

}  // namespace

void to_json(nlohmann::json& out, const GamPoint& point) {
  out = {{"workload", int(point.workload)}, {"consistency", int(point.consistency)},   {"nodes", point.nodes},
         {"read_ratio", point.read_ratio},  {"remote_ratio", point.remote_ratio},      {"locality", point.locality},
         {"sharing", point.sharing},        {"cache_holds_all", point.cache_holds_all}};
}

void from_json(const nlohmann::json& in, GamPoint& point) {
  point.workload = Workload(in.at("workload").get<int>());
  point.consistency = Consistency(in.at("consistency").get<int>());
  in.at("nodes").get_to(point.nodes);
  in.at("read_ratio").get_to(point.read_ratio);
  in.at("remote_ratio").get_to(point.remote_ratio);
  in.at("locality").get_to(point.locality);
  in.at("sharing").get_to(point.sharing);
  in.at("cache_holds_all").get_to(point.cache_holds_all);
}

int run_gam(const GamSettings& settings) {
  // Complain now, not after a minute.
  if (!settings.common.json.empty()) write_json_lines(settings.common.json, {});
  std::vector<Sweep> sweeps;
  if (!settings.figure.empty()) sweeps = sweeps_of(settings.figure, settings.point.nodes, settings.common.quick);
  const std::vector<Cell> cells = settings.figure.empty() ? single_cells(settings) : cells_of(sweeps);
  warn_if_busy();
  GamRun run(settings, cells);
  const int code = run.run();
  const std::vector<Record> records = run.records();
  if (!sweeps.empty()) {
    print_figures(sweeps, cells, run);
  } else if (!records.empty()) {
    print_table(records);
  }
  if (!settings.common.json.empty()) write_json_lines(settings.common.json, records);
  return code;
}

}  // namespace atoll::bench
