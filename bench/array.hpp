// `atoll bench array`: what arrays and operators cost, against plain loops and against other ways to do the same.
#pragma once

#include <string>
#include <vector>

#include "bench/harness.hpp"

namespace atoll::bench {

[[nodiscard]] std::vector<std::string> array_cases();
/// Prints the table; 0, or the exit code when something failed to run.
int run_array(const Settings& settings);
/// One node of it.
void run_array_node();

}  // namespace atoll::bench
