// The FaRM-like engine: rows come, change and go; transactions are serializable; TPC-C's conditions hold.
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <random>
#include <thread>

#include "bench/tpcc/consistency.hpp"
#include "bench/tpcc/farm_db.hpp"
#include "bench/tpcc/population.hpp"
#include "bench/tpcc/worker.hpp"
#include "support/local_cluster.hpp"
#include "support/seed.hpp"
#include "verify/serializability.hpp"

namespace atoll::bench::tpcc {
namespace {

using test::LocalCluster;
using testing::IsEmpty;

struct Small {
  std::uint64_t value = 0;
};
struct Large {
  std::uint64_t value = 0;
  std::array<std::uint64_t, 30> copies{};  // of it: a row is read as a whole

  explicit Large(std::uint64_t of = 0) : value(of) { copies.fill(of); }
  [[nodiscard]] bool is_whole() const {
    return std::all_of(copies.begin(), copies.end(), [&](std::uint64_t copy) { return copy == value; });
  }
};
using SmallRows = FarmDb::Table<StockKey, Small>;
using LargeRows = FarmDb::Table<StockKey, Large>;
static_assert(SmallRows::kShape.slots > 1 && LargeRows::kShape.slots == 1);

/// Nodes with two tables. The first part of a key says which node has the row: keys are of warehouse 1, 2, ...
class Farm {
 public:
  explicit Farm(NodeId nodes, std::uint64_t memory_bytes = 8 << 20, std::uint64_t rows = 64)
      : cluster(nodes, options()), dbs(nodes), small(nodes), large(nodes) {
    cluster.in_parallel([&](NodeId id) {
      dbs[id] = std::make_unique<FarmDb>(cluster[id], FarmOptions{memory_bytes, 6});
      TableSpec<StockKey> spec;
      spec.rows = rows;
      spec.home = [nodes](const StockKey& key) { return NodeId(key.warehouse % nodes); };
      small[id].emplace(dbs[id]->table<StockKey, Small>("small", spec));
      large[id].emplace(dbs[id]->table<StockKey, Large>("large", spec));
      cluster[id].barrier().or_throw();
    });
  }
  ~Farm() {
    cluster.in_parallel([&](NodeId id) { dbs[id].reset(); });
  }
  static Options options() {
    Options options = LocalCluster::small_options();
    options.read_in_place = true;
    return options;
  }
  /// A transaction of a node, by a thread of its own.
  template <typename Function>
  Status on(NodeId node, Function&& function) {
    Status status;
    std::thread([&] { status = dbs[node]->transact(function); }).join();
    return status;
  }

  LocalCluster cluster;
  std::vector<std::unique_ptr<FarmDb>> dbs;
  std::vector<std::optional<SmallRows>> small;
  std::vector<std::optional<LargeRows>> large;
};

using Txn = FarmDb::Txn;

/// Each test with rows that are here, and with rows that are another node's.
class TpccFarm : public testing::TestWithParam<NodeId> {
 protected:
  [[nodiscard]] StockKey key(std::uint32_t number) const { return {std::uint32_t(GetParam()), number}; }
  /// What node 1 sees.
  [[nodiscard]] std::optional<std::uint64_t> value(std::uint32_t number) {
    std::optional<std::uint64_t> found;
    EXPECT_TRUE(farm.on(1,
                        [&](Txn& t) -> Status {
                          const auto row = t.read(*farm.small[1], key(number));
                          if (row.ok()) found = *row ? std::optional((*row)->value) : std::nullopt;
                          return row.status();
                        })
                    .ok());
    return found;
  }
  template <typename Function>
  Status change(Function&& function) {
    return farm.on(0, [&](Txn& t) -> Status { return function(t, *farm.small[0]); });
  }
  Status put(std::uint32_t number, std::uint64_t value) {
    return change([&](Txn& t, const SmallRows& rows) { return t.insert(rows, key(number), Small{value}); });
  }

