// The barrier in the middle of each phase: all come, nobody gets through before, and everybody gets through then. Of
// nodes that crash the runtime promises this much (Runtime::handle_report, Runtime::mourn): barriers are counted; a
// node that is back counts on from what the others know to be released. What it had arrived at and was not released it
// arrives at again, and what was released it does not. A program cannot know which of the two it is; here it is told,
// by the count.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/workload.hpp"

namespace atoll::sim {

/// Nothing is under way: all must have counted the same.
void Workload::begin_barrier() {
  ++phase_;
  barriers_before_ = cluster_.barriers(0);
  for (NodeId node = 1; node < cluster_.options().nodes; ++node) {
    if (cluster_.barriers(node) == barriers_before_) continue;
    throw Failure(
        fmt::format("node {} has counted {} barriers, and node 0 {}", node, cluster_.barriers(node), barriers_before_));
  }
}

void Workload::arrive(Worker& worker) {
  if (std::exchange(worker.has_arrived, true)) return;
  const NodeId node = worker.node->id();
  if (is_released(node)) return;  // it was, while the node was away
  last_arrival_ = cluster_.machine().time();
  arrivals_[node] = phase_;
  begin(worker, "barrier", {});
  worker.at_barrier = true;
  const Status status = worker.node->barrier(std::chrono::hours(1));
  worker.at_barrier = false;
  // Others may still be at work; but when the last has come it must not take long.
  worker.begun_at = std::max(worker.begun_at, last_arrival_);
  if (!end(worker, status)) return;
  writes_are_done(worker);
  if (std::any_of(arrivals_.begin(), arrivals_.end(), [&](std::uint64_t reached) { return reached < phase_; })) {
    throw Failure(fmt::format("the barrier has let thread {} through before all had come", worker.number));
  }
}

/// When all have come, or need not come any more, nobody may wait for long.
void Workload::look_at_barrier() const {
  if (cluster_.any_dead() || cluster_.away() != 0) return;
  std::uint32_t waiting = 0;
  for (std::size_t i = 0; i < workers_.size(); i += options_.threads) {
    const Worker& first = *workers_[i];
    if (first.at_barrier) {
      ++waiting;
    } else if (!is_released(node_of(first.number))) {
      return;
    }
  }
  const Time since = std::max(last_arrival_, cluster_.away_since());
  if (waiting == 0 || cluster_.machine().time() - since <= kPatience) return;
  throw Failure(fmt::format("{} nodes wait in a barrier, and all have come", waiting));
}

/// A node that has arrived and crashed arrives again unless it is known to be released. When no node has lived on that
/// knew how many there were, all count from 0 again, and all come to this one (again).
void Workload::barrier_after_crash(NodeId back) {
  if (cluster_.barriers(back) < barriers_before_) {
    barriers_before_ = 0;
    std::fill(arrivals_.begin(), arrivals_.end(), phase_ - 1);
  }
  if (!is_released(back)) arrivals_[back] = phase_ - 1;
}

}  // namespace atoll::sim
