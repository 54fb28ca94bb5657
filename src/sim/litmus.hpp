// Litmus tests on simulated clusters.
#pragma once

#include "litmus/runner.hpp"
#include "sim/cluster.hpp"

namespace atoll::sim {

/// Runs one test on a cluster of its own, in virtual time: each seat is a fiber. Throws Failure, or what a seat threw.
[[nodiscard]] litmus::Histogram run_litmus(const litmus::Case& test, Consistency mode,
                                           const litmus::RunSettings& settings, bool read_in_place);

}  // namespace atoll::sim
