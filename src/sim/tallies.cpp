// Operands that all nodes combine, and what may be seen of them.
#include <fmt/format.h>

#include <algorithm>

#include "sim/workload.hpp"

namespace atoll::sim {
namespace {

constexpr std::uint64_t kMaxAddend = 5;  // what is added to a tally at once

}  // namespace

void Workload::register_operators(Node& node) {
  const auto both = [](Wide a, Wide b) { return Wide{a.sum + b.sum, std::min(a.least, b.least), a.twice + b.twice}; };
  combine_wide_ = node.register_op<Wide>("three words", {0, ~std::uint64_t{0}, 0}, both).value();
}

/// Two operators in a line that is used otherwise too, three in one of their own, and one that has a line for itself.
void Workload::lay_out_tallies(GlobalAddress beside, GlobalAddress own, GlobalAddress wide) {
  for (const GlobalAddress line : {beside, own}) {
    tallies_.push_back({line, Tally::Kind::kSum});
    tallies_.push_back({line + 8, Tally::Kind::kLargest});
  }
  for (const GlobalAddress at : {own + sizeof(Wide), wide, wide + sizeof(Wide)}) {
    tallies_.push_back({at, Tally::Kind::kWide});
  }
  cluster_.spawn(0, [this](Node& node) {
    for (const Tally& tally : tallies_) {
      switch (tally.kind) {
        case Tally::Kind::kSum: break;
        case Tally::Kind::kLargest: node.write(tally.address, Tally::kLimit, Consistency::kSc).or_throw(); break;
        case Tally::Kind::kWide: node.write(tally.address, Wide{0, Tally::kLimit, 0}, Consistency::kSc).or_throw();
      }
    }
  });
  cluster_.run();
}

Status Workload::combine(Node& node, const Tally& tally, std::uint64_t operand, Consistency consistency) const {
  const global_ptr<std::uint64_t> word(tally.address);
  switch (tally.kind) {
    case Tally::Kind::kSum: return node.apply(word, op::add<std::uint64_t>, operand, consistency);
    case Tally::Kind::kLargest: return node.apply(word, op::min<std::uint64_t>, Tally::kLimit - operand, consistency);
    case Tally::Kind::kWide: break;
  }
  const Wide wide{operand, Tally::kLimit - operand, 2 * operand};
  return node.apply(global_ptr<Wide>(tally.address), combine_wide_, wide, consistency);
}

/// What a tally has come to.
Result<std::uint64_t> Workload::value_of(Node& node, const Tally& tally) {
  if (tally.kind != Tally::Kind::kWide) {
    const auto found = node.read<std::uint64_t>(tally.address);
    if (!found.ok() || tally.kind == Tally::Kind::kSum) return found;
    return Tally::kLimit - *found;
  }
  const auto found = node.read<Wide>(tally.address);
  if (!found.ok()) return found.status();
  if (found->twice != 2 * found->sum || found->least > Tally::kLimit || found->least < Tally::kLimit - kMaxAddend) {
    throw Failure(fmt::format("a wide tally is torn: {} {} {}", found->sum, found->least, found->twice), tally.address);
  }
  return found->sum;
}

void Workload::apply(Worker& worker) {
  const std::size_t which = worker.random.below(tallies_.size());
  Tally& tally = tallies_[which];
  const bool largest = tally.kind == Tally::Kind::kLargest;
  const std::uint64_t operand = largest ? stamps_ + worker.random.below(100) : 1 + worker.random.below(kMaxAddend);
  const Consistency consistency = any_consistency(worker);
  tally.begun = tally.combine(tally.begun, operand);
  begin(worker, "apply", tally.address);
  const Status status = combine(*worker.node, tally, operand, consistency);
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
  const auto found = value_of(*worker.node, tally);
  if (!end(worker, found.status())) return;
  const std::uint64_t value = *found;
  if (value < least || value > tally.begun) {
    throw Failure(fmt::format("a tally is {}, and should be from {} to {}", value, least, tally.begun), tally.address);
  }
  if (!is_power()) tally.seen = std::max(tally.seen, value);  // else it may vanish with who has read it
}

void Workload::check_counters() {
  cluster_.spawn(0, [this](Node& node) {
    for (std::size_t i = 0; i < counters_.size(); ++i) {
      const auto found = node.read<std::uint64_t>(counters_[i]);
      if (!found.ok() || *found < counted_[i] || *found > counted_[i] + maybe_counted_[i]) {
        throw Failure(
            fmt::format("the counter at {} is {} and should be {}, or up to {} more", counters_[i].to_string(),
                        found.ok() ? std::to_string(*found) : "unreadable", counted_[i], maybe_counted_[i]),
            counters_[i]);
      }
    }
    for (const Tally& tally : tallies_) {
      const auto found = value_of(node, tally);
      const std::uint64_t least = cluster_.crashes() == 0 ? tally.begun : tally.known;
      if (!found.ok() || *found < least || *found > tally.begun) {
        throw Failure(fmt::format("a tally is {} in the end, and should be {} to {}",
                                  found.ok() ? std::to_string(*found) : "unreadable", least, tally.begun),
                      tally.address);
      }
    }
  });
  cluster_.run();
}

}  // namespace atoll::sim
