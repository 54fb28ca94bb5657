// Nodes that share lines, die, and come back: what was acknowledged is there, wherever it was.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "support/logged_cluster.hpp"
#include "support/seed.hpp"
#include "wire/kinds.hpp"

namespace atoll {
namespace {

using test::LoggedCluster;
using Word = global_ptr<std::uint64_t>;

struct Case {
  LogMode mode;
  std::vector<NodeId> die;  // 0: the home, 1: who has written
};

class Recovery : public testing::TestWithParam<Case> {
 protected:
  LoggedCluster cluster{2, GetParam().mode};
  Word words;  // node 0's

  void SetUp() override {
    cluster.on(0, [&](Node& node) { words = node.allocate<std::uint64_t>(64 * 200).value(); });
  }
  /// Those of the case die and come back.
  void die() {
    if (GetParam().die.size() == 2) return cluster.crash_all(3);
    cluster.crash(GetParam().die[0], 3);
    cluster.restart(GetParam().die[0]);
  }
  void write(NodeId on, std::uint64_t line, std::uint64_t value) {
    cluster.on(on, [&](Node& node) {
      node.write(words + std::int64_t(64 * line), value).or_throw();
      node.fence().or_throw();
    });
  }
  [[nodiscard]] std::uint64_t read(NodeId on, std::uint64_t line) {
    std::uint64_t found = 0;
    cluster.on(on, [&](Node& node) { found = node.read(words + std::int64_t(64 * line)).value(); });
    return found;
  }
};

std::string name_of(const testing::TestParamInfo<Case>& info) {
  const std::string who = info.param.die.size() == 2 ? "Both" : info.param.die[0] == 0 ? "Home" : "Owner";
  return who + (info.param.mode == LogMode::kPower ? "Power" : "Process");
}
INSTANTIATE_TEST_SUITE_P(Cases, Recovery,
                         testing::Values(Case{LogMode::kProcess, {0}}, Case{LogMode::kProcess, {1}},
                                         Case{LogMode::kProcess, {0, 1}}, Case{LogMode::kPower, {0}},
                                         Case{LogMode::kPower, {1}}, Case{LogMode::kPower, {0, 1}}),
                         name_of);

TEST_P(Recovery, ALineThatItsOwnerHas) {
  write(1, 0, 7);
  die();
  EXPECT_EQ(read(1, 0), 7u);
  EXPECT_EQ(read(0, 0), 7u);
}

TEST_P(Recovery, ALineThatWasRecalledByTheHome) {
  write(1, 0, 7);
  EXPECT_EQ(read(0, 0), 7u);
  die();
  EXPECT_EQ(read(0, 0), 7u);
  EXPECT_EQ(read(1, 0), 7u);
}

TEST_P(Recovery, ALineThatWentToAndFro) {
  for (std::uint64_t round = 1; round <= 6; ++round) {
    for (std::uint64_t k = 0; k < 5; ++k) {
      write(NodeId(k % 2), 0, 10 * round + k);
      write(NodeId((k + 1) % 2), 1, 10 * round + k);
    }
    die();
    EXPECT_EQ(read(NodeId(round % 2), 0), 10 * round + 4);
    EXPECT_EQ(read(NodeId(round % 2), 1), 10 * round + 4);
  }
}

TEST_P(Recovery, MoreLinesThanTheCacheHasRoomFor) {
  for (std::uint64_t line = 0; line < 200; ++line) write(1, line, line + 1);
  die();
  for (std::uint64_t line = 0; line < 200; ++line) ASSERT_EQ(read(0, line), line + 1);
  for (std::uint64_t line = 0; line < 200; ++line) ASSERT_EQ(read(1, line), line + 1);
}

/// A line of which only its owner's log has anything, however often that log has begun anew.
TEST_P(Recovery, ALineThatIsOwnedThroughManyCheckpoints) {
  write(1, 0, 7);
  cluster.on(1, [&](Node& node) {
    const GlobalAddress own = node.allocate(1 << 19).value();
    const std::vector<std::byte> bytes(100'000, std::byte{1});
    while (node.stats().checkpoints < 3) node.write(own, bytes).or_throw();
    node.write(words + 1, 8).or_throw();
    node.fence().or_throw();
  });
  die();
  cluster.on(0, [&](Node& node) {
    EXPECT_EQ(node.read(words).value(), 7u);
    EXPECT_EQ(node.read(words + 1).value(), 8u);
  });
}

/// The other node's thread is in the middle of it, and sees no more of the death than that it takes a while.
TEST_P(Recovery, AtomicsOfTheOtherNodeGoOn) {
  if (GetParam().die.size() == 2) return;
  const NodeId dies = GetParam().die[0], stays = NodeId(1 - dies);
  std::atomic<bool> stop{false};
  std::uint64_t done = 0;
  std::thread adder([&] {
    while (!stop) {
      cluster[stays].fetch_add(words, 1).status().or_throw();
      ++done;
    }
  });
  std::uint64_t added = 0;
  for (int life = 0; life < 3; ++life) {
    cluster.on(dies, [&](Node& node) {
      for (int i = 0; i < 20; ++i) node.fetch_add(words, 1).status().or_throw();
      added += 20;
    });
    cluster.crash(dies, std::uint64_t(life));
    cluster.restart(dies);
  }
  stop = true;
  adder.join();
  EXPECT_EQ(read(0, 0), done + added);
  EXPECT_EQ(read(1, 0), done + added);
}

/// Their home does them, and is asked again for those that it has not answered before it died.
TEST_P(Recovery, GuardedWritesOfTheOtherNodeAreDoneOnce) {
  if (GetParam().die != std::vector<NodeId>{0}) return;
  std::atomic<bool> stop{false};
  std::array<std::uint64_t, 3> done{};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < done.size(); ++t) {
    threads.emplace_back([&, t] {
      const Word guard = words + std::int64_t(64 * (t / 2));  // two of them on one
      for (std::uint64_t now = 0; !stop; now = cluster[1].read(guard).value()) {
        const std::array<std::uint64_t, 2> tail{now + 1, ~now};
        const auto told = cluster[1].write_if(guard, now, now + 1, guard.address() + 8, std::as_bytes(std::span(tail)));
        if (told.value()) ++done[t];
      }
    });
  }
  for (std::uint64_t life = 0; life < 6; ++life) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    cluster.crash(0, life);
    cluster.restart(0);
  }
  stop = true;
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(read(0, 0), done[0] + done[1]);
  EXPECT_EQ(read(0, 1), done[2]);
  cluster.on(0, [&](Node& node) {
    EXPECT_EQ(node.read(words + 65).value(), done[2]);
    EXPECT_EQ(node.read(words + 66).value(), ~(done[2] - 1));
  });
  EXPECT_GT(cluster[1].stats().sent_by_kind[std::size_t(wire::Kind::kWriteIf)], 0u);
}

TEST_P(Recovery, WhatIsReleasedWhileItsHomeIsAwayIsFree) {
  if (GetParam().die != std::vector<NodeId>{0}) return;
  std::vector<GlobalAddress> blocks;
  cluster.on(1, [&](Node& node) {
    for (int i = 0; i < 40; ++i) blocks.push_back(node.allocate(10'000, Placement::on(0)).value());
    node.fence().or_throw();
  });
  const auto free_bytes = [&] { return cluster[0].stats().memory_free_bytes; };
  const std::uint64_t before = free_bytes();
  cluster.crash(0, 3);
  cluster.on(1, [&](Node& node) {
    for (const GlobalAddress block : blocks) node.release(block).or_throw();
  });
  cluster.restart(0);
  cluster.on(1, [&](Node& node) { EXPECT_TRUE(node.allocate(8, Placement::on(0)).ok()); });  // behind them
  EXPECT_GE(free_bytes(), before + 40 * 10'000 - 100);
}

/// In mode power a line goes back when the disk of its home has it; nobody there does anything that would look after
/// it.
TEST_P(Recovery, LinesGoBackToAHomeThatIsIdle) {
  cluster.on(1, [&](Node& node) {
    for (std::int64_t line = 0; line < 200; ++line) node.write(words + 64 * line, std::uint64_t(line)).or_throw();
    node.fence().or_throw();
  });
  die();
  for (std::uint64_t line = 0; line < 200; ++line) ASSERT_EQ(read(0, line), line);
}

TEST_P(Recovery, AllocationsOnTheOtherNodeAreDoneOnce) {
  std::vector<GlobalAddress> got;
  for (int life = 0; life < 3; ++life) {
    cluster.on(1, [&](Node& node) {
      for (int i = 0; i < 20; ++i) {
        got.push_back(node.allocate(1000, Placement::on(0)).value());
        node.write(got.back(), std::uint64_t(got.size())).or_throw();
      }
      node.fence().or_throw();
    });
    die();
  }
  cluster.on(0, [&](Node& node) {
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(node.read<std::uint64_t>(got[i]).value(), i + 1);
  });
  cluster.on(1, [&](Node& node) {
    for (const GlobalAddress at : got) EXPECT_TRUE(node.free(at).ok());
  });
}

/// Two that were dead come back at the same time, while the third stays.
TEST(RecoveryOfSeveral, TwoOfThreeComeBackTogether) {
  for (const LogMode mode : {LogMode::kProcess, LogMode::kPower}) {
    LoggedCluster cluster(3, mode);
    std::array<Word, 3> words;
    for (NodeId home = 0; home < 3; ++home) {
      cluster.on(home, [&](Node& node) { words[home] = node.allocate<std::uint64_t>(64 * 3).value(); });
    }
    for (std::uint64_t life = 1; life <= 5; ++life) {
      for (NodeId id = 0; id < 3; ++id) {
        cluster.on(id, [&](Node& node) {
          for (const Word word : words) node.write(word + 64 * id, 100 * life + id).or_throw();
          for (const Word word : words) node.fetch_add(word + 1, 1).status().or_throw();
          node.fence().or_throw();
        });
      }
      const NodeId stays = NodeId(life % 3);
      std::vector<NodeId> die;
      for (NodeId id = 0; id < 3; ++id) {
        if (id != stays) die.push_back(id);
      }
      for (const NodeId id : die) cluster.crash(id, life);
      cluster.restart(die);
      for (NodeId id = 0; id < 3; ++id) {
        cluster.on(id, [&](Node& node) {
          for (const Word word : words) {
            for (std::uint64_t k = 0; k < 3; ++k) {
              EXPECT_EQ(node.read(word + std::int64_t(64 * k)).value(), 100 * life + k) << "life " << life;
            }
            EXPECT_EQ(node.read(word + 1).value(), 3 * life);
          }
        });
      }
    }
  }
}

/// Barriers are counted: who is back goes on from what the others know to be released.
TEST(RecoveryOfSeveral, BarriersGoOnAfterEachReturn) {
  LoggedCluster cluster(3);
  for (NodeId dies = 0; dies < 3; ++dies) {
    for (int i = 0; i < 2; ++i) {
      cluster.on_all([](Node& node) { node.barrier(std::chrono::seconds(30)).or_throw(); });
    }
    cluster.crash(dies);
    cluster.restart(dies);
  }
  cluster.on_all([](Node& node) { node.barrier(std::chrono::seconds(30)).or_throw(); });
}

/// What was fenced survives a power cut, and of what was not a write is there or not, within a line.
TEST(PowerCut, LosesNoFencedWriteAndTearsNone) {
  const std::uint64_t seed = test::fresh_seed();
  SCOPED_TRACE(test::repeat_with(seed));
  for (std::uint64_t round = 0; round < std::uint64_t(test::scaled(40)); ++round) {
    LoggedCluster cluster(2, LogMode::kPower);
    std::array<GlobalAddress, 2> at;
    for (NodeId home = 0; home < 2; ++home) {
      cluster.on(home, [&](Node& node) {
        at[home] = node.allocate(8 * 512).value();
        node.fence().or_throw();
      });
    }
    const auto fill = [&](Node& node, std::uint8_t value) {
      const std::vector<std::byte> line(512, std::byte{value});
      for (const GlobalAddress first : at) {
        for (std::int64_t k = 0; k < 8; ++k) node.write(first + 512 * k, line).or_throw();
      }
    };
    const auto writer = NodeId(round % 2);
    cluster.on(writer, [&](Node& node) { fill(node, 1), node.fence().or_throw(); });
    cluster.on(writer, [&](Node& node) { fill(node, 2); });
    cluster.crash_all(seed + round);
    for (NodeId id = 0; id < 2; ++id) {
      cluster.on(id, [&](Node& node) {
        for (const GlobalAddress first : at) {
          for (std::int64_t k = 0; k < 8; ++k) {
            std::vector<std::byte> found(512);
            node.read(first + 512 * k, found).or_throw();
            EXPECT_TRUE(found[0] == std::byte{1} || found[0] == std::byte{2}) << int(found[0]) << " round " << round;
            EXPECT_EQ(found, std::vector<std::byte>(512, found[0])) << "round " << round;
          }
        }
      });
    }
  }
}

}  // namespace
}  // namespace atoll
