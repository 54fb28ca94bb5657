// A small cluster of lease machines for the explorer: processes, masters, the messages between them, and clocks.
//
// What is not a step of its own here, because it is one already: a process that is stopped is one that takes no
// step; a link that is cut, in one direction or both, is one whose messages are lost; a late message is one
// that is taken late. All of that may happen at any time and as often as it likes. Clocks go on in any case.
// The masters' clock is the measure; that of a process is equal to it or one tick behind, as it likes, so that it
// may measure one tick more or less than a master does.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cluster/lease_master.hpp"
#include "cluster/lease_node.hpp"

namespace atoll::cluster {

enum class LeaseStepKind : std::uint8_t {
  kTick,         // the clock of process a goes on
  kMasterTick,   // the clock of the masters goes on
  kConnect,      // process a connects to master b
  kReport,       // process a reports
  kComplain,     // process a reports, and cannot reach node 0
  kTakeReport,   // master b takes the next report of process a, and answers
  kTakeAnswer,   // process a takes the next answer of master b
  kLoseReport,   // it is lost
  kLoseAnswer,   // it is lost
  kMasterClock,  // master b looks at its clock
  kStart,        // process a starts
  kDie,          // process a ends
  kToldEnded,    // master b is told that process a has ended
  kMasterStart,  // master b starts
  kMasterDie,    // master b ends
  kToldMaster,   // process a is told that its master has ended
};

struct LeaseStep {
  LeaseStepKind kind = LeaseStepKind::kTick;
  std::uint8_t a = 0, b = 0;
  [[nodiscard]] std::uint16_t pack() const { return std::uint16_t(unsigned(kind) << 8 | unsigned(a) << 4 | b); }
  static LeaseStep unpack(std::uint16_t bits) {
    return {LeaseStepKind(bits >> 8), std::uint8_t(bits >> 4 & 15), std::uint8_t(bits & 15)};
  }
};

inline constexpr LeaseTime kNever = 1000;  // in ticks: longer than any way to a new state

/// A clock may be a tick wrong, so a node's lease is a tick shorter.
inline constexpr LeaseTimes kWithDrift{2, 3, 1, 2, kNever, 1};
inline constexpr LeaseTimes kWithoutDrift{1, 2, 1, 2, kNever, 1};

struct LeaseWorldOptions {
  std::vector<NodeId> ids = {0, 1};  // of the processes; two with the same id are a node and its successor
  unsigned early = 2;                // so many of the processes are there from the beginning
  unsigned masters = 1;              // the first has a file; the second is a stranger
  Term last_term = 1;                // so many starts of masters
  std::uint32_t last_epoch = 3;      // where it stops: a newcomer may be let in and out for ever
  unsigned deaths = 0;               // of processes
  unsigned complaints = 0;           // reports that complain of node 0
  bool founded = true;               // begins when the early processes act
  bool drift = true;                 // clocks differ; without it all go on together
  bool overlap = false;              // a report may be sent while one, or its answer, is under way
  LeaseTimes times = kWithDrift;
  LeaseRules rules{};
  std::vector<LeaseStep> prefix{};  // done before the walk begins
};

/// Thread-safety: none.
class LeaseWorld {
 public:
  static constexpr std::size_t kMasters = 2;
  enum class Life : std::uint8_t { kUnborn, kAlive, kDead };

  explicit LeaseWorld(const LeaseWorldOptions& options) : options_(&options) {
    for (std::size_t p = 0; p < options.ids.size(); ++p) {
      const auto incarnation = std::uint32_t(p + 1);
      processes_.push_back({p < options.early ? Life::kAlive : Life::kUnborn,
                            LeaseNode(options.ids[p], incarnation, options.times, options.rules)});
    }
    start_master(0);
    for (int round = 0; options.founded && round < 4; ++round) calm_round(0);
    for (const LeaseStep& step : options.prefix) apply(step);
  }

