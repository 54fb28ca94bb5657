#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "atoll/atoll.hpp"
#include "bench/board.hpp"
#include "bench/ycsb.hpp"
#include "bench/ycsb_worker.hpp"
#include "cluster/job.hpp"

namespace atoll::bench {
namespace ycsb {
namespace {

/// A store and what is known of it.
struct Loaded {
  StoreKind kind;
  std::unique_ptr<Store> store;
  std::unique_ptr<Inserted> inserted;
};

/// One node's side of a job.
///
/// Thread-safety: none; every method is called by all nodes alike, unless it says otherwise.
class NodeJob {
 public:
  NodeJob(Node& node, const nlohmann::json& json)
      : node_(node), json_(json), job_(json.get<Job>()), board_(node), progress_(job_.done, job_.total) {}

  void run() {
    switch (job_.task) {
      case Job::Task::kMixes: return run_mixes();
      case Job::Task::kCached: return run_cached();
      case Job::Task::kMemory: return run_memory();
      case Job::Task::kGrowth: return run_growth();
    }
  }

 private:
  [[nodiscard]] bool tells() const noexcept { return node_.id() == 0; }
  [[nodiscard]] unsigned workers() const noexcept { return job_.most_threads() * node_.count(); }
  [[nodiscard]] WorkerId worker(unsigned thread) const noexcept {
    return {node_.id() * job_.most_threads() + thread, workers()};
  }
  void begin(const std::string& label) {
    if (tells()) progress_.begin(label);
  }
  void tell(const std::string& what) {
    if (tells()) progress_.tell(what);
  }

  // ---- tasks ----

  void run_mixes();
  void run_cached();
  void run_memory();
  void run_growth();

  // ---- parts of them ----

  Loaded load_store(StoreKind kind);
  /// Million operations per second of all nodes.
  double measure(Loaded& loaded, const Point& point, std::uint64_t seed, Histograms* histograms);
  void report_times(const Point& point, StoreKind kind, const Histograms& histograms);
  std::uint64_t grow(Store& store, Array<std::uint64_t>& stamps, std::uint64_t records);
  std::uint64_t memory_used();

