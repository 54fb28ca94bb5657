// The log: what is appended is found again, whoever appended it, in the order of the sequences.
#include "log/log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/random.hpp"
#include "log/format.hpp"
#include "support/seed.hpp"
#include "unit/log/logging.hpp"

namespace atoll::log {
namespace {

using storage::FaultyDisk;
using storage::OpenMode;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Log, WhatIsAppendedIsFoundAgain) {
  FaultyDisk disk;
  const auto log = Log::open(disk, small_log(LogMode::kProcess));
  EXPECT_EQ(log->last(), 0u);
  std::vector<std::byte> payload;
  {
    Log::Writer writer(*log);
    for (std::size_t bytes = 0; bytes <= 1024; bytes += 1 + bytes / 5) {
      payload.resize(bytes, std::byte(bytes));
      const RecordHead head{RecordType::kImage,         std::uint8_t(bytes),   NodeId(bytes * 3),
                            std::uint32_t(bytes) << 20, bytes * 0x123456789ab, ~std::uint64_t{bytes}};
      const Sequence sequence = log->append(writer, head, payload).value();
      EXPECT_EQ(sequence, log->last());
    }
  }
  const LoadedLog loaded = load_all(disk);
  std::size_t k = 0;
  payload.clear();
  for (std::size_t bytes = 0; bytes <= 1024; bytes += 1 + bytes / 5, ++k) {
    ASSERT_LT(k, loaded.size());
    payload.resize(bytes, std::byte(bytes));
    const Record record = loaded[k];
    EXPECT_EQ(record.sequence, k + 1);
    EXPECT_EQ(record.head.type, RecordType::kImage);
    EXPECT_EQ(record.head.flags, std::uint8_t(bytes));
    EXPECT_EQ(record.head.node, NodeId(bytes * 3));
    EXPECT_EQ(record.head.epoch, std::uint32_t(bytes) << 20);
    EXPECT_EQ(record.head.address, bytes * 0x123456789ab);
    EXPECT_EQ(record.head.number, ~std::uint64_t{bytes});
    EXPECT_TRUE(std::equal(payload.begin(), payload.end(), record.payload.begin(), record.payload.end()));
  }
  EXPECT_EQ(loaded.size(), k);
  EXPECT_EQ(loaded.report().records, k);
  EXPECT_EQ(loaded.report().torn, 0u);
  EXPECT_EQ(loaded.report().node, 3);
  EXPECT_EQ(loaded.report().generation, 1u);
  EXPECT_EQ(loaded.report().mode, LogMode::kProcess);
  EXPECT_EQ(loaded.highest(), k);
}

TEST(Log, NothingIsNoLog) {
  FaultyDisk disk;
  EXPECT_EQ(load_all(disk).size(), 0u);
  EXPECT_EQ(load_all(disk).highest(), 0u);
  const auto log = Log::open(disk, small_log(LogMode::kPower));
  EXPECT_EQ(load_all(disk, {true}).size(), 0u);
  EXPECT_EQ(log->durable(), 0u);
  EXPECT_TRUE(log->is_durable(0));
}

TEST(Log, ModeProcessIsDurableAtOnce) {
  FaultyDisk disk;
  const auto log = Log::open(disk, small_log(LogMode::kProcess));
  Log::Writer writer(*log);
  const std::uint64_t value = 7;
  EXPECT_EQ(log->append(writer, write_head(8), bytes_of(value)).value(), 1u);
  EXPECT_EQ(log->durable(), 1u);
  const std::uint64_t syncs = disk.count(storage::Operation::kSync);
  EXPECT_TRUE(log->sync().ok());
  EXPECT_EQ(disk.count(storage::Operation::kSync), syncs);
  disk.crash_process();
  EXPECT_THAT(sequences_of(load_all(disk)), ElementsAre(1));
}

TEST(Log, BadConfigurationsAreRefused) {
  FaultyDisk disk;
  LogConfig config = small_log(LogMode::kProcess);
  config.bytes = 4096 + 7 * 4096;
  EXPECT_THROW((void)Log::open(disk, config), Error);
  config.bytes = 100;
  EXPECT_THROW((void)Log::open(disk, config), Error);
  config = small_log(LogMode::kProcess);
  config.block_bytes = 1000;
  EXPECT_THROW((void)Log::open(disk, config), Error);
  config.block_bytes = 4096;
  config.max_payload = 4096;  // with its header it does not fit
  EXPECT_THROW((void)Log::open(disk, config), Error);
  config.max_payload = UINT32_MAX;
  EXPECT_THROW((void)Log::open(disk, config), Error);
  disk.set_capacity(10'000);
  try {
    (void)Log::open(disk, small_log(LogMode::kProcess));
    ADD_FAILURE() << "it does not fit the disk";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::kStorageFull);
    EXPECT_THAT(error.what(), HasSubstr("log-new"));
  }
  disk.set_capacity(UINT64_MAX);
  EXPECT_NO_THROW((void)Log::open(disk, small_log(LogMode::kProcess)));
}

TEST(Log, BlocksAreChosenToFitTheRecords) {
  FaultyDisk disk;
  LogConfig config;
  config.bytes = 2 << 20;
  const auto log = Log::open(disk, config);
  EXPECT_GE(log->max_payload(), 64u << 10);
  Log::Writer writer(*log);
  const std::vector<std::byte> line(64 << 10, std::byte{9});
  EXPECT_TRUE(log->append(writer, {RecordType::kImage}, line).ok());
  const std::vector<std::byte> more(log->max_payload() + 1);
  EXPECT_EQ(log->append(writer, {RecordType::kImage}, more).status().code(), Errc::kInvalidArgument);
  EXPECT_TRUE(log->append(writer, {RecordType::kImage}, std::span(more).subspan(1)).ok());
  EXPECT_THAT(sequences_of(load_all(disk)), ElementsAre(1, 2));  // the one that was refused has taken none
}

TEST(Log, AFullLogSaysSo) {
  FaultyDisk disk;
  const auto log = Log::open(disk, small_log(LogMode::kProcess));
  Log::Writer writer(*log), engine(*log);
  const std::vector<std::byte> payload(1000);
  const std::uint64_t all = log->free_bytes();
  EXPECT_EQ(log->used_bytes(), 0u);
  Sequence count = 0;
  while (log->append(writer, write_head(8), payload).ok()) ++count;
  EXPECT_EQ(log->append(writer, write_head(8), payload).status().code(), Errc::kStorageFull);
  EXPECT_EQ(log->last(), count);
  EXPECT_EQ(log->free_bytes(), all / 4);
  EXPECT_EQ(log->reserved_left(), all / 4);
  const std::uint64_t small = 1;
  EXPECT_TRUE(log->append(writer, write_head(8), bytes_of(small)).ok());  // what fits the last block may go there
  // The engine has a quarter for itself.
  Sequence reserved = 0;
  while (log->append_reserved(engine, write_head(8), payload).ok()) ++reserved;
  EXPECT_EQ(reserved, count / 3);
  EXPECT_EQ(log->reserved_left(), 0u);
  EXPECT_EQ(log->append_reserved(engine, write_head(8), payload).status().code(), Errc::kStorageFull);
  // Nothing is free while its records are needed, and all but the writers' own blocks afterwards.
  EXPECT_TRUE(log->truncate_before(1).ok());
  EXPECT_EQ(log->free_bytes(), 0u);
  EXPECT_TRUE(log->truncate_before(log->last() + 1).ok());
  EXPECT_EQ(log->free_bytes(), all - 2 * 4096);
  log->seal();
  EXPECT_TRUE(log->truncate_before(log->last() + 1).ok());
  EXPECT_TRUE(log->append(writer, write_head(8), payload).ok());
  EXPECT_TRUE(log->truncate_before(log->last() + 1).ok());
  EXPECT_EQ(log->used_bytes(), 4096u);
}

TEST(Log, RecycledBlocksShowNothingOfTheirPast) {
  const std::uint64_t seed = test::fresh_seed();
  SCOPED_TRACE(test::repeat_with(seed));
  base::Random random(seed);
  FaultyDisk disk;
  const auto log = Log::open(disk, small_log(LogMode::kProcess));
  Log::Writer writer(*log);
  Sequence start = 1;
  for (int round = 0; round < 60; ++round) {
    for (int k = int(random.below(60)); k > 0; --k) {
      // Of one size, so that old records begin where new ones end.
      const std::uint64_t value = random.next();
      ASSERT_TRUE(log->append(writer, write_head(8), bytes_of(value)).ok());
    }
    if (random.below(2) == 0) log->seal();
    start = std::max<Sequence>(start, log->last() + 1 - random.below(std::min<Sequence>(log->last() + 1, 20)));
    ASSERT_TRUE(log->truncate_before(start).ok());
    const std::vector<Sequence> found = sequences_of(load_all(disk));
    std::vector<Sequence> expected;
    for (Sequence at = start; at <= log->last(); ++at) expected.push_back(at);
    ASSERT_EQ(found, expected) << "round " << round;
  }
}

TEST(Log, SealTakesIdleBlocksAndBusyOnesSoon) {
  FaultyDisk disk;
  const auto log = Log::open(disk, small_log(LogMode::kProcess));
  Log::Writer idle(*log), busy(*log);
  const std::uint64_t value = 1;
  ASSERT_TRUE(log->append(idle, write_head(8), bytes_of(value)).ok());
  ASSERT_TRUE(log->append(busy, write_head(8), bytes_of(value)).ok());
  log->seal();
  const Sequence checkpoint = log->last() + 1;
  ASSERT_TRUE(log->append(busy, write_head(16), bytes_of(value)).ok());  // to another block
  ASSERT_TRUE(log->truncate_before(checkpoint).ok());
  EXPECT_EQ(log->used_bytes(), 4096u);
  ASSERT_TRUE(log->append(idle, write_head(24), bytes_of(value)).ok());
  EXPECT_THAT(sequences_of(load_all(disk)), ElementsAre(3, 4));
}

/// Threads append as fast as they can while blocks are sealed, freed and filled again: each record is there, once, and
/// each thread's in its order.
TEST(Log, ManyThreadsAppendAtOnce) {
  constexpr int kThreads = 4;
  const int rounds = test::scaled(20'000);
  FaultyDisk disk;
  LogConfig config = small_log(LogMode::kPower);
  config.bytes = 4 << 20;
  const auto log = Log::open(disk, config);
  std::atomic<int> running{kThreads};
  std::vector<std::vector<Sequence>> given(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Log::Writer writer(*log);
      for (int k = 0; k < rounds;) {
        const std::uint64_t value = std::uint64_t(t) << 32 | unsigned(k);
        const std::uint64_t payload[3] = {value, value, value};
        const auto done = log->append(writer, write_head(8 * unsigned(t)),
                                      std::as_bytes(std::span(payload)).first(8 + 8 * (unsigned(k) % 3)));
        if (!done.ok()) {
          std::this_thread::yield();
          continue;
        }
        given[t].push_back(*done);
        ++k;
      }
      --running;
    });
  }
  // What a checkpoint would do; what it would keep is kept in `seen`.
  std::map<Sequence, std::uint64_t> seen;
  const auto look = [&] {
    const LoadedLog loaded = load_all(disk, {true});
    for (std::size_t k = 0; k < loaded.size(); ++k) {
      const auto [at, fresh] = seen.emplace(loaded[k].sequence, word_of(loaded[k].payload));
      EXPECT_TRUE(fresh || at->second == word_of(loaded[k].payload));
    }
    return seen.empty() ? Sequence{0} : seen.rbegin()->first;
  };
  while (running > 0) {
    log->seal();
    ASSERT_TRUE(log->sync().ok());
    const Sequence durable = log->durable();
    const Sequence found = look();
    EXPECT_GE(found, durable);
    ASSERT_TRUE(log->truncate_before(durable + 1).ok());
  }
  for (std::thread& thread : threads) thread.join();
  (void)look();
  EXPECT_EQ(seen.size(), std::size_t(kThreads) * unsigned(rounds));
  std::set<Sequence> unique;
  for (int t = 0; t < kThreads; ++t) {
    Sequence last = 0;
    for (int k = 0; k < rounds; ++k) {
      const Sequence sequence = given[t][unsigned(k)];
      EXPECT_GT(sequence, last);
      last = sequence;
      unique.insert(sequence);
      ASSERT_EQ(seen[sequence], std::uint64_t(t) << 32 | unsigned(k));
    }
  }
  EXPECT_EQ(unique.size(), seen.size());
  EXPECT_EQ(*unique.rbegin(), log->last());
}

