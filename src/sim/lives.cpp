// Nodes of a logged cluster crash and come back: what a master tells the others of it, and how a life that is over
// ends.
#include "sim/lives.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace atoll::sim {

/// A crash that was planned.
class Cluster::Crash final : public Timed {
 public:
  Crash(Cluster& cluster, NodeId node, Time away) noexcept : cluster_(cluster), node_(node), away_(away) {}
  void fire() override { cluster_.crash(node_, away_); }

 private:
  Cluster& cluster_;
  NodeId node_;
  Time away_;
};

class Cluster::Return final : public Timed {
 public:
  Return(Cluster& cluster, NodeId node) noexcept : cluster_(cluster), node_(node) {}
  void fire() override { cluster_.come_back(node_); }

 private:
  Cluster& cluster_;
  NodeId node_;
};

/// A node that was suspended may act again.
class Cluster::Renewal final : public Timed {
 public:
  Renewal(Cluster& cluster, Life& life) noexcept : cluster_(cluster), life_(life) {}
  void fire() override { cluster_.renew(life_); }

 private:
  Cluster& cluster_;
  Life& life_;
};

void Cluster::set_hooks(std::function<void(NodeId)> on_crash, std::function<void(NodeId)> on_back) {
  on_crash_ = std::move(on_crash);
  on_back_ = std::move(on_back);
}

Node& Cluster::node(NodeId node) noexcept {
  return *current_[node]->instance;
}

std::uint64_t Cluster::barriers(NodeId node) const noexcept {
  return current_[node]->runtime->barriers();
}

void Cluster::set_away(NodeId away) noexcept {
  away_ = away;
  away_since_ = machine_.time();
}

void Cluster::crash_soon(NodeId node, Time when, Time away) {
  plans_.push_back(std::make_unique<Crash>(*this, node, away));
  machine_.at(machine_.time() + when, *plans_.back());
}

void Cluster::crash(NodeId node, Time away) {
  Life& life = *current_[node];
  if (!crashes_allowed_ || life.is_over) return;
  const bool was_back = life.instance != nullptr;
  life.is_over = true;
  ++crashes_;
  living_bodies_ -= life.bodies;
  if (life.is_in) network_.cut_off(node);
  machine_.freeze(life.group, true);
  if (std::exchange(life.is_frozen, false)) --frozen_;
  base::Random& random = machine_.random();
  if (options_.node.log == LogMode::kPower && random.below(4) != 0) {
    disks_[node]->crash_power(random.next());
  } else {
    disks_[node]->crash_process();
  }
  for (Life& other : lives_) {
    other.not_heard.erase(&life);
    if (life.is_in && other.is_in && !other.is_over) tell(other, {node, life.number, false});
  }
  set_away(was_back ? away_ + 1 : away_);
  if (was_back && on_crash_) on_crash_(node);
  plans_.push_back(std::make_unique<Return>(*this, node));
  machine_.at(machine_.time() + away, *plans_.back());
}

void Cluster::come_back(NodeId id) {
  Life& life = lives_.emplace_back();
  life.node = id;
  life.number = network_.lives(id);
  life.group = NodeId(lives_.size() - 1);  // the first ones have their nodes' numbers
  life.epoch = ++epoch_;
  life.is_joining = true;
  current_[id] = &life;
  set_away(away_);
  machine_.spawn(life.group, [this, &life] {
    try {
      if (!life.is_over) life.instance = make_node(life);
    } catch (const std::exception& error) {
      life.is_joining = false;
      if (life.is_over) return;
      throw Failure(fmt::format("node {} cannot come back: {}", life.node, error.what()));
    }
    life.is_joining = false;
    life.is_up = true;
    if (life.is_over) return;
    ++returns_;
    set_away(NodeId(away_ - 1));
    if (on_back_) on_back_(life.node);
  });
}

/// The node has met the others, and may act when all of them have heard of it.
void Cluster::welcome(NodeId id) {
  Life& life = *current_[id];
  life.is_in = true;
  if (life.number == 0) return;
  for (Life& other : lives_) {
    if (&other == &life || !other.is_in || other.is_over) continue;
    life.not_heard.insert(&other);
    tell(other, {id, life.number, true});
  }
  while (!life.not_heard.empty()) machine_.sleep_ns(2'000);
}

/// Of a life that is over before somebody has heard of it, nothing is told.
void Cluster::tell(Life& to, const News& news) {
  const auto same = [&](const News& old) { return old.about == news.about && old.life == news.life && old.is_back; };
  if (!news.is_back && std::erase_if(to.news, same) != 0) return;
  to.news.push_back(news);
  if (to.is_told) return;
  to.is_told = true;
  machine_.spawn(to.group, [this, &to] { spread(to); });
}

void Cluster::spread(Life& to) {
  while (!to.news.empty()) {
    machine_.sleep_ns(machine_.random().below(Time(options_.death_notice.count()) * 1000));
    while (to.at_disk != 0 && !to.is_over) machine_.sleep_ns(2'000);
    if (to.is_over) return;
    if (to.news.empty()) break;
    const News news = to.news.front();
    to.news.pop_front();
    ++to.calls;
    if (news.is_back) {
      network_.tell_return(to.node, news.about, to.number);
    } else {
      network_.tell_death(to.node, news.about, to.number);
    }
    --to.calls;
    if (!news.is_back) continue;
    for (Life& life : lives_) {
      if (life.node == news.about && life.number == news.life) life.not_heard.erase(&to);
    }
  }
  to.is_told = false;
}

// ---- suspension ----

void Cluster::suspend(NodeId node, Time time) {
  Life& life = *current_[node];
  if (dead_[node] || life.is_over || !life.is_up || life.act_until != cluster::Membership::kForEver) return;
  life.act_until = 0;
  if (is_logged() && machine_.random().below(2) == 0) {
    life.is_frozen = true;
    ++frozen_;
    machine_.freeze(life.group, true);
  } else {
    machine_.spawn(life.group, [this, &life] { tell_standing(life, cluster::Standing::kSuspended); });
  }
  plans_.push_back(std::make_unique<Renewal>(*this, life));
  machine_.at(machine_.time() + time, *plans_.back());
}

/// Who stood still learns only now that it was suspended.
void Cluster::renew(Life& life) {
  if (dead_[life.node] || life.is_over) return;
  const bool was_frozen = std::exchange(life.is_frozen, false);
  if (was_frozen) {
    --frozen_;
    machine_.freeze(life.group, false);
  } else {
    life.act_until = cluster::Membership::kForEver;
  }
  machine_.spawn(life.group, [this, &life, was_frozen] {
    if (was_frozen) tell_standing(life, cluster::Standing::kSuspended);
    life.act_until = cluster::Membership::kForEver;
    tell_standing(life, cluster::Standing::kActive);
  });
}

void Cluster::tell_standing(Life& life, cluster::Standing standing) {
  while (life.at_disk != 0) machine_.sleep_ns(2'000);
  ++life.calls;
  network_.tell_standing(life.node, standing, life.number);
  --life.calls;
}

/// Lives that are over go on, in worlds of their own: all that they want to do fails.
void Cluster::end_lives() {
  for (Life& life : lives_) {
    if (!life.is_over) continue;
    machine_.freeze(life.group, false);
    life.act_until = cluster::Membership::kForEver;  // it may have been suspended when it crashed
    life.not_heard.clear();
    if (!life.is_in) continue;
    machine_.spawn(life.group, [this, &life] { tell_standing(life, cluster::Standing::kFenced); });
  }
}

}  // namespace atoll::sim
