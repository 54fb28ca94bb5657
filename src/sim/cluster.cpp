#include "sim/cluster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/runtime.hpp"
#include "sim/disk.hpp"
#include "sim/lives.hpp"

namespace atoll::sim {

using coherence::CacheState;
using coherence::DirEntry;
using coherence::DirState;
using runtime::Inspection;

/// A node learns that another is gone, from a thread of its own.
class Cluster::Notice final : public Timed {
 public:
  Notice(Cluster& cluster, NodeId to, NodeId dead) noexcept : cluster_(cluster), to_(to), gone_(dead) {}
  void fire() override {
    if (cluster_.dead_[to_]) return;
    cluster_.machine_.spawn(to_, [this] { cluster_.network_.tell_death(to_, gone_); });
  }

 private:
  Cluster& cluster_;
  NodeId to_;
  NodeId gone_;
};

Cluster::Cluster(const ClusterOptions& options)
    : options_(options),
      machine_(options.seed),
      network_(machine_, options.nodes, options.node.line_bytes, options.network),
      dead_(options.nodes, false),
      current_(options.nodes) {
  if (is_logged()) {
    for (NodeId id = 0; id < options_.nodes; ++id) {
      disks_.push_back(std::make_unique<storage::FaultyDisk>(options.seed + id));
    }
    network_.set_welcome([this](NodeId id) { welcome(id); });
  }
  machine_.set_pace(std::max<Time>(300, options.network.latency_ns / 4));
#ifdef ATOLL_LAB
  // Threads are interrupted in the middle of an access too, and what a thread stores may come late to the others.
  lab::hooks.point = [this] {
    if (machine_.in_fiber() && machine_.random().below(6) == 0) machine_.sleep_ns(machine_.random().below(4'000));
  };
  lab::hooks.give_way = [this] { machine_.yield(); };
  lab::hooks.store_is_late = [this] { return machine_.random().below(2) == 0; };
#endif
  try {
    for (NodeId id = 0; id < options_.nodes; ++id) join(id);
  } catch (...) {
    for (Life& life : lives_) (void)life.instance.release();  // they can only leave together
    throw;
  }
}

std::unique_ptr<Node> Cluster::make_node(Life& life) {
  Options options = options_.node;
  options.recover = life.number > 0;
  std::unique_ptr<storage::Disk> disk;
  if (is_logged())
    disk = std::make_unique<SimDisk>(machine_, *disks_[life.node], life.is_up, life.is_over, life.at_disk);
  auto runtime = std::make_unique<runtime::Runtime>(options, std::make_unique<SimMembership>(*this, life),
                                                    std::make_unique<SimTransport>(network_, options_.nodes), machine_,
                                                    std::move(disk), make_pages(life.node));
  life.runtime = runtime.get();
  return std::make_unique<Node>(std::move(runtime));
}

/// A disk for files, whose requests take virtual time.
std::unique_ptr<storage::PageStore> Cluster::make_pages(NodeId node) {
  if (options_.node.file_space_bytes == 0) return nullptr;
  auto pages = std::make_unique<storage::FaultyPageStore>(options_.seed + node,
                                                          [this] { return std::int64_t(machine_.time()); });
  pages->set_faults(options_.page_faults);
  pages_[node] = pages.get();
  return pages;
}

void Cluster::join(NodeId id) {
  Life& life = lives_.emplace_back();
  life.node = life.group = id;
  current_[id] = &life;
  machine_.set_group(id);
  life.instance = make_node(life);
  life.is_up = true;
}

Cluster::~Cluster() {
  try {
    if (!leaving_ && living_bodies_ == 0) leave();
  } catch (const std::exception&) {
    // Reported by who asked for it; here the nodes stay, for fibers stand inside them.
  }
  for (Life& life : lives_) (void)life.instance.release();
#ifdef ATOLL_LAB
  lab::hooks = {};
#endif
}

void Cluster::spawn(NodeId node, std::function<void(Node&)> body) {
  Life& life = *current_[node];
  ++life.bodies;
  ++living_bodies_;
  machine_.spawn(life.group, [this, node, &life, body = std::move(body)] {
    try {
      body(*life.instance);
    } catch (const Vanished&) {
    }
    --life.bodies;
    if (!dead_[node] && !life.is_over) --living_bodies_;
  });
}

bool Cluster::run_for(Time time) {
  return machine_.run([&] { return living_bodies_ == 0 && away_ == 0 && frozen_ == 0; }, machine_.time() + time);
}

void Cluster::run() {
  constexpr Time kLimit = 3'600'000'000'000;
  if (!run_for(kLimit)) throw Failure("threads are still at work after an hour of virtual time");
}

void Cluster::settle() {
  constexpr Time kPatience = 1'000'000'000;
  constexpr Time kDisk = 1'000'000;  // what waits for a disk is sent within that
  const Time until = machine_.time() + kPatience;
  std::uint64_t before = 0;
  do {
    before = network_.messages();
    if (is_logged()) (void)machine_.run([] { return false; }, machine_.time() + kDisk);
    if (!machine_.run([&] { return network_.is_quiet(); }, until)) {
      throw Failure("messages that nobody takes, with nothing left to do");
    }
  } while (is_logged() && network_.messages() != before);
}

void Cluster::kill(NodeId node) {
  if (dead_[node]) return;
  dead_[node] = true;
  any_dead_ = true;
  living_bodies_ -= current_[node]->bodies;
  network_.cut_off(node);
  machine_.freeze(node, true);
  const Time told = machine_.time() + Time(options_.death_notice.count()) * 1000;
  for (NodeId other = 0; other < options_.nodes; ++other) {
    if (other == node) continue;
    notices_.push_back(std::make_unique<Notice>(*this, other, node));
    machine_.at(told, *notices_.back());
  }
}

void Cluster::leave() {
  leaving_ = true;
  for (NodeId id = 0; id < options_.nodes; ++id) {
    if (!dead_[id]) continue;
    machine_.freeze(id, false);
    current_[id]->act_until = cluster::Membership::kForEver;  // it may have been suspended when it was killed
    machine_.spawn(id, [this, id] {
      network_.tell_standing(id, cluster::Standing::kActive);
      for (NodeId other = 0; other < options_.nodes; ++other) {
        if (other != id) network_.tell_death(id, other);
      }
    });
  }
  constexpr Time kPatience = 600'000'000'000;
  end_lives();
  const auto all_ended = [&] {
    return std::all_of(lives_.begin(), lives_.end(), [](const Life& l) { return l.bodies == 0 && !l.is_joining; });
  };
  if (!machine_.run(all_ended, machine_.time() + kPatience)) throw Failure("a node that was killed does not end");
  std::vector<Machine::Fiber*> leavers;
  for (Life& life : lives_) {
    leavers.push_back(&machine_.spawn(life.group, [&life] { life.instance.reset(); }));
  }
  const auto all_left = [&] {
    return std::all_of(leavers.begin(), leavers.end(), [](const Machine::Fiber* f) { return Machine::is_done(*f); });
  };
  if (!machine_.run(all_left, machine_.time() + kPatience)) throw Failure("a node does not leave");
}

// ---- what must hold when nothing is under way ----

void Cluster::audit(bool exact_sharers) {
  std::vector<Inspection> held;
  for (const Life* life : current_) held.push_back(life->runtime->inspect());
  // Copies by home and line.
  const std::uint32_t line_bytes = options_.node.line_bytes;
  std::vector<std::vector<std::vector<const Inspection::LineHere*>>> copies(options_.nodes);
  for (NodeId home = 0; home < options_.nodes; ++home) {
    const Inspection::LineHere& last = held[home].homes.back();
    copies[home].resize((last.address.offset() + last.size) / line_bytes);
  }
  for (NodeId node = 0; node < options_.nodes; ++node) {
    audit_node(node, held[node]);
    for (const Inspection::LineHere& copy : held[node].copies) {
      auto& at = copies[copy.address.node()][copy.address.offset() / line_bytes];
      if (at.empty()) at.assign(options_.nodes, nullptr);
      at[node] = &copy;
    }
  }
  for (NodeId home = 0; home < options_.nodes; ++home) {
    for (const Inspection::LineHere& line : held[home].homes) {
      audit_line(line, copies[home][line.address.offset() / line_bytes], exact_sharers);
    }
  }
}

void Cluster::audit_node(NodeId node, const Inspection& held) const {
  const auto leak = [&](const char* what, std::size_t count) {
    if (count != 0) throw Failure(fmt::format("node {} is idle, and {} {}", node, count, what));
  };
  leak("lines are waited for", held.lines_waiting);
  leak("lines wait for a slot", held.lines_starved);
  leak("calls have no answer", held.calls);
  leak("locks of elements are left", held.element_locks);
  leak("slots are said to be on their way back", held.slots_returning);
  leak("asynchronous writes (or more) are not done", held.writes_under_way ? 1 : 0);
  std::uint64_t slots = held.slots_used;
  for (const Inspection::LineHere& copy : held.copies) slots -= copy.size / options_.node.line_bytes;
  leak("slots too many are in use", slots);
  for (const Inspection::LineHere& copy : held.copies) {
    if (is_stable(copy.state) && copy.state != CacheState::kInvalid) continue;
    throw Failure(fmt::format("node {} is idle with a copy of {} that is {}", node, copy.address.to_string(),
                              coherence::to_string(copy.state)),
                  copy.address);
  }
}

/// One line in all nodes: who may do what, and whether all that may be read is the same.
void Cluster::audit_line(const Inspection::LineHere& home, const std::vector<const Inspection::LineHere*>& copies,
                         bool exact_sharers) const {
  const DirEntry& entry = *home.directory;
  const auto wrong = [&](const std::string& what) {
    throw Failure(fmt::format("line {}: {}", home.address.to_string(), what), home.address);
  };
  if (!is_stable(entry.state)) {
    wrong(fmt::format("the home is idle in state {}", coherence::to_string(entry.state)));
  }
  if (home.lock != 0) wrong("it is locked at its home, and nobody holds a lock");
  const bool filed = (entry.flags & coherence::kAsFiled) != 0;
  const std::uint8_t home_may = entry.state == DirState::kUnshared && !filed ? detail::kReadable | detail::kWritable
                                : entry.state == DirState::kUnshared         ? std::uint8_t(detail::kReadable)
                                : entry.state == DirState::kShared           ? std::uint8_t(detail::kReadable)
                                : entry.state == DirState::kOperated         ? std::uint8_t(detail::kOperable)
                                                                             : 0;
  if ((home.access & ~home_may) != 0) wrong("threads of the home may do more than the directory allows");
  for (NodeId node = 0; node < NodeId(copies.size()); ++node) {
    const Inspection::LineHere* const copy = copies[node];
    const bool listed = (entry.sharers >> (node % 64) & 1) != 0;
    if (copy == nullptr) {
      if (entry.owner == node) wrong(fmt::format("the owner, node {}, does not have it", node));
      if (listed && exact_sharers) wrong(fmt::format("node {} is listed as a sharer and has no copy", node));
      continue;
    }
    if (copy->lock != 0) wrong(fmt::format("it is locked at node {}, and nobody holds a lock", node));
    if (copy->state == CacheState::kDirty && entry.owner != node)
      wrong(fmt::format("node {} owns it unknown to the home", node));
    if ((copy->state == CacheState::kOperated) != (entry.state == DirState::kOperated)) {
      wrong(fmt::format("node {} and the home do not agree whether it is operated", node));
    }
    if (copy->state == CacheState::kOperated && !listed)
      wrong(fmt::format("node {} operates unknown to the home", node));
    if (copy->state == CacheState::kShared) {
      if (!listed) wrong(fmt::format("node {} has a copy unknown to the home", node));
      if ((copy->access & detail::kWritable) != 0) wrong(fmt::format("node {} may write a shared copy", node));
      if (entry.state == DirState::kParked) continue;  // the home has no bytes to compare it with
      if (copy->size != home.size || std::memcmp(copy->bytes, home.bytes, home.size) != 0) {
        wrong(fmt::format("node {}'s copy differs from the home's", node));
      }
    }
  }
  if (copies.empty() && (entry.owner != kNoNode || (entry.sharers != 0 && exact_sharers))) {
    wrong("the home lists copies, and there is none");
  }
}

}  // namespace atoll::sim
