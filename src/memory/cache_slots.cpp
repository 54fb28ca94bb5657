#include "memory/cache_slots.hpp"

#include <algorithm>
#include <bit>

#include "base/check.hpp"

namespace atoll::memory {

CacheSlots::CacheSlots(std::uint32_t slots) : free_count_(slots), slots_(slots), random_(slots) {
  heads_.fill(kNoSlot);
  // Runs as large as their place and the end allow; the first ones last, so that they are taken first.
  std::vector<std::uint32_t> firsts;
  const auto order_at = [&](std::uint32_t slot) {
    const unsigned fits = unsigned(std::bit_width(slots - slot)) - 1;
    return std::min({kMaxOrder, fits, slot == 0 ? kMaxOrder : unsigned(std::countr_zero(slot))});
  };
  for (std::uint32_t slot = 0; slot < slots; slot += 1u << order_at(slot)) firsts.push_back(slot);
  for (auto slot = firsts.rbegin(); slot != firsts.rend(); ++slot) add_run(*slot, order_at(*slot));
}

void CacheSlots::add_run(std::uint32_t slot, unsigned order) noexcept {
  const std::uint32_t head = heads_[order];
  slots_[slot].next = head;
  slots_[slot].previous = kNoSlot;
  slots_[slot].free = std::uint8_t(order);
  if (head != kNoSlot) slots_[head].previous = slot;
  heads_[order] = slot;
  orders_with_runs_ |= 1u << order;
}

void CacheSlots::remove_run(std::uint32_t slot) noexcept {
  Slot& run = slots_[slot];
  if (run.next != kNoSlot) slots_[run.next].previous = run.previous;
  if (run.previous != kNoSlot) {
    slots_[run.previous].next = run.next;
  } else {
    heads_[run.free] = run.next;
    if (run.next == kNoSlot) orders_with_runs_ &= ~(1u << run.free);
  }
  run.free = kNone;
}

std::uint32_t CacheSlots::take(GlobalAddress line, unsigned order) {
  if (!has_run(order)) return kNoSlot;
  auto from = order + unsigned(std::countr_zero(orders_with_runs_ >> order));
  const std::uint32_t slot = heads_[from];
  remove_run(slot);
  for (; from > order; --from) add_run(slot + (1u << (from - 1)), from - 1);
  slots_[slot].occupant = line;
  slots_[slot].order = std::uint8_t(order);
  free_count_ -= 1u << order;
  return slot;
}

void CacheSlots::release(std::uint32_t slot, unsigned order) {
  ATOLL_CHECK(slots_[slot].occupant && slots_[slot].order == order);
  slots_[slot].occupant = GlobalAddress();
  free_count_ += 1u << order;
  for (; order < kMaxOrder; ++order) {
    const std::uint32_t neighbour = slot ^ (1u << order);
    if (neighbour >= size() || slots_[neighbour].free != order) break;
    remove_run(neighbour);
    slot = std::min(slot, neighbour);
  }
  add_run(slot, order);
}

std::uint32_t CacheSlots::first_of(std::uint32_t slot) const noexcept {
  for (unsigned order = 0; order <= kMaxOrder; ++order) {
    const std::uint32_t first = slot >> order << order;
    const Slot& run = slots_[first];
    if (run.occupant && first + (1u << run.order) > slot) return first;
    if (run.free != kNone && first + (1u << run.free) > slot) return kNoSlot;
  }
  return kNoSlot;
}

}  // namespace atoll::memory
