// A peer that sends nonsense: a live node neither crashes nor hangs nor loses its memory, and hears it no more.
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "base/log.hpp"
#include "base/random.hpp"
#include "fabric/shm/ring.hpp"
#include "memory/segment.hpp"
#include "support/local_cluster.hpp"
#include "support/seed.hpp"

namespace atoll::test {
namespace {

using namespace std::chrono_literals;
using wire::Kind;
using Word = std::uint64_t;

/// A cluster of one real node (0) and an attacker (1) who has joined as any node does, and then writes what it likes
/// into the ring that the node gave it.
class Attack {
 public:
  Attack() : hub_(std::make_shared<Hub>(2)), segment_(memory::Segment::create(LocalCluster::small_options(), 2)) {
    base::init_logging();
    std::thread joins([&] {
      node_ = std::make_unique<Node>(std::make_unique<runtime::Runtime>(LocalCluster::small_options(),
                                                                        std::make_unique<LocalMembership>(hub_, 0)));
    });
    auto peers = hub_->exchange(1, {segment_.fd(), {}}, {[](NodeId, const std::string&) {}, [] {}, {}});
    victim_ = memory::Segment::open(peers[0].segment);
    joins.join();
    const std::uint32_t slots = victim_.header().ring_slots;
    ring_ = fabric::Ring(victim_.rings() + fabric::Ring::bytes(slots) * 1, slots);
  }
  ~Attack() {
    hub_->kill(1);
    node_.reset();
  }
  Node& node() { return *node_; }
  /// Puts it into the ring, as soon as there is room. False when the node does not empty it any more.
  bool send(const wire::Message& message) {
    const auto end = std::chrono::steady_clock::now() + 300ms;
    bool sent = false;
    while (!(sent = ring_.push(message)) && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    victim_.header().doorbell.fetch_add(1);
    base::futex_wake(victim_.header().doorbell, 1, base::FutexScope::kShared);
    return sent;
  }
  /// Waits, with a generous bound, until the node treats us as dead.
  bool is_cut_off() {
    for (const auto end = std::chrono::steady_clock::now() + 20s; std::chrono::steady_clock::now() < end;) {
      if (node_->free(GlobalAddress::make(1, 4096)).code() == Errc::kNodeDied) return true;
    }
    return false;
  }

 private:
  std::shared_ptr<Hub> hub_;
  memory::Segment segment_, victim_;
  std::unique_ptr<Node> node_;
  fabric::Ring ring_;
};

/// A message that the judge takes, of any kind, about a few lines of either node.
wire::Message plausible(base::Random& random) {
  wire::Message m;
  m.epoch = 1;
  m.kind = Kind(1 + random.below(wire::kKinds - 1));
  m.flags = std::uint8_t(random.below(2));
  m.count = std::uint8_t(1 + random.below(3));
  m.from = 1;
  m.requester = NodeId(random.below(2));
  m.line = GlobalAddress::make(NodeId(random.below(2)), (8 + random.below(6)) * 512).bits();
  m.argument = random.chance(0.5) ? random.below(100'000) : random.next();
  for (auto& slot : m.slots) slot = std::uint32_t(random.below(64));
  if (m.kind == Kind::kElementLock) m.flags = std::uint8_t(random.chance(0.25) ? 8 : random.below(4));
  if (m.kind == Kind::kElementLock || m.kind == Kind::kElementAnswer) {
    m.slots[0] = std::uint32_t(random.below(4));
    m.slots[1] = 0;
    return m;
  }
  if (!wire::is_line_kind(m.kind)) m.line = random.below(4);
  return m;
}

TEST(Hostile, RandomBytesCutTheSenderOff) {
  const std::uint64_t seed = fresh_seed();
  SCOPED_TRACE(repeat_with(seed));
  for (int round = 0; round < scaled(20) + 2; ++round) {
    base::Random random(seed + std::uint64_t(round));
    Attack attack;
    const auto words = attack.node().allocate<Word>(4096, Placement::local()).value();
    for (int i = 0; i < 4096; i += 64) ASSERT_TRUE(attack.node().write(words + i, Word(i) + 1).ok());
    wire::Message message;
    std::array<Word, 8> bytes;
    for (auto& word : bytes) word = random.next();
    std::memcpy(static_cast<void*>(&message), bytes.data(), sizeof(message));
    ASSERT_TRUE(attack.send(message));
    EXPECT_TRUE(attack.is_cut_off());
    for (int i = 0; i < 4096; i += 64) ASSERT_EQ(attack.node().read(words + i).value(), Word(i) + 1);
    EXPECT_EQ(attack.node().allocate(8, Placement::on(1)).status().code(), Errc::kNodeDied);
    EXPECT_TRUE(attack.node().allocate(8).ok());
  }
}

/// Well-formed messages that make no sense: the protocol notices, or is not harmed.
TEST(Hostile, PlausibleNonsenseDoesNoHarm) {
  const std::uint64_t seed = fresh_seed();
  SCOPED_TRACE(repeat_with(seed));
  int cut_off = 0;
  for (int round = 0; round < scaled(100) + 5; ++round) {
    base::Random random(seed + std::uint64_t(round));
    Attack attack;
    Node& node = attack.node();
    // Far from the lines that the attacker may rightly ask for (and then own): those are its to spoil.
    const auto words = node.allocate<Word>(100'000, Placement::local()).value();
    for (int i = 50'000; i < 100'000; i += 500) ASSERT_TRUE(node.write(words + i, Word(i) + 1).ok());
    // Calls that wait for the attacker while it sends: they must end.
    std::thread caller([&] {
      (void)node.read(global_ptr<Word>(GlobalAddress::make(1, 8 * 512)));
      (void)node.allocate(100, Placement::on(1));
      (void)node.barrier(5ms);
    });
    for (int i = 0; i < 300 && attack.send(plausible(random)); ++i) {
    }
    wire::Message last = plausible(random);
    last.version = 99;
    (void)attack.send(last);
    cut_off += attack.is_cut_off();
    caller.join();
    for (int i = 50'000; i < 100'000; i += 500)
      ASSERT_EQ(node.read(words + i).value(), Word(i) + 1) << "round " << round;
    EXPECT_TRUE(node.allocate(8, Placement::local()).ok());
  }
  EXPECT_EQ(cut_off, scaled(100) + 5);
}

/// Answers that it does not take wait at the node, and must not do so without end.
TEST(Hostile, WhoAsksAndDoesNotListenIsCutOff) {
  for (const Kind kind : {Kind::kFree, Kind::kWriteHome, Kind::kElementLock}) {
    Attack attack;
    const GlobalAddress line = attack.node().allocate(512, Placement::local()).value();
    ASSERT_TRUE(attack.node().read_lock(line, 8).ok());  // so that each write is refused
    wire::Message ask;
    ask.epoch = 1;
    ask.kind = kind;
    ask.count = 1;
    ask.from = ask.requester = 1;
    ask.line = kind == Kind::kFree ? 7 : line.bits() / 512 * 512;  // a Free of number 0 wants no answer
    ask.argument = kind == Kind::kFree ? 1 : wire::pack(wire::SmallWrite{0, 8});
    for (int i = 0; i < 100'000 && attack.send(ask); ++i) {
      if (kind == Kind::kElementLock) ++ask.argument;  // each is granted, up to as many as it may have
    }
    EXPECT_TRUE(attack.is_cut_off()) << wire::to_string(kind);
    EXPECT_TRUE(attack.node().unlock(line, 8).ok());
    EXPECT_TRUE(attack.node().allocate(8, Placement::local()).ok());
  }
}

/// Blocks that are none, and more of them than a message has.
TEST(Hostile, FreesThatWantNoAnswerDoNoHarm) {
  Attack attack;
  const GlobalAddress mine = attack.node().allocate(64, Placement::local()).value();
  wire::Message free;
  free.epoch = 1;
  free.kind = Kind::kFree;
  free.from = free.requester = 1;
  free.count = wire::kMaxRun;
  for (std::uint32_t i = 0; i < wire::kMaxRun; ++i) free.slots[i] = 0xffff'fff0u + i;
  ASSERT_TRUE(attack.send(free));
  EXPECT_TRUE(attack.node().write(mine, std::uint64_t{1}).ok());
  free.count = wire::kMaxRun + 1;
  ASSERT_TRUE(attack.send(free));
  EXPECT_TRUE(attack.is_cut_off());
  EXPECT_TRUE(attack.node().free(mine).ok());
}

/// Unlocks of what the peer has not locked change nothing; a ticket that is used twice cuts it off, and what it had
/// locked to write by then is left to nobody.
TEST(Hostile, LocksOfElementsAreTheirOwnersAlone) {
  Attack attack;
  Node& node = attack.node();
  const GlobalAddress mine = node.allocate(64, Placement::local()).value();
  const GlobalAddress other = mine + 8;
  ASSERT_TRUE(node.write_lock_element(mine).ok());
  wire::Message message;
  message.epoch = 1;
  message.kind = Kind::kElementLock;
  message.from = message.requester = 1;
  const auto send = [&](GlobalAddress element, std::uint64_t ticket, int flags) {
    message.line = element.bits();
    message.argument = ticket;
    message.flags = std::uint8_t(flags);
    ASSERT_TRUE(attack.send(message));
  };
  for (std::uint64_t ticket = 0; ticket < 100; ++ticket) send(mine, ticket, wire::kRelease);
  send(other, 7, wire::kExclusive);
  send(mine, 8, 0);  // waits, and goes again
  send(mine, 8, wire::kRelease);
  send(mine, 8, wire::kRelease);
  const auto end = std::chrono::steady_clock::now() + 20s;
  while (node.stats().messages_received < 104 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  std::thread([&] {
    EXPECT_EQ(node.try_read_lock_element(mine).code(), Errc::kRefused);
    EXPECT_EQ(node.try_read_lock_element(other).code(), Errc::kRefused);
  }).join();
  EXPECT_TRUE(node.unlock_element(mine).ok());
  EXPECT_TRUE(node.try_write_lock_element(mine).ok());
  send(other, 7, wire::kExclusive);
  EXPECT_TRUE(attack.is_cut_off());
  const Status status = node.write_lock_element(other);
  EXPECT_EQ(status.code(), Errc::kNodeDied);
  EXPECT_EQ(status.node(), 1);
  EXPECT_TRUE(node.unlock_element(mine).ok());
}

/// One that was stopped for a while finds much that it has not taken yet, and is not to blame.
TEST(Hostile, WhoLeavesMuchUnreadAndAsksLittleIsHeard) {
  Attack attack;
  wire::Message ask;
  ask.epoch = 1;
  ask.kind = Kind::kFree;
  ask.from = ask.requester = 1;
  ask.argument = 1;
  for (int i = 0; i < 30'000; ++i) ASSERT_TRUE(attack.send(ask)) << i;
  const auto end = std::chrono::steady_clock::now() + 20s;
  while (attack.node().stats().messages_received < 30'000 && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
  }
  EXPECT_EQ(attack.node().stats().messages_received, 30'000u);
}

TEST(Hostile, AnswersToQuestionsThatNobodyAskedCutTheSenderOff) {
  for (const Kind kind : {Kind::kData, Kind::kGrant, Kind::kOwnerData, Kind::kPutAck, Kind::kInvalidateAck,
                          Kind::kTransfer, Kind::kWriteBack, Kind::kBarrierRelease}) {
    Attack attack;
    wire::Message message;
    message.epoch = 1;
    message.kind = kind;
    message.count = 1;
    message.from = 1;
    message.requester = 1;
    const bool at_home = kind == Kind::kInvalidateAck || kind == Kind::kTransfer || kind == Kind::kWriteBack;
    message.line = GlobalAddress::make(at_home ? 0 : 1, 4096).bits();
    message.argument = 1;
    ASSERT_TRUE(attack.send(message));
    EXPECT_TRUE(attack.is_cut_off()) << wire::to_string(kind);
  }
}

/// A node that hears nobody any more sleeps like any other.
TEST(Hostile, WhoIsCutOffDoesNotKeepTheNodeAwake) {
  Attack attack;
  wire::Message message;
  message.version = 99;
  ASSERT_TRUE(attack.send(message));
  EXPECT_TRUE(attack.is_cut_off());
  for (int i = 0; i < 10; ++i) (void)attack.send(message);  // stays in the ring for ever
  const std::uint64_t before = attack.node().stats().sleeps;
  std::this_thread::sleep_for(100ms);
  std::uint64_t sleeps = 0;
  for (int i = 0; i < 100 && sleeps == 0; ++i) {
    sleeps = attack.node().stats().sleeps - before;
    if (sleeps == 0) std::this_thread::sleep_for(20ms);
  }
  EXPECT_GT(sleeps, 0u);
}

}  // namespace
}  // namespace atoll::test
