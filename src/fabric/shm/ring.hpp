// A ring of messages from one node to another, in the receiver's segment.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "wire/message.hpp"

namespace atoll::fabric {

struct RingHeader {
  alignas(64) std::atomic<std::uint64_t> consumed{0};  // written by the receiver
  alignas(64) std::uint64_t reserved = 0;
};
static_assert(sizeof(RingHeader) == 128);

/// Single producer, single consumer. A message's own sequence word tells the receiver that it is there, so that one
/// message costs the transfer of one cache line and nothing else.
///
/// Thread-safety: one thread at a time on each side (each side holds its node's engine lock).
/// Invariants:
///   1. Slot i holds message number s with sequence word s + 1 once it is complete; s % slots == i.
///   2. produced - consumed <= slots.
class Ring {
  /// In a row of messages, each side fetches the slot of a later one. Not the next: the other looks at that.
  static constexpr std::uint64_t kAhead = 3;

 public:
  Ring() = default;
  Ring(std::byte* at, std::uint32_t slots) noexcept
      : header_(reinterpret_cast<RingHeader*>(at)),
        slots_(reinterpret_cast<wire::Message*>(at + sizeof(RingHeader))),
        mask_(slots - 1) {}
  [[nodiscard]] static std::size_t bytes(std::uint32_t slots) noexcept {
    return sizeof(RingHeader) + std::size_t(slots) * sizeof(wire::Message);
  }

  // ---- the sender's side ----
  [[nodiscard]] bool push(const wire::Message& message) noexcept {
    if (next_ - consumed_seen_ > mask_) {
      consumed_seen_ = header_->consumed.load(std::memory_order_acquire);
      if (next_ - consumed_seen_ > mask_) return false;
    }
    wire::Message& slot = slots_[next_ & mask_];
    ++next_;
    std::memcpy(reinterpret_cast<std::byte*>(&slot) + sizeof(slot.sequence),
                reinterpret_cast<const std::byte*>(&message) + sizeof(slot.sequence),
                sizeof(wire::Message) - sizeof(slot.sequence));
    std::atomic_ref(slot.sequence).store(std::uint32_t(next_), std::memory_order_release);
    __builtin_prefetch(&slots_[(next_ + kAhead) & mask_], 1);
    return true;
  }

  // ---- the receiver's side ----
  /// May also be asked by a thread that does not hold the lock: then the answer is a guess.
  [[nodiscard]] bool ready() const noexcept {
    const std::uint64_t next = std::atomic_ref(next_).load(std::memory_order_relaxed);
    return std::atomic_ref(slots_[next & mask_].sequence).load(std::memory_order_acquire) == std::uint32_t(next + 1);
  }
  [[nodiscard]] bool pop(wire::Message& message) noexcept {
    if (!ready()) {
      streak_ = 0;
      return false;
    }
    if (++streak_ > 1) __builtin_prefetch(&slots_[(next_ + kAhead) & mask_], 0);
    message = slots_[next_ & mask_];
    std::atomic_ref(next_).store(next_ + 1, std::memory_order_relaxed);
    header_->consumed.store(next_, std::memory_order_release);
    return true;
  }
  /// As if nothing had ever been sent: for a sender that begins anew, whatever the last one left here, a message that
  /// is half written included. REQUIRES: the last one writes no more, and the next one not yet.
  void reset() noexcept {
    for (std::uint64_t i = 0; i <= mask_; ++i) {
      std::atomic_ref(slots_[i].sequence).store(0, std::memory_order_relaxed);
    }
    std::atomic_ref(next_).store(0, std::memory_order_relaxed);
    streak_ = 0;
    header_->consumed.store(0, std::memory_order_release);
  }

 private:
  RingHeader* header_ = nullptr;
  wire::Message* slots_ = nullptr;
  std::uint64_t mask_ = 0;
  mutable std::uint64_t next_ = 0;   // the next message to push or pop
  std::uint32_t streak_ = 0;         // messages taken in a row
  std::uint64_t consumed_seen_ = 0;  // the sender's last look at the receiver
};

}  // namespace atoll::fabric
