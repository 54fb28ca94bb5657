// Cache slots: taking them, giving lines back to have some, and what waits for one.
#include <algorithm>

#include "base/check.hpp"
#include "coherence/lock_word.hpp"
#include "runtime/runtime.hpp"

namespace atoll::runtime {

using coherence::Protocol;
using detail::Line;

namespace {
constexpr std::uint32_t kEvictBatch = 64;  // one barrier for so many
}

bool Runtime::take_slot(const LineRef& ref) {
  std::uint32_t slot = slots_->take(ref.address);
  const std::uint32_t low = std::max(1u, std::min(kEvictBatch / 2, slots_->size() / 16));
  if (slots_->free_count() < low && slots_->free_count() + returning() < low && !evicting_) {
    (void)evict_some(std::min(kEvictBatch, std::max(1u, slots_->size() / 8)));
    if (slot == memory::kNoSlot) slot = slots_->take(ref.address);
  }
  if (slot == memory::kNoSlot) {
    starved_.push_back(ref.address);
    return false;
  }
  ref.line->slot = slot + 1;
  ref.line->lives &= Line::kContested;
  ref.line->visits.store(0, std::memory_order_relaxed);
  mark_here(ref);
  ref.hot.set_bytes(ref.address, segment_.cache() + std::uint64_t(slot) * options_.line_bytes);
  ATOLL_CHECK(ref.hot.has_bytes());
  counters_->cache_lines_used.set(slots_->used());
  return true;
}

void Runtime::release_slot(const LineRef& ref) noexcept {
  const coherence::CacheState state = ref.state();
  const bool returned = state == coherence::CacheState::kDirtyToInvalid ||
                        state == coherence::CacheState::kLeftToInvalid ||
                        state == coherence::CacheState::kOperatedToInvalid;
  if (returned) --returning_to_[ref.home()];
  const bool gone = ATOLL_FAULT(slot_not_released) || (ATOLL_FAULT(slot_reused_early) && returned);
  if (!gone) slots_->release(ref.line->slot - 1);
  ref.line->slot = 0;
  ref.line->visits.store(0, std::memory_order_relaxed);
  ref.line->operation.store(0, std::memory_order_relaxed);
  mark_here(ref);
  counters_->cache_lines_used.set(slots_->used());
}

/// Slots that will be free when their homes have answered. Those that are gone never will.
std::uint32_t Runtime::returning() const noexcept {
  std::uint32_t count = 0;
  for (NodeId node = 0; node < nodes_; ++node) count += is_dead(node) ? 0 : returning_to_[node];
  return count;
}

/// Looks at slots from a random one on, a bounded number of them. A line that threads can hit is hidden from them, so
/// that the next use shows itself in the slow path; one that is still hidden at the second look is given back. That is
/// a clock whose reference bit costs a hit nothing. A line that was used again after it was hidden has more lives than
/// one that was used once: a scan larger than the cache throws out what it has just brought, and not all that was
/// there. All that go share one barrier. Returns how many it gives back.
std::uint32_t Runtime::evict_some(std::uint32_t wanted) {
  evicting_ = true;
  std::vector<LineRef> victims;
  std::uint32_t slot = slots_->random_slot();
  const std::uint32_t most = std::min(2 * slots_->size(), 16 * kEvictBatch);
  for (std::uint32_t seen = 0; seen < most && victims.size() < wanted; ++seen) {
    slot = slot + 1 == slots_->size() ? 0 : slot + 1;
    const GlobalAddress address = slots_->occupant(slot);
    if (!address) continue;
    const LineRef ref = lines_->ref(address);
    const bool locked = !coherence::lock_fits(ref.line->lock.load(std::memory_order_relaxed), true);
    if (locked || ref.line->cold != 0 || !Protocol::is_quiet(ref)) continue;
    // What a dead home would have to take stays here, where it can still be used.
    if (ref.state() != coherence::CacheState::kShared && is_dead(ref.home())) continue;
    if (ref.hot.access() != 0) {
      ref.hot.set_access(0);
      continue;
    }
    if (!victims.empty() && victims.front().address == ref.address) break;  // once around
    if ((ref.line->lives & Line::kLives) != 0 && seen < most / 2) {
      --ref.line->lives;
      continue;
    }
    victims.push_back(ref);
  }
  // Lines that followed each other when they came often go together: then one message tells of several.
  std::sort(victims.begin(), victims.end(), [](const LineRef& a, const LineRef& b) { return a.address < b.address; });
  if (!victims.empty() && !ATOLL_FAULT(evicted_without_quiesce)) quiesce_all(victims);
  std::uint32_t started = 0;
  for (const LineRef& ref : victims) {
    ref.line->use = Line::kUnused;
    calm(ref);
    const bool dirty = ref.state() != coherence::CacheState::kShared;  // or operated: the home gets something back
    if (!protocol_.evict(ref)) continue;                               // a thread has locked it in between
    ++started;
    ref.line->lives = 0;
    if (dirty && ATOLL_FAULT(slot_reused_early)) slots_->release(ref.line->slot - 1);
    (dirty ? counters_->evictions_dirty : counters_->evictions_clean).add();
  }
  evicting_ = false;
  return started;
}

/// Is there nothing to wait for, because locks hold every slot? A look at all of them: only for who finds no slot.
bool Runtime::all_slots_locked() {
  for (std::uint32_t slot = 0; slot < slots_->size(); ++slot) {
    const GlobalAddress address = slots_->occupant(slot);
    if (!address) return false;
    if (coherence::lock_fits(lines_->ref(address).line->lock.load(std::memory_order_relaxed), true)) return false;
  }
  return true;
}

/// Lines that found no slot: makes room and asks for them again, as many as there is room for. When locks hold every
/// slot nothing will ever come, and who waits is told.
void Runtime::retry_starved() {
  if (starved_.empty()) return;
  std::vector<GlobalAddress> again;
  again.swap(starved_);
  if (ATOLL_FAULT(starved_forgotten)) again.pop_back();
  std::size_t next = 0;
  if (slots_->free_count() == 0 && returning() == 0 && evict_some(kEvictBatch) == 0) {
    if (++fruitless_ % 4 == 0 && all_slots_locked()) {
      for (; next < again.size(); ++next) protocol_.give_up(lines_->ref(again[next]), Errc::kCacheFull);
    }
  } else {
    fruitless_ = 0;
  }
  while (next < again.size() && slots_->free_count() > 0) protocol_.pursue(lines_->ref(again[next++]));
  starved_.insert(starved_.end(), again.begin() + std::ptrdiff_t(next), again.end());
}

}  // namespace atoll::runtime
