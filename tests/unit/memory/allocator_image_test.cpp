// An allocator that was saved and loaded goes on exactly as the one that it was made from.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "memory/allocator.hpp"

namespace atoll::memory {
namespace {

constexpr std::uint64_t kMemory = 8ull << 20;

/// The same calls, chosen by the generator, on both; their answers must be the same.
void expect_same_future(Allocator& one, Allocator& other, std::vector<std::uint64_t> live, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (int i = 0; i < 2000; ++i) {
    if (!live.empty() && random() % 3 == 0) {
      const std::size_t at = random() % live.size();
      ASSERT_EQ(one.free(live[at]).code(), other.free(live[at]).code()) << "seed " << seed << ", call " << i;
      live[at] = live.back();
      live.pop_back();
      continue;
    }
    const std::uint64_t bytes = 1 + random() % (random() % 8 == 0 ? 100'000 : 600);
    const auto a = one.allocate(bytes), b = other.allocate(bytes);
    ASSERT_EQ(a.ok(), b.ok()) << "seed " << seed << ", call " << i;
    if (!a.ok()) continue;
    ASSERT_EQ(a->offset, b->offset) << "seed " << seed << ", call " << i;
    ASSERT_EQ(a->fresh, b->fresh) << "seed " << seed << ", call " << i;
    live.push_back(a->offset);
  }
  EXPECT_EQ(one.free_bytes(), other.free_bytes());
  EXPECT_EQ(one.used_bytes(), other.used_bytes());
  EXPECT_EQ(one.largest_free_bytes(), other.largest_free_bytes());
}

TEST(AllocatorImage, GoesOnAsTheOneThatWasSaved) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::mt19937_64 random(seed);
    Allocator one(kMemory, 512);
    std::vector<std::uint64_t> live;
    for (std::uint64_t i = 0; i < seed * 100; ++i) {
      const auto block = one.allocate(1 + random() % 5000);
      if (block.ok()) live.push_back(block->offset);
      if (live.size() > 3 && random() % 4 == 0) {
        ASSERT_TRUE(one.free(live.back()).ok());
        live.pop_back();
      }
    }
    Allocator other(kMemory, 512);
    (void)other.allocate(12345);  // what it knew before is forgotten
    ASSERT_TRUE(other.load(one.save()).ok());
    expect_same_future(one, other, live, seed);
  }
}

TEST(AllocatorImage, TakesNoPlaceForWhatWasNeverUsed) {
  const Allocator fresh(1ull << 35, 512);
  EXPECT_LT(fresh.save().size(), 64u << 10);
}

TEST(AllocatorImage, RefusesWhatItIsNot) {
  Allocator one(kMemory, 512);
  ASSERT_TRUE(one.allocate(100).ok());
  const std::vector<std::byte> saved = one.save();
  Allocator larger(2 * kMemory, 512), other_lines(kMemory, 1024), same(kMemory, 512);
  EXPECT_EQ(larger.load(saved).code(), Errc::kInvalidArgument);
  EXPECT_EQ(other_lines.load(saved).code(), Errc::kInvalidArgument);
  for (std::size_t bytes = 0; bytes < saved.size(); bytes += 7) {
    EXPECT_EQ(same.load(std::span(saved).first(bytes)).code(), Errc::kInvalidArgument) << bytes;
  }
  EXPECT_EQ(same.used_bytes(), 0u) << "a refused image has no effect";
  std::vector<std::byte> longer = saved;
  longer.push_back(std::byte{0});
  EXPECT_EQ(same.load(longer).code(), Errc::kInvalidArgument);
  EXPECT_TRUE(same.load(saved).ok());
  EXPECT_EQ(same.used_bytes(), one.used_bytes());
}

}  // namespace
}  // namespace atoll::memory
