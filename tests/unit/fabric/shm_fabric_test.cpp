// Two fabrics over two segments, in one process.
#include "fabric/shm/shm_fabric.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <thread>

#include "memory/segment.hpp"

namespace atoll::fabric {
namespace {

using namespace std::chrono_literals;
constexpr std::uint32_t kLine = 512;

class ShmFabricTest : public testing::Test {
 protected:
  ShmFabricTest() {
    Options options;
    options.memory_bytes = 1 << 20;
    options.cache_bytes = 64 * kLine;
    std::vector<ShmParts> parts(2);
    for (int node = 0; node < 2; ++node) {
      segment[node] = memory::Segment::create(options, 2);
      memory::SegmentHeader& header = segment[node].header();
      parts[std::size_t(node)] = {segment[node].rings(), segment[node].cache(), segment[node].memory(),
                                  &header.doorbell, &header.asleep};
    }
    slots = segment[0].header().ring_slots;
    for (int node = 0; node < 2; ++node) {
      fabric[node] = std::make_unique<ShmFabric>(NodeId(node), kLine, slots, parts, segment[node].header().counters);
    }
  }
  /// Node 0's message number `n` to node 1; none of them joins another.
  static wire::Message note(std::uint64_t n) {
    wire::Message message;
    message.kind = wire::Kind::kAllocate;
    message.argument = n;
    return message;
  }
  static wire::Message about_line(std::uint64_t index, std::uint32_t slot) {
    wire::Message message;
    message.kind = wire::Kind::kGetShared;
    message.count = 1;
    message.line = GlobalAddress::make(1, 4096 + index * kLine).bits();
    message.slots[0] = slot;
    return message;
  }
  std::vector<wire::Message> received() {
    std::vector<wire::Message> all;
    wire::Message message;
    for (NodeId from = 9; fabric[1]->poll(message, from); from = 9) {
      EXPECT_EQ(from, 0);
      all.push_back(message);
    }
    return all;
  }

