// Nodes that crash in the middle of their work and come back: what the book says of what they were at, and how their
// programs begin anew.
#include <algorithm>

#include "sim/workload.hpp"

namespace atoll::sim {
namespace {

constexpr Time kSoon_ns = 100'000;  // in which nodes that crash together do so

}  // namespace

/// Threads that were made anew have numbers of their own, so that nobody waits for what those before them wrote.
NodeId Workload::node_of(std::uint32_t thread) const noexcept {
  return NodeId(thread / options_.threads % cluster_.options().nodes);
}

bool Workload::is_power() const noexcept {
  return cluster_.options().node.log == LogMode::kPower;
}

/// Some nodes, or all, at about the same time; now and then one of them again while it recovers.
void Workload::plan_crash() {
  base::Random& random = cluster_.machine().random();
  const NodeId nodes = cluster_.options().nodes;
  constexpr Time kAway[] = {20'000, 500'000, 5'000'000};
  const Time longest = kAway[random.below(3)];
  const bool all = random.below(4) == 0;
  const auto first = NodeId(random.below(nodes));
  for (NodeId node = 0; node < nodes; ++node) {
    if (!all && node != first && random.below(4) != 0) continue;
    const Time when = random.below(2) == 0 ? 0 : random.below(kSoon_ns);
    const Time away = random.below(longest);
    cluster_.crash_soon(node, when, away);
    if (random.below(3) == 0)
      cluster_.crash_soon(node, when + away + random.below(2 * kSoon_ns), random.below(longest));
  }
}

void Workload::on_crash(NodeId node) {
  for (auto& worker : workers_) {
    if (node_of(worker->number) != node) continue;
    bury(*worker);
    auto next = reborn(*worker);
    vanished_.push_back(std::exchange(worker, std::move(next)));
  }
}

/// What the thread held nobody holds any more; what it was about to do may be done, or not.
void Workload::bury(Worker& worker) {
  worker.vanished = true;
  if (worker.element != nullptr) bury_element(worker);
  if (worker.locked != nullptr) give_lock(worker, *worker.locked, worker.mode);
  if (worker.drafted != nullptr) worker.drafted->draft = 0;  // the log may end between the two writes
  if (worker.guarded != nullptr) ++worker.guarded->maybe;
  maybe_counted_[worker.counter] += worker.adds;
}

/// The next thread in its place goes on with its share of the work, and with the memory that was its own. In mode power
/// memory of the node itself, allocated since the last fence, may not be its own any more.
std::unique_ptr<Workload::Worker> Workload::reborn(const Worker& worker) {
  auto next = std::make_unique<Worker>();
  next->number = worker.number + std::uint32_t(workers_.size());
  next->random = base::Random(cluster_.machine().random().next());
  next->steps = worker.steps + 1;
  for (const auto& object : worker.own) {
    if (object->is_going) continue;
    if (is_power() && !object->is_settled) {
      allocated_.erase(object->address.bits());
      continue;
    }
    next->own.push_back(std::make_unique<Object>(*object));
  }
  return next;
}

void Workload::on_back(NodeId node) {
  if (!at_work_) return;
  register_functions(cluster_.node(node));
  barrier_after_crash(node);
  for (auto& worker : workers_) {
    if (node_of(worker->number) == node) start(*worker);
  }
}

}  // namespace atoll::sim
