// `atoll bench tpcc`: TPC-C, and the figures of GAM's paper that ran it.
#pragma once

#include <string>
#include <vector>

#include "bench/harness.hpp"
#include "bench/tpcc/job.hpp"

namespace atoll::bench {

struct TpccSettings {
  Settings common;
  std::string engine = "atoll";
  std::uint32_t warehouses = 0;    // 0: chosen here
  NodeId nodes = 0;                // 0: chosen here
  unsigned threads = 0;            // of a node; 0: chosen here
  double seconds = 0;              // of a run; 0: chosen here
  std::string mix;                 // "full" or "neworder-payment"; empty: what is run has its own
  double distribution_ratio = -1;  // negative: as the specification has it
  double read_ratio = 0;
  double temporal_locality = 0;
  LogMode log = LogMode::kOff;
  std::string directory;  // of logs meanwhile; empty: that for temporary files
  std::uint64_t seed = 1;
  std::string figure;   // one of tpcc_figures, or empty
  std::string compare;  // one of tpcc_comparisons, or empty
};

[[nodiscard]] std::vector<std::string> tpcc_engines();
[[nodiscard]] std::vector<std::string> tpcc_figures();
[[nodiscard]] std::vector<std::string> tpcc_comparisons();
/// What is wrong with them; empty: nothing.
[[nodiscard]] std::string check_tpcc(const TpccSettings& settings);
/// Prints what was found. 0; 1 when a consistency condition does not hold; or the exit code when something failed to
/// run. REQUIRES: check_tpcc() finds nothing wrong.
int run_tpcc(const TpccSettings& settings);
/// One node of it.
void run_tpcc_node();

namespace tpcc {

/// A job as the settings say it, or as it is chosen here.
[[nodiscard]] Job job_of(const TpccSettings& settings);
/// Of this machine; 0: not known.
[[nodiscard]] std::uint64_t free_memory_bytes();

/// Of one job, for people. True: all conditions hold.
bool print(const Job& job, LogMode log, const Outcome& outcome);
/// Of one job, as a line of JSON. `bar` and `ratio` belong to comparisons; empty: none.
[[nodiscard]] std::string json_line(const Job& job, LogMode log, const Outcome& outcome);
/// What does not hold, on stderr. True: nothing.
bool tell_violations(const Job& job, const Outcome& outcome);

[[nodiscard]] std::vector<std::string> comparison_names();
/// How often what is compared is run.
[[nodiscard]] int repetitions_of(const TpccSettings& settings);
/// Figures 11 and 12 of GAM's paper, and two sides by turns; `lines` gets a line of JSON for each job and each ratio.
int run_figure(const TpccSettings& settings, std::vector<std::string>& lines);
int run_comparison(const TpccSettings& settings, std::vector<std::string>& lines);

}  // namespace tpcc
}  // namespace atoll::bench
