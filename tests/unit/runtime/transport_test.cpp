// Nodes that meet through their transports, die and come back, in one process: over shared memory, over tcp, and over
// both where some are said to be on another host.
#include "runtime/transport.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>

namespace atoll::runtime {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using wire::Kind;
constexpr std::uint32_t kLine = 512;
constexpr NodeId kNodes = 3;

/// What every node has shown, and on which host it is.
struct Hub {
  struct Shown {
    int host = 0;
    bool alive = false;
    bool is_known = true;  // what it brought, when it is dead
    base::Fd segment;
    std::string address;
    std::uint64_t memory_bytes = 0, cache_bytes = 0;
  };
  std::mutex mutex;
  std::condition_variable changed;
  std::array<Shown, kNodes> nodes;
  NodeId founders = kNodes;
  std::function<void(NodeId)> on_newcomer;  // instead of waiting for all

  [[nodiscard]] cluster::Peer seen_by(NodeId who, NodeId node) const {
    const Shown& shown = nodes[node];
    cluster::Peer peer;
    peer.id = node;
    peer.alive = shown.alive;
    if (shown.alive || shown.is_known) {
      peer.address = shown.address;
      peer.memory_bytes = shown.memory_bytes;
      peer.cache_bytes = shown.cache_bytes;
      peer.line_bytes = kLine;
    }
    const bool same_host = shown.host == nodes[who].host && who != node && shown.alive;
    if (same_host) peer.segment = base::Fd(::fcntl(shown.segment.get(), F_DUPFD_CLOEXEC, 0));
    return peer;
  }
};

class HubMembership final : public cluster::Membership {
 public:
  HubMembership(Hub& hub, NodeId self, bool spans_hosts) : hub_(hub), self_(self), spans_hosts_(spans_hosts) {}
  std::vector<cluster::Peer> exchange(const cluster::Offer& offer, cluster::Events /*events*/) override {
    std::unique_lock lock(hub_.mutex);
    Hub::Shown& own = hub_.nodes[self_];
    own.segment = base::Fd(::fcntl(offer.segment.get(), F_DUPFD_CLOEXEC, 0));
    own.address = offer.address;
    own.alive = true;
    if (hub_.on_newcomer) {
      hub_.on_newcomer(self_);
    } else {
      --hub_.founders;
      hub_.changed.notify_all();
      hub_.changed.wait(lock, [&] { return hub_.founders == 0; });
    }
    std::vector<cluster::Peer> peers;
    for (NodeId node = 0; node < kNodes; ++node) peers.push_back(hub_.seen_by(self_, node));
    return peers;
  }
  [[nodiscard]] NodeId id() const noexcept override { return self_; }
  [[nodiscard]] NodeId count() const noexcept override { return kNodes; }
  [[nodiscard]] std::uint32_t epoch() const noexcept override { return 1; }
  [[nodiscard]] bool spans_hosts() const noexcept override { return spans_hosts_; }
  Status publish(std::string_view, GlobalAddress) override { return {}; }
  Result<GlobalAddress> lookup(std::string_view, std::chrono::milliseconds) override { return GlobalAddress(); }
  void leave() noexcept override {}

