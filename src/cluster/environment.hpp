// Which node this process is, and of how many: told by whoever started it, in the environment.
#pragma once

#include <functional>
#include <string>

#include "atoll/status.hpp"

namespace atoll::cluster {

/// The value of a variable, or nullptr when it is not set: as getenv(3).
using Environment = std::function<const char*(const char* name)>;

struct Place {
  NodeId node = 0;
  NodeId nodes = 1;
  std::string source;  // who said so, for people: "Slurm (SLURM_PROCID, SLURM_NTASKS)"
};

/// ATOLL_NODE and ATOLL_NODES, else what Open MPI, PMI, PMIx or Slurm set for the processes that they start.
/// Throws Error when nothing says it, when values make no sense, and when they contradict each other.
[[nodiscard]] Place place_from(const Environment& environment);

}  // namespace atoll::cluster
