// Locks on ranges: who is let in, what comes with them, what they cost.
#include <chrono>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <vector>

#include "behaviour/together.hpp"

namespace atoll::test {
namespace {

using namespace std::chrono_literals;

class Locks : public Together {};

TEST_F(Locks, ExcludeWritersAndBringTheData) {
  const std::uint64_t line = node().line_bytes();
  const GlobalAddress range = shared_bytes(3 * line, NodeId(count() - 1));
  for (int i = 0; i < 150; ++i) {
    ASSERT_TRUE(node().write_lock(range + 8, 2 * line).ok());  // all three lines
    for (int part = 0; part < 3; ++part) {
      const global_ptr<std::uint64_t> word(range + std::int64_t(part * line));
      ASSERT_TRUE(node().write(word, node().read(word).value() + 1).ok());
    }
    ASSERT_TRUE(node().unlock(range + 8, 2 * line).ok());
  }
  meet();
  ASSERT_TRUE(node().read_lock(range, 3 * line).ok());
  for (int part = 0; part < 3; ++part) {
    EXPECT_EQ(node().read<std::uint64_t>(range + std::int64_t(part * line)).value(), 150u * count());
  }
  ASSERT_TRUE(node().unlock(range, 3 * line).ok());
}

TEST_F(Locks, ReadersShareThem) {
  const GlobalAddress at = shared_bytes(8);
  ASSERT_TRUE(node().read_lock(at, 8).ok());
  meet();  // everyone holds it now
  const Status refused = node().try_write_lock(at, 8);
  EXPECT_TRUE(refused.code() == Errc::kWouldDeadlock || refused.code() == Errc::kRefused) << refused.to_string();
  meet();
  ASSERT_TRUE(node().unlock(at, 8).ok());
  ASSERT_TRUE(node().write_lock(at, 8).ok());
  ASSERT_TRUE(node().unlock(at, 8).ok());
}

TEST_F(Locks, TriesAreAnsweredAtOnce) {
  ATOLL_NEEDS_NODES(2);
  for (NodeId home = 0; home < count(); ++home) {
    const std::uint64_t line = node().line_bytes();
    const GlobalAddress at = shared_bytes(4 * line, home);
    const auto last = at + std::int64_t(3 * line);
    if (id() == 0) {
      ASSERT_TRUE(node().write_lock(last, 8).ok());
    }
    meet();
    if (id() != 0) {
      EXPECT_EQ(node().try_write_lock(last, 8).code(), Errc::kRefused);
      EXPECT_EQ(node().try_read_lock(last, 8).code(), Errc::kRefused);
      EXPECT_EQ(node().try_write_lock(at, 4 * line).code(), Errc::kRefused);  // half way
      EXPECT_EQ(node().unlock(at, 4 * line).code(), Errc::kNotHeld);
    }
    meet();
    // What was locked on the way to the refusal is free.
    for (NodeId k = 0; k < count(); ++k) {
      if (id() == k) {
        EXPECT_TRUE(node().write_lock(at, 3 * line).ok());
        EXPECT_TRUE(node().unlock(at, 3 * line).ok());
      }
      meet();
    }
    if (id() == 0) {
      ASSERT_TRUE(node().unlock(last, 8).ok());
      ASSERT_TRUE(node().read_lock(last, 8).ok());
    }
    meet();
    if (id() != 0) {
      EXPECT_EQ(node().try_write_lock(last, 8).code(), Errc::kRefused);
      // A reader may be refused for a moment, by the try of another; not for ever.
      Status got;
      for (int i = 0; i < 10'000 && !(got = node().try_read_lock(last, 8)).ok(); ++i) std::this_thread::sleep_for(1ms);
      EXPECT_TRUE(got.ok()) << got.to_string();
      EXPECT_TRUE(node().unlock(last, 8).ok());
    }
    meet();
    if (id() == 0) {
      ASSERT_TRUE(node().unlock(last, 8).ok());
    }
    meet();
  }
}

TEST_F(Locks, AreCachedTheSecondTimeCostsNoMessage) {
  const std::uint64_t line = node().line_bytes();
  const GlobalAddress at = shared_bytes(4 * line, 0);
  for (NodeId k = 0; k < count(); ++k) {
    if (id() == k) {
      ASSERT_TRUE(node().write_lock(at, 4 * line).ok());
      ASSERT_TRUE(node().unlock(at, 4 * line).ok());
      const std::uint64_t before = node().stats().messages_sent;
      for (int i = 0; i < 100; ++i) {
        ASSERT_TRUE(node().write_lock(at, 4 * line).ok());
        ASSERT_TRUE(node().unlock(at, 4 * line).ok());
        ASSERT_TRUE(node().read_lock(at + 16, line).ok());
        ASSERT_TRUE(node().unlock(at + 16, line).ok());
        ASSERT_TRUE(node().try_write_lock(at, 8).ok());
        ASSERT_TRUE(node().unlock(at, 8).ok());
      }
      EXPECT_EQ(node().stats().messages_sent, before);
    }
    meet();
  }
}

TEST_F(Locks, BringTheDataOfTheirLines) {
  const std::uint64_t line = node().line_bytes();
  const GlobalAddress at = shared_bytes(4 * line, NodeId(count() - 1));
  const std::vector<std::byte> pattern(4 * line, std::byte(0x5a));
  std::vector<std::byte> content(4 * line);
  if (id() == 0) {
    ASSERT_TRUE(node().write(at, pattern).ok());
  }
  meet();
  for (NodeId k = 0; k < count(); ++k) {
    if (id() == k) {
      ASSERT_TRUE(node().write_lock(at, 4 * line).ok());
      const std::uint64_t before = node().stats().messages_sent;
      ASSERT_TRUE(node().read(at, content).ok());
      EXPECT_EQ(content, pattern);
      ASSERT_TRUE(node().write(at, pattern).ok());
      EXPECT_EQ(node().stats().messages_sent, before);
      ASSERT_TRUE(node().unlock(at, 4 * line).ok());
    }
    meet();
  }
}

TEST_F(Locks, AsGuardsAndStandardMutexes) {
  struct Account {
    std::uint64_t balance;
    char rest[4088];  // a line of its own, however long lines are
  };
  const auto accounts = shared_objects<Account>(3, NodeId(count() - 1));
  if (id() == 0) {
    for (int i = 0; i < 3; ++i)
      ASSERT_TRUE(node().write(global_ptr<std::uint64_t>((accounts + i).address()), 1000).ok());
  }
  meet();
  const auto balance = [&](int i) { return global_ptr<std::uint64_t>((accounts + i).address()); };
  for (int i = 0; i < 100; ++i) {
    const int from = i % 3, to = (i + 1 + id() % 2) % 3;
    GlobalMutex first(node(), balance(from)), second(node(), balance(to));
    {
      const std::scoped_lock both(first, second);  // std::lock: tries, and backs off
      const std::uint64_t amount = node().read(balance(from)).value() / 10;
      ASSERT_TRUE(node().write(balance(from), node().read(balance(from)).value() - amount).ok());
      ASSERT_TRUE(node().write(balance(to), node().read(balance(to)).value() + amount).ok());
    }
    if (i % 10 == 0) {
      std::unique_lock lock(first, std::defer_lock);
      EXPECT_FALSE(lock.owns_lock());
      (void)lock.try_lock();
      std::shared_lock reader(second);
      EXPECT_TRUE(reader.owns_lock());
    }
  }
  meet();
  {
    const ReadGuard guard(node(), accounts, 3);
    ASSERT_TRUE(guard.status().ok());
    std::uint64_t total = 0;
    for (int i = 0; i < 3; ++i) total += node().read(balance(i)).value();
    EXPECT_EQ(total, 3000u);
  }
  meet();
  for (int i = 0; i < 50; ++i) {
    const WriteGuard guard(node(), accounts);
    ASSERT_TRUE(guard.status().ok());
    ASSERT_TRUE(node().write(balance(0), node().read(balance(0)).value() + 1).ok());
  }
  const WriteGuard nothing(node(), GlobalAddress(), 8);
  EXPECT_EQ(nothing.status().code(), Errc::kNullAddress);
  GlobalMutex of_nothing(node(), GlobalAddress(), 8);
  EXPECT_THROW(of_nothing.lock(), Error);
  meet();
}

/// All want the lock all the time, and go on until each has had it ten times. Were it not fair, somebody would be left
/// without and the deadline would come.
TEST_F(Locks, AreFair) {
  const auto word = shared_objects<std::uint64_t>(2, 0);
  const auto done = shared_objects<std::uint64_t>(1, NodeId(count() - 1));
  constexpr int kTurns = 10;
  int mine = 0;
  meet();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (node().read(done).value() < count() && std::chrono::steady_clock::now() < deadline) {
    ASSERT_TRUE(node().write_lock(word.address(), 16).ok());
    ASSERT_TRUE(node().write(word, node().read(word).value() + 1).ok());
    ASSERT_TRUE(node().unlock(word.address(), 16).ok());
    if (++mine == kTurns) {
      ASSERT_TRUE(node().fetch_add(done, 1).ok());
    }
  }
  EXPECT_GE(mine, kTurns);
  ASSERT_TRUE(node().fetch_add(word + 1, std::uint64_t(mine)).ok());
  meet();
  EXPECT_EQ(node().read(word).value(), node().read(word + 1).value());
}

TEST_F(Locks, OfSeveralThreadsPerNode) {
  const auto word = shared_objects<std::uint64_t>();
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) {
        if ((i + t) % 3 == 0) {
          const ReadGuard guard(node(), word);
          const std::uint64_t before = node().read(word).value();
          std::this_thread::yield();
          EXPECT_EQ(node().read(word).value(), before);
        } else {
          const WriteGuard guard(node(), word);
          ASSERT_TRUE(node().write(word, node().read(word).value() + 1).ok());
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  meet();
  EXPECT_EQ(node().read(word).value(), 200u * count());
}

}  // namespace
}  // namespace atoll::test