TEST(Log, TheNextLifeHasItsOwnFile) {
  FaultyDisk disk;
  const std::uint64_t value = 1;
  {
    const auto log = Log::open(disk, small_log(LogMode::kProcess));
    Log::Writer writer(*log);
    for (int k = 0; k < 3; ++k) ASSERT_TRUE(log->append(writer, write_head(8), bytes_of(value)).ok());
  }
  disk.crash_process();
  const Sequence highest = load_all(disk).highest();
  const auto log = Log::open(disk, small_log(LogMode::kProcess, highest));
  EXPECT_EQ(log->generation(), 2u);
  EXPECT_EQ(log->first(), 4u);
  Log::Writer writer(*log);
  EXPECT_EQ(log->append(writer, write_head(8), bytes_of(value)).value(), 4u);
  EXPECT_THAT(sequences_of(load_all(disk)), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(sequences_of(load_all(disk, {true, 2})), ElementsAre(2, 3, 4));
  EXPECT_EQ(load_all(disk).report().files, 2u);
  ASSERT_TRUE(log->discard_old().ok());
  ASSERT_TRUE(log->discard_old().ok());
  EXPECT_THAT(disk.list().value(), ElementsAre("log.2"));
  EXPECT_THAT(sequences_of(load_all(disk)), ElementsAre(4));
}

/// Wherever the machine stops while the next life's log is made, the last life's is there.
TEST(Log, BeginningANewLifeIsHarmless) {
  for (std::uint64_t n = 1;; ++n) {
    bool finished = false;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      FaultyDisk disk(seed);
      const std::uint64_t value = 1;
      {
        const auto log = Log::open(disk, small_log(LogMode::kPower));
        Log::Writer writer(*log);
        for (int k = 0; k < 3; ++k) ASSERT_TRUE(log->append(writer, write_head(8), bytes_of(value)).ok());
        ASSERT_TRUE(log->sync().ok());
        ASSERT_EQ(log->durable(), 3u);
      }
      disk.crash_process();
      disk.fail_from(n);
      try {
        const auto log = Log::open(disk, small_log(LogMode::kPower, 3));
        finished = true;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::kStorage);
      }
      disk.crash_power(seed);
      ASSERT_THAT(sequences_of(load_all(disk, {true})), ElementsAre(1, 2, 3)) << "operation " << n << " seed " << seed;
      const auto again = Log::open(disk, small_log(LogMode::kPower, 3));
      Log::Writer writer(*again);
      EXPECT_EQ(again->append(writer, write_head(8), bytes_of(value)).value(), 4u);
      EXPECT_THAT(sequences_of(load_all(disk, {true})), ElementsAre(1, 2, 3, 4));
    }
    if (finished) break;
  }
}