  Farm farm{2};
};
INSTANTIATE_TEST_SUITE_P(Homes, TpccFarm, testing::Values(NodeId(0), NodeId(1)),
                         [](const auto& test) { return test.param == 0 ? "Here" : "There"; });

TEST_P(TpccFarm, RowsComeAndChangeAndGo) {
  EXPECT_EQ(value(1), std::nullopt);
  ASSERT_TRUE(put(1, 10).ok());
  EXPECT_EQ(value(1), 10u);
  EXPECT_EQ(put(1, 11).code(), Errc::kAlreadyExists);
  const auto update = [&](std::uint32_t number) {
    return change([&](Txn& t, const SmallRows& rows) { return t.update(rows, key(number), Small{12}); });
  };
  const auto erase = [&](std::uint32_t number) {
    return change([&](Txn& t, const SmallRows& rows) { return t.erase(rows, key(number)); });
  };
  ASSERT_TRUE(update(1).ok());
  EXPECT_EQ(value(1), 12u);
  EXPECT_EQ(update(2).code(), Errc::kNotFound);
  EXPECT_EQ(erase(2).code(), Errc::kNotFound);
  ASSERT_TRUE(erase(1).ok());
  EXPECT_EQ(value(1), std::nullopt);
  EXPECT_EQ(erase(1).code(), Errc::kNotFound);
  ASSERT_TRUE(put(1, 13).ok());
  EXPECT_EQ(value(1), 13u);
  EXPECT_EQ(farm.dbs[0]->counts().aborts, 4u);
}

TEST_P(TpccFarm, ATransactionSeesItsOwnWrites) {
  ASSERT_TRUE(put(1, 1).ok());
  ASSERT_TRUE(put(2, 2).ok());
  ASSERT_EQ(value(2), 2u);  // has come to its home, so that nothing is locked any more
  const Status status = change([&](Txn& t, const SmallRows& rows) -> Status {
    const auto now = [&](std::uint32_t number) {
      const auto row = t.read(rows, key(number)).value();
      return row ? row->value : 0;
    };
    t.update(rows, key(1), Small{10}).or_throw();
    EXPECT_EQ(now(1), 10u);
    t.update(rows, key(1), Small{11}).or_throw();
    EXPECT_EQ(now(1), 11u);
    t.erase(rows, key(2)).or_throw();
    EXPECT_EQ(now(2), 0u);
    EXPECT_EQ(t.update(rows, key(2), Small{}).code(), Errc::kNotFound);
    t.insert(rows, key(2), Small{20}).or_throw();
    EXPECT_EQ(now(2), 20u);
    t.insert(rows, key(3), Small{30}).or_throw();
    EXPECT_EQ(t.insert(rows, key(3), Small{31}).code(), Errc::kAlreadyExists);
    t.update(rows, key(3), Small{32}).or_throw();
    EXPECT_EQ(now(3), 32u);
    t.insert(rows, key(4), Small{40}).or_throw();
    t.erase(rows, key(4)).or_throw();
    EXPECT_EQ(now(4), 0u);
    return {};
  });
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(value(1), 11u);
  EXPECT_EQ(value(2), 20u);
  EXPECT_EQ(value(3), 32u);
  EXPECT_EQ(value(4), std::nullopt);
}

TEST_P(TpccFarm, AnErrorOfItsOwnUndoesIt) {
  ASSERT_TRUE(put(1, 1).ok());
  const Status status = change([&](Txn& t, const SmallRows& rows) -> Status {
    if (const Status done = t.update(rows, key(1), Small{2}); !done.ok()) return done;
    if (const Status done = t.insert(rows, key(2), Small{2}); !done.ok()) return done;
    return {Errc::kInvalidArgument, "on purpose"};
  });
  EXPECT_EQ(status.code(), Errc::kInvalidArgument);
  EXPECT_EQ(value(1), 1u);
  EXPECT_EQ(value(2), std::nullopt);
}

/// Another transaction does something after this one has read; the first time only. (It may be met while its writes are
/// on their way to their home: then a lock was met, and it is run again for that.)
template <typename Read, typename Between, typename Then>
void expect_run_again(Farm& farm, Read&& read, Between&& between, Then&& then, bool expected = true) {
  int runs = 0;
  bool is_changed = false;
  const std::uint64_t before = farm.dbs[0]->counts().change_conflicts;
  (void)farm.on(0, [&](Txn& t) -> Status {
    ++runs;
    if (const Status status = read(t); !status.ok()) return status;
    if (!std::exchange(is_changed, true)) {
      EXPECT_TRUE(farm.on(1, between).ok());
    }
    return then(t);
  });
  if (expected) {
    EXPECT_GE(runs, 2);
  } else {
    EXPECT_EQ(farm.dbs[0]->counts().change_conflicts, before);
  }
}

TEST_P(TpccFarm, WhatHasChangedSinceItWasReadRunsItAgain) {
  for (std::uint32_t number = 1; number <= 40; number += 20) ASSERT_TRUE(put(number, number).ok());
  const auto read = [&](std::uint32_t number) {
    return [this, number](Txn& t) { return t.read(*farm.small[0], key(number)).status(); };
  };
  const auto update = [&](std::uint32_t number, NodeId by) {
    return [this, number, by](Txn& t) { return t.update(*farm.small[by], key(number), Small{number + 100u}); };
  };
  const auto insert = [&](std::uint32_t number) {
    return [this, number](Txn& t) { return t.insert(*farm.small[1], key(number), Small{5}); };
  };
  const auto fail = [](Txn&) { return Status(Errc::kInvalidArgument, "on purpose"); };
  expect_run_again(farm, read(1), update(1, 1), update(21, 0));  // validated
  expect_run_again(farm, read(1), update(1, 1), update(1, 0));   // locked
  expect_run_again(farm, read(1), update(1, 1), read(21));       // only reads
  expect_run_again(farm, read(1), update(1, 1), read(1));        // seen twice
  expect_run_again(farm, read(3), insert(3), update(21, 0));     // was absent
  expect_run_again(farm, read(1), update(21, 1), update(1, 0), false);
  const auto both = [&](Txn& t) { return read(1)(t).ok() ? read(21)(t) : Status(); };
  expect_run_again(farm, both, update(1, 1), fail);  // gives up by what was not there at one moment
  expect_run_again(farm, read(1), update(1, 1), fail, false);
  expect_run_again(
      farm, read(1), [&](Txn& t) { return t.erase(*farm.small[1], key(1)); },
      [&](Txn& t) { return t.insert(*farm.small[0], key(41), Small{}); });
}

/// Far more rows than expected, and transactions that no single message has room for.
TEST_P(TpccFarm, ManyRowsWhereFewWereExpected) {
  constexpr std::uint32_t kRows = 1200, kAtOnce = 300;
  for (std::uint32_t first = 0; first < kRows; first += kAtOnce) {
    const Status status = farm.on(0, [&](Txn& t) -> Status {
      for (std::uint32_t i = first; i < first + kAtOnce; ++i) {
        if (const Status done = t.insert(*farm.large[0], key(i * 7), Large(i)); !done.ok()) return done;
        if (const Status done = t.insert(*farm.small[0], key(i * 8), Small{i}); !done.ok()) return done;
      }
      return {};
    });
    ASSERT_TRUE(status.ok()) << status.to_string();
  }
  const Status status = farm.on(1, [&](Txn& t) -> Status {
    for (std::uint32_t i = 0; i < kRows; ++i) {
      const auto large = t.read(*farm.large[1], key(i * 7));
      const auto small = t.read(*farm.small[1], key(i * 8));
      if (!large.ok() || !small.ok()) return large.status();
      EXPECT_TRUE(*large && (*large)->is_whole() && (*large)->value == i) << i;
      EXPECT_TRUE(*small && (*small)->value == i) << i;
      const auto absent = t.read(*farm.large[1], key(i * 7 + 1));
      if (!absent.ok()) return absent.status();
      EXPECT_FALSE(*absent);
    }
    return {};
  });
  EXPECT_TRUE(status.ok()) << status.to_string();
}

TEST_P(TpccFarm, SaysThatItsMemoryIsFull) {
  Farm full(2, 4 << 20);
  Status status;
  std::uint32_t rows = 0;
  for (; status.ok() && rows < 100'000; rows += 10) {
    status = full.on(0, [&](Txn& t) -> Status {
      Status done;
      for (std::uint32_t i = rows; done.ok() && i < rows + 10; ++i) done = t.insert(*full.large[0], key(i), Large(i));
      return done;
    });
  }
  EXPECT_EQ(status.code(), Errc::kOutOfMemory);
  EXPECT_GT(full.dbs[GetParam()]->memory_bytes(), 1u << 20);
  const StockKey there = key(rows - 11), not_there = key(rows - 10);
  EXPECT_TRUE(full.on(1,
                      [&](Txn& t) -> Status {
                        const auto a = t.read(*full.large[1], there), b = t.read(*full.large[1], not_there);
                        if (!a.ok() || !b.ok()) return a.ok() ? b.status() : a.status();
                        EXPECT_TRUE(*a);
                        EXPECT_FALSE(*b);
                        return t.update(*full.large[1], there, Large(1));  // nothing was left locked
                      })
                  .ok());
  Farm none(1);
  TableSpec<StockKey> spec;
  spec.rows = 1 << 30;
  spec.home = [](const StockKey&) { return NodeId(0); };
  EXPECT_THROW(((void)none.dbs[0]->table<StockKey, Large>("too many", spec)), Error);
}

/// `work(node, thread number of all)` by so many threads of each node.
void in_threads_of(NodeId nodes, unsigned threads, const std::function<void(NodeId, unsigned)>& work) {
  std::vector<std::jthread> all;
  for (unsigned i = 0; i < nodes * threads; ++i) all.emplace_back([&, i] { work(NodeId(i % nodes), i); });
}

TEST(TpccFarmTogether, TransfersKeepTheSum) {
  constexpr std::uint32_t kAccounts = 12, kEach = 1000;
  constexpr NodeId kNodes = 3;
  Farm farm(kNodes);
  const auto account = [](std::uint32_t number) { return StockKey{number % kNodes, number}; };
  ASSERT_TRUE(farm.on(0,
                      [&](Txn& t) -> Status {
                        Status status;
                        for (std::uint32_t i = 0; status.ok() && i < kAccounts; ++i) {
                          status = t.insert(*farm.large[0], account(i), Large(kEach));
                        }
                        return status;
                      })
                  .ok());
  const std::uint64_t seed = test::fresh_seed();
  SCOPED_TRACE(test::repeat_with(seed));
  const auto sum = [&](NodeId node) {
    std::uint64_t all = 0;
    const Status status = farm.dbs[node]->transact([&](Txn& t) -> Status {
      all = 0;
      for (std::uint32_t i = 0; i < kAccounts; ++i) {
        const auto row = t.read(*farm.large[node], account(i));
        if (!row.ok()) return row.status();
        EXPECT_TRUE((*row)->is_whole());
        all += (*row)->value;
      }
      return {};
    });
    EXPECT_TRUE(status.ok()) << status.to_string();
    return all;
  };
  in_threads_of(kNodes, 3, [&](NodeId node, unsigned number) {
    std::mt19937_64 random(seed + number);
    for (int i = 0; i < 700; ++i) {
      if (number < kNodes) {
        EXPECT_EQ(sum(node), kAccounts * kEach);
        continue;
      }
      const StockKey from = account(std::uint32_t(random() % kAccounts)),
                     to = account(std::uint32_t(random() % kAccounts));
      const std::uint64_t amount = random() % 50;
      const Status status = farm.dbs[node]->transact([&](Txn& t) -> Status {
        const LargeRows& rows = *farm.large[node];
        const auto a = t.read(rows, from);
        if (!a.ok()) return a.status();
        if ((*a)->value < amount) return {};
        if (const Status done = t.update(rows, from, Large((*a)->value - amount)); !done.ok()) return done;
        const auto b = t.read(rows, to);
        return b.ok() ? t.update(rows, to, Large((*b)->value + amount)) : b.status();
      });
      EXPECT_TRUE(status.ok()) << status.to_string();
    }
  });
  std::thread([&] { EXPECT_EQ(sum(0), kAccounts * kEach); }).join();
}

/// Random transactions over few rows that come, change and go: as if one had been run after the other.
class FarmHistory {
 public:
  static constexpr NodeId kNodes = 3;
  static constexpr unsigned kThreads = 2;
  static constexpr std::uint64_t kKeys = 10;

