// Transactions that wait for locks by age: the older one waits, the younger one begins again.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
#include <atomic>
#include <chrono>
#include <latch>
#include <memory>
#include <optional>
#include <thread>

#include "atoll/txn.hpp"
#include "support/local_cluster.hpp"
#include "txn/core.hpp"

namespace atoll::txn {
namespace {

TEST(IdOfATransaction, IsOlderByItsNumberThenByItsNode) {
  EXPECT_TRUE(Id::make(5, 0, 1).is_older_than(Id::make(0, 0, 2)));
  EXPECT_FALSE(Id::make(0, 0, 2).is_older_than(Id::make(5, 0, 1)));
  EXPECT_TRUE(Id::make(0, 0, 7).is_older_than(Id::make(1, 0, 7)));
  EXPECT_FALSE(Id::make(1, 0, 7).is_older_than(Id::make(0, 0, 7)));
  EXPECT_FALSE(Id::make(1, 0, 7).is_older_than(Id::make(1, 0, 7)));
  EXPECT_TRUE(Id::make(0, 0, 0xffff'fff0).is_older_than(Id::make(0, 0, 3)));  // numbers begin again
  EXPECT_FALSE(Id::make(0, 0, 3).is_older_than(Id::make(0, 0, 0xffff'fff0)));
}

class WaitDie : public testing::Test {
 protected:
  using Rows = Table<std::uint64_t, std::uint64_t>;
  test::LocalCluster cluster{2};
  std::array<std::unique_ptr<Database>, 2> databases;
  std::array<std::optional<Rows>, 2> rows;

  void open(std::chrono::milliseconds give_up_after) {
    DatabaseOptions options;
    options.on_lock = OnLock::kWaitDie;
    options.give_up_after = give_up_after;
    cluster.in_parallel([&](NodeId id) {
      databases[id] = std::make_unique<Database>(cluster[id], options);
      rows[id] = databases[id]->table<std::uint64_t, std::uint64_t>("rows", {});
    });
    std::thread([&] {
      databases[0]
          ->transact([&](Txn& t) -> Status {
            const Status status = t.insert(*rows[0], 1, 0);
            return status.ok() ? t.insert(*rows[0], 2, 0) : status;
          })
          .or_throw();
    }).join();
  }
  /// Adds 1 to a row.
  static Status add(Txn& t, const Rows& table, std::uint64_t key) {
    const auto row = t.read_for_update(table, key);
    return row.ok() ? t.update(table, key, row->value() + 1) : row.status();
  }
};

TEST_F(WaitDie, TheOlderOneWaitsAndIsRunOnce) {
  open(std::chrono::seconds(60));
  std::latch old_began(1), young_locked(1);
  int old_runs = 0, young_runs = 0;
  std::thread old_one([&] {
    const Status status = databases[0]->transact([&](Txn& t) {
      if (++old_runs == 1) {
        old_began.count_down();
        young_locked.wait();
      }
      return add(t, *rows[0], 1);
    });
    EXPECT_TRUE(status.ok()) << status.to_string();
  });
  std::thread young_one([&] {
    old_began.wait();
    const Status status = databases[1]->transact([&](Txn& t) {
      const Status added = add(t, *rows[1], 1);
      if (added.ok() && ++young_runs == 1) {
        young_locked.count_down();
        // Time for the old one to meet the lock. Too little of it makes the test weaker, not wrong.
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      }
      return added;
    });
    EXPECT_TRUE(status.ok()) << status.to_string();
  });
  old_one.join();
  young_one.join();
  EXPECT_EQ(young_runs, 1);
  EXPECT_EQ(old_runs, 1);
  EXPECT_EQ(databases[0]->stats().lock_conflicts, 0u);
}

TEST_F(WaitDie, TheYoungerOneBeginsAgain) {
  open(std::chrono::seconds(60));
  std::latch old_locked(1);
  std::atomic<int> young_runs{0};
  std::thread old_one([&] {
    const Status status = databases[0]->transact([&](Txn& t) {
      const Status added = add(t, *rows[0], 1);
      if (!added.ok()) return added;
      old_locked.count_down();
      while (young_runs < 3) std::this_thread::yield();  // it would be run once if it waited
      return added;
    });
    EXPECT_TRUE(status.ok()) << status.to_string();
  });
  std::thread young_one([&] {
    old_locked.wait();
    const Status status = databases[1]->transact([&](Txn& t) {
      ++young_runs;
      return add(t, *rows[1], 1);
    });
    EXPECT_TRUE(status.ok()) << status.to_string();
  });
  old_one.join();
  young_one.join();
  EXPECT_GE(databases[1]->stats().lock_conflicts, 2u);
}

/// A third, which begins between the two attempts of the second, is younger than it. So it does not wait for it, as it
/// would if the second had become younger by beginning again.
TEST_F(WaitDie, WhoBeginsAgainStaysAsOldAsItWas) {
  open(std::chrono::seconds(60));
  std::latch old_locked(1), second_again(1);
  std::atomic<int> second_runs{0}, third_runs{0};
  std::atomic<bool> third_began{false};
  std::thread old_one([&] {
    const Status status = databases[0]->transact([&](Txn& t) {
      const Status added = add(t, *rows[0], 1);
      if (!added.ok()) return added;
      old_locked.count_down();
      while (!third_began) std::this_thread::yield();
      return added;
    });
    EXPECT_TRUE(status.ok()) << status.to_string();
  });
  std::thread second([&] {
    old_locked.wait();
    const Status status = databases[1]->transact([&](Txn& t) {
      if (third_began.load()) {
        const Status added = add(t, *rows[1], 2);
        if (added.ok() && second_runs++ == 0) second_again.count_down();
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (added.ok() && third_runs < 2 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
        return added;
      }
      return add(t, *rows[1], 1);  // the old one has it
    });
    EXPECT_TRUE(status.ok()) << status.to_string();
  });
  std::thread third([&] {
    while (databases[1]->stats().lock_conflicts == 0) std::this_thread::yield();  // the second has begun again
    const Status status = databases[0]->transact([&](Txn& t) {
      third_began = true;
      second_again.wait();
      ++third_runs;
      return add(t, *rows[0], 2);
    });
    EXPECT_TRUE(status.ok()) << status.to_string();
  });
  old_one.join();
  second.join();
  third.join();
  EXPECT_GE(third_runs, 2) << "it waited for one that it is younger than";
}

/// Looking again and again at a row that is locked must not take memory each time.
TEST(WaitDieMemory, AWaitTakesNone) {
  struct Large {
    std::array<std::uint64_t, 2000> words{};
  };
  constexpr int kLooks = 20'000;  // 320 MB of rows
  test::LocalCluster cluster{1};
  std::atomic<int> looks{0};
  DatabaseOptions options;
  options.on_lock = OnLock::kWaitDie;
  options.pause = [&](std::chrono::nanoseconds) { ++looks, std::this_thread::yield(); };
  std::thread([&] {
    Database database(cluster[0], options);
    const auto rows = database.table<std::uint64_t, Large>("rows", {});
    database.transact([&](Txn& t) { return t.insert(rows, 1, {}); }).or_throw();
    std::latch old_began(1), young_locked(1);
    int old_runs = 0;
    std::thread old_one([&] {
      const Status status = database.transact([&](Txn& t) {
        if (++old_runs == 1) {
          old_began.count_down();
          young_locked.wait();
        }
        return t.read(rows, 1).status();
      });
      EXPECT_TRUE(status.ok()) << status.to_string();
    });
    std::thread young_one([&] {
      old_began.wait();
      const Status status = database.transact([&](Txn& t) {
        const Status locked = t.read_for_update(rows, 1).status();
        if (!locked.ok()) return locked;
        rusage before{}, after{};
        getrusage(RUSAGE_SELF, &before);
        young_locked.count_down();
        while (looks < kLooks) std::this_thread::yield();
        getrusage(RUSAGE_SELF, &after);
        EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 64 << 10) << "KiB";
        return locked;
      });
      EXPECT_TRUE(status.ok()) << status.to_string();
    });
    old_one.join();
    young_one.join();
  }).join();
}

/// As the processes of two nodes: both count on from the higher number. But one that lies half a circle away is one
/// that began anew, and following it would give names again that were given already.
TEST(OwnersOfTransactions, AreYoungerThanThoseTheyHaveMet) {
  test::LocalCluster cluster{1};
  std::thread([&] {
    Owners owners(cluster[0]);
    const std::uint32_t now = owners.next().number();
    owners.note(Id::make(1, 0, now + 1000));
    EXPECT_GT(owners.next().number() - now, 1000u);
    EXPECT_LT(owners.next().number() - now, 2000u);
    owners.note(Id::make(1, 0, now + (1u << 30) + 10'000));
    EXPECT_LT(owners.next().number() - now, 10'000u);
    owners.note(Id::make(1, 0, now));
    EXPECT_GT(owners.next().number() - now, 1000u);
  }).join();
}

TEST_F(WaitDie, AWaitEndsWithTheTimeOfTheTransaction) {
  open(std::chrono::milliseconds(100));
  std::latch old_began(1), young_locked(1);
  std::atomic<bool> old_is_over{false};
  Status outcome;
  int old_runs = 0;
  std::thread old_one([&] {
    outcome = databases[0]->transact([&](Txn& t) {
      if (++old_runs == 1) {
        old_began.count_down();
        young_locked.wait();
      }
      return add(t, *rows[0], 1);
    });
    old_is_over = true;
  });
  std::thread young_one([&] {
    old_began.wait();
    bool is_first = true;
    const Status status = databases[1]->transact([&](Txn& t) {
      const Status added = add(t, *rows[1], 1);
      if (added.ok() && std::exchange(is_first, false)) young_locked.count_down();
      while (added.ok() && !old_is_over) std::this_thread::yield();
      return added;
    });
    EXPECT_TRUE(status.ok()) << status.to_string();
  });
  old_one.join();
  young_one.join();
  EXPECT_EQ(outcome.code(), Errc::kDeadline) << outcome.to_string();
}

TEST_F(WaitDie, CrosswiseLocksDoNotHang) {
  open(std::chrono::seconds(60));
  constexpr int kEach = 300;
  std::vector<std::thread> threads;
  for (unsigned k = 0; k < 4; ++k) {
    threads.emplace_back([&, k] {
      const std::size_t id = k % 2;
      for (int i = 0; i < kEach; ++i) {
        const Status status = databases[id]->transact([&](Txn& t) {
          const Status first = add(t, *rows[id], 1 + k / 2);
          return first.ok() ? add(t, *rows[id], 2 - k / 2) : first;
        });
        EXPECT_TRUE(status.ok()) << status.to_string();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  std::thread([&] {
    const Status status = databases[0]->transact([&](Txn& t) -> Status {
      for (const std::uint64_t key : {1, 2}) EXPECT_EQ(t.read(*rows[0], key).value(), 4u * kEach);
      return {};
    });
    EXPECT_TRUE(status.ok());
  }).join();
}

}  // namespace
}  // namespace atoll::txn
