// `atoll bench log`: what logging costs, and how long a node takes to come back.
#pragma once

#include <string>
#include <vector>

#include "bench/harness.hpp"

namespace atoll::bench {

struct LogSettings {
  Settings common;
  std::string directory;  // where logs are put meanwhile; empty: the system's directory for temporary files
  double gib = 0;         // memory of the node that comes back; 0: chosen here
};

[[nodiscard]] std::vector<std::string> log_cases();
/// Prints the table; 0, or the exit code when something failed to run.
int run_log(const LogSettings& settings);
/// One node of it.
void run_log_node();

}  // namespace atoll::bench
