#include "memory/cache_slots.hpp"

#include <algorithm>
#include <bit>

#include "base/check.hpp"

namespace atoll::memory {

CacheSlots::CacheSlots(std::uint32_t slots)
    : free_count_(slots), links_(slots), free_(slots, kNone), order_(slots), occupants_(slots), random_(slots) {
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
  links_[slot] = {head, kNoSlot};
  if (head != kNoSlot) links_[head].previous = slot;
  heads_[order] = slot;
  free_[slot] = std::uint8_t(order);
  orders_with_runs_ |= 1u << order;
}

void CacheSlots::remove_run(std::uint32_t slot) noexcept {
  const unsigned order = free_[slot];
  const Link link = links_[slot];
  if (link.next != kNoSlot) links_[link.next].previous = link.previous;
  if (link.previous != kNoSlot) {
    links_[link.previous].next = link.next;
  } else {
    heads_[order] = link.next;
    if (link.next == kNoSlot) orders_with_runs_ &= ~(1u << order);
  }
  free_[slot] = kNone;
}

std::uint32_t CacheSlots::take(GlobalAddress line, unsigned order) {
  if (!has_run(order)) return kNoSlot;
  auto from = order + unsigned(std::countr_zero(orders_with_runs_ >> order));
  const std::uint32_t slot = heads_[from];
  remove_run(slot);
  for (; from > order; --from) add_run(slot + (1u << (from - 1)), from - 1);
  occupants_[slot] = line;
  order_[slot] = std::uint8_t(order);
  free_count_ -= 1u << order;
  return slot;
}

void CacheSlots::release(std::uint32_t slot, unsigned order) {
  ATOLL_CHECK(occupants_[slot] && order_[slot] == order);
  occupants_[slot] = GlobalAddress();
  free_count_ += 1u << order;
  for (; order < kMaxOrder; ++order) {
    const std::uint32_t neighbour = slot ^ (1u << order);
    if (neighbour >= size() || free_[neighbour] != order) break;
    remove_run(neighbour);
    slot = std::min(slot, neighbour);
  }
  add_run(slot, order);
}

std::uint32_t CacheSlots::first_of(std::uint32_t slot) const noexcept {
  for (unsigned order = 0; order <= kMaxOrder; ++order) {
    const std::uint32_t first = slot >> order << order;
    if (occupants_[first] && first + (1u << order_[first]) > slot) return first;
    if (free_[first] != kNone && first + (1u << free_[first]) > slot) return kNoSlot;
  }
  return kNoSlot;
}

}  // namespace atoll::memory
