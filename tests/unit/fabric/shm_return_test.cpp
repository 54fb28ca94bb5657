// A peer that dies and comes back as a new process, over shared memory: node 0 stays, node 1 has several lives.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <thread>

#include "fabric/shm/bell.hpp"
#include "fabric/shm/shm_fabric.hpp"
#include "memory/segment.hpp"
#include "support/seed.hpp"

namespace atoll::fabric {
namespace {

using namespace std::chrono_literals;
constexpr std::uint32_t kLine = 512;

class ShmReturn : public testing::Test {
 protected:
  ShmReturn() {
    for (NodeId node = 0; node < 2; ++node) make_segment(node);
    slots = segment[0].header().ring_slots;
    for (NodeId node = 0; node < 2; ++node) start(node, {parts_of(0), parts_of(1)});
  }
  void make_segment(NodeId node) {
    Options options;
    options.memory_bytes = 1 << 20;
    options.cache_bytes = 64 * kLine;
    segment[node] = memory::Segment::create(options, 2);
  }
  ShmParts parts_of(NodeId node) {
    memory::SegmentHeader& header = segment[node].header();
    return {segment[node].rings(), segment[node].cache(), segment[node].memory(), &header.doorbell, &header.asleep, -1};
  }
  void start(NodeId node, const std::vector<ShmParts>& parts) {
    fabric[node] = std::make_unique<ShmFabric>(node, kLine, slots, parts, segment[node].header().counters);
  }
  /// Node 1's process ends. Its segment is kept, as peers that have it mapped keep it.
  void die() {
    fabric[1].reset();
    fabric[0]->forget(1);
  }
  void come_back() {
    last.push_back(std::move(segment[1]));
    make_segment(1);
    fabric[0]->readmit(1, parts_of(1));
    start(1, {parts_of(0), parts_of(1)});
  }
  static wire::Message note(std::uint64_t n) {
    wire::Message message;
    message.kind = wire::Kind::kAllocate;
    message.argument = n;
    return message;
  }
  std::vector<std::uint64_t> received(NodeId at) {
    std::vector<std::uint64_t> all;
    wire::Message message;
    for (NodeId from = 9; fabric[at]->poll(message, from); from = 9) {
      EXPECT_EQ(from, 1 - at);
      all.push_back(message.argument);
    }
    return all;
  }
  /// More than a ring holds, each way, in order; and lines.
  void talk(std::uint64_t seed) {
    for (NodeId from = 0; from < 2; ++from) {
      const auto to = NodeId(1 - from);
      ASSERT_FALSE(fabric[to]->maybe_pending());
      ASSERT_TRUE(received(to).empty());
      const std::uint64_t many = 3ull * slots + 7;
      for (std::uint64_t i = 0; i < many; ++i) fabric[from]->send(to, note(seed + i));
      std::uint64_t next = 0;
      for (int round = 0; round < 10 && next < many; ++round) {
        fabric[from]->flush();
        for (const std::uint64_t n : received(to)) ASSERT_EQ(n, seed + next++);
      }
      ASSERT_EQ(next, many);
      ASSERT_FALSE(fabric[from]->has_backlog());
      alignas(64) std::array<std::byte, kLine> line;
      line.fill(std::byte(seed));
      fabric[from]->write_slot(to, 5, line, false);
      fabric[from]->write_home(to, 3 * kLine, line);
      std::memcpy(segment[from].cache() + 9 * kLine, line.data(), kLine);
      fabric[from]->send(to, note(seed));
      fabric[from]->flush();
      ASSERT_EQ(received(to).size(), 1u);
      EXPECT_EQ(std::memcmp(segment[to].cache() + 5 * kLine, line.data(), kLine), 0);
      EXPECT_EQ(std::memcmp(segment[to].memory() + 3 * kLine, line.data(), kLine), 0);
      EXPECT_EQ(std::memcmp(fabric[to]->read_slot(from, 9, kLine), line.data(), kLine), 0);
    }
  }
  wire::Message* ring_of(NodeId in, NodeId from) {
    return reinterpret_cast<wire::Message*>(segment[in].rings() + Ring::bytes(slots) * from + sizeof(RingHeader));
  }

