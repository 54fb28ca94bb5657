// A node with a log: whatever was done to its memory is there again in its next life.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <numeric>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "atoll/array.hpp"
#include "atoll/hash_map.hpp"
#include "support/logged_cluster.hpp"
#include "support/seed.hpp"

namespace atoll {
namespace {

using test::LoggedCluster;
using Word = global_ptr<std::uint64_t>;

std::vector<std::byte> pattern(std::size_t bytes, std::uint32_t seed) {
  std::minstd_rand random(seed + 1);
  std::vector<std::byte> made(bytes);
  for (std::byte& byte : made) byte = std::byte(random());
  return made;
}

std::vector<std::byte> bytes_at(Node& node, GlobalAddress address, std::size_t bytes) {
  std::vector<std::byte> found(bytes);
  node.read(address, found).or_throw();
  return found;
}

/// What each mode does when the power is cut has other tests; here each must bring back what was fenced.
class LoggedWrites : public testing::TestWithParam<LogMode> {
 protected:
  LoggedCluster cluster{1, GetParam()};
  Word words;

  void SetUp() override {
    on([&](Node& node) { words = node.allocate<std::uint64_t>(1024).value(); });
  }
  template <typename F>
  void on(F f) {
    cluster.on(0, f);
  }
  void restart() {
    on([](Node& node) { node.fence().or_throw(); });
    cluster.crash_all(1);
    ASSERT_TRUE(cluster[0].recovered());
  }
  [[nodiscard]] std::uint64_t word(std::uint64_t i) {
    std::uint64_t found = 0;
    on([&](Node& node) { found = node.read(words + std::int64_t(i)).value(); });
    return found;
  }
};

INSTANTIATE_TEST_SUITE_P(Modes, LoggedWrites, testing::Values(LogMode::kProcess, LogMode::kPower),
                         [](const auto& test) { return test.param == LogMode::kPower ? "Power" : "Process"; });

TEST_P(LoggedWrites, OfWordsComeBack) {
  on([&](Node& node) {
    for (std::uint64_t i = 0; i < 1024; ++i) node.write(words + std::int64_t(i), i * 7 + 1).or_throw();
    for (std::uint64_t i = 0; i < 1024; i += 3) node.write(words + std::int64_t(i), i).or_throw();
    node.write(GlobalAddress(words.address() + 8 + 3), std::uint8_t{0x5a}).or_throw();
    node.write(GlobalAddress(words.address() + 8 + 4), std::uint16_t{0x1234}).or_throw();
  });
  restart();
  for (std::uint64_t i = 0; i < 1024; ++i) {
    if (i == 1) continue;
    ASSERT_EQ(word(i), i % 3 == 0 ? i : i * 7 + 1) << i;
  }
  EXPECT_EQ(word(1), 0x0000'1234'5a00'0008u);
}

TEST_P(LoggedWrites, OverSeveralLinesAndAtAnyByteComeBack) {
  std::vector<std::byte> expected(8192);
  on([&](Node& node) {
    for (const auto& [at, bytes] : {std::pair{0u, 8192u}, {1u, 5000u}, {511u, 2u}, {4095u, 3u}, {700u, 1u}}) {
      const std::vector<std::byte> from = pattern(bytes, at);
      node.write(words.address() + at, from).or_throw();
      std::copy(from.begin(), from.end(), expected.begin() + at);
    }
  });
  restart();
  on([&](Node& node) { EXPECT_EQ(bytes_at(node, words.address(), 8192), expected); });
}

TEST_P(LoggedWrites, ByAtomicsComeBack) {
  on([&](Node& node) {
    EXPECT_EQ(node.fetch_add(words, 5).value(), 0u);
    EXPECT_EQ(node.fetch_add(words, 6).value(), 5u);
    EXPECT_EQ(node.exchange(words + 1, 77).value(), 0u);
    EXPECT_EQ(node.compare_exchange(words + 2, 1, 9).value(), 0u);  // is not 1: nothing happens
    EXPECT_EQ(node.compare_exchange(words + 3, 0, 9).value(), 0u);
    EXPECT_EQ(node.fetch_add(global_ptr<std::uint16_t>(words.address() + 34), 0xffff).value(), 0u);
  });
  restart();
  EXPECT_EQ(word(0), 11u);
  EXPECT_EQ(word(1), 77u);
  EXPECT_EQ(word(2), 0u);
  EXPECT_EQ(word(3), 9u);
  EXPECT_EQ(word(4), 0xffff0000u);
}

TEST_P(LoggedWrites, ByFunctionsComeBackAndThoseThatThrowDoNothing) {
  on([&](Node& node) {
    node.register_atomic("fill", [](std::span<std::byte> at,
                                    std::span<const std::byte> with) { std::fill(at.begin(), at.end(), with[0]); })
        .or_throw();
    node.register_atomic("fail",
                         [](std::span<std::byte> at, std::span<const std::byte>) {
                           std::fill(at.begin(), at.end(), std::byte{9});
                           throw std::runtime_error("half way");
                         })
        .or_throw();
    const std::array with{std::byte{0x11}};
    node.atomic(words.address(), 512, "fill", with).or_throw();
    EXPECT_EQ(node.atomic(words.address() + 64, 8, "fail", {}).code(), Errc::kInvalidArgument);
  });
  restart();
  for (std::uint64_t i = 0; i < 64; ++i) EXPECT_EQ(word(i), 0x1111111111111111u);
  EXPECT_EQ(word(64), 0u);
}

TEST_P(LoggedWrites, OnAConditionComeBackWithTheirGuard) {
  on([&](Node& node) {
    const std::array<std::uint64_t, 2> both{3, 4};
    // The two ends of a line, and the other way round.
    EXPECT_TRUE(node.write_if(words, 0, 1, words.address() + 496, std::as_bytes(std::span(both))).value());
    EXPECT_TRUE(node.write_if(words + 127, 0, 2, words.address() + 512, std::as_bytes(std::span(both))).value());
    EXPECT_FALSE(node.write_if(words, 0, 8, words.address() + 16, std::as_bytes(std::span(both))).value());
  });
  restart();
  EXPECT_EQ(word(0), 1u);
  EXPECT_EQ(word(2), 0u);
  EXPECT_EQ(word(62), 3u);
  EXPECT_EQ(word(63), 4u);
  EXPECT_EQ(word(64), 3u);
  EXPECT_EQ(word(127), 2u);
}

TEST_P(LoggedWrites, ByOperatorsComeBack) {
  using Three = std::array<std::uint64_t, 3>;
  const global_ptr<Three> wide(words.address() + 512);
  on([&](Node& node) {
    for (int i = 0; i < 10; ++i) node.apply(words, op::add<std::uint64_t>, 3).or_throw();
    node.apply(words + 1, op::max<std::uint64_t>, 41).or_throw();
    const auto add = node.register_op<Three>("add", {},
                                             [](Three a, Three b) {
                                               return Three{a[0] + b[0], a[1] + b[1], a[2] + b[2]};
                                             })
                         .value();
    for (std::uint64_t i = 0; i < 10; ++i) node.apply(wide, add, {i, 2 * i, 1}).or_throw();
  });
  restart();
  EXPECT_EQ(word(0), 30u);
  EXPECT_EQ(word(1), 41u);
  on([&](Node& node) { EXPECT_EQ(node.read(wide).value(), (Three{45, 90, 10})); });
}

TEST_P(LoggedWrites, UnderLocksAndThroughPinsComeBack) {
  on([&](Node& node) {
    node.write_lock(words.address(), 1024).or_throw();
    node.write(words + 100, 8).or_throw();
    node.unlock(words.address(), 1024).or_throw();
    std::byte* const pinned = node.pin(words.address() + 2048, 512, LockMode::kWrite).value();
    std::fill(pinned, pinned + 512, std::byte{0x22});
    node.unlock(words.address() + 2048, 512).or_throw();
    // Two at once, and the first one unlocked first.
    std::byte* const a = node.pin(words.address() + 4096, 3, LockMode::kWrite).value();
    std::byte* const b = node.pin(words.address() + 4608, 8, LockMode::kWrite).value();
    a[2] = std::byte{7};
    b[0] = std::byte{8};
    node.unlock(words.address() + 4096, 3).or_throw();
    node.unlock(words.address() + 4608, 8).or_throw();
  });
  restart();
  EXPECT_EQ(word(100), 8u);
  for (std::uint64_t i = 256; i < 320; ++i) EXPECT_EQ(word(i), 0x2222222222222222u);
  EXPECT_EQ(word(512), 0x070000u);
  EXPECT_EQ(word(576), 8u);
}

TEST_P(LoggedWrites, BeforeAnUnlockThatLeavesAnElementLockedComeBack) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    on([&](Node& node) {
      node.read_lock_element(words.address()).or_throw();
      node.write(words, seed).or_throw();
      node.read_lock_element(words.address()).or_throw();
      node.unlock_element(words.address()).or_throw();  // the second of the two
    });
    cluster.crash_all(seed);
    ASSERT_EQ(word(0), seed);
  }
}

TEST_P(LoggedWrites, OfThreadsThatHaveExitedComeBack) {
  for (std::uint64_t i = 0; i < 100; ++i) {
    on([&](Node& node) { node.write(words + std::int64_t(i), i + 1).or_throw(), node.fence().or_throw(); });
  }
  restart();
  for (std::uint64_t i = 0; i < 100; ++i) EXPECT_EQ(word(i), i + 1);
}

TEST_P(LoggedWrites, AreDoneOnTopOfThoseOfEarlierLives) {
  for (std::uint64_t life = 1; life <= 5; ++life) {
    on([&](Node& node) {
      node.fetch_add(words, 1).status().or_throw();
      node.write(words + std::int64_t(life), life).or_throw();
    });
    restart();
    EXPECT_EQ(word(0), life);
    for (std::uint64_t i = 1; i <= life; ++i) EXPECT_EQ(word(i), i);
  }
}

TEST_P(LoggedWrites, OfArraysWithLargerLinesComeBack) {
  Options options = LoggedCluster::small_options();
  options.cache_bytes = 1 << 20;  // lines of up to 64 KiB
  options.memory_bytes = 8 << 20;
  options.log_bytes = 32 << 20;
  LoggedCluster larger(1, GetParam(), options);
  constexpr std::uint64_t kStep = 512;
  global_ptr<std::uint64_t> first;
  std::vector<std::unique_ptr<Array<std::uint64_t>>> arrays;
  larger.on(0, [&](Node& node) {
    // One that is gone, whose memory the next has in chunks of another size.
    { const Array<std::uint64_t> gone(node, 30000, {.chunk = 1024}); }
    arrays.push_back(std::make_unique<Array<std::uint64_t>>(node, 60000, ArrayOptions{.chunk = 8192}));
    const auto& array = *arrays.back();
    first = array.at(0);
    for (std::uint64_t i = 0; i < array.size(); i += kStep) array.set(i, i * 3 + 1).or_throw();
    array.apply(5, op::add<std::uint64_t>, 100).or_throw();
    node.fence().or_throw();
  });
  larger.stop(0, 1);
  arrays.clear();
  larger.crash_all(1);
  larger.on(0, [&](Node& node) {
    for (std::uint64_t i = 0; i < 60000; ++i) {
      const std::uint64_t expected = i == 5 ? 100 : i % kStep == 0 ? i * 3 + 1 : 0;
      ASSERT_EQ(node.read(first + std::int64_t(i)).value(), expected) << i;
    }
    // A pin of a whole line of the larger ones.
    std::byte* const pinned = node.pin(first.address(), 65536, LockMode::kWrite).value();
    std::fill(pinned, pinned + 65536, std::byte{3});
    node.unlock(first.address(), 65536).or_throw();
  });
  larger.crash_all(2);
  larger.on(0, [&](Node& node) {
    EXPECT_EQ(node.read(first + 8191).value(), 0x0303030303030303u);
    EXPECT_EQ(node.read(first + 8192).value(), 8192u * 3 + 1);
  });
}

TEST_P(LoggedWrites, MemoryIsNotHandedOutTwiceAndZeroed) {
  std::vector<GlobalAddress> kept, freed;
  on([&](Node& node) {
    for (std::uint64_t i = 0; i < 60; ++i) {
      const GlobalAddress at = node.allocate(100 + i * 50).value();
      node.write(at, pattern(100 + i * 50, std::uint32_t(i))).or_throw();
      (i % 2 == 0 ? kept : freed).push_back(at);
    }
    for (const GlobalAddress at : freed) node.free(at).or_throw();
  });
  restart();
  on([&](Node& node) {
    for (const GlobalAddress at : freed) EXPECT_EQ(node.free(at).code(), Errc::kNotAllocated);
    std::vector<GlobalAddress> again;
    for (std::uint64_t i = 0; i < 60; ++i) {
      const std::uint64_t bytes = 100 + i * 50;
      const GlobalAddress at = node.allocate(bytes, {.zeroed = true}).value();
      EXPECT_EQ(bytes_at(node, at, bytes), std::vector<std::byte>(bytes)) << i;
      EXPECT_EQ(std::count(kept.begin(), kept.end(), at), 0);
      EXPECT_EQ(std::count(again.begin(), again.end(), at), 0);
      again.push_back(at);
    }
    EXPECT_NE(std::find_first_of(again.begin(), again.end(), freed.begin(), freed.end()), again.end());
    for (std::uint64_t i = 0; i < 60; i += 2) {
      EXPECT_EQ(bytes_at(node, kept[i / 2], 100 + i * 50), pattern(100 + i * 50, std::uint32_t(i)));
    }
    for (const GlobalAddress at : kept) node.free(at).or_throw();
    for (const GlobalAddress at : again) node.free(at).or_throw();
  });
}

TEST_P(LoggedWrites, NamesAndMapsComeBack) {
  on([&](Node& node) {
    node.publish("words", words.address()).or_throw();
    EXPECT_EQ(node.publish("words", words.address() + 8).code(), Errc::kAlreadyExists);
    HashMap map(node, "map");
    for (int i = 0; i < 200; ++i) {
      map.put("key" + std::to_string(i), std::string(std::size_t(i), 'v')).status().or_throw();
    }
    for (int i = 0; i < 200; i += 2) map.erase("key" + std::to_string(i)).status().or_throw();
    map.increment("count", 5).status().or_throw();
  });
  restart();
  on([&](Node& node) {
    EXPECT_EQ(node.lookup("words", std::chrono::seconds(1)).value(), words.address());
    HashMap map(node, "map");
    for (int i = 0; i < 200; ++i) {
      const auto found = map.get("key" + std::to_string(i)).value();
      ASSERT_EQ(found.has_value(), i % 2 == 1) << i;
      EXPECT_EQ(found.value_or(""), std::string(std::size_t(i % 2 == 1 ? i : 0), 'v'));
    }
    EXPECT_EQ(map.increment("count", 1).value(), 6);
    EXPECT_EQ(map.size().value(), 101);
  });
}

// ---- many checkpoints ----

/// Threads that write ever higher numbers, over several lines at once; what they were told is done stays.
class Counting : public testing::TestWithParam<LogMode> {};

INSTANTIATE_TEST_SUITE_P(Modes, Counting, testing::Values(LogMode::kProcess, LogMode::kPower),
                         [](const auto& test) { return test.param == LogMode::kPower ? "Power" : "Process"; });

TEST_P(Counting, SurvivesCrashesBetweenAndWithinCheckpoints) {
  constexpr std::uint64_t kThreads = 2, kWords = 4096;
  const std::uint64_t seed = test::fresh_seed();
  SCOPED_TRACE(test::repeat_with(seed));
  std::mt19937_64 random(seed);
  LoggedCluster cluster(1, GetParam());
  Word words;
  cluster.on(0, [&](Node& node) { words = node.allocate<std::uint64_t>(kThreads * kWords).value(); });
  std::vector<std::uint64_t> told(kThreads * kWords);
  std::array<std::uint64_t, kThreads> counts{};
  for (int life = 0; life < 3; ++life) {
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (std::uint64_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t, life] {
        Node& node = cluster[0];
        for (std::uint64_t n = t + std::uint64_t(life); !stop; n = n * 5 + 3) {
          const std::uint64_t at = t * kWords + n % (kWords - 512);
          std::array<std::uint64_t, 256> values;
          values.fill(++counts[t]);
          Status status = node.write(words.address() + std::int64_t(at * 8), std::as_bytes(std::span(values)));
          if (status.ok()) status = node.fence();
          if (!status.ok()) break;
          for (std::uint64_t k = 0; k < values.size(); ++k) told[at + k] = values[0];
        }
      });
    }
    const auto wanted =
        std::uint64_t(std::max(1, test::scaled(10) / 3)) + random() % unsigned(std::max(1, test::scaled(3)));
    while (cluster[0].stats().checkpoints < wanted) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (life % 2 == 0) {
      stop = true;
      for (auto& thread : threads) thread.join();
      cluster.stop(0, random());
    } else {  // while they write
      cluster.stop(0, random());
      stop = true;
      for (auto& thread : threads) thread.join();
    }
    cluster.crash_all(random());
    cluster.on(0, [&](Node& node) {
      for (std::uint64_t i = 0; i < kThreads * kWords; ++i) {
        const std::uint64_t found = node.read(words + std::int64_t(i)).value();
        ASSERT_GE(found, told[i]) << "word " << i << " life " << life;
        ASSERT_LE(found, counts[i / kWords]) << "word " << i;
        told[i] = found;
      }
    });
  }
}

}  // namespace
}  // namespace atoll