  void work(NodeId node, unsigned number, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    for (std::uint64_t i = 0; i < 250; ++i) {
      verify::Transaction seen;
      seen.process = node;
      seen.thread = std::uint16_t(number);
      const std::uint64_t plan = random(), unique = std::uint64_t(number + 1) << 32 | (i + 1) << 4;
      seen.invoked = now();
      const Status status = farm.dbs[node]->transact([&](Txn& t) {
        seen.accesses.clear();
        return one(t, *farm.small[node], plan, unique, seen.accesses);
      });
      seen.responded = now();
      ASSERT_TRUE(status.ok() || status.code() == Errc::kInvalidArgument) << status.to_string();
      seen.outcome = status.ok() ? verify::Outcome::kCommitted : verify::Outcome::kAborted;
      const std::lock_guard lock(mutex_);
      history.push_back(std::move(seen));
    }
  }
  /// An absent row is a 0, as is one of value 0; a row is erased by nobody, for 0 would be written twice.
  static Status one(Txn& t, const SmallRows& rows, std::uint64_t plan, std::uint64_t unique,
                    std::vector<verify::Access>& accesses) {
    std::mt19937_64 random(plan);
    const int count = 1 + int(random() % 4);
    for (int k = 0; k < count; ++k) {
      const std::uint64_t number = random() % kKeys;
      const StockKey key{std::uint32_t(number % kNodes), std::uint32_t(number)};
      const auto row = t.read(rows, key);
      if (!row.ok()) return row.status();
      accesses.push_back({number, *row ? (*row)->value : 0, false});
      if (random() % 2 == 0) continue;
      const Small value{unique + std::uint64_t(k)};
      const Status status = *row ? t.update(rows, key, value) : t.insert(rows, key, value);
      if (!status.ok()) return status;
      accesses.push_back({number, value.value, true});
    }
    return random() % 10 == 0 ? Status(Errc::kInvalidArgument, "on purpose") : Status();
  }
  [[nodiscard]] std::int64_t now() const {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - begin_).count();
  }

