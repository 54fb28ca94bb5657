#include "bench/darray.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "cluster/job.hpp"

namespace atoll::bench {
namespace {

constexpr const char* kSuite = "darray";

const char* name_of(System system) {
  switch (system) {
    case System::kNative: return "native";
    case System::kAtoll: return "atoll";
    case System::kPinned: return "pinned";
    case System::kRefcount: return "refcount";
    case System::kUncached: return "uncached";
    case System::kLock: return "lock";
    case System::kAtomic: return "atomic";
  }
  return "";
}

enum class Unit : std::uint8_t { kRate, kTime };

/// One table: systems over a number of nodes or threads.
struct Panel {
  std::string name;  // "fig12a"
  std::string title;
  std::string x;  // "nodes" or "threads"
  std::vector<int> values;
  DarrayPoint fixed;
  std::vector<System> systems;  // the first is what the others are compared with
  Unit unit = Unit::kRate;

  [[nodiscard]] std::string figure() const { return name.substr(3, name.find_first_of("abc") - 3); }
};

/// A point of a table that was or will be measured.
struct Cell {
  DarrayPoint point;
  std::string label;     // "fig12a/atoll/threads=2"
  std::string baseline;  // label of what it is compared with
  std::size_t panel = 0;
  int x = 0;
  std::string measured = {};  // label of the first cell with this point: that one is measured, for all of them
};

/// Systems that can do this; the others are left out.
std::vector<System> systems_for(Access access, Places places) {
  if (places == Places::kZipf) return {System::kLock, System::kAtoll, System::kAtomic};
  std::vector<System> systems = {System::kNative, System::kAtoll};
  if (places == Places::kInOrder) systems.push_back(System::kPinned);
  systems.push_back(System::kRefcount);
  if (access == Access::kRead) systems.push_back(System::kUncached);
  if (access == Access::kOperate) systems.push_back(System::kAtomic);
  return systems;
}

/// (a) reads, (b) writes, (c) operates.
void add_three(std::vector<Panel>& panels, const Panel& like) {
  constexpr std::pair<Access, const char*> kEach[] = {
      {Access::kRead, "read"}, {Access::kWrite, "write"}, {Access::kOperate, "operate"}};
  char letter = 'a';
  for (const auto& [access, verb] : kEach) {
    Panel panel = like;
    panel.name += letter++;
    panel.title = fmt::format("{}, {}", verb, like.title);
    panel.fixed.access = access;
    panel.systems = systems_for(access, like.fixed.places);
    panels.push_back(std::move(panel));
  }
}

std::vector<Panel> panels_of(const std::string& figure, bool quick) {
  const std::vector<int> nodes = quick ? std::vector{1, 2, 4} : std::vector{1, 2, 4, 8};
  const std::vector<int> threads = quick ? std::vector{1, 2} : std::vector{1, 2, 3, 4};
  DarrayPoint point;
  point.alone = true;
  std::vector<Panel> all = {{"fig1",
                             "in order, by one thread of one node",
                             "nodes",
                             {1, 6},
                             point,
                             systems_for(Access::kRead, Places::kInOrder),
                             Unit::kTime}};
  point = {};
  point.nodes = 3;
  add_three(all, {"fig12", "in order", "threads", threads, point, {}, Unit::kRate});
  point = {};
  add_three(all, {"fig13", "in order", "nodes", nodes, point, {}, Unit::kRate});
  point.access = Access::kOperate;
  point.places = Places::kZipf;
  for (const Unit unit : {Unit::kRate, Unit::kTime}) {
    all.push_back({unit == Unit::kRate ? "fig14a" : "fig14b", "add one, by Zipf's law", "nodes", nodes, point,
                   systems_for(point.access, point.places), unit});
  }
  const std::vector<System> views = {System::kNative, System::kAtoll, System::kPinned};
  all.push_back({"fig15", "read, in order", "nodes", nodes, {}, views, Unit::kRate});
  point = {};
  point.places = Places::kUniform;
  point.cache_holds_all = false;
  add_three(all, {"fig18", "at random, the cache holds a quarter", "nodes", nodes, point, {}, Unit::kTime});
  std::erase_if(all, [&](const Panel& panel) { return figure != "all" && panel.figure() != figure; });
  return all;
}

std::vector<Cell> cells_of(const std::vector<Panel>& panels) {
  std::vector<Cell> cells;
  for (std::size_t p = 0; p < panels.size(); ++p) {
    const Panel& panel = panels[p];
    for (const int x : panel.values) {
      const auto label = [&](System system) {
        return fmt::format("{}/{}/{}={}", panel.name, name_of(system), panel.x, x);
      };
      for (const System system : panel.systems) {
        Cell cell{panel.fixed, label(system), label(panel.systems.front()), p, x};
        cell.point.system = system;
        if (panel.x == "nodes") cell.point.nodes = NodeId(x);
        if (panel.x == "threads") cell.point.threads = unsigned(x);
        const auto same =
            std::find_if(cells.begin(), cells.end(), [&](const Cell& other) { return other.point == cell.point; });
        cell.measured = same == cells.end() ? cell.label : same->measured;
        cells.push_back(std::move(cell));
      }
    }
  }
  return cells;
}

/// Measures cells, a launch for all that need the same cluster.
///
/// Thread-safety: none.
class DarrayRun {
 public:
  DarrayRun(const Settings& settings, const std::vector<Panel>& panels, const std::vector<Cell>& cells)
      : settings_(settings),
        panels_(panels),
        cells_(cells),
        total_(
            std::count_if(cells.begin(), cells.end(), [](const Cell& cell) { return cell.measured == cell.label; })) {}

