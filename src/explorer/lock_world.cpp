#include "explorer/lock_world.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace atoll::explorer {

using coherence::ElementAnswer;
using coherence::ElementBook;
using coherence::ElementRequest;

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
    if (node == dead_) continue;
    for (unsigned thread = 0; thread < options_.threads; ++thread) {
      for (unsigned element = 0; element < options_.elements; ++element) {
        const Actor& actor = actors_[node][thread][element];
        LockStep step{LockStepKind::kUnlock, id(node), 0, id(thread), id(element)};
        if (actor.phase == Phase::kHolding) steps.push_back(step);
        step.kind = LockStepKind::kCancel;
        if (actor.phase == Phase::kWaiting && (options_.ops & kLockOpsCancel) != 0) steps.push_back(step);
        step.kind = LockStepKind::kAsk;
        if (actor.phase != Phase::kIdle || is_gone_for(node, home_of(element))) continue;
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
    if (dead_ < options_.nodes && !noticed_[node]) steps.push_back({LockStepKind::kNotice, id(node), id(dead_)});
    if (dead_ >= options_.nodes && (options_.ops & kLockOpsDeath) != 0) {
      steps.push_back({LockStepKind::kDie, id(node)});
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
    case LockStepKind::kNotice: notice(step.node); break;
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

bool LockWorld::is_gone_for(unsigned node, unsigned other) const noexcept {
  return other == dead_ && noticed_[node];
}

void LockWorld::ask(const LockStep& step) {
  const int generation = free_generation(step.node, step.thread, step.element);
  actors_[step.node][step.thread][step.element] = {Phase::kWaiting, step.exclusive, step.is_try,
                                                   std::uint8_t(generation)};
  const Party party = party_of(step.node, step.thread, step.element);
  const unsigned home = home_of(step.element);
  if (home == step.node) return request_at(home, party, step.element, step.exclusive, step.is_try);
  send(step.node, home, {Kind::kRequest, std::uint8_t(party.ticket), step.element, step.exclusive, step.is_try});
}

/// An unlock, or the end of a wait: the home is told the same.
void LockWorld::let_go(unsigned node, unsigned thread, unsigned element) {
  const Party party = party_of(node, thread, element);
  actors_[node][thread][element] = {};
  const unsigned home = home_of(element);
  if (home == node) return release_at(home, party, element);
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
  if (to != dead_) channels_[from][to].push_back(message);
}

void LockWorld::receive(unsigned at, unsigned from, const Message& message) {
  const Party party{NodeId(from), message.ticket};
  switch (message.kind) {
    case Kind::kRequest: request_at(at, party, message.element, message.exclusive, message.is_try); break;
    case Kind::kRelease: release_at(at, party, message.element); break;
    case Kind::kAnswer: answered(at, message.ticket, message.answer); break;
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

// ---- deaths ----

void LockWorld::die(unsigned node) {
  dead_ = node;
  for (auto& thread : actors_[node]) thread = {};
  for (unsigned other = 0; other < options_.nodes; ++other) channels_[other][node].clear();
  homes_[node].locks.restore({});
  for (unsigned element = node; element < options_.elements; element += options_.nodes) seen_[element] = {};
}

/// A node learns of the death: it hears nothing more of the dead one, its lock table forgets it, and its threads wait
/// no longer for what the dead one was the home of.
void LockWorld::notice(unsigned node) {
  noticed_[node] = true;
  channels_[dead_][node].clear();
  for (unsigned element = 0; element < options_.elements; ++element) {
    if (home_of(element) == dead_) {
      for (auto& thread : actors_[node]) thread[element] = {};
    }
    if (home_of(element) != node) continue;
    Seen& seen = seen_[element];
    const auto gone = [&](const Seen::One& one) { return one.party.node == dead_; };
    const auto writer = [&](const Seen::One& one) { return gone(one) && one.exclusive; };
    if (std::any_of(seen.holding.begin(), seen.holding.end(), writer)) seen.lost = NodeId(dead_);
    std::erase_if(seen.holding, gone);
    std::erase_if(seen.waiting, gone);
  }
  homes_[node].locks.node_died(NodeId(dead_));
}

// ---- what must hold ----

bool LockWorld::Seen::is_written() const noexcept {
  return std::any_of(holding.begin(), holding.end(), [](const One& one) { return one.exclusive; });
}

void LockWorld::violate(std::string what) {
  if (violation_.empty()) violation_ = std::move(what);
}

void LockWorld::judge_answer(const Party& to, unsigned element, ElementAnswer answer, NodeId dead) {
  Seen& seen = seen_[element];
  const auto same = [&](const Seen::One& one) { return one.party == to; };
  switch (answer) {
    case ElementAnswer::kGranted: judge_grant(to, element); break;
    case ElementAnswer::kRefused: {
      if (!asks_try_) return violate("a request that may wait is refused");
      const bool in_the_way = asks_exclusive_ ? !seen.holding.empty() : seen.is_written();
      if (!in_the_way && seen.waiting.empty()) violate("a try is refused, and nobody is in the way");
      break;
    }
    case ElementAnswer::kAbandoned:
      if (seen.lost == kNoNode || seen.lost != dead) violate("somebody is told of a death that was none");
      std::erase_if(seen.waiting, same);
      break;
    case ElementAnswer::kExcess: {
      std::size_t count = 0;
      for (unsigned e = 0; e < options_.elements; ++e) {
        if (home_of(e) != home_of(element)) continue;
        const auto own = [&](const Seen::One& one) { return one.party.node == to.node; };
        count += std::size_t(std::count_if(seen_[e].holding.begin(), seen_[e].holding.end(), own));
        count += std::size_t(std::count_if(seen_[e].waiting.begin(), seen_[e].waiting.end(), own));
      }
      if (count < options_.most_requests) violate("somebody is told of too many requests that there are not");
      break;
    }
  }
}

void LockWorld::judge_grant(const Party& to, unsigned element) {
  Seen& seen = seen_[element];
  const auto at =
      std::find_if(seen.waiting.begin(), seen.waiting.end(), [&](const Seen::One& one) { return one.party == to; });
  if (at == seen.waiting.end() ? !seen.waiting.empty() : at != seen.waiting.begin()) {
    violate(fmt::format("node {} overtakes those who came before it", to.node));
  }
  const bool exclusive = at == seen.waiting.end() ? asks_exclusive_ : at->exclusive;
  if (at != seen.waiting.end()) seen.waiting.erase(at);
  if (seen.lost != kNoNode) violate("an element is given out whose writer has died");
  if (exclusive ? !seen.holding.empty() : seen.is_written()) {
    violate(fmt::format("node {} is given element {} beside others", to.node, element));
  }
  // In the order of parties: who came first makes no difference any more.
  const auto place =
      std::find_if(seen.holding.begin(), seen.holding.end(), [&](const Seen::One& one) { return to < one.party; });
  seen.holding.insert(place, {to, exclusive});
}

void LockWorld::check() {
  for (unsigned element = 0; element < options_.elements && !violated(); ++element) {
    if (home_of(element) == dead_) continue;
    const Seen& seen = seen_[element];
    if (!seen.waiting.empty()) {
      const bool in_the_way = seen.waiting.front().exclusive ? !seen.holding.empty() : seen.is_written();
      if (!in_the_way) violate("the first of those who wait is forgotten: nobody is in its way");
    }
    check_book(element);
    check_actors(element);
  }
}

/// The home remembers those who hold and wait, and nothing else.
void LockWorld::check_book(unsigned element) {
  const Seen& seen = seen_[element];
  const ElementBook& book = homes_[home_of(element)].locks.book();
  const auto here = [&](const auto& request) { return request.second.element == address_of(element); };
  const auto known = std::size_t(std::count_if(book.requests.begin(), book.requests.end(), here));
  if (known != seen.holding.size() + seen.waiting.size()) violate("the home's requests are not those that there are");
  const bool needed = !seen.holding.empty() || !seen.waiting.empty() || seen.lost != kNoNode;
  if (book.elements.contains(address_of(element).bits()) != needed) {
    violate("an entry that nobody needs is left, or one is missing");
  }
}

/// Who thinks that it holds the element does. When nothing is under way, the reverse is true too, and so it is of those
/// who wait.
void LockWorld::check_actors(unsigned element) {
  const Seen& seen = seen_[element];
  const auto among = [](const std::vector<Seen::One>& those, const Party& party) {
    return std::any_of(those.begin(), those.end(), [&](const Seen::One& one) { return one.party == party; });
  };
  std::size_t holding = 0, waiting = 0, writing = 0;
  for (unsigned node = 0; node < options_.nodes; ++node) {
    for (unsigned thread = 0; thread < options_.threads; ++thread) {
      const Actor& actor = actors_[node][thread][element];
      const Party party = party_of(node, thread, element);
      if (actor.phase == Phase::kHolding) {
        ++holding;
        writing += actor.exclusive ? 1 : 0;
        if (!among(seen.holding, party)) violate(fmt::format("node {} holds what the home has given up", node));
      }
      if (actor.phase == Phase::kWaiting) {
        ++waiting;
        if (is_quiet() && !among(seen.waiting, party))
          violate(fmt::format("node {} waits, forgotten by the home", node));
      }
    }
  }
  if (writing > 1 || (writing == 1 && holding > 1)) violate("a writer is not alone");
  if (is_quiet() && (seen.holding.size() != holding || seen.waiting.size() != waiting)) {
    violate("the home remembers somebody who neither holds nor waits");
  }
}

/// Is nothing under way? A death that not all have noticed is.
bool LockWorld::is_quiet() const {
  for (const auto& from : channels_) {
    for (const auto& channel : from) {
      if (!channel.empty()) return false;
    }
  }
  for (unsigned node = 0; node < options_.nodes && dead_ < options_.nodes; ++node) {
    if (node != dead_ && !noticed_[node]) return false;
  }
  return true;
}

}  // namespace atoll::explorer
