// A peer that dies and comes back as a new process, over libfabric: node 0 stays, node 1 has several lives.
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

class OfiReturn : public testing::Test {
 protected:
  OfiReturn() : stays(std::make_unique<Side>(0)), comes(std::make_unique<Side>(1)) {
    stays->start({std::nullopt, comes->address});
    comes->start({stays->address, std::nullopt});
    std::thread other([&] { meet(*stays); });
    meet(*comes);
    other.join();
  }
  static void meet(Side& side) {
    side.fabric->meet(Clock::now() + 20s, [](NodeId) { return false; });
  }
  /// Node 1's process ends, with all that it has sent.
  void die() {
    comes->fabric.reset();
    comes.reset();
    stays->fabric->forget(1);
  }
  /// Node 1 is there again, and node 0 does not know of it yet.
  void be_born() {
    comes = std::make_unique<Side>(1, ++lives);
    stays->broken.clear();
  }
  /// Node 0 is told, and then node 1 begins.
  void come_back() {
    be_born();
    stays->fabric->readmit(1, stays->fabric->introduce(1, comes->address));
    comes->start({stays->address, std::nullopt});
    work_until_met();
  }
  /// As in a cluster, both go on while the newcomer meets those who are there.
  void work_until_met() {
    std::atomic<bool> done{false};
    std::thread newcomer([&] {
      meet(*comes);
      done = true;
    });
    wire::Message message;
    NodeId from = 0;
    while (!done) {
      EXPECT_FALSE(stays->fabric->poll(message, from)) << wire::to_string(message);
      stays->fabric->flush();
      std::this_thread::yield();
    }
    newcomer.join();
  }
  static wire::Message note(NodeId from, std::uint64_t n) {
    wire::Message message;
    message.kind = Kind::kAllocate;
    message.from = from;
    message.argument = n;
    return message;
  }
  static wire::Message data(NodeId from, std::uint32_t slot) {
    wire::Message message;
    message.kind = Kind::kData;
    message.from = from;
    message.requester = NodeId(1 - from);
    message.count = 1;
    message.line = GlobalAddress::make(from, 4096).bits();
    message.slots[0] = slot;
    return message;
  }
  /// The next message at `to`, both sides going on meanwhile; kNone when none comes.
  wire::Message next(Side& to, std::chrono::milliseconds patience = 10s) {
    Side& other = &to == stays.get() ? *comes : *stays;
    wire::Message message;
    NodeId from = 9;
    const auto end = Clock::now() + patience;
    while (!to.fabric->poll(message, from)) {
      if (Clock::now() > end) return {};
      other.fabric->flush();
      to.fabric->flush();
      if (other.fabric->queued(to.self) > 0) (void)other.fabric->maybe_pending();
    }
    EXPECT_EQ(from, other.self);
    return message;
  }
  /// Messages, a line with its notice, a line that is fetched, and one that goes home: each way.
  void talk(unsigned seed) {
    for (Side* const from : {stays.get(), comes.get()}) {
      Side& to = from == stays.get() ? *comes : *stays;
      for (std::uint64_t i = 0; i < 100; ++i) {
        from->fabric->send(to.self, note(from->self, seed + i));
        if (i % 9 == 0) from->fabric->flush();
      }
      from->fabric->flush();
      for (std::uint64_t i = 0; i < 100; ++i) ASSERT_EQ(next(to).argument, seed + i);
      const int notices = to.notices;
      from->fabric->write_slot(to.self, 5, pattern(kLine, seed), false);
      from->fabric->send(to.self, data(from->self, 5));
      from->fabric->write_home(to.self, 8192, pattern(kLine, seed + 1));
      wire::Message returned = data(from->self, 7);
      returned.kind = Kind::kPutDirty;
      returned.flags = wire::kFetch;
      std::memcpy(from->segment.cache() + 7 * kLine, pattern(kLine, seed + 2).data(), kLine);
      from->fabric->send(to.self, returned);
      from->fabric->flush();
      ASSERT_EQ(next(to).kind, Kind::kData);
      EXPECT_EQ(to.notices, notices + 1);
      ASSERT_EQ(next(to).kind, Kind::kPutDirty);
      EXPECT_EQ(std::memcmp(to.segment.cache() + 5 * kLine, pattern(kLine, seed).data(), kLine), 0);
      EXPECT_EQ(std::memcmp(to.segment.memory() + 8192, pattern(kLine, seed + 1).data(), kLine), 0);
      const std::byte* const line = to.fabric->read_slot(from->self, 7, kLine);
      ASSERT_NE(line, nullptr);
      EXPECT_EQ(std::memcmp(line, pattern(kLine, seed + 2).data(), kLine), 0);
      to.fabric->flush();
    }
    EXPECT_EQ(stays->broken, "");
    EXPECT_EQ(comes->broken, "");
  }

