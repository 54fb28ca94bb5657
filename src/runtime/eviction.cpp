// Cache slots: taking them, giving lines back to have some, and what waits for one.
#include <algorithm>

#include "base/check.hpp"
#include "coherence/lock_word.hpp"
#include "runtime/runtime.hpp"

namespace atoll::runtime {

using coherence::Protocol;
using detail::Line;

namespace {
constexpr std::uint32_t kEvictBatch = 64;       // one barrier for so many
constexpr std::uint32_t kGivenBackToKeep = 64;  // lines that go home for one that stays
}  // namespace

/// Off the hit path, and not before it is needed: when less than a part of the cache is free, what was not used of late
/// goes, until a larger part is. A few at a time, with the misses that take the slots: a program that finds what it
/// needs in the cache pays nothing. Lines that are in use stay, however little is free.
void Runtime::keep_room() {
  const auto is_free = [&](std::uint64_t slots, std::uint32_t percent) {
    return slots * 100 >= std::uint64_t(slots_->size()) * percent;
  };
  if (!reclaiming_ && is_free(slots_->free_count(), options_.evict_below_percent)) return;
  const std::uint64_t free = slots_->free_count() + returning();
  reclaiming_ = !is_free(free, reclaiming_ ? options_.evict_until_percent : options_.evict_below_percent);
  const std::uint32_t batch = std::min(kEvictBatch, std::max(2u, slots_->size() / 8));
  if (!reclaiming_ || evicting_ || ++taken_since_look_ < batch / 2) return;
  taken_since_look_ = 0;
  (void)evict_some(batch, 0, false);
}

bool Runtime::take_slot(const LineRef& ref) {
  keep_room();
  std::uint32_t slot = slots_->take(ref.address, ref.larger);
  const std::uint32_t low = std::max(1u, std::min(kEvictBatch / 2, slots_->size() / 16));
  const bool few = slots_->free_count() < low && slots_->free_count() + returning() < low;
  if ((few || (slot == memory::kNoSlot && ref.larger > 0)) && !evicting_) {
    const std::uint32_t batch = std::min(kEvictBatch, std::max(1u, slots_->size() / 8));
    (void)evict_some(std::max(1u, batch >> ref.larger), ref.larger, true);
    if (slot == memory::kNoSlot) slot = slots_->take(ref.address, ref.larger);
  }
  if (slot == memory::kNoSlot) {
    starved_.push_back(ref.address);
    return false;
  }
  if (journal_ != nullptr) journal_->begin_slot(slot);
  ref.line->slot = slot + 1;
  ref.line->lives &= Line::kDemand;
  ref.line->visits.store(0, std::memory_order_relaxed);
  mark_here(ref);
  ref.hot.set_bytes(ref.address, segment_.cache() + std::uint64_t(slot) * options_.line_bytes);
  ATOLL_CHECK(ref.hot.has_bytes());
  counters_->cache_lines_used.set(slots_->used());
  return true;
}

void Runtime::release_slot(const LineRef& ref) noexcept {
  const coherence::CacheState state = ref.state();
  const bool returned = journal_ != nullptr ? journal_->end_return(ref.line->slot - 1)
                                            : state == coherence::CacheState::kDirtyToInvalid ||
                                                  state == coherence::CacheState::kLeftToInvalid ||
                                                  state == coherence::CacheState::kOperatedToInvalid;
  if (returned) returning_to_[ref.home()] -= 1u << ref.larger;
  const bool gone = ATOLL_FAULT(slot_not_released) || (ATOLL_FAULT(slot_reused_early) && returned);
  if (!gone) slots_->release(ref.line->slot - 1, ref.larger);
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

/// The lines that begin in a run of slots; empty when there are none, or one that must stay. (Where a larger line
/// covers the run it is found at its own beginning.)
void Runtime::find_lines(std::uint32_t first, unsigned order, std::vector<LineRef>& found) {
  found.clear();
  const std::uint32_t end = std::min(first + (1u << order), slots_->size());
  for (std::uint32_t slot = first; slot < end; ++slot) {
    const GlobalAddress address = slots_->occupant(slot);
    if (!address) continue;
    const LineRef ref = lines_->ref(address);
    const bool locked = !coherence::lock_fits(ref.line->lock.load(std::memory_order_relaxed), true);
    // What a dead home would have to take stays here, where it can still be used.
    const bool homeless = ref.state() != coherence::CacheState::kShared && is_dead(ref.home());
    if (locked || homeless || ref.line->cold != 0 || !Protocol::is_quiet(ref)) {
      found.clear();
      return;
    }
    found.push_back(ref);
  }
}

/// Has none of these lines been used since they were last looked at? Those that threads can hit are hidden from them,
/// so that the next use shows itself in the slow path. That is a clock whose reference bit costs a hit nothing. A line
/// that was used again after it was hidden has more lives than one that was used once: a scan larger than the cache
/// throws out what it has just brought, and not all that was there. `pressing`: lives do not count.
bool Runtime::are_idle(std::span<const LineRef> lines, bool pressing) {
  bool idle = true;
  for (const LineRef& ref : lines) {
    if (ref.hot.access() != 0) {
      ref.hot.set_access(0);
      idle = false;
    } else if ((ref.line->lives & Line::kLives) != 0 && !pressing) {
      --ref.line->lives;
      idle = false;
    }
  }
  return idle;
}

/// Looks at runs of slots from a random one on, a bounded number of them, for lines to give back, so that up to
/// `wanted` runs of this order become free. `pressing`: somebody waits for them. All that go share one barrier. Returns
/// how many lines it gives back.
std::uint32_t Runtime::evict_some(std::uint32_t wanted, unsigned order, bool pressing) {
  evicting_ = true;
  std::vector<LineRef> victims, found;
  const std::uint32_t runs = slots_->size() >> order;
  std::uint32_t run = runs == 0 ? 0 : (slots_->random_slot() >> order) % runs;
  // Who is in need looks twice at all of a small cache; else a line must have time to be used between two looks.
  const std::uint32_t most = pressing ? std::min(2 * runs, 16 * kEvictBatch) : 2 * wanted;
  std::uint32_t chosen = 0;
  for (std::uint32_t seen = 0; seen < most && chosen < wanted; ++seen) {
    run = run + 1 == runs ? 0 : run + 1;
    find_lines(run << order, order, found);
    if (found.empty()) continue;
    if (!are_idle(found, pressing && seen >= most / 2)) continue;
    if (!victims.empty() && victims.front().address == found.front().address) break;  // once around
    victims.insert(victims.end(), found.begin(), found.end());
    ++chosen;
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
    if (dirty && ATOLL_FAULT(slot_reused_early)) slots_->release(ref.line->slot - 1, ref.larger);
    (dirty ? counters_->evictions_dirty : counters_->evictions_clean).add();
  }
  evicting_ = false;
  return started;
}

/// A home has no room for a line and asks whether there is some here: a copy that costs nothing, for nobody here waits
/// for it, and it goes as any other that is not used. Not when that would be at once.
void Runtime::take_offer(const LineRef& ref) {
  const std::uint64_t free = slots_->free_count() >> ref.larger;
  const std::uint64_t reserve = std::uint64_t(slots_->size()) * options_.evict_below_percent / 100 >> ref.larger;
  if (free > reserve + 1) (void)fetch_ahead(ref.address);
}

/// What others kept asking for when this node had it is nearer to all of them at home: there it is read in place, and
/// had by one message there and one back. Every now and then a line stays, to see whether anybody comes for it still.
Status Runtime::give_back(GlobalAddress address, std::uint64_t bytes) {
  if (const Status status = check_range(address, bytes); !status.ok()) return status;
  if (bytes == 0 || address.node() == self_ || is_dead(address.node())) return {};
  const std::uint64_t line = line_bytes_at(address);
  std::uint64_t at = address.bits() & ~(line - 1);
  const std::uint64_t end = std::min(address.bits() + bytes, at + kEvictBatch * line);
  const Entry entry(*this);
  for (; at < end; at += line) {
    const LineRef ref = lines_->ref(GlobalAddress(at));
    const bool locked = !coherence::lock_fits(ref.line->lock.load(std::memory_order_relaxed), true);
    if ((ref.line->lives & Line::kWanted) == 0 || ref.line->slot == 0 || locked || ref.line->cold != 0) continue;
    if (!Protocol::is_quiet(ref)) continue;
    if (++given_back_ % kGivenBackToKeep == 0) {
      ref.line->lives &= std::uint8_t(~Line::kWanted);
      continue;
    }
    ref.hot.set_access(0);
    quiesce(ref);
    ref.line->use = Line::kUnused;
    const bool dirty = ref.state() != coherence::CacheState::kShared;
    if (protocol_.evict(ref)) (dirty ? counters_->evictions_dirty : counters_->evictions_clean).add();
  }
  flush();
  return {};
}

/// Is there nothing to wait for, because locks hold every run of slots of this order, or a part of each? A look at all
/// of them: only for who finds none.
bool Runtime::all_runs_locked(unsigned order) {
  const auto is_locked = [&](std::uint32_t slot) {
    const std::uint32_t first = slots_->first_of(slot);
    if (first == memory::kNoSlot) return false;
    const LineRef ref = lines_->ref(slots_->occupant(first));
    return !coherence::lock_fits(ref.line->lock.load(std::memory_order_relaxed), true);
  };
  for (std::uint32_t run = 0; run < slots_->size() >> order; ++run) {
    bool locked = false;
    for (std::uint32_t i = 0; i < 1u << order && !locked; ++i) locked = is_locked((run << order) + i);
    if (!locked) return false;
  }
  return true;
}

/// Lines that found no slot: makes room and asks for them again, as many as there is room for. When locks hold every
/// slot nothing will ever come, and who waits is told.
void Runtime::retry_starved() {
  if (starved_.empty()) return;
  if (ATOLL_FAULT(starved_forgotten)) starved_.pop_back();
  std::vector<LineRef> again;
  for (const GlobalAddress line : starved_) {
    const LineRef ref = lines_->ref(line);
    if (find_cold(ref) != nullptr) again.push_back(ref);  // or nobody waits for it any more
  }
  starved_.clear();
  if (again.empty()) return;
  // The one that has waited longest says how large a run is needed. Slots that come back one by one may never make one.
  const unsigned order = again.front().larger;
  const bool wait = order == 0 && returning() > 0;
  bool give_up = false;
  if (!slots_->has_run(order) && !wait && evict_some(kEvictBatch, order, true) == 0 && returning() == 0) {
    give_up = ++fruitless_ % 4 == 0 && all_runs_locked(order);
  } else {
    fruitless_ = 0;
  }
  for (const LineRef& ref : again) {
    if (give_up && ref.larger >= order) {
      protocol_.give_up(ref, Errc::kCacheFull);
    } else if (slots_->has_run(ref.larger)) {
      protocol_.pursue(ref);
    } else {
      starved_.push_back(ref.address);
    }
  }
}

}  // namespace atoll::runtime
