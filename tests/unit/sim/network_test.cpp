// The simulated network between three nodes: what a life that is over has sent vanishes, and the next one is reached.
#include "sim/network.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>

namespace atoll::sim {
namespace {

using wire::Kind;
constexpr NodeId kNodes = 3;

class OneOf final : public cluster::Membership {
 public:
  explicit OneOf(NodeId self) : self_(self) {}
  std::vector<cluster::Peer> exchange(const cluster::Offer&, cluster::Events) override { return {}; }
  [[nodiscard]] NodeId id() const noexcept override { return self_; }
  [[nodiscard]] NodeId count() const noexcept override { return kNodes; }
  [[nodiscard]] std::uint32_t epoch() const noexcept override { return 1; }
  Status publish(std::string_view, GlobalAddress) override { return {}; }
  Result<GlobalAddress> lookup(std::string_view, std::chrono::milliseconds) override { return GlobalAddress(); }
  void leave() noexcept override {}

 private:
  NodeId self_;
};

/// One life of a node.
struct Life {
  Life(Network& network, NodeId id, std::uint64_t memory_bytes = 1 << 20) : self(id), membership(id) {
    Options options;
    options.memory_bytes = memory_bytes;
    options.cache_bytes = 64ull * options.line_bytes;
    line_bytes = options.line_bytes;
    segment = memory::Segment::create(options, kNodes);
    transport = std::make_unique<SimTransport>(network, kNodes);
    brought = transport->connect(segment, membership,
                                 {[this](NodeId node, const std::string&) { deaths.push_back(node); }, {}, {}});
    fabric = transport->make_fabric(segment.header().counters, {}, [](NodeId) { return false; });
  }
  std::vector<std::uint64_t> received(NodeId from) {
    std::vector<std::uint64_t> all;
    wire::Message message;
    for (NodeId who = 9; fabric->poll(message, who); who = 9) {
      EXPECT_EQ(who, from);
      all.push_back(message.argument);
    }
    return all;
  }
  NodeId self;
  OneOf membership;
  memory::Segment segment;
  std::unique_ptr<SimTransport> transport;
  std::vector<runtime::Brought> brought;
  std::unique_ptr<fabric::Fabric> fabric;
  std::vector<NodeId> deaths;
  std::uint32_t line_bytes = 0;
};

class NetworkReturn : public testing::Test {
 protected:
  NetworkReturn() : machine(1), network(machine, kNodes, Options().line_bytes, {}) {
    for (NodeId id = 0; id < kNodes; ++id) lives[id] = std::make_unique<Life>(network, id);
  }
  void settle() {
    (void)machine.run([&] { return false; }, machine.time() + 1'000'000);
  }
  /// Node 2 stops; its memory stays, as in a cluster until the end.
  void die() {
    network.cut_off(2);
    last.push_back(std::move(lives[2]));
    for (NodeId id = 0; id < 2; ++id) {
      lives[id]->transport->hide_view(2);
      lives[id]->fabric->forget(2);
    }
  }
  void be_born() { lives[2] = std::make_unique<Life>(network, 2); }
  void be_readmitted(NodeId by) {
    cluster::Peer peer;
    peer.id = 2;
    (void)lives[by]->transport->prepare(peer);
    lives[by]->transport->readmit(2);
  }
  void come_back() {
    be_born();
    for (NodeId id = 0; id < 2; ++id) be_readmitted(id);
  }
  void send(Life& from, NodeId to, std::uint64_t n) {
    wire::Message message;
    message.kind = Kind::kAllocate;
    message.from = from.self;
    message.argument = n;
    from.fabric->send(to, message);
    from.fabric->flush();
  }
  void talk(std::uint64_t n) {
    for (auto& from : lives) {
      for (auto& to : lives) {
        if (from == to) continue;
        const std::vector<std::byte> line(from->line_bytes, std::byte(n));
        from->fabric->write_home(to->self, 4096, line);
        from->fabric->write_slot(to->self, 3, line, false);
        std::memcpy(from->segment.cache() + 5ull * from->line_bytes, line.data(), line.size());
        for (std::uint64_t i = 0; i < 10; ++i) send(*from, to->self, n + i);
        settle();
        const auto got = to->received(from->self);
        ASSERT_EQ(got.size(), 10u) << from->self << " to " << to->self;
        for (std::uint64_t i = 0; i < 10; ++i) EXPECT_EQ(got[i], n + i);
        EXPECT_EQ(std::memcmp(to->segment.memory() + 4096, line.data(), line.size()), 0);
        EXPECT_EQ(std::memcmp(to->segment.cache() + 3ull * to->line_bytes, line.data(), line.size()), 0);
        EXPECT_EQ(std::memcmp(to->fabric->read_slot(from->self, 5, from->line_bytes), line.data(), line.size()), 0);
      }
    }
    EXPECT_TRUE(network.is_quiet());
  }