 private:
  Hub& hub_;
  NodeId self_;
  bool spans_hosts_;
};

struct Setting {
  const char* name;
  const char* transport;
  std::array<int, kNodes> hosts;
  bool spans_hosts;  // as far as the membership knows before all have come
};
std::string name_of(const testing::TestParamInfo<Setting>& info) {
  return info.param.name;
}

/// One life of a node.
struct Life {
  Life(Hub& hub, NodeId id, const Setting& setting, std::uint64_t memory_bytes = 1 << 20)
      : self(id), membership(hub, id, setting.spans_hosts) {
    options.memory_bytes = memory_bytes;
    options.cache_bytes = 64 * kLine;
    options.line_bytes = kLine;
    options.transport = setting.transport;
    segment = memory::Segment::create(options, kNodes);
    hub.nodes[id].memory_bytes = segment.memory_bytes();
    hub.nodes[id].cache_bytes = segment.cache_bytes();
    transport = make_transport(options);
  }
  void connect() { brought = transport->connect(segment, membership, {}); }
  void make_fabric() {
    fabric = transport->make_fabric(segment.header().counters,
                                    {[](NodeId from, std::uint32_t slot) {
                                       wire::Message answer;
                                       answer.kind = Kind::kData;
                                       answer.from = from;
                                       answer.slots[0] = slot;
                                       return answer;
                                     },
                                     [this](NodeId, const char* why) { broken = why; }},
                                    [](NodeId) { return false; });
  }
  NodeId self;
  Options options;
  HubMembership membership;
  memory::Segment segment;
  std::unique_ptr<Transport> transport;
  std::vector<Brought> brought;
  std::unique_ptr<fabric::Fabric> fabric;
  std::string broken;
};

class TransportReturn : public testing::TestWithParam<Setting> {
 protected:
  TransportReturn() {
    std::vector<std::thread> threads;
    for (NodeId id = 0; id < kNodes; ++id) {
      hub.nodes[id].host = GetParam().hosts[id];
      lives[id] = std::make_unique<Life>(hub, id, GetParam());
    }
    for (NodeId id = 0; id < kNodes; ++id) {
      threads.emplace_back([this, id] {
        lives[id]->connect();
        lives[id]->make_fabric();
      });
    }
    for (std::thread& thread : threads) thread.join();
    hub.on_newcomer = [this](NodeId node) { readmit_everywhere(node); };
  }
  ~TransportReturn() override {
    for (auto& life : lives) kill(life);
  }
  static void kill(std::unique_ptr<Life>& life) {
    if (life != nullptr) life->fabric.reset();
    life.reset();
  }
  void die(NodeId node) {
    kill(lives[node]);
    hub.nodes[node].alive = false;
    for (auto& life : lives) {
      if (life == nullptr) continue;
      life->transport->hide_view(node);
      life->fabric->forget(node);
    }
  }
  void readmit_everywhere(NodeId node) {
    for (auto& life : lives) {
      if (life == nullptr || life->self == node || life->fabric == nullptr) continue;
      const Brought brought = life->transport->prepare(hub.seen_by(life->self, node));
      EXPECT_EQ(brought.memory_bytes, hub.nodes[node].memory_bytes);
      EXPECT_EQ(brought.cache_slots, hub.nodes[node].cache_bytes / kLine);
      life->transport->readmit(node);
    }
  }
  /// The newcomer joins; the others work meanwhile.
  void come_back(NodeId node) {
    lives[node] = std::make_unique<Life>(hub, node, GetParam());
    lives[node]->connect();
    std::atomic<bool> done{false};
    std::thread newcomer([&] {
      lives[node]->make_fabric();
      done = true;
    });
    while (!done) {
      for (auto& life : lives) {
        if (life != nullptr && life->self != node) look(*life);
      }
      std::this_thread::yield();
    }
    newcomer.join();
  }
  static void look(Life& life) {
    wire::Message message;
    NodeId from = 0;
    EXPECT_FALSE(life.fabric->poll(message, from)) << wire::to_string(message);
    life.fabric->flush();
  }
  static wire::Message note(NodeId from, std::uint64_t n) {
    wire::Message message;
    message.kind = Kind::kAllocate;
    message.from = from;
    message.argument = n;
    return message;
  }
  /// Everyone who lives to everyone who does.
  void talk() {
    for (auto& sender : lives) {
      for (auto& receiver : lives) {
        if (sender == nullptr || receiver == nullptr || sender == receiver) continue;
        for (std::uint64_t i = 0; i < 50; ++i) sender->fabric->send(receiver->self, note(sender->self, ++sent));
        alignas(64) std::array<std::byte, kLine> line;
        line.fill(std::byte(sent));
        sender->fabric->write_home(receiver->self, 8192, line);
        std::memcpy(sender->segment.cache() + 3 * kLine, line.data(), kLine);
        wire::Message returned = note(sender->self, 0);
        returned.kind = Kind::kWriteBack;
        returned.flags = wire::kFetch;
        returned.count = 1;
        returned.slots[0] = 3;
        sender->fabric->send(receiver->self, returned);
        sender->fabric->flush();
        for (std::uint64_t i = 0; i < 50; ++i) {
          ASSERT_EQ(next(*sender, *receiver).argument, sent - 49 + i) << sender->self << " to " << receiver->self;
        }
        ASSERT_EQ(next(*sender, *receiver).kind, Kind::kWriteBack);
        const std::byte* const there = receiver->fabric->read_slot(sender->self, 3, kLine);
        ASSERT_NE(there, nullptr);
        EXPECT_EQ(std::memcmp(there, line.data(), kLine), 0);
        EXPECT_EQ(std::memcmp(receiver->segment.memory() + 8192, line.data(), kLine), 0);
      }
    }
    for (auto& life : lives) {
      if (life == nullptr) continue;
      EXPECT_EQ(life->broken, "");
    }
  }
  static wire::Message next(Life& sender, Life& receiver) {
    wire::Message message;
    NodeId from = 9;
    const auto end = Clock::now() + 10s;
    while (!receiver.fabric->poll(message, from)) {
      if (Clock::now() > end) return {};
      sender.fabric->flush();
      receiver.fabric->flush();
    }
    EXPECT_EQ(from, sender.self);
    return message;
  }
  [[nodiscard]] bool near(NodeId a, NodeId b) const {
    return std::string_view(GetParam().transport) != "tcp" && hub.nodes[a].host == hub.nodes[b].host;
  }

