// `atoll bench fabric`: what each transport costs by itself, beside libfabric's own ping-pong and plain TCP.
#pragma once

#include <string>
#include <vector>

#include "bench/harness.hpp"

namespace atoll::bench {

struct FabricSettings {
  Settings common;
  std::vector<std::string> transports;  // empty: shm and tcp
  std::string address;                  // of this host, for transports that need one
};

/// Prints the table; 0, or the exit code when something failed to run.
int run_fabric(const FabricSettings& settings);
/// One node of it.
void run_fabric_node();

}  // namespace atoll::bench