  void enumerate(std::vector<LeaseStep>& steps) const {
    steps.clear();
    for (const MasterProcess& m : masters_) {
      if (m.life == Life::kAlive && m.master->epoch().number > options_->last_epoch) return;
    }
    for (std::size_t p = 0; p < processes_.size(); ++p) enumerate_process(p, steps);
    for (std::size_t m = 0; m < options_->masters; ++m) enumerate_master(m, steps);
    const auto in_time = [&](const Process& p) { return p.life != Life::kAlive || p.clock == now_; };
    if (std::all_of(processes_.begin(), processes_.end(), in_time)) steps.push_back({LeaseStepKind::kMasterTick, 0, 0});
  }
  void apply(const LeaseStep& step);
  /// What is wrong with this state; empty when nothing is.
  [[nodiscard]] std::string violation() const;
  /// From here on nothing goes wrong any more, and whoever is needed does its part: what is still wrong after a
  /// while; empty when nothing is.
  [[nodiscard]] std::string after_calm() const;

  void encode(std::vector<std::uint8_t>& bytes) const;
  [[nodiscard]] std::string describe(const LeaseStep& step) const;
  [[nodiscard]] std::string summary() const;
  [[nodiscard]] std::size_t acting() const {
    return std::size_t(std::count_if(processes_.begin(), processes_.end(), [](const Process& p) { return p.acts(); }));
  }

 private:
  struct Process {
    Life life = Life::kUnborn;
    LeaseNode node;
    LeaseTime clock = 0;
    int master = -1;                                      // whom it is connected to
    bool told = false;                                    // that this one has ended
    std::array<std::vector<Report>, kMasters> reports{};  // on their way
    std::array<std::vector<Answer>, kMasters> answers{};
    [[nodiscard]] bool lives() const { return life == Life::kAlive && node.state() != LeaseState::kFenced; }
    [[nodiscard]] bool has_acted() const { return lives() && node.state() != LeaseState::kJoining; }
    [[nodiscard]] bool acts() const { return life == Life::kAlive && node.may_act(clock); }
  };
  struct MasterProcess {
    Life life = Life::kUnborn;
    std::optional<LeaseMaster> master;
  };

  struct Encoder;
  void encode_messages(const Process& p, const Encoder& to) const;
  void encode_node(const Process& p, const Encoder& to) const;
  void encode_master(const LeaseMaster& master, const Encoder& to) const;
  void enumerate_process(std::size_t p, std::vector<LeaseStep>& steps) const;
  void enumerate_master(std::size_t m, std::vector<LeaseStep>& steps) const;
  [[nodiscard]] NodeId nodes() const {
    return NodeId(*std::max_element(options_->ids.begin(), options_->ids.end()) + 1);
  }
  void start_master(std::size_t m);
  void connect(std::size_t p, std::size_t m);
  void take_report(std::size_t p, std::size_t m);
  void take_answer(std::size_t p, std::size_t m);
  void keep_record(std::size_t m);
  [[nodiscard]] bool may_report(const Process& process) const {
    const auto m = std::size_t(process.master);
    return process.reports[m].empty() && (options_->overlap || process.answers[m].empty());
  }
  [[nodiscard]] bool master_is_dead(const Process& process) const;
  std::size_t calm_master();
  void calm_round(std::size_t m);

