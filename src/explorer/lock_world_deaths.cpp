// Nodes of a LockWorld that die, and that come back.
#include <algorithm>

#include "explorer/lock_world.hpp"

namespace atoll::explorer {

void LockWorld::enumerate_deaths(unsigned node, std::vector<LockStep>& steps) const {
  const auto id = [](unsigned n) { return std::uint8_t(n); };
  if (down_[node]) {
    if (is_logged() && may_return(node)) steps.push_back({LockStepKind::kReturn, id(node)});
    return;
  }
  for (unsigned other = 0; other < options_.nodes; ++other) {
    if (unaware_[node][other]) steps.push_back({LockStepKind::kNotice, id(node), id(other)});
    if (is_gone_for(node, other) && !down_[other]) steps.push_back({LockStepKind::kReport, id(node), id(other)});
  }
  if (deaths_ < options_.most_deaths && (options_.ops & kLockOpsDeath) != 0) {
    steps.push_back({LockStepKind::kDie, id(node)});
  }
}

void LockWorld::die(unsigned node) {
  ++deaths_;
  down_[node] = true;
  closed_[node] = false;
  for (unsigned element = 0; element < options_.elements; ++element) {
    for (auto& thread : actors_[node]) {
      if (thread[element].phase == Phase::kHolding && thread[element].exclusive) half_done_[element] = NodeId(node);
      thread[element] = {};
    }
    if (home_of(element) == node) seen_[element] = {};
  }
  for (unsigned other = 0; other < options_.nodes; ++other) {
    channels_[other][node].clear();
    unaware_[node][other] = false;
    unaware_[other][node] = other != node && !down_[other];
    knows_[node][other] = Peer::kOpen;
    heard_[node][other] = false;
  }
  homes_[node].locks.restore({});
}

/// A node learns of the death: it hears nothing more of the dead one, and its lock table forgets it. Where nothing is
/// logged its threads wait no longer for what the dead one was the home of.
void LockWorld::notice(unsigned node, unsigned dead) {
  unaware_[node][dead] = false;
  knows_[node][dead] = Peer::kDead;
  std::erase_if(channels_[dead][node], [&](const Message& message) {
    return message.kind != Kind::kAnswer || options_.slip != LockSlip::kOldGrantBelieved;
  });
  for (unsigned element = 0; element < options_.elements; ++element) {
    if (home_of(element) == dead && !is_logged()) {
      for (auto& thread : actors_[node]) thread[element] = {};
    }
    if (home_of(element) != node) continue;
    Seen& seen = seen_[element];
    const auto gone = [&](const Seen::One& one) { return one.party.node == dead; };
    const auto writer = [&](const Seen::One& one) { return gone(one) && one.exclusive; };
    if (std::any_of(seen.holding.begin(), seen.holding.end(), writer)) seen.lost = NodeId(dead);
    std::erase_if(seen.holding, gone);
    std::erase_if(seen.waiting, gone);
  }
  homes_[node].locks.node_died(NodeId(dead));
}

bool LockWorld::may_return(unsigned node) const {
  return std::none_of(unaware_.begin(), unaware_.end(), [&](const auto& of) { return of[node]; });
}

/// It holds nothing of anybody, and says so. Who is open already will not say so again.
void LockWorld::come_back(unsigned node) {
  down_[node] = false;
  closed_[node] = true;
  homes_[node].locks.close();
  for (NodeId& who : half_done_) who = who == node ? kNoNode : who;
  for (unsigned other = 0; other < options_.nodes; ++other) {
    if (other == node) continue;
    knows_[node][other] = down_[other] ? Peer::kDead : closed_[other] ? Peer::kReported : Peer::kOpen;
    send(node, other, {Kind::kReportEnd});
  }
}

/// What this node holds of the elements of a home that is back, and that this was all.
void LockWorld::report(unsigned node, unsigned home) {
  knows_[node][home] = Peer::kReported;
  for (unsigned thread = 0; thread < options_.threads; ++thread) {
    for (unsigned element = 0; element < options_.elements; ++element) {
      const Actor& actor = actors_[node][thread][element];
      if (home_of(element) != home || actor.phase != Phase::kHolding) continue;
      if (options_.slip == LockSlip::kNothingReported) continue;
      const bool exclusive = actor.exclusive || options_.slip == LockSlip::kReportedToWrite;
      const Party party = party_of(node, thread, element);
      send(node, home, {Kind::kReinstate, std::uint8_t(party.ticket), std::uint8_t(element), exclusive});
    }
  }
  send(node, home, {Kind::kReportEnd});
}

void LockWorld::reinstate_at(unsigned home, const Party& party, unsigned element, bool exclusive) {
  was_answered_ = false;
  homes_[home].locks.reinstate(party, address_of(element), exclusive);
  if (was_answered_) violate("who holds an element is told so again");
  seen_[element].hold(party, exclusive);
}

void LockWorld::reported(unsigned home, unsigned from) {
  for (unsigned element = 0; element < options_.elements; ++element) {
    if (home_of(element) == home && seen_[element].lost == from) seen_[element].lost = kNoNode;
  }
  homes_[home].locks.node_returned(NodeId(from));
  if (!closed_[home]) return;
  heard_[home][from] = true;
  for (unsigned other = 0; other < options_.nodes && options_.slip != LockSlip::kOpensEarly; ++other) {
    if (other != home && !heard_[home][other]) return;
  }
  closed_[home] = false;
  heard_[home] = {};
  homes_[home].locks.open();
  for (unsigned other = 0; other < options_.nodes; ++other) {
    if (other != home) send(home, other, {Kind::kOpen});
  }
}

/// A home is open: what is waited for here is asked for (again).
void LockWorld::opened(unsigned node, unsigned home) {
  knows_[node][home] = Peer::kOpen;
  if (options_.slip == LockSlip::kNotAskedAgain) return;
  for (unsigned thread = 0; thread < options_.threads; ++thread) {
    for (unsigned element = 0; element < options_.elements; ++element) {
      const bool waits = actors_[node][thread][element].phase == Phase::kWaiting;
      if (waits && home_of(element) == home) send_request(node, thread, element);
    }
  }
}

}  // namespace atoll::explorer
