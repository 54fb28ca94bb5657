#include "bench/tpcc/job.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/harness.hpp"
#include "cluster/job.hpp"

namespace atoll::bench::tpcc {
namespace {

constexpr double kMostOrdersPerSecond = 80'000;  // of a thread
constexpr double kLinesOfAnOrder = 10;

/// A row with its entry in an index, in Atoll's engine: a head of 24 bytes, and what the heap rounds up.
template <typename Key, typename Row>
constexpr double bytes_of_row() {
  return (24 + sizeof(Key) + sizeof(Row)) * 1.3 + 36;
}

nlohmann::json json_of(const metrics::Histogram& times) {
  nlohmann::json buckets = nlohmann::json::array();
  for (const auto& [value, count] : times.buckets()) buckets.push_back({value, count});
  return buckets;
}

}  // namespace

std::uint64_t Job::most_new_orders() const noexcept {
  const double seconds_in_all = warm_up_seconds() + seconds * repetitions;
  return std::uint64_t(seconds_in_all * kMostOrdersPerSecond * threads * shape.homes.nodes) + 1000;
}

std::uint64_t Job::bytes_of_order() const noexcept {
  return std::uint64_t(bytes_of_row<OrderKey, Order>() + bytes_of_row<OrderKey, NewOrder>() +
                       bytes_of_row<OrderIndexKey, Nothing>() + bytes_of_row<HistoryKey, History>() +
                       kLinesOfAnOrder * bytes_of_row<OrderLineKey, OrderLine>());
}

std::uint64_t Job::bytes_of_warehouse() const noexcept {
  const Scale& scale = shape.scale;
  const double customers = double(scale.districts) * scale.customers;
  return std::uint64_t(customers * (bytes_of_row<CustomerKey, Customer>() + bytes_of_row<NameIndexKey, Nothing>() +
                                    bytes_of_row<NameKey, Namesakes>() / 3) +
                       customers * double(bytes_of_order()) + scale.items * bytes_of_row<StockKey, Stock>());
}

std::uint64_t Job::bytes() const noexcept {
  return shape.homes.warehouses * bytes_of_warehouse() + most_new_orders() * bytes_of_order() +
         std::uint64_t(shape.scale.items * bytes_of_row<ItemKey, Item>());
}

Options Job::options() const {
  constexpr std::uint64_t kBase = 64ull << 20, kMostCache = 512ull << 20;
  const Homes& homes = shape.homes;
  Options options;
  if (engine != "atoll") {  // it brings its own, and only sets up and meets others with this
    options.memory_bytes = 4 << 20;
    options.cache_bytes = 1 << 20;
    return options;
  }
  // A node has its warehouses and its part of the rest; half as much again, for nodes are never equally fast.
  options.memory_bytes = kBase + bytes() / homes.nodes * 3 / 2 + bytes_of_warehouse();
  options.cache_bytes = kBase + std::min(kMostCache, homes.nodes == 1 ? 0 : bytes());
  return options;
}

void to_json(nlohmann::json& out, const Job& job) {
  const Shape& shape = job.shape;
  const Scale& scale = shape.scale;
  out = {{"label", job.label},
         {"engine", job.engine},
         {"scale", {scale.districts, scale.customers, scale.undelivered, scale.items}},
         {"warehouses", shape.homes.warehouses},
         {"nodes", shape.homes.nodes},
         {"distribution_ratio", shape.distribution_ratio ? nlohmann::json(*shape.distribution_ratio) : nullptr},
         {"read_ratio", shape.read_ratio},
         {"temporal_locality", shape.temporal_locality},
         {"seed", shape.seed},
         {"mix", int(job.mix)},
         {"threads", job.threads},
         {"seconds", job.seconds},
         {"repetitions", job.repetitions},
         {"done", job.done},
         {"total", job.total}};
}

void from_json(const nlohmann::json& in, Job& job) {
  Shape& shape = job.shape;
  in.at("label").get_to(job.label);
  in.at("engine").get_to(job.engine);
  const auto scale = in.at("scale").get<std::array<std::uint32_t, 4>>();
  shape.scale = {scale[0], scale[1], scale[2], scale[3]};
  in.at("warehouses").get_to(shape.homes.warehouses);
  in.at("nodes").get_to(shape.homes.nodes);
  if (!in.at("distribution_ratio").is_null()) shape.distribution_ratio = in.at("distribution_ratio").get<double>();
  in.at("read_ratio").get_to(shape.read_ratio);
  in.at("temporal_locality").get_to(shape.temporal_locality);
  in.at("seed").get_to(shape.seed);
  shape.constants = Constants::from_seed(shape.seed);
  job.mix = Mix(in.at("mix").get<int>());
  in.at("threads").get_to(job.threads);
  in.at("seconds").get_to(job.seconds);
  in.at("repetitions").get_to(job.repetitions);
  in.at("done").get_to(job.done);
  in.at("total").get_to(job.total);
}

void KindTally::merge(const KindTally& other) noexcept {
  done += other.done;
  rolled_back += other.rolled_back;
  times.merge(other.times);
}

void Tallies::merge(const Tallies& other) noexcept {
  if (other.ended_ns == 0) return;
  begun_ns = ended_ns == 0 ? other.begun_ns : std::min(begun_ns, other.begun_ns);
  ended_ns = std::max(ended_ns, other.ended_ns);
  for (std::size_t i = 0; i < kKinds; ++i) kinds[i].merge(other.kinds[i]);
  skipped += other.skipped;
}

std::uint64_t Tallies::all() const noexcept {
  std::uint64_t sum = 0;
  for (const KindTally& kind : kinds) sum += kind.done;
  return sum;
}

void to_json(nlohmann::json& out, const Tallies& tallies) {
  out = {{"begun_ns", tallies.begun_ns},
         {"ended_ns", tallies.ended_ns},
         {"skipped", tallies.skipped},
         {"kinds", nlohmann::json::array()}};
  for (const KindTally& kind : tallies.kinds) {
    out["kinds"].push_back({{"done", kind.done}, {"rolled_back", kind.rolled_back}, {"times", json_of(kind.times)}});
  }
}

void from_json(const nlohmann::json& in, Tallies& tallies) {
  in.at("begun_ns").get_to(tallies.begun_ns);
  in.at("ended_ns").get_to(tallies.ended_ns);
  in.at("skipped").get_to(tallies.skipped);
  for (std::size_t i = 0; i < kKinds; ++i) {
    const nlohmann::json& kind = in.at("kinds").at(i);
    kind.at("done").get_to(tallies.kinds[i].done);
    kind.at("rolled_back").get_to(tallies.kinds[i].rolled_back);
    for (const nlohmann::json& bucket : kind.at("times")) {
      tallies.kinds[i].times.record(bucket.at(0).get<std::uint64_t>(), bucket.at(1).get<std::uint64_t>());
    }
  }
}

double Outcome::rate() const {
  std::vector<double> values;
  for (const Tallies& one : repetitions) values.push_back(one.rate());
  return median(values);
}

double Outcome::tpmc() const {
  std::vector<double> values;
  for (const Tallies& one : repetitions) values.push_back(one.tpmc());
  return median(values);
}

void report(const nlohmann::json& json, int repetition, const Tallies& tallies) {
  cluster::report(json, {{"repetition", repetition}, {"tallies", tallies}});
}

void report(const nlohmann::json& json, const Counts& counts, std::uint64_t memory_bytes,
            const std::vector<Violation>& violations) {
  nlohmann::json found = nlohmann::json::array();
  for (const Violation& one : violations) found.push_back({one.condition, one.what, one.count});
  cluster::report(
      json, {{"counts",
              {counts.commits, counts.aborts, counts.lock_conflicts, counts.change_conflicts, counts.other_conflicts}},
             {"memory_bytes", memory_bytes},
             {"violations", found}});
}

Outcome run_cluster(const Job& job, LogMode log, const std::string& log_dir) {
  Options options = job.options();
  options.log = log;
  options.log_dir = log_dir;
  Outcome outcome;
  outcome.repetitions.resize(std::size_t(job.repetitions));
  for (const nlohmann::json& result :
       cluster::run_job({"bench-node", "tpcc"}, job.shape.homes.nodes, options, nlohmann::json(job))) {
    if (result.contains("tallies")) {
      outcome.repetitions.at(result.at("repetition").get<std::size_t>()).merge(result.at("tallies").get<Tallies>());
      continue;
    }
    const auto counts = result.at("counts").get<std::array<std::uint64_t, 5>>();
    outcome.counts.commits += counts[0];
    outcome.counts.aborts += counts[1];
    outcome.counts.lock_conflicts += counts[2];
    outcome.counts.change_conflicts += counts[3];
    outcome.counts.other_conflicts += counts[4];
    outcome.memory_bytes += result.at("memory_bytes").get<std::uint64_t>();
    for (const nlohmann::json& one : result.at("violations")) {
      const Violation violation{one.at(0).get<unsigned>(), one.at(1).get<std::string>(),
                                one.at(2).get<std::uint64_t>()};
      const auto known = std::find_if(outcome.violations.begin(), outcome.violations.end(),
                                      [&](const Violation& v) { return v.condition == violation.condition; });
      if (known == outcome.violations.end()) {
        outcome.violations.push_back(violation);
      } else {
        known->count += violation.count;
      }
    }
  }
  std::sort(outcome.violations.begin(), outcome.violations.end(),
            [](const Violation& a, const Violation& b) { return a.condition < b.condition; });
  return outcome;
}

}  // namespace atoll::bench::tpcc
