// Memory that nodes map of each other, and their messages.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <latch>
#include <thread>
#include <vector>

#include "base/random.hpp"
#include "bench/tpcc/peers.hpp"
#include "support/local_cluster.hpp"

namespace atoll::bench::tpcc {
namespace {

using test::LocalCluster;

/// Answers with what it was asked, each byte one higher; counts what is posted.
class Echo : public PeerHandler {
 public:
  void handle(const Call& call, std::span<const std::byte> message) noexcept override {
    if (call.number == 0) {
      std::uint64_t number = 0;
      std::memcpy(&number, message.data(), sizeof(number));
      std::atomic<std::uint64_t>& last = last_of[call.asker][call.thread];
      if (number != last.load() + 1) ++disorder;
      last = number;
      for (std::size_t i = sizeof(number); i < message.size(); ++i) {
        if (message[i] != std::byte(number)) ++damage;
      }
      ++posted;
      return;
    }
    const std::span<std::byte> room = peers->room_for_answer(call);
    for (std::size_t i = 0; i < message.size(); ++i) room[i] = std::byte(unsigned(message[i]) + 1);
    peers->answer(call, std::uint32_t(message.size()));
  }

  Peers* peers = nullptr;
  std::atomic<std::uint64_t> posted{0}, disorder{0}, damage{0};
  std::array<std::array<std::atomic<std::uint64_t>, 8>, 4> last_of{};
};

class World {
 public:
  explicit World(NodeId nodes, std::uint32_t ring_bytes = 4096,
                 std::chrono::milliseconds deadline = std::chrono::seconds(20))
      : cluster(nodes), peers(nodes), handlers(nodes) {
    PeersOptions options;
    options.memory_bytes = 1 << 20;
    options.threads = 4;
    options.ring_bytes = ring_bytes;
    options.answer_bytes = 2048;
    options.deadline = deadline;
    cluster.in_parallel([&](NodeId id) {
      peers[id] = std::make_unique<Peers>(cluster[id], options);
      handlers[id].peers = peers[id].get();
      peers[id]->start(handlers[id]);
    });
  }

