// Moving bytes between nodes: three channels behind one interface.
//
// control: 64-byte messages, in order per pair of nodes. data: one-sided writes to a peer's cache slot or to its home
// memory, visible to the peer before any message sent later. notice: here the control message that follows the data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "atoll/status.hpp"
#include "wire/message.hpp"

namespace atoll::fabric {

/// What a fabric asks of its node, or tells it. All under the engine lock.
struct Upcalls {
  /// The answer that this node waits for with a line in this slot, as `from` would send it; of kind kNone when it waits
  /// for none. For fabrics whose data brings only a few bits with it.
  std::function<wire::Message(NodeId from, std::uint32_t slot)> answer_in;
  /// A peer cannot be reached any more. What was sent to it may be lost.
  std::function<void(NodeId peer, const char* why)> on_broken;
};

/// Are the lines that the message names in its sender's cache slots, for the receiver to fetch (`read_slot`)?
[[nodiscard]] constexpr bool brings_lines(const wire::Message& message) noexcept {
  using wire::Kind;
  if (message.kind == Kind::kPutOperated) return true;
  const bool returns =
      message.kind == Kind::kPutDirty || message.kind == Kind::kWriteBack || message.kind == Kind::kTransfer;
  return returns && (message.flags & wire::kFetch) != 0;
}

/// Thread-safety: send, write_*, flush and poll are called under the node's engine lock; wake_self from any thread;
/// wait from the service thread alone. Invariants:
///   1. Messages of one sender reach one receiver in the order sent, each once.
///   2. What write_slot and write_home wrote is there before a message sent after it is polled.
///   3. send never blocks: what a full ring cannot take waits on this side and goes out with a later flush.
class Fabric {
 public:
  virtual ~Fabric() = default;
  /// Puts a message into the peer's queue. Consecutive lines of one kind are joined into one wire message.
  virtual void send(NodeId to, const wire::Message& message) = 0;
  /// Writes a line to a peer's cache, from this slot on. (A slot has room for a line of the heap; larger lines take
  /// several.) `one_of_many`: the line is part of a stream; it need not be in anybody's processor cache when it
  /// arrives.
  virtual void write_slot(NodeId to, std::uint32_t slot, std::span<const std::byte> line, bool one_of_many) = 0;
  /// A hint: write_slot with these arguments comes next.
  virtual void prefetch_slot(NodeId to, std::uint32_t slot, std::uint32_t bytes) noexcept = 0;
  virtual void write_home(NodeId to, std::uint64_t offset, std::span<const std::byte> line) = 0;
  /// What stands in a peer's cache slot that it has sent a message about that brings its lines (`brings_lines`), as it
  /// was when the peer sent it. Null when the peer did not send so much. Stands until the next flush. REQUIRES: the
  /// message was polled; the peer leaves the slot as it is until it is answered.
  [[nodiscard]] virtual const std::byte* read_slot(NodeId from, std::uint32_t slot, std::uint32_t bytes) = 0;
  /// Makes everything sent so far visible to its receivers and wakes those who sleep.
  virtual void flush() = 0;
  /// The next message, copied out. False when there is none.
  [[nodiscard]] virtual bool poll(wire::Message& message, NodeId& from) = 0;
  /// A guess, without the engine lock: is there something to poll?
  [[nodiscard]] virtual bool maybe_pending() const noexcept = 0;
  /// Does something wait on this side because a peer's queue is full, and no event will tell when it is not? Such a
  /// node must go on flushing.
  [[nodiscard]] virtual bool has_backlog() const noexcept = 0;
  /// How many messages to this peer wait on this side.
  [[nodiscard]] virtual std::size_t queued(NodeId to) const noexcept = 0;
  /// Sleeps until a peer sends, wake_self is called, or the time is over.
  virtual void wait(std::uint32_t timeout_ms) noexcept = 0;
  virtual void wake_self() noexcept = 0;
  /// A peer is gone: drop what waits for it and what came of it, and send it nothing more. (How it comes back: each
  /// fabric's `readmit`, which runtime::Transport calls.)
  virtual void forget(NodeId peer) noexcept = 0;
};

}  // namespace atoll::fabric