  memory::Segment segment[2];
  std::unique_ptr<ShmFabric> fabric[2];
  std::uint32_t slots = 0;
};

TEST_F(ShmFabricTest, DeliversInOrder) {
  for (std::uint64_t i = 0; i < 100; ++i) fabric[0]->send(1, note(i));
  fabric[0]->flush();
  EXPECT_TRUE(fabric[1]->maybe_pending());
  EXPECT_FALSE(fabric[0]->maybe_pending());
  const auto got = received();
  ASSERT_EQ(got.size(), 100u);
  for (std::uint64_t i = 0; i < 100; ++i) EXPECT_EQ(got[i].argument, i);
  EXPECT_FALSE(fabric[1]->maybe_pending());
}

class ShmFabricData : public ShmFabricTest, public testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(OneOfMany, ShmFabricData, testing::Bool());

TEST_P(ShmFabricData, IsThereBeforeTheMessage) {
  const bool one_of_many = GetParam();
  alignas(64) std::array<std::byte, kLine> line;
  line.fill(std::byte(0x11));
  fabric[0]->write_slot(1, 5, line, one_of_many);
  fabric[0]->write_home(1, 3 * kLine, line);
  fabric[0]->send(1, note(0));
  fabric[0]->flush();
  ASSERT_EQ(received().size(), 1u);
  EXPECT_EQ(std::memcmp(segment[1].cache() + 5 * kLine, line.data(), kLine), 0);
  EXPECT_EQ(std::memcmp(segment[1].memory() + 3 * kLine, line.data(), kLine), 0);
  EXPECT_EQ(segment[1].cache()[4 * kLine + kLine - 1], std::byte(0));  // and nowhere else
  EXPECT_EQ(segment[1].cache()[6 * kLine], std::byte(0));
}

TEST_F(ShmFabricTest, JoinsConsecutiveLinesUpToEight) {
  for (std::uint32_t i = 0; i < 20; ++i) fabric[0]->send(1, about_line(i, 50 + i));
  fabric[0]->flush();
  const auto got = received();
  ASSERT_EQ(got.size(), 3u);
  EXPECT_EQ(got[0].count, 8);
  EXPECT_EQ(got[1].count, 8);
  EXPECT_EQ(got[2].count, 4);
  EXPECT_EQ(got[1].line, GlobalAddress::make(1, 4096 + 8 * kLine).bits());
  for (std::uint32_t i = 0; i < 8; ++i) EXPECT_EQ(got[1].slots[i], 58 + i);
}

TEST_F(ShmFabricTest, GathersSmallWritesUntilTheFlushAndKeepsTheOrder) {
  const auto small_write = [](std::uint64_t n) {
    wire::Message message = about_line(2 * n, 0);
    message.kind = wire::Kind::kWriteHome;
    message.argument = n;
    return message;
  };
  for (std::uint64_t n = 0; n < 3; ++n) fabric[0]->send(1, small_write(n));
  EXPECT_FALSE(fabric[1]->maybe_pending());
  fabric[0]->flush();
  EXPECT_EQ(received().size(), 3u);
  // More than are gathered, something else in between, and more than the ring holds.
  std::uint64_t sent = 0;
  for (std::uint64_t i = 0; i < 3 * slots; ++i) fabric[0]->send(1, i % 13 == 12 ? note(sent++) : small_write(sent++));
  std::uint64_t expected = 0;
  for (int round = 0; round < 10 && expected < sent; ++round) {
    fabric[0]->flush();
    for (const wire::Message& message : received()) EXPECT_EQ(message.argument, expected++);
  }
  EXPECT_EQ(expected, sent);
}

TEST_F(ShmFabricTest, DoesNotJoinWhatDiffers) {
  auto gap = about_line(2, 0);
  auto try_next = about_line(3, 0);
  try_next.flags = wire::kTry;
  auto for_other = about_line(4, 0);
  for_other.flags = wire::kTry;
  for_other.requester = 1;
  auto upgrade = about_line(5, 0);
  upgrade.kind = wire::Kind::kUpgrade;
  fabric[0]->send(1, about_line(0, 0));
  fabric[0]->send(1, gap);
  fabric[0]->send(1, try_next);
  fabric[0]->send(1, for_other);
  fabric[0]->send(1, upgrade);
  fabric[0]->flush();
  fabric[0]->send(1, about_line(6, 0));  // would follow, but what was flushed is gone
  fabric[0]->flush();
  EXPECT_EQ(received().size(), 6u);
}

TEST_F(ShmFabricTest, WhatAFullRingCannotTakeWaitsAndGoesOutLater) {
  const std::uint64_t many = 3ull * slots + 7;
  for (std::uint64_t i = 0; i < many; ++i) fabric[0]->send(1, note(i));
  fabric[0]->flush();
  EXPECT_TRUE(fabric[0]->has_backlog());
  std::uint64_t next = 0;
  for (int round = 0; round < 10 && next < many; ++round) {
    for (const auto& message : received()) ASSERT_EQ(message.argument, next++);
    fabric[0]->flush();
  }
  EXPECT_EQ(next, many);
  EXPECT_FALSE(fabric[0]->has_backlog());
}

TEST_F(ShmFabricTest, WhoIsGoneIsNeitherSentToNorHeard) {
  for (std::uint64_t i = 0; i < slots + 5; ++i) fabric[0]->send(1, note(i));
  fabric[0]->flush();
  ASSERT_TRUE(fabric[0]->has_backlog());
  fabric[0]->forget(1);
  fabric[0]->send(1, note(99));
  fabric[0]->flush();
  EXPECT_FALSE(fabric[0]->has_backlog());
  EXPECT_EQ(received().size(), slots);

  fabric[0]->forget(1);
  fabric[1]->send(0, note(1));
  fabric[1]->flush();
  wire::Message message;
  NodeId from = 0;
  EXPECT_FALSE(fabric[0]->poll(message, from));
  EXPECT_FALSE(fabric[0]->maybe_pending()) << "a node would never sleep again";
}

TEST_F(ShmFabricTest, WakesWhoSleeps) {
  std::thread sleeper([&] {
    while (!fabric[1]->maybe_pending()) fabric[1]->wait(60'000);
  });
  while (segment[1].header().asleep.load() == 0) std::this_thread::yield();
  fabric[0]->send(1, note(1));
  fabric[0]->flush();
  const auto start = std::chrono::steady_clock::now();
  sleeper.join();
  EXPECT_LT(std::chrono::steady_clock::now() - start, 30s);  // by the doorbell, not by the end of its time
  EXPECT_EQ(segment[1].header().asleep.load(), 0u);
}

TEST_F(ShmFabricTest, WakesItself) {
  std::thread sleeper([&] { fabric[1]->wait(60'000); });
  while (segment[1].header().asleep.load() == 0) std::this_thread::yield();
  const auto start = std::chrono::steady_clock::now();
  // Between `asleep` and the sleep itself a wake-up may find nobody; that is what the ticket is for.
  fabric[1]->wake_self();
  sleeper.join();
  EXPECT_LT(std::chrono::steady_clock::now() - start, 30s);
}

TEST_F(ShmFabricTest, DoesNotSleepWhenSomethingIsThere) {
  fabric[0]->send(1, note(1));
  fabric[0]->flush();
  const auto start = std::chrono::steady_clock::now();
  fabric[1]->wait(60'000);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 30s);
}

}  // namespace
}  // namespace atoll::fabric
