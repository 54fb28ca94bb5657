// The thread that syncs for all.
#include "log/group_commit.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "support/seed.hpp"
#include "unit/log/logging.hpp"

namespace atoll::log {
namespace {

using storage::FaultyDisk;
using storage::Operation;

TEST(GroupCommit, WaitsUntilItIsDurable) {
  FaultyDisk disk;
  const auto log = Log::open(disk, small_log(LogMode::kPower));
  std::atomic<Sequence> told{0};
  GroupCommit commit(*log, base::Host::real(), [&](Sequence durable, Status status) {
    EXPECT_TRUE(status.ok());
    told = durable;
  });
  Log::Writer writer(*log);
  for (std::uint64_t k = 1; k <= 20; ++k) {
    const Sequence sequence = log->append(writer, write_head(8), bytes_of(k)).value();
    EXPECT_FALSE(log->is_durable(sequence));
    EXPECT_TRUE(commit.wait(sequence).ok());
    EXPECT_TRUE(log->is_durable(sequence));
    EXPECT_GE(told, sequence);
  }
  disk.crash_power(1);
  EXPECT_EQ(load_all(disk, {true}).size(), 20u);
}

TEST(GroupCommit, SyncsOnlyWhatIsAskedFor) {
  FaultyDisk disk;
  const auto log = Log::open(disk, small_log(LogMode::kPower));
  const std::uint64_t before = disk.count(Operation::kSync);
  {
    GroupCommit commit(*log, base::Host::real(), [](Sequence, Status) {});
    Log::Writer writer(*log);
    const std::uint64_t value = 1;
    ASSERT_TRUE(log->append(writer, write_head(8), bytes_of(value)).ok());
  }
  EXPECT_EQ(disk.count(Operation::kSync), before);
  {
    GroupCommit commit(*log, base::Host::real(), [](Sequence, Status) {});
    commit.request();
    commit.request();
  }  // which does what was requested
  EXPECT_EQ(log->durable(), 1u);
  EXPECT_EQ(disk.count(Operation::kSync), before + 1);
}

/// Requests that come while a sync is under way share the next one.
TEST(GroupCommit, OneSyncIsForAll) {
  FaultyDisk disk;
  const auto log = Log::open(disk, small_log(LogMode::kPower));
  std::atomic<bool> slow{true};
  std::atomic<int> syncs{0};
  disk.set_hook([&](Operation operation) {
    if (operation != Operation::kSync) return;
    ++syncs;
    while (slow) std::this_thread::yield();
  });
  {
    GroupCommit commit(*log, base::Host::real(), [](Sequence, Status) {});
    Log::Writer writer(*log);
    const std::uint64_t value = 1;
    ASSERT_TRUE(log->append(writer, write_head(8), bytes_of(value)).ok());
    commit.request();
    while (syncs == 0) std::this_thread::yield();
    for (int k = 0; k < 10; ++k) {
      ASSERT_TRUE(log->append(writer, write_head(8), bytes_of(value)).ok());
      commit.request();
    }
    EXPECT_EQ(log->durable(), 0u);
    slow = false;
    EXPECT_TRUE(commit.wait(11).ok());
    // The first was under way before the others were appended: it does not count for them.
    EXPECT_EQ(syncs, 2);
  }
}

TEST(GroupCommit, AFailureReachesAllWhoWait) {
  FaultyDisk disk;
  const auto log = Log::open(disk, small_log(LogMode::kPower));
  std::atomic<int> failures{0};
  GroupCommit commit(*log, base::Host::real(), [&](Sequence, Status status) { failures += status.ok() ? 0 : 1; });
  disk.fail_next(Operation::kSync);
  std::vector<std::thread> threads;
  std::atomic<int> told{0};
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      Log::Writer writer(*log);
      const std::uint64_t value = 1;
      const auto sequence = log->append(writer, write_head(8), bytes_of(value));
      const Status status = sequence.ok() ? commit.wait(*sequence) : sequence.status();
      if (status.code() == Errc::kStorage) ++told;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(told, 3);
  EXPECT_EQ(failures, 1);
  EXPECT_EQ(log->durable(), 0u);
}

/// Threads append and wait while the power is cut at some sync: what wait() has answered for is there.
TEST(GroupCommit, WhatWasAnsweredForSurvives) {
  const std::uint64_t first_seed = test::fresh_seed();
  for (int round = 0; round < test::scaled(40) + 1; ++round) {
    const std::uint64_t seed = first_seed + unsigned(round);
    SCOPED_TRACE(test::repeat_with(seed));
    FaultyDisk disk(seed);
    LogConfig config = small_log(LogMode::kPower);
    config.bytes = 2 << 20;
    const auto log = Log::open(disk, config);
    std::mutex mutex;
    std::map<Sequence, std::uint64_t> answered, appended;
    {
      GroupCommit commit(*log, base::Host::real(), [](Sequence, Status) {});
      disk.fail_from(2 + seed % 20);
      std::vector<std::thread> threads;
      for (std::uint64_t t = 0; t < 3; ++t) {
        threads.emplace_back([&, t] {
          Log::Writer writer(*log);
          for (std::uint64_t k = 0;; ++k) {
            const std::uint64_t value = t << 32 | k;
            const auto sequence = log->append(writer, write_head(value), bytes_of(value));
            if (!sequence.ok()) return;
            {
              const std::lock_guard lock(mutex);
              appended[*sequence] = value;
            }
            if (k % 8 != t) continue;
            if (!commit.wait(*sequence).ok()) return;
            const std::lock_guard lock(mutex);
            answered[*sequence] = value;
          }
        });
      }
      for (std::thread& thread : threads) thread.join();
    }
    disk.crash_power(seed);
    const LoadedLog loaded = load_all(disk, {true});
    std::map<Sequence, std::uint64_t> found;
    for (std::size_t k = 0; k < loaded.size(); ++k) found[loaded[k].sequence] = word_of(loaded[k].payload);
    for (const auto& [sequence, value] : answered) {
      ASSERT_TRUE(found.contains(sequence)) << sequence;
      ASSERT_EQ(found[sequence], value);
    }
    for (const auto& [sequence, value] : found) ASSERT_EQ(appended.at(sequence), value);
  }
}

}  // namespace
}  // namespace atoll::log
