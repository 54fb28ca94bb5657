#include "wire/message.hpp"

#include <fmt/format.h>

#include "atoll/detail/hit.hpp"
#include "atoll/detail/lab.hpp"
#include "atoll/stats.hpp"

namespace atoll {

std::string_view message_kind_name(std::uint8_t kind) noexcept {
  return kind < wire::kKinds ? wire::to_string(wire::Kind(kind)) : std::string_view();
}

namespace wire {

std::string_view to_string(Kind kind) noexcept {
  switch (kind) {
    case Kind::kNone: return "None";
#define ATOLL_X(name, direction, meaning) \
  case Kind::k##name: return #name;
      ATOLL_MESSAGE_KINDS(ATOLL_X)
#undef ATOLL_X
    case Kind::kCount: break;
  }
  return "unknown";
}

std::string_view meaning(Kind kind) noexcept {
  switch (kind) {
    case Kind::kNone: return "";
#define ATOLL_X(name, direction, meaning) \
  case Kind::k##name: return meaning;
      ATOLL_MESSAGE_KINDS(ATOLL_X)
#undef ATOLL_X
    case Kind::kCount: break;
  }
  return "";
}

std::string_view direction(Kind kind) noexcept {
  switch (kind) {
    case Kind::kNone: return "";
#define ATOLL_X(name, direction, meaning) \
  case Kind::k##name: return direction;
      ATOLL_MESSAGE_KINDS(ATOLL_X)
#undef ATOLL_X
    case Kind::kCount: break;
  }
  return "";
}

namespace {

// Who must be the home of the lines that a message names.
enum class HomeIs : std::uint8_t { kReceiver, kSender, kAnyone };

HomeIs home_of(Kind kind) noexcept {
  switch (kind) {
    case Kind::kGetShared:
    case Kind::kGetExclusive:
    case Kind::kUpgrade:
    case Kind::kWriteHome:
    case Kind::kGetOperated:
    case Kind::kPutShared:
    case Kind::kPutDirty:
    case Kind::kPutOperated:
    case Kind::kInvalidateAck:
    case Kind::kInvalidateRefused:
    case Kind::kWriteBack:
    case Kind::kTransfer:
    case Kind::kCopy:
    case Kind::kNoCopy:
    case Kind::kReportShared:
    case Kind::kReportDirty:
    case Kind::kOwnerRefused: return HomeIs::kReceiver;
    case Kind::kInvalidate:
    case Kind::kForwardShared:
    case Kind::kForwardExclusive:
    case Kind::kData:
    case Kind::kGrant:
    case Kind::kWritten:
    case Kind::kRefused:
    case Kind::kPutAck:
    case Kind::kFetchCopy:
    case Kind::kFailed:
    case Kind::kOffer: return HomeIs::kSender;
    case Kind::kOwnerData:
    case Kind::kNone:
    case Kind::kAllocate:
    case Kind::kAllocateReply:
    case Kind::kFree:
    case Kind::kFreeReply:
    case Kind::kBarrierArrive:
    case Kind::kBarrierRelease:
    case Kind::kLeaving:
    case Kind::kElementLock:
    case Kind::kElementAnswer:
    case Kind::kProbe:
    case Kind::kProbeAnswer:
    case Kind::kReportEnd:
    case Kind::kOpen:
    case Kind::kWriteIf:
    case Kind::kWriteIfReply:
    case Kind::kFileCall:
    case Kind::kFileReply:
    case Kind::kCount: break;
  }
  return HomeIs::kAnyone;
}

/// Are all lines of the message as large as it says? REQUIRES: they lie in their home's memory.
bool lines_are_so_large(const Message& m, const Limits& limits) noexcept {
  if (limits.larger == nullptr) return larger(m) == 0;
  for (std::uint8_t i = 0; i < m.count; ++i) {
    const GlobalAddress line = line_of(m, i, limits.line_bytes);
    const std::uint8_t here = detail::load_shared(limits.larger[line.node()][line.offset() >> detail::kGrainShift]);
    if ((here & detail::kLargerMask) != larger(m)) return false;
  }
  return true;
}

/// The two kinds that have no slots.
const char* find_fault_of_write(const Message& m, const Limits& limits) noexcept {
  if (m.kind == Kind::kWriteHome) {
    const SmallWrite write = small_write(m);
    if (m.count != 1) return "more than one write";
    const bool guarded = (m.flags & kGuarded) != 0;
    if (write.bytes == 0 || write.bytes > (guarded ? GuardedWrite::kMaxBytes : SmallWrite::kMaxBytes))
      return "a write of no or too many bytes";
    const std::uint32_t line_bytes = limits.line_bytes << larger(m);
    if (guarded ? write.guard >= line_bytes / 8 : write.guard != 0) return "a guard beyond its line, or of nothing";
    return write.offset > line_bytes || write.bytes > line_bytes - write.offset ? "a write beyond its line" : nullptr;
  }
  const GlobalAddress first(m.line);
  if (line_of(m, 0, limits.line_bytes) != first) return "the first line is not the first";
  for (std::uint8_t i = 0; i < m.count; ++i) {
    if (m.slots[i] >= limits.memory_bytes[first.node()] / limits.line_bytes) return "lines beyond the home's memory";
    if (m.slots[i] % (1u << larger(m)) != 0) return "not the start of a line";
  }
  return lines_are_so_large(m, limits) ? nullptr : "lines of another size";
}

/// The two kinds that name an element; the others that concern no line are judged by who works on them.
const char* find_fault_of_element(const Message& m, NodeId from, const Limits& limits) noexcept {
  const bool is_lock = m.kind == Kind::kElementLock;
  if (!is_lock && m.kind != Kind::kElementAnswer) return nullptr;
  const GlobalAddress element(m.line);
  if (element.kind() != GlobalAddress::Kind::kMemory) return "no such element";
  if (element.node() != (is_lock ? limits.self : from)) return "an element that has its home elsewhere";
  if (element.offset() >= limits.memory_bytes[element.node()]) return "an element beyond the home's memory";
  if (is_lock) {
    if (m.requester != from) return "a request for somebody else";
    if ((m.flags & kRelease) != 0 && m.flags != kRelease) return "a lock that is let go otherwise";
    return (m.flags & kReinstate) != 0 && (m.flags & kTry) != 0 ? "a lock that is held and tried" : nullptr;
  }
  if (m.slots[kElementAnswerAt] >= kElementAnswers) return "no such answer";
  const bool tells_of_death = m.slots[kElementAnswerAt] == kElementAbandoned;
  return tells_of_death && m.slots[kElementDeadAt] >= limits.nodes ? "the death of nobody" : nullptr;
}

/// The flags that messages of a kind may have.
unsigned flags_of(Kind kind) noexcept {
  if (is_line_kind(kind)) return kTry | kExclusive | kInUse | 0xf << kLargerShift;
  const unsigned any = kTry | kExclusive | kRelease;
  return kind == Kind::kElementLock ? any | kReinstate : any;
}

const char* find_fault(const Message& m, NodeId from, const Limits& limits) noexcept {
  if (m.version != kVersion) return "another version of the protocol";
  if (m.kind == Kind::kNone || m.kind >= Kind::kCount) return "no such kind";
  if (m.from != from) return "not from whom it says";
  if (m.requester >= limits.nodes) return "no such requester";
  if ((m.flags & ~flags_of(m.kind)) != 0) return "unknown flags";
  if (m.kind == Kind::kReportEnd || m.kind == Kind::kOpen) {
    if (m.flags == 0 && m.requester == from) return nullptr;  // the argument counts barriers
    return "a word about nobody's lines, with more to it";
  }
  if (!is_line_kind(m.kind)) return find_fault_of_element(m, from, limits);
  if (m.count == 0 || m.count > kMaxRun) return "a run of no or too many lines";
  const GlobalAddress line(m.line);
  if (line.node() >= limits.nodes || line.kind() != GlobalAddress::Kind::kMemory) return "no such home";
  const std::uint64_t line_bytes = std::uint64_t(limits.line_bytes) << larger(m);
  if (line.offset() % line_bytes != 0) return "not the start of a line";
  const std::uint64_t memory = limits.memory_bytes[line.node()];
  const std::uint64_t run = std::uint64_t(m.kind == Kind::kWritten ? 1 : m.count) * line_bytes;
  if (run > memory || line.offset() > memory - run) return "lines beyond the home's memory";
  if (m.kind != Kind::kWritten && !lines_are_so_large(m, limits)) return "lines of another size";
  switch (home_of(m.kind)) {
    case HomeIs::kReceiver:
      if (line.node() != limits.self) return "sent to a node that is not the home";
      break;
    case HomeIs::kSender:
      if (line.node() != from) return "sent by a node that is not the home";
      break;
    case HomeIs::kAnyone:
      if (line.node() == limits.self) return "the home asks nobody for its own line";
      break;
  }
  // Data goes to the slots of the requester: they must be its own, and it must be one that the sender can speak for.
  const bool request = m.kind == Kind::kGetShared || m.kind == Kind::kGetExclusive || m.kind == Kind::kUpgrade ||
                       m.kind == Kind::kWriteHome || m.kind == Kind::kGetOperated || m.kind == Kind::kPutOperated;
  if (request && m.requester != from) return "a request for somebody else";
  // What is fetched, and what is reported, is the sender's own.
  const bool own =
      m.kind == Kind::kReportShared || m.kind == Kind::kReportDirty || (is_return(m.kind) && (m.flags & kFetch) != 0);
  if (own && m.requester != from) return "a return or report for somebody else";
  if (m.kind == Kind::kGetOperated && (m.argument == 0 || m.argument > kMaxOperator)) return "no such operator";
  if (m.kind == Kind::kGetOperated && (m.flags & kTry) != 0) return "operands are not tried";
  if (!has_slots(m.kind)) return find_fault_of_write(m, limits);
  const bool forward = m.kind == Kind::kForwardShared || m.kind == Kind::kForwardExclusive;
  if (forward && m.requester == limits.self) return "a forward of what is here";
  for (std::uint8_t i = 0; i < m.count; ++i) {
    const std::uint32_t taken = 1u << larger(m);
    const std::uint32_t slots = limits.cache_slots[m.requester];
    if (taken > slots || m.slots[i] > slots - taken) return "a slot that the requester does not have";
    if (m.slots[i] % taken != 0) return "a slot that such lines do not begin at";
  }
  return nullptr;
}

}  // namespace

Verdict judge(const Message& message, NodeId from, const Limits& limits, const char** why) noexcept {
  *why = find_fault(message, from, limits);
  if (*why != nullptr) return Verdict::kMalformed;
  return message.epoch == limits.epochs[from] || ATOLL_FAULT(epoch_not_checked) ? Verdict::kGood : Verdict::kStale;
}

bool continues(const Message& open, const Message& next, std::uint32_t line_bytes) noexcept {
  if (!is_line_kind(next.kind) || next.kind == Kind::kWriteHome || open.kind != next.kind || open.flags != next.flags ||
      open.argument != next.argument || open.requester != next.requester || open.count >= kMaxRun || next.count != 1) {
    return false;
  }
  return next.kind == Kind::kWritten ||
         next.line == open.line + (std::uint64_t(open.count) * line_bytes << larger(open));
}

std::string to_string(const Message& m) {
  std::string text = fmt::format("{} {} from {}", to_string(m.kind), GlobalAddress(m.line).to_string(), m.from);
  if (m.count > 1) text += fmt::format(" ({} lines)", m.count);
  if (is_line_kind(m.kind) && larger(m) != 0) text += fmt::format(" {}-fold", 1u << larger(m));
  if (m.requester != m.from) text += fmt::format(" for {}", m.requester);
  if ((m.flags & kTry) != 0) text += m.kind == Kind::kWriteHome ? " if" : m.kind == Kind::kWritten ? " not" : " try";
  return text;
}

}  // namespace wire
}  // namespace atoll