  std::uint32_t lives = 0;
  std::unique_ptr<Side> stays, comes;
};

TEST_F(OfiReturn, ManyTimesInARow) {
  for (unsigned life = 1; life <= 5; ++life) {
    ASSERT_NO_FATAL_FAILURE(talk(1000 * life));
    die();
    come_back();
  }
  ASSERT_NO_FATAL_FAILURE(talk(7));
}

TEST_F(OfiReturn, NothingThatTheLastLifeHasSentComesIn) {
  for (int round = 0; round < 3; ++round) {
    for (std::uint64_t i = 0; i < 500; ++i) {
      comes->fabric->send(0, note(1, 666));
      comes->fabric->write_slot(0, 3, pattern(kLine, 9), false);
      comes->fabric->send(0, data(1, 3));
      comes->fabric->flush();
    }
    wire::Message message;
    NodeId from = 0;
    ASSERT_EQ(next(*stays).argument, 666u);  // some are received and not taken out
    die();
    EXPECT_FALSE(stays->fabric->poll(message, from));
    come_back();
    const int notices = stays->notices;
    EXPECT_FALSE(stays->fabric->poll(message, from)) << wire::to_string(message);
    comes->fabric->send(0, note(1, 1));
    comes->fabric->flush();
    ASSERT_EQ(next(*stays).argument, 1u);
    EXPECT_EQ(stays->notices, notices);
    EXPECT_EQ(stays->broken, "");
  }
  ASSERT_NO_FATAL_FAILURE(talk(3));
}

TEST_F(OfiReturn, NothingThatWasSentToTheLastLifeGoesToTheNext) {
  const auto line = pattern(4096, 6);
  for (std::uint64_t i = 0; i < 5000; ++i) {  // more than sockets and buffers hold
    stays->fabric->write_slot(1, std::uint32_t(i % 100 * 8), line, true);
    stays->fabric->send(1, note(0, 666));
    if (i % 16 == 0) stays->fabric->flush();
  }
  stays->fabric->write_slot(1, 3, pattern(kLine, 1), false);  // and what is not flushed
  stays->fabric->send(1, note(0, 666));
  EXPECT_GT(stays->fabric->queued(1), 0u);
  die();
  EXPECT_EQ(stays->fabric->queued(1), 0u);
  come_back();
  wire::Message message;
  NodeId from = 0;
  EXPECT_FALSE(comes->fabric->poll(message, from)) << wire::to_string(message);
  const std::vector<std::byte> zeros(1024 * kLine);
  EXPECT_EQ(std::memcmp(comes->segment.cache(), zeros.data(), zeros.size()), 0) << "written to by who died before it";
  for (int round = 0; round < 20; ++round) ASSERT_NO_FATAL_FAILURE(talk(unsigned(round)));
}

