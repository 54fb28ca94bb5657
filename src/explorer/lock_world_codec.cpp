// States of a LockWorld as bytes, for the set of those seen, and as text, for charts.
#include <fmt/format.h>

#include "explorer/lock_world.hpp"

namespace atoll::explorer {

using coherence::ElementAnswer;
using coherence::ElementBook;
using coherence::ElementEntry;
using coherence::ElementState;

void LockWorld::encode(std::vector<std::uint8_t>& bytes) const {
  bytes.clear();
  const auto put = [&](unsigned value) { bytes.push_back(std::uint8_t(value)); };
  put(deaths_);
  for (unsigned node = 0; node < options_.nodes; ++node) {
    put(unsigned(down_[node]) | unsigned(closed_[node]) << 1);
    for (unsigned other = 0; other < options_.nodes && deaths_ != 0; ++other) {
      put(unsigned(knows_[node][other]) | unsigned(unaware_[node][other]) << 2 | unsigned(heard_[node][other]) << 3);
    }
    for (unsigned thread = 0; thread < options_.threads; ++thread) {
      for (unsigned element = 0; element < options_.elements; ++element) {
        const Actor& actor = actors_[node][thread][element];
        put(unsigned(actor.phase) | unsigned(actor.exclusive) << 2 | unsigned(actor.is_try) << 3 |
            unsigned(actor.generation) << 4);
      }
    }
    for (unsigned to = 0; to < options_.nodes; ++to) {
      put(unsigned(channels_[node][to].size()));
      for (const Message& message : channels_[node][to]) {
        put(unsigned(message.kind) | unsigned(message.exclusive) << 3 | unsigned(message.is_try) << 4 |
            unsigned(message.answer) << 5 | unsigned(message.element) << 7);
        put(message.ticket);
      }
    }
  }
  // What a home's table holds is what was seen of it, or `check` would have said so.
  for (unsigned element = 0; element < options_.elements; ++element) {
    const Seen& seen = seen_[element];
    for (const NodeId who : {seen.lost, half_done_[element]}) put(who == kNoNode ? kMaxLockNodes : who);
    for (const auto* those : {&seen.holding, &seen.waiting}) {
      put(unsigned(those->size()));
      for (const Seen::One& one : *those) {
        put(one.party.node);
        put(unsigned(one.party.ticket) << 1 | unsigned(one.exclusive));
      }
    }
  }
}

void LockWorld::decode(std::span<const std::uint8_t> bytes) {
  std::size_t at = 0;
  const auto get = [&] { return unsigned(bytes[at++]); };
  violation_.clear();
  const auto get_node = [&] {
    const unsigned who = get();
    return who == kMaxLockNodes ? kNoNode : NodeId(who);
  };
  deaths_ = get();
  std::array<ElementBook, kMaxLockNodes> books;
  for (unsigned node = 0; node < options_.nodes; ++node) {
    const unsigned standing = get();
    down_[node] = (standing & 1) != 0;
    closed_[node] = (standing >> 1 & 1) != 0;
    books[node].closed = closed_[node];
    for (unsigned other = 0; other < options_.nodes; ++other) {
      const unsigned bits = deaths_ == 0 ? 0 : get();
      knows_[node][other] = Peer(bits & 3);
      unaware_[node][other] = (bits >> 2 & 1) != 0;
      heard_[node][other] = (bits >> 3 & 1) != 0;
    }
    for (unsigned thread = 0; thread < options_.threads; ++thread) {
      for (unsigned element = 0; element < options_.elements; ++element) {
        const unsigned bits = get();
        actors_[node][thread][element] = {Phase(bits & 3), (bits >> 2 & 1) != 0, (bits >> 3 & 1) != 0,
                                          std::uint8_t(bits >> 4)};
      }
    }
    for (unsigned to = 0; to < options_.nodes; ++to) {
      auto& channel = channels_[node][to];
      channel.resize(get());
      for (Message& message : channel) {
        const unsigned bits = get();
        message = {Kind(bits & 7),       std::uint8_t(get()),  std::uint8_t(bits >> 7),
                   (bits >> 3 & 1) != 0, (bits >> 4 & 1) != 0, ElementAnswer(bits >> 5 & 3)};
      }
    }
  }
  for (unsigned element = 0; element < options_.elements; ++element) {
    Seen& seen = seen_[element];
    ElementBook& book = books[home_of(element)];
    ElementEntry entry;
    seen.lost = get_node();
    half_done_[element] = get_node();
    entry.dead = seen.lost;
    for (auto* those : {&seen.holding, &seen.waiting}) {
      those->resize(get());
      for (std::size_t i = 0; i < those->size(); ++i) {
        const auto node = NodeId(get());
        const unsigned bits = get();
        Seen::One& one = (*those)[i];
        one = {{node, bits >> 1}, (bits & 1) != 0};
        const bool holds = those == &seen.holding;
        book.requests[one.party] = {address_of(element), one.exclusive, holds, holds ? 0 : i};
        ++book.requests_of[node];
        if (!holds) entry.waiting[i] = one.party;
      }
    }
    entry.holders = std::uint32_t(seen.holding.size());
    entry.exclusive = seen.is_written();
    const bool queued = !seen.waiting.empty();
    if (entry.exclusive) {
      entry.state = queued ? ElementState::kWritingQueued : ElementState::kWriting;
    } else if (entry.holders != 0) {
      entry.state = queued ? ElementState::kReadingQueued : ElementState::kReading;
    } else if (entry.dead != kNoNode && is_logged()) {
      entry.state = queued ? ElementState::kAwayQueued : ElementState::kAway;
    } else if (entry.dead != kNoNode) {
      entry.state = ElementState::kAbandoned;
    } else {
      continue;
    }
    book.elements[address_of(element).bits()] = entry;
  }
  for (unsigned node = 0; node < options_.nodes; ++node) homes_[node].locks.restore(std::move(books[node]));
}

std::string LockWorld::describe(const LockStep& step) const {
  const std::string who = fmt::format("node {} thread {}", step.node, step.thread);
  switch (step.kind) {
    case LockStepKind::kAsk:
      return fmt::format("{} wants {}{} element {}", who, step.is_try ? "at once " : "",
                         step.exclusive ? "to write" : "to read", step.element);
    case LockStepKind::kUnlock: return fmt::format("{} unlocks element {}", who, step.element);
    case LockStepKind::kCancel: return fmt::format("{} gives up waiting for element {}", who, step.element);
    case LockStepKind::kDeliver: {
      const Message& message = channels_[step.peer][step.node].front();
      constexpr std::array<const char*, 6> kKinds = {"request", "release", "answer", "reinstate", "all said", "open"};
      constexpr std::array<const char*, wire::kElementAnswers> kAnswers = {" granted", " refused", " abandoned",
                                                                           " too many"};
      return fmt::format("node {} -> node {}: {}{} element {}", step.peer, step.node, kKinds[std::size_t(message.kind)],
                         message.kind == Kind::kAnswer ? kAnswers[std::size_t(message.answer)] : "", message.element);
    }
    case LockStepKind::kDie: return fmt::format("node {} dies", step.node);
    case LockStepKind::kNotice: return fmt::format("node {} learns that node {} is dead", step.node, step.peer);
    case LockStepKind::kReturn: return fmt::format("node {} is back", step.node);
    case LockStepKind::kReport: return fmt::format("node {} reports to node {}", step.node, step.peer);
  }
  return "?";
}

std::string LockWorld::summary() const {
  std::string text;
  for (unsigned element = 0; element < options_.elements; ++element) {
    const auto& elements = homes_[home_of(element)].locks.book().elements;
    const auto found = elements.find(address_of(element).bits());
    const ElementState state = found == elements.end() ? ElementState::kFree : found->second.state;
    text += fmt::format("[{}", coherence::to_string(state));
    for (const Seen::One& one : seen_[element].holding) text += fmt::format(" {}", one.party.node);
    if (!seen_[element].waiting.empty()) text += " |";
    for (const Seen::One& one : seen_[element].waiting) text += fmt::format(" {}", one.party.node);
    text += "] ";
  }
  return text;
}

}  // namespace atoll::explorer
