// The slots of a node's cache: who is in which, which are free, and whom to evict.
#pragma once

#include <cstdint>
#include <vector>

#include "atoll/address.hpp"
#include "base/random.hpp"

namespace atoll::memory {

inline constexpr std::uint32_t kNoSlot = UINT32_MAX;

/// Thread-safety: none; the caller holds the engine lock.
/// Invariants:
///   1. A slot is free, or holds exactly one line, whose address `occupant` gives.
class CacheSlots {
 public:
  explicit CacheSlots(std::uint32_t slots);

  [[nodiscard]] std::uint32_t size() const noexcept { return std::uint32_t(occupants_.size()); }
  [[nodiscard]] std::uint32_t free_count() const noexcept { return std::uint32_t(free_.size()); }
  [[nodiscard]] std::uint32_t used() const noexcept { return size() - free_count(); }
  /// A free slot for the line, or kNoSlot.
  [[nodiscard]] std::uint32_t take(GlobalAddress line);
  void release(std::uint32_t slot);
  /// Null when the slot is free.
  [[nodiscard]] GlobalAddress occupant(std::uint32_t slot) const noexcept { return occupants_[slot]; }
  /// Where a search for something to evict goes on: a random place, so that a scan larger than the cache does not
  /// always throw out what it will need next.
  [[nodiscard]] std::uint32_t random_slot() noexcept { return std::uint32_t(random_.below(size())); }

 private:
  std::vector<std::uint32_t> free_;
  std::vector<GlobalAddress> occupants_;
  base::Random random_;
};

}  // namespace atoll::memory
