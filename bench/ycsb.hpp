// `atoll bench ycsb`: the Yahoo! Cloud Serving Benchmark on Atoll's map, and the figures of papers that ran it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "atoll/options.hpp"
#include "bench/harness.hpp"
#include "bench/store.hpp"
#include "bench/ycsb_workload.hpp"
#include "metrics/histogram.hpp"

namespace atoll::bench {

struct YcsbSettings {
  Settings common;
  std::string workload;    // "A" to "F", "custom", or empty
  std::string figure;      // one of ycsb_figures, or empty. Neither: the cases
  double get_ratio = 0.5;  // of a custom workload
  double zipf = 0.99;
  std::string distribution;   // "zipfian", "latest", "uniform"; empty: the workload's own
  std::uint64_t records = 0;  // of all nodes together; 0: chosen here
  std::uint64_t value_size = 100;
  std::uint64_t operations = 0;  // of a thread and run; 0: as many as fit into its time
  double seconds = 0;            // of a run; 0: chosen here
  NodeId nodes = 0;              // 0: chosen here
  unsigned threads = 0;          // of a node; 0: chosen here
};

[[nodiscard]] std::vector<std::string> ycsb_cases();
[[nodiscard]] std::vector<std::string> ycsb_figures();
/// Prints the tables; 0, or the exit code when something failed to run.
int run_ycsb(const YcsbSettings& settings);
/// One node of it.
void run_ycsb_node();

namespace ycsb {

/// What is run on every store in turn.
struct Point {
  std::string label;
  Mix mix;
  unsigned threads = 1;  // of each node
};
void to_json(nlohmann::json& out, const Point& point);
void from_json(const nlohmann::json& in, Point& point);

/// Work for a cluster.
struct Job {
  enum class Task : std::uint8_t {
    kMixes,   // points on stores
    kCached,  // node 0 reads what it has cached, and the same from a store of its own
    kMemory,  // how much a map takes
    kGrowth,  // a map grows while it is used, and is checked
  };
  Task task = Task::kMixes;
  std::vector<Point> points;
  std::vector<StoreKind> stores;
  NodeId nodes = 1;
  std::uint64_t records = 0;
  std::uint64_t value_size = 100;
  std::uint64_t operations = 0;  // of a thread and run; 0: no matter how many
  double seconds = 0;            // of a run; 0: no matter how long
  int repetitions = 1;
  bool latencies = false;
  int done = 0, total = 1;  // for the progress line

  [[nodiscard]] std::uint64_t pair_bytes() const noexcept { return Key::kBytes + value_size; }
  [[nodiscard]] unsigned most_threads() const noexcept;
  [[nodiscard]] bool inserts() const noexcept;
  /// The most pairs that there will be.
  [[nodiscard]] std::uint64_t most_pairs() const noexcept;
  [[nodiscard]] Options options() const;
};
void to_json(nlohmann::json& out, const Job& job);
void from_json(const nlohmann::json& in, Job& job);

/// Operations of a thread and run where records are inserted and no number is given: memory has an end.
inline constexpr std::uint64_t kMostWithInserts = 200'000;

/// What a cluster found for a point on a store.
struct Found {
  std::string label;
  StoreKind store = StoreKind::kAtoll;
  std::vector<double> values;                                   // million operations per second of all nodes
  std::vector<std::pair<Operation, metrics::Histogram>> times;  // in ns, all repetitions
};
/// Throws cluster::LaunchFailed.
[[nodiscard]] std::vector<Found> run_mixes(const Job& job);
/// One of the other tasks: what node 0 reported.
[[nodiscard]] std::vector<Samples> run_task(const Job& job);

/// Throughput of nodes by threads and get ratio, as in GAM's Figure 13 and DArray's Figure 17.
int run_figures(const YcsbSettings& settings, std::vector<Record>& records);

}  // namespace ycsb
}  // namespace atoll::bench
