// The engine whose rows move to who needs them: what the concept asks of it, and that nothing is lost on the way.
#include <gtest/gtest.h>

#include <latch>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "bench/tpcc/consistency.hpp"
#include "bench/tpcc/migrating_db.hpp"
#include "bench/tpcc/population.hpp"
#include "bench/tpcc/worker.hpp"
#include "support/local_cluster.hpp"

namespace atoll::bench::tpcc {
namespace {

using Txn = MigratingDb::Txn;
using Accounts = MigratingDb::Table<OrderKey, Order>;  // a row's `customer` is what is on the account

constexpr unsigned kThreads = 3;  // of a node, at most

/// Nodes with one table; a key's warehouse is its home.
class Cluster {
 public:
  explicit Cluster(NodeId nodes) : cluster_(nodes), databases_(nodes), accounts_(nodes) {
    TableSpec<OrderKey> spec{100, false, [](const OrderKey& key) { return NodeId(key.warehouse); }, 1};
    cluster_.in_parallel([&](NodeId id) {
      databases_[id] = std::make_unique<MigratingDb>(cluster_[id], kThreads);
      const Accounts opened = databases_[id]->table<OrderKey, Order>("accounts", spec);
      accounts_[id].emplace(opened);
      cluster_[id].barrier().or_throw();
    });
  }
  ~Cluster() {  // without a barrier: all transactions have ended, and a node may be gone
    cluster_.in_parallel([&](NodeId id) { databases_[id].reset(); });
  }
  [[nodiscard]] MigratingDb& db(NodeId node) { return *databases_[node]; }
  [[nodiscard]] test::LocalCluster& nodes() { return cluster_; }

  /// A transaction of a node; `function(t, accounts)`.
  template <typename Function>
  Status run(NodeId node, Function&& function) {
    Status status;
    std::thread([&] {
      status = db(node).transact([&](Txn& t) -> Status { return function(t, *accounts_[node]); });
    }).join();
    return status;
  }
  std::optional<std::uint32_t> read(NodeId node, const OrderKey& key) {
    std::optional<std::uint32_t> found;
    const Status status = run(node, [&](Txn& t, const Accounts& accounts) {
      const auto row = t.read(accounts, key);
      if (row.ok() && *row) found = (*row)->customer;
      return row.status();
    });
    EXPECT_TRUE(status.ok()) << status.to_string();
    return found;
  }
  void put(NodeId node, const OrderKey& key, std::uint32_t amount) {
    const Status status = run(node, [&](Txn& t, const Accounts& accounts) {
      const Status inserted = t.insert(accounts, key, row_of(amount));
      return inserted.code() == Errc::kAlreadyExists ? t.update(accounts, key, row_of(amount)) : inserted;
    });
    EXPECT_TRUE(status.ok()) << status.to_string();
  }
  /// `function(accounts, db, thread)`, by several threads of each node at the same time.
  template <typename Function>
  void at_once(unsigned threads, Function&& function) {
    cluster_.in_parallel([&](NodeId id) {
      ycsb::in_threads(threads, [&](unsigned thread) { function(*accounts_[id], db(id), id * threads + thread); });
    });
  }

  static Order row_of(std::uint32_t amount) { return {7, amount, 8, 9, 10}; }

