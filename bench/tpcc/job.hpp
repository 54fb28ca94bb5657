// What `atoll bench tpcc` and its nodes tell each other.
#pragma once

#include <array>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "atoll/options.hpp"
#include "bench/tpcc/consistency.hpp"
#include "bench/tpcc/inputs.hpp"
#include "metrics/histogram.hpp"

namespace atoll::bench::tpcc {

/// Work for a cluster: it is populated, runs transactions, and is checked.
struct Job {
  std::string label;
  std::string engine = "atoll";
  Shape shape;
  Mix mix = Mix::kFull;
  unsigned threads = 1;  // of a node
  double seconds = 1;    // of a repetition
  int repetitions = 1;
  int done = 0, total = 1;  // for the progress line

  /// Before anything counts.
  [[nodiscard]] double warm_up_seconds() const noexcept { return seconds / 4; }
  /// More than there will be, on all nodes together.
  [[nodiscard]] std::uint64_t most_new_orders() const noexcept;
  /// Of rows and indexes: when populated, and what a New-Order and a Payment add.
  [[nodiscard]] std::uint64_t bytes_of_warehouse() const noexcept;
  [[nodiscard]] std::uint64_t bytes_of_order() const noexcept;
  /// What all nodes on one machine need.
  [[nodiscard]] std::uint64_t bytes() const noexcept;
  [[nodiscard]] Conditions conditions() const noexcept {
    return shape.read_ratio > 0 ? kConditionsWithReads : kAllConditions;
  }
  [[nodiscard]] Options options() const;
};
void to_json(nlohmann::json& out, const Job& job);
void from_json(const nlohmann::json& in, Job& job);

/// What transactions of one kind did.
struct KindTally {
  std::uint64_t done = 0;         // those that were rolled back as they should be too
  std::uint64_t rolled_back = 0;  // New-Orders of an item that does not exist
  metrics::Histogram times{2};    // in ns, each from its input to its end with all attempts

  void merge(const KindTally& other) noexcept;
};

/// What transactions did, in one repetition: those of a thread, a node or all.
struct Tallies {
  std::array<KindTally, kKinds> kinds;
  std::uint64_t skipped = 0;  // districts that had nothing to deliver
  std::int64_t begun_ns = 0, ended_ns = 0;

  void merge(const Tallies& other) noexcept;
  [[nodiscard]] const KindTally& of(Kind kind) const noexcept { return kinds[std::size_t(kind)]; }
  [[nodiscard]] std::uint64_t all() const noexcept;
  [[nodiscard]] double seconds() const noexcept { return double(ended_ns - begun_ns) / 1e9; }
  /// Transactions of all kinds in a second.
  [[nodiscard]] double rate() const noexcept { return double(all()) / seconds(); }
  /// New-Orders in a minute (clause 5.4).
  [[nodiscard]] double tpmc() const noexcept { return double(of(Kind::kNewOrder).done) * 60 / seconds(); }
};
void to_json(nlohmann::json& out, const Tallies& tallies);
void from_json(const nlohmann::json& in, Tallies& tallies);

/// What came of a job.
struct Outcome {
  std::vector<Tallies> repetitions;  // of all nodes together
  Counts counts;                     // of all repetitions
  std::uint64_t memory_bytes = 0;    // of all nodes at the end
  std::vector<Violation> violations;

  [[nodiscard]] double rate() const;  // medians
  [[nodiscard]] double tpmc() const;
};
/// Throws cluster::LaunchFailed. `log_dir` is where nodes log, in the mode that is given, if any.
[[nodiscard]] Outcome run_cluster(const Job& job, LogMode log = LogMode::kOff, const std::string& log_dir = {});

// In nodes, to the file of results:
void report(const nlohmann::json& json, int repetition, const Tallies& tallies);
void report(const nlohmann::json& json, const Counts& counts, std::uint64_t memory_bytes,
            const std::vector<Violation>& violations);

}  // namespace atoll::bench::tpcc
