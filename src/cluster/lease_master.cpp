#include "cluster/lease_master.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"

namespace atoll::cluster {

LeaseMaster::LeaseMaster(Term term, NodeId nodes, const LeaseTimes& times, LeaseTime now,
                         std::optional<LeaseRecord> record, LeaseRules rules)
    : term_(term), times_(times), rules_(rules) {
  memory_.members.resize(nodes);
  memory_.epoch.incarnations.resize(nodes);
  memory_.epoch.since.resize(nodes);
  const bool counts = rules_.hold(LeaseRule::kCountFromStart);
  for (Member& member : memory_.members) member.until = now + (counts ? times_.orphan : times_.lease);
  if (!record || record->epoch.number == 0) return;
  ATOLL_CHECK(record->term < term && record->epoch.incarnations.size() == nodes);
  ATOLL_CHECK(record->epoch.since.size() == nodes);
  memory_.record = std::move(record);
  if (!rules_.hold(LeaseRule::kRecordNeedsWitness)) trust_record();
}

bool LeaseMaster::is_member(const Report& report) const noexcept {
  if (!rules_.hold(LeaseRule::kIncarnations)) return memory_.epoch.incarnations[report.node] != 0;
  return memory_.epoch.has(report.node, report.incarnation);
}

Answer LeaseMaster::on_report(const Report& report, LeaseTime now) {
  Member& member = memory_.members[report.node];
  const bool claims = is_member(report) || (report.epoch.number == 0 && memory_.epoch.incarnations[report.node] == 0);
  if (!memory_.established || claims) {
    if (member.heard != report.incarnation) {
      member = Member{.ended = member.ended,
                      .until = std::max(member.until, now + times_.orphan),
                      .unsure = std::move(member.unsure)};
      member.heard = report.incarnation;
    }
    member.fresh = report.epoch.number == 0;
    const bool ours = memory_.established && report.epoch == memory_.epoch;
    member.seen = ours ? report.epoch.number : 0;
    member.acted = report.state != LeaseState::kJoining;
  }
  if (report.state == LeaseState::kFenced) note_ended(report.node, report.incarnation);  // it will never act again
  if (!memory_.established) learn(report);
  const Verdict verdict = judge(report, now);
  return {term_, report.sent, verdict, memory_.epoch};
}

// ---- while it learns ----

void LeaseMaster::learn(const Report& report) {
  const bool acted = report.state != LeaseState::kJoining || !rules_.hold(LeaseRule::kNewcomersKnowLess);
  if (knows_better(report.epoch, acted)) {
    memory_.epoch = report.epoch;
    memory_.told_by_member = acted;
  }
  if (acted && is_witness(report)) return trust_record();
  if (memory_.epoch.number == 0) return try_found();
  memory_.established = awaited().empty() || !rules_.hold(LeaseRule::kAllReport);
}

bool LeaseMaster::knows_better(const Epoch& told, bool acted) const noexcept {
  const std::size_t nodes = memory_.members.size();
  if (told.number == 0 || told.incarnations.size() != nodes || told.since.size() != nodes) return false;
  if (acted != memory_.told_by_member) return acted;
  return told.number > memory_.epoch.number;
}

/// One that obeyed the predecessor until now.
bool LeaseMaster::is_witness(const Report& report) const noexcept {
  return memory_.record && report.previous_term == memory_.record->term &&
         memory_.record->epoch.has(report.node, report.incarnation);
}

void LeaseMaster::trust_record() {
  memory_.epoch = std::move(memory_.record->epoch);
  memory_.record.reset();
  memory_.established = true;
}

/// The first epoch: all are there, and none was ever in another.
void LeaseMaster::try_found() {
  if (!awaited().empty()) return;
  found();
  memory_.established = true;
}

/// An epoch of all who are there. Nobody else acts, and they begin when all of them have it.
void LeaseMaster::found() {
  memory_.founded = ++memory_.epoch.number;
  for (std::size_t k = 0; k < memory_.members.size(); ++k) {
    memory_.epoch.incarnations[k] = memory_.members[k].heard;
    memory_.epoch.since[k] = memory_.founded;
    memory_.members[k].newcomer = true;
  }
}

/// Nobody who may ever have acted is left, under any master, and every node has a process that never did.
bool LeaseMaster::may_found_anew() const noexcept {
  if (memory_.founded == 0) return false;
  bool founded_already = true;
  for (std::size_t k = 0; k < memory_.members.size(); ++k) {
    const Member& member = memory_.members[k];
    const std::uint32_t in = memory_.epoch.incarnations[k];
    if (in == 0 || memory_.epoch.since[k] != memory_.founded) founded_already = false;
    if (in != 0 && !member.newcomer) return false;
    if (!member.unsure.empty() && rules_.hold(LeaseRule::kFoundAnew)) return false;
    const bool waits = in == 0 ? member.heard != 0 && member.fresh : member.heard == in;
    if (!waits || member.acted || member.ended == member.heard) return false;
  }
  return !founded_already;
}

std::vector<NodeId> LeaseMaster::awaited() const {
  std::vector<NodeId> missing;
  if (memory_.established) return missing;
  for (std::size_t k = 0; k < memory_.members.size(); ++k) {
    const std::uint32_t in = memory_.epoch.incarnations[k];
    const Member& member = memory_.members[k];
    const bool came = member.heard != 0 && member.fresh && member.ended != member.heard;
    const bool known = in == 0 || member.heard == in;
    if (memory_.epoch.number == 0 ? !came : !known) missing.push_back(NodeId(k));
  }
  return missing;
}

// ---- once it is established ----

Verdict LeaseMaster::judge(const Report& report, LeaseTime now) {
  if (!memory_.established && rules_.hold(LeaseRule::kEstablishFirst)) return Verdict::kHeld;
  Member& member = memory_.members[report.node];
  if (report.state == LeaseState::kFenced) return Verdict::kOut;
  if (!is_member(report)) {
    if (report.epoch.number != 0) return Verdict::kOut;
    if (may_enter(report)) {
      ++memory_.epoch.number;
      memory_.epoch.incarnations[report.node] = report.incarnation;
      memory_.epoch.since[report.node] = memory_.epoch.number;
      member.newcomer = true;
    } else if (may_found_anew()) {
      found();
    }
    return Verdict::kHeld;
  }
  note_health(report, now);
  if (member.condemned) return Verdict::kHeld;
  const bool newcomer = report.state == LeaseState::kJoining && rules_.hold(LeaseRule::kNewcomersWait);
  if (newcomer && (report.epoch.number > memory_.epoch.number || !others_know(report.node))) {
    if (member.newcomer) member.until = std::max(member.until, now + times_.lease);  // it is there, and waits
    if (may_found_anew()) found();
    return Verdict::kHeld;
  }
  member.newcomer = false;
  const bool longer = report.state == LeaseState::kOrphaned && rules_.hold(LeaseRule::kOrphansLastLonger);
  member.until = longer ? std::max(member.until, now + times_.lease) : now + times_.lease;
  return Verdict::kRenewed;
}

/// Not while the one before it is in; not after its own end; and only beside a member that has acted.
bool LeaseMaster::may_enter(const Report& report) const noexcept {
  if (memory_.epoch.incarnations[report.node] != 0) return false;
  if (memory_.members[report.node].ended == report.incarnation) return false;
  for (std::size_t k = 0; k < memory_.members.size(); ++k) {
    if (memory_.epoch.incarnations[k] != 0 && memory_.members[k].acted) return true;
  }
  return !rules_.hold(LeaseRule::kNewcomersNeedAMember);
}

/// Every other member has the present epoch; and, but for founders, one of them has acted.
bool LeaseMaster::others_know(NodeId node) const noexcept {
  bool beside_member =
      memory_.epoch.since[node] == std::max(memory_.founded, 1U) || !rules_.hold(LeaseRule::kNewcomersNeedAMember);
  for (std::size_t k = 0; k < memory_.members.size(); ++k) {
    if (k == node || memory_.epoch.incarnations[k] == 0) continue;
    if (memory_.members[k].seen < memory_.epoch.number) return false;
    if (memory_.members[k].acted) beside_member = true;
  }
  return beside_member;
}

void LeaseMaster::note_health(const Report& report, LeaseTime now) {
  Member& member = memory_.members[report.node];
  if (report.state != LeaseState::kSuspended) {
    member.suspended_since.reset();
  } else if (!member.suspended_since) {
    member.suspended_since = now;
  } else if (now - *member.suspended_since >= times_.patience && !member.condemned) {
    member.condemned = LossReason::kSuspended;  // it hears nothing of us, and the others wait for it
  }
  std::map<NodeId, LeaseTime> complaints;
  for (const NodeId peer : report.unreachable) {
    if (peer >= memory_.members.size() || peer == report.node || memory_.epoch.incarnations[peer] == 0) continue;
    const auto before = member.complaints.find(peer);
    complaints.emplace(peer, before == member.complaints.end() ? now : before->second);
  }
  member.complaints = std::move(complaints);
}

std::size_t LeaseMaster::complaints_against(NodeId node) const noexcept {
  const auto complains = [node](const Member& m) { return m.complaints.contains(node); };
  return std::size_t(std::count_if(memory_.members.begin(), memory_.members.end(), complains));
}

/// Two members that have not reached each other for a lease's time: one has to go, or both wait for ever. The one
/// with more complaints against it; of equals the one with the higher id. One at a time: its going may heal more.
void LeaseMaster::condemn_unreachable(LeaseTime now) {
  const auto is_condemned = [](const Member& m) { return m.condemned == LossReason::kUnreachable; };
  if (std::any_of(memory_.members.begin(), memory_.members.end(), is_condemned)) return;
  for (std::size_t k = 0; k < memory_.members.size(); ++k) {
    for (const auto& [peer, since] : memory_.members[k].complaints) {
      if (now - since < times_.patience || memory_.members[peer].condemned || memory_.members[k].condemned) continue;
      const auto one = NodeId(k);
      const std::size_t mine = complaints_against(one), its = complaints_against(peer);
      const NodeId victim = mine == its ? std::max(one, peer) : (mine > its ? one : peer);
      memory_.members[victim].condemned = LossReason::kUnreachable;
      return;
    }
  }
}

std::optional<LossReason> LeaseMaster::reason_to_go(NodeId node, LeaseTime now) const noexcept {
  const Member& member = memory_.members[node];
  const std::uint32_t in = memory_.epoch.incarnations[node];
  if (in == 0) return std::nullopt;
  if (member.ended == in) return LossReason::kEnded;
  const bool wanted_out = member.condemned && !rules_.hold(LeaseRule::kLetItRunOut);
  if (now < member.until && !wanted_out) return std::nullopt;
  return member.condemned.value_or(LossReason::kSilent);
}

std::vector<Loss> LeaseMaster::on_clock(LeaseTime now) {
  std::vector<Loss> losses;
  if (!memory_.established) return losses;
  condemn_unreachable(now);
  for (std::size_t k = 0; k < memory_.members.size(); ++k) {
    const auto reason = reason_to_go(NodeId(k), now);
    if (!reason) continue;
    losses.push_back({NodeId(k), memory_.epoch.incarnations[k], *reason});
    take_out(NodeId(k));
  }
  if (!losses.empty()) ++memory_.epoch.number;
  return losses;
}

std::vector<Loss> LeaseMaster::node_ended(NodeId node, std::uint32_t incarnation, LeaseTime now) {
  note_ended(node, incarnation);
  return on_clock(now);
}

void LeaseMaster::note_ended(NodeId node, std::uint32_t incarnation) {
  Member& member = memory_.members[node];
  member.ended = incarnation;
  std::erase(member.unsure, incarnation);
  // One that waits to be let in is not waited for any more, also when another one of its node ends after it.
  if (!memory_.established || member.heard != incarnation || memory_.epoch.has(node, incarnation)) return;
  member.heard = 0;
  member.fresh = member.acted = false;
}

void LeaseMaster::take_out(NodeId node) {
  Member& member = memory_.members[node];
  const std::uint32_t out = std::exchange(memory_.epoch.incarnations[node], 0);
  memory_.epoch.since[node] = 0;
  if (!member.newcomer && member.ended != out) member.unsure.push_back(out);
  member = Member{.ended = member.ended, .unsure = std::move(member.unsure)};
  for (Member& other : memory_.members) other.complaints.erase(node);
}

void LeaseMaster::slept(LeaseTime now) noexcept {
  for (Member& member : memory_.members) member.until = std::max(member.until, now + times_.lease);
}

}  // namespace atoll::cluster
