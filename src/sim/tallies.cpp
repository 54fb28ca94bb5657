// Operands that all nodes combine, and what may be seen of them.
#include <fmt/format.h>

#include "sim/workload.hpp"

namespace atoll::sim {

void Workload::apply(Worker& worker) {
  const std::size_t which = worker.random.below(tallies_.size());
  Tally& tally = tallies_[which];
  const std::uint64_t operand = tally.largest ? stamps_ + worker.random.below(100) : 1 + worker.random.below(5);
  const Consistency consistency = any_consistency(worker);
  tally.begun = tally.combine(tally.begun, operand);
  begin(worker, "apply", tally.address);
  const global_ptr<std::uint64_t> at(tally.address);
  const Status status = tally.largest
                            ? worker.node->apply(at, op::min<std::uint64_t>, Tally::kLimit - operand, consistency)
                            : worker.node->apply(at, op::add<std::uint64_t>, operand, consistency);
  const bool waited =
      (consistency == Consistency::kDefault ? cluster_.options().node.consistency : consistency) != Consistency::kPso;
  if (!end(worker, status)) return;  // it may be done, or not
  worker.operands.push_back({which, operand});
  if (waited) writes_are_done(worker);
}

/// What is read has all operands that were known to be in when the read began, the thread's own, and none that nobody
/// has begun to combine; and it is no less than what others have read before.
void Workload::read_tally(Worker& worker) {
  Tally& tally = tallies_[worker.random.below(tallies_.size())];
  std::uint64_t least = tally.known;
  for (const Operand& own : worker.operands) {
    if (&tallies_[own.tally] == &tally) least = tally.combine(least, own.value);
  }
  least = std::max(least, tally.seen);
  begin(worker, "read of a tally", tally.address);
  const auto found = worker.node->read<std::uint64_t>(tally.address);
  if (!end(worker, found.status())) return;
  const std::uint64_t value = tally.value_of(*found);
  if (value < least || value > tally.begun) {
    throw Failure(fmt::format("a tally is {}, and should be from {} to {}", value, least, tally.begun), tally.address);
  }
  tally.seen = std::max(tally.seen, value);
}

void Workload::check_counters() {
  cluster_.spawn(0, [this](Node& node) {
    for (std::size_t i = 0; i < counters_.size(); ++i) {
      const auto found = node.read<std::uint64_t>(counters_[i]);
      if (!found.ok() || *found != counted_[i]) {
        throw Failure(fmt::format("the counter at {} is {} and should be {}", counters_[i].to_string(),
                                  found.ok() ? std::to_string(*found) : "unreadable", counted_[i]),
                      counters_[i]);
      }
    }
    for (const Tally& tally : tallies_) {
      const auto found = node.read<std::uint64_t>(tally.address);
      if (!found.ok() || tally.value_of(*found) != tally.begun) {
        throw Failure(fmt::format("a tally is {} in the end, and should be {}",
                                  found.ok() ? std::to_string(tally.value_of(*found)) : "unreadable", tally.begun),
                      tally.address);
      }
    }
  });
  cluster_.run();
}

}  // namespace atoll::sim
