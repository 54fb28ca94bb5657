// One simulation: all of it follows from a seed, but for what is fixed by hand.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "sim/cluster.hpp"
#include "sim/workload.hpp"

namespace atoll::sim {

/// What is fixed by hand; the rest is drawn from the seed, so that each seed tries another corner: few or many nodes,
/// small or large lines, operations that are left out, fast or slow networks, a node that dies.
struct Wishes {
  std::optional<NodeId> nodes;
  std::optional<std::uint32_t> threads;
  std::optional<std::uint64_t> ops;
  std::optional<std::uint32_t> line_bytes;
  std::optional<Consistency> consistency;
  std::optional<std::uint32_t> latency_ns;
  std::optional<double> gbps;
  std::optional<double> loss_of_nodes;  // how likely it is that a node dies
  bool logged = false;                  // nodes have logs, crash and come back
};

struct Plan {
  ClusterOptions cluster;
  WorkloadOptions workload;
};
[[nodiscard]] Plan draw(std::uint64_t seed, const Wishes& wishes);
[[nodiscard]] std::string to_string(const Plan& plan);

struct Outcome {
  bool ok = true;
  std::string failure;  // what, and the messages about the line concerned
  std::uint64_t operations = 0;
  std::uint64_t failed = 0;  // because a node had died
  std::uint64_t messages = 0;
  std::uint64_t switches = 0;
  Time virtual_ns = 0;
  bool with_death = false;
  bool logged = false;
  std::uint64_t crashes = 0;
  std::uint64_t returns = 0;
  std::array<std::uint64_t, kActs> done{};
};

/// Runs it. After a failure the cluster is left as it was: the process should end soon.
[[nodiscard]] Outcome simulate(const Plan& plan);

}  // namespace atoll::sim
