// Runs litmus tests through the public API, on whatever cluster the nodes belong to.
#pragma once

#include <functional>
#include <map>
#include <optional>

#include "litmus/arena.hpp"

namespace atoll::litmus {

/// How often each outcome was seen.
using Histogram = std::map<Outcome, std::uint64_t>;

struct RunSettings {
  std::uint64_t runs = 100'000;
  std::uint64_t seed = 1;
  std::uint64_t until_seen = 0;  // if the interesting outcome was not seen by then: go on, up to so many runs
};

/// A thread of control that takes part in a test. Every node has one, which prepares lines; those that have a litmus
/// thread run it. The threads of one node beyond the first have seats of their own.
struct Seat {
  unsigned index = 0;              // of `seats`; 0 gathers what was found
  unsigned seats = 1;              // in the cluster
  std::optional<unsigned> thread;  // of the test
  bool prepares = true;
  std::function<void()> meet;  // returns when all seats have called it; all writes before it are visible after it
  std::function<void()> keep_step{};  // before each instance, if given: waits a little for the other threads
};

/// Runs the test as one of its seats; all seats must be called, each in a thread (or fiber) of its own. The histogram
/// is complete at seat 0, and empty elsewhere. Throws Error.
///
/// A round is: owners write 0; others read, so that lines are in every state; the litmus threads go through all
/// instances, in one random order but each at its own pace, and meet every few of them so as not to drift apart; the
/// final values are read, and seat 0 counts.
[[nodiscard]] Histogram run_seat(Node& node, const Seat& seat, const Arena& arena, const Case& test,
                                 const RunSettings& settings);

/// Runs the test as one of the cluster's nodes; called on all nodes. Takes the node's seat, and starts threads for the
/// others when they are all on one node. The histogram is complete on node 0.
///
/// REQUIRES: the cluster has at least nodes_for(test) nodes.
[[nodiscard]] Histogram run_node(Node& node, const Arena& arena, const Case& test, const RunSettings& settings);

/// One for each thread and one more, so that there is a home that takes no part; at least three and at most four.
[[nodiscard]] NodeId nodes_for(const Case& test);

}  // namespace atoll::litmus
