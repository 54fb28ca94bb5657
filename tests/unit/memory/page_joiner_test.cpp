#include "memory/page_joiner.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <set>
#include <thread>

namespace atoll::memory {
namespace {

std::array<std::byte, 64> some;

template <typename Done>
bool comes_true(Done done) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!done() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  return done();
}

TEST(PageJoiner, MakesEachPartThatIsWantedOnAThreadOfItsOwn) {
  std::mutex mutex;
  std::multiset<std::uint64_t> made;
  std::set<std::thread::id> by;
  const auto count = [&] {
    const std::lock_guard lock(mutex);
    return made.size();
  };
  PageJoiner joiner(base::Host::real(), [&](const std::byte* begin, std::uint64_t bytes) {
    const std::lock_guard lock(mutex);
    EXPECT_EQ(begin, some.data() + bytes);
    made.insert(bytes);
    by.insert(std::this_thread::get_id());
  });
  std::vector<std::thread> threads;
  for (std::uint64_t k = 0; k < 4; ++k) {
    threads.emplace_back([&, k] {
      for (std::uint64_t i = 0; i < 16; ++i) joiner.want(some.data() + k * 16 + i, k * 16 + i);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_TRUE(comes_true([&] { return count() == 64; }));
  EXPECT_EQ(std::set<std::uint64_t>(made.begin(), made.end()).size(), 64u);
  EXPECT_EQ(by.size(), 1u);
  EXPECT_FALSE(by.contains(std::this_thread::get_id()));
}

/// Nobody waits for the kernel but the joiner itself.
TEST(PageJoiner, WantingDoesNotWaitAndTheEndWaitsForOnePartAlone) {
  std::atomic<int> begun{0};
  std::atomic<bool> may_end{false};
  std::thread releaser;
  {
    PageJoiner joiner(base::Host::real(), [&](const std::byte*, std::uint64_t) {
      ++begun;
      while (!may_end) std::this_thread::yield();
    });
    for (std::uint64_t i = 0; i < 64; ++i) joiner.want(some.data(), i);
    ASSERT_TRUE(comes_true([&] { return begun == 1; }));
    releaser = std::thread([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      may_end = true;
    });
  }
  releaser.join();
  EXPECT_LT(begun, 64);
}

TEST(PageJoiner, WithoutAWishThereIsNothingToEnd) {
  const PageJoiner joiner(base::Host::real(), [](const std::byte*, std::uint64_t) { FAIL(); });
}

}  // namespace
}  // namespace atoll::memory