  Node& node_;
  const nlohmann::json& json_;
  const Job job_;
  Board board_;
  Progress progress_;
};

Loaded NodeJob::load_store(StoreKind kind) {
  Loaded loaded{kind, make_store(kind, node_, {job_.most_pairs(), job_.pair_bytes()}),
                std::make_unique<Inserted>(node_, fmt::format("inserted/{}", int(kind)), job_.records, workers())};
  node_.barrier().or_throw();
  const auto told = [&](unsigned thread, int percent) {
    if (thread == 0) tell(fmt::format("loads {} {} %", name_of(kind), percent));
  };
  in_threads(job_.most_threads(), [&](unsigned t) {
    // What is this process's own is loaded by all threads of it.
    const WorkerId id = loaded.store->is_private() ? WorkerId{t, job_.most_threads()} : worker(t);
    load(*loaded.store, id, job_.records, job_.value_size, [&](int percent) { told(t, percent); });
  });
  node_.barrier().or_throw();
  return loaded;
}

double NodeJob::measure(Loaded& loaded, const Point& point, std::uint64_t seed, Histograms* histograms) {
  std::vector<std::unique_ptr<Worker>> threads;
  for (unsigned t = 0; t < point.threads; ++t) {
    threads.push_back(
        std::make_unique<Worker>(*loaded.store, *loaded.inserted, worker(t), point.mix, job_.value_size, seed));
  }
  std::vector<Tally> tallies(point.threads);
  std::vector<Histograms> times(histograms != nullptr ? point.threads : 0);
  const bool inserts = point.mix.part(Operation::kInsert) > 0;
  const Limits limits{job_.operations > 0 ? 0 : job_.seconds,
                      job_.operations == 0 && inserts ? kMostWithInserts : job_.operations};
  node_.barrier().or_throw();
  in_threads(point.threads, [&](unsigned t) {
    tallies[t].begun_ns = now_ns();
    tallies[t].operations = threads[t]->run(limits, histograms != nullptr ? &times[t] : nullptr);
    node_.fence().or_throw();
    tallies[t].ended_ns = now_ns();
  });
  Tally mine;
  for (const Tally& tally : tallies) mine.add(tally);
  for (const Histograms& one : times) {
    for (std::size_t i = 0; i < kOperations; ++i) (*histograms)[i].merge(one[i]);
  }
  const Tally all = board_.sum(mine);
  return double(all.operations) * 1e3 / double(all.ended_ns - all.begun_ns);
}

/// One node after the other: they write to one file.
void NodeJob::report_times(const Point& point, StoreKind kind, const Histograms& histograms) {
  for (NodeId turn = 0; turn < node_.count(); ++turn) {
    for (std::size_t i = 0; turn == node_.id() && i < kOperations; ++i) {
      if (histograms[i].count() == 0) continue;
      nlohmann::json buckets = nlohmann::json::array();
      for (const auto& [value, count] : histograms[i].buckets()) buckets.push_back({value, count});
      cluster::report(json_, {{"label", point.label}, {"store", int(kind)}, {"operation", i}, {"buckets", buckets}});
    }
    node_.barrier().or_throw();
  }
}

void NodeJob::run_mixes() {
  std::vector<Loaded> stores;
  bool loaded = false;
  for (const Point& point : job_.points) {
    begin(point.label);
    for (std::size_t i = 0; !loaded && i < job_.stores.size(); ++i) stores.push_back(load_store(job_.stores[i]));
    loaded = true;
    std::vector<Histograms> times(job_.latencies ? stores.size() : 0);
    std::vector<std::vector<double>> values(stores.size());
    for (Loaded& one : stores) (void)measure(one, point, 0, nullptr);  // fills the caches
    for (int repetition = 0; repetition < job_.repetitions; ++repetition) {
      if (tells()) progress_.step(repetition + 1, job_.repetitions);
      for (std::size_t i = 0; i < stores.size(); ++i) {
        Histograms* wanted = job_.latencies ? &times[i] : nullptr;
        values[i].push_back(measure(stores[i], point, std::uint64_t(repetition) + 1, wanted));
      }
    }
    for (std::size_t i = 0; i < stores.size(); ++i) {
      if (tells()) {
        cluster::report(json_, {{"label", point.label}, {"store", int(stores[i].kind)}, {"values", values[i]}});
      }
      if (job_.latencies) report_times(point, stores[i].kind, times[i]);
    }
  }
}

/// Node 0 alone; the others have put their share, and sleep in a barrier.
void NodeJob::run_cached() {
  constexpr int kMostPasses = 20;
  const Point& point = job_.points.at(0);
  begin(point.label);
  std::vector<Loaded> stores;
  for (const StoreKind kind : job_.stores) stores.push_back(load_store(kind));
  node_.barrier().or_throw();
  if (tells()) {
    const auto read = [&](Loaded& one, const Limits& limits) {
      Worker worker(*one.store, *one.inserted, {0, workers()}, point.mix, job_.value_size, 1);
      const std::int64_t begun = now_ns();
      const std::uint64_t done = worker.run(limits, nullptr);
      return double(done) * 1e3 / double(now_ns() - begun);
    };
    // All that is drawn, again and again until all of it is here.
    const auto waits = [&] { return node_.stats().misses() + node_.stats().reads_in_place; };
    std::uint64_t before = 0;
    int passes = 0;
    do {
      if (++passes > kMostPasses) throw Error("what was to be cached is always read from elsewhere");
      before = waits();
      (void)read(stores[0], {0, 1 << 16});
    } while (waits() != before);
    Samples samples{point.label, node_.count(), {}, {}};
    for (int repetition = 0; repetition < job_.repetitions; ++repetition) {
      progress_.step(repetition + 1, job_.repetitions);
      samples.values.push_back(read(stores[0], {job_.seconds, 0}));
      samples.baselines.push_back(read(stores[1], {job_.seconds, 0}));
    }
    cluster::report(json_, samples);
  }
  node_.barrier().or_throw();
}

std::uint64_t NodeJob::memory_used() {
  node_.barrier().or_throw();
  const Stats stats = node_.stats();
  return board_.sum({stats.memory_bytes - stats.memory_free_bytes, 0, 0}).operations;
}

void NodeJob::run_memory() {
  const Point& point = job_.points.at(0);
  begin(point.label);
  const std::uint64_t before = memory_used();
  const Loaded loaded = load_store(StoreKind::kAtoll);
  const std::uint64_t after = memory_used();
  if (!tells()) return;
  cluster::report(
      json_,
      Samples{
          point.label, node_.count(), {double(after - before) / double(job_.records)}, {double(job_.pair_bytes())}});
}

/// All workers insert, update what is theirs and read what is theirs until there are so many records. Every record's
/// last stamp is in `stamps` then. How many operations this node has done.
std::uint64_t NodeJob::grow(Store& store, Array<std::uint64_t>& stamps, std::uint64_t records) {
  std::atomic<std::uint64_t> operations{0};
  in_threads(job_.most_threads(), [&](unsigned t) {
    const WorkerId id = worker(t);
    base::Random random(id.number + 1);
    std::vector<std::uint64_t> last;  // stamps of record id + i * workers
    std::string value(job_.value_size, '\0');
    const auto put = [&](std::uint64_t i, std::uint64_t stamp) {
      const std::uint64_t record = id.number + i * id.workers;
      fill_value(record, stamp, value);
      if (store.put(Key(record).view(), value) != (i == last.size())) throw Error("a key was new that was not");
    };
    const std::uint64_t share = (records - id.number + id.workers - 1) / id.workers;
    std::uint64_t done = 0, stamp = std::uint64_t{id.number} << 40;
    for (; last.size() < share; ++done) {
      const std::uint64_t lot = random.below(10);
      if (last.empty() || lot < 4) {
        put(last.size(), ++stamp);
        last.push_back(stamp);
        if (t == 0 && last.size() % 1024 == 0) tell(fmt::format("{} of {}", last.size() * id.workers, records));
        continue;
      }
      const std::uint64_t i = random.below(last.size());
      const std::uint64_t record = id.number + i * id.workers;
      if (lot < 7) {
        put(i, ++stamp);
        last[i] = stamp;
      } else if (!store.get(Key(record).view(), value) || stamp_of(record, value) != last[i]) {
        throw Error(fmt::format("record {} is not as it was put while the table grew", record));
      }
    }
    for (std::uint64_t i = 0; i < share; ++i) stamps.set(id.number + i * id.workers, last[i]).or_throw();
    operations += done;
  });
  return operations;
}

void NodeJob::run_growth() {
  const Point& point = job_.points.at(0);
  begin(point.label);
  Array<std::uint64_t> stamps(node_, job_.records);
  const auto store = make_store(StoreKind::kAtoll, node_, {job_.records, job_.pair_bytes()});
  Samples samples{point.label, node_.count(), {}, {}};
  node_.barrier().or_throw();
  (void)grow(*store, stamps, job_.records);
  node_.barrier().or_throw();
  tell("checks");
  // Every node looks at all of them, its own and the others'.
  const Verdict verdict =
      verify(*store, job_.records, [&](std::uint64_t record) { return stamps.get(record).value(); });
  if (!verdict.ok()) {
    throw Error(fmt::format("node {}: of {} records {} are missing, {} have a wrong value, {} an old one", node_.id(),
                            job_.records, verdict.missing, verdict.wrong, verdict.stale));
  }
  if (const std::uint64_t pairs = store->pairs().value(); pairs != job_.records) {
    throw Error(fmt::format("the map has {} pairs where {} were put", pairs, job_.records));
  }
  const std::uint64_t right = board_.sum({verdict.right, 0, 0}).operations;
  samples.values.push_back(double(right) / node_.count());
  samples.baselines.push_back(double(job_.records));
  if (tells()) cluster::report(json_, samples);
}

}  // namespace
}  // namespace ycsb

void run_ycsb_node() {
  const nlohmann::json json = cluster::current_job();
  Node node;
  ycsb::NodeJob(node, json).run();
}

}  // namespace atoll::bench