/// What a life was told of the life before is not lost by a power cut in this one.
TEST(Log, WhatWasReadIsDurable) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    FaultyDisk disk;
    const std::uint64_t value = 1;
    {
      const auto log = Log::open(disk, small_log(LogMode::kPower));
      Log::Writer writer(*log);
      for (int k = 0; k < 50; ++k) ASSERT_TRUE(log->append(writer, write_head(8), bytes_of(value)).ok());
    }
    disk.crash_process();  // nothing was synced, but the system has it
    const LoadedLog loaded = load_all(disk, {true});
    ASSERT_EQ(loaded.size(), 50u);
    const auto log = Log::open(disk, small_log(LogMode::kPower, loaded.highest()));
    disk.crash_power(seed);
    EXPECT_EQ(load_all(disk, {true}).size(), 50u);
  }
}

TEST(Log, AFailedSyncIsTheEnd) {
  FaultyDisk disk;
  const auto log = Log::open(disk, small_log(LogMode::kPower));
  Log::Writer writer(*log);
  const std::uint64_t value = 1;
  ASSERT_TRUE(log->append(writer, write_head(8), bytes_of(value)).ok());
  ASSERT_TRUE(log->sync().ok());
  ASSERT_TRUE(log->append(writer, write_head(8), bytes_of(value)).ok());
  disk.fail_next(storage::Operation::kSync);
  EXPECT_EQ(log->sync().code(), Errc::kStorage);
  EXPECT_EQ(log->health().code(), Errc::kStorage);
  EXPECT_THAT(log->health().what(), HasSubstr("cannot sync"));
  // The disk would work again; nobody asks it.
  const std::uint64_t syncs = disk.count(storage::Operation::kSync);
  EXPECT_EQ(log->sync().code(), Errc::kStorage);
  EXPECT_EQ(log->truncate_before(2).code(), Errc::kStorage);
  EXPECT_EQ(log->append(writer, write_head(8), bytes_of(value)).status().code(), Errc::kStorage);
  Log::Writer other(*log);
  EXPECT_EQ(log->append_reserved(other, write_head(8), bytes_of(value)).status().code(), Errc::kStorage);
  EXPECT_EQ(disk.count(storage::Operation::kSync), syncs);
  EXPECT_EQ(log->durable(), 1u);
}

