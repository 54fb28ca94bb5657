#include "bench/array.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "atoll/atoll.hpp"
#include "bench/native.hpp"
#include "cluster/job.hpp"

namespace atoll::bench {
namespace {

constexpr const char* kSuite = "array";
constexpr NodeId kCounters = 4;               // nodes that count together
constexpr std::uint64_t kSeqWords = 1 << 17;  // 1 MiB: what is compared is the operation, not the memory behind it
constexpr std::uint64_t kZipfWords = 1 << 20;
constexpr double kZipfSkew = 0.99;
constexpr std::size_t kDraws = 1 << 16;

/// The bars are those of the project's requirements; docs/benchmarks.md explains them.
constexpr CaseInfo kCases[] = {
    {"apply_seq", "ns", "std::atomic_ref", false, {Bar::Side::kAtMost, 1.5}},
    {"apply_vs_lock", "Mops/s", "lock, read, write", true, {Bar::Side::kAtLeast, 30}},
    {"apply_vs_atomic", "Mops/s", "fetch_add", true, {Bar::Side::kAtLeast, 5}},
};

/// Places that follow Zipf's law, drawn beforehand: what is measured is the operation.
std::vector<std::uint32_t> zipf_places(std::uint64_t words, std::uint64_t seed) {
  std::vector<double> sums(words);
  double sum = 0;
  for (std::uint64_t i = 0; i < words; ++i) sums[i] = sum += std::pow(double(i + 1), -kZipfSkew);
  Lcg random(seed);
  std::vector<std::uint32_t> places(kDraws);
  for (std::uint32_t& place : places) {
    const double lot = double(random.next()) / 4294967296.0 * sum;
    const auto rank = std::uint64_t(std::lower_bound(sums.begin(), sums.end(), lot) - sums.begin());
    // Scattered, so that what is used most does not stand together.
    place = std::uint32_t(std::min(rank, words - 1) * 2654435761u % words);
  }
  return places;
}

/// Words on node `home`, known to all.
global_ptr<std::uint64_t> share(Node& node, const char* name, NodeId home, std::uint64_t words) {
  if (node.id() == home) {
    node.publish(name, node.allocate<std::uint64_t>(words, Placement::local()).value().address()).or_throw();
  }
  return global_ptr<std::uint64_t>(node.lookup(name).value());
}

/// One thread, one line after the other, operated already.
void run_apply_seq(Node& node, const nlohmann::json& job) {
  const auto words = share(node, "words", 1, kSeqWords);
  const int rounds = job.at("quick").get<bool>() ? 20 : 100;
  if (node.id() == 0) {
    std::vector<std::uint64_t> plain(kSeqWords, 0);
    const auto apply_all = [&] {
      for (std::uint64_t i = 0; i < kSeqWords; ++i) {
        node.apply(words + std::int64_t(i), op::add<std::uint64_t>, 1).or_throw();
      }
    };
    apply_all();
    node.fence().or_throw();
    Samples samples{"apply_seq", node.count(), {}, {}};
    for (int repetition = 0; repetition < job.at("repetitions").get<int>(); ++repetition) {
      Clock::time_point start = Clock::now();
      for (int round = 0; round < rounds; ++round) apply_all();
      samples.values.push_back(seconds_since(start) * 1e9 / rounds / double(kSeqWords));
      start = Clock::now();
      for (int round = 0; round < rounds; ++round) native_atomic_adds(plain);
      samples.baselines.push_back(seconds_since(start) * 1e9 / rounds / double(kSeqWords));
    }
    cluster::report(job, samples);
  }
  node.barrier().or_throw();
}

/// All nodes count what they draw in one array that is spread over them.
class Counting {
 public:
  Counting(Node& node, const nlohmann::json& job)
      : node_(node),
        seconds_(job.at("quick").get<bool>() ? 0.2 : 0.5),
        places_(zipf_places(kZipfWords, node.id() + 1u)) {
    for (NodeId home = 0; home < node.count(); ++home) {
      parts_.push_back(share(node, fmt::format("part {}", home).c_str(), home, kZipfWords / kCounters));
    }
    rates_ = share(node, "rates", 0, std::uint64_t{node.count()} * 64);
  }

