#include "memory/cache_slots.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

namespace atoll::memory {
namespace {

GlobalAddress line(std::uint64_t i) {
  return GlobalAddress::make(1, 4096 + i * 512);
}

TEST(CacheSlots, GivesEachSlotOnce) {
  CacheSlots slots(64);
  EXPECT_EQ(slots.size(), 64u);
  EXPECT_EQ(slots.free_count(), 64u);
  std::set<std::uint32_t> taken;
  for (std::uint64_t i = 0; i < 64; ++i) {
    const std::uint32_t slot = slots.take(line(i));
    EXPECT_LT(slot, 64u);
    EXPECT_TRUE(taken.insert(slot).second);
    EXPECT_EQ(slots.occupant(slot), line(i));
  }
  EXPECT_EQ(slots.used(), 64u);
  EXPECT_EQ(slots.take(line(99)), kNoSlot);
  slots.release(17);
  EXPECT_FALSE(slots.occupant(17));
  EXPECT_EQ(slots.free_count(), 1u);
  EXPECT_EQ(slots.take(line(99)), 17u);
  EXPECT_EQ(slots.occupant(17), line(99));
}

TEST(CacheSlots, RunsAreAlignedAndJoinedAgain) {
  CacheSlots slots(100);  // no power of two
  EXPECT_TRUE(slots.has_run(6));
  EXPECT_FALSE(slots.has_run(7));
  const std::uint32_t one = slots.take(line(1));
  const std::uint32_t eight = slots.take(line(2), 3);
  EXPECT_EQ(eight % 8, 0u);
  EXPECT_EQ(slots.used(), 9u);
  EXPECT_EQ(slots.occupant(eight), line(2));
  EXPECT_FALSE(slots.occupant(eight + 1));
  for (std::uint32_t slot = eight; slot < eight + 8; ++slot) EXPECT_EQ(slots.first_of(slot), eight);
  EXPECT_EQ(slots.first_of(one), one);
  slots.release(one);
  slots.release(eight, 3);
  EXPECT_EQ(slots.used(), 0u);
  EXPECT_EQ(slots.first_of(one), kNoSlot);
  EXPECT_EQ(slots.take(line(3), 6), 0u);
  EXPECT_FALSE(slots.has_run(6));
  EXPECT_EQ(slots.take(line(4), 6), kNoSlot);
  EXPECT_EQ(slots.take(line(4), 5), 64u);
  EXPECT_EQ(slots.take(line(5), 2), 96u);
  EXPECT_EQ(slots.free_count(), 0u);
}

/// Against a map of who has which slot.
TEST(CacheSlots, RunsOfAllOrdersAtRandom) {
  constexpr std::uint32_t kSlots = 1000;
  CacheSlots slots(kSlots);
  base::Random random(7);
  struct Taken {
    std::uint32_t first;
    unsigned order;
  };
  std::vector<Taken> taken;
  std::vector<std::uint32_t> owner(kSlots, kNoSlot);
  std::uint32_t used = 0;
  for (int step = 0; step < 20'000; ++step) {
    if (random.below(2) == 0 || taken.empty()) {
      const auto order = unsigned(random.below(6));
      const std::uint32_t first = slots.take(line(std::uint64_t(step)), order);
      if (first == kNoSlot) {
        // There is really none: every aligned run has a slot that is taken.
        for (std::uint32_t run = 0; run + (1u << order) <= kSlots; run += 1u << order) {
          bool free = true;
          for (std::uint32_t i = 0; i < 1u << order; ++i) free = free && owner[run + i] == kNoSlot;
          ASSERT_FALSE(free) << "order " << order << " at " << run;
        }
        continue;
      }
      ASSERT_EQ(first % (1u << order), 0u);
      for (std::uint32_t i = 0; i < 1u << order; ++i) {
        ASSERT_EQ(owner[first + i], kNoSlot);
        owner[first + i] = first;
      }
      taken.push_back({first, order});
      used += 1u << order;
    } else {
      const std::size_t which = random.below(taken.size());
      const Taken gone = taken[which];
      taken[which] = taken.back();
      taken.pop_back();
      slots.release(gone.first, gone.order);
      std::fill_n(owner.begin() + gone.first, 1u << gone.order, kNoSlot);
      used -= 1u << gone.order;
    }
    ASSERT_EQ(slots.used(), used);
    const auto any = std::uint32_t(random.below(kSlots));
    ASSERT_EQ(slots.first_of(any), owner[any]);
  }
}

TEST(CacheSlots, RandomPlacesAreAllOverTheCache) {
  CacheSlots slots(100);
  std::set<std::uint32_t> seen;
  for (int i = 0; i < 5000; ++i) {
    const std::uint32_t slot = slots.random_slot();
    ASSERT_LT(slot, 100u);
    seen.insert(slot);
  }
  EXPECT_GT(seen.size(), 90u);
}

TEST(CacheSlotsDeathTest, AFreeSlotIsNotReleasedAgain) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_DEATH(
      {
        CacheSlots slots(4);
        slots.release(2);
      },
      "bug in Atoll");
}

}  // namespace
}  // namespace atoll::memory
