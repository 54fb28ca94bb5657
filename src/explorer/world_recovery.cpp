// Logs, deaths and returns: what a node keeps when it dies, and what it and its peers do about it.
#include <fmt/format.h>

#include "explorer/world.hpp"

namespace atoll::explorer {

using coherence::CacheState;
using coherence::LineRef;
using coherence::Message;
using wire::Kind;

namespace {

bool is_request(Kind kind) noexcept {
  return kind == Kind::kGetShared || kind == Kind::kGetExclusive || kind == Kind::kUpgrade;
}

}  // namespace

/// Does a message that is sent now come to nothing? To a dead node, or a request to a home that is not open.
bool World::is_lost(unsigned from, unsigned to, Kind kind) const noexcept {
  return !is_alive(to) || (is_request(kind) && (opened_[from] >> to & 1U) == 0);
}

// ---- logs ----

/// Before a write is seen it is in its node's log; what other logs have of the line is old from then on.
void World::log_write(unsigned node, unsigned line) {
  if (options_.power && tentative_[line] == kNoNode) {
    for (unsigned other = 0; other < options_.nodes; ++other) {
      ModelLine& model = at(other, line);
      model.was_fresh = model.fresh;
      model.log.was_fresh = model.log.fresh;
      model.durable.was_fresh = model.durable.fresh;
    }
    tentative_[line] = NodeId(node);
  }
  for (unsigned other = 0; other < options_.nodes; ++other) {
    at(other, line).log.fresh = false;
    at(other, line).durable.fresh = false;
  }
  ModelLine& model = at(node, line);
  model.log.any = model.log.fresh = true;
  model.log.tenure = model.ref.is_home() ? model.entry.transfers : model.tenure;
  if (options_.power) {
    model.log.was_fresh = false;  // lost together with the write
    model.unsettled = true;
  }
}

void World::log_owner(unsigned node, unsigned line, NodeId owner) {
  ModelLine& model = at(node, line);
  if (!model.ref.is_home() || model.entry.transfers <= model.log.tenure) {
    fail(fmt::format("the tenure of line {} that is logged is not a new one", line));
  }
  model.log.tenure = model.entry.transfers;
  model.log.owner = owner;
  model.unsettled = options_.power;
}

/// The home fetches a line from the slot of its owner and logs it.
void World::take_home(unsigned node, unsigned line, const Message& message) {
  ModelLine& home = at(node, line);
  const ModelLine& from = at(message.from, line);
  const CacheState state = from.ref.state();
  if (!is_alive(message.from) || from.line.slot != message.slot + 1 || from.tenure != message.tenure ||
      (state != CacheState::kDirtyToInvalid && state != CacheState::kDirtyToShared)) {
    fail(fmt::format("line {} is fetched from a slot of node {} that does not hold it any more", line, message.from));
  }
  if ((from.lingering & detail::kWritable) != 0) fail("a line is fetched while threads write it");
  if (message.tenure < home.log.tenure) fail(fmt::format("an old return of line {} is taken", line));
  home.fresh = from.fresh;
  home.was_fresh = from.was_fresh;
  home.log = {true, from.fresh, from.was_fresh, kNoNode, message.tenure + 1};
  home.unsettled = options_.power;
}

/// What the node has logged is durable: what waited for that goes on.
void World::settle(unsigned node) {
  for (unsigned to = 0; to < options_.nodes; ++to) {
    auto& late = late_[node * options_.nodes + to];
    for (const Packet& packet : late) channel(node, to).push_back(packet);
    late.clear();
  }
  for (unsigned line = 0; line < options_.lines; ++line) {
    ModelLine& model = at(node, line);
    if (!model.unsettled) continue;
    model.unsettled = false;
    model.durable = model.log;
    if (tentative_[line] == node) tentative_[line] = kNoNode;
    protocols_[node].unlocked(model.ref);
  }
}

// ---- deaths and returns ----

void World::clear_line(unsigned node, unsigned line) {
  ModelLine& model = at(node, line);
  const bool home = model.ref.is_home();
  model.ref.hot.set_access(0);
  model.line.use = detail::Line::kUnused;
  model.line.lives = 0;
  model.line.lock.store(0, std::memory_order_relaxed);
  model.line.version.store(0, std::memory_order_relaxed);
  model.line.state = std::uint8_t(CacheState::kInvalid);
  model.line.slot = 0;
  model.line.operation.store(0, std::memory_order_relaxed);
  model.operands = Operands::kNone;
  model.entry = coherence::DirEntry{};
  model.cold.memory = {};
  model.cold.locks = {};
  model.cold.trying = nullptr;
  model.cold.away = nullptr;
  model.cold.has_held = false;
  model.cold.local_queued = false;
  model.cold.requests.clear();
  model.cold.unanswered = 0;
  model.has_cold = false;
  model.fresh = model.was_fresh = home;
  model.lingering = 0;
  model.tenure = 0;
}

void World::clear_thread(ModelThread& t) noexcept {
  t.blocking.pending = t.blocking.performed = false;
  t.blocking.operation = 0;
  for (ModelOp& write : t.writes) write.pending = write.performed = false;
  t.held = {};
  t.telling = {};
}

/// What of the line's log was not durable is gone, and with it the writes that nobody else can have seen.
void World::lose(unsigned node, unsigned line) {
  ModelLine& model = at(node, line);
  model.unsettled = false;
  model.log = model.durable;
  if (tentative_[line] != node) return;
  tentative_[line] = kNoNode;
  for (unsigned other = 0; other < options_.nodes; ++other) {
    ModelLine& its = at(other, line);
    its.fresh = its.was_fresh;
    its.log.fresh = its.log.was_fresh;
    its.durable.fresh = its.durable.was_fresh;
  }
}

void World::crash(unsigned node) {
  --crashes_left_;
  dead_ = std::uint8_t(1U << node);
  for (unsigned other = 0; other < options_.nodes; ++other) {
    channel(node, other).clear();
    channel(other, node).clear();
    late_[node * options_.nodes + other].clear();
    late_[other * options_.nodes + node].clear();
    if (other != node) unnoticed_[other] |= dead_;
  }
  for (unsigned line = 0; line < options_.lines; ++line) {
    if (options_.power) lose(node, line);
    clear_line(node, line);
    at(node, line).fresh = at(node, line).was_fresh = false;
  }
  for (unsigned index = 0; index < options_.threads; ++index) clear_thread(thread(node, index));
  awaits_[node] = opened_[node] = 0;
}

void World::learn(unsigned node, unsigned peer) {
  unnoticed_[node] = std::uint8_t(unnoticed_[node] & ~(1U << peer));
  opened_[node] = std::uint8_t(opened_[node] & ~(1U << peer));
  for (unsigned line = 0; line < options_.lines; ++line) {
    if (home_of(line) == node) protocols_[node].peer_died(at(node, line).ref, NodeId(peer));
    if (home_of(line) == peer) protocols_[node].home_died(at(node, line).ref);
  }
}

/// Its memory and the lines that it owned are as its log has them. Then it and each of its peers tell each other what
/// they have of the other's lines.
void World::come_back(unsigned node) {
  dead_ = 0;
  opened_[node] = std::uint8_t(1U << node);
  for (unsigned line = 0; line < options_.lines; ++line) {
    ModelLine& model = at(node, line);
    if (!model.log.any) continue;
    if (model.ref.is_home()) {
      protocols_[node].restore_home(model.ref, model.log.tenure, model.log.owner);
    } else {
      model.line.slot = 1 + line;
      protocols_[node].restore_returning(model.ref, model.log.tenure);
    }
    model.fresh = model.log.fresh;
    model.was_fresh = model.log.was_fresh;
  }
  const Message end{Kind::kReportEnd, false, 0, 0, 0};
  for (unsigned peer = 0; peer < options_.nodes; ++peer) {
    if (peer == node) continue;
    awaits_[node] = std::uint8_t(awaits_[node] | 1U << peer);
    for (unsigned line = 0; line < options_.lines; ++line) {
      if (home_of(line) == peer) protocols_[node].home_back(at(node, line).ref);
      if (home_of(line) == node) protocols_[peer].home_back(at(peer, line).ref);
    }
    channel(node, peer).push_back({0, end});
    channel(peer, node).push_back({0, end});
    if (is_open(peer)) channel(peer, node).push_back({0, {Kind::kOpen, false, 0, 0, 0}});
  }
}

/// A word that concerns no line.
void World::hear(unsigned from, unsigned to, Kind kind) {
  if (kind == Kind::kOpen) {
    opened_[to] = std::uint8_t(opened_[to] | 1U << from);
    for (unsigned line = 0; line < options_.lines; ++line) {
      if (home_of(line) == from) protocols_[to].home_open(at(to, line).ref);
    }
    return;
  }
  for (unsigned line = 0; line < options_.lines; ++line) {
    if (home_of(line) == to) protocols_[to].owner_back(at(to, line).ref, NodeId(from));
  }
  if (awaits_[to] == 0) return;
  awaits_[to] = std::uint8_t(awaits_[to] & ~(1U << from));
  if (awaits_[to] == 0) open(to);
}

/// All have reported: from now on the node serves, and its own program runs.
void World::open(unsigned node) {
  for (unsigned peer = 0; peer < options_.nodes; ++peer) {
    if (peer != node && is_alive(peer)) channel(node, peer).push_back({0, {Kind::kOpen, false, 0, 0, 0}});
  }
}

/// What must happen some time: it belongs to every way to rest.
void World::enumerate_recovery(std::vector<Step>& out) const {
  for (unsigned node = 0; node < options_.nodes; ++node) {
    bool waits = false;
    for (unsigned to = 0; to < options_.nodes; ++to) waits = waits || !late_[node * options_.nodes + to].empty();
    for (unsigned line = 0; line < options_.lines; ++line) waits = waits || at(node, line).unsettled;
    if (waits) out.push_back({StepKind::kSettle, std::uint8_t(node)});
  }
  if (dead_ == 0) return;
  bool noticed = true;
  for (unsigned node = 0; node < options_.nodes; ++node) {
    for (unsigned peer = 0; peer < options_.nodes; ++peer) {
      if ((unnoticed_[node] >> peer & 1U) == 0) continue;
      noticed = false;
      out.push_back({StepKind::kLearn, std::uint8_t(node), std::uint8_t(peer)});
    }
  }
  for (unsigned node = 0; node < options_.nodes && noticed; ++node) {
    if (!is_alive(node)) out.push_back({StepKind::kReturn, std::uint8_t(node)});
  }
}

}  // namespace atoll::explorer