TEST_F(OfiReturn, LateCompletionsOfTheLastLifeSayNothingOfTheNext) {
  // It dies with much under way to it, and is back before anybody has looked what became of that.
  for (std::uint64_t i = 0; i < 200; ++i) {
    stays->fabric->write_home(1, 0, pattern(kLine, 1));
    stays->fabric->send(1, note(0, i));
    stays->fabric->flush();
  }
  comes.reset();
  for (int i = 0; i < 50; ++i) {  // to nobody
    stays->fabric->write_home(1, 0, pattern(kLine, 1));
    stays->fabric->flush();
  }
  stays->fabric->forget(1);
  come_back();
  for (int round = 0; round < 20; ++round) ASSERT_NO_FATAL_FAILURE(talk(unsigned(round)));
  EXPECT_EQ(stays->broken, "");
}

TEST_F(OfiReturn, WhatALifeThatIsOverNeverTookFailsWhenTheNextOneIsThere) {
  std::unique_ptr<Side> stopped = std::move(comes);
  const auto line = pattern(64 << 10, 6);
  for (std::uint64_t i = 0; i < 300; ++i) {  // more than sockets hold: the provider keeps it
    stays->fabric->write_slot(1, 128 * std::uint32_t(i % 8), line, false);
    stays->fabric->send(1, note(0, 666));
    stays->fabric->flush();
  }
  stays->fabric->forget(1);
  come_back();
  ASSERT_NO_FATAL_FAILURE(talk(1));
  stopped->fabric.reset();
  stopped.reset();
  for (int round = 0; round < 20; ++round) ASSERT_NO_FATAL_FAILURE(talk(unsigned(round)));
}

TEST_F(OfiReturn, LinesThatCameWithTheLastLifesMessagesAreGone) {
  wire::Message returned = data(1, 7);
  returned.kind = Kind::kPutDirty;
  returned.flags = wire::kFetch;
  comes->fabric->send(0, returned);
  comes->fabric->flush();
  ASSERT_EQ(next(*stays).kind, Kind::kPutDirty);
  ASSERT_NE(stays->fabric->read_slot(1, 7, kLine), nullptr);
  die();
  EXPECT_EQ(stays->fabric->read_slot(1, 7, kLine), nullptr);
  come_back();
  EXPECT_EQ(stays->fabric->read_slot(1, 7, kLine), nullptr);
  ASSERT_NO_FATAL_FAILURE(talk(5));
}

TEST_F(OfiReturn, WhoJoinsWhileAnotherIsDeadReachesItLater) {
  die();
  // Node 0 starts anew, alone, and node 1 comes then.
  stays->fabric.reset();
  stays = std::make_unique<Side>(0, 9);
  stays->start({std::nullopt, std::nullopt});
  meet(*stays);
  stays->fabric->send(1, note(0, 666));
  stays->fabric->write_slot(1, 0, pattern(kLine, 1), false);
  stays->fabric->write_home(1, 0, pattern(kLine, 1));
  EXPECT_EQ(stays->fabric->read_slot(1, 0, kLine), nullptr);
  stays->fabric->flush();
  come_back();
  ASSERT_NO_FATAL_FAILURE(talk(5));
}

TEST_F(OfiReturn, APeerThatWasPreparedAndDiesBeforeItIsReadmittedMayComeAgain) {
  die();
  be_born();
  const Introduced never = stays->fabric->introduce(1, comes->address);
  comes.reset();
  stays->fabric->withdraw(never);
  come_back();
  ASSERT_NO_FATAL_FAILURE(talk(5));
}

// ---- who must not come in ----