  LocalCluster cluster;
  std::vector<std::unique_ptr<Peers>> peers;
  std::vector<Echo> handlers;
};

/// Asks a node, and looks at the answer.
void ask(Peers& peers, unsigned me, NodeId to, std::uint32_t bytes, unsigned seed) {
  const auto room = peers.compose(me, to, bytes);
  ASSERT_TRUE(room.ok()) << room.status().to_string();
  for (std::uint32_t i = 0; i < bytes; ++i) (*room)[i] = std::byte(seed + i);
  peers.ask(me, to, bytes);
}
void expect_answer(Peers& peers, unsigned me, NodeId from, std::uint32_t bytes, unsigned seed) {
  const auto answer = peers.await(me, from);
  ASSERT_TRUE(answer.ok()) << answer.status().to_string();
  ASSERT_EQ(answer->size(), bytes);
  for (std::uint32_t i = 0; i < bytes; ++i) ASSERT_EQ((*answer)[i], std::byte(seed + i + 1)) << i;
}

TEST(TpccPeers, MapEachOthersMemory) {
  World world(3);
  const auto word = [&](NodeId by, NodeId of) {
    return std::atomic_ref(reinterpret_cast<std::uint64_t*>(world.peers[by]->memory(of).data())[by]);
  };
  world.cluster.in_parallel([&](NodeId id) {
    for (NodeId of = 0; of < 3; ++of) {
      EXPECT_GE(world.peers[id]->memory(of).size(), 1u << 20);
      EXPECT_EQ(word(id, of).load(), 0u);
      word(id, of).store(10u * id + of + 1);
    }
  });
  for (NodeId of = 0; of < 3; ++of) {
    const auto* words = reinterpret_cast<const std::uint64_t*>(world.peers[of]->memory(of).data());
    for (NodeId by = 0; by < 3; ++by) EXPECT_EQ(words[by], 10u * by + of + 1);
  }
}

TEST(TpccPeers, AnswerWhileTheirThreadsAskToo) {
  World world(3);
  world.cluster.in_parallel([&](NodeId id) {
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 2; ++t) {
      threads.emplace_back([&world, id, t] {
        Peers& peers = *world.peers[id];
        const unsigned me = peers.thread().value();
        base::Random random(id * 2 + t + 1);
        for (unsigned i = 0; i < 2000; ++i) {  // both others at once
          const auto bytes = std::uint32_t(random.below(1500));
          const auto a = NodeId((id + 1) % 3), b = NodeId((id + 2) % 3);
          ask(peers, me, a, bytes, i);
          ask(peers, me, b, bytes / 2, i + 7);
          expect_answer(peers, me, b, bytes / 2, i + 7);
          expect_answer(peers, me, a, bytes, i);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
}

TEST(TpccPeers, AreServedWhenNobodyPolls) {
  World world(2);
  std::thread([&] {
    const unsigned me = world.peers[0]->thread().value();
    for (unsigned i = 0; i < 100; ++i) {
      if (i % 25 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));  // until the other one sleeps
      ask(*world.peers[0], me, 1, 8, i);
      expect_answer(*world.peers[0], me, 1, 8, i);
    }
  }).join();
}

/// More than fits the rings, in both directions at once: who waits for room handles what comes.
TEST(TpccPeers, PostInOrderAndNeverWaitForEachOther) {
  constexpr std::uint64_t kEach = 5000;
  World world(2, 4096);
  std::latch all_there(4);  // each with a place of its own
  world.cluster.in_parallel([&](NodeId id) {
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 2; ++t) {
      threads.emplace_back([&world, &all_there, id, t] {
        Peers& peers = *world.peers[id];
        const unsigned me = peers.thread().value();
        all_there.arrive_and_wait();
        const auto to = NodeId(1 - id);
        base::Random random(id * 2 + t + 1);
        for (std::uint64_t i = 1; i <= kEach; ++i) {
          const auto bytes = std::uint32_t(8 + random.below(peers.largest_message() - 8));
          const auto room = peers.compose(me, to, bytes);
          ASSERT_TRUE(room.ok()) << room.status().to_string();
          std::memset(room->data(), int(i), bytes);
          std::memcpy(room->data(), &i, sizeof(i));
          peers.post(me, to, bytes);
        }
        ask(peers, me, to, 8, 1);  // is handled after all that was posted
        expect_answer(peers, me, to, 8, 1);
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
  for (const Echo& handler : world.handlers) {
    EXPECT_EQ(handler.posted, 2 * kEach);
    EXPECT_EQ(handler.disorder, 0u);
    EXPECT_EQ(handler.damage, 0u);
  }
}

TEST(TpccPeers, GivePlacesToThreadsThatLive) {
  World world(1);
  for (int i = 0; i < 20; ++i) {
    std::thread([&] { EXPECT_EQ(world.peers[0]->thread().value(), 0u); }).join();
  }
  std::atomic<int> waiting{0}, refused{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&] {
      if (!world.peers[0]->thread().ok()) ++refused;
      for (++waiting; waiting < 6;) std::this_thread::yield();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(refused, 2);
}

/// Never answers.
class Silent : public PeerHandler {
  void handle(const Call&, std::span<const std::byte>) noexcept override {}
};

TEST(TpccPeers, GiveUpOnOneThatIsGone) {
  for (const bool dies : {true, false}) {
    LocalCluster cluster(2);
    std::vector<std::unique_ptr<Peers>> peers(2);
    Silent silent;
    PeersOptions options;
    options.memory_bytes = 1 << 20;
    options.threads = 2;
    options.deadline = std::chrono::milliseconds(dies ? 20'000 : 100);
    cluster.in_parallel([&](NodeId id) {
      peers[id] = std::make_unique<Peers>(cluster[id], options);
      peers[id]->start(silent);
    });
    std::thread([&] {
      const unsigned me = peers[0]->thread().value();
      ask(*peers[0], me, 1, 8, 1);
      if (dies) cluster.hub().kill(1);
      const Errc expected = dies ? Errc::kNodeDied : Errc::kDeadline;
      EXPECT_EQ(peers[0]->await(me, 1).status().code(), expected);
      EXPECT_EQ(peers[0]->compose(me, 1, 8).status().code(), expected);
    }).join();
  }
}

}  // namespace
}  // namespace atoll::bench::tpcc
