// Logs that something happened to: torn, cut, mixed up, made up.
#include "log/reader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <string>
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

constexpr std::uint64_t kFirstRecord = kFileHeaderBytes + sizeof(BlockHeader);
constexpr std::uint64_t kRecord = sizeof(RecordHeader) + 8;

void change(storage::Disk& disk, std::uint64_t offset, std::uint64_t word) {
  disk.open("log.1", OpenMode::kWrite)->write(offset, bytes_of(word)).or_throw();
}

/// A disk with a log: `counts` says how many records each of the writers appends, in turns of one.
std::unique_ptr<FaultyDisk> disk_with(LogMode mode, std::vector<int> counts) {
  auto disk = std::make_unique<FaultyDisk>();
  const auto log = Log::open(*disk, small_log(mode));
  std::vector<std::unique_ptr<Log::Writer>> writers;
  for (std::size_t k = 0; k < counts.size(); ++k) writers.push_back(std::make_unique<Log::Writer>(*log));
  while (std::accumulate(counts.begin(), counts.end(), 0) > 0) {
    for (std::size_t k = 0; k < counts.size(); ++k) {
      if (counts[k]-- <= 0) continue;
      const std::uint64_t value = log->last() + 1;
      log->append(*writers[k], write_head(value * 8), bytes_of(value)).status().or_throw();
    }
    for (int& count : counts) count = std::max(count, 0);
  }
  return disk;
}

TEST(ReadLog, ATornTailEndsItsBlock) {
  for (std::uint64_t at = 0; at < kRecord; at += 8) {  // whichever word is not there yet
    const auto disk = disk_with(LogMode::kProcess, {4});
    change(*disk, kFirstRecord + 3 * kRecord + at, 0);
    const LoadedLog loaded = load_all(*disk);
    EXPECT_THAT(sequences_of(loaded), ElementsAre(1, 2, 3)) << at;
    // Without a sequence it is not seen that there was something.
    EXPECT_EQ(loaded.report().torn, at == 16 ? 0u : 1u) << at;
  }
}

TEST(ReadLog, InModeProcessAGapCutsNothing) {
  const auto disk = disk_with(LogMode::kProcess, {3, 3});  // 1 3 5 and 2 4 6
  change(*disk, kFirstRecord + kRecord, 0);                // 3, and with it 5
  const LoadedLog loaded = load_all(*disk);
  EXPECT_THAT(sequences_of(loaded), ElementsAre(1, 2, 4, 6));
  EXPECT_EQ(loaded.report().gap, 0u);
  EXPECT_EQ(loaded.report().torn, 1u);
  EXPECT_EQ(loaded.report().blocks, 2u);
}

TEST(ReadLog, InModePowerNothingCountsBehindAGap) {
  const auto disk = disk_with(LogMode::kPower, {3, 3});
  change(*disk, kFirstRecord + kRecord, 0);
  const LoadedLog loaded = load_all(*disk, {true});
  EXPECT_THAT(sequences_of(loaded), ElementsAre(1, 2));
  EXPECT_EQ(loaded.report().gap, 3u);
  EXPECT_EQ(loaded.report().dropped, 2u);
  EXPECT_EQ(loaded.highest(), 6u);  // the next life begins above what is dropped
  // Where recovery begins behind the gap it does not matter.
  EXPECT_THAT(sequences_of(load_all(*disk, {true, 6})), ElementsAre(6));
  EXPECT_THAT(sequences_of(load_all(*disk, {true, 5})), IsEmpty());
  EXPECT_EQ(load_all(*disk, {true, 6}).report().truncated, 3u);
}

TEST(ReadLog, ALostBlockIsAGap) {
  const auto disk = disk_with(LogMode::kPower, {3, 3});
  change(*disk, kFileHeaderBytes + 8, 99);  // the first block's header is of another time
  EXPECT_THAT(sequences_of(load_all(*disk, {true})), IsEmpty());
  EXPECT_THAT(sequences_of(load_all(*disk)), ElementsAre(2, 4, 6));
}

