#include "memory/cache_slots.hpp"

#include "base/check.hpp"

namespace atoll::memory {

CacheSlots::CacheSlots(std::uint32_t slots) : occupants_(slots), random_(slots) {
  free_.reserve(slots);
  for (std::uint32_t slot = slots; slot > 0; --slot) free_.push_back(slot - 1);
}

std::uint32_t CacheSlots::take(GlobalAddress line) {
  if (free_.empty()) return kNoSlot;
  const std::uint32_t slot = free_.back();
  free_.pop_back();
  occupants_[slot] = line;
  return slot;
}

void CacheSlots::release(std::uint32_t slot) {
  ATOLL_CHECK(occupants_[slot]);
  occupants_[slot] = GlobalAddress();
  free_.push_back(slot);
}

}  // namespace atoll::memory