/// With real files: a process that is killed while its threads append has lost nothing that append had returned.
TEST(Log, AKilledProcessLosesNothing) {
  std::string folder = testing::TempDir() + "atoll-log-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  int pipes[2];
  ASSERT_EQ(::pipe(pipes), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto disk = storage::open_disk(folder);
    LogConfig config;
    config.bytes = 64 << 20;
    const auto log = Log::open(*disk, config);
    std::vector<std::thread> threads;
    for (std::uint64_t t = 0; t < 2; ++t) {
      threads.emplace_back([&, t] {
        Log::Writer writer(*log);
        for (std::uint64_t k = 1;; ++k) {
          const std::uint64_t value = k;
          const auto sequence = log->append(writer, write_head(t), bytes_of(value));
          if (!sequence.ok()) ::_exit(1);
          const std::uint64_t told[2] = {t, k};
          if (k % 64 == 0 && ::write(pipes[1], told, sizeof(told)) != sizeof(told)) ::_exit(2);
        }
      });
    }
    threads[0].join();
    ::_exit(0);
  }
  ::close(pipes[1]);
  std::uint64_t told[2] = {}, last[2] = {};
  for (int k = 0; k < 500; ++k) {
    ASSERT_EQ(::read(pipes[0], told, sizeof(told)), ssize_t(sizeof(told)));
    last[told[0]] = told[1];
  }
  ::kill(child, SIGKILL);
  while (::read(pipes[0], told, sizeof(told)) == ssize_t(sizeof(told))) last[told[0]] = told[1];
  ::close(pipes[0]);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  const auto disk = storage::open_disk(folder);
  const LoadedLog loaded = load_all(*disk);
  std::uint64_t found[2] = {};
  for (std::size_t k = 0; k < loaded.size(); ++k) {
    const Record record = loaded[k];
    ASSERT_LT(record.head.address, 2u);
    ASSERT_EQ(word_of(record.payload), ++found[record.head.address]);
  }
  EXPECT_GE(found[0], last[0]);
  EXPECT_GE(found[1], last[1]);
  std::filesystem::remove_all(folder);
}

TEST(Log, NamesOfFiles) {
  EXPECT_EQ(log_name(17), "log.17");
  EXPECT_EQ(generation_of("log.17"), 17u);
  for (const char* other :
       {"log.", "log.0", "log.01", "log.1x", "log-new", "log", "", "log.-1", "log.99999999999999999999"}) {
    EXPECT_EQ(generation_of(other), 0u) << other;
  }
}

}  // namespace
}  // namespace atoll::log