/// Blocks that change places are not where they say.
TEST(ReadLog, BlocksAreTakenWhereTheyBelong) {
  const auto disk = disk_with(LogMode::kPower, {3, 3});
  const auto file = disk->open("log.1", OpenMode::kWrite);
  std::vector<std::byte> first(4096), second(4096);
  file->read(4096, first).or_throw();
  file->read(8192, second).or_throw();
  file->write(4096, second).or_throw();
  file->write(8192, first).or_throw();
  EXPECT_THAT(sequences_of(load_all(*disk)), IsEmpty());
}

TEST(ReadLog, TheTruncationPointIsKept) {
  auto disk = std::make_unique<FaultyDisk>();
  const auto log = Log::open(*disk, small_log(LogMode::kPower));
  Log::Writer writer(*log);
  for (std::uint64_t k = 0; k < 10; ++k) ASSERT_TRUE(log->append(writer, write_head(8), bytes_of(k)).ok());
  ASSERT_TRUE(log->truncate_before(4).ok());
  EXPECT_EQ(sequences_of(load_all(*disk, {true})).front(), 4u);
  ASSERT_TRUE(log->truncate_before(7).ok());
  EXPECT_EQ(sequences_of(load_all(*disk, {true})).front(), 7u);
  change(*disk, kTruncationAt[1], 9);  // torn: the one before counts
  EXPECT_EQ(sequences_of(load_all(*disk, {true})).front(), 4u);
  change(*disk, kTruncationAt[0], 9);
  EXPECT_EQ(sequences_of(load_all(*disk, {true})).front(), 1u);
}

TEST(ReadLog, WhatIsNoLogIsRefused) {
  const auto why = [](storage::Disk& disk) {
    const auto loaded = read_logs(disk, {});
    EXPECT_FALSE(loaded.ok());
    EXPECT_EQ(loaded.status().code(), Errc::kStorage);
    return std::string(loaded.status().what());
  };
  auto disk = disk_with(LogMode::kPower, {1});
  change(*disk, 0, 7);
  EXPECT_THAT(why(*disk), HasSubstr("log.1: a log: it is no log"));
  EXPECT_FALSE(looks_like_log(*disk->open("log.1", OpenMode::kRead)));
  disk = disk_with(LogMode::kPower, {1});
  EXPECT_TRUE(looks_like_log(*disk->open("log.1", OpenMode::kRead)));
  change(*disk, 8, 9);
  EXPECT_THAT(why(*disk), HasSubstr("another version"));
  disk = disk_with(LogMode::kPower, {1});
  change(*disk, 24, 2);
  EXPECT_THAT(why(*disk), HasSubstr("its header is damaged"));
  disk = disk_with(LogMode::kPower, {1});
  disk->open("log.1", OpenMode::kWrite)->resize(4096 * 3).or_throw();
  EXPECT_THAT(why(*disk), HasSubstr("shorter than it says"));
  disk->open("log.1", OpenMode::kWrite)->resize(100).or_throw();
  EXPECT_THAT(why(*disk), HasSubstr("shorter than its header"));
  disk = disk_with(LogMode::kPower, {1});
  FileHeader header;
  header.block_bytes = 24;
  header.blocks = 1;
  header.generation = 1;
  header.crc = crc_of(header);
  disk->open("log.1", OpenMode::kWrite)->write(0, std::as_bytes(std::span(&header, 1))).or_throw();
  EXPECT_THAT(why(*disk), HasSubstr("makes no sense"));
}

TEST(ReadLog, AFailingDiskIsAnError) {
  const auto disk = disk_with(LogMode::kPower, {5, 5});
  for (std::uint64_t n = 1;; ++n) {
    disk->fail_operation(n);
    const auto loaded = read_logs(*disk, {true});
    if (loaded.ok()) {
      EXPECT_EQ(loaded->size(), 10u);
      EXPECT_GT(n, 5u);
      break;
    }
    EXPECT_EQ(loaded.status().code(), Errc::kStorage);
  }
}

