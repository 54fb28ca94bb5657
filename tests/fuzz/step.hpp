// Eight bytes that say a message, or something else to do: what inputs of the stateful targets are made of.
#pragma once

#include <array>

#include "mutate.hpp"
#include "wire/message.hpp"

namespace atoll::fuzz {

struct Step {
  std::uint8_t action = 0;
  std::uint8_t kind = 0;   // of the message, or of the operation
  std::uint8_t who = 0;    // low half: from whom; high half: for whom
  std::uint8_t flags = 0;  // low half: the flags; high half: lines - 1
  std::uint8_t line = 0;   // low half: which; high half: whose
  std::uint8_t slot = 0;
  std::uint16_t argument = 0;
};
static_assert(sizeof(Step) == 8);

inline constexpr std::array<Field, 7> kStepFields = {{{0, 1}, {1, 1}, {2, 1}, {3, 1}, {4, 1}, {5, 1}, {6, 2}}};
inline constexpr std::uint32_t kLineBytes = 512;
inline constexpr std::uint32_t kFirstLine = 8;  // the first page of a node's memory is never given out
inline constexpr std::uint32_t kSlots = 64;

inline GlobalAddress line_of(const Step& step, NodeId nodes) {
  return GlobalAddress::make(NodeId((step.line >> 4) % nodes), (kFirstLine + (step.line & 15u)) * kLineBytes);
}

/// A message that is well-formed more often than not; what it means may still make no sense.
inline wire::Message message_of(const Step& step, NodeId nodes) {
  wire::Message m;
  m.epoch = 1;
  m.kind = wire::Kind(1 + step.kind % (wire::kKinds - 1));
  m.flags = step.flags & 7;
  m.count = std::uint8_t(1 + (step.flags >> 4) % wire::kMaxRun);
  m.from = NodeId((step.who & 15) % nodes);
  m.requester = NodeId((step.who >> 4) % nodes);
  m.line = line_of(step, nodes).bits();
  // Calls and barriers number themselves with small numbers; a few are very large.
  m.argument = step.argument < 0xff00 ? step.argument : UINT64_MAX - (step.argument & 0xff);
  const bool of_element = m.kind == wire::Kind::kElementLock || m.kind == wire::Kind::kElementAnswer;
  if (!wire::is_line_kind(m.kind) && !of_element) m.line = step.slot;
  for (std::uint32_t i = 0; i < wire::kMaxRun; ++i) m.slots[i] = (step.slot + i) % (kSlots + 2);
  if (m.kind == wire::Kind::kWriteHome) {
    m.argument =
        wire::pack(wire::SmallWrite{step.argument % (kLineBytes + 1), step.slot % (wire::SmallWrite::kMaxBytes + 2u),
                                    (m.flags & wire::kGuarded) != 0 ? step.slot % (kLineBytes / 8 + 1) : 0});
    m.count = 1;
  }
  if (m.kind == wire::Kind::kWriteIf) {
    const std::uint64_t guard = line_of(step, nodes).offset() / 8 + step.slot % (kLineBytes / 8);
    m.argument = wire::pack(wire::GuardedPlace{guard, step.argument % (kLineBytes + 1u), step.slot % 18u});
  }
  if (of_element) {
    m.flags = step.flags & 15;
    m.line += 8ull * step.slot % kLineBytes;
    m.slots[wire::kElementAnswerAt] = (step.flags >> 4) % (wire::kElementAnswers + 1);
  }
  if (m.kind == wire::Kind::kGetOperated) m.argument = step.argument % 4;
  if (m.kind == wire::Kind::kWritten) m.slots[0] = std::uint32_t(GlobalAddress(m.line).offset() / kLineBytes);
  return m;
}

inline std::size_t mutate_steps(std::uint8_t* data, std::size_t size, std::size_t max_size, unsigned seed,
                                std::size_t header) {
  return mutate_records({header, sizeof(Step), kStepFields}, data, size, max_size, seed);
}

}  // namespace atoll::fuzz
