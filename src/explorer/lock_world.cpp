#include "explorer/lock_world.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace atoll::explorer {

using coherence::ElementAnswer;

namespace {
constexpr std::uint64_t kFirstElement = 4096;  // an address that no null pointer plus a little is
}

// ---- what may happen ----

std::uint16_t LockStep::pack() const noexcept {
  return std::uint16_t(unsigned(kind) | unsigned(node) << 3 | unsigned(peer) << 5 | unsigned(thread) << 7 |
                       unsigned(element) << 8 | unsigned(exclusive) << 9 | unsigned(is_try) << 10);
}

LockStep LockStep::unpack(std::uint16_t bits) noexcept {
  return {LockStepKind(bits & 7),      std::uint8_t(bits >> 3 & 3), std::uint8_t(bits >> 5 & 3),
          std::uint8_t(bits >> 7 & 1), std::uint8_t(bits >> 8 & 1), (bits >> 9 & 1) != 0,
          (bits >> 10 & 1) != 0};
}

LockWorld::LockWorld(const LockWorldOptions& options) : options_(options) {
  for (unsigned node = 0; node < options.nodes; ++node) homes_.emplace_back(*this, node, options);
}

void LockWorld::enumerate(std::vector<LockStep>& steps) const {
  steps.clear();
  const auto id = [](unsigned n) { return std::uint8_t(n); };
  for (unsigned to = 0; to < options_.nodes; ++to) {
    for (unsigned from = 0; from < options_.nodes; ++from) {
      if (!channels_[from][to].empty()) steps.push_back({LockStepKind::kDeliver, id(to), id(from)});
    }
  }
  for (unsigned node = 0; node < options_.nodes; ++node) {
    // The program of a node that is back begins when the node is open.
    for (unsigned thread = 0; thread < options_.threads && !down_[node] && !closed_[node]; ++thread) {
      enumerate_thread(node, thread, steps);
    }
    enumerate_deaths(node, steps);
  }
}

void LockWorld::enumerate_thread(unsigned node, unsigned thread, std::vector<LockStep>& steps) const {
  for (unsigned element = 0; element < options_.elements; ++element) {
    const Actor& actor = actors_[node][thread][element];
    LockStep step{LockStepKind::kUnlock, std::uint8_t(node), 0, std::uint8_t(thread), std::uint8_t(element)};
    if (actor.phase == Phase::kHolding) steps.push_back(step);
    step.kind = LockStepKind::kCancel;
    if (actor.phase == Phase::kWaiting && (options_.ops & kLockOpsCancel) != 0) steps.push_back(step);
    step.kind = LockStepKind::kAsk;
    if (actor.phase != Phase::kIdle || (!is_logged() && is_gone_for(node, home_of(element)))) continue;
    if (free_generation(node, thread, element) < 0) continue;
    for (const bool is_try : {false, true}) {
      if (is_try && (options_.ops & kLockOpsTry) == 0) continue;
      step.is_try = is_try;
      step.exclusive = false;
      if ((options_.ops & kLockOpsRead) != 0) steps.push_back(step);
      step.exclusive = true;
      if ((options_.ops & kLockOpsWrite) != 0) steps.push_back(step);
    }
  }
}

void LockWorld::apply(const LockStep& step) {
  switch (step.kind) {
    case LockStepKind::kAsk: ask(step); break;
    case LockStepKind::kUnlock:
    case LockStepKind::kCancel: let_go(step.node, step.thread, step.element); break;
    case LockStepKind::kDeliver: {
      auto& channel = channels_[step.peer][step.node];
      const Message message = channel.front();
      channel.pop_front();
      receive(step.node, step.peer, message);
      break;
    }
    case LockStepKind::kDie: die(step.node); break;
    case LockStepKind::kNotice: notice(step.node, step.peer); break;
    case LockStepKind::kReturn: come_back(step.node); break;
    case LockStepKind::kReport: report(step.node, step.peer); break;
  }
}

// ---- threads ----

GlobalAddress LockWorld::address_of(unsigned element) noexcept {
  return GlobalAddress::make(0, kFirstElement + 8 * element);
}
unsigned LockWorld::element_of(GlobalAddress address) noexcept {
  return unsigned((address.offset() - kFirstElement) / 8);
}
std::uint8_t LockWorld::ticket_of(unsigned thread, unsigned element, unsigned generation) noexcept {
  return std::uint8_t((thread * kMaxElements + element) * kGenerations + generation);
}
LockWorld::Actor& LockWorld::actor_of(unsigned node, unsigned ticket) noexcept {
  const unsigned which = ticket / kGenerations;
  return actors_[node][which / kMaxElements][which % kMaxElements];
}
LockWorld::Party LockWorld::party_of(unsigned node, unsigned thread, unsigned element) const noexcept {
  return {NodeId(node), ticket_of(thread, element, actors_[node][thread][element].generation)};
}