  Hub hub;
  std::unique_ptr<Life> lives[kNodes];
  std::uint64_t sent = 0;
};
INSTANTIATE_TEST_SUITE_P(Ways, TransportReturn,
                         testing::Values(Setting{"Shm", "shm", {0, 0, 0}, false},
                                         Setting{"Tcp", "tcp", {0, 0, 1}, true},
                                         Setting{"Mixed", "auto", {0, 0, 1}, true},
                                         Setting{"Apart", "auto", {0, 1, 2}, true},
                                         Setting{"Together", "auto", {0, 0, 0}, true}),
                         name_of);

TEST_P(TransportReturn, EachInItsTurn) {
  ASSERT_NO_FATAL_FAILURE(talk());
  for (int round = 0; round < 2; ++round) {
    for (NodeId node = 0; node < kNodes; ++node) {
      die(node);
      ASSERT_NO_FATAL_FAILURE(talk());
      come_back(node);
      ASSERT_NO_FATAL_FAILURE(talk());
    }
  }
}

TEST_P(TransportReturn, WithMessagesUnderWay) {
  for (int round = 0; round < 2; ++round) {
    for (std::uint64_t i = 0; i < 5000; ++i) {
      lives[0]->fabric->send(2, note(0, 666));
      lives[2]->fabric->send(0, note(2, 666));
      lives[2]->fabric->send(1, note(2, 666));
      if (i % 10 != 0) continue;
      lives[0]->fabric->flush();
      lives[2]->fabric->flush();
    }
    die(2);
    come_back(2);
    ASSERT_NO_FATAL_FAILURE(talk());
  }
}

TEST_P(TransportReturn, AllButOneAreDeadAndComeOneByOne) {
  for (const bool is_known : {true, false}) {
    for (auto& shown : hub.nodes) shown.is_known = is_known;
    die(1);
    die(2);
    come_back(1);  // while node 2 is dead
    const Brought& other = lives[1]->brought[2];
    EXPECT_EQ(other.memory_bytes, is_known ? 1u << 20 : 0);
    EXPECT_EQ(other.cache_slots, is_known ? 64u : 0);
    ASSERT_NO_FATAL_FAILURE(talk());
    die(0);
    EXPECT_EQ(lives[1]->transport->free_bytes(2), other.memory_bytes);
    come_back(2);
    ASSERT_NO_FATAL_FAILURE(talk());
    come_back(0);
    ASSERT_NO_FATAL_FAILURE(talk());
  }
}

TEST_P(TransportReturn, ViewsAreHiddenAtDeathAndShownWhenItIsSaid) {
  const std::span<const HomeView> views = lives[0]->transport->views();
  const auto shows = [&](NodeId node, const std::byte* first) {
    const HomeView::Places places = views[node].look();
    if (places.memory == nullptr) return false;
    EXPECT_EQ(places.memory[0], *first);
    EXPECT_NE(places.lines, nullptr);
    return true;
  };
  if (views.empty()) {
    EXPECT_FALSE(near(0, 1) || near(0, 2));
    return;
  }
  for (NodeId node = 1; node < kNodes; ++node) {
    lives[node]->segment.memory()[0] = std::byte{1};
    ASSERT_EQ(shows(node, lives[node]->segment.memory()), near(0, node));
    const HomeView::Places before = views[node].look();
    die(node);
    EXPECT_FALSE(shows(node, nullptr));
    come_back(node);
    EXPECT_FALSE(shows(node, nullptr)) << "before it has recovered";
    lives[node]->segment.memory()[0] = std::byte{2};
    lives[0]->transport->show_view(node);
    EXPECT_EQ(shows(node, lives[node]->segment.memory()), near(0, node));
    if (near(0, node)) {
      EXPECT_EQ(before.memory[0], std::byte{1}) << "who has looked may go on";
    }
    lives[0]->transport->hide_view(node);
    EXPECT_FALSE(shows(node, nullptr));
  }
}

TEST_P(TransportReturn, WithOtherSizesItIsNotTaken) {
  die(2);
  Life larger(hub, 2, GetParam(), 2 << 20);
  hub.on_newcomer = [&](NodeId node) {
    for (NodeId other = 0; other < 2; ++other) {
      EXPECT_THROW((void)lives[other]->transport->prepare(hub.seen_by(other, node)), Error);
    }
  };
  larger.connect();
  ASSERT_NO_FATAL_FAILURE(talk());
  hub.nodes[2].address = "ofi1 what";
  EXPECT_THROW((void)lives[0]->transport->prepare(hub.seen_by(0, 2)), Error);
  // Nothing has changed, and one that brings the same is.
  hub.on_newcomer = [this](NodeId node) { readmit_everywhere(node); };
  come_back(2);
  ASSERT_NO_FATAL_FAILURE(talk());
}

TEST_P(TransportReturn, ItMayDieAgainBeforeItIsReadmitted) {
  die(2);
  {
    Life never(hub, 2, GetParam());
    hub.on_newcomer = [&](NodeId node) {
      for (NodeId other = 0; other < 2; ++other) (void)lives[other]->transport->prepare(hub.seen_by(other, node));
    };
    never.connect();
  }
  ASSERT_NO_FATAL_FAILURE(talk());
  hub.on_newcomer = [this](NodeId node) { readmit_everywhere(node); };
  come_back(2);
  ASSERT_NO_FATAL_FAILURE(talk());
}

TEST_P(TransportReturn, OnAnotherHostItIsReachedWhereThereIsAWay) {
  const bool is_shm = std::string_view(GetParam().transport) == "shm";
  const bool has_ways = !is_shm && GetParam().hosts != std::array<int, kNodes>{};  // else they were given up
  for (const int host : {1, 0, 1}) {
    die(1);
    hub.nodes[1].host = host;
    if (has_ways || host == 0) {
      come_back(1);
      ASSERT_NO_FATAL_FAILURE(talk());
      continue;
    }
    Life elsewhere(hub, 1, GetParam());
    hub.on_newcomer = [&](NodeId node) {
      EXPECT_THROW((void)lives[0]->transport->prepare(hub.seen_by(0, node)), Error);
    };
    if (is_shm) {
      EXPECT_THROW(elsewhere.connect(), Error);
    } else {
      elsewhere.connect();
    }
    hub.nodes[1].alive = false;
    hub.on_newcomer = [this](NodeId node) { readmit_everywhere(node); };
  }
}

/// Who sleeps on both ways is woken by who came back, and the other way round.
TEST_P(TransportReturn, SleepersAreWoken) {
  die(1);
  die(2);
  come_back(1);
  come_back(2);
  for (const auto& [from, to] : {std::pair<NodeId, NodeId>{0, 1}, {1, 0}, {2, 1}, {1, 2}}) {
    std::atomic<bool> got{false};
    std::thread sleeper([&, receiver = to] {
      wire::Message message;
      NodeId who = 9;
      const auto end = Clock::now() + 50s;
      while (!got && Clock::now() < end) {
        lives[receiver]->fabric->wait(60'000);
        got = lives[receiver]->fabric->poll(message, who);
      }
    });
    std::this_thread::sleep_for(5ms);
    const auto start = Clock::now();
    lives[from]->fabric->send(to, note(from, 1));
    while (!got && Clock::now() - start < 40s) {
      lives[from]->fabric->flush();
      std::this_thread::sleep_for(1ms);
    }
    EXPECT_TRUE(got) << from << " to " << to;
    lives[to]->fabric->wake_self();
    sleeper.join();
  }
}

}  // namespace
}  // namespace atoll::runtime
