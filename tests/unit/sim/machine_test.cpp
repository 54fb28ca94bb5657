// Virtual time and fibers.
#include "sim/machine.hpp"

#include <gtest/gtest.h>

namespace atoll::sim {
namespace {

using base::FutexScope;

TEST(Machine, TimePassesOnlyWhileAllWait) {
  Machine machine(1);
  std::vector<int> order;
  machine.spawn(0, [&] {
    machine.sleep_ns(300);
    order.push_back(3);
  });
  machine.spawn(0, [&] {
    machine.sleep_ns(100);
    order.push_back(1);
    machine.sleep_ns(100);
    order.push_back(2);
  });
  EXPECT_FALSE(machine.run([] { return false; }));  // until nothing is left
  EXPECT_EQ(order, (std::vector{1, 2, 3}));
  EXPECT_EQ(machine.time(), 301u);
}

TEST(Machine, RunEndsAtTheGivenTime) {
  Machine machine(1);
  bool done = false;
  machine.spawn(0, [&] {
    machine.sleep_ns(1'000);
    done = true;
  });
  EXPECT_FALSE(machine.run([&] { return done; }, 500));
  EXPECT_EQ(machine.time(), 500u);
  EXPECT_TRUE(machine.run([&] { return done; }, 5'000));
}

TEST(Machine, WhoWaitsIsWoken) {
  Machine machine(1);
  std::atomic<std::uint32_t> word{0};
  Time woken_at = 0;
  machine.spawn(0, [&] {
    machine.wait(word, 0, 1'000'000, FutexScope::kProcess);
    woken_at = machine.time();
  });
  machine.spawn(0, [&] {
    machine.sleep_ns(10'000);
    word.store(1);
    machine.wake(word, FutexScope::kProcess);
  });
  machine.run([] { return false; });
  EXPECT_GT(woken_at, 10'000u);
  EXPECT_LT(woken_at, 1'000'000u);
}

TEST(Machine, WhoIsNotWokenWaitsUntilTheTimeIsOver) {
  Machine machine(1);
  std::atomic<std::uint32_t> word{0};
  Time ended_at = 0;
  machine.spawn(0, [&] {
    machine.wait(word, 1, 1'000, FutexScope::kProcess);  // not the expected value: at once
    EXPECT_EQ(machine.time(), 1u);
    machine.wait(word, 0, 1'000, FutexScope::kProcess);
    ended_at = machine.time();
  });
  machine.run([] { return false; });
  EXPECT_EQ(ended_at, 1'000'001u);
}

TEST(Machine, FrozenFibersGoOnWhenTheyAreFreed) {
  Machine machine(1);
  int steps = 0;
  machine.spawn(7, [&] {
    for (; steps < 10; ++steps) machine.sleep_ns(100);
  });
  EXPECT_FALSE(machine.run([] { return false; }, 350));
  EXPECT_EQ(steps, 3);
  machine.freeze(7, true);
  EXPECT_FALSE(machine.run([] { return false; }, 10'000));
  EXPECT_EQ(steps, 3);
  machine.freeze(7, false);
  EXPECT_FALSE(machine.run([] { return false; }));
  EXPECT_EQ(steps, 10);
}

TEST(Machine, WhatAFiberThrowsComesOutOfRun) {
  Machine machine(1);
  machine.spawn(0, [] { throw Failure("this is wrong", GlobalAddress::make(1, 4096)); });
  try {
    machine.run([] { return false; });
    FAIL() << "nothing was thrown";
  } catch (const Failure& failure) {
    EXPECT_STREQ(failure.what(), "this is wrong");
    EXPECT_EQ(failure.about(), GlobalAddress::make(1, 4096));
  }
}

TEST(Machine, AThreadIsAwaitedWhenItsHandleGoes) {
  Machine machine(1);
  bool inner = false;
  machine.spawn(0, [&] {
    const auto thread = machine.start([&] {
      machine.sleep_ns(50'000);
      inner = true;
    });
    EXPECT_FALSE(inner);
  });
  machine.run([] { return false; });
  EXPECT_TRUE(inner);
}

}  // namespace
}  // namespace atoll::sim