  memory::Segment segment[2];
  std::vector<memory::Segment> last;
  std::unique_ptr<ShmFabric> fabric[2];
  std::uint32_t slots = 0;
};

TEST_F(ShmReturn, ManyTimesInARow) {
  for (std::uint64_t life = 1; life <= 10; ++life) {
    ASSERT_NO_FATAL_FAILURE(talk(life));
    die();
    come_back();
  }
  ASSERT_NO_FATAL_FAILURE(talk(99));
}

TEST_F(ShmReturn, NothingThatTheLastLifeHasSentComesIn) {
  for (const std::uint32_t many : {1u, 5u, slots, 2 * slots + 9}) {
    for (std::uint32_t i = 0; i < many; ++i) fabric[1]->send(0, note(666));
    fabric[1]->flush();
    wire::Message message;
    NodeId from = 0;
    ASSERT_TRUE(fabric[0]->poll(message, from));  // one of them while it lives
    die();
    EXPECT_FALSE(fabric[0]->maybe_pending());
    come_back();
    EXPECT_FALSE(fabric[0]->maybe_pending());
    ASSERT_NO_FATAL_FAILURE(talk(many));
  }
}

TEST_F(ShmReturn, AMessageThatIsHalfWrittenIsNoMessage) {
  for (std::uint64_t sent = 0; sent < 3; ++sent) {
    for (std::uint64_t i = 0; i < sent; ++i) fabric[1]->send(0, note(666));
    fabric[1]->flush();
    // Its process ends after the message and before the word that says so.
    wire::Message& half = ring_of(0, 1)[sent];
    half = note(666);
    half.sequence = 0;
    die();
    come_back();
    ASSERT_NO_FATAL_FAILURE(talk(sent));
  }
  // And the word alone, of any message that may come: the ring is cleared as a whole.
  for (std::uint32_t i = 0; i < slots; ++i) ring_of(0, 1)[i].sequence = i + 1;
  die();
  come_back();
  EXPECT_FALSE(fabric[0]->maybe_pending());
  ASSERT_NO_FATAL_FAILURE(talk(7));
}

TEST_F(ShmReturn, NothingThatWasSentToTheLastLifeGoesToTheNext) {
  for (std::uint64_t i = 0; i < 5ull * slots; ++i) fabric[0]->send(1, note(666));
  fabric[0]->flush();
  ASSERT_TRUE(fabric[0]->has_backlog());
  ASSERT_GT(fabric[0]->queued(1), 0u);
  fabric[0]->send(1, note(666));  // and one that is not flushed
  die();
  EXPECT_EQ(fabric[0]->queued(1), 0u);
  come_back();
  fabric[0]->flush();
  EXPECT_FALSE(fabric[0]->has_backlog());
  EXPECT_TRUE(received(1).empty());
  ASSERT_NO_FATAL_FAILURE(talk(4));
}

TEST_F(ShmReturn, WhatIsSentBetweenDeathAndReturnGoesNowhere) {
  die();
  alignas(64) std::array<std::byte, kLine> line;
  line.fill(std::byte(0x66));
  fabric[0]->send(1, note(666));
  fabric[0]->write_slot(1, 5, line, false);
  fabric[0]->write_home(1, 0, line);
  fabric[0]->flush();
  come_back();
  EXPECT_TRUE(received(1).empty());
  EXPECT_EQ(segment[1].cache()[5 * kLine], std::byte(0));
  EXPECT_EQ(segment[1].memory()[0], std::byte(0));
}

TEST_F(ShmReturn, WhoJoinsWhileAnotherIsDeadReachesItLater) {
  die();
  make_segment(0);
  start(0, {parts_of(0), ShmParts{}});
  alignas(64) std::array<std::byte, kLine> line{};
  fabric[0]->send(1, note(666));
  fabric[0]->write_slot(1, 5, line, true);
  fabric[0]->write_home(1, 0, line);
  fabric[0]->prefetch_slot(1, 5, kLine);
  EXPECT_EQ(fabric[0]->read_slot(1, 5, kLine), nullptr);
  fabric[0]->flush();
  EXPECT_FALSE(fabric[0]->maybe_pending());
  wire::Message message;
  NodeId from = 0;
  EXPECT_FALSE(fabric[0]->poll(message, from));
  come_back();
  ASSERT_NO_FATAL_FAILURE(talk(4));
}

TEST_F(ShmReturn, WhoSleepsIsWokenByWhoCameBackAndTheOtherWayRound) {
  die();
  come_back();
  for (const NodeId at : {NodeId(0), NodeId(1)}) {
    std::thread sleeper([&] {
      while (!fabric[at]->maybe_pending()) fabric[at]->wait(60'000);
    });
    while (segment[at].header().asleep.load() == 0) std::this_thread::yield();
    const auto start = std::chrono::steady_clock::now();
    fabric[1 - at]->send(at, note(1));
    fabric[1 - at]->flush();
    sleeper.join();
    EXPECT_LT(std::chrono::steady_clock::now() - start, 30s);
    EXPECT_EQ(received(at).size(), 1u);
  }
}

/// Threads look without the lock whether there is something while the ring is cleared.
TEST_F(ShmReturn, OthersMayLookMeanwhile) {
  std::atomic<bool> done{false};
  std::thread looker([&] {
    while (!done) (void)fabric[0]->maybe_pending();
  });
  for (int life = 0; life < test::scaled(200); ++life) {
    fabric[1]->send(0, note(1));
    fabric[1]->flush();
    die();
    come_back();
  }
  done = true;
  looker.join();
  ASSERT_NO_FATAL_FAILURE(talk(1));
}

TEST(BellOfWhoIsGone, IsNotReachedAndDoesNotRing) {
  auto bell = std::make_unique<Bell>();
  const std::string name = bell->name;
  const base::Fd way = reach_bell(name);
  ASSERT_TRUE(way.valid());
  EXPECT_TRUE(ring_bell(way.get()));
  bell.reset();
  EXPECT_FALSE(ring_bell(way.get()));
  EXPECT_FALSE(reach_bell(name).valid());
}

/// A node that had other ways when it joined may have given them up since, and its bell with them.
TEST_F(ShmReturn, WhoHasNoBellAnyMoreIsWokenByItsDoorbell) {
  auto bell = std::make_unique<Bell>();
  const base::Fd way = reach_bell(bell->name);
  ShmParts parts = parts_of(1);
  parts.bell = way.get();
  die();
  fabric[0]->readmit(1, parts);
  start(1, {parts_of(0), parts_of(1)});
  bell.reset();
  for (int round = 0; round < 2; ++round) {
    std::thread sleeper([&] {
      while (!fabric[1]->maybe_pending()) fabric[1]->wait(60'000);
    });
    while (segment[1].header().asleep.load() == 0) std::this_thread::yield();
    const auto start = std::chrono::steady_clock::now();
    fabric[0]->send(1, note(1));
    fabric[0]->flush();
    sleeper.join();
    EXPECT_LT(std::chrono::steady_clock::now() - start, 30s);
    EXPECT_EQ(received(1).size(), 1u);
  }
}

}  // namespace
}  // namespace atoll::fabric