  Machine machine;
  Network network;
  std::unique_ptr<Life> lives[kNodes];
  std::vector<std::unique_ptr<Life>> last;
};

TEST_F(NetworkReturn, ManyTimesInARow) {
  for (std::uint64_t life = 0; life < 4; ++life) {
    EXPECT_EQ(network.lives(2), life + 1);
    ASSERT_NO_FATAL_FAILURE(talk(10 * life));
    die();
    come_back();
  }
  ASSERT_NO_FATAL_FAILURE(talk(99));
}

TEST_F(NetworkReturn, WhatIsUnderWayVanishes) {
  const std::vector<std::byte> line(lives[0]->line_bytes, std::byte{0x66});
  send(*lives[2], 0, 666);
  settle();  // it is in the inbox, and not taken out
  send(*lives[2], 0, 666);
  lives[2]->fabric->write_slot(0, 3, line, false);
  send(*lives[0], 2, 666);
  lives[0]->fabric->write_home(2, 4096, line);
  die();
  come_back();
  send(*lives[2], 1, 1);
  settle();
  EXPECT_TRUE(lives[0]->received(2).empty());
  EXPECT_TRUE(lives[2]->received(0).empty());
  EXPECT_EQ(lives[0]->segment.cache()[3ull * lives[0]->line_bytes], std::byte{0});
  EXPECT_EQ(lives[2]->segment.memory()[4096], std::byte{0});
  EXPECT_EQ(lives[1]->received(2), std::vector<std::uint64_t>{1});
  ASSERT_NO_FATAL_FAILURE(talk(5));
}

TEST_F(NetworkReturn, TheNextLifesPacketsTakeTheirTime) {
  for (int i = 0; i < 20; ++i) send(*lives[2], 0, 666);  // their events fire after they were cut off
  die();
  come_back();
  const Time sent = machine.time();
  send(*lives[2], 0, 1);
  ASSERT_TRUE(machine.run([&] { return lives[0]->fabric->maybe_pending(); }, sent + 1'000'000));
  EXPECT_GE(machine.time(), sent + NetworkOptions{}.latency_ns);
}

TEST_F(NetworkReturn, ALifeThatIsOverReachesNobodyAndHearsNobody) {
  die();
  come_back();
  Life& zombie = *last.back();
  const std::vector<std::byte> line(zombie.line_bytes, std::byte{0x66});
  send(zombie, 0, 666);
  zombie.fabric->write_home(0, 4096, line);
  settle();
  EXPECT_TRUE(lives[0]->received(2).empty());
  EXPECT_EQ(lives[0]->segment.memory()[4096], std::byte{0});
  send(*lives[0], 2, 1);
  settle();
  EXPECT_TRUE(zombie.received(0).empty());
  EXPECT_EQ(lives[2]->received(0), std::vector<std::uint64_t>{1});
  network.tell_death(2, 0, 0);  // and is told of what concerns it
  EXPECT_EQ(zombie.deaths, std::vector<NodeId>{0});
  EXPECT_TRUE(lives[2]->deaths.empty());
  network.detach(2, 0);
  ASSERT_NO_FATAL_FAILURE(talk(5));
}

TEST_F(NetworkReturn, WhoHasNotReadmittedItDoesNotHearIt) {
  die();
  be_born();
  be_readmitted(0);
  send(*lives[2], 1, 666);
  send(*lives[1], 2, 666);
  settle();
  EXPECT_TRUE(lives[1]->received(2).empty());
  EXPECT_TRUE(lives[2]->received(1).empty());
  be_readmitted(1);
  ASSERT_NO_FATAL_FAILURE(talk(5));
}

TEST_F(NetworkReturn, ViewsAreEachNodesOwn) {
  const auto seen = [&](NodeId by) { return lives[by]->transport->views()[2].look().memory; };
  for (NodeId id = 0; id < kNodes; ++id) EXPECT_EQ(seen(id), lives[2]->segment.memory());
  die();
  come_back();
  EXPECT_EQ(seen(0), nullptr);
  EXPECT_EQ(seen(1), nullptr);
  EXPECT_EQ(lives[2]->transport->views()[0].look().memory, lives[0]->segment.memory());
  lives[0]->transport->show_view(2);
  EXPECT_EQ(seen(0), lives[2]->segment.memory());
  EXPECT_EQ(lives[0]->transport->views()[2].look().lines, lives[2]->segment.lines());
  EXPECT_EQ(seen(1), nullptr);
}

TEST_F(NetworkReturn, WithOtherSizesOrNotAtAllItIsNotTaken) {
  cluster::Peer peer;
  peer.id = 2;
  die();
  EXPECT_THROW((void)lives[0]->transport->prepare(peer), Error);
  lives[2] = std::make_unique<Life>(network, 2, 2 << 20);
  EXPECT_THROW((void)lives[0]->transport->prepare(peer), Error);
  die();
  come_back();
  ASSERT_NO_FATAL_FAILURE(talk(5));
}

}  // namespace
}  // namespace atoll::sim
