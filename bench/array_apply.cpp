// Operators against atomics and locks.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "atoll/atoll.hpp"
#include "bench/array_cases.hpp"
#include "bench/native.hpp"
#include "bench/zipf.hpp"
#include "cluster/job.hpp"

namespace atoll::bench {
namespace {

constexpr std::uint64_t kSeqWords = 1 << 17;  // 1 MiB: what is compared is the operation, not the memory behind it
constexpr std::uint64_t kZipfWords = 1 << 20;
constexpr std::size_t kDraws = 1 << 16;

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
        places_(zipf_places(kZipfWords, kDraws, node.id() + 1u)) {
    for (NodeId home = 0; home < node.count(); ++home) {
      parts_.push_back(share(node, fmt::format("part {}", home).c_str(), home, kZipfWords / kCountingNodes));
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
        count(parts_[place % kCountingNodes] + std::int64_t(place / kCountingNodes));
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

void run_apply_case(Node& node, const nlohmann::json& job) {
  const auto name = job.at("case").get<std::string>();
  if (name == "apply_seq") return run_apply_seq(node, job);
  run_apply_vs(node, job, name == "apply_vs_lock");
}

}  // namespace atoll::bench
