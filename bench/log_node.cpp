#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "atoll/atoll.hpp"
#include "base/random.hpp"
#include "bench/board.hpp"
#include "bench/log.hpp"
#include "bench/store.hpp"
#include "bench/ycsb_worker.hpp"
#include "cluster/job.hpp"

namespace atoll::bench {
namespace {

constexpr unsigned kThreads = 4;  // of a node: writers whose records go to the disk together
constexpr std::size_t kValueSize = 100;
constexpr std::uint64_t kAreaWords = (4u << 20) / sizeof(std::uint64_t);
constexpr std::uint64_t kFillBytes = 4096;

/// What a cluster does under one log, one after the other.
///
/// Thread-safety: none; every method is called by both nodes alike.
class Rates {
 public:
  Rates(Node& node, const nlohmann::json& job)
      : node_(node), job_(job), seconds_(job.at("seconds").get<double>()), board_(node) {}

  void run() {
    for (const auto& work : job_.at("works").get<std::vector<std::string>>()) {
      double rate = 0;
      if (work == "local" || work == "remote") {
        rate = write_words(work == "local" ? 0 : 1);
      } else {
        rate = use_map(std::stod(work.substr(work.rfind('_') + 1)) / 100);
      }
      if (node_.id() == 0) cluster::report(job_, {{"work", work}, {"rate", rate}});
    }
  }

 private:
  [[nodiscard]] ycsb::WorkerId worker(unsigned thread) const noexcept {
    return {node_.id() * kThreads + thread, kThreads * node_.count()};
  }

  /// Million operations per second, of both nodes.
  double use_map(double writes) {
    const auto records = job_.at("records").get<std::uint64_t>();
    if (store_ == nullptr) {
      store_ = make_store(StoreKind::kAtoll, node_, {records, ycsb::Key::kBytes + kValueSize});
      inserted_ = std::make_unique<ycsb::Inserted>(node_, "inserted", records, kThreads * node_.count());
      node_.barrier().or_throw();
      ycsb::in_threads(kThreads, [&](unsigned t) { ycsb::load(*store_, worker(t), records, kValueSize, [](int) {}); });
    }
    std::vector<std::unique_ptr<ycsb::Worker>> threads;
    for (unsigned t = 0; t < kThreads; ++t) {
      threads.push_back(std::make_unique<ycsb::Worker>(*store_, *inserted_, worker(t), ycsb::get_put_mix(1 - writes),
                                                       kValueSize, worker(t).number + 1));
    }
    (void)measure(
        kThreads,
        [&](unsigned t, double seconds) {
          return threads[t]->run({seconds, 0}, nullptr);
        },
        4);
    return measure(
        kThreads,
        [&](unsigned t, double seconds) {
          return threads[t]->run({seconds, 0}, nullptr);
        },
        1);
  }

  /// Node 0 writes a word and fences, again and again, in the memory of `home`; the other one sleeps.
  double write_words(NodeId home) {
    const std::string name = fmt::format("area {}", home);
    if (node_.id() == home) {
      node_.publish(name, node_.allocate<std::uint64_t>(kAreaWords, Placement::local()).value().address()).or_throw();
    }
    const global_ptr<std::uint64_t> area(node_.lookup(name).value());
    base::Random random(home + 1u);
    const auto write = [&](unsigned, double seconds) -> std::uint64_t {
      if (node_.id() != 0) return 0;
      const Clock::time_point begun = Clock::now();
      std::uint64_t done = 0;
      do {
        node_.write(area + std::int64_t(random.below(kAreaWords)), ++done).or_throw();
        node_.fence().or_throw();
      } while (done % 16 != 0 || seconds_since(begun) < seconds);
      return done;
    };
    (void)measure(1, write, 4);
    return measure(1, write, 1);
  }

  /// `work(thread, seconds)` on all nodes, for a part of the time: how many operations it did.
  template <typename Work>
  double measure(unsigned threads, Work&& work, double part) {
    std::vector<Tally> tallies(threads);
    node_.barrier().or_throw();
    ycsb::in_threads(threads, [&](unsigned t) {
      tallies[t].begun_ns = now_ns();
      tallies[t].operations = work(t, seconds_ / part);
      node_.fence().or_throw();
      tallies[t].ended_ns = now_ns();
    });
    Tally mine;
    for (const Tally& tally : tallies) mine.add(tally);
    const Tally all = board_.sum(mine);
    return double(all.operations) * 1e3 / double(all.ended_ns - all.begun_ns);
  }

  Node& node_;
  const nlohmann::json& job_;
  const double seconds_;
  Board board_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<ycsb::Inserted> inserted_;
};

[[nodiscard]] std::uint64_t pieces_of(const nlohmann::json& job) {
  return std::uint64_t(job.at("gib").get<double>() * double(1u << 30)) / kFillBytes;
}

/// As a crash would end it.
[[noreturn]] void die() {
  (void)::raise(SIGKILL);
  std::abort();
}

/// Word i of piece k is k + i.
void fill(const nlohmann::json& job) {
  Node node;
  const GlobalAddress area = node.allocate(pieces_of(job) * kFillBytes, Placement::local().uninitialized()).value();
  std::vector<std::uint64_t> piece(kFillBytes / sizeof(std::uint64_t));
  for (std::uint64_t k = 0; k < pieces_of(job); ++k) {
    for (std::size_t i = 0; i < piece.size(); ++i) piece[i] = k + i;
    node.write(area + std::int64_t(k * kFillBytes), std::as_bytes(std::span(piece))).or_throw();
  }
  node.fence().or_throw();
  node.publish("area", area).or_throw();
  // The last pages are in a checkpoint when one was begun after this. What a log may hold is written again until then.
  const std::uint64_t before = node.stats().checkpoints;
  for (std::uint64_t k = 0; node.stats().checkpoints < before + 2; k = (k + 1) % pieces_of(job)) {
    for (std::size_t i = 0; i < piece.size(); ++i) piece[i] = k + i;
    node.write(area + std::int64_t(k * kFillBytes), std::as_bytes(std::span(piece))).or_throw();
    node.fence().or_throw();
  }
  die();
}

void come_back(const nlohmann::json& job) {
  const Clock::time_point begun = Clock::now();
  Node node;
  if (!node.recovered()) throw Error("the node has not found its memory");
  const GlobalAddress area = node.lookup("area").value();
  (void)node.read<std::uint64_t>(area).value();
  const double seconds = seconds_since(begun);
  for (std::uint64_t k = 0; k < pieces_of(job); ++k) {
    const std::uint64_t at = k % (kFillBytes / sizeof(std::uint64_t));
    const auto found =
        node.read<std::uint64_t>(area + std::int64_t(k * kFillBytes + at * sizeof(std::uint64_t))).value();
    if (found != k + at) throw Error(fmt::format("page {} came back with {} in word {}", k, found, at));
  }
  std::ofstream(job.at("notes").get<std::string>()) << seconds << '\n';
  die();
}

}  // namespace

void run_log_node() {
  const nlohmann::json job = cluster::current_job();
  const auto group = job.at("group").get<std::string>();
  if (group == "fill") return fill(job);
  if (group == "return") return come_back(job);
  Node node;
  Rates(node, job).run();
}

}  // namespace atoll::bench