  /// 0, or the code of the first launch that failed.
  int run() {
    std::map<std::pair<NodeId, bool>, std::vector<const Cell*>> launches;
    for (const Cell& cell : cells_) {
      if (cell.measured == cell.label) launches[{cell.point.nodes, cell.point.cache_holds_all}].push_back(&cell);
    }
    int code = 0;
    for (const auto& [key, cells] : launches) {
      try {
        launch(key.first, key.second, cells);
      } catch (const cluster::LaunchFailed& failure) {
        fmt::print(stderr, "atoll bench: {}\n", failure.what());
        if (code == 0) code = failure.code();
        if (failure.interrupted()) break;
      }
    }
    return code;
  }

  [[nodiscard]] std::vector<Record> records() const {
    std::vector<Record> result;
    for (const Cell& cell : cells_) {
      const auto mine = values_of(cell.label), other = values_of(cell.baseline);
      if (mine.empty() || other.empty()) continue;
      const bool rate = panels_[cell.panel].unit == Unit::kRate;
      const CaseInfo info{cell.label, rate ? "Mops/s" : "ns", cell.baseline, rate, {}};
      result.push_back(make_record(kSuite, info, {cell.label, cell.point.nodes, mine, other}));
      result.back().threads = cell.point.threads;
    }
    return result;
  }

  void print() const {
    for (std::size_t p = 0; p < panels_.size(); ++p) {
      const Panel& panel = panels_[p];
      const std::string where = panel.x == "nodes" ? "" : fmt::format(", {} nodes", panel.fixed.nodes);
      fmt::print("{}{}: {}{} ({})\n{:>10}", p == 0 ? "" : "\n", panel.name, panel.title, where,
                 panel.unit == Unit::kRate ? "Mops/s of all nodes" : "ns per access of a thread", panel.x);
      for (const System system : panel.systems) fmt::print("  {:>10}", name_of(system));
      int row = -1;
      for (const Cell& cell : cells_) {
        if (cell.panel != p) continue;
        if (cell.x != row) fmt::print("\n{:>10}", row = cell.x);
        const std::vector<double> values = values_of(cell.label);
        fmt::print("  {:>10}", values.empty() ? "-" : fmt::format("{:.4g}", median(values)));
      }
      fmt::print("\n");
    }
    std::fflush(stdout);
  }

