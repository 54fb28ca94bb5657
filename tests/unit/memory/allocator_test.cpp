// The home-side allocator against a shadow map that knows every live block.
#include "memory/allocator.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace atoll::memory {
namespace {

constexpr std::uint64_t kKiB = 1024;
constexpr std::uint64_t kMiB = 1024 * kKiB;
constexpr std::uint64_t kGrain = 16;

/// ATOLL_TEST_SEED=n reruns the random tests with one's own seed.
std::uint64_t seed_or(std::uint64_t fallback) {
  const char* text = std::getenv("ATOLL_TEST_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : fallback;
}

/// An allocator whose every answer is checked: no overlap, alignment, lines, size, accounting, freshness.
class Shadowed {
 public:
  struct Live {
    std::uint64_t bytes;   // asked for
    std::uint64_t usable;  // given
  };

  Shadowed(std::uint64_t memory_bytes, std::uint32_t line_bytes, bool check_fresh = true)
      : memory_bytes_(memory_bytes), line_bytes_(line_bytes), allocator_(memory_bytes, line_bytes) {
    if (check_fresh) ever_.resize(memory_bytes / kGrain + 1);
  }

  /// The offset, or 0 when there was no memory for it.
  std::uint64_t allocate(std::uint64_t bytes) {
    const std::uint64_t largest = allocator_.largest_free_bytes();
    const Result<Allocator::Block> got = allocator_.allocate(bytes);
    if (!got.ok()) {
      EXPECT_EQ(got.status().code(), Errc::kOutOfMemory);
      EXPECT_STRNE(got.status().what(), "");
      EXPECT_GT(bytes, largest) << "refused what largest_free_bytes promised";
      return 0;
    }
    EXPECT_LE(bytes, largest) << "largest_free_bytes was too small";
    const std::uint64_t usable = allocator_.size_of(got->offset).value_or(0);
    check_place(got->offset, bytes, usable);
    check_overlap(got->offset, usable);
    check_fresh(got->offset, usable, got->fresh);
    live_.emplace(got->offset, Live{bytes, usable});
    used_ += usable;
    asked_ += bytes;
    check_counts();
    return got->offset;
  }

  void free(std::uint64_t offset) {
    const auto it = live_.find(offset);
    ASSERT_NE(it, live_.end());
    EXPECT_TRUE(allocator_.free(offset).ok());
    used_ -= it->second.usable;
    asked_ -= it->second.bytes;
    live_.erase(it);
    EXPECT_EQ(allocator_.free(offset).code(), Errc::kNotAllocated) << "a second free of " << offset;
    check_counts();
  }

  void free_all() {
    while (!live_.empty()) free(live_.begin()->first);
    expect_pristine();
  }

  /// Nothing is allocated, and the page pool is one run again.
  void expect_pristine() const {
    const std::uint64_t capacity = memory_bytes_ - Allocator::kReservedBytes;
    EXPECT_EQ(allocator_.used_bytes(), 0u);
    EXPECT_EQ(allocator_.free_bytes(), capacity);
    EXPECT_EQ(allocator_.largest_free_bytes(), capacity);
  }

  [[nodiscard]] Allocator& allocator() { return allocator_; }
  [[nodiscard]] const std::map<std::uint64_t, Live>& live() const { return live_; }
  [[nodiscard]] std::uint64_t asked() const { return asked_; }
  [[nodiscard]] std::uint64_t fresh_blocks() const { return fresh_blocks_; }

 private:
  void check_place(std::uint64_t offset, std::uint64_t bytes, std::uint64_t usable) const {
    EXPECT_GE(usable, bytes);
    EXPECT_GE(offset, Allocator::kReservedBytes);
    EXPECT_LE(offset + usable, memory_bytes_);
    const std::uint64_t alignment = std::min<std::uint64_t>(4096, usable & (~usable + 1));
    EXPECT_GE(alignment, kGrain);
    EXPECT_EQ(offset % alignment, 0u) << "offset " << offset << ", usable " << usable;
    if (usable <= line_bytes_) {
      EXPECT_EQ(offset / line_bytes_, (offset + usable - 1) / line_bytes_) << offset << "+" << usable << " straddles";
    }
    if (usable >= line_bytes_) {
      EXPECT_EQ(offset % line_bytes_, 0u);
      EXPECT_EQ(usable % line_bytes_, 0u);
    }
    if (bytes <= line_bytes_) {
      EXPECT_EQ(offset / line_bytes_, (offset + bytes - 1) / line_bytes_);
    }
  }

  void check_overlap(std::uint64_t offset, std::uint64_t usable) const {
    const auto next = live_.lower_bound(offset);
    if (next != live_.end()) {
      EXPECT_LE(offset + usable, next->first);
    }
    if (next != live_.begin()) {
      const auto previous = std::prev(next);
      EXPECT_LE(previous->first + previous->second.usable, offset);
    }
  }

  void check_fresh(std::uint64_t offset, std::uint64_t usable, bool fresh) {
    fresh_blocks_ += fresh ? 1 : 0;
    if (ever_.empty()) return;
    for (std::uint64_t i = offset / kGrain; i < (offset + usable) / kGrain; ++i) {
      ASSERT_FALSE(fresh && ever_[i]) << "called fresh, but handed out before: " << i * kGrain;
      ever_[i] = true;
    }
  }

  void check_counts() const {
    EXPECT_EQ(allocator_.used_bytes(), used_);
    EXPECT_LE(allocator_.used_bytes() + allocator_.free_bytes(), memory_bytes_ - Allocator::kReservedBytes);
  }

  std::uint64_t memory_bytes_;
  std::uint32_t line_bytes_;
  Allocator allocator_;
  std::map<std::uint64_t, Live> live_;
  std::vector<bool> ever_;  // per 16 bytes: handed out before; empty: not checked
  std::uint64_t used_ = 0;
  std::uint64_t asked_ = 0;
  std::uint64_t fresh_blocks_ = 0;
};

/// Sizes whose logarithm is uniform, from 1 to `max`.
class LogUniform {
 public:
  explicit LogUniform(std::uint64_t max) : exponent_(0.0, std::log2(double(max))) {}
  template <typename Random>
  std::uint64_t operator()(Random& random) {
    return std::uint64_t(std::exp2(exponent_(random)));
  }

 private:
  std::uniform_real_distribution<double> exponent_;
};

class AllocatorLines : public testing::TestWithParam<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Lines, AllocatorLines, testing::Values(64, 128, 256, 512, 1024, 2048, 4096),
                         testing::PrintToStringParamName());

// ---- errors ----

TEST(Allocator, RefusesImpossibleSetUp) {
  for (const std::uint32_t line : {0u, 1u, 32u, 63u, 65u, 96u, 513u, 8192u}) {
    EXPECT_THROW(Allocator(kMiB, line), Error) << line;
  }
  EXPECT_THROW(Allocator(std::uint64_t{1} << 45, 512), Error);
  EXPECT_NO_THROW(Allocator(kMiB, 512));
}

TEST(Allocator, ZeroBytesIsInvalid) {
  Allocator allocator(kMiB, 512);
  EXPECT_EQ(allocator.allocate(0).status().code(), Errc::kInvalidArgument);
}

TEST(Allocator, TooLargeIsOutOfMemory) {
  Allocator allocator(kMiB, 512);
  for (const std::uint64_t bytes :
       {kMiB - 4095, kMiB, kMiB + 1, std::uint64_t{1} << 50, UINT64_MAX - 4094, UINT64_MAX}) {
    const auto got = allocator.allocate(bytes);
    EXPECT_EQ(got.status().code(), Errc::kOutOfMemory) << bytes;
    EXPECT_STRNE(got.status().what(), "");
  }
  EXPECT_EQ(allocator.used_bytes(), 0u);
}

TEST(Allocator, FreeOfWhatIsNotAllocated) {
  Allocator allocator(kMiB, 512);
  const std::uint64_t slot = allocator.allocate(48)->offset;
  const std::uint64_t slotted_lines = allocator.allocate(1024)->offset;
  const std::uint64_t run = allocator.allocate(100 * kKiB)->offset;
  const std::uint64_t used = allocator.used_bytes();
  for (const std::uint64_t offset :
       {std::uint64_t{0}, std::uint64_t{16}, slot + 1, slot + 16, slot + 48, slotted_lines + 512, slotted_lines + 1024,
        run + 1, run + 4096, run + 99 * kKiB, run + 100 * kKiB, kMiB - 4096, kMiB, kMiB + 4096, std::uint64_t{1} << 44,
        std::uint64_t{1} << 56, UINT64_MAX}) {
    EXPECT_EQ(allocator.free(offset).code(), Errc::kNotAllocated) << offset;
    EXPECT_EQ(allocator.size_of(offset).status().code(), Errc::kNotAllocated) << offset;
  }
  EXPECT_EQ(allocator.used_bytes(), used);
  for (const std::uint64_t offset : {slot, slotted_lines, run}) {
    EXPECT_TRUE(allocator.free(offset).ok());
    EXPECT_EQ(allocator.free(offset).code(), Errc::kNotAllocated) << "freed twice: " << offset;
    EXPECT_EQ(allocator.size_of(offset).status().code(), Errc::kNotAllocated);
  }
  EXPECT_EQ(allocator.used_bytes(), 0u);
}

TEST_P(AllocatorLines, NoOffsetButTheBlocksOwnIsAllocated) {
  Shadowed shadowed(256 * kKiB, GetParam());
  for (const std::uint64_t bytes : {1ull, 40ull, 48ull, 100ull, 1300ull, 5000ull, 20000ull, 40000ull, 17ull}) {
    ASSERT_NE(shadowed.allocate(bytes), 0u);
  }
  shadowed.free(shadowed.live().begin()->first);
  for (std::uint64_t offset = 0; offset <= 257 * kKiB; ++offset) {
    const auto it = shadowed.live().find(offset);
    const auto size = shadowed.allocator().size_of(offset);
    ASSERT_EQ(size.ok(), it != shadowed.live().end()) << offset;
    if (size.ok()) {
      ASSERT_EQ(*size, it->second.usable);
    } else {
      ASSERT_EQ(shadowed.allocator().free(offset).code(), Errc::kNotAllocated) << offset;
    }
  }
  shadowed.free_all();
}

// ---- sizes, alignment, lines ----

TEST_P(AllocatorLines, EverySmallSizeIsPlacedWell) {
  Shadowed shadowed(2 * kMiB, GetParam());
  for (std::uint64_t bytes = 1; bytes <= 34 * kKiB; ++bytes) {
    const std::uint64_t first = shadowed.allocate(bytes);
    const std::uint64_t second = shadowed.allocate(bytes);
    ASSERT_NE(first, 0u);
    ASSERT_NE(second, 0u);
    shadowed.free(first);
    shadowed.free(second);
  }
  shadowed.free_all();
}

TEST_P(AllocatorLines, WasteIsBounded) {
  const std::uint64_t line = GetParam();
  Allocator allocator(8 * kMiB, GetParam());
  for (std::uint64_t bytes = 1; bytes <= 128 * kKiB; bytes += bytes < 4 * kKiB ? 1 : 61) {
    const auto block = allocator.allocate(bytes);
    ASSERT_TRUE(block.ok());
    const std::uint64_t usable = *allocator.size_of(block->offset);
    if (bytes <= line) {
      // As many to a line as can be: one more would not fit.
      const std::uint64_t per_line = line / ((bytes + kGrain - 1) / kGrain * kGrain);
      EXPECT_EQ(line / usable, per_line) << bytes;
    } else {
      const std::uint64_t unit = std::max<std::uint64_t>(line, bytes > 32 * kKiB ? 4 * kKiB : kGrain);
      const std::uint64_t least = (bytes + unit - 1) / unit * unit;
      EXPECT_LE(double(usable - least), 0.25 * double(bytes)) << bytes;
    }
    ASSERT_TRUE(allocator.free(block->offset).ok());
  }
}

TEST(Allocator, SlotsSkipTheTailOfALine) {
  Shadowed shadowed(4 * kMiB, 512);
  std::map<std::uint64_t, int> per_line;
  for (int i = 0; i < 100; ++i) ++per_line[shadowed.allocate(48) / 512];
  EXPECT_EQ(per_line.size(), 10u);
  for (const auto& [line, slots] : per_line) EXPECT_EQ(slots, 10) << line;
  shadowed.free_all();
}

TEST(Allocator, PowersOfTwoAreNaturallyAligned) {
  for (const std::uint32_t line : {64u, 512u, 4096u}) {
    Shadowed shadowed(4 * kMiB, line);
    (void)shadowed.allocate(1);
    for (std::uint64_t bytes = 16; bytes <= kMiB; bytes *= 2) {
      const std::uint64_t offset = shadowed.allocate(bytes);
      ASSERT_NE(offset, 0u);
      EXPECT_EQ(offset % std::min<std::uint64_t>(bytes, 4096), 0u);
      EXPECT_EQ(*shadowed.allocator().size_of(offset), bytes);
    }
    shadowed.free_all();
  }
}

// ---- small memories, exhaustion ----

TEST_P(AllocatorLines, WholeMemoryInOneBlock) {
  for (const std::uint64_t memory : {8 * kKiB, 64 * kKiB, kMiB, 64 * kMiB}) {
    Shadowed shadowed(memory, GetParam());
    shadowed.expect_pristine();
    EXPECT_EQ(shadowed.allocate(memory - 4096 + 1), 0u);
    EXPECT_EQ(shadowed.allocate(memory - 4096), 4096u);
    EXPECT_EQ(shadowed.allocator().free_bytes(), 0u);
    EXPECT_EQ(shadowed.allocator().largest_free_bytes(), 0u);
    EXPECT_EQ(shadowed.allocate(1), 0u);
    shadowed.free_all();
    EXPECT_EQ(shadowed.allocate(memory - 4096), 4096u);
    shadowed.free_all();
  }
}

TEST_P(AllocatorLines, ExhaustionThenRecovery) {
  for (const std::uint64_t memory : {8 * kKiB, 64 * kKiB, kMiB}) {
    for (const std::uint64_t bytes : {1ull, 24ull, 100ull, 512ull, 3000ull, 4096ull, 5000ull, 9000ull, 33000ull}) {
      Shadowed shadowed(memory, GetParam());
      std::size_t first_count = 0;
      for (int round = 0; round < 2; ++round) {
        while (shadowed.allocate(bytes) != 0) {
        }
        EXPECT_LT(shadowed.allocator().largest_free_bytes(), bytes);
        if (round == 0) first_count = shadowed.live().size();
        EXPECT_EQ(shadowed.live().size(), first_count);
        // One block given back is one block to have again.
        if (!shadowed.live().empty()) {
          shadowed.free(std::next(shadowed.live().begin(), std::ptrdiff_t(first_count / 2))->first);
          EXPECT_NE(shadowed.allocate(bytes), 0u);
          EXPECT_EQ(shadowed.allocate(bytes), 0u);
        }
        shadowed.free_all();
      }
      EXPECT_EQ(first_count > 0, bytes <= memory - 4096) << memory << " " << bytes;
    }
  }
}

TEST(Allocator, SmallBlocksFillTheMemory) {
  Shadowed shadowed(kMiB, 512);
  while (shadowed.allocate(16) != 0) {
  }
  EXPECT_EQ(shadowed.live().size(), (kMiB - 4096) / 16);
  EXPECT_EQ(shadowed.allocator().free_bytes(), 0u);
  shadowed.free_all();
}

TEST(Allocator, ALargerSlotServesWhenThePagesAreOut) {
  Shadowed shadowed(64 * kKiB, 512);
  ASSERT_NE(shadowed.allocate(256), 0u);
  while (shadowed.allocate(4096) != 0) {
  }
  const std::uint64_t offset = shadowed.allocate(16);
  ASSERT_NE(offset, 0u);
  EXPECT_EQ(*shadowed.allocator().size_of(offset), 256u);
  shadowed.free_all();
}

TEST(Allocator, NoMemoryAtAll) {
  for (const std::uint64_t memory : {0ull, 100ull, 4096ull, 8191ull}) {
    Allocator allocator(memory, 64);
    EXPECT_EQ(allocator.allocate(1).status().code(), Errc::kOutOfMemory);
    EXPECT_EQ(allocator.allocate(100 * kKiB).status().code(), Errc::kOutOfMemory);
    EXPECT_EQ(allocator.free(0).code(), Errc::kNotAllocated);
    EXPECT_EQ(allocator.free(4096).code(), Errc::kNotAllocated);
    EXPECT_EQ(allocator.free_bytes(), 0u);
    EXPECT_EQ(allocator.largest_free_bytes(), 0u);
  }
}

TEST(Allocator, APartialPageAtTheEndIsNotUsed) {
  Allocator allocator(3 * 4096 + 4095, 512);
  EXPECT_EQ(allocator.free_bytes(), 2 * 4096u);
  EXPECT_EQ(allocator.allocate(2 * 4096 + 1).status().code(), Errc::kOutOfMemory);
  EXPECT_TRUE(allocator.allocate(2 * 4096).ok());
}

TEST(Allocator, AHugeMemoryCostsNothingBeforeItIsUsed) {
  constexpr std::uint64_t kHuge = std::uint64_t{64} << 30;
  Allocator allocator(kHuge, 512);
  const auto most = allocator.allocate(kHuge - 8192);
  ASSERT_TRUE(most.ok());
  EXPECT_TRUE(most->fresh);
  const auto last = allocator.allocate(4096);
  ASSERT_TRUE(last.ok());
  EXPECT_EQ(last->offset, kHuge - 4096);
  EXPECT_TRUE(allocator.free(last->offset).ok());
  EXPECT_TRUE(allocator.free(most->offset).ok());
  EXPECT_EQ(allocator.largest_free_bytes(), kHuge - 4096);
}

// ---- the page pool ----

TEST(Allocator, BestFitTakesTheTightestHole) {
  Allocator allocator(8 * kMiB, 512);
  std::vector<std::uint64_t> holes;
  for (const std::uint64_t pages : {40u, 20u, 10u, 30u}) {
    holes.push_back(allocator.allocate(pages * 4096)->offset);
    ASSERT_TRUE(allocator.allocate(9 * 4096).ok());  // keeps the holes apart
  }
  for (const std::uint64_t hole : holes) ASSERT_TRUE(allocator.free(hole).ok());
  EXPECT_EQ(allocator.allocate(20 * 4096)->offset, holes[1]);
  EXPECT_EQ(allocator.allocate(25 * 4096)->offset, holes[3]);
  EXPECT_EQ(allocator.allocate(9 * 4096)->offset, holes[2]);
  EXPECT_EQ(allocator.allocate(31 * 4096)->offset, holes[0]);
}

TEST(Allocator, NeighboursJoinInEveryOrder) {
  std::vector<int> order{0, 1, 2, 3, 4};
  do {
    Shadowed shadowed(kMiB, 512, false);
    std::vector<std::uint64_t> blocks;
    for (int i = 0; i < 5; ++i) blocks.push_back(shadowed.allocate(40 * kKiB));
    for (const int i : order) shadowed.free(blocks[std::size_t(i)]);
    shadowed.expect_pristine();
  } while (std::next_permutation(order.begin(), order.end()) && !testing::Test::HasFailure());
}

TEST(Allocator, AnEmptySpanReturnsToThePool) {
  Shadowed shadowed(8 * kMiB, 512);
  const std::uint64_t one = shadowed.allocate(64);
  EXPECT_LT(shadowed.allocator().largest_free_bytes(), 8 * kMiB - 4096);
  shadowed.free(one);
  shadowed.expect_pristine();
}

// ---- fresh ----

TEST_P(AllocatorLines, TheFirstUseOfEveryByteIsFresh) {
  for (const std::uint64_t bytes : {16ull, 48ull, 700ull, 5000ull, 20000ull, 50000ull}) {
    Allocator allocator(kMiB, GetParam());
    std::vector<std::uint64_t> blocks;
    for (auto got = allocator.allocate(bytes); got.ok(); got = allocator.allocate(bytes)) {
      EXPECT_TRUE(got->fresh) << bytes;
      blocks.push_back(got->offset);
    }
    ASSERT_FALSE(blocks.empty());
    // Again without and with the spans' having died between.
    ASSERT_TRUE(allocator.free(blocks.back()).ok());
    EXPECT_FALSE(allocator.allocate(bytes)->fresh);
    for (const std::uint64_t block : blocks) ASSERT_TRUE(allocator.free(block).ok());
    for (std::size_t i = 0; i < blocks.size(); ++i) EXPECT_FALSE(allocator.allocate(bytes)->fresh) << bytes;
  }
}

TEST(Allocator, PagesThatASpanNeverUsedStayFresh) {
  Allocator allocator(8 * kMiB, 512);
  ASSERT_TRUE(allocator.free(allocator.allocate(64)->offset).ok());
  const auto again = allocator.allocate(64);  // the same page
  EXPECT_FALSE(again->fresh);
  ASSERT_TRUE(allocator.free(again->offset).ok());
  const auto run = allocator.allocate(9 * 4096);
  EXPECT_EQ(run->offset, 4096u);
  EXPECT_FALSE(run->fresh);  // one page of it was used
  ASSERT_TRUE(allocator.free(run->offset).ok());
  ASSERT_TRUE(allocator.allocate(9 * 4096).ok());
  EXPECT_TRUE(allocator.allocate(9 * 4096)->fresh);  // the pages behind it never were
}

TEST_P(AllocatorLines, FreshIsNeverSaidOfUsedBytes) {
  const std::uint64_t seed = seed_or(11);
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  LogUniform size(64 * kKiB);
  Shadowed shadowed(4 * kMiB, GetParam());
  std::vector<std::uint64_t> blocks;
  for (int i = 0; i < 30'000 && !testing::Test::HasFailure(); ++i) {
    if (shadowed.asked() < 2 * kMiB && random() % 3 != 0) {
      if (const std::uint64_t offset = shadowed.allocate(size(random)); offset != 0) blocks.push_back(offset);
    } else if (!blocks.empty()) {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      shadowed.free(blocks.back());
      blocks.pop_back();
    }
  }
  EXPECT_GT(shadowed.fresh_blocks(), 0u);
  shadowed.free_all();
}

// ---- the long mix ----

struct Mix {
  std::uint64_t memory;
  std::uint32_t line;
};
class AllocatorMix : public testing::TestWithParam<Mix> {};
INSTANTIATE_TEST_SUITE_P(Mixes, AllocatorMix,
                         testing::Values(Mix{64 * kMiB, 512}, Mix{256 * kMiB, 512}, Mix{64 * kMiB, 64},
                                         Mix{64 * kMiB, 4096}),
                         [](const auto& mix) {
                           return std::to_string(mix.param.memory / kMiB) + "M_" + std::to_string(mix.param.line);
                         });

TEST_P(AllocatorMix, AMillionOperationsNeverFail) {
  const std::uint64_t seed = seed_or(GetParam().memory / kMiB + GetParam().line);
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  LogUniform size(kMiB);
  Shadowed shadowed(GetParam().memory, GetParam().line, false);
  const std::uint64_t target = GetParam().memory / 10 * 6;
  std::vector<std::uint64_t> blocks;
  for (int i = 0; i < 1'000'000; ++i) {
    // About the target, up and down at random, so that neither order nor number of the frees is regular.
    const bool surprise = random() % 8 == 0;
    const bool grow = shadowed.asked() < target ? !surprise : surprise && shadowed.asked() < target + kMiB;
    if (grow || blocks.empty()) {
      const std::uint64_t bytes = size(random);
      blocks.push_back(shadowed.allocate(bytes));
      ASSERT_NE(blocks.back(), 0u) << "operation " << i << ", " << bytes << " bytes, " << shadowed.asked()
                                   << " live, largest " << shadowed.allocator().largest_free_bytes();
    } else {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      shadowed.free(blocks.back());
      blocks.pop_back();
    }
    if (testing::Test::HasFailure()) return;
  }
  shadowed.free_all();
}

TEST_P(AllocatorLines, ATightMemoryUnderRandomLoadStaysSound) {
  for (const std::uint64_t memory : {8 * kKiB, 64 * kKiB, kMiB}) {
    const std::uint64_t seed = seed_or(memory + GetParam());
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    LogUniform size(memory);
    Shadowed shadowed(memory, GetParam());
    std::vector<std::uint64_t> blocks;
    std::uint64_t refused = 0;
    for (int i = 0; i < 20'000 && !testing::Test::HasFailure(); ++i) {
      if (blocks.empty() || random() % 8 < 5) {
        const std::uint64_t offset = shadowed.allocate(size(random));
        if (offset != 0) blocks.push_back(offset);
        refused += offset == 0 ? 1 : 0;
      }
      if (!blocks.empty() && random() % 2 == 0) {
        std::swap(blocks[random() % blocks.size()], blocks.back());
        shadowed.free(blocks.back());
        blocks.pop_back();
      }
      // Nonsense must neither succeed nor change anything.
      const std::uint64_t nonsense = random() % (memory + 8192);
      if (!shadowed.live().contains(nonsense)) {
        EXPECT_EQ(shadowed.allocator().free(nonsense).code(), Errc::kNotAllocated);
      }
    }
    EXPECT_GT(refused, 0u) << "the memory was never full: the test tests nothing";
    shadowed.free_all();
  }
}

}  // namespace
}  // namespace atoll::memory
