#include "memory/cache_slots.hpp"

#include <gtest/gtest.h>

#include <set>

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