 private:
  /// In the unit of its table; empty when it was not measured. The nodes tell rates; threads that were at it for the
  /// same time took so much for each access.
  [[nodiscard]] std::vector<double> values_of(const std::string& label) const {
    const Cell& cell = *std::find_if(cells_.begin(), cells_.end(), [&](const Cell& one) { return one.label == label; });
    const auto found = found_.find(cell.measured);
    if (found == found_.end()) return {};
    std::vector<double> values = found->second.values;
    if (panels_[cell.panel].unit == Unit::kRate) return values;
    for (double& value : values) value = cell.point.workers() * 1e3 / value;
    return values;
  }

  void launch(NodeId nodes, bool cache_holds_all, const std::vector<const Cell*>& cells) {
    const std::uint64_t per_node = settings_.quick ? 1u << 17 : 1u << 19;  // words: 1 or 4 MiB
    const std::uint64_t bytes = per_node * nodes * sizeof(std::uint64_t);
    Options options;
    options.memory_bytes = 2 * per_node * sizeof(std::uint64_t) + (16u << 20);  // in chunks, and in lines
    // More than what it shall hold: a cache begins to evict when less than 30 % of it are free.
    options.cache_bytes = cache_holds_all ? bytes + bytes / 2 + (1u << 20) : bytes / 4;
    std::vector<DarrayPoint> points;
    std::vector<std::string> labels;
    for (const Cell* cell : cells) {
      points.push_back(cell->point);
      labels.push_back(cell->label);
    }
    const int repetitions = settings_.repetitions > 0 ? settings_.repetitions : (settings_.quick ? 1 : 3);
    const nlohmann::json job = {{"points", points},
                                {"labels", labels},
                                {"words", per_node * nodes},
                                {"seconds", settings_.quick ? 0.1 : 0.3},
                                {"repetitions", repetitions},
                                {"done", done_},
                                {"total", total_}};
    done_ += int(cells.size());
    for (const nlohmann::json& result : cluster::run_job({"bench-node", kSuite}, nodes, options, job)) {
      auto samples = result.get<Samples>();
      found_[samples.name] = samples;
    }
  }

  const Settings& settings_;
  const std::vector<Panel>& panels_;
  const std::vector<Cell>& cells_;
  const std::int64_t total_;  // of cells that are measured
  std::map<std::string, Samples> found_;
  int done_ = 0;
};

}  // namespace

void to_json(nlohmann::json& out, const DarrayPoint& point) {
  out = {{"system", int(point.system)},
         {"access", int(point.access)},
         {"places", int(point.places)},
         {"nodes", point.nodes},
         {"threads", point.threads},
         {"alone", point.alone},
         {"cache_holds_all", point.cache_holds_all}};
}

void from_json(const nlohmann::json& in, DarrayPoint& point) {
  point.system = System(in.at("system").get<int>());
  point.access = Access(in.at("access").get<int>());
  point.places = Places(in.at("places").get<int>());
  in.at("nodes").get_to(point.nodes);
  in.at("threads").get_to(point.threads);
  in.at("alone").get_to(point.alone);
  in.at("cache_holds_all").get_to(point.cache_holds_all);
}

std::vector<std::string> darray_figures() {
  return {"1", "12", "13", "14", "15", "18", "all"};
}

int run_darray(const DarraySettings& settings) {
  const Settings& common = settings.common;
  if (!common.json.empty()) write_json_lines(common.json, {});  // complain now, not after a minute
  warn_if_busy();
  const std::vector<Panel> panels = panels_of(settings.figure, common.quick);
  const std::vector<Cell> cells = cells_of(panels);
  DarrayRun run(common, panels, cells);
  const int code = run.run();
  run.print();
  if (!common.json.empty()) write_json_lines(common.json, run.records());
  return code;
}

}  // namespace atoll::bench
