// A memory that knows every value that a read may return.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "atoll/address.hpp"

namespace atoll::sim {

/// A point in the order in which things really happened on the one thread of the simulator: finer than virtual time.
using Tick = std::uint64_t;
inline constexpr Tick kNever = std::numeric_limits<Tick>::max();

/// The bytes that the write number `stamp` puts at `position` of an object. Stamp 0: zeros, as memory is given out.
[[nodiscard]] std::byte pattern(std::uint64_t stamp, std::uint64_t position) noexcept;

/// A range within one line that is always written as a whole, and all writes to it that a read may still return.
///
/// A write takes effect at some point between its begin and its end (it has none until a fence of its thread has
/// returned). A read may return a write if there are points such that it was the last one before some point of the
/// read. What was read is evidence too: who was seen had happened by then, and who had happened before and was not seen
/// is gone for good.
///
/// Thread-safety: none. Invariants:
///   1. A write that is not in the list can be returned by no read that begins from now on.
class Cell {
 public:
  struct Write {
    std::uint64_t stamp = 0;
    std::uint32_t thread = 0;
    Tick begin = 0;
    Tick end = kNever;
    Tick gone = kNever;  // from here on it is known to be overwritten: a later read has returned another one
  };

  Cell(GlobalAddress address, std::uint32_t bytes, std::uint64_t position)
      : address_(address), bytes_(bytes), position_(position), writes_{{0, kNobody, 0, 0, kNever}} {}

  [[nodiscard]] GlobalAddress address() const noexcept { return address_; }
  [[nodiscard]] std::uint32_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::uint64_t position() const noexcept { return position_; }

  void begin_write(std::uint64_t stamp, std::uint32_t thread, Tick now) {
    writes_.push_back({stamp, thread, now, kNever, kNever});
  }
  void end_write(std::uint64_t stamp, Tick now) noexcept;
  /// Nobody knows whether the write happens: its thread was told that it failed, and need not see it.
  void give_up(std::uint64_t stamp) noexcept {
    for (Write& write : writes_) {
      if (write.stamp == stamp) write.thread = kNobody;
    }
  }
  /// The write has not happened, and will not.
  void withdraw(std::uint64_t stamp) noexcept {
    std::erase_if(writes_, [&](const Write& write) { return write.stamp == stamp; });
  }
  /// What is wrong with a read of `found` between `begin` and `end` by `thread`; empty when nothing is. `is_witness`:
  /// may what this thread has seen of a write of that one vanish with both of them? Then it is no evidence.
  template <typename IsWitness>
  [[nodiscard]] std::string check_read(std::span<const std::byte> found, std::uint32_t thread, Tick begin, Tick end,
                                       IsWitness is_witness) {
    const Write* const seen = find(found, thread, begin);
    if (seen == nullptr) return complain(found, thread, begin, end);
    if (seen->end != kNever || is_witness(seen->thread)) learn(found, *seen, begin, end);
    return {};
  }
  [[nodiscard]] std::string check_read(std::span<const std::byte> found, std::uint32_t thread, Tick begin, Tick end) {
    return check_read(found, thread, begin, end, [](std::uint32_t) { return true; });
  }
  /// Whose bytes these are, byte by byte, for the report of a failure: writes up to number `stamps` are tried.
  [[nodiscard]] std::string explain(std::span<const std::byte> found, std::uint64_t stamps) const;
  /// Forgets writes that no read that begins at `oldest` or later can return.
  void prune(Tick oldest);
  [[nodiscard]] std::size_t candidates() const noexcept { return writes_.size(); }

 private:
  static constexpr std::uint32_t kNobody = UINT32_MAX;
  [[nodiscard]] const Write* find(std::span<const std::byte> found, std::uint32_t thread, Tick begin) const noexcept;
  void learn(std::span<const std::byte> found, const Write& seen, Tick begin, Tick end) noexcept;
  [[nodiscard]] std::string complain(std::span<const std::byte> found, std::uint32_t thread, Tick begin,
                                     Tick end) const;
  [[nodiscard]] bool looks_like(const Write& write, std::span<const std::byte> found) const noexcept;
  [[nodiscard]] static bool surely_before(const Write& first, const Write& second) noexcept;
  [[nodiscard]] bool is_overwritten(const Write& write, std::uint32_t thread, Tick begin) const noexcept;

  GlobalAddress address_;
  std::uint32_t bytes_;
  std::uint64_t position_;  // in its object
  std::vector<Write> writes_;
};

}  // namespace atoll::sim
