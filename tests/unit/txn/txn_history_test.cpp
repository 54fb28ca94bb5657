// Random transactions of several threads of several nodes over few rows: as if one had been run after the other.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <latch>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "atoll/txn.hpp"
#include "support/local_cluster.hpp"
#include "support/seed.hpp"
#include "verify/serializability.hpp"

namespace atoll::txn {
namespace {

using test::LocalCluster;
using Key = Sorted<std::uint64_t>;
using Rows = Table<Key, std::uint64_t>;

constexpr std::uint64_t kOld = 6;  // keys that are there from the start
constexpr std::uint64_t kNew = 6;  // and that come

struct Case {
  const char* name;
  unsigned optimistic_attempts;
  int patience_us;
  bool in_place;
  bool ordered;
  OnLock on_lock = OnLock::kNoWait;
  std::uint32_t group_bytes = 0;
  std::uint32_t neighbour_bytes = 0;
};

class Histories : public testing::TestWithParam<Case> {
 protected:
  static constexpr NodeId kNodes = 4;
  static constexpr int kThreads = 2;

  std::int64_t now() const {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - begin_).count();
  }
  /// What one thread does; `unique` is for values.
  void work(NodeId node, int thread, Database& database, const Rows& rows, std::uint64_t seed, int count) {
    std::mt19937_64 random(seed);
    for (int i = 0; i < count; ++i) {
      verify::Transaction seen;
      seen.process = node;
      seen.thread = std::uint16_t(thread);
      const std::uint64_t plan = random();
      const std::uint64_t unique = 1 + (std::uint64_t(1 + node * kThreads + thread) << 32 | std::uint64_t(i) << 4);
      seen.invoked = now();
      const Status status = database.transact([&](Txn& t) {
        seen.accesses.clear();
        return one(t, rows, plan, unique, seen.accesses);
      });
      seen.responded = now();
      ASSERT_TRUE(status.ok() || status.code() == Errc::kOutOfMemory) << status.to_string();
      seen.outcome = status.ok() ? verify::Outcome::kCommitted : verify::Outcome::kAborted;
      const std::lock_guard lock(mutex_);
      history_.push_back(std::move(seen));
    }
  }
  static Status one(Txn& t, const Rows& rows, std::uint64_t plan, std::uint64_t unique,
                    std::vector<verify::Access>& accesses) {
    std::mt19937_64 random(plan);
    if (random() % 8 == 0) {  // all of them
      std::array<std::uint64_t, kOld + kNew> found{};
      const Status status = t.scan(rows, [&](const Key& key, const std::uint64_t& value) {
        found[key] = value;
        return true;
      });
      if (!status.ok()) return status;
      for (std::uint64_t key = 0; key < found.size(); ++key) accesses.push_back({key, found[key], false});
    }
    if (random() % 4 == 0) {  // which must change nothing
      const std::array<Key, 3> soon{random() % kOld, random() % kOld, kOld + random() % kNew};
      if (const Status status = t.prefetch(rows, soon, random() % 2 == 0); !status.ok()) return status;
    }
    const int count = 1 + int(random() % 4);
    for (int k = 0; k < count; ++k) {
      const std::uint64_t key = random() % (kOld + (random() % 4 == 0 ? kNew : 0));
      const bool writes = random() % 2 == 0;
      const bool locks = writes && random() % 2 == 0;
      const auto row = locks ? t.read_for_update(rows, key) : t.read(rows, key);
      if (!row.ok()) return row.status();
      accesses.push_back({key, row->value_or(0), false});
      if (!writes) continue;
      const std::uint64_t value = unique + std::uint64_t(k);
      const Status status = *row ? t.update(rows, key, value) : t.insert(rows, key, value);
      if (!status.ok()) return status;
      accesses.push_back({key, value, true});
    }
    return random() % 10 == 0 ? Status(Errc::kOutOfMemory, "on purpose") : Status();
  }

  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::vector<verify::Transaction> history_;
};

INSTANTIATE_TEST_SUITE_P(Ways, Histories,
                         testing::Values(Case{"NoWait", 8, 0, false, false}, Case{"Patient", 8, 50, false, false},
                                         Case{"Locking", 0, 20, false, false}, Case{"InPlace", 8, 0, true, false},
                                         Case{"Ordered", 8, 0, false, true}, Case{"OrderedLocking", 0, 20, true, true},
                                         Case{"WaitDie", 8, 0, false, false, OnLock::kWaitDie},
                                         Case{"WaitDieLocking", 0, 0, true, false, OnLock::kWaitDie},
                                         Case{"WaitDieOrdered", 0, 0, false, true, OnLock::kWaitDie},
                                         Case{"Groups", 8, 0, false, false, OnLock::kNoWait, sizeof(Key)},
                                         Case{"GroupsLocking", 0, 0, true, false, OnLock::kWaitDie, sizeof(Key)},
                                         Case{"Neighbours", 8, 0, false, false, OnLock::kNoWait, 0, sizeof(Key) - 1}),
                         [](const auto& test) { return test.param.name; });

TEST_P(Histories, AreSerializable) {
  const std::uint64_t seed = test::fresh_seed();
  SCOPED_TRACE(test::repeat_with(seed));
  Options options = LocalCluster::small_options();
  options.read_in_place = GetParam().in_place;
  LocalCluster cluster(kNodes, options);
  DatabaseOptions how;
  how.optimistic_attempts = GetParam().optimistic_attempts;
  how.lock_patience = std::chrono::microseconds(GetParam().patience_us);
  how.on_lock = GetParam().on_lock;
  TableOptions table{.rows = 30, .ordered = GetParam().ordered};
  table.group_bytes = GetParam().group_bytes;
  table.groups = 5;  // some share a block
  table.neighbour_bytes = GetParam().neighbour_bytes;
  std::array<std::unique_ptr<Database>, kNodes> databases;
  std::array<std::optional<Rows>, kNodes> rows;
  cluster.in_parallel([&](NodeId id) {
    databases[id] = std::make_unique<Database>(cluster[id], how);
    rows[id] = databases[id]->table<Key, std::uint64_t>("rows", {}, table);
  });
  // The values from the start are those of a first transaction.
  std::thread([&] {
    verify::Transaction first;
    first.invoked = now();
    databases[0]
        ->transact([&](Txn& t) -> Status {
          first.accesses.clear();
          for (std::uint64_t key = 0; key < kOld; ++key) {
            if (const Status status = t.insert(*rows[0], key, 1 + key); !status.ok()) return status;
            first.accesses.push_back({key, 0, false});
            first.accesses.push_back({key, 1 + key, true});
          }
          return {};
        })
        .or_throw();
    first.responded = now();
    first.outcome = verify::Outcome::kCommitted;
    first.process = kNodes;
    history_.push_back(first);
  }).join();
  std::vector<std::thread> threads;
  for (NodeId id = 0; id < kNodes; ++id) {
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back(
          [&, id, t] { work(id, t, *databases[id], *rows[id], seed + std::uint64_t(id * kThreads + t), 250); });
    }
  }
  for (auto& thread : threads) thread.join();
  const verify::SerializabilityReport report = verify::check_serializable(history_);
  EXPECT_EQ(report.verdict, verify::Verdict::kAccepted) << report.explanation;
  EXPECT_GT(report.counted, history_.size() / 2);
}