/// Sends a frame to node 0 from an endpoint of its own.
class OfiReturnHostile : public OfiReturn {
 protected:
  void send_from_afar(Endpoint& far, wire::Message message) {
    const fi_addr_t victim = far.insert_peer(stays->address.name);
    const auto end = Clock::now() + 10s;
    while (::fi_inject(far.ep(), &message, sizeof(message), victim) != 0 && Clock::now() < end) {
      fi_cq_data_entry entry;
      (void)::fi_cq_read(far.cq(), &entry, 1);
      look();
    }
    for (int i = 0; i < 100; ++i) {
      fi_cq_data_entry entry;
      (void)::fi_cq_read(far.cq(), &entry, 1);
      look();
      std::this_thread::sleep_for(100us);
    }
  }
  void look() {
    wire::Message message;
    NodeId from = 0;
    EXPECT_FALSE(stays->fabric->poll(message, from)) << wire::to_string(message);
    stays->fabric->flush();
  }
  static wire::Message hello(std::uint32_t number) {
    wire::Message message;
    message.from = 1;
    message.argument = kHello;
    message.sequence = number;
    return message;
  }
};

TEST_F(OfiReturnHostile, WhoWasNotReadmittedIsNotHeardThoughItKnowsTheCookie) {
  die();
  be_born();
  send_from_afar(comes->endpoint, hello(first_number(comes->address.cookie, stays->address.cookie)));
  wire::Message message = note(1, 666);
  message.sequence = first_number(comes->address.cookie, stays->address.cookie) + 1;
  send_from_afar(comes->endpoint, message);
  EXPECT_EQ(stays->broken, "");
}

TEST_F(OfiReturnHostile, WhoDoesNotKnowTheCookieIsNotTakenForWhoComesBack) {
  die();
  be_born();
  stays->fabric->readmit(1, stays->fabric->introduce(1, comes->address));
  const std::uint32_t right = first_number(comes->address.cookie, stays->address.cookie);
  const std::uint32_t last = first_number(comes->address.cookie - 0x10000u, stays->address.cookie);
  Endpoint far(choice());
  for (const std::uint32_t wrong : {0u, right - 1, right + 1, right + 100, last, last + 1, stays->address.cookie}) {
    send_from_afar(far, hello(wrong));
    wire::Message message = note(1, 666);
    message.sequence = wrong;
    send_from_afar(far, message);
  }
  EXPECT_EQ(stays->broken, "");
  comes->start({stays->address, std::nullopt});
  work_until_met();
  ASSERT_NO_FATAL_FAILURE(talk(1));
}

/// It has the memory's key and may write; what it says comes with its writes is of the life that is over.
TEST_F(OfiReturnHostile, ANoticeBeforeTheGreetingIsNoMessage) {
  std::unique_ptr<Side> zombie = std::move(comes);
  stays->fabric->forget(1);
  be_born();
  stays->fabric->readmit(1, stays->fabric->introduce(1, comes->address));
  for (int i = 0; i < 50; ++i) {
    zombie->fabric->write_slot(0, 3, pattern(kLine, 9), false);
    zombie->fabric->send(0, data(1, 3));
    zombie->fabric->send(0, note(1, 666));
    zombie->fabric->flush();
    look();
    std::this_thread::sleep_for(100us);
  }
  EXPECT_EQ(stays->notices, 0);
  EXPECT_EQ(stays->broken, "");
  zombie->fabric.reset();
  zombie.reset();
  comes->start({stays->address, std::nullopt});
  work_until_met();
  ASSERT_NO_FATAL_FAILURE(talk(1));
}

/// Its frames, even when the new one is there already.
TEST_F(OfiReturnHostile, ALifeThatIsOverAndGoesOnIsNotHeard) {
  std::unique_ptr<Side> zombie = std::move(comes);
  for (std::uint64_t i = 0; i < 20; ++i) zombie->fabric->send(0, note(1, i));
  zombie->fabric->flush();
  stays->fabric->forget(1);
  come_back();
  ASSERT_NO_FATAL_FAILURE(talk(1));
  for (std::uint64_t i = 0; i < 20; ++i) {
    zombie->fabric->send(0, note(1, 666));
    zombie->fabric->flush();
    look();
    std::this_thread::sleep_for(100us);
  }
  ASSERT_NO_FATAL_FAILURE(talk(2));
  zombie->fabric.reset();
}

}  // namespace
}  // namespace atoll::fabric