/// Does anything under way, or the home, still know the ticket?
bool LockWorld::is_used(unsigned node, unsigned ticket, unsigned element) const {
  const unsigned home = home_of(element);
  const auto has = [&](const Message& message) { return message.ticket == ticket; };
  return std::any_of(channels_[node][home].begin(), channels_[node][home].end(), has) ||
         std::any_of(channels_[home][node].begin(), channels_[home][node].end(), has) ||
         homes_[home].locks.book().requests.contains({NodeId(node), ticket});
}

int LockWorld::free_generation(unsigned node, unsigned thread, unsigned element) const {
  for (unsigned generation = 0; generation < kGenerations; ++generation) {
    if (!is_used(node, ticket_of(thread, element, generation), element)) return int(generation);
  }
  return -1;
}

void LockWorld::ask(const LockStep& step) {
  const int generation = free_generation(step.node, step.thread, step.element);
  actors_[step.node][step.thread][step.element] = {Phase::kWaiting, step.exclusive, step.is_try,
                                                   std::uint8_t(generation)};
  const Peer home = knows_[step.node][home_of(step.element)];
  const bool early = home == Peer::kReported && options_.slip == LockSlip::kAsksEarly;
  if (home == Peer::kOpen || early) send_request(step.node, step.thread, step.element);
}

void LockWorld::send_request(unsigned node, unsigned thread, unsigned element) {
  const Actor& actor = actors_[node][thread][element];
  const Party party = party_of(node, thread, element);
  const unsigned home = home_of(element);
  if (home == node) return request_at(home, party, element, actor.exclusive, actor.is_try);
  send(node, home, {Kind::kRequest, std::uint8_t(party.ticket), std::uint8_t(element), actor.exclusive, actor.is_try});
}

/// An unlock, or the end of a wait: the home is told the same, unless it knows nothing of either.
void LockWorld::let_go(unsigned node, unsigned thread, unsigned element) {
  const Party party = party_of(node, thread, element);
  actors_[node][thread][element] = {};
  const unsigned home = home_of(element);
  if (home == node) return release_at(home, party, element);
  if (is_gone_for(node, home)) return;
  if (knows_[node][home] == Peer::kReported && options_.slip == LockSlip::kUnlockNotTold) return;
  send(node, home, {Kind::kRelease, std::uint8_t(party.ticket), std::uint8_t(element)});
}

/// A thread that does not wait for it any more has told the home so: what crosses that is not for it.
void LockWorld::answered(unsigned node, unsigned ticket, ElementAnswer answer) {
  Actor& actor = actor_of(node, ticket);
  if (actor.phase != Phase::kWaiting || actor.generation != ticket % kGenerations) return;
  if (answer == ElementAnswer::kGranted) {
    actor.phase = Phase::kHolding;
  } else {
    actor = {};
  }
}

// ---- messages ----

void LockWorld::send(unsigned from, unsigned to, const Message& message) {
  if (!down_[to]) channels_[from][to].push_back(message);
}

void LockWorld::receive(unsigned at, unsigned from, const Message& message) {
  const Party party{NodeId(from), message.ticket};
  switch (message.kind) {
    case Kind::kRequest: request_at(at, party, message.element, message.exclusive, message.is_try); break;
    case Kind::kRelease: release_at(at, party, message.element); break;
    case Kind::kAnswer: answered(at, message.ticket, message.answer); break;
    case Kind::kReinstate: reinstate_at(at, party, message.element, message.exclusive); break;
    case Kind::kReportEnd: reported(at, from); break;
    case Kind::kOpen: opened(at, from); break;
  }
}

void LockWorld::request_at(unsigned home, const Party& party, unsigned element, bool exclusive, bool is_try) {
  asks_exclusive_ = exclusive;
  asks_try_ = is_try;
  was_answered_ = false;
  homes_[home].locks.request(party, address_of(element), exclusive, is_try);
  if (was_answered_) return;
  if (is_try) violate("a try is not answered at once");
  seen_[element].waiting.push_back({party, exclusive});
}

void LockWorld::release_at(unsigned home, const Party& party, unsigned element) {
  const auto same = [&](const Seen::One& one) { return one.party == party; };
  std::erase_if(seen_[element].holding, same);
  std::erase_if(seen_[element].waiting, same);
  homes_[home].locks.release(party, address_of(element));
}

void LockWorld::Home::answer(const Party& to, GlobalAddress element, ElementAnswer answer, NodeId dead) {
  const unsigned which = element_of(element);
  world.was_answered_ = true;
  if (world.is_gone_for(node, to.node)) return;  // it was let in by others that died with it, and goes next
  world.judge_answer(to, which, answer, dead);
  if (to.node == node) return world.answered(node, unsigned(to.ticket), answer);
  Message message{Kind::kAnswer, std::uint8_t(to.ticket), std::uint8_t(which)};
  message.answer = answer;
  world.send(node, to.node, message);
}
void LockWorld::Home::fault(const Party& from, GlobalAddress, const char* why) {
  world.violate(fmt::format("node {} faults node {}, which did nothing wrong: {}", node, from.node, why));
}
void LockWorld::Home::broken(GlobalAddress element, const char* what) {
  world.violate(fmt::format("the table of node {}, element {}: {}", node, element_of(element), what));
}

}  // namespace atoll::explorer
