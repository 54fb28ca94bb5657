// `atoll bench gam`: the micro benchmark of GAM's paper (section 7.1, Table 3), with its figures' sweeps.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "atoll/options.hpp"
#include "bench/harness.hpp"

namespace atoll::bench {

enum class Workload : std::uint8_t {
  kReadWrite,        // the paper's R/W
  kLock,             // RL/WL
  kLockedReadWrite,  // RL+R/WL+W
};

/// Table 3, and what else decides a throughput. Ratios are from 0 to 1.
struct GamPoint {
  Workload workload = Workload::kReadWrite;
  Consistency consistency = Consistency::kPso;
  NodeId nodes = 4;
  double read_ratio = 0.5;
  double remote_ratio = 0.75;
  double locality = 0;
  double sharing = 0;
  bool cache_holds_all = false;  // else half of the working set
};
void to_json(nlohmann::json& out, const GamPoint& point);
void from_json(const nlohmann::json& in, GamPoint& point);

struct GamSettings {
  Settings common;
  GamPoint point;                 // when no figure is wanted
  double remote_ratio = -1;       // negative: (nodes - 1) / nodes, as in the paper
  std::string figure;             // "6" to "10", "all", or empty
  std::uint64_t working_set = 0;  // bytes per node; 0: chosen here
  std::uint64_t operations = 0;   // per node and run; 0: as many as fit into a run's time
};

/// Prints the tables; 0, or the exit code when something failed to run.
int run_gam(const GamSettings& settings);
/// One node of it.
void run_gam_node();

}  // namespace atoll::bench
