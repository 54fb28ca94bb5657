// Writes on a condition: one step, wherever the line is.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "support/local_cluster.hpp"
#include "wire/kinds.hpp"

namespace atoll {
namespace {

using test::LocalCluster;
using wire::Kind;

class WriteIf : public testing::Test {
 protected:
  LocalCluster cluster{3};
  Node& writer = cluster[0];
  Node& home = cluster[1];
  Node& other = cluster[2];
  global_ptr<std::uint64_t> words = home.allocate<std::uint64_t>(4 * 64).value();

  /// In a thread that has never been another node's: see "Several nodes in one process" in docs/memory-model.md.
  template <typename F>
  static void in_thread(F f) {
    std::thread(f).join();
  }
  static Result<bool> write_if(Node& node, global_ptr<std::uint64_t> guard, std::uint64_t expected,
                               std::uint64_t desired, const std::array<std::uint64_t, 2>& values) {
    Result<bool> done = false;
    in_thread([&] {
      done = node.write_if(guard, expected, desired, guard.address() + 16, std::as_bytes(std::span(values)));
    });
    return done;
  }
  [[nodiscard]] static std::array<std::uint64_t, 4> read(Node& node, global_ptr<std::uint64_t> at) {
    std::array<std::uint64_t, 4> values{};
    in_thread([&] { values = node.read<std::array<std::uint64_t, 4>>(at.address()).value(); });
    return values;
  }
  [[nodiscard]] std::uint64_t sent(Kind kind) { return writer.stats().sent_by_kind[std::size_t(kind)]; }
};

TEST_F(WriteIf, IsDoneByTheHomeAndTheLineStays) {
  EXPECT_TRUE(write_if(writer, words, 0, 7, {1, 2}).value());
  EXPECT_EQ(sent(Kind::kWriteHome), 1u);
  EXPECT_EQ(sent(Kind::kGetExclusive), 0u);
  for (Node* node : {&home, &other, &writer}) {
    EXPECT_EQ(read(*node, words), (std::array<std::uint64_t, 4>{7, 0, 1, 2}));
  }
}

TEST_F(WriteIf, ChangesNothingIfTheGuardIsAnother) {
  for (Node* node : {&writer, &home}) {
    EXPECT_FALSE(write_if(*node, words, 1, 7, {1, 2}).value());
    EXPECT_EQ(read(home, words), (std::array<std::uint64_t, 4>{}));
  }
}

TEST_F(WriteIf, IsDoneAtHomeByTheHomeItself) {
  EXPECT_TRUE(write_if(home, words, 0, 7, {1, 2}).value());
  EXPECT_EQ(read(writer, words), (std::array<std::uint64_t, 4>{7, 0, 1, 2}));
}

TEST_F(WriteIf, TakesTheLineWhereOthersHaveIt) {
  in_thread([&] { ASSERT_TRUE(other.prefetch(words, 8).ok() && other.read(words + 1).ok()); });
  in_thread([&] { ASSERT_TRUE(other.fetch_add(words + 1, 5).ok()); });  // it is dirty there now
  EXPECT_TRUE(write_if(writer, words, 0, 7, {1, 2}).value());
  EXPECT_EQ(sent(Kind::kWriteHome), 1u);  // refused
  EXPECT_EQ(read(other, words), (std::array<std::uint64_t, 4>{7, 5, 1, 2}));
  EXPECT_FALSE(write_if(other, words, 0, 8, {3, 4}).value());
  EXPECT_TRUE(write_if(other, words, 7, 8, {3, 4}).value());
  EXPECT_EQ(read(home, words), (std::array<std::uint64_t, 4>{8, 5, 3, 4}));
}

TEST_F(WriteIf, WaitsForALock) {
  std::atomic<bool> locked{false}, done{false};
  std::thread holder([&] {
    ASSERT_TRUE(home.write_lock(words.address(), 8).ok());
    locked = true;
    for (int i = 0; i < 1000; ++i) std::this_thread::yield();
    EXPECT_FALSE(done);
    ASSERT_TRUE(home.write(words, 7).ok());
    ASSERT_TRUE(home.unlock(words.address(), 8).ok());
  });
  while (!locked) std::this_thread::yield();
  EXPECT_TRUE(write_if(writer, words, 7, 8, {3, 4}).value());
  done = true;
  holder.join();
  EXPECT_EQ(read(home, words), (std::array<std::uint64_t, 4>{8, 0, 3, 4}));
}

TEST_F(WriteIf, UnderALockOfItsOwnItIsAnError) {
  const GlobalAddress at = words.address();
  for (Node* node : {&writer, &home}) {
    for (const bool writes : {false, true}) {
      in_thread([&] {
        ASSERT_TRUE((writes ? node->write_lock(at, 8) : node->read_lock(at, 8)).ok());
        const std::uint64_t value = 1;
        const auto done = node->write_if(words, 0, 7, at + 16, std::as_bytes(std::span(&value, 1)));
        EXPECT_EQ(done.status().code(), Errc::kWouldDeadlock);
        ASSERT_TRUE(node->unlock(at, 8).ok());
      });
    }
  }
}

/// The guard as a lock that the home takes by an atomic on the spot, and others by messages.
TEST_F(WriteIf, ExcludesThoseWhoCompareAndExchangeTheGuard) {
  constexpr int kEach = 20'000;
  std::atomic<int> inside{0};
  const auto use = [&] {
    EXPECT_EQ(inside.fetch_add(1), 0);
    inside.fetch_sub(1);
  };
  std::thread at_home([&] {
    for (int i = 0; i < kEach; ++i) {
      if (home.compare_exchange(words, 0, 1).value() != 0) continue;
      use();
      EXPECT_EQ(home.compare_exchange(words, 1, 0).value(), 1u);
    }
  });
  std::thread elsewhere([&] {
    for (int i = 0; i < kEach / 4; ++i) {
      const auto value = std::uint64_t(i);
      const auto bytes = std::as_bytes(std::span(&value, 1));
      if (!writer.write_if(words, 0, 2, words.address() + 16, bytes).value()) continue;
      use();
      EXPECT_TRUE(writer.write_if(words, 2, 0, words.address() + 16, bytes).value());
    }
  });
  at_home.join();
  elsewhere.join();
}

TEST_F(WriteIf, RefusesWhatCannotBe) {
  in_thread([&] {
    const std::array<std::byte, 17> bytes{};
    const auto code = [&](GlobalAddress guard, GlobalAddress at, std::size_t size) {
      return writer.write_if(global_ptr<std::uint64_t>(guard), 0, 1, at, std::span(bytes).first(size)).status().code();
    };
    const GlobalAddress at = words.address();
    EXPECT_EQ(code(at, at + 8, 17), Errc::kInvalidArgument);
    EXPECT_EQ(code(at, at + 8, 0), Errc::kInvalidArgument);
    EXPECT_EQ(code(at + 4, at + 16, 8), Errc::kInvalidArgument);
    EXPECT_EQ(code(at, at + 7, 8), Errc::kInvalidArgument);
    EXPECT_EQ(code(at + 8, at, 9), Errc::kInvalidArgument);
    EXPECT_EQ(code(at, at + 508, 8), Errc::kInvalidArgument);
    EXPECT_EQ(code(at, at + 512, 8), Errc::kInvalidArgument);
    EXPECT_EQ(code(GlobalAddress(), at, 8), Errc::kNullAddress);
    EXPECT_EQ(code(GlobalAddress::make(9, 4096), at, 8), Errc::kBadAddress);
    EXPECT_EQ(code(at + 8, at, 8), Errc::kOk);  // before the guard
    EXPECT_EQ(code(at + 16, at + 501, 11), Errc::kOk);
  });
}

/// Each adds to the guard and keeps the words behind it in step; nobody's step is lost, nobody sees half of one.
TEST_F(WriteIf, ThreadsOfAllNodesCountTogether) {
  constexpr std::uint64_t kEach = 2000;
  std::vector<std::thread> threads;
  for (Node* node : {&writer, &home, &other, &writer}) {
    threads.emplace_back([node, this] {
      for (std::uint64_t done = 0; done < kEach;) {
        const std::uint64_t found = node->read(words).value();
        const std::array<std::uint64_t, 2> next{(found + 1) * 3, (found + 1) * 5};
        if (found >> 63 != 0) continue;
        if (node->write_if(words, found, found + 1, words.address() + 16, std::as_bytes(std::span(next))).value())
          ++done;
        std::array<std::uint64_t, 2> seen{};
        const std::uint64_t before = node->read(words).value();
        node->read_words(words.address() + 16, std::as_writable_bytes(std::span(seen))).or_throw();
        if (before >> 63 == 0 && node->read(words).value() == before) {
          ASSERT_EQ(seen, (std::array<std::uint64_t, 2>{before * 3, before * 5}));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(read(home, words), (std::array<std::uint64_t, 4>{4 * kEach, 0, 4 * kEach * 3, 4 * kEach * 5}));
}

}  // namespace
}  // namespace atoll