 private:
  test::LocalCluster cluster_;
  std::vector<std::unique_ptr<MigratingDb>> databases_;
  std::vector<std::optional<Accounts>> accounts_;
};

/// Adds to an account; `upgrade`: locks it to read first.
Status add(Txn& t, const Accounts& accounts, const OrderKey& key, std::int32_t amount, bool upgrade = false) {
  const auto row = upgrade ? t.read(accounts, key) : t.read_for_update(accounts, key);
  if (!row.ok()) return row.status();
  if (!*row) return {Errc::kNotFound, "no such account"};
  Order changed = **row;
  changed.customer += std::uint32_t(amount);
  return t.update(accounts, key, changed);
}

/// The node that runs transactions, of three; the key is at home on the first.
class TpccMigratingFrom : public testing::TestWithParam<NodeId> {
 protected:
  Cluster cluster{3};
  const NodeId from = GetParam();
  const OrderKey key{0, 1, 1}, other{0, 1, 2};
};

TEST_P(TpccMigratingFrom, ReadsWhatWasInserted) {
  EXPECT_FALSE(cluster.read(from, key));
  cluster.put(from, key, 5);
  for (const NodeId node : {0, 1, 2, 1, 0}) EXPECT_EQ(cluster.read(node, key), 5u) << node;
}

TEST_P(TpccMigratingFrom, SaysWhatIsThereAndWhatIsNot) {
  cluster.put(1, key, 5);
  const Status status = cluster.run(from, [&](Txn& t, const Accounts& accounts) {
    EXPECT_EQ(t.insert(accounts, key, {}).code(), Errc::kAlreadyExists);
    EXPECT_EQ(t.update(accounts, other, {}).code(), Errc::kNotFound);
    EXPECT_EQ(t.erase(accounts, other).code(), Errc::kNotFound);
    EXPECT_TRUE(t.insert(accounts, other, Cluster::row_of(6)).ok());
    EXPECT_EQ((*t.read(accounts, other))->customer, 6u) << "its own change";
    EXPECT_TRUE(t.erase(accounts, key).ok());
    EXPECT_FALSE(t.read(accounts, key).value());
    return Status();
  });
  EXPECT_TRUE(status.ok()) << status.to_string();
  for (const NodeId node : {2, 1, 0}) {
    EXPECT_FALSE(cluster.read(node, key)) << node;
    EXPECT_EQ(cluster.read(node, other), 6u) << node;
  }
}

TEST_P(TpccMigratingFrom, RollsBackWhatEndsWithAnError) {
  cluster.put(1, key, 5);
  const OrderKey erased{0, 1, 3};
  cluster.put(2, erased, 7);
  const auto attempt = [&](Txn& t, const Accounts& accounts) {
    EXPECT_TRUE(add(t, accounts, key, 1).ok());
    EXPECT_TRUE(add(t, accounts, key, 1).ok());
    EXPECT_TRUE(t.insert(accounts, other, Cluster::row_of(6)).ok());
    EXPECT_TRUE(t.erase(accounts, erased).ok());
    EXPECT_TRUE(t.insert(accounts, erased, Cluster::row_of(8)).ok());
  };
  const Status status = cluster.run(from, [&](Txn& t, const Accounts& accounts) {
    attempt(t, accounts);
    return Status(Errc::kNotFound, "as if");
  });
  EXPECT_EQ(status.code(), Errc::kNotFound);
  EXPECT_EQ(cluster.db(from).counts().aborts, 1u);
  const auto throws = [&](Txn& t, const Accounts& accounts) -> Status {
    attempt(t, accounts);
    throw std::runtime_error("as if");
  };
  const auto catches = [&] {
    cluster.at_once(1, [&](const Accounts& accounts, MigratingDb& db, unsigned node) {
      if (node != from) return;
      EXPECT_THROW((void)db.transact([&](Txn& t) { return throws(t, accounts); }), std::runtime_error);
    });
  };
  catches();
  for (const NodeId node : {0, 1, 2}) {
    EXPECT_EQ(cluster.read(node, key), 5u);
    EXPECT_EQ(cluster.read(node, erased), 7u);
    EXPECT_FALSE(cluster.read(node, other));
  }
}

TEST_P(TpccMigratingFrom, WritesWhatOthersHaveRead) {
  cluster.put(0, key, 5);
  for (std::uint32_t amount = 6; amount < 9; ++amount) {
    for (const NodeId node : {0, 1, 2}) EXPECT_EQ(cluster.read(node, key), amount - 1) << node;
    cluster.put(from, key, amount);
  }
  for (const NodeId node : {0, 1, 2}) EXPECT_EQ(cluster.read(node, key), 8u) << node;
}

TEST_P(TpccMigratingFrom, FetchesMoreThanAMessageTakes) {
  constexpr std::uint32_t kKeys = 1000;  // that is 40 KB of rows
  std::vector<OrderKey> keys;
  for (std::uint32_t i = 0; i < kKeys; ++i) {
    keys.push_back({i % 3, 2, i});
    keys.push_back(keys.back());  // one that is wanted twice comes once
  }
  cluster.at_once(1, [&](const Accounts& accounts, MigratingDb& db, unsigned node) {  // none where it is at home
    const Status status = db.transact([&](Txn& t) -> Status {
      Status put;
      for (std::uint32_t i = 0; put.ok() && i < kKeys; ++i) {
        if ((i + 1) % 3 == node) put = t.insert(accounts, {i % 3, 2, i}, Cluster::row_of(i));
      }
      return put;
    });
    EXPECT_TRUE(status.ok()) << status.to_string();
  });
  for (const NodeId node : {from, NodeId((from + 1) % 3)}) {
    const Status status = cluster.run(node, [&](Txn& t, const Accounts& accounts) {
      Status done = t.prefetch(accounts, std::span<const OrderKey>(keys), false);
      if (done.ok()) done = t.prefetch(accounts, std::span<const OrderKey>(keys).subspan(100, 300), true);
      for (std::uint32_t i = 0; done.ok() && i < kKeys; ++i) {
        const auto row = t.read(accounts, {i % 3, 2, i});
        done = row.status();
        if (!done.ok()) break;
        EXPECT_EQ((*row)->customer, i + (node == from ? 0 : 1));
        done = add(t, accounts, {i % 3, 2, i}, 1);
      }
      return done;
    });
    EXPECT_TRUE(status.ok()) << status.to_string();
  }
  EXPECT_EQ(cluster.read(0, {0, 2, 999}), 1001u);
}

INSTANTIATE_TEST_SUITE_P(Nodes, TpccMigratingFrom, testing::Values(0, 1, 2));

TEST(TpccMigrating, AWantedRowThatIsNotUsedDoesNoHarm) {
  Cluster cluster(2);
  const OrderKey key{0, 1, 1};
  cluster.put(0, key, 5);
  EXPECT_TRUE(
      cluster.run(1, [&](Txn& t, const Accounts& accounts) { return t.prefetch(accounts, std::span(&key, 1), true); })
          .ok());
  EXPECT_EQ(cluster.read(0, key), 5u);
  cluster.put(1, key, 6);
  EXPECT_EQ(cluster.read(0, key), 6u);
}

TEST(TpccMigrating, OnlyOneInsertsAKey) {
  Cluster cluster(3);
  constexpr std::uint32_t kKeys = 100;
  std::atomic<std::uint32_t> inserted{0}, refused{0};
  cluster.at_once(2, [&](const Accounts& accounts, MigratingDb& db, unsigned worker) {
    for (std::uint32_t i = 0; i < kKeys; ++i) {
      const Status status = db.transact([&](Txn& t) -> Status {
        return t.insert(accounts, {i % 3, 3, i}, Cluster::row_of(worker));
      });
      ++(status.ok() ? inserted : refused);
      EXPECT_EQ(status.code(), status.ok() ? Errc::kOk : Errc::kAlreadyExists) << status.to_string();
    }
  });
  EXPECT_EQ(inserted, kKeys);
  EXPECT_EQ(refused, 5 * kKeys);
}

/// All nodes add to one row, which none keeps for long: each must get on.
void count_together(bool upgrade) {
  Cluster cluster(3);
  constexpr unsigned kTimes = 200, kWorkers = 2;
  const OrderKey key{1, 1, 1};
  cluster.put(0, key, 0);
  cluster.at_once(kWorkers, [&](const Accounts& accounts, MigratingDb& db, unsigned) {
    for (unsigned i = 0; i < kTimes; ++i) {
      const Status status = db.transact([&](Txn& t) -> Status { return add(t, accounts, key, 1, upgrade); });
      ASSERT_TRUE(status.ok()) << status.to_string();
    }
  });
  EXPECT_EQ(cluster.read(2, key), 3 * kWorkers * kTimes);
}

TEST(TpccMigrating, ARowGoesToAndFro) {
  count_together(false);
}

TEST(TpccMigrating, ReadersThatTurnWritersGetOn) {
  count_together(true);
}

/// Some transfer, some abort, some add all up: these see one moment, whoever has the accounts.
void transfer(NodeId nodes, unsigned threads, std::uint32_t accounts_count, bool fetch_first) {
  Cluster cluster(nodes);
  constexpr std::uint32_t kAmount = 1000, kTimes = 300;
  std::vector<OrderKey> keys;
  for (std::uint32_t i = 0; i < accounts_count; ++i) {
    keys.push_back({i % nodes, 1, i});
    cluster.put(NodeId((i + 1) % nodes), keys.back(), kAmount);
  }
  const auto sum = [&](Txn& t, const Accounts& accounts, std::uint64_t& total) -> Status {
    total = 0;
    Status status = fetch_first ? t.prefetch(accounts, std::span<const OrderKey>(keys), false) : Status();
    for (std::size_t i = 0; status.ok() && i < keys.size(); ++i) {
      const auto row = t.read(accounts, keys[i]);
      status = row.status();
      if (status.ok()) total += (*row)->customer;
    }
    return status;
  };
  cluster.at_once(threads, [&](const Accounts& accounts, MigratingDb& db, unsigned worker) {
    base::Random random(worker + 1);
    for (std::uint32_t i = 0; i < kTimes; ++i) {
      const auto from = random.below(keys.size()), to = random.below(keys.size());
      const std::array both{keys[from], keys[to]};
      const bool is_audit = random.chance(0.1), gives_up = random.chance(0.1), upgrade = random.chance(0.3);
      std::uint64_t total = accounts_count * kAmount;
      const Status status = db.transact([&](Txn& t) -> Status {
        if (is_audit) return sum(t, accounts, total);
        Status done = fetch_first ? t.prefetch(accounts, std::span<const OrderKey>(both), true) : Status();
        if (done.ok()) done = add(t, accounts, both[0], -1, upgrade);
        if (done.ok()) done = add(t, accounts, both[1], 1);
        return done.ok() && gives_up ? Status(Errc::kNotFound, "as if") : done;
      });
      ASSERT_EQ(status.code(), !is_audit && gives_up ? Errc::kNotFound : Errc::kOk) << status.to_string();
      ASSERT_EQ(total, accounts_count * kAmount);
    }
  });
  std::uint64_t total = 0, moved = 0;
  for (const OrderKey& key : keys) {
    const std::uint32_t amount = *cluster.read(0, key);
    total += amount;
    moved += amount == kAmount ? 0 : 1;
  }
  EXPECT_EQ(total, accounts_count * kAmount);
  EXPECT_GT(moved, 0u);
}

TEST(TpccMigrating, TransfersOfThreeNodesKeepTheTotal) {
  transfer(3, 2, 12, true);
}

TEST(TpccMigrating, SoTheyDoWhenRowsComeOneByOne) {
  transfer(3, 2, 12, false);
}

TEST(TpccMigrating, AndWhereAllAreInEachOthersWay) {
  transfer(2, 3, 3, true);
}

TEST(TpccMigrating, OnOneNodeToo) {
  transfer(1, 3, 5, true);
}

TEST(TpccMigrating, NobodyWaitsForANodeThatIsGone) {
  Cluster cluster(2);
  const OrderKey key{1, 1, 1};
  cluster.put(1, key, 5);
  std::latch is_locked(1), may_end(1);
  std::thread holder([&] {
    const Status status = cluster.run(1, [&](Txn& t, const Accounts& accounts) {
      const Status done = add(t, accounts, key, 1);
      is_locked.count_down();
      may_end.wait();
      return done;
    });
    EXPECT_TRUE(status.ok()) << status.to_string();
  });
  is_locked.wait();
  cluster.nodes().hub().kill(1);
  const Status status = cluster.run(0, [&](Txn& t, const Accounts& accounts) { return add(t, accounts, key, 1); });
  EXPECT_EQ(status.code(), Errc::kNodeDied) << status.to_string();
  may_end.count_down();
  holder.join();
}

/// The index grows while others search it, and from where others ask.
TEST(TpccMigrating, ATableHasMoreRowsThanWereExpected) {
  Cluster cluster(2);
  constexpr std::uint32_t kKeys = 5000, kWorkers = 2;  // a hundred are expected
  cluster.at_once(kWorkers, [&](const Accounts& accounts, MigratingDb& db, unsigned worker) {
    const auto key = [&](std::uint32_t i) { return OrderKey{i % 50 == 0 ? 1u : worker / kWorkers, worker, i}; };
    for (std::uint32_t i = 0; i < kKeys; ++i) {
      const Status status = db.transact([&](Txn& t) -> Status {
        if (i > 0) {
          const auto row = t.read(accounts, key(i / 2));
          if (!row.ok()) return row.status();
          EXPECT_EQ((*row)->customer, i / 2);
        }
        return t.insert(accounts, key(i), Cluster::row_of(i));
      });
      ASSERT_TRUE(status.ok()) << status.to_string();
    }
  });
  for (const std::uint32_t i : {1u, 50u, 4999u}) {
    for (std::uint32_t worker = 0; worker < 2 * kWorkers; ++worker) {
      const OrderKey key{i % 50 == 0 ? 1u : worker / kWorkers, worker, i};
      EXPECT_EQ(cluster.read(0, key), i) << worker;
    }
  }
}

TEST(TpccMigrating, MoreThreadsThanItWasMadeForAreRefused) {
  Cluster cluster(1);
  std::atomic<unsigned> here{0}, refused{0};
  cluster.at_once(kThreads + 1, [&](const Accounts&, MigratingDb& db, unsigned) {
    const Status status = db.transact([](Txn&) -> Status { return {}; });
    ++here;
    while (here < kThreads + 1) std::this_thread::yield();
    if (status.code() == Errc::kOutOfMemory) ++refused;
  });
  EXPECT_EQ(refused, 1u);
}

/// TPC-C's mix from two nodes on few rows, then the conditions.
void run_tpcc(double distribution_ratio, double read_ratio, Conditions wanted) {
  constexpr unsigned kWorkers = 2;
  Shape shape;
  shape.scale = {2, 30, 9, 100};
  shape.homes = {2, 2};
  shape.constants = Constants::from_seed(1);
  shape.distribution_ratio = distribution_ratio;
  shape.read_ratio = read_ratio;
  test::LocalCluster cluster(shape.homes.nodes);
  std::atomic<std::uint64_t> after_damage{0};
  cluster.in_parallel([&](NodeId id) {
    MigratingDb db(cluster[id], kWorkers);
    const auto tables = open_tables(db, shape.scale, shape.homes, Mix::kNewOrderPayment, 1000);
    cluster[id].barrier().or_throw();
    Population(db, tables, shape, id, 1'000).run(kWorkers, [](int) {});
    EXPECT_GT(db.memory_bytes(), 100'000u);
    cluster[id].barrier().or_throw();
    std::array<Tallies, kWorkers> tallies;
    ycsb::in_threads(kWorkers, [&](unsigned t) {
      const Inputs inputs(shape, id, t, kWorkers, id * kWorkers + t + 1);
      Worker<MigratingDb> runs(db, tables, inputs, Mix::kNewOrderPayment);
      while (tallies[t].all() < 400) runs.run(0.02, tallies[t]);
    });
    cluster[id].barrier().or_throw();
    const auto audit = [&] {
      return Audit<MigratingDb>(db, tables, shape.homes, id, 2 * kWorkers).run(kWorkers, wanted);
    };
    for (const Violation& one : audit()) ADD_FAILURE() << one.condition << ": " << one.what;
    cluster[id].barrier().or_throw();
    if (id == 0) {  // the other node's audit sees what this one breaks
      std::thread([&] {
        db.transact([&](Txn& t) -> Status {
            const auto row = t.read_for_update(tables.district, {2, 1});
            if (!row.ok()) return row.status();
            District changed = row.value().value();
            ++changed.next_order;
            return t.update(tables.district, {2, 1}, changed);
          }).or_throw();
      }).join();
    }
    cluster[id].barrier().or_throw();
    after_damage += audit().size();
    cluster[id].barrier().or_throw();
  });
  EXPECT_GT(after_damage, 0u);
}

TEST(TpccMigratingRun, KeepsTheConditionsWhereHalfIsRemote) {
  run_tpcc(0.5, 0, kAllConditions);
}

TEST(TpccMigratingRun, KeepsTheConditionsWhereLittleIsRemote) {
  run_tpcc(0.1, 0, kAllConditions);
}

TEST(TpccMigratingRun, KeepsThoseThatReadsLeave) {
  run_tpcc(0.5, 0.5, kConditionsWithReads);
}

}  // namespace
}  // namespace atoll::bench::tpcc
