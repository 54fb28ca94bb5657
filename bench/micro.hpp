// `atoll bench micro`: what single operations cost, each against what the machine does without Atoll.
#pragma once

#include <string>
#include <vector>

#include "bench/harness.hpp"

namespace atoll::bench {

[[nodiscard]] std::vector<std::string> micro_cases();
/// Prints the table; 0, or the exit code when something failed to run.
int run_micro(const Settings& settings);
/// One node of it.
void run_micro_node();

}  // namespace atoll::bench
