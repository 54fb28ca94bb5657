// One node's side of a job, for an engine.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "atoll/node.hpp"
#include "bench/harness.hpp"
#include "bench/tpcc/population.hpp"
#include "bench/tpcc/worker.hpp"

namespace atoll::bench::tpcc {

/// Populates, runs, checks. `json` is the job as it came.
///
/// Thread-safety: none; every method is called by all nodes alike.
template <Db D>
class NodeRun {
 public:
  NodeRun(Node& node, D& db, const nlohmann::json& json, const Job& job)
      : node_(node),
        db_(db),
        json_(json),
        job_(job),
        tables_(open_tables(db, job.shape.scale, job.shape.homes, job.mix, job.most_new_orders())),
        progress_(job.done, job.total) {}

  void run() {
    if (tells()) progress_.begin(job_.label);
    populate();
    std::vector<std::unique_ptr<Worker<D>>> workers;
    for (unsigned t = 0; t < job_.threads; ++t) {
      const Inputs inputs(job_.shape, node_.id(), t, job_.threads, node_.id() * job_.threads + t + 1);
      workers.push_back(std::make_unique<Worker<D>>(db_, tables_, inputs, job_.mix));
    }
    (void)measure(workers, job_.warm_up_seconds());
    const Counts before = db_.counts();
    std::vector<Tallies> tallies;
    for (int repetition = 0; repetition < job_.repetitions; ++repetition) {
      if (tells()) progress_.step(repetition + 1, job_.repetitions);
      tallies.push_back(measure(workers, job_.seconds));
    }
    const Counts after = db_.counts();
    const Counts counts{after.commits - before.commits, after.aborts - before.aborts,
                        after.lock_conflicts - before.lock_conflicts, after.change_conflicts - before.change_conflicts,
                        after.other_conflicts - before.other_conflicts};
    const std::uint64_t memory_bytes = db_.memory_bytes();
    report_all(tallies, counts, memory_bytes, check());
  }

 private:
  [[nodiscard]] bool tells() const noexcept { return node_.id() == 0; }

  void populate() {
    node_.barrier().or_throw();
    Population<D> population(db_, tables_, job_.shape, node_.id(), time_now());
    population.run(job_.threads + 1, [&](int percent) {
      if (tells()) progress_.tell(fmt::format("loads {} %", percent));
    });
    node_.barrier().or_throw();
  }

  Tallies measure(std::vector<std::unique_ptr<Worker<D>>>& workers, double seconds) {
    std::vector<Tallies> tallies(workers.size());
    node_.barrier().or_throw();
    ycsb::in_threads(unsigned(workers.size()), [&](unsigned t) { workers[t]->run(seconds, tallies[t]); });
    Tallies all;
    for (const Tallies& one : tallies) all.merge(one);
    node_.barrier().or_throw();
    return all;
  }

  std::vector<Violation> check() {
    if (tells()) progress_.tell("checks");
    const unsigned workers = job_.threads * node_.count();
    auto found = Audit<D>(db_, tables_, job_.shape.homes, node_.id(), workers).run(job_.threads + 1, job_.conditions());
    node_.barrier().or_throw();
    return found;
  }

  /// One node after the other: they write to one file.
  void report_all(const std::vector<Tallies>& tallies, const Counts& counts, std::uint64_t memory_bytes,
                  const std::vector<Violation>& violations) {
    for (NodeId turn = 0; turn < node_.count(); ++turn) {
      if (turn == node_.id()) {
        for (std::size_t i = 0; i < tallies.size(); ++i) report(json_, int(i), tallies[i]);
        report(json_, counts, memory_bytes, violations);
      }
      node_.barrier().or_throw();
    }
  }

  Node& node_;
  D& db_;
  const nlohmann::json& json_;
  const Job job_;
  const Tables<D> tables_;
  Progress progress_;
};

}  // namespace atoll::bench::tpcc
