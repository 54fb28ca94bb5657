// What must hold in every state of a LockWorld.
#include <fmt/format.h>

#include <algorithm>

#include "explorer/lock_world.hpp"

namespace atoll::explorer {

using coherence::ElementAnswer;
using coherence::ElementBook;

bool LockWorld::Seen::is_written() const noexcept {
  return std::any_of(holding.begin(), holding.end(), [](const One& one) { return one.exclusive; });
}

/// In the order of parties: who came first makes no difference any more.
void LockWorld::Seen::hold(const Party& party, bool exclusive) {
  const auto place = std::find_if(holding.begin(), holding.end(), [&](const One& one) { return party < one.party; });
  holding.insert(place, {party, exclusive});
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
      if (!in_the_way && seen.waiting.empty() && seen.lost == kNoNode)
        violate("a try is refused, and nobody is in the way");
      break;
    }
    case ElementAnswer::kAbandoned:
      if (seen.lost == kNoNode || seen.lost != dead) violate("somebody is told of a death that was none");
      if (is_logged()) violate("somebody is told of a death, and the dead will be back");
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
  if (seen.lost != kNoNode || half_done_[element] != kNoNode) violate("an element is given out whose writer has died");
  if (exclusive ? !seen.holding.empty() : seen.is_written()) {
    violate(fmt::format("node {} is given element {} beside others", to.node, element));
  }
  seen.hold(to, exclusive);
}

void LockWorld::check() {
  for (unsigned element = 0; element < options_.elements && !violated(); ++element) {
    check_actors(element);
    if (down_[home_of(element)]) continue;
    const Seen& seen = seen_[element];
    if (!seen.waiting.empty()) {
      const bool in_the_way = seen.waiting.front().exclusive ? !seen.holding.empty() : seen.is_written();
      if (!in_the_way && seen.lost == kNoNode)
        violate("the first of those who wait is forgotten: nobody is in its way");
    }
    check_book(element);
  }
  if (is_logged() && !violated()) check_rest();
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

/// A writer is alone, whatever its home knows. Who thinks that it holds the element does. When nothing is under way,
/// the reverse is true too, and so it is of those who wait.
void LockWorld::check_actors(unsigned element) {
  std::size_t holding = 0, waiting = 0, writing = 0;
  for (unsigned node = 0; node < options_.nodes; ++node) {
    for (unsigned thread = 0; thread < options_.threads; ++thread) {
      const Actor& actor = actors_[node][thread][element];
      holding += actor.phase == Phase::kHolding ? 1 : 0;
      writing += actor.phase == Phase::kHolding && actor.exclusive ? 1 : 0;
      waiting += actor.phase == Phase::kWaiting ? 1 : 0;
      check_actor(node, thread, element);
    }
  }
  if (writing > 1 || (writing == 1 && holding > 1)) violate("a writer is not alone");
  const Seen& seen = seen_[element];
  if (is_quiet(home_of(element)) && (seen.holding.size() != holding || seen.waiting.size() != waiting)) {
    violate("the home remembers somebody who neither holds nor waits");
  }
}

void LockWorld::check_actor(unsigned node, unsigned thread, unsigned element) {
  const Actor& actor = actors_[node][thread][element];
  const Party party = party_of(node, thread, element);
  const unsigned home = home_of(element);
  const auto among = [&](const std::vector<Seen::One>& those) {
    return std::any_of(those.begin(), those.end(),
                       [&](const Seen::One& one) { return one.party == party && one.exclusive == actor.exclusive; });
  };
  // A home that is not open may not have heard of it yet.
  if (actor.phase == Phase::kHolding && !down_[home] && !closed_[home] && !among(seen_[element].holding)) {
    violate(fmt::format("node {} holds what the home has given up, or never gave", node));
  }
  if (actor.phase == Phase::kWaiting && is_quiet(home) && !among(seen_[element].waiting)) {
    violate(fmt::format("node {} waits, forgotten by the home", node));
  }
}

/// When all are back and nothing is under way, everybody may ask everybody, and nothing is left locked by a death.
void LockWorld::check_rest() {
  if (!nothing_moves()) return;
  bool all_open = true;
  for (unsigned node = 0; node < options_.nodes; ++node) {
    if (down_[node]) return;
    for (unsigned other = 0; other < options_.nodes; ++other) {
      if (is_gone_for(node, other) && closed_[other]) return;  // it has not reported yet
      all_open = all_open && knows_[node][other] == Peer::kOpen && !closed_[other];
    }
  }
  if (!all_open) violate("all are back, and one waits for another for ever");
  for (const Seen& seen : seen_) {
    if (seen.lost != kNoNode) violate("an element is left locked by a node that is back");
  }
}

/// Is no message and no word of a death under way?
bool LockWorld::nothing_moves() const {
  for (unsigned from = 0; from < options_.nodes; ++from) {
    for (unsigned to = 0; to < options_.nodes; ++to) {
      if (!channels_[from][to].empty() || unaware_[from][to]) return false;
    }
  }
  return true;
}

/// Does everybody who lives know all of this home's elements that there is to know?
bool LockWorld::is_quiet(unsigned home) const {
  if (down_[home] || closed_[home]) return false;
  for (unsigned node = 0; node < options_.nodes; ++node) {
    if (!down_[node] && knows_[node][home] != Peer::kOpen) return false;
  }
  return nothing_moves();
}

}  // namespace atoll::explorer