  const LeaseWorldOptions* options_;
  std::vector<Process> processes_;
  std::array<MasterProcess, kMasters> masters_;
  std::optional<LeaseRecord> file_;  // of the first master
  Term term_ = 0;                    // the last that was used
  LeaseTime now_ = 0;                // on the masters' clock
  unsigned deaths_ = 0, complaints_ = 0;
};

// ---- what can happen ----

inline bool LeaseWorld::master_is_dead(const Process& process) const {
  const auto obeyed = [&](const MasterProcess& m) {
    return m.life == Life::kAlive && m.master->term() == process.node.memory().obeyed;
  };
  return process.master >= 0 && std::none_of(masters_.begin(), masters_.end(), obeyed);
}

inline void LeaseWorld::enumerate_process(std::size_t p, std::vector<LeaseStep>& steps) const {
  const Process& process = processes_[p];
  const auto a = std::uint8_t(p);
  using enum LeaseStepKind;
  if (process.life == Life::kUnborn) steps.push_back({kStart, a, 0});
  for (std::size_t m = 0; m < options_->masters; ++m) {
    const auto b = std::uint8_t(m);
    const MasterProcess& master = masters_[m];
    if (!process.reports[m].empty() && master.life == Life::kAlive) {
      steps.push_back({kTakeReport, a, b});
      steps.push_back({kLoseReport, a, b});
    }
    if (process.life == Life::kDead && master.life == Life::kAlive &&
        master.master->memory().members[process.node.node()].ended != process.node.incarnation()) {
      steps.push_back({kToldEnded, a, b});
    }
    if (process.life != Life::kAlive) continue;
    if (!process.answers[m].empty()) {
      steps.push_back({kTakeAnswer, a, b});
      steps.push_back({kLoseAnswer, a, b});
    }
    if (process.node.state() == LeaseState::kFenced || master.life != Life::kAlive) continue;
    const Term term = master.master->term(), obeyed = process.node.memory().obeyed;
    const bool higher = term > obeyed || !options_->rules.hold(LeaseRule::kHigherTermsOnly);
    if (term != obeyed && higher) steps.push_back({kConnect, a, b});
  }
  if (process.life != Life::kAlive) return;
  if (process.clock < now_) steps.push_back({kTick, a, 0});
  if (deaths_ < options_->deaths) steps.push_back({kDie, a, 0});
  if (process.node.state() == LeaseState::kFenced || process.master < 0) return;
  if (master_is_dead(process)) {
    if (!process.told) steps.push_back({kToldMaster, a, 0});
  } else if (may_report(process)) {
    steps.push_back({kReport, a, 0});
    if (complaints_ < options_->complaints && process.node.node() != 0) steps.push_back({kComplain, a, 0});
  }
}

inline void LeaseWorld::enumerate_master(std::size_t m, std::vector<LeaseStep>& steps) const {
  const MasterProcess& master = masters_[m];
  const auto b = std::uint8_t(m);
  using enum LeaseStepKind;
  if (master.life != Life::kAlive) {
    if (term_ < options_->last_term) steps.push_back({kMasterStart, 0, b});
    return;
  }
  if (options_->last_term > 1) steps.push_back({kMasterDie, 0, b});
  LeaseMaster copy = *master.master;
  if (!copy.on_clock(now_).empty()) steps.push_back({kMasterClock, 0, b});
}

// ---- what then happens ----

inline void LeaseWorld::start_master(std::size_t m) {
  MasterProcess& master = masters_[m];
  master.life = Life::kAlive;
  master.master.emplace(++term_, nodes(), options_->times, now_, m == 0 ? file_ : std::nullopt, options_->rules);
}

inline void LeaseWorld::connect(std::size_t p, std::size_t m) {
  Process& process = processes_[p];
  if (!process.node.connected(masters_[m].master->term())) return;
  process.master = int(m);
  process.told = false;
  if (!options_->rules.hold(LeaseRule::kOneMaster)) return;
  for (auto& answers : process.answers) answers.clear();  // would be ignored
}

/// What an established master knows is on disk before anyone hears of it.
inline void LeaseWorld::keep_record(std::size_t m) {
  if (m == 0 && masters_[0].master->established()) file_ = masters_[0].master->record();
}

inline void LeaseWorld::take_report(std::size_t p, std::size_t m) {
  Process& process = processes_[p];
  MasterProcess& master = masters_[m];
  const Report report = process.reports[m].front();
  process.reports[m].erase(process.reports[m].begin());
  const Answer answer = master.master->on_report(report, now_);
  keep_record(m);
  const bool listens = process.master == int(m) || !options_->rules.hold(LeaseRule::kOneMaster);
  if (process.life == Life::kAlive && listens && process.answers[m].empty()) {
    process.answers[m].push_back(answer);
  }
}

inline void LeaseWorld::take_answer(std::size_t p, std::size_t m) {
  Process& process = processes_[p];
  const Answer answer = process.answers[m].front();
  process.answers[m].erase(process.answers[m].begin());
  process.node.on_answer(answer, process.clock);
}

inline void LeaseWorld::apply(const LeaseStep& step) {
  const std::size_t a = step.a, b = step.b;
  switch (step.kind) {
    case LeaseStepKind::kTick: ++processes_[a].clock; return;
    case LeaseStepKind::kMasterTick:
      ++now_;
      for (Process& process : processes_) process.clock += options_->drift ? 0 : 1;
      return;
    case LeaseStepKind::kConnect: return connect(a, b);
    case LeaseStepKind::kReport:
    case LeaseStepKind::kComplain: {
      const bool complains = step.kind == LeaseStepKind::kComplain;
      if (complains) ++complaints_;
      const std::vector<NodeId> whom = complains ? std::vector<NodeId>{0} : std::vector<NodeId>{};
      Process& process = processes_[a];
      process.reports[std::size_t(process.master)].push_back(process.node.report(process.clock, whom));
      return;
    }
    case LeaseStepKind::kTakeReport: return take_report(a, b);
    case LeaseStepKind::kTakeAnswer: return take_answer(a, b);
    case LeaseStepKind::kLoseReport: processes_[a].reports[b].erase(processes_[a].reports[b].begin()); return;
    case LeaseStepKind::kLoseAnswer: processes_[a].answers[b].erase(processes_[a].answers[b].begin()); return;
    case LeaseStepKind::kMasterClock: (void)masters_[b].master->on_clock(now_); return keep_record(b);
    case LeaseStepKind::kStart:
      processes_[a].life = Life::kAlive;
      processes_[a].clock = now_;
      return;
    case LeaseStepKind::kDie:
      ++deaths_;
      processes_[a].life = Life::kDead;
      for (auto& answers : processes_[a].answers) answers.clear();
      return;
    case LeaseStepKind::kToldEnded: {
      const LeaseNode& node = processes_[a].node;
      (void)masters_[b].master->node_ended(node.node(), node.incarnation(), now_);
      return keep_record(b);
    }
    case LeaseStepKind::kMasterStart: return start_master(b);
    case LeaseStepKind::kMasterDie:
      masters_[b].life = Life::kDead;
      for (Process& process : processes_) process.reports[b].clear();
      return;
    case LeaseStepKind::kToldMaster:
      processes_[a].told = true;
      processes_[a].node.master_ended(processes_[a].node.memory().obeyed, processes_[a].clock);
      return;
  }
}

// ---- what must hold ----

inline std::string LeaseWorld::violation() const {
  for (const Process& one : processes_) {
    for (const Process& other : processes_) {
      if (&one == &other) continue;
      const Epoch& epoch = one.node.epoch();
      if (one.acts() && other.acts() && !epoch.has(other.node.node(), other.node.incarnation())) {
        return fmt::format("process {} acts in epoch {}, which lacks process {}, which acts too",
                           one.node.incarnation(), epoch.number, other.node.incarnation());
      }
      const bool both_in = one.has_acted() && other.has_acted();
      if (both_in && epoch.number != 0 && epoch.number == other.node.epoch().number && !(epoch == other.node.epoch())) {
        return fmt::format("there are two epochs {}", epoch.number);
      }
    }
    if (one.acts() && !one.node.epoch().has(one.node.node(), one.node.incarnation())) {
      return fmt::format("process {} acts in an epoch that it is not in", one.node.incarnation());
    }
  }
  return {};
}

/// Whom everyone ends up with: the living master with the highest term, or a new start of the first one when a
/// node obeys a later master than any that lives. The operator ends the others, and says who is dead.
inline std::size_t LeaseWorld::calm_master() {
  Term obeyed = 0;
  for (const Process& p : processes_) {
    if (p.life == Life::kAlive) obeyed = std::max(obeyed, p.node.memory().obeyed);
  }
  std::size_t best = kMasters;
  for (std::size_t m = 0; m < kMasters; ++m) {
    if (masters_[m].life != Life::kAlive || masters_[m].master->term() < obeyed) continue;
    if (best == kMasters || masters_[m].master->term() > masters_[best].master->term()) best = m;
  }
  for (std::size_t m = 0; m < kMasters; ++m) {
    if (m != best && masters_[m].life == Life::kAlive) apply({LeaseStepKind::kMasterDie, 0, std::uint8_t(m)});
  }
  if (best == kMasters) start_master(best = 0);
  for (std::size_t p = 0; p < processes_.size(); ++p) {
    if (processes_[p].life == Life::kDead) apply({LeaseStepKind::kToldEnded, std::uint8_t(p), std::uint8_t(best)});
  }
  return best;
}

inline void LeaseWorld::calm_round(std::size_t m) {
  for (std::size_t p = 0; p < processes_.size(); ++p) {
    Process& process = processes_[p];
    if (process.life != Life::kAlive) continue;
    if (process.node.memory().obeyed != masters_[m].master->term()) connect(p, m);
    process.reports[m].push_back(process.node.report(process.clock));
    while (!process.reports[m].empty()) {
      take_report(p, m);
      while (!process.answers[m].empty()) take_answer(p, m);
    }
  }
  apply({LeaseStepKind::kMasterClock, 0, std::uint8_t(m)});
}

inline std::string LeaseWorld::after_calm() const {
  LeaseWorld world = *this;
  const std::size_t m = world.calm_master();
  MasterProcess& master = world.masters_[m];
  for (LeaseTime round = 0; round < options_->times.orphan + 3 * options_->times.lease; ++round) {
    world.calm_round(m);
    for (Process& p : world.processes_) {
      for (std::size_t other = 0; other < kMasters; ++other) {
        if (other != m) p.answers[other].clear();
      }
      ++p.clock;
    }
    ++world.now_;
    if (const std::string what = world.violation(); !what.empty()) return "in the calm, " + what;
  }
  world.calm_round(m);
  const Epoch& epoch = master.master->epoch();
  std::vector<bool> lives(nodes());
  for (const Process& p : world.processes_) lives[p.node.node()] = lives[p.node.node()] || p.lives();
  const bool all_ids_live = std::find(lives.begin(), lives.end(), false) == lives.end();
  // What no master can help: the old members have all been lost, or one that has to report is dead.
  const auto is_dead = [&](NodeId node) {
    const auto stands_for = [&](const Process& p) {
      return epoch.has(node, p.node.incarnation()) && p.life == Life::kAlive;
    };
    return std::none_of(world.processes_.begin(), world.processes_.end(), stands_for);
  };
  const std::vector<NodeId> awaited = master.master->awaited();
  const bool awaits_the_dead = epoch.number != 0 && std::any_of(awaited.begin(), awaited.end(), is_dead);
  for (const Process& p : world.processes_) {
    const bool in = epoch.has(p.node.node(), p.node.incarnation());
    if (p.life != Life::kAlive) {
      if (in && !awaits_the_dead) return fmt::format("process {} is not there, and still in", p.node.incarnation());
      continue;
    }
    if (p.node.state() == LeaseState::kFenced || (p.acts() && p.node.epoch() == epoch)) continue;
    const bool others_place = !in && p.node.epoch().number == 0 && epoch.incarnations[p.node.node()] != 0;
    const bool never_founded = epoch.number == 0 && !all_ids_live;
    bool lost = true;  // no member has ever acted
    for (NodeId k = 0; k < nodes(); ++k) {
      if (epoch.incarnations[k] != 0 && master.master->memory().members[k].acted) lost = false;
    }
    const auto is_sure = [](const LeaseMaster::Member& member) { return member.unsure.empty(); };
    const auto& members = master.master->memory().members;
    // The master that founded the cluster can do so again when it knows how everyone ended.
    if (master.master->memory().founded != 0 && all_ids_live && std::all_of(members.begin(), members.end(), is_sure)) {
      lost = false;
    }
    if (others_place || never_founded || lost || awaits_the_dead) continue;
    return fmt::format("process {} does not come to act again: {}", p.node.incarnation(), world.summary());
  }
  return {};
}

// ---- for the explorer ----

/// Two worlds with the same bytes behave in the same way: times are told as they lie from their owner's clock, and
/// those long past are all the same.
struct LeaseWorld::Encoder {
  std::vector<std::uint8_t>& bytes;
  const std::size_t nodes;
  void put(std::uint64_t value) const { bytes.push_back(std::uint8_t(value)); }
  void put_time(LeaseTime at, LeaseTime clock, LeaseTime oldest) const {
    put(std::uint64_t(at < clock - oldest ? 0 : at - clock + oldest));
  }
  void put_epoch(const Epoch& epoch) const {
    put(epoch.number);
    for (std::size_t k = 0; k < nodes; ++k) {
      put(k < epoch.incarnations.size() ? epoch.incarnations[k] : 0);
      put(k < epoch.since.size() ? epoch.since[k] : 0);
    }
  }
};

inline void LeaseWorld::encode(std::vector<std::uint8_t>& bytes) const {
  bytes.clear();
  const Encoder to{bytes, nodes()};
  to.put(term_);
  to.put(deaths_);
  to.put(complaints_);
  to.put(file_ ? file_->term : 0);
  if (file_) to.put_epoch(file_->epoch);
  for (const Process& p : processes_) {
    to.put(unsigned(p.life));
    if (p.life == Life::kUnborn) continue;
    encode_messages(p, to);
    if (p.life == Life::kAlive) encode_node(p, to);
  }
  for (const MasterProcess& m : masters_) {
    to.put(unsigned(m.life == Life::kAlive));
    if (m.life == Life::kAlive) encode_master(*m.master, to);
  }
}

inline void LeaseWorld::encode_messages(const Process& p, const Encoder& to) const {
  const bool margin = options_->rules.hold(LeaseRule::kMargin);
  const LeaseTime node_lease = margin ? options_->times.node_lease : options_->times.lease;
  for (const auto& reports : p.reports) {
    to.put(reports.size());
    for (const Report& report : reports) {
      to.put(report.previous_term);
      to.put_epoch(report.epoch);
      to.put(unsigned(report.state) << 1 | unsigned(!report.unreachable.empty()));
      to.put_time(report.sent, p.clock, node_lease);
    }
  }
  if (!p.lives()) return;  // it takes no answers
  for (const auto& answers : p.answers) {
    to.put(answers.size());
    for (const Answer& answer : answers) {
      to.put(answer.term);
      to.put(unsigned(answer.verdict));
      to.put_time(answer.echo, p.clock, node_lease);
      to.put_epoch(answer.epoch);
    }
  }
}

inline void LeaseWorld::encode_node(const Process& p, const Encoder& to) const {
  const LeaseNode::Memory& memory = p.node.memory();
  const bool over = memory.act_until <= p.clock;
  to.put(unsigned(memory.state));
  to.put(std::uint64_t(now_ - p.clock));
  to.put(unsigned(p.master + 1) << 1 | unsigned(p.told));
  to.put(memory.obeyed);
  to.put_epoch(memory.epoch);
  if (memory.state == LeaseState::kFenced) return;
  to.put(memory.previous);
  to.put(over ? 0 : memory.renewed_by);
  to.put_time(over ? kLongAgo : memory.renewed_sent, p.clock, options_->times.orphan);
  to.put_time(over ? kLongAgo : memory.act_until, p.clock, 0);
}

inline void LeaseWorld::encode_master(const LeaseMaster& master, const Encoder& to) const {
  const LeaseMaster::Memory& memory = master.memory();
  const LeaseTime patience = options_->times.patience;
  to.put(master.term());
  to.put(unsigned(memory.established) << 1 | unsigned(memory.told_by_member));
  to.put(memory.founded);
  to.put(memory.record ? memory.record->term : 0);
  if (memory.record) to.put_epoch(memory.record->epoch);
  to.put_epoch(memory.epoch);
  for (const LeaseMaster::Member& member : memory.members) {
    to.put(member.heard);
    to.put(unsigned(member.newcomer) << 6 | unsigned(member.fresh) << 5 | unsigned(member.acted) << 4 |
           (member.condemned ? unsigned(*member.condemned) + 1 : 0U));
    to.put(member.ended);
    to.put(member.unsure.size());
    for (const std::uint32_t unsure : member.unsure) to.put(unsure);
    to.put(member.seen);
    to.put_time(member.until, now_, 0);
    if (patience == kNever) continue;
    to.put_time(member.suspended_since.value_or(kLongAgo), now_, patience);
    to.put(member.suspended_since.has_value());
    to.put(member.complaints.size());
    for (const auto& [peer, since] : member.complaints) to.put_time(since, now_, patience);
  }
}

inline std::string LeaseWorld::describe(const LeaseStep& step) const {
  const unsigned a = step.a + 1U, b = step.b + 1U;
  switch (step.kind) {
    case LeaseStepKind::kTick: return fmt::format("the clock of process {} goes on", a);
    case LeaseStepKind::kMasterTick: return "the clock of the masters goes on";
    case LeaseStepKind::kConnect: return fmt::format("process {} connects to master {}", a, b);
    case LeaseStepKind::kReport: return fmt::format("process {} reports", a);
    case LeaseStepKind::kComplain: return fmt::format("process {} reports that it cannot reach node 0", a);
    case LeaseStepKind::kTakeReport: return fmt::format("master {} takes a report of process {}", b, a);
    case LeaseStepKind::kTakeAnswer: return fmt::format("process {} takes an answer of master {}", a, b);
    case LeaseStepKind::kLoseReport: return fmt::format("a report of process {} to master {} is lost", a, b);
    case LeaseStepKind::kLoseAnswer: return fmt::format("an answer of master {} to process {} is lost", b, a);
    case LeaseStepKind::kMasterClock: return fmt::format("master {} looks at its clock", b);
    case LeaseStepKind::kStart: return fmt::format("process {} starts", a);
    case LeaseStepKind::kDie: return fmt::format("process {} ends", a);
    case LeaseStepKind::kToldEnded: return fmt::format("master {} is told that process {} has ended", b, a);
    case LeaseStepKind::kMasterStart: return fmt::format("master {} starts", b);
    case LeaseStepKind::kMasterDie: return fmt::format("master {} ends", b);
    case LeaseStepKind::kToldMaster: return fmt::format("process {} is told that its master has ended", a);
  }
  return {};
}

inline std::string LeaseWorld::summary() const {
  std::string text;
  for (const Process& p : processes_) {
    if (p.life != Life::kAlive) continue;
    text += fmt::format("{}{}:{} e{} t{} ", p.acts() ? "*" : "", p.node.incarnation(), to_string(p.node.state()),
                        p.node.epoch().number, p.node.memory().obeyed);
  }
  for (const MasterProcess& m : masters_) {
    if (m.life != Life::kAlive) continue;
    text += fmt::format("| t{}{} e{} [{}] ", m.master->term(), m.master->established() ? "!" : "",
                        m.master->epoch().number, fmt::join(m.master->epoch().incarnations, " "));
  }
  return text;
}

}  // namespace atoll::cluster