/// Tokens move from key to key: each transaction erases one row and inserts another. A scan sees all of them.
class Tokens : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Tables, Tokens, testing::Bool(),
                         [](const auto& test) { return test.param ? "Ordered" : "Hashed"; });

TEST_P(Tokens, AreNeitherLostNorDoubledWhileTheyMove) {
  constexpr std::uint64_t kTokens = 20, kKeys = 200;
  const std::uint64_t seed = test::fresh_seed();
  SCOPED_TRACE(test::repeat_with(seed));
  LocalCluster cluster(2);
  std::array<std::unique_ptr<Database>, 2> databases;
  std::array<std::optional<Rows>, 2> rows;
  cluster.in_parallel([&](NodeId id) {
    databases[id] = std::make_unique<Database>(cluster[id]);
    rows[id] = databases[id]->table<Key, std::uint64_t>("tokens", {},
                                                        {.rows = 30, .ordered = GetParam()});  // two buckets, or leaves
  });
  std::thread([&] {
    databases[0]
        ->transact([&](Txn& t) -> Status {
          for (std::uint64_t token = 0; token < kTokens; ++token) t.insert(*rows[0], token * 10, token).or_throw();
          return {};
        })
        .or_throw();
  }).join();
  std::atomic<int> movers{4};
  std::vector<std::thread> threads;
  for (int k = 0; k < 4; ++k) {
    threads.emplace_back([&, k] {
      const std::size_t id = std::size_t(k % 2);
      std::mt19937_64 random(seed + std::uint64_t(k));
      for (int i = 0; i < 300; ++i) {
        const std::uint64_t from = random() % kKeys, to = random() % kKeys;
        const Status status = databases[id]->transact([&](Txn& t) -> Status {
          const auto token = t.read(*rows[id], from);
          if (!token.ok()) return token.status();
          const auto there = t.read(*rows[id], to);
          if (!there.ok()) return there.status();
          if (!*token || *there) return {};
          if (const Status erased = t.erase(*rows[id], from); !erased.ok()) return erased;
          return t.insert(*rows[id], to, **token);
        });
        EXPECT_TRUE(status.ok()) << status.to_string();
      }
      --movers;
    });
  }
  for (std::size_t id = 0; id < 2; ++id) {
    threads.emplace_back([&, id] {
      do {
        std::set<std::uint64_t> tokens;
        std::size_t count = 0;
        const Status status = databases[id]->transact([&](Txn& t) {
          tokens.clear();
          count = 0;
          return t.scan(*rows[id], [&](const Key&, const std::uint64_t& token) {
            tokens.insert(token);
            return ++count, true;
          });
        });
        EXPECT_TRUE(status.ok()) << status.to_string();
        EXPECT_EQ(count, kTokens);
        EXPECT_EQ(tokens.size(), kTokens);
      } while (movers > 0);
    });
  }
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace atoll::txn