  /// Operations of all nodes per microsecond.
  template <typename Count>
  double rate(Count&& count) {
    node_.barrier().or_throw();
    const Clock::time_point start = Clock::now();
    std::uint64_t counted = 0;
    double took = 0;
    do {
      for (int i = 0; i < 64; ++i) {
        const std::uint32_t place = places_[counted++ % kDraws];
        count(parts_[place % kCounters] + std::int64_t(place / kCounters));
      }
      took = seconds_since(start);
    } while (took < seconds_);
    node_.fence().or_throw();
    took = seconds_since(start);
    node_.write(rates_ + std::int64_t(node_.id()) * 64, std::uint64_t(double(counted) / took)).or_throw();
    node_.barrier().or_throw();
    double sum = 0;
    for (NodeId node = 0; node < node_.count(); ++node) {
      sum += double(node_.read(rates_ + std::int64_t(node) * 64).value()) * 1e-6;
    }
    return sum;
  }

  double by_operator() {
    return rate([&](global_ptr<std::uint64_t> at) { node_.apply(at, op::add<std::uint64_t>, 1).or_throw(); });
  }
  double by_lock() {
    return rate([&](global_ptr<std::uint64_t> at) {
      const WriteGuard guard(node_, at);
      guard.status().or_throw();
      node_.write(at, node_.read(at).value() + 1).or_throw();
    });
  }
  double by_atomic() {
    return rate([&](global_ptr<std::uint64_t> at) { (void)node_.fetch_add(at, 1).value(); });
  }

 private:
  Node& node_;
  double seconds_;
  std::vector<std::uint32_t> places_;
  std::vector<global_ptr<std::uint64_t>> parts_;
  global_ptr<std::uint64_t> rates_;
};

void run_apply_vs(Node& node, const nlohmann::json& job, bool lock) {
  Counting counting(node, job);
  Samples samples{lock ? "apply_vs_lock" : "apply_vs_atomic", node.count(), {}, {}};
  (void)counting.by_operator();
  for (int repetition = 0; repetition < job.at("repetitions").get<int>(); ++repetition) {
    samples.values.push_back(counting.by_operator());
    samples.baselines.push_back(lock ? counting.by_lock() : counting.by_atomic());
  }
  if (node.id() == 0) cluster::report(job, samples);
}

}  // namespace

std::vector<std::string> array_cases() {
  std::vector<std::string> names;
  for (const CaseInfo& info : kCases) names.emplace_back(info.name);
  return names;
}

int run_array(const Settings& settings) {
  if (!settings.json.empty()) write_json_lines(settings.json, {});  // complain now, not after a minute
  warn_if_busy();
  const int repetitions = settings.repetitions > 0 ? settings.repetitions : (settings.quick ? 3 : 5);
  std::vector<CaseInfo> wanted;
  for (const CaseInfo& info : kCases) {
    const auto& names = settings.cases;
    if (names.empty() || std::find(names.begin(), names.end(), info.name) != names.end()) wanted.push_back(info);
  }
  std::vector<Record> records;
  int code = 0;
  int done = 0;
  for (const CaseInfo& info : wanted) {
    Progress progress(done++, int(wanted.size()));
    progress.begin(info.name);
    Options options;
    options.memory_bytes = 64u << 20;
    options.cache_bytes = 32u << 20;
    const nlohmann::json job = {
        {"case", std::string(info.name)}, {"repetitions", repetitions}, {"quick", settings.quick}};
    try {
      const NodeId nodes = info.name == "apply_seq" ? NodeId(2) : kCounters;
      const auto results = cluster::run_job({"bench-node", kSuite}, nodes, options, job);
      records.push_back(make_record(kSuite, info, results.at(0).get<Samples>()));
    } catch (const cluster::LaunchFailed& failure) {
      fmt::print(stderr, "atoll bench: {}\n", failure.what());
      if (code == 0) code = failure.code();
      if (failure.interrupted()) break;
    }
  }
  print_table(records);
  if (!settings.json.empty()) write_json_lines(settings.json, records);
  return code;
}

void run_array_node() {
  const nlohmann::json job = cluster::current_job();
  const auto name = job.at("case").get<std::string>();
  Node node;
  if (name == "apply_seq") return run_apply_seq(node, job);
  run_apply_vs(node, job, name == "apply_vs_lock");
}

}  // namespace atoll::bench
