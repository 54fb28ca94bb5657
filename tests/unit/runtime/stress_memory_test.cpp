// Reads, writes and allocation under pressure: nothing is lost, torn or handed out twice.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "base/random.hpp"
#include "support/seed.hpp"
#include "unit/runtime/workers.hpp"

namespace atoll::test {
namespace {

Consistency any_consistency(base::Random& random) {
  constexpr Consistency kAll[] = {Consistency::kDefault, Consistency::kPso, Consistency::kTso, Consistency::kSc};
  return kAll[random.below(4)];
}

/// Workers own byte ranges that meet in the middle of lines, so that every line is written by several nodes.
TEST(StressMemory, RangesOfAllSizesMatchTheirShadows) {
  LocalCluster cluster(2);
  constexpr std::size_t kChunk = 1000, kChunks = 48, kWorkers = 4;
  const GlobalAddress base = cluster[0].allocate(kChunk * kChunks).value();
  const std::uint64_t seed = fresh_seed();
  SCOPED_TRACE(repeat_with(seed));
  in_workers(cluster, 2, [&](Node& node, int worker) {
    base::Random random(seed + std::uint64_t(worker));
    std::vector<std::byte> shadow(kChunk * kChunks), buffer(kChunk);
    for (int i = 0; i < scaled(3000); ++i) {
      const std::size_t chunk = random.below(kChunks / kWorkers) * kWorkers + std::size_t(worker);
      const std::size_t from = random.below(kChunk);
      const std::size_t size = 1 + random.below(std::min<std::size_t>(kChunk - from, random.chance(0.5) ? 16 : kChunk));
      const std::size_t at = chunk * kChunk + from;
      if (random.chance(0.5)) {
        for (std::size_t b = 0; b < size; ++b) shadow[at + b] = std::byte(random.next());
        const Status wrote = node.write(base + std::int64_t(at), {shadow.data() + at, size}, any_consistency(random));
        ASSERT_TRUE(wrote.ok()) << wrote.to_string();
      } else {
        ASSERT_TRUE(node.read(base + std::int64_t(at), {buffer.data(), size}).ok());
        ASSERT_TRUE(std::equal(buffer.begin(), buffer.begin() + std::ptrdiff_t(size), shadow.data() + at))
            << "worker " << worker << " step " << i << " at " << at << " size " << size;
      }
    }
    ASSERT_TRUE(node.fence().ok());
  });
}

/// 1000 lines through a cache of 64, nearly all of them dirty when they are thrown out.
TEST(StressMemory, EvictionOfDirtyLinesLosesNothing) {
  LocalCluster cluster(3);
  const auto lines = lines_on_all(cluster, 1000);
  const std::uint64_t seed = fresh_seed();
  SCOPED_TRACE(repeat_with(seed));
  constexpr int kWrites = scaled(8000);
  std::vector<std::vector<std::uint64_t>> last(6, std::vector<std::uint64_t>(lines.size(), 0));
  in_workers(cluster, 2, [&](Node& node, int worker) {
    base::Random random(seed + std::uint64_t(worker));
    auto& mine = last[std::size_t(worker)];
    for (int i = 1; i <= kWrites; ++i) {
      const auto line = random.below(lines.size());
      const auto word = lines[line] + worker;
      if (random.chance(0.2)) {
        ASSERT_EQ(node.read(word).value(), mine[line]);
      }
      mine[line] = std::uint64_t(i);
      ASSERT_TRUE(node.write(word, mine[line]).ok());
    }
    ASSERT_TRUE(node.fence().ok());
  });
  for (int worker = 0; worker < 6; ++worker) {
    for (std::size_t line = 0; line < lines.size(); ++line) {
      ASSERT_EQ(cluster[NodeId(line % 3)].read(lines[line] + worker).value(), last[std::size_t(worker)][line]);
    }
  }
  EXPECT_GT(cluster[0].stats().evictions_dirty, 0u);
}

struct Block {
  GlobalAddress at;
  std::uint64_t bytes;
  std::uint64_t pattern;
};

void fill(Node& node, const Block& block) {
  base::Random random(block.pattern);
  std::vector<std::byte> bytes(block.bytes);
  for (auto& byte : bytes) byte = std::byte(random.next());
  ASSERT_TRUE(node.write(block.at, bytes).ok());
}

bool holds_pattern(Node& node, const Block& block) {
  base::Random random(block.pattern);
  std::vector<std::byte> bytes(block.bytes);
  if (!node.read(block.at, bytes).ok()) return false;
  return std::all_of(bytes.begin(), bytes.end(), [&](std::byte byte) { return byte == std::byte(random.next()); });
}

TEST(StressMemory, BlocksOfAllNodesKeepTheirContents) {
  LocalCluster cluster(3);
  const std::uint64_t seed = fresh_seed();
  SCOPED_TRACE(repeat_with(seed));
  std::vector<std::uint64_t> free_before;
  for (NodeId id = 0; id < 3; ++id) free_before.push_back(cluster[id].stats().memory_free_bytes);
  std::mutex mutex;
  std::vector<Block> pool;  // allocated by one, checked and freed by another
  in_workers(cluster, 2, [&](Node& node, int worker) {
    base::Random random(seed + std::uint64_t(worker));
    for (int i = 0; i < scaled(700); ++i) {
      Block taken{};
      {
        std::lock_guard lock(mutex);
        if (!pool.empty() && random.chance(0.5)) {
          std::swap(pool[random.below(pool.size())], pool.back());
          taken = pool.back();
          pool.pop_back();
        }
      }
      if (taken.at) {
        ASSERT_TRUE(holds_pattern(node, taken)) << taken.at.to_string();
        ASSERT_TRUE(node.free(taken.at).ok());
        continue;
      }
      const std::uint64_t bytes = 1 + random.below(random.chance(0.1) ? 60'000 : 700);
      const Placement places[] = {Placement::any(), Placement::local(), Placement::remote(),
                                  Placement::on(NodeId(random.below(3)))};
      const auto at = node.allocate(bytes, places[random.below(4)]);
      ASSERT_TRUE(at.ok()) << at.status().to_string();
      std::vector<std::byte> content(bytes);
      ASSERT_TRUE(node.read(*at, content).ok());
      ASSERT_TRUE(std::all_of(content.begin(), content.end(), [](std::byte b) { return b == std::byte(0); }));
      const Block made{*at, bytes, random.next()};
      fill(node, made);
      ASSERT_TRUE(node.fence().ok());
      std::lock_guard lock(mutex);
      pool.push_back(made);
    }
  });
  for (const Block& block : pool) {
    EXPECT_TRUE(holds_pattern(cluster[1], block));
    EXPECT_TRUE(cluster[1].free(block.at).ok());
  }
  for (NodeId id = 0; id < 3; ++id) EXPECT_EQ(cluster[id].stats().memory_free_bytes, free_before[id]) << "node " << id;
}

/// What is free on the others changes while a node puts them in order.
TEST(StressMemory, ManyNodesAllocateAtOnce) {
  LocalCluster cluster(6);
  in_workers(cluster, 1, [&](Node& node, int worker) {
    for (int i = 0; i < scaled(20000); ++i) {
      const Placement where = i % 8 == 0 ? Placement::remote() : Placement::any();
      const auto block = node.allocate(64 + 64 * std::uint64_t(worker), where.uninitialized());
      ASSERT_TRUE(block.ok()) << block.status().to_string();
      ASSERT_EQ(block->node() == node.id(), i % 8 != 0);
      ASSERT_TRUE(node.free(*block).ok());
    }
  });
}

TEST(StressMemory, AtomicFunctionsAreAloneInTheLine) {
  LocalCluster cluster(3);
  struct Tally {
    std::uint64_t count, sum, both[6];
  };
  for (NodeId id = 0; id < 3; ++id) {
    const Status registered =
        cluster[id].register_atomic("tally", [](std::span<std::byte> at, std::span<const std::byte> args) {
          auto& tally = *reinterpret_cast<Tally*>(at.data());
          std::uint64_t amount = 0;
          std::memcpy(&amount, args.data(), sizeof(amount));
          tally.count += 1;
          tally.sum += amount;
          for (auto& word : tally.both) word = tally.sum;
        });
    ASSERT_TRUE(registered.ok());
  }
  const auto tally = cluster[1].allocate<Tally>().value();
  const std::uint64_t seed = fresh_seed();
  SCOPED_TRACE(repeat_with(seed));
  std::atomic<std::uint64_t> calls{0}, sum{0};
  std::atomic<int> torn{0};
  in_workers(cluster, 2, [&](Node& node, int worker) {
    base::Random random(seed + std::uint64_t(worker));
    for (int i = 0; i < scaled(1500); ++i) {
      if (random.chance(0.3)) {
        const Tally seen = node.read(tally).value();
        torn += std::any_of(std::begin(seen.both), std::end(seen.both), [&](auto word) { return word != seen.sum; });
        continue;
      }
      const std::uint64_t amount = random.below(100);
      ASSERT_TRUE(node.atomic(tally.address(), sizeof(Tally), "tally", std::as_bytes(std::span(&amount, 1))).ok());
      ++calls;
      sum += amount;
    }
  });
  EXPECT_EQ(torn.load(), 0);
  EXPECT_EQ(cluster[2].read(tally).value().count, calls.load());
  EXPECT_EQ(cluster[2].read(tally).value().sum, sum.load());
}

/// Message passing: what was written before the fence is there for who has seen the flag.
TEST(StressMemory, WriteStormsAreOrderedByTheFence) {
  Options options = LocalCluster::small_options();
  options.outstanding_writes = 16;  // so that writers run into the bound
  LocalCluster cluster(3, options);
  const auto data = lines_on_all(cluster, 40);
  const auto flags = lines_on_all(cluster, 3);
  constexpr int kRounds = scaled(300);
  std::atomic<int> stale{0};
  in_workers(cluster, 2, [&](Node& node, int worker) {
    const auto writer = std::size_t(node.id());
    if (worker < 3) {
      for (std::uint64_t round = 1; round <= std::uint64_t(kRounds); ++round) {
        for (const auto line : data) ASSERT_TRUE(node.write(line + std::int64_t(writer), round).ok());
        ASSERT_TRUE(node.fence().ok());
        ASSERT_TRUE(node.write(flags[writer], round).ok());
      }
      ASSERT_TRUE(node.fence().ok());
      return;
    }
    const std::size_t watched = (writer + 1) % 3;
    base::Random random{std::uint64_t(worker)};
    for (std::uint64_t seen = 0; seen < std::uint64_t(kRounds);) {
      seen = node.read(flags[watched]).value();
      const auto line = data[random.below(data.size())];
      stale += node.read(line + std::int64_t(watched)).value() < seen;
    }
  });
  EXPECT_EQ(stale.load(), 0);
}

/// Slots change hands all the time, and readers are not waited for: what they read while a line goes must not be
/// believed.
TEST(StressMemory, ReadersNeverSeeAnotherLinesBytes) {
  Options options = LocalCluster::small_options();
  options.cache_bytes = 64 * options.line_bytes;
  LocalCluster cluster(2, options);
  const std::int64_t words = options.line_bytes / 8;
  constexpr std::uint64_t kLines = 96;  // half as many again as fit
  const auto first = cluster[1].allocate<std::uint64_t>(kLines * std::uint64_t(words), Placement::local()).value();
  for (std::int64_t i = 0; i < std::int64_t(kLines) * words; ++i) {
    ASSERT_TRUE(cluster[1].write(first + i, (first + i).address().bits()).ok());
  }
  const std::uint64_t seed = fresh_seed();
  SCOPED_TRACE(repeat_with(seed));
  std::atomic<int> wrong{0};
  in_workers(cluster, 3, [&](Node&, int worker) {
    base::Random random(seed + std::uint64_t(worker));
    std::vector<std::uint64_t> line(std::size_t(words), 0);
    for (int i = 0; i < scaled(20000); ++i) {
      const auto at = first + std::int64_t(random.below(kLines)) * words;
      for (int k = 0; k < 8; ++k) {
        const auto word = at + std::int64_t(random.below(std::uint64_t(words)));
        wrong += cluster[0].read(word).value() != word.address().bits();
      }
      ASSERT_TRUE(cluster[0].read(at.address(), std::as_writable_bytes(std::span(line))).ok());
      for (std::int64_t k = 0; k < words; ++k) wrong += line[std::size_t(k)] != (at + k).address().bits();
    }
  });
  EXPECT_EQ(wrong.load(), 0);
}

TEST(StressMemory, WordsOfAllWidthsAddUp) {
  LocalCluster cluster(3);
  const GlobalAddress line = cluster[2].allocate(512, Placement::local()).value();
  const global_ptr<std::uint8_t> one(line);
  const global_ptr<std::uint16_t> two(line + 2);
  const global_ptr<std::uint32_t> four(line + 4);
  const global_ptr<std::uint64_t> eight(line + 8), slot(line + 16);
  std::atomic<std::uint64_t> swapped_in{0}, swapped_out{0};
  constexpr int kRounds = scaled(2000);
  in_workers(cluster, 2, [&](Node& node, int worker) {
    for (int i = 0; i < kRounds; ++i) {
      ASSERT_TRUE(node.fetch_add(one, 1).ok());
      ASSERT_TRUE(node.fetch_add(two, 1).ok());
      std::uint32_t seen = node.read(four).value();
      for (std::uint32_t found; (found = node.compare_exchange(four, seen, seen + 1).value()) != seen;) seen = found;
      ASSERT_TRUE(node.fetch_add(eight, std::uint64_t(worker)).ok());
      const std::uint64_t token = std::uint64_t(worker) * 1'000'000 + std::uint64_t(i) + 1;
      swapped_in += token;
      swapped_out += node.exchange(slot, token).value();
    }
  });
  constexpr std::uint64_t kAll = 6 * kRounds;
  EXPECT_EQ(cluster[0].read(one).value(), std::uint8_t(kAll));
  EXPECT_EQ(cluster[0].read(two).value(), std::uint16_t(kAll));
  EXPECT_EQ(cluster[0].read(four).value(), std::uint32_t(kAll));
  EXPECT_EQ(cluster[0].read(eight).value(), std::uint64_t(15) * kRounds);
  EXPECT_EQ(cluster[0].read(slot).value() + swapped_out.load(), swapped_in.load());
}

}  // namespace
}  // namespace atoll::test
