// A log that does not fit its node, and disks that are full or fail: everybody gets an answer, and nothing is lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <thread>
#include <vector>

#include "log/log.hpp"
#include "support/local_cluster.hpp"
#include "support/logged_cluster.hpp"

namespace atoll {
namespace {

using storage::Operation;
using test::LoggedCluster;
using testing::HasSubstr;

std::string why_not(const Options& options, storage::Disk* disk, NodeId self = 0, NodeId nodes = 1) {
  try {
    auto borrowed = disk == nullptr ? nullptr : std::make_unique<test::BorrowedDisk>(*disk);
    const runtime::Runtime runtime(
        options, std::make_unique<test::ReturningMembership>(std::make_shared<test::ReturningHub>(nodes), self),
        runtime::make_transport(options), base::Host::real(), std::move(borrowed));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

Options logged(LogMode mode = LogMode::kProcess) {
  Options options = LoggedCluster::small_options();
  options.log = mode;
  return options;
}

TEST(LogOptions, ALogNeedsADirectory) {
  EXPECT_THAT(why_not(logged(), nullptr), HasSubstr("--log-dir"));
}

TEST(LogOptions, TheLogMustHaveRoomForTheCache) {
  storage::FaultyDisk disk;
  Options options = logged();
  options.cache_bytes = 4 << 20;
  EXPECT_THAT(why_not(options, &disk), HasSubstr("--log-size"));
  options.log_bytes = 64 << 20;
  EXPECT_EQ(why_not(options, &disk), "");
  EXPECT_THAT(why_not(options, &disk), HasSubstr("--recover"));
}

TEST(LogOptions, TheDefaultsFitEachOther) {
  storage::FaultyDisk disk;
  Options options;
  options.log = LogMode::kProcess;
  options.memory_bytes = 1 << 20;
  EXPECT_EQ(why_not(options, &disk), "");
}

TEST(LogOptions, LinesOfAnySizeDo) {
  for (const std::uint32_t line : {64u, 128u, 4096u}) {
    Options options = LoggedCluster::small_options();
    options.line_bytes = line;
    options.cache_bytes = 64 * line;
    options.log_bytes = 16 << 20;
    LoggedCluster cluster(1, LogMode::kProcess, options);
    GlobalAddress at;
    const std::vector<std::byte> bytes(20000, std::byte{5});
    cluster.on(0, [&](Node& node) {
      at = node.allocate(20000).value();
      node.write(at, bytes).or_throw();
    });
    cluster.crash_all();
    cluster.on(0, [&](Node& node) {
      std::vector<std::byte> found(20000);
      node.read(at, found).or_throw();
      EXPECT_EQ(found, bytes);
    });
  }
}

TEST(LogOptions, TheLogOfAnotherNodeOrShapeIsRefused) {
  storage::FaultyDisk disk;
  Options options = logged();
  ASSERT_EQ(why_not(options, &disk), "");
  options.recover = true;
  EXPECT_THAT(why_not(options, &disk, 1, 2), HasSubstr("node 0"));
  ASSERT_EQ(why_not(options, &disk), "");  // has a checkpoint from here on
  EXPECT_THAT(why_not(options, &disk, 1, 2), HasSubstr("node 0"));
  options.memory_bytes = 4 << 20;
  EXPECT_THAT(why_not(options, &disk), HasSubstr("the checkpoint is of a node with"));
  options.memory_bytes = 2 << 20;
  EXPECT_EQ(why_not(options, &disk), "");
}

/// What one mode has written the other reads as it was written: a gap means another thing in each.
TEST(LogOptions, TheModeMayChange) {
  LoggedCluster cluster(1, LogMode::kProcess);
  global_ptr<std::uint64_t> word;
  cluster.on(0, [&](Node& node) { word = node.allocate<std::uint64_t>().value(); });
  std::uint64_t expected = 0;
  for (const LogMode mode : {LogMode::kPower, LogMode::kProcess, LogMode::kPower}) {
    cluster.on(0, [&](Node& node) { expected = node.fetch_add(word, 3).value() + 3; });
    cluster.crash(0, expected);
    cluster.options().log = mode;
    cluster.restart(0);
    cluster.on(0, [&](Node& node) { EXPECT_EQ(node.read(word).value(), expected); });
  }
}

int logs_on(storage::Disk& disk) {
  const std::vector<std::string> names = disk.list().value();
  return int(
      std::count_if(names.begin(), names.end(), [](const std::string& name) { return name.starts_with("log"); }));
}

/// The disk has no room for two logs, and none is left by a recovery that fails.
TEST(LogFailures, ARecoveryNeedsRoomForOneLog) {
  for (const LogMode mode : {LogMode::kProcess, LogMode::kPower}) {
    LoggedCluster cluster(1, mode);
    cluster.disk().set_capacity(cluster.options().log_bytes + cluster.options().memory_bytes + (1 << 20));
    global_ptr<std::uint64_t> word;
    cluster.on(0, [&](Node& node) { word = node.allocate<std::uint64_t>().value(); });
    for (std::uint64_t life = 1; life < 5; ++life) {
      cluster.on(0, [&](Node& node) { EXPECT_EQ(node.fetch_add(word, 1).value(), life - 1); });
      cluster.crash(0, life);
      Options larger = cluster.options();
      larger.recover = true;
      larger.log_bytes *= 2;
      for (int k = 0; k < 3; ++k)
        EXPECT_THAT(why_not(larger, &cluster.disk()),
                    HasSubstr("space for log-new: No space left on device (a log of"));
      EXPECT_EQ(logs_on(cluster.disk()), 1);
      cluster.restart(0);
    }
  }
}

/// What a node asks for is known by a number that it never gives twice, also where recoveries fail in between.
TEST(LogFailures, GenerationsOnlyRise) {
  LoggedCluster cluster(1);
  std::uint64_t last = 1;
  for (std::uint64_t n = 1; n < 40; ++n) {
    cluster.crash(0);
    Options options = cluster.options();
    options.recover = true;
    cluster.disk().fail_from(n);
    (void)why_not(options, &cluster.disk());
    cluster.disk().crash_process();
    cluster.restart(0);
    const std::vector<std::string> names = cluster.disk().list().value();
    const auto found =
        std::find_if(names.begin(), names.end(), [](const auto& name) { return log::generation_of(name) != 0; });
    ASSERT_NE(found, names.end());
    EXPECT_GT(log::generation_of(*found), last);
    last = log::generation_of(*found);
  }
}

/// A start that fails leaves no half of a log.
TEST(LogFailures, AFirstStartThatDoesNotFitLeavesNothing) {
  storage::FaultyDisk disk;
  disk.set_capacity(1 << 20);
  EXPECT_THAT(why_not(logged(), &disk), HasSubstr("space for log-new: No space left on device (a log of"));
  EXPECT_EQ(logs_on(disk), 0);
  disk.set_capacity(UINT64_MAX);
  EXPECT_EQ(why_not(logged(), &disk), "");
}

/// The process ends at each operation of the disk while it recovers; the next one recovers all the same.
TEST(LogFailures, ARecoveryThatFailsHalfWayIsDoneAgain) {
  for (const LogMode mode : {LogMode::kProcess, LogMode::kPower}) {
    for (std::uint64_t n = 1; n < 200; ++n) {
      LoggedCluster cluster(1, mode);
      GlobalAddress at;
      const std::vector<std::byte> bytes(10000, std::byte{5});
      cluster.on(0, [&](Node& node) {
        at = node.allocate(10000).value();
        node.write(at, bytes).or_throw();
        node.publish("bytes", at).or_throw();
      });
      cluster.crash(0, n);
      cluster.hub().revive(0);
      cluster.disk().fail_from(n);
      Options options = cluster.options();
      options.recover = true;
      const bool failed = !why_not(options, &cluster.disk()).empty();
      cluster.disk().fail_operation(0);
      EXPECT_LE(logs_on(cluster.disk()), 1) << n;
      if (mode == LogMode::kPower) {
        cluster.disk().crash_power(n);
      } else {
        cluster.disk().crash_process();
      }
      cluster.restart(0);
      cluster.on(0, [&](Node& node) {
        std::vector<std::byte> found(10000);
        node.read(at, found).or_throw();
        EXPECT_EQ(found, bytes) << n;
        EXPECT_EQ(node.lookup("bytes", std::chrono::seconds(0)).value(), at);
        EXPECT_NE(node.allocate(10000).value(), at);
      });
      if (!failed) break;
      ASSERT_LT(n, 199u);
    }
  }
}

/// Writes until it does not go on any more; the status that it got.
Status write_until_refused(Node& node, GlobalAddress at, std::uint64_t bytes, std::uint64_t& rounds) {
  std::vector<std::byte> from(bytes);
  for (; rounds < 100'000; ++rounds) {
    from.assign(bytes, std::byte(rounds));
    if (const Status status = node.write(at, from); !status.ok()) return status;
  }
  return {};
}

TEST(LogFailures, AFullDiskIsReportedAndLeftBehind) {
  LoggedCluster cluster(1);
  GlobalAddress at, word;
  cluster.on(0, [&](Node& node) {
    at = node.allocate(1 << 20).value();
    word = node.allocate(64).value();
    node.register_atomic("set",
                         [](std::span<std::byte> to, std::span<const std::byte> with) {
                           std::copy(with.begin(), with.end(), to.begin());
                         })
        .or_throw();
  });
  cluster.disk().set_capacity(cluster.options().log_bytes);  // no room for any page of a checkpoint
  std::uint64_t rounds = 0;
  cluster.on(0, [&](Node& node) {
    EXPECT_EQ(write_until_refused(node, at, 100'000, rounds).code(), Errc::kStorageFull);
    // Whatever is logged gets the same answer, again and again, and what is kept for the engine stays.
    const std::vector<std::byte> some(4096, std::byte{1});
    for (int i = 0; i < 5000; ++i) {
      EXPECT_EQ(node.fetch_add(global_ptr<std::uint64_t>(word), 1).status().code(), Errc::kStorageFull);
      EXPECT_EQ(node.atomic(at, 512, "set", std::span(some).first(512)).code(), Errc::kStorageFull);
      EXPECT_EQ(node.allocate(64).status().code(), Errc::kStorageFull);
      EXPECT_EQ(node.free(word).code(), Errc::kStorageFull);
      EXPECT_EQ(node.publish("word", word).code(), Errc::kStorageFull);
      if (testing::Test::HasFailure()) return;
    }
    EXPECT_TRUE(node.read<std::uint64_t>(at).ok());
  });
  cluster.disk().set_capacity(UINT64_MAX);
  cluster.on(0, [&](Node& node) {
    while (node.fetch_add(global_ptr<std::uint64_t>(word), 1).status().code() == Errc::kStorageFull) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    node.write(at, std::vector<std::byte>(100'000, std::byte{9})).or_throw();
    node.fence().or_throw();
    EXPECT_GE(node.stats().checkpoints, 1u);
  });
  cluster.crash_all();
  cluster.on(0, [&](Node& node) {
    std::vector<std::byte> found(100'000);
    node.read(at, found).or_throw();
    EXPECT_EQ(found, std::vector<std::byte>(100'000, std::byte{9}));
    EXPECT_EQ(node.read<std::uint64_t>(word).value(), 1u);
  });
}

TEST(LogFailures, AThreadWaitsForTheCheckpointAndGoesOn) {
  LoggedCluster cluster(1);
  cluster.on(0, [&](Node& node) {
    const GlobalAddress at = node.allocate(1 << 20).value();
    const std::vector<std::byte> from(100'000, std::byte{1});
    for (int i = 0; i < 500; ++i) node.write(at, from).or_throw();  // six times the log
    EXPECT_GE(node.stats().checkpoints, 4u);
  });
}

TEST(LogFailures, ASyncThatFailsIsToldToAllWhoWait) {
  for (int round = 0; round < 5; ++round) {
    LoggedCluster cluster(1, LogMode::kPower);
    global_ptr<std::uint64_t> words;
    cluster.on(0, [&](Node& node) { words = node.allocate<std::uint64_t>(1024).value(); });
    std::vector<std::thread> threads;
    std::array<Errc, 3> codes{};
    std::array<std::uint64_t, 3> told{};
    for (std::size_t t = 0; t < codes.size(); ++t) {
      threads.emplace_back([&, t] {
        while (codes[t] == Errc::kOk) {
          const auto done = cluster[0].fetch_add(words + std::int64_t(64 * t), 1);
          codes[t] = done.status().code();
          if (done.ok()) told[t] = *done + 1;
        }
      });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    cluster.disk().fail_next(Operation::kSync);
    for (auto& thread : threads) thread.join();
    for (const Errc code : codes) EXPECT_EQ(code, Errc::kStorage);
    cluster.on(0, [&](Node& node) {
      EXPECT_EQ(node.write(words, 1).ok() ? node.fence().code() : Errc::kStorage, Errc::kStorage);
    });
    cluster.crash_all(std::uint64_t(round));
    cluster.on(0, [&](Node& node) {
      for (std::size_t t = 0; t < codes.size(); ++t) {
        const std::uint64_t found = node.read(words + std::int64_t(64 * t)).value();
        EXPECT_GE(found, told[t]);
        EXPECT_LE(found, told[t] + 1);
      }
    });
  }
}

/// The others have what it acknowledged, and wait for it as for one that crashed.
TEST(LogFailures, ANodeWhoseDiskFailsIsAsGoodAsDead) {
  LoggedCluster cluster(2, LogMode::kPower);
  global_ptr<std::uint64_t> theirs, own;
  cluster.on(0, [&](Node& node) {
    theirs = node.allocate<std::uint64_t>(512).value();
    own = theirs + 64;
    node.write(own, 1).or_throw();
    node.fence().or_throw();
  });
  cluster.on(1, [&](Node& node) {
    node.write(theirs, 5).or_throw();
    node.fence().or_throw();
  });
  cluster.disk(0).fail_next(Operation::kSync);
  cluster.on(0, [&](Node& node) {
    node.write(own, 2).or_throw();
    EXPECT_EQ(node.fence().code(), Errc::kStorage);
    // The last line that comes home before the node has noticed is not acknowledged.
    const auto last = node.read(theirs);
    EXPECT_TRUE(last.ok() ? *last == 5 : last.status().code() == Errc::kStorage) << last.status().to_string();
    EXPECT_EQ(node.fetch_add(own, 1).status().code(), Errc::kStorage);
  });
  std::uint64_t found = 0;
  std::thread reader([&] { found = cluster[1].read(own).value(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  cluster.crash(0, 1);
  cluster.restart(0);
  reader.join();
  EXPECT_TRUE(found == 1 || found == 2) << found;
  cluster.crash_all(2);
  cluster.on_all([&](Node& node) {
    EXPECT_EQ(node.read(theirs).value(), 5u);
    EXPECT_EQ(node.read(own).value(), found);
  });
}

/// The grant that the home takes back, because its owner never heard of it, is of no node when the home dies next.
TEST(LogFailures, WhoIsShownALineThatCameBackUnwrittenIsKnown) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    LoggedCluster cluster(3, LogMode::kPower);
    global_ptr<std::uint64_t> word, other;
    cluster.on(0, [&](Node& node) {
      word = node.allocate<std::uint64_t>(512).value();
      other = node.allocate<std::uint64_t>(512).value();
      node.write(word, 7).or_throw();
      node.fence().or_throw();
    });
    cluster.on(2, [&](Node& node) { node.write_lock(word.address(), 8).or_throw(); });  // and writes nothing
    cluster.on(0, [&](Node& node) {
      node.write(other, 1).or_throw();
      node.fence().or_throw();
    });
    cluster.crash(2, seed);
    cluster.restart(2);
    cluster.on(1, [&](Node& node) { EXPECT_EQ(node.read(word).value(), 7u); });
    cluster.crash(0, seed);
    cluster.restart(0);
    cluster.on_all([&](Node& node) { EXPECT_EQ(node.read(word).value(), 7u) << seed; });
  }
}

TEST(LogFailures, ACheckpointThatCannotBeWrittenEndsTheNode) {
  LoggedCluster cluster(1);
  GlobalAddress at;
  std::uint64_t rounds = 0, written = 0;
  cluster.on(0, [&](Node& node) {
    at = node.allocate(1 << 20).value();
    std::vector<std::byte> from(100'000, std::byte{1});
    node.write(at, from).or_throw();
    cluster.disk().fail_next(Operation::kWrite);
    EXPECT_EQ(write_until_refused(node, at, 100'000, rounds).code(), Errc::kStorage);
    EXPECT_EQ(node.read<std::uint64_t>(at).status().code(), Errc::kStorage);
  });
  cluster.crash_all();
  cluster.on(0, [&](Node& node) {
    std::vector<std::byte> found(100'000);
    node.read(at, found).or_throw();
    written = std::uint64_t(found[0]);
    EXPECT_GE(written + 1, (rounds - 1) % 256);
  });
}

/// Pages fit, but not what a checkpoint has beside them: however often it is tried, what the log keeps for it stays.
TEST(LogFailures, ACheckpointWhoseNamesDoNotFitIsMadeLater) {
  LoggedCluster cluster(2);
  GlobalAddress own, theirs;
  cluster.on(0, [&](Node& node) { theirs = node.allocate(60 * 512).value(); });
  const std::vector<std::byte> from(100'000, std::byte{1});
  cluster.on(1, [&](Node& node) {
    own = node.allocate(1 << 20).value();
    while (node.stats().checkpoints < 4) node.write(own, from).or_throw();
    node.write(theirs, std::vector<std::byte>(40 * 512, std::byte{2})).or_throw();
    node.fence().or_throw();
  });
  cluster.disk(1).set_capacity(cluster.disk(1).allocated_bytes());
  cluster.on(1, [&](Node& node) {
    for (int i = 0; i < 200; ++i) (void)node.publish("a name that makes the names longer " + std::to_string(i), own);
    int refused = 0;
    for (int i = 0; i < 2000 && refused < 20; ++i) {
      const Status status = node.write(own, from);
      if (status.ok()) continue;
      EXPECT_EQ(status.code(), Errc::kStorageFull);
      ++refused;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    EXPECT_EQ(refused, 20);
    cluster.disk(1).set_capacity(UINT64_MAX);
    while (node.write(own, from).code() == Errc::kStorageFull)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  });
  cluster.crash_all();
  cluster.on(1, [&](Node& node) {
    std::vector<std::byte> found(40 * 512);
    node.read(theirs, found).or_throw();
    EXPECT_EQ(found, std::vector<std::byte>(40 * 512, std::byte{2}));
  });
}

/// What stands in a pinned line cannot be taken back: nobody gets it before the log has room.
TEST(LogFailures, APinWaitsForRoomInTheLog) {
  LoggedCluster cluster(1);
  GlobalAddress at, pinned;
  cluster.on(0, [&](Node& node) {
    at = node.allocate(1 << 20).value();
    pinned = node.allocate(512).value();
  });
  cluster.options().recovery_wait = std::chrono::milliseconds(50);
  cluster.disk().set_capacity(cluster.options().log_bytes);
  std::atomic<bool> has_pin{false}, is_over{false};
  std::thread holder([&] {
    Node& node = cluster[0];
    std::byte* const bytes = node.pin(pinned, 8, LockMode::kWrite).value();
    has_pin = true;
    while (!is_over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    bytes[0] = std::byte{42};
    EXPECT_TRUE(node.unlock(pinned, 8).ok());
  });
  while (!has_pin) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  cluster.on(0, [&](Node& node) {
    std::uint64_t rounds = 0;
    EXPECT_EQ(write_until_refused(node, at, 100'000, rounds).code(), Errc::kStorageFull);
    while (node.fetch_add(global_ptr<std::uint64_t>(at), 1).ok()) {
    }
  });
  is_over = true;
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  cluster.on(0, [&](Node& node) { EXPECT_EQ(node.try_write_lock(pinned, 8).code(), Errc::kRefused); });
  cluster.disk().set_capacity(UINT64_MAX);
  holder.join();
  cluster.crash_all();
  cluster.on(0, [&](Node& node) { EXPECT_EQ(node.read<std::uint8_t>(pinned).value(), 42); });
}

/// A node that reads no messages because its log is full complains of nobody, and nobody complains of it.
TEST(LogFailures, AFullLogIsNoSilence) {
  LoggedCluster cluster(2);
  GlobalAddress at, lines;
  cluster.on(1, [&](Node& node) {
    at = node.allocate(1 << 20).value();
    lines = node.allocate(512 * 512).value();
  });
  cluster.set_lease(std::chrono::seconds(1));  // half of which without a word is a reason to complain
  cluster.crash_all();
  cluster.disk(1).set_capacity(cluster.options().log_bytes);
  cluster.on(1, [&](Node& node) {
    std::uint64_t rounds = 0;
    EXPECT_EQ(write_until_refused(node, at, 100'000, rounds).code(), Errc::kStorageFull);
  });
  std::atomic<std::uint64_t> written{0};
  std::thread writer([&] {  // each line that it takes, and gives back, is in the log of node 1, until that has no room
    for (int i = 0; i < 40'000; ++i) {
      const Status status = cluster[0].write(lines + std::int64_t(512 * (i % 512)), std::uint64_t(i));
      if (!status.ok() || !cluster[0].fence().ok()) return;
      ++written;
    }
  });
  std::uint64_t before = 0;
  do {
    before = written;
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  } while (written != before);
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  EXPECT_EQ(cluster.hub().complaints_, 0);
  EXPECT_LT(written, 40'000u);
  cluster.disk(1).set_capacity(UINT64_MAX);
  writer.join();
  EXPECT_EQ(written, 40'000u);
}

TEST(LogDirectory, IsUsedByOneNodeAtATimeAndLeftBehind) {
  const std::filesystem::path directory =
      std::filesystem::path(testing::TempDir()) / ("atoll-logged-" + std::to_string(::getpid()));
  Options options = logged();
  options.log_dir = directory / "node";
  global_ptr<std::uint64_t> word;
  {
    test::LocalCluster cluster(1, options);
    word = cluster[0].allocate<std::uint64_t>().value();
    cluster[0].write(word, 77).or_throw();
    EXPECT_NE(why_not(options, nullptr), "");
  }
  EXPECT_THAT(why_not(options, nullptr), HasSubstr("--recover"));
  options.recover = true;
  {
    test::LocalCluster cluster(1, options);
    EXPECT_EQ(cluster[0].read(word).value(), 77u);
  }
  // Who empties it is found out.
  for (const auto& entry : std::filesystem::directory_iterator(directory / "node")) {
    std::filesystem::remove(entry.path());
  }
  EXPECT_THAT(why_not(options, nullptr), HasSubstr("both are missing"));
  options.recover = false;
  EXPECT_EQ(why_not(options, nullptr), "");
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace atoll
