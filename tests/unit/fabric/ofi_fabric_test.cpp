// Two fabrics over libfabric in one process.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <thread>

#include "fabric/ofi/frames.hpp"
#include "unit/fabric/ofi_side.hpp"

namespace atoll::fabric {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using test::choice;
using test::kLine;
using test::pattern;
using test::Side;
using wire::Kind;

class OfiFabricTest : public testing::Test {
 protected:
  OfiFabricTest() {
    for (NodeId id = 0; id < 2; ++id) side[id] = std::make_unique<Side>(id);
    side[0]->start({std::nullopt, side[1]->address});
    side[1]->start({side[0]->address, std::nullopt});
    std::thread other([&] { meet(0); });
    meet(1);
    other.join();
  }
  void meet(NodeId id) {
    side[id]->fabric->meet(Clock::now() + 20s, [](NodeId) { return false; });
  }
  OfiFabric& out() { return *side[0]->fabric; }
  OfiFabric& in() { return *side[1]->fabric; }

  /// The next message for node 1, both sides going on meanwhile. Kind kNone when none comes.
  wire::Message next() {
    wire::Message message;
    NodeId from = 9;
    const auto end = Clock::now() + 10s;
    while (!in().poll(message, from)) {
      if (Clock::now() > end) return {};
      wire::Message stray;
      EXPECT_FALSE(out().poll(stray, from)) << wire::to_string(stray);
      out().flush();
      in().flush();
    }
    EXPECT_EQ(from, 0);
    return message;
  }
  static wire::Message note(std::uint64_t n) {
    wire::Message message;
    message.kind = Kind::kAllocate;
    message.from = 0;
    message.argument = n;
    return message;
  }
  static wire::Message data(std::uint32_t slot, std::uint64_t index = 0) {
    wire::Message message;
    message.kind = Kind::kData;
    message.from = 0;
    message.requester = 1;
    message.count = 1;
    message.line = GlobalAddress::make(0, 4096 + index * kLine).bits();
    message.slots[0] = slot;
    return message;
  }
  bool slot_has(std::uint32_t slot, const std::vector<std::byte>& bytes) {
    return std::memcmp(side[1]->segment.cache() + std::size_t(slot) * kLine, bytes.data(), bytes.size()) == 0;
  }
  std::unique_ptr<Side> side[2];
};

TEST_F(OfiFabricTest, DeliversInOrderAloneAndInFrames) {
  for (std::uint64_t i = 0; i < 300; ++i) {
    out().send(1, note(i));
    if (i % 7 == 0) out().flush();
  }
  out().flush();
  for (std::uint64_t i = 0; i < 300; ++i) ASSERT_EQ(next().argument, i);
}

TEST_F(OfiFabricTest, ALineForOneRequestComesWithItsNoticeAlone) {
  const auto line = pattern(kLine, 1);
  out().write_slot(1, 5, line, false);
  out().send(1, data(5));
  out().flush();
  const wire::Message got = next();
  EXPECT_EQ(got.kind, Kind::kData);
  EXPECT_EQ(got.slots[0], 5u);
  EXPECT_EQ(side[1]->notices, 1);
  EXPECT_TRUE(slot_has(5, line));
}

TEST_F(OfiFabricTest, ARunIsThereBeforeItsOneMessage) {
  for (std::uint32_t i = 0; i < 8; ++i) {
    out().write_slot(1, 10 + i, pattern(kLine, i), true);
    out().send(1, data(10 + i, i));
  }
  out().flush();
  const wire::Message got = next();
  ASSERT_EQ(got.kind, Kind::kData);
  ASSERT_EQ(got.count, 8);
  for (std::uint32_t i = 0; i < 8; ++i) {
    EXPECT_EQ(got.slots[i], 10 + i);
    EXPECT_TRUE(slot_has(10 + i, pattern(kLine, i)));
  }
  EXPECT_EQ(side[1]->notices, 0);
}

TEST_F(OfiFabricTest, LinesOfAStreamGoToTheirPlacesWhereverTheseAre) {
  constexpr std::uint32_t kLines = 60;  // more than a buffer and than one write reaches
  const auto slot_of = [](std::uint32_t i) { return 4 * (i ^ (i % 7 == 0 ? 1 : 0)) + (i % 5) * 164; };
  for (std::uint32_t i = 0; i < kLines; ++i) {
    out().write_slot(1, slot_of(i), pattern(2048, i), true);
    out().send(1, note(i));
  }
  out().flush();
  for (std::uint32_t i = 0; i < kLines; ++i) ASSERT_EQ(next().argument, i);
  for (std::uint32_t i = 0; i < kLines; ++i) EXPECT_TRUE(slot_has(slot_of(i), pattern(2048, i))) << i;
}

TEST_F(OfiFabricTest, WhatIsReturnedHomeIsThereBeforeTheMessage) {
  const auto line = pattern(kLine, 3);
  out().write_home(1, 8192, line);
  out().send(1, note(1));
  out().flush();
  EXPECT_EQ(next().argument, 1u);
  EXPECT_EQ(std::memcmp(side[1]->segment.memory() + 8192, line.data(), kLine), 0);
}

TEST_F(OfiFabricTest, LargeLinesGoInParts) {
  const auto line = pattern(200'000, 4);
  out().write_slot(1, 100, line, false);
  out().send(1, data(100));
  out().flush();
  EXPECT_EQ(next().slots[0], 100u);
  EXPECT_TRUE(slot_has(100, line));
}

TEST_F(OfiFabricTest, LargeLinesOfTheHomeGoFromWhereTheyStand) {
  const auto line = pattern(64 << 10, 9);
  for (std::uint32_t i = 0; i < 20; ++i) {
    std::byte* const at = side[0]->segment.memory() + (std::size_t(i % 8) << 16);
    std::memcpy(at, line.data(), line.size());
    out().write_slot(1, 128 * (i % 8), {at, line.size()}, i % 2 == 0);
    wire::Message message = data(128 * (i % 8));
    message.flags = 7 << wire::kLargerShift;
    out().send(1, message);
    out().flush();
    EXPECT_EQ(next().slots[0], 128 * (i % 8));
    EXPECT_TRUE(slot_has(128 * (i % 8), line));
  }
}

TEST_F(OfiFabricTest, TheLineIsAsItWasWhenItWasHandedOver) {
  auto line = pattern(kLine, 5);
  const auto before = line;
  out().write_slot(1, 7, line, false);
  out().send(1, data(7));
  std::fill(line.begin(), line.end(), std::byte{0xee});
  out().flush();
  (void)next();
  EXPECT_TRUE(slot_has(7, before));
}

TEST_F(OfiFabricTest, OperandsGoWithTheirMessage) {
  for (const unsigned larger : {0u, 3u, 5u}) {  // of 512 bytes, of 4 KiB, of 16 KiB: several frames
    const std::uint32_t slot = 32;
    const auto operands = pattern(std::size_t(kLine) << larger, larger);
    std::memcpy(side[0]->segment.cache() + std::size_t(slot) * kLine, operands.data(), operands.size());
    wire::Message message = data(slot);
    message.kind = Kind::kPutOperated;
    message.flags = std::uint8_t(larger << wire::kLargerShift);
    out().send(1, message);
    std::memset(side[0]->segment.cache() + std::size_t(slot) * kLine, 0, operands.size());
    out().flush();
    const wire::Message got = next();
    ASSERT_EQ(got.kind, Kind::kPutOperated);
    EXPECT_EQ(std::memcmp(in().read_slot(0, slot, std::uint32_t(operands.size())), operands.data(), operands.size()),
              0);
    in().flush();
  }
}

/// Lines that are returned stand in the sender's slot, and go along as operands do.
TEST_F(OfiFabricTest, LinesThatAreFetchedGoWithTheirMessage) {
  std::uint32_t slot = 64;
  for (const Kind kind : {Kind::kPutDirty, Kind::kWriteBack, Kind::kTransfer}) {
    for (const unsigned larger : {0u, 4u}) {
      const auto line = pattern(std::size_t(kLine) << larger, slot);
      std::memcpy(side[0]->segment.cache() + std::size_t(slot) * kLine, line.data(), line.size());
      wire::Message message = data(slot);
      message.kind = kind;
      message.argument = 77;
      message.flags = std::uint8_t(larger << wire::kLargerShift | wire::kFetch);
      out().send(1, message);
      out().flush();
      const wire::Message got = next();
      ASSERT_EQ(got.kind, kind);
      ASSERT_EQ(got.argument, 77u);
      const std::byte* const there = in().read_slot(0, slot, std::uint32_t(line.size()));
      ASSERT_NE(there, nullptr);
      EXPECT_EQ(std::memcmp(there, line.data(), line.size()), 0);
      in().flush();
      EXPECT_EQ(in().read_slot(0, slot, std::uint32_t(line.size())), nullptr) << "it is kept for ever";
      slot += 16;
    }
  }
}

TEST_F(OfiFabricTest, ARunOfLinesThatAreFetchedIsOneMessage) {
  for (std::uint32_t i = 0; i < 11; ++i) {
    const std::uint32_t slot = 200 + 3 * i;
    const auto line = pattern(kLine, i);
    std::memcpy(side[0]->segment.cache() + std::size_t(slot) * kLine, line.data(), kLine);
    wire::Message message = data(slot, i);
    message.kind = Kind::kPutDirty;
    message.flags = wire::kFetch;
    out().send(1, message);
  }
  out().send(1, note(1));
  out().flush();
  std::uint32_t at = 0;
  for (const std::uint32_t count : {8u, 3u}) {
    const wire::Message got = next();
    ASSERT_EQ(got.kind, Kind::kPutDirty);
    ASSERT_EQ(got.count, count);
    for (std::uint32_t i = 0; i < count; ++i, ++at) {
      ASSERT_EQ(got.slots[i], 200 + 3 * at);
      const std::byte* const there = in().read_slot(0, got.slots[i], kLine);
      ASSERT_NE(there, nullptr);
      EXPECT_EQ(std::memcmp(there, pattern(kLine, at).data(), kLine), 0) << at;
    }
  }
  EXPECT_EQ(next().argument, 1u);
}

TEST_F(OfiFabricTest, AReturnWithoutTheFlagBringsNoLine) {
  wire::Message message = data(9);
  message.kind = Kind::kPutDirty;
  out().send(1, message);
  out().flush();
  EXPECT_EQ(next().kind, Kind::kPutDirty);
  EXPECT_EQ(in().read_slot(0, 9, kLine), nullptr);
}

TEST_F(OfiFabricTest, AReturnThatSaysItBringsALineAndDoesNotMakesNoSense) {
  wire::Message forged = data(9);
  forged.kind = Kind::kPutDirty;
  forged.flags = wire::kFetch;
  forged.sequence = first_number(side[0]->address.cookie, side[1]->address.cookie) + 1;  // after the greeting
  const fi_addr_t peer = side[0]->endpoint.insert_peer(side[1]->address.name);
  ASSERT_EQ(::fi_inject(side[0]->endpoint.ep(), &forged, sizeof(forged), peer), 0);
  wire::Message got;
  NodeId from = 0;
  const auto end = Clock::now() + 10s;
  bool came = false;
  while (!came && Clock::now() < end) came = in().poll(got, from);
  ASSERT_TRUE(came);
  EXPECT_EQ(got.kind, Kind::kNone);
}

/// What the receiver cannot make up is not left to the 32 bits.
TEST_F(OfiFabricTest, ALineWhoseAnswerSaysMoreIsFollowedByItsMessage) {
  const auto line = pattern(kLine, 1);
  for (const std::uint8_t flags : {std::uint8_t{0}, std::uint8_t{wire::kExclusive}}) {
    wire::Message message = data(5);
    message.argument = 4711;  // a tenure
    message.flags = flags;
    out().write_slot(1, 5, line, false);
    out().send(1, message);
    out().flush();
    const wire::Message got = next();
    EXPECT_EQ(got.kind, Kind::kData);
    EXPECT_EQ(got.argument, 4711u);
    EXPECT_EQ(got.flags, flags);
    EXPECT_TRUE(slot_has(5, line));
  }
  EXPECT_EQ(side[1]->notices, 0);
}

TEST_F(OfiFabricTest, APeerThatDoesNotReadGetsAllOfItLater) {
  const auto line = pattern(4096, 6);
  constexpr std::uint32_t kLines = 5000;  // 20 MiB: more than sockets and buffers hold
  for (std::uint32_t i = 0; i < kLines; ++i) {
    out().write_slot(1, i % 100 * 8, line, true);
    out().send(1, note(i));
    if (i % 16 == 0) out().flush();
  }
  out().flush();
  EXPECT_GT(out().queued(1), 0u);
  for (std::uint32_t i = 0; i < kLines; ++i) ASSERT_EQ(next().argument, i);
  EXPECT_EQ(out().queued(1), 0u);
}

TEST_F(OfiFabricTest, ANoticeDoesNotOvertakeFramesThatWaitForAReceive) {
  const auto line = pattern(kLine, 7);
  constexpr std::uint64_t kNotes = 600;  // each a frame: more than there are receives
  for (std::uint64_t i = 0; i < kNotes; ++i) {
    out().send(1, note(i));
    out().flush();
  }
  out().write_slot(1, 5, line, false);
  out().send(1, data(5));
  out().flush();
  for (std::uint64_t i = 0; i < kNotes; ++i) {
    const wire::Message got = next();
    ASSERT_EQ(got.kind, Kind::kAllocate) << i;
    ASSERT_EQ(got.argument, i);
  }
  EXPECT_EQ(next().kind, Kind::kData);
  EXPECT_TRUE(slot_has(5, line));
  EXPECT_EQ(side[1]->broken, "");
}

TEST_F(OfiFabricTest, SleepsUntilSomethingComesOrItIsWoken) {
  std::thread later([&] {
    std::this_thread::sleep_for(20ms);
    out().send(1, note(1));
    out().flush();
  });
  wire::Message message;
  NodeId from = 0;
  const auto end = Clock::now() + 20s;
  while (!in().poll(message, from) && Clock::now() < end) in().wait(10'000);
  later.join();
  EXPECT_EQ(message.argument, 1u);
  std::thread waker([&] { in().wake_self(); });
  const auto start = Clock::now();
  in().wait(20'000);
  EXPECT_LT(Clock::now() - start, 15s);
  waker.join();
}

TEST_F(OfiFabricTest, SendsNothingToWhoIsForgotten) {
  out().send(1, note(1));
  out().write_slot(1, 3, pattern(kLine, 1), false);
  out().forget(1);
  out().send(1, note(2));
  out().flush();
  EXPECT_EQ(out().queued(1), 0u);
}

TEST_F(OfiFabricTest, TellsOfAPeerThatIsGone) {
  side[1]->fabric.reset();
  std::unique_ptr<Side> gone = std::move(side[1]);
  gone.reset();
  wire::Message message;
  NodeId from = 0;
  const auto end = Clock::now() + 20s;
  while (side[0]->broken.empty() && Clock::now() < end) {
    out().write_home(1, 0, pattern(kLine, 1));
    out().flush();
    EXPECT_FALSE(out().poll(message, from));
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_FALSE(side[0]->broken.empty());
}

TEST_F(OfiFabricTest, StrangersAreNotHeardAndDoNotMakeItDeaf) {
  Endpoint far(choice());
  const fi_addr_t victim = far.insert_peer(side[1]->address.name);
  wire::Message forged = note(666);
  int sent = 0;
  for (int tries = 0; sent < 600 && tries < 100'000; ++tries) {
    forged.sequence = std::uint32_t(tries * 7919);
    const bool with_data = tries % 2 == 0;  // a forged notice from node 0 for slot 3
    const ssize_t result = with_data ? ::fi_injectdata(far.ep(), &forged, sizeof(forged), 3, victim)
                                     : ::fi_inject(far.ep(), &forged, sizeof(forged), victim);
    sent += result == 0;
    fi_cq_data_entry entry;
    (void)::fi_cq_read(far.cq(), &entry, 1);
    wire::Message message;
    NodeId from = 0;
    EXPECT_FALSE(in().poll(message, from)) << wire::to_string(message);
  }
  EXPECT_EQ(sent, 600);
  for (std::uint64_t i = 0; i < 300; ++i) out().send(1, note(i));
  out().flush();
  for (std::uint64_t i = 0; i < 300; ++i) ASSERT_EQ(next().argument, i);
  EXPECT_EQ(side[1]->notices, 0);
  EXPECT_EQ(side[1]->broken, "");
}

TEST_F(OfiFabricTest, ASenderWhoseFrameWasLostIsBroken) {
  out().send(1, note(1));
  out().flush();
  EXPECT_EQ(next().argument, 1u);
  // As if a connection had broken with two frames in it and was made again: the sender's next has a later number.
  wire::Message late = note(2);
  late.sequence = first_number(side[0]->address.cookie, side[1]->address.cookie) + 4;
  const fi_addr_t peer = side[0]->endpoint.insert_peer(side[1]->address.name);
  ASSERT_EQ(::fi_inject(side[0]->endpoint.ep(), &late, sizeof(late), peer), 0);
  wire::Message message;
  NodeId from = 0;
  const auto end = Clock::now() + 10s;
  while (side[1]->broken.empty() && Clock::now() < end) {
    EXPECT_FALSE(in().poll(message, from));
    in().flush();
  }
  EXPECT_FALSE(side[1]->broken.empty());
}

TEST(OfiEndpoint, SaysWhatIsMissing) {
  try {
    const Endpoint endpoint({"verbs", "192.0.2.77"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("verbs;ofi_rxm"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("fi_info"), std::string::npos) << error.what();
  }
  EXPECT_EQ(find_provider({"no_such_provider", ""}), nullptr);
}

TEST(OfiAddressTest, IsReadAsItWasWritten) {
  OfiAddress one;
  one.provider = "tcp;ofi_rxm";
  one.name = {std::byte{0}, std::byte{0xff}, std::byte{0x1f}};
  one.key = UINT64_MAX;
  one.cookie = 7;
  one.memory_bytes = 1ull << 40;
  one.file_bytes = 1ull << 30;
  one.line_bytes = 512;
  one.bell = "atoll-bell-1";
  OfiAddress two = one;
  two.provider = "verbs;ofi_rxm";
  const auto got = parse_ofi_addresses(to_text(std::vector{one, two}));
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(*got, (std::vector{one, two}));
  EXPECT_TRUE(parse_ofi_addresses("").ok());
  for (const char* text : {"x", "ofi1", "ofi1 tcp 00 0 0 0 0 0 0", "ofi1 tcp 0 0 0 0 0 0 0 0 0 b", " ",
                           "ofi1 tcp 00 0 0 0 0 0 0 0 0 b x", "ofi1 t\"cp 00 0 0 0 0 0 0 0 0 b", ",",
                           "ofi1 tcp 00 0 0 0 100000000 0 0 0 0 b", "ofi1 tcp 0g 0 0 0 0 0 0 0 0 b"}) {
    EXPECT_FALSE(parse_ofi_addresses(text).ok()) << text;
  }
}

}  // namespace
}  // namespace atoll::fabric
