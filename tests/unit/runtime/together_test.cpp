// Writes of several lines at once: others see all of them or none, and a crash leaves all or none.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "support/local_cluster.hpp"
#include "support/logged_cluster.hpp"
#include "support/seed.hpp"

namespace atoll {
namespace {

using test::LocalCluster;
using test::LoggedCluster;
using Word = global_ptr<std::uint64_t>;

std::span<const std::byte> bytes_of(const std::uint64_t& value) {
  return std::as_bytes(std::span(&value, 1));
}
std::span<const std::byte> bytes_of(std::uint64_t&&) = delete;  // it would be gone before it is written

/// The same value at all of these places.
Status write_all(Node& node, const std::vector<Word>& words, std::uint64_t value) {
  std::vector<WritePart> parts;
  for (const Word word : words) parts.push_back({word.address(), bytes_of(value)});
  return node.write_together(parts);
}

class Together : public testing::Test {
 protected:
  LocalCluster cluster{2};
  Node& here = cluster[0];
  Node& there = cluster[1];
  GlobalAddress own = here.allocate(4096).value();
  GlobalAddress far = there.allocate(4096).value();

  template <typename F>
  static void in_thread(F f) {
    std::thread(f).join();
  }
  /// In a thread that has never been another node's.
  [[nodiscard]] std::vector<std::uint64_t> read(Node& node, GlobalAddress at, std::size_t count) {
    std::vector<std::uint64_t> found(count);
    in_thread([&] { node.read(at, std::as_writable_bytes(std::span(found))).or_throw(); });
    return found;
  }
  [[nodiscard]] Status write(std::vector<WritePart> parts) {
    Status status;
    in_thread([&] { status = here.write_together(parts); });
    return status;
  }
};

TEST_F(Together, GoesAnywhere) {
  const std::array<std::uint64_t, 2> both{1, 2};
  const auto pair = std::as_bytes(std::span(both));
  ASSERT_TRUE(write({{far + 64, pair}, {own, pair}, {far + 504, pair}, {own + 3, pair.first(3)}}).ok());
  for (Node* node : {&here, &there}) {
    EXPECT_EQ(read(*node, far + 64, 2), (std::vector<std::uint64_t>{1, 2}));
    EXPECT_EQ(read(*node, far + 504, 2), (std::vector<std::uint64_t>{1, 2}));  // over the end of a line
    EXPECT_EQ(read(*node, own, 2), (std::vector<std::uint64_t>{1 + (1 << 24), 2}));
  }
}

TEST_F(Together, TheLaterPartCountsWhereTwoOverlap) {
  const std::array<std::uint64_t, 4> first{1, 1, 1, 1};
  const std::array<std::uint64_t, 2> second{2, 2};
  const std::span<const std::byte> a = std::as_bytes(std::span(first)), b = std::as_bytes(std::span(second));
  ASSERT_TRUE(write({{own, a}, {own + 8, b}, {far + 8, b}, {far, a}}).ok());
  EXPECT_EQ(read(there, own, 4), (std::vector<std::uint64_t>{1, 2, 2, 1}));
  EXPECT_EQ(read(there, far, 4), (std::vector<std::uint64_t>{1, 1, 1, 1}));
}

TEST_F(Together, ChangesNothingWhenOnePartIsBad) {
  const std::uint64_t one = 1;
  EXPECT_EQ(write({{own, bytes_of(one)}, {GlobalAddress(), bytes_of(one)}}).code(), Errc::kNullAddress);
  EXPECT_EQ(write({{own, bytes_of(one)}, {GlobalAddress::make(0, 4 << 20), bytes_of(one)}}).code(), Errc::kBadAddress);
  EXPECT_EQ(write({{own, bytes_of(one)}, {GlobalAddress::make(7, 8192), bytes_of(one)}}).code(), Errc::kBadAddress);
  EXPECT_EQ(read(there, own, 1)[0], 0u);
  EXPECT_TRUE(write({}).ok());
  EXPECT_TRUE(write({{own, {}}}).ok());
}

TEST_F(Together, IsRefusedUnderALockOfOnesOwnAndLeavesNoneBehind) {
  const std::uint64_t one = 1;
  in_thread([&] {
    for (const LockMode mode : {LockMode::kRead, LockMode::kWrite}) {
      (mode == LockMode::kRead ? here.read_lock(far, 8) : here.write_lock(far, 8)).or_throw();
      const std::vector<WritePart> parts{{own, bytes_of(one)}, {far + 8, bytes_of(one)}};
      EXPECT_EQ(here.write_together(parts).code(), Errc::kWouldDeadlock);
      here.unlock(far, 8).or_throw();
    }
  });
  EXPECT_EQ(read(there, own, 1)[0], 0u);
  in_thread([&] {  // both are free
    there.try_write_lock(own, 8).or_throw();
    there.try_write_lock(far, 8).or_throw();
    there.unlock(own, 8).or_throw();
    there.unlock(far, 8).or_throw();
  });
}

TEST_F(Together, NeedsACacheThatHoldsAllOfItsLines) {
  GlobalAddress many;
  in_thread([&] { many = there.allocate(100 * 512).value(); });
  const std::uint64_t one = 1;
  std::vector<WritePart> parts{{own, bytes_of(one)}};
  for (int i = 0; i < 100; ++i) parts.push_back({many + 512 * i, bytes_of(one)});
  EXPECT_EQ(write(parts).code(), Errc::kCacheFull);
  EXPECT_EQ(read(there, own, 1)[0], 0u);
  parts.resize(40);
  EXPECT_TRUE(write(parts).ok());
  EXPECT_EQ(read(there, many, 1)[0], 1u);
}

/// Nodes that write all of several words, in several lines of both; nobody sees another node's half done.
TEST_F(Together, OthersSeeAllOrNothing) {
  const std::vector<Word> words{Word(own), Word(far), Word(own + 512), Word(far + 1024), Word(own + 8)};
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> seen{0};
  std::thread writer([&] {
    for (std::uint64_t i = 1; i <= 2000; ++i) write_all(here, words, i).or_throw();
    stop = true;
  });
  std::thread reader([&] {
    while (!stop) {
      std::uint64_t least = 0;  // in the order of addresses each is as new as the one before it, or newer
      for (const Word word : words) {
        const std::uint64_t found = there.read(word).value();
        EXPECT_GE(found, least);
        least = found;
        if (found != 0) ++seen;
      }
    }
  });
  writer.join();
  reader.join();
  EXPECT_GT(seen, 0u);
}

/// Two nodes and two threads of each write all words, in different orders: at the end all are the same.
TEST_F(Together, WritersExcludeEachOther) {
  std::vector<Word> words{Word(own), Word(far), Word(own + 512), Word(far + 512)};
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t, mine = words]() mutable {
      std::minstd_rand random(unsigned(t + 1));
      for (std::uint64_t i = 0; i < 500; ++i) {
        std::shuffle(mine.begin(), mine.end(), random);
        write_all(t % 2 == 0 ? here : there, mine, 1000 * t + i).or_throw();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  const std::uint64_t value = read(here, own, 1)[0];
  for (const Word word : words) EXPECT_EQ(read(there, word.address(), 1)[0], value);
}

// ---- with a log ----

class LoggedTogether : public testing::TestWithParam<LogMode> {
 protected:
  LoggedCluster cluster{2, GetParam()};
  std::vector<Word> words;  // each in a line of its own, of both nodes in turn

  void SetUp() override {
    for (int i = 0; i < 6; ++i) {
      cluster.on(NodeId(i % 2), [&](Node& node) { words.push_back(node.allocate<std::uint64_t>(64).value()); });
    }
  }
  [[nodiscard]] std::vector<std::uint64_t> read(NodeId on) {
    std::vector<std::uint64_t> found;
    cluster.on(on, [&](Node& node) {
      for (const Word word : words) found.push_back(node.read(word).value());
    });
    return found;
  }
  [[nodiscard]] static std::vector<std::uint64_t> all(std::uint64_t value) {
    return std::vector<std::uint64_t>(6, value);
  }
};

INSTANTIATE_TEST_SUITE_P(Modes, LoggedTogether, testing::Values(LogMode::kProcess, LogMode::kPower),
                         [](const auto& test) { return test.param == LogMode::kPower ? "Power" : "Process"; });

TEST_P(LoggedTogether, ComesBackWhoeverDies) {
  std::uint64_t value = 0;
  for (const std::vector<NodeId>& die : std::vector<std::vector<NodeId>>{{0}, {1}, {0, 1}}) {
    for (const NodeId by : {NodeId(0), NodeId(1), NodeId(0)}) {
      ++value;
      cluster.on(by, [&](Node& node) { write_all(node, words, value).or_throw(); });
    }
    if (die.size() == 2) {
      cluster.crash_all(value);
    } else {
      cluster.crash(die[0], value);
      cluster.restart(die[0]);
    }
    EXPECT_EQ(read(0), all(value));
    EXPECT_EQ(read(1), all(value));
  }
}

TEST_P(LoggedTogether, OtherWritesOfTheLinesStayInOrder) {
  cluster.on(0, [&](Node& node) {
    node.write(words[0] + 1, 5).or_throw();
    node.write(words[1] + 1, 5).or_throw();
    write_all(node, words, 1).or_throw();
    node.write(words[0], 7).or_throw();
    node.write(words[1], 7).or_throw();
    node.fetch_add(words[3], 10).status().or_throw();
    node.fence().or_throw();
  });
  cluster.crash_all(1);
  EXPECT_EQ(read(1), (std::vector<std::uint64_t>{7, 7, 1, 11, 1, 1}));
  cluster.on(0, [&](Node& node) {
    EXPECT_EQ(node.read(words[0] + 1).value(), 5u);
    EXPECT_EQ(node.read(words[1] + 1).value(), 5u);
  });
}

TEST_P(LoggedTogether, WhatDoesNotFitABlockOfTheLogIsRefused) {
  GlobalAddress many;
  cluster.on(0, [&](Node& node) { many = node.allocate(512 << 10).value(); });
  const std::vector<std::byte> from(300 << 10, std::byte{1});
  cluster.on(0, [&](Node& node) {
    const std::vector<WritePart> parts{{words[0].address(), std::span(from).first(8)}, {many, from}};
    EXPECT_EQ(node.write_together(parts).code(), Errc::kInvalidArgument);
    EXPECT_EQ(node.read(words[0]).value(), 0u);
    const std::vector<WritePart> less{{many + 3, std::span(from).first(100'000)}};
    node.write_together(less).or_throw();
  });
  cluster.crash_all(1);
  cluster.on(1, [&](Node& node) {
    std::vector<std::byte> found(100'005);
    node.read(many + 1, found).or_throw();
    EXPECT_EQ(found[1], std::byte{0});
    EXPECT_TRUE(std::all_of(found.begin() + 2, found.end() - 3, [](std::byte b) { return b == std::byte{1}; }));
    EXPECT_EQ(found[100'002], std::byte{0});
  });
}

TEST_P(LoggedTogether, WaitsForTheCheckpointWhenTheLogIsFull) {
  GlobalAddress at;
  cluster.on(0, [&](Node& node) { at = node.allocate(100'000).value(); });
  std::vector<std::byte> from(60'000);
  const std::uint64_t seven = 7;
  cluster.on(1, [&](Node& node) {  // whose cache has 64 lines of 512 bytes
    for (int i = 1; i <= 600; ++i) {
      std::fill(from.begin(), from.end(), std::byte(i));
      const std::vector<WritePart> parts{{at, std::span(from).first(20'000)}, {words[1].address(), bytes_of(seven)}};
      node.write_together(parts).or_throw();
    }
    EXPECT_GE(node.stats().checkpoints, 1u);
  });
  cluster.crash_all(2);
  cluster.on(0, [&](Node& node) {
    std::vector<std::byte> found(20'001);
    node.read(at, found).or_throw();
    EXPECT_EQ(found[0], std::byte(600 & 0xff));
    EXPECT_EQ(found[19'999], std::byte(600 & 0xff));
    EXPECT_EQ(found[20'000], std::byte{0});
  });
}

/// Threads of both nodes write all of the words, and one or both nodes end at any moment.
TEST_P(LoggedTogether, IsThereWholeOrNotAtAllAfterAnyCrash) {
  const std::uint64_t seed = test::fresh_seed();
  SCOPED_TRACE(test::repeat_with(seed));
  std::mt19937_64 random(seed);
  std::array<std::atomic<std::uint64_t>, 2> told{};
  std::uint64_t number = 0;
  for (int life = 0; life < 12; ++life) {
    std::atomic<bool> stop{false};
    std::atomic<std::uint64_t> next{number + 1};
    std::vector<std::thread> threads;
    for (NodeId id = 0; id < 2; ++id) {
      threads.emplace_back([&, id] {
        Node& node = cluster[id];
        while (!stop) {
          const std::uint64_t value = 2 * next.fetch_add(1) + id;
          if (!write_all(node, words, value).ok()) break;
          told[id] = value;
        }
      });
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20'000));
    const std::uint64_t loss = random();
    cluster.stop(0, loss);
    cluster.stop(1, loss);
    stop = true;
    for (auto& thread : threads) thread.join();
    const std::uint64_t before = std::min(told[0].load(), told[1].load());
    number = next;
    cluster.crash_all(loss);
    const std::vector<std::uint64_t> found = read(NodeId(life % 2));
    ASSERT_EQ(found, all(found[0])) << "life " << life;
    ASSERT_GE(found[0], before) << "life " << life;
  }
}

}  // namespace
}  // namespace atoll
