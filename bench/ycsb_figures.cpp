// GAM's Figure 13 and DArray's Figure 17.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "bench/ycsb.hpp"
#include "cluster/job.hpp"

namespace atoll::bench {
namespace ycsb {
namespace {

/// A figure: a table for each part of gets, stores over threads.
struct Figure {
  std::string name;
  std::string what;
  NodeId nodes;                   // unless the command line says otherwise
  std::vector<int> gets;          // percent
  std::vector<StoreKind> stores;  // the last is what the others are compared with
  bool of_a_node = false;         // else of all nodes
};

const Figure kFigures[] = {
    {"gam13", "Mops/s of a node", 4, {0, 50, 90, 99, 100}, {StoreKind::kAtoll, StoreKind::kLineLocks}, true},
    {"darray17",
     "Mops/s of all nodes",
     3,
     {50, 95, 100},
     {StoreKind::kAtoll, StoreKind::kBucketLocks, StoreKind::kLineLocks},
     false},
};

class FigureRun {
 public:
  FigureRun(const YcsbSettings& settings, const Figure& figure, int done, int total)
      : settings_(settings), figure_(figure), nodes_(settings.nodes > 0 ? settings.nodes : figure.nodes) {
    const bool quick = settings.common.quick;
    threads_ = quick ? std::vector{1, 2} : std::vector{1, 2, 3, 4};
    if (settings.threads > 0) threads_ = {int(settings.threads)};
    job_.stores = figure.stores;
    job_.nodes = nodes_;
    job_.records = settings.records > 0 ? settings.records : (quick ? 20'000 : 100'000);
    job_.value_size = settings.value_size;
    job_.operations = settings.operations;
    job_.seconds = settings.seconds > 0 ? settings.seconds : (quick ? 0.1 : 0.3);
    job_.repetitions = settings.common.repetitions > 0 ? settings.common.repetitions : (quick ? 1 : 3);
    job_.done = done;
    job_.total = total;
    for (const int gets : figure.gets) {
      for (const int threads : threads_) {
        Mix mix = get_put_mix(gets / 100.0);
        mix.zipf = settings.zipf;
        job_.points.push_back({label(gets, threads), mix, unsigned(threads)});
      }
    }
  }

  static int points(const YcsbSettings& settings, const Figure& figure) {
    return int(FigureRun(settings, figure, 0, 0).job_.points.size());
  }

  void run(std::vector<Record>& records) {
    found_ = run_mixes(job_);
    if (figure_.of_a_node) {
      for (Found& one : found_) {
        for (double& value : one.values) value /= nodes_;
      }
    }
    for (const Point& point : job_.points) {
      const StoreKind base = figure_.stores.back();
      for (const StoreKind store : figure_.stores) {
        const std::string name = fmt::format("{}/{}", point.label, name_of(store));
        const CaseInfo info{name, "Mops/s", name_of(base), true, {}};
        records.push_back(
            make_record("ycsb", info, {name, nodes_, values_of(point.label, store), values_of(point.label, base)}));
        records.back().threads = point.threads;
      }
    }
    print();
  }

 private:
  [[nodiscard]] std::string label(int gets, int threads) const {
    return fmt::format("{}/get={}/threads={}", figure_.name, gets, threads);
  }
  [[nodiscard]] const std::vector<double>& values_of(const std::string& label, StoreKind store) const {
    return std::find_if(found_.begin(), found_.end(),
                        [&](const Found& one) { return one.label == label && one.store == store; })
        ->values;
  }
  void print() const {
    for (const int gets : figure_.gets) {
      fmt::print("{}: {} % gets, Zipf {}, {} nodes ({})\n{:>10}", figure_.name, gets, settings_.zipf, nodes_,
                 figure_.what, "threads");
      for (const StoreKind store : figure_.stores) fmt::print("  {:>12}", name_of(store));
      for (const int threads : threads_) {
        fmt::print("\n{:>10}", threads);
        for (const StoreKind store : figure_.stores) {
          fmt::print("  {:>12.4g}", median(values_of(label(gets, threads), store)));
        }
      }
      fmt::print("\n\n");
    }
    std::fflush(stdout);
  }

  const YcsbSettings& settings_;
  const Figure& figure_;
  NodeId nodes_;
  std::vector<int> threads_;
  Job job_;
  std::vector<Found> found_;
};

}  // namespace

int run_figures(const YcsbSettings& settings, std::vector<Record>& records) {
  std::vector<const Figure*> wanted;
  int total = 0, done = 0, code = 0;
  for (const Figure& figure : kFigures) {
    if (settings.figure != "all" && settings.figure != figure.name) continue;
    wanted.push_back(&figure);
    total += FigureRun::points(settings, figure);
  }
  for (const Figure* figure : wanted) {
    try {
      FigureRun(settings, *figure, done, total).run(records);
    } catch (const cluster::LaunchFailed& failure) {
      fmt::print(stderr, "atoll bench: {}\n", failure.what());
      if (code == 0) code = failure.code();
      if (failure.interrupted()) break;
    }
    done += FigureRun::points(settings, *figure);
  }
  return code;
}

}  // namespace ycsb

std::vector<std::string> ycsb_figures() {
  return {"gam13", "darray17", "all"};
}

}  // namespace atoll::bench
