#include "coherence/element_locks.hpp"

#include <utility>
#include <vector>

#include "atoll/detail/lab.hpp"

namespace atoll::coherence {

using Action = ElementAction;
using Event = ElementEvent;
using State = ElementState;

void ElementLocks::request(const Party& party, GlobalAddress element, bool exclusive, bool is_try) {
  if (book_.closed) return env_.fault(party, element, "it asks for a lock before the home is open");
  if (book_.requests.contains(party)) return env_.fault(party, element, "a ticket that is in use");
  const auto count = book_.requests_of.find(party.node);
  if (ATOLL_FAULT(element_writer_taken_for_reader)) exclusive = false;
  Event event = exclusive ? Event::kWrite : Event::kRead;
  if (is_try) event = exclusive ? Event::kTryWrite : Event::kTryRead;
  if (count != book_.requests_of.end() && count->second >= most_requests_) event = Event::kExcess;
  run(element, party, exclusive, event);
}

void ElementLocks::release(const Party& party, GlobalAddress element) {
  const auto found = book_.requests.find(party);
  if (found != book_.requests.end() && found->second.element != element) {
    return env_.fault(party, element, "it lets go of another element than it has locked");
  }
  const auto entry = book_.elements.find(element.bits());
  const Event event = entry == book_.elements.end() ? Event::kStranger : classify_release(party, entry->second);
  run(element, party, false, event);
}

/// What contradicts others is told apart here, before the table is asked.
void ElementLocks::reinstate(const Party& party, GlobalAddress element, bool exclusive) {
  if (!book_.closed) return env_.fault(party, element, "it holds a lock that an open home knows nothing of");
  if (book_.requests.contains(party)) return env_.fault(party, element, "a ticket that is in use");
  const auto count = book_.requests_of.find(party.node);
  if (count != book_.requests_of.end() && count->second >= most_requests_) {
    return env_.fault(party, element, "it holds more locks than it may");
  }
  const auto entry = book_.elements.find(element.bits());
  if (entry != book_.elements.end() && (exclusive || entry->second.state != State::kReading)) {
    return env_.fault(party, element, "it holds a lock that another holds, and one of them writes");
  }
  run(element, party, exclusive, exclusive ? Event::kReinstateWrite : Event::kReinstateRead);
}

void ElementLocks::node_died(NodeId node) {
  // Those who wait first, lest one of them be let in by what the others leave.
  for (const bool holds : {false, true}) {
    std::vector<std::pair<Party, GlobalAddress>> gone;
    for (auto at = book_.requests.lower_bound({node, 0}); at != book_.requests.end() && at->first.node == node; ++at) {
      if (at->second.holds == holds) gone.emplace_back(at->first, at->second.element);
    }
    for (const auto& [party, element] : gone) {
      const ElementRequest& request = book_.requests.at(party);
      if (request.holds && request.exclusive && !ATOLL_FAULT(element_death_frees)) {
        run(element, party, true, env_.returns() ? Event::kHolderAway : Event::kHolderDied);
      } else {
        release(party, element);
      }
    }
  }
}

void ElementLocks::node_returned(NodeId node) {
  if (!env_.returns()) return;
  std::vector<GlobalAddress> left;
  for (const auto& [address, entry] : book_.elements) {
    if (entry.dead == node) left.emplace_back(address);
  }
  for (const GlobalAddress element : left) run(element, {node, 0}, true, Event::kHolderBack);
}

Event ElementLocks::classify_release(const Party& party, const ElementEntry& entry) const {
  const auto found = book_.requests.find(party);
  if (found == book_.requests.end()) return Event::kStranger;
  if (found->second.holds) return entry.holders == 1 ? Event::kReleaseLast : Event::kRelease;
  return entry.waiting.size() == 1 ? Event::kWithdrawLast : Event::kWithdraw;
}

Event ElementLocks::classify_turn(const ElementEntry& entry) const {
  const Party& first = entry.waiting.begin()->second;
  const bool last = entry.waiting.size() == 1;
  if (book_.requests.at(first).exclusive) return last ? Event::kTurnWriteLast : Event::kTurnWrite;
  return last ? Event::kTurnReadLast : Event::kTurnRead;
}

void ElementLocks::run(GlobalAddress element, const Party& party, bool exclusive, Event event) {
  const auto at = book_.elements.try_emplace(element.bits()).first;
  Step step{element, at->second, party, exclusive};
  bool turn = apply(step, event);
  while (turn && !step.entry.waiting.empty()) turn = apply(step, classify_turn(step.entry));
  const ElementEntry& entry = step.entry;
  if (entry.state == State::kPassing) env_.broken(element, "nobody holds what somebody waits for");
  if (entry.state == State::kReadingQueued && !entry.waiting.empty() && classify_turn(entry) <= Event::kTurnReadLast) {
    env_.broken(element, "a reader waits for readers alone");
  }
  if (entry.state == State::kFree) book_.elements.erase(at);
}

/// One row of the table. True: it may be somebody's turn.
bool ElementLocks::apply(Step& step, Event event) {
  const State state = step.entry.state;
  const auto& cell = table_.at(state, event);
  if (coverage_ != nullptr) ++(*coverage_)[std::size_t(state)][std::size_t(event)];
  if (cell.never) {
    env_.broken(step.element, cell.why);  // events are told apart here, not by peers
    return false;
  }
  bool turn = false;
  for (std::uint8_t i = 0; i < cell.action_count; ++i) act(step, cell.actions[i], turn);
  set_state(step, cell.next);
  return turn;
}

void ElementLocks::act(Step& step, Action action, bool& turn) {
  ElementEntry& entry = step.entry;
  switch (action) {
    case Action::kNone: break;
    case Action::kGrant:
      remember(step, 0);
      grant(step, step.party);
      break;
    case Action::kQueue: {
      const std::uint64_t turn_number = entry.waiting.empty() ? 0 : entry.waiting.rbegin()->first + 1;
      remember(step, turn_number);
      entry.waiting[turn_number] = step.party;
      break;
    }
    case Action::kRefuse: env_.answer(step.party, step.element, ElementAnswer::kRefused, kNoNode); break;
    case Action::kRefuseExcess: env_.answer(step.party, step.element, ElementAnswer::kExcess, kNoNode); break;
    case Action::kRefuseAbandoned: env_.answer(step.party, step.element, ElementAnswer::kAbandoned, entry.dead); break;
    case Action::kDrop: drop(step); break;
    case Action::kAdmit: {
      if (entry.waiting.empty()) return env_.broken(step.element, "nobody is there to be let in");
      const Party first = entry.waiting.begin()->second;
      entry.waiting.erase(entry.waiting.begin());
      grant(step, first);
      break;
    }
    case Action::kTurn: turn = true; break;
    case Action::kMourn: entry.dead = step.party.node; break;
    case Action::kRefuseWaiting: refuse_waiting(step); break;
    case Action::kForgetDeath: entry.dead = kNoNode; break;
    case Action::kReinstate:
      remember(step, 0);
      hold(step, step.party);
      break;
  }
}

void ElementLocks::remember(const Step& step, std::uint64_t turn) {
  book_.requests[step.party] = {step.element, step.exclusive, false, turn};
  ++book_.requests_of[step.party.node];
}

void ElementLocks::hold(Step& step, const Party& party) {
  ElementRequest& request = book_.requests.at(party);
  request.holds = true;
  request.turn = 0;
  ++step.entry.holders;
  step.entry.exclusive = step.entry.exclusive || request.exclusive;
}

void ElementLocks::grant(Step& step, const Party& party) {
  hold(step, party);
  env_.answer(party, step.element, ElementAnswer::kGranted, kNoNode);
}

/// Who lets go is forgotten, whether it holds or waits.
void ElementLocks::drop(Step& step) {
  const auto found = book_.requests.find(step.party);
  if (found == book_.requests.end()) return env_.broken(step.element, "nobody is there to be dropped");
  if (found->second.holds) {
    --step.entry.holders;
    if (found->second.exclusive) step.entry.exclusive = false;
  } else {
    step.entry.waiting.erase(found->second.turn);
  }
  forget(step.party);
}

void ElementLocks::refuse_waiting(Step& step) {
  for (const auto& [turn, party] : std::exchange(step.entry.waiting, {})) {
    forget(party);
    env_.answer(party, step.element, ElementAnswer::kAbandoned, step.entry.dead);
  }
}

void ElementLocks::forget(const Party& party) {
  book_.requests.erase(party);
  const auto count = book_.requests_of.find(party.node);
  if (--count->second == 0) book_.requests_of.erase(count);
}

/// The only place where a state changes.
void ElementLocks::set_state(Step& step, State state) {
  ElementEntry& entry = step.entry;
  const std::uint32_t holders = entry.holders;
  const bool waited_for = !entry.waiting.empty();
  bool holds = false;
  switch (state) {
    case State::kFree: holds = holders == 0 && !waited_for; break;
    case State::kReading: holds = holders > 0 && !entry.exclusive && !waited_for; break;
    case State::kReadingQueued: holds = holders > 0 && !entry.exclusive && waited_for; break;
    case State::kWriting: holds = holders == 1 && entry.exclusive && !waited_for; break;
    case State::kWritingQueued: holds = holders == 1 && entry.exclusive && waited_for; break;
    case State::kPassing: holds = holders == 0 && waited_for; break;
    case State::kAbandoned:
    case State::kAway: holds = holders == 0 && !waited_for && entry.dead != kNoNode; break;
    case State::kAwayQueued: holds = holders == 0 && waited_for && entry.dead != kNoNode; break;
    case State::kCount: break;
  }
  if (!holds) env_.broken(step.element, "who holds and who waits does not fit the state");
  entry.state = state;
}

}  // namespace atoll::coherence
