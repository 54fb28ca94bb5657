// Locks under pressure: money is neither made nor lost, nobody is let in who should not be, and refusals leave no
// trace.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "base/random.hpp"
#include "support/seed.hpp"
#include "unit/runtime/workers.hpp"

namespace atoll::test {
namespace {

TEST(StressLocks, TransfersBetweenAccountsKeepTheTotal) {
  LocalCluster cluster(3);
  constexpr int kAccounts = 24;
  constexpr std::uint64_t kEach = 1000;
  auto accounts = lines_on_all(cluster, kAccounts);
  std::sort(accounts.begin(), accounts.end());  // locks are taken in the order of addresses
  for (const auto account : accounts) ASSERT_TRUE(cluster[0].write(account, kEach).ok());
  ASSERT_TRUE(cluster[0].fence().ok());
  const std::uint64_t seed = fresh_seed();
  SCOPED_TRACE(repeat_with(seed));
  std::atomic<int> wrong_totals{0};
  in_workers(cluster, 2, [&](Node& node, int worker) {
    base::Random random(seed + std::uint64_t(worker));
    for (int i = 0; i < scaled(1200); ++i) {
      if (random.chance(0.03)) {
        std::uint64_t total = 0;
        for (const auto account : accounts) ASSERT_TRUE(node.read_lock(account.address(), 8).ok());
        for (const auto account : accounts) total += node.read(account).value();
        for (const auto account : accounts) ASSERT_TRUE(node.unlock(account.address(), 8).ok());
        wrong_totals += total != kEach * kAccounts;
        continue;
      }
      auto from = random.below(kAccounts), to = random.below(kAccounts - 1);
      if (to >= from) ++to;
      const auto first = accounts[std::min(from, to)].address(), second = accounts[std::max(from, to)].address();
      ASSERT_TRUE(node.write_lock(first, 8).ok());
      ASSERT_TRUE(node.write_lock(second, 8).ok());
      const std::uint64_t has = node.read(accounts[from]).value();
      const std::uint64_t amount = std::min(has, random.below(50));
      ASSERT_TRUE(node.write(accounts[from], has - amount).ok());
      ASSERT_TRUE(node.write(accounts[to], node.read(accounts[to]).value() + amount).ok());
      const bool forwards = random.chance(0.5);
      ASSERT_TRUE(node.unlock(forwards ? first : second, 8).ok());
      ASSERT_TRUE(node.unlock(forwards ? second : first, 8).ok());
    }
  });
  EXPECT_EQ(wrong_totals.load(), 0);
  std::uint64_t total = 0;
  for (const auto account : accounts) total += cluster[1].read(account).value();
  EXPECT_EQ(total, kEach * kAccounts);
}

TEST(StressLocks, TryLockStormsExcludeAndLeaveNothingLocked) {
  LocalCluster cluster(3);
  constexpr int kRanges = 5;
  constexpr int kLinesEach = 3;
  std::vector<GlobalAddress> ranges;
  const std::uint64_t bytes = kLinesEach * cluster[0].line_bytes();
  for (int i = 0; i < kRanges; ++i)
    ranges.push_back(cluster[NodeId(i % 3)].allocate(bytes, Placement::local()).value());
  const std::uint64_t seed = fresh_seed();
  SCOPED_TRACE(repeat_with(seed));
  // What the lock promises, watched from outside: -1 a writer, else the number of readers.
  std::array<std::atomic<int>, kRanges> inside{};
  std::atomic<int> intruders{0}, refusals{0}, entries{0};
  in_workers(cluster, 2, [&](Node& node, int worker) {
    base::Random random(seed + std::uint64_t(worker));
    for (int i = 0; i < scaled(2500); ++i) {
      const auto range = random.below(kRanges);
      // Parts of a range too, so that a try is refused half way.
      const std::uint64_t line = random.below(kLinesEach);
      const bool whole = random.chance(0.5);
      const GlobalAddress at = whole ? ranges[range] : ranges[range] + std::int64_t(line * node.line_bytes() + 8);
      const std::uint64_t size = whole ? bytes : 16;
      const bool exclusive = random.chance(0.5);
      const Status got = exclusive ? node.try_write_lock(at, size) : node.try_read_lock(at, size);
      if (got.code() == Errc::kRefused) {
        ++refusals;
        continue;
      }
      ASSERT_TRUE(got.ok()) << got.to_string();
      ++entries;
      if (whole) {
        if (exclusive) {
          intruders += inside[range].exchange(-1) != 0;
          std::this_thread::yield();
          intruders += inside[range].exchange(0) != -1;
        } else {
          intruders += inside[range].fetch_add(1) < 0;
          std::this_thread::yield();
          intruders += inside[range].fetch_sub(1) <= 0;
        }
      }
      ASSERT_TRUE(node.unlock(at, size).ok());
    }
  });
  EXPECT_EQ(intruders.load(), 0);
  EXPECT_GT(refusals.load(), 0);
  EXPECT_GT(entries.load(), 0);
  for (NodeId id = 0; id < 3; ++id) {
    for (const GlobalAddress range : ranges) {
      ASSERT_TRUE(cluster[id].write_lock(range, bytes).ok());
      ASSERT_TRUE(cluster[id].unlock(range, bytes).ok());
    }
  }
}

TEST(StressLocks, TriesAndBlockingLocksOfOverlappingRanges) {
  LocalCluster cluster(2);
  constexpr int kLines = 6;
  const std::uint64_t line_bytes = cluster[0].line_bytes();
  const GlobalAddress base = cluster[1].allocate(kLines * line_bytes, Placement::local()).value();
  const std::uint64_t seed = fresh_seed();
  SCOPED_TRACE(repeat_with(seed));
  std::array<std::atomic<std::uint64_t>, kLines> locked{};
  in_workers(cluster, 3, [&](Node& node, int worker) {
    base::Random random(seed + std::uint64_t(worker));
    for (int i = 0; i < scaled(1500); ++i) {
      const auto first = random.below(kLines);
      const auto lines = 1 + random.below(kLines - first);
      const GlobalAddress at = base + std::int64_t(first * line_bytes);
      const Status got =
          random.chance(0.4) ? node.try_write_lock(at, lines * line_bytes) : node.write_lock(at, lines * line_bytes);
      if (got.code() == Errc::kRefused) continue;
      ASSERT_TRUE(got.ok()) << got.to_string();
      for (auto line = first; line < first + lines; ++line) {
        const global_ptr<std::uint64_t> word(base + std::int64_t(line * line_bytes));
        ASSERT_TRUE(node.write(word, node.read(word).value() + 1).ok());
        ++locked[line];
      }
      ASSERT_TRUE(node.unlock(at, lines * line_bytes).ok());
    }
  });
  for (int line = 0; line < kLines; ++line) {
    const global_ptr<std::uint64_t> word(base + std::int64_t(std::uint64_t(line) * line_bytes));
    EXPECT_EQ(cluster[0].read(word).value(), locked[std::size_t(line)].load()) << "line " << line;
  }
}

/// Readers of a record under its read lock, while others of the same node write words beside it without any lock: the
/// holder of a lock must never wait for those who wait for the lock.
TEST(StressLocks, UnlockedWritersBesideReadLocks) {
  LocalCluster cluster(2);
  const auto lines = lines_on_all(cluster, 4);
  const std::uint64_t seed = fresh_seed();
  SCOPED_TRACE(repeat_with(seed));
  in_workers(cluster, 2, [&](Node& node, int worker) {
    base::Random random(seed + std::uint64_t(worker));
    for (int i = 1; i <= scaled(1500); ++i) {
      const auto line = lines[random.below(lines.size())];
      if (worker < 2) {
        ASSERT_TRUE(node.write(line + 8 + worker, std::uint64_t(i)).ok());
      } else {
        ASSERT_TRUE(node.read_lock(line.address(), 8).ok());
        const std::uint64_t before = node.read(line).value();
        EXPECT_EQ(node.read(line).value(), before);
        ASSERT_TRUE(node.unlock(line.address(), 8).ok());
      }
    }
    ASSERT_TRUE(node.fence().ok());
  });
}

}  // namespace
}  // namespace atoll::test
