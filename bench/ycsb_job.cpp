// What `atoll bench ycsb` and its nodes tell each other.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "bench/ycsb.hpp"
#include "cluster/job.hpp"

namespace atoll::bench::ycsb {
namespace {

constexpr const char* kSuite = "ycsb";

}  // namespace

void to_json(nlohmann::json& out, const Point& point) {
  out = {{"label", point.label}, {"mix", point.mix}, {"threads", point.threads}};
}

void from_json(const nlohmann::json& in, Point& point) {
  in.at("label").get_to(point.label);
  in.at("mix").get_to(point.mix);
  in.at("threads").get_to(point.threads);
}

unsigned Job::most_threads() const noexcept {
  unsigned most = 1;
  for (const Point& point : points) most = std::max(most, point.threads);
  return most;
}

bool Job::inserts() const noexcept {
  return std::any_of(points.begin(), points.end(),
                     [](const Point& point) { return point.mix.part(Operation::kInsert) > 0; });
}

std::uint64_t Job::most_pairs() const noexcept {
  double pairs = double(records);
  const double each = double(operations > 0 ? operations : kMostWithInserts);
  for (const Point& point : points) {
    const double part = point.mix.part(Operation::kInsert);
    pairs += 1.2 * part * each * nodes * point.threads * (repetitions + 1);  // one is not counted
  }
  return std::uint64_t(std::ceil(pairs));
}

Options Job::options() const {
  const std::uint64_t pairs = most_pairs();
  Options options;
  // Of every store, even if one node has all pairs; and more than enough of a cache: one that is filled evicts.
  options.memory_bytes = (64ull << 20) + pairs * (3 * pair_bytes() + 512);
  options.cache_bytes = (64ull << 20) + pairs * (4 * pair_bytes() + 768);
  options.read_in_place = task != Task::kCached;  // a line that is seldom read would never be cached
  return options;
}

void to_json(nlohmann::json& out, const Job& job) {
  out = {{"task", int(job.task)},        {"points", job.points},   {"stores", nlohmann::json::array()},
         {"nodes", job.nodes},           {"records", job.records}, {"value_size", job.value_size},
         {"operations", job.operations}, {"seconds", job.seconds}, {"repetitions", job.repetitions},
         {"latencies", job.latencies},   {"done", job.done},       {"total", job.total}};
  for (const StoreKind kind : job.stores) out["stores"].push_back(int(kind));
}

void from_json(const nlohmann::json& in, Job& job) {
  job.task = Job::Task(in.at("task").get<int>());
  in.at("points").get_to(job.points);
  for (const nlohmann::json& kind : in.at("stores")) job.stores.push_back(StoreKind(kind.get<int>()));
  in.at("nodes").get_to(job.nodes);
  in.at("records").get_to(job.records);
  in.at("value_size").get_to(job.value_size);
  in.at("operations").get_to(job.operations);
  in.at("seconds").get_to(job.seconds);
  in.at("repetitions").get_to(job.repetitions);
  in.at("latencies").get_to(job.latencies);
  in.at("done").get_to(job.done);
  in.at("total").get_to(job.total);
}

std::vector<Found> run_mixes(const Job& job) {
  std::vector<Found> all;
  const auto place = [&](const nlohmann::json& result) -> Found& {
    const auto label = result.at("label").get<std::string>();
    const auto store = StoreKind(result.at("store").get<int>());
    for (Found& one : all) {
      if (one.label == label && one.store == store) return one;
    }
    return all.emplace_back(Found{label, store, {}, {}});
  };
  for (const nlohmann::json& result : cluster::run_job({"bench-node", kSuite}, job.nodes, job.options(), job)) {
    Found& found = place(result);
    if (result.contains("values")) {
      result.at("values").get_to(found.values);
      continue;
    }
    const auto operation = Operation(result.at("operation").get<int>());
    auto times =
        std::find_if(found.times.begin(), found.times.end(), [&](const auto& one) { return one.first == operation; });
    if (times == found.times.end()) times = found.times.emplace(times, operation, metrics::Histogram());
    for (const nlohmann::json& bucket : result.at("buckets")) {
      times->second.record(bucket.at(0).get<std::uint64_t>(), bucket.at(1).get<std::uint64_t>());
    }
  }
  return all;
}

std::vector<Samples> run_task(const Job& job) {
  std::vector<Samples> found;
  for (const nlohmann::json& result : cluster::run_job({"bench-node", kSuite}, job.nodes, job.options(), job)) {
    found.push_back(result.get<Samples>());
  }
  return found;
}

}  // namespace atoll::bench::ycsb