  Farm farm{kNodes};
  std::vector<verify::Transaction> history;

 private:
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
};

TEST(TpccFarmTogether, IsSerializable) {
  const std::uint64_t seed = test::fresh_seed();
  SCOPED_TRACE(test::repeat_with(seed));
  FarmHistory run;
  in_threads_of(FarmHistory::kNodes, FarmHistory::kThreads,
                [&](NodeId node, unsigned number) { run.work(node, number, seed + number); });
  const verify::SerializabilityReport report = verify::check_serializable(run.history);
  EXPECT_EQ(report.verdict, verify::Verdict::kAccepted) << report.explanation;
  EXPECT_GT(report.counted, run.history.size() / 2);
}

/// Tokens move from key to key, each move erases a row and inserts another: none is lost or doubled meanwhile.
TEST(TpccFarmTogether, WhatMovesIsThereOnce) {
  constexpr std::uint32_t kTokens = 6, kKeys = 24;
  Farm farm(2);
  const auto key = [](std::uint32_t number) { return StockKey{number % 2, number}; };
  ASSERT_TRUE(farm.on(0,
                      [&](Txn& t) -> Status {
                        for (std::uint32_t i = 0; i < kTokens; ++i)
                          t.insert(*farm.small[0], key(i), Small{i}).or_throw();
                        return {};
                      })
                  .ok());
  const std::uint64_t seed = test::fresh_seed();
  SCOPED_TRACE(test::repeat_with(seed));
  in_threads_of(2, 3, [&](NodeId node, unsigned number) {
    std::mt19937_64 random(seed + number);
    const SmallRows& rows = *farm.small[node];
    for (int i = 0; i < 500; ++i) {
      std::uint32_t found = 0;
      const bool counts = number < 2;
      const StockKey from = key(std::uint32_t(random() % kKeys)), to = key(std::uint32_t(random() % kKeys));
      const Status status = farm.dbs[node]->transact([&](Txn& t) -> Status {
        found = 0;
        for (std::uint32_t k = 0; counts && k < kKeys; ++k) {
          const auto row = t.read(rows, key(k));
          if (!row.ok()) return row.status();
          found += std::uint32_t(row->has_value());
        }
        if (counts) return {};
        const auto token = t.read(rows, from), there = t.read(rows, to);
        if (!token.ok() || !there.ok()) return token.ok() ? there.status() : token.status();
        if (!*token || *there) return {};
        const Status erased = t.erase(rows, from);
        return erased.ok() ? t.insert(rows, to, **token) : erased;
      });
      EXPECT_TRUE(status.ok()) << status.to_string();
      if (counts) {
        EXPECT_EQ(found, kTokens);
      }
    }
  });
}

TEST(TpccFarmTogether, EndsWhenANodeIsGone) {
  Farm farm(2);
  ASSERT_TRUE(farm.on(0, [&](Txn& t) { return t.insert(*farm.small[0], StockKey{1, 1}, Small{1}); }).ok());
  ASSERT_TRUE(farm.on(0, [&](Txn& t) { return t.read(*farm.small[0], StockKey{1, 1}).status(); }).ok());  // is unlocked
  farm.cluster.hub().kill(1);
  // It lives on here, and may answer still: that is as well. But its lock that is never given back is noticed.
  SmallRows rows = *farm.small[0];
  rows.place({1, 1}).bucket->word.fetch_or(FarmBucket::kLocked);
  const Status status = farm.on(0, [&](Txn& t) { return t.update(rows, StockKey{1, 1}, Small{2}); });
  EXPECT_EQ(status.code(), Errc::kNodeDied) << status.to_string();
}

/// Threads of several nodes run both transactions on so few rows that they meet.
void run_tpcc(Homes homes, double distribution_ratio, double read_ratio) {
  constexpr unsigned kThreads = 2;
  Shape shape;
  shape.scale = {2, 30, 9, 100};
  shape.homes = homes;
  shape.constants = Constants::from_seed(1);
  shape.distribution_ratio = distribution_ratio;
  shape.read_ratio = read_ratio;
  LocalCluster cluster(homes.nodes, Farm::options());
  std::vector<std::unique_ptr<FarmDb>> dbs(homes.nodes);
  std::vector<std::optional<Tables<FarmDb>>> tables(homes.nodes);
  std::vector<std::vector<Violation>> found(homes.nodes);
  std::vector<std::uint64_t> done(homes.nodes * kThreads);
  cluster.in_parallel([&](NodeId id) {
    dbs[id] = std::make_unique<FarmDb>(cluster[id], FarmOptions{64 << 20, kThreads + 1});
    tables[id].emplace(open_tables(*dbs[id], shape.scale, homes, Mix::kNewOrderPayment, 1000));
    cluster[id].barrier().or_throw();
    Population(*dbs[id], *tables[id], shape, id, 1000).run(2, [](int) {});
    cluster[id].barrier().or_throw();
    ycsb::in_threads(kThreads, [&](unsigned t) {
      const unsigned worker = id * kThreads + t;
      Worker<FarmDb> runs(*dbs[id], *tables[id], Inputs(shape, id, t, kThreads, worker + 1), Mix::kNewOrderPayment);
      Tallies tallies;
      runs.run(0.2, tallies);
      done[worker] = tallies.all();
    });
    cluster[id].barrier().or_throw();
    const Conditions wanted = read_ratio > 0 ? kConditionsWithReads : kAllConditions;
    found[id] = Audit<FarmDb>(*dbs[id], *tables[id], homes, id, homes.nodes * kThreads).run(2, wanted);
    cluster[id].barrier().or_throw();
  });
  for (const auto& of_node : found) {
    for (const Violation& one : of_node) ADD_FAILURE() << one.condition << ": " << one.what;
  }
  for (const std::uint64_t one : done) EXPECT_GT(one, 0u);
  cluster.in_parallel([&](NodeId id) { dbs[id].reset(); });
}

TEST(TpccFarmTogether, RunsTpccOnTwoNodes) {
  run_tpcc({2, 2}, 0.3, 0);
}
TEST(TpccFarmTogether, RunsTpccOnThreeNodes) {
  run_tpcc({5, 3}, 1, 0);
}
TEST(TpccFarmTogether, RunsTpccWithReads) {
  run_tpcc({2, 2}, 0.5, 0.5);
}

}  // namespace
}  // namespace atoll::bench::tpcc