/// Whatever is changed in a file: what is read was appended.
TEST(ReadLog, ChangedBytesNeverMakeARecord) {
  const std::uint64_t seed = test::fresh_seed();
  SCOPED_TRACE(test::repeat_with(seed));
  base::Random random(seed);
  for (int round = 0; round < 300; ++round) {
    const auto disk = disk_with(LogMode::kProcess, {20, 20});
    for (std::uint64_t k = 1 + random.below(4); k > 0; --k) {
      const std::uint64_t at = random.below(8) == 0 ? random.below(1100) : 4096 + random.below(2 * 4096 - 8);
      change(*disk, at, random.below(2) == 0 ? random.next() : random.below(64));
    }
    const auto loaded = read_logs(*disk, {random.below(2) == 0});
    if (!loaded.ok()) continue;
    for (std::size_t k = 0; k < loaded->size(); ++k) {
      const Record record = (*loaded)[k];
      ASSERT_EQ(record.head.address, record.sequence * 8);
      ASSERT_EQ(word_of(record.payload), record.sequence);
      ASSERT_TRUE(k == 0 || (*loaded)[k - 1].sequence < record.sequence);
    }
  }
}

/// Power cuts at any time: all that was durable is there, and nothing that was never appended, and no hole.
TEST(ReadLog, PowerCuts) {
  const std::uint64_t first_seed = test::fresh_seed();
  for (int round = 0; round < test::scaled(300); ++round) {
    const std::uint64_t seed = first_seed + unsigned(round);
    SCOPED_TRACE(test::repeat_with(seed));
    base::Random random(seed);
    FaultyDisk disk(seed);
    std::map<Sequence, std::uint64_t> appended;
    Sequence after = 0, needed_from = 1, durable = 0;
    for (int life = 0; life < 3; ++life) {
      const auto log = Log::open(disk, small_log(LogMode::kPower, after));
      std::vector<std::unique_ptr<Log::Writer>> writers;
      for (int k = 0; k < 3; ++k) writers.push_back(std::make_unique<Log::Writer>(*log));
      for (int step = 0; step < 400; ++step) {
        const std::uint64_t choice = random.below(100);
        if (choice < 85) {
          std::vector<std::uint64_t> payload(1 + random.below(40), random.next());
          const auto sequence =
              log->append(*writers[random.below(3)], write_head(payload[0]), std::as_bytes(std::span(payload)));
          if (sequence.ok()) appended[*sequence] = payload[0];
        } else if (choice < 92) {
          ASSERT_TRUE(log->sync().ok());
          durable = log->durable();
          EXPECT_EQ(durable, log->last());
        } else if (choice < 95) {
          disk.write_back(random.next());
        } else if (choice < 97) {
          log->seal();
        } else if (durable + 1 >= log->first() && durable > needed_from) {
          // A checkpoint begins in its own life: what an earlier one left behind a gap is below.
          const Sequence from = needed_from + random.below(durable - needed_from + 1);
          if (from < log->first()) continue;
          needed_from = from;
          ASSERT_TRUE(log->truncate_before(needed_from).ok());
          durable = log->durable();
          ASSERT_TRUE(log->discard_old().ok());
        }
      }
      writers.clear();
      disk.crash_power(random.next());
      const LoadedLog loaded = load_all(disk, {true, needed_from});
      std::map<Sequence, std::uint64_t> found;
      for (std::size_t k = 0; k < loaded.size(); ++k) {
        const Record record = loaded[k];
        found[record.sequence] = record.head.address;
        ASSERT_EQ(word_of(record.payload), record.head.address);
      }
      for (const auto& [sequence, value] : appended) {
        if (sequence < needed_from || sequence > durable) continue;
        ASSERT_TRUE(found.contains(sequence)) << sequence << " of life " << life << " was durable up to " << durable;
      }
      for (const auto& [sequence, value] : found) ASSERT_EQ(appended.at(sequence), value);
      // The log knows by itself where it begins: who does not know the checkpoint finds as much.
      const LoadedLog alone = load_all(disk, {true});
      const std::vector<Sequence> sequences = sequences_of(alone);
      for (const auto& [sequence, value] : found) {
        if (sequence > durable) break;
        ASSERT_TRUE(std::binary_search(sequences.begin(), sequences.end(), sequence)) << sequence << " alone";
      }
      // What was lost is lost: the next life goes on from what was found.
      appended = found;
      after = loaded.highest();
      durable = after;
    }
  }
}

}  // namespace
}  // namespace atoll::log
