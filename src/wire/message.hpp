// The one message that nodes exchange: 64 bytes, a hardware cache line. See docs/protocol.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "atoll/address.hpp"
#include "atoll/status.hpp"
#include "wire/kinds.hpp"

namespace atoll::wire {

inline constexpr std::uint8_t kVersion = 8;
inline constexpr std::uint8_t kMaxRun = 8;          // lines that one message may name
inline constexpr std::uint64_t kMaxOperator = 255;  // GetOperated's argument: which operator, from 1 on

enum Flags : std::uint8_t {
  kTry = 1,        // answer at once; a lock in the way means refusal
  kGuarded = 1,    // WriteHome: only if a word is as expected (GuardedWrite); Written: it was not
  kExclusive = 2,  // Data: the permission is to write (what was asked for, said again for readers of traces)
  kInUse = 4,      // Written: threads of the home have used the line since the last write from elsewhere
  kFetch = 4,  // PutDirty, WriteBack, Transfer: the line stands in the sender's slot, which stays as it is until PutAck
  kReinstate = 4,  // ElementLock: logged: the sender has held the lock since before the home died
  kRelease = 8,    // ElementLock: the lock is given back, or not waited for any more
  // The upper half is a number: the lines are 2^n times as large as those of the heap.
};
inline constexpr unsigned kLargerShift = 4;

/// ElementLock has the element's address in `line` and the ticket in `argument`, and kTry and kExclusive say what is
/// wanted (kReinstate and kExclusive: what is held). ElementAnswer has the same of both, and in `slots` the answer and
/// whose death it tells of, if it does.
inline constexpr std::uint32_t kElementAnswers = 4, kElementAbandoned = 2;
inline constexpr std::size_t kElementAnswerAt = 0, kElementDeadAt = 1;

/// A message. Line kinds name `count` consecutive lines from `line` on and a slot for each; the others use
/// `argument` and `slots` as their own pages in docs/protocol.md say. So do two of the line kinds, which need no slots:
/// WriteHome has the write's bytes there, and Written the numbers of lines that need not be consecutive.
struct Message {
  std::uint32_t sequence = 0;  // written last by the transport; a receiver waits for it
  std::uint32_t epoch = 0;     // in which the cluster was founded; another one is dropped
  Kind kind = Kind::kNone;
  std::uint8_t version = kVersion;
  std::uint8_t flags = 0;
  std::uint8_t count = 0;
  NodeId from = 0;
  NodeId requester = 0;
  std::uint64_t line = 0;  // global address of the first line
  std::uint64_t argument = 0;
  std::array<std::uint32_t, kMaxRun> slots{};  // where in the requester's cache each line goes
};
static_assert(sizeof(Message) == 64 && alignof(Message) == 8);

/// log2 of how many times larger than the heap's the lines of a message are.
[[nodiscard]] constexpr unsigned larger(const Message& message) noexcept {
  return message.flags >> kLargerShift;
}

/// Does a message of this line kind name a slot for each line?
[[nodiscard]] constexpr bool has_slots(Kind kind) noexcept {
  return kind != Kind::kWriteHome && kind != Kind::kWritten;
}

/// A write that fits a WriteHome message.
struct SmallWrite {
  static constexpr std::uint32_t kMaxBytes = 32;
  static constexpr std::uint32_t kMaxGuard = (1u << 24) - 1;
  std::uint32_t offset = 0;  // in the line
  std::uint32_t bytes = 0;   // up to 255
  std::uint32_t guard = 0;   // the number of the line's word that must be as expected, if the write is guarded
};
[[nodiscard]] constexpr std::uint64_t pack(SmallWrite write) noexcept {
  return std::uint64_t(write.guard) << 40 | std::uint64_t(write.bytes & 0xff) << 32 | write.offset;
}
[[nodiscard]] constexpr SmallWrite small_write(const Message& message) noexcept {
  return {std::uint32_t(message.argument), std::uint32_t(message.argument >> 32 & 0xff),
          std::uint32_t(message.argument >> 40)};
}

/// What stands in `slots` when the write is guarded: `bytes` are written, and the guard becomes `desired`, if it is
/// `expected`.
struct GuardedWrite {
  static constexpr std::uint32_t kMaxBytes = 16;
  std::uint64_t expected = 0;
  std::uint64_t desired = 0;
  std::array<std::byte, kMaxBytes> bytes{};
};
static_assert(sizeof(Message::slots) == SmallWrite::kMaxBytes && sizeof(GuardedWrite) == SmallWrite::kMaxBytes);

/// Where a WriteIf writes: its argument. Its `line` is the number of the call, and its slots are the GuardedWrite.
struct GuardedPlace {
  std::uint64_t guard = 0;   // the number of the word in the home's memory that must be as expected
  std::uint32_t offset = 0;  // of what is written, in the guard's line
  std::uint32_t bytes = 0;   // 1 to 16
};
[[nodiscard]] constexpr std::uint64_t pack(GuardedPlace place) noexcept {
  return place.guard << 24 | std::uint64_t(place.bytes & 0xff) << 16 | (place.offset & 0xffff);
}
[[nodiscard]] constexpr GuardedPlace guarded_place(std::uint64_t argument) noexcept {
  return {argument >> 24, std::uint32_t(argument & 0xffff), std::uint32_t(argument >> 16 & 0xff)};
}
/// The argument of a WriteIfReply.
inline constexpr std::uint64_t kWriteIfNotDone = 0, kWriteIfDone = 1, kWriteIfRefused = 2, kWriteIfFailed = 3;

/// The i-th line that a message of a line kind names. `line_bytes`: of a line of the heap.
[[nodiscard]] constexpr GlobalAddress line_of(const Message& message, std::uint32_t i,
                                              std::uint32_t line_bytes) noexcept {
  const GlobalAddress first(message.line);
  if (message.kind != Kind::kWritten) return first + (std::int64_t(i) * line_bytes << larger(message));
  return GlobalAddress::make(first.node(), std::uint64_t(message.slots[i]) * line_bytes);
}

/// What a receiver knows of the cluster when it judges a message.
struct Limits {
  NodeId nodes = 0;
  NodeId self = 0;
  const std::uint32_t* epochs = nullptr;        // per node: of messages between it and this one
  std::uint32_t line_bytes = 0;                 // of a line of the heap
  const std::uint32_t* cache_slots = nullptr;   // per node
  const std::uint64_t* memory_bytes = nullptr;  // per node
  const std::uint8_t* const* larger = nullptr;  // per node and grain of its memory; nullptr: all lines are the heap's
};

enum class Verdict : std::uint8_t { kGood, kStale, kMalformed };

/// Judges a message that came from node `from`. Nothing in it is trusted: after kGood every field is in
/// range, the lines exist, the slots are the requester's, kinds that only a home may get or send concern lines of that
/// home, and nobody asks in another's name.
[[nodiscard]] Verdict judge(const Message& message, NodeId from, const Limits& limits, const char** why) noexcept;

/// May `next` join `open` as its next line? Same kind, same everything, and the line that follows (or any, where lines
/// are named one by one).
[[nodiscard]] bool continues(const Message& open, const Message& next, std::uint32_t line_bytes) noexcept;

[[nodiscard]] std::string to_string(const Message& message);

}  // namespace atoll::wire
