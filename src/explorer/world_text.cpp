// A world in words, for the message chart.
#include <fmt/format.h>

#include "explorer/world.hpp"

namespace atoll::explorer {

std::string World::describe(const Step& step) const {
  switch (step.kind) {
    case StepKind::kDeliver: {
      const Packet& packet = channel(step.peer, step.node).front();
      if (!is_line_kind(packet.message.kind)) {
        return fmt::format("node {} -> node {}: {}", step.peer, step.node, wire::to_string(packet.message.kind));
      }
      return fmt::format("node {} -> node {}: {} line {}", step.peer, step.node, to_string(packet.message),
                         packet.line);
    }
    case StepKind::kOperation:
      if (step.op == coherence::OpKind::kOperate) {
        return fmt::format("node {} thread {}: operate by {} line {}", step.node, step.thread, step.peer, step.line);
      }
      return fmt::format("node {} thread {}: {} line {}", step.node, step.thread, to_string(step.op), step.line);
    case StepKind::kWriteHome:
      return fmt::format("node {} thread {}: write line {} at its home", step.node, step.thread, step.line);
    case StepKind::kUnlock: return fmt::format("node {} thread {}: unlock line {}", step.node, step.thread, step.line);
    case StepKind::kTell:
      return fmt::format("node {} thread {}: tells that line {} is unlocked", step.node, step.thread, step.line);
    case StepKind::kCancel:
      return fmt::format("node {} thread {}: takes back {} line {}", step.node, step.thread, to_string(step.op),
                         step.line);
    case StepKind::kEvict: return fmt::format("node {}: evict line {}", step.node, step.line);
    case StepKind::kCrash: return fmt::format("node {} dies", step.node);
    case StepKind::kLearn: return fmt::format("node {} notices that node {} is dead", step.node, step.peer);
    case StepKind::kReturn: return fmt::format("node {} is back", step.node);
    case StepKind::kSettle: return fmt::format("what node {} has logged is durable", step.node);
    case StepKind::kFile: {
      constexpr const char* kWhat[] = {"begins to write line {} to its file", "has line {} in its file",
                                       "cannot write line {} to its file"};
      return fmt::format("node {} ", step.node) + fmt::format(fmt::runtime(kWhat[step.peer]), step.line);
    }
    case StepKind::kDrop: return fmt::format("node {}: drop line {}", step.node, step.line);
    case StepKind::kFetchHome: return fmt::format("node {}: fetch line {} ahead", step.node, step.line);
    case StepKind::kLoaded:
      return fmt::format("node {} {} line {} from its file", step.node, step.peer == 0 ? "has read" : "cannot read",
                         step.line);
    case StepKind::kReadAhead: return fmt::format("node {}: read ahead line {}", step.node, step.line);
  }
  return {};
}

std::string World::summary() const {
  std::string text;
  for (unsigned line = 0; line < options_.lines; ++line) {
    text += fmt::format("{}line {}:", line == 0 ? "" : "; ", line);
    for (unsigned node = 0; node < options_.nodes; ++node) {
      const ModelLine& model = at(node, line);
      std::string_view state = model.ref.is_home() ? to_string(model.entry.state) : to_string(model.ref.state());
      if (!is_alive(node)) state = "dead";
      text += fmt::format(" {}{}", model.ref.is_home() ? "home " : "", state);
      std::uint32_t word = model.line.lock.load(std::memory_order_relaxed);
      if ((word & detail::kLockWriter) != 0) text += "[W]";
      if ((word & detail::kLockReaders) != 0) text += fmt::format("[R{}]", word & detail::kLockReaders);
      if (node + 1 < options_.nodes) text += ",";
    }
  }
  return text;
}

}  // namespace atoll::explorer
