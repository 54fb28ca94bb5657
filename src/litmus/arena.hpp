// The global memory that the litmus tests of a cluster run in.
#pragma once

#include <array>
#include <vector>

#include "atoll/node.hpp"
#include "base/random.hpp"
#include "litmus/case.hpp"

namespace atoll::litmus {

/// What one run of a test works on: where its variables are and who has their lines at the start.
struct Instance {
  unsigned leads = 0;  // this one and the next ones, so many in all, share their lines; 0: an earlier one leads
  std::array<GlobalAddress, kVariables> at;
  std::array<NodeId, kVariables> owner;           // writes the 0 at the start
  std::array<std::uint64_t, kVariables> sharers;  // a bit for each node that reads it then
};

/// Lines of every node's memory, room for what the threads found, and a word by which node 0 tells the others whether
/// to go on.
///
/// Thread-safety: immutable once made.
/// Invariants:
///   1. All nodes have the same addresses.
///   2. x and y of an instance share a line under kOneLine, and else do not. Lines may hold the same variable of
///      several instances.
class Arena {
 public:
  static constexpr unsigned kInstances = 4096;
  static constexpr unsigned kMaxSeats = 16;
  static constexpr unsigned kGroup = 32;  // instances that may share their lines: those from a multiple of this on

  /// Made by all nodes together, once in a cluster: node 0 allocates, the others look it up. Throws Error.
  explicit Arena(Node& node, unsigned instances = kInstances);

  [[nodiscard]] unsigned instances() const noexcept { return instances_; }
  /// Where a seat (see Runner) leaves an Outcome for each instance.
  [[nodiscard]] GlobalAddress results(unsigned seat) const noexcept;
  [[nodiscard]] global_ptr<std::uint64_t> goes_on() const noexcept { return global_ptr<std::uint64_t>(common_); }

  /// Places for the runs of a round. Equal seeds give equal instances, on every node.
  [[nodiscard]] std::vector<Instance> instances_for(const Case& test, std::uint64_t seed) const;

 private:
  [[nodiscard]] Instance instance_at(const Case& test, unsigned first, base::Random& random) const;
  [[nodiscard]] GlobalAddress line(NodeId home, unsigned number) const noexcept;

  unsigned instances_;
  std::uint32_t line_bytes_;
  std::vector<GlobalAddress> lines_;  // the first of each home
  GlobalAddress common_;              // goes_on, the addresses of lines_, the results
};

}  // namespace atoll::litmus
