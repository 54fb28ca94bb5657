// Transactions and nodes that die: what was acknowledged is there, whole; all else is there whole or not at all; and
// locks that the dead have left keep nobody out.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "atoll/txn.hpp"
#include "support/local_cluster.hpp"
#include "support/logged_cluster.hpp"
#include "support/seed.hpp"

namespace atoll::txn {
namespace {

using test::LocalCluster;
using test::LoggedCluster;

struct Account {
  std::int64_t balance = 0;
  std::uint64_t changes = 0;
};
struct Receipt {
  Sorted<std::uint32_t> thread = 0, number = 0;
};
using Accounts = Table<std::uint64_t, Account>;
using Receipts = Table<Receipt, std::uint64_t>;

/// A bank as one node sees it.
struct Bank {
  explicit Bank(Node& node)
      : database(node, fast()),
        accounts(database.table<std::uint64_t, Account>(
            "accounts", {field("balance", &Account::balance), field("changes", &Account::changes)}, in_groups())),
        receipts(database.table<Receipt, std::uint64_t>("receipts", {}, {.ordered = true})) {}
  static TableOptions in_groups() {
    TableOptions options{.rows = 60};
    options.group_bytes = 1;  // the accounts are numbered from 0 on: a group each
    options.groups = 4;       // and three of them share a block
    return options;
  }
  static DatabaseOptions fast() {
    DatabaseOptions options;
    options.give_up_after = std::chrono::seconds(20);
    return options;
  }

  Status open_accounts(std::uint64_t count, std::int64_t balance) {
    return database.transact([&](Txn& t) -> Status {
      for (std::uint64_t key = 0; key < count; ++key) {
        if (const Status status = t.insert(accounts, key, {balance, 0}); !status.ok()) return status;
      }
      return {};
    });
  }
  /// And a receipt for it, with the next number of the thread; that of five before is thrown away.
  Status transfer(std::uint64_t from, std::uint64_t to, std::int64_t amount, Receipt receipt) {
    return database.transact([&](Txn& t) -> Status {
      const auto a = t.read(accounts, from), b = t.read(accounts, to);
      if (!a.ok()) return a.status();
      if (!b.ok()) return b.status();
      Status status = t.update(accounts, from, {(*a)->balance - amount, (*a)->changes + 1});
      if (status.ok()) status = t.update(accounts, to, {(*b)->balance + amount, (*b)->changes + 1});
      if (status.ok()) status = t.insert(receipts, receipt, std::uint64_t(amount));
      if (status.ok() && receipt.number > 5) status = t.erase(receipts, {receipt.thread, receipt.number - 5});
      return status;
    });
  }
  struct Sums {
    std::int64_t balance = 0;
    std::uint64_t changes = 0;
    std::map<std::uint32_t, std::set<std::uint32_t>> receipts;  // by thread
  };
  Sums sums() {
    Sums sums;
    database
        .transact([&](Txn& t) {
          sums = {};
          const Status status = t.scan(accounts, [&](const std::uint64_t&, const Account& account) {
            sums.balance += account.balance;
            sums.changes += account.changes;
            return true;
          });
          if (!status.ok()) return status;
          return t.scan(receipts, [&](const Receipt& receipt, const std::uint64_t&) {
            return sums.receipts[receipt.thread].insert(receipt.number).second;
          });
        })
        .or_throw();
    return sums;
  }

  Database database;
  Accounts accounts;
  Receipts receipts;
};

constexpr std::uint64_t kAccounts = 12;
constexpr std::int64_t kTotal = kAccounts * 100;

class BankAfterCrashes : public testing::TestWithParam<LogMode> {
 protected:
  static constexpr std::uint32_t kThreads = 4;  // two of each node
  LoggedCluster cluster{2, GetParam(), options()};
  std::array<std::unique_ptr<Bank>, 2> banks;
  std::array<std::uint32_t, kThreads> last{};  // receipts that were acknowledged

  static Options options() {
    Options options = LoggedCluster::small_options();
    options.cache_bytes = 256 * 512;
    options.log_bytes = 16 << 20;
    return options;
  }
  void open() {
    std::vector<std::thread> threads;
    for (NodeId id = 0; id < 2; ++id) {
      threads.emplace_back([&, id] { banks[id] = std::make_unique<Bank>(cluster[id]); });
    }
    for (auto& thread : threads) thread.join();
  }
  std::thread teller(std::uint32_t number, std::uint64_t seed, const std::atomic<bool>& stop) {
    return std::thread([this, number, seed, &stop] {
      std::mt19937_64 random(seed + number);
      Bank& bank = *banks[number % 2];
      for (std::uint32_t next = last[number] + 1; !stop; ++next) {
        const std::uint64_t from = random() % kAccounts, to = (from + 1 + random() % (kAccounts - 1)) % kAccounts;
        if (!bank.transfer(from, to, std::int64_t(random() % 20), {number, next}).ok()) return;
        last[number] = next;
      }
    });
  }
  /// Each transfer is whole, and those that were acknowledged are there. What was not may be there: it is the last.
  void check(NodeId on) {
    cluster.on(on, [&](Node&) {
      const Bank::Sums sums = banks[on]->sums();
      EXPECT_EQ(sums.balance, kTotal);
      std::uint64_t changes = 0;
      for (std::uint32_t t = 0; t < kThreads; ++t) {
        const auto found = sums.receipts.find(t);
        const std::uint32_t highest = found == sums.receipts.end() ? 0 : *found->second.rbegin();
        EXPECT_GE(highest, last[t]) << "thread " << t;
        EXPECT_LE(highest, last[t] + 1) << "thread " << t;
        if (highest != 0) {
          EXPECT_EQ(found->second.size(), std::min(highest, 5u)) << "thread " << t;
        }
        last[t] = highest;
        changes += 2 * highest;
      }
      EXPECT_EQ(sums.changes, changes);
    });
  }
};

INSTANTIATE_TEST_SUITE_P(Modes, BankAfterCrashes, testing::Values(LogMode::kProcess, LogMode::kPower),
                         [](const auto& test) { return test.param == LogMode::kPower ? "Power" : "Process"; });

TEST_P(BankAfterCrashes, OfAllNodesIsWhole) {
  const std::uint64_t seed = test::fresh_seed();
  SCOPED_TRACE(test::repeat_with(seed));
  std::mt19937_64 random(seed);
  open();
  cluster.on(0, [&](Node&) { banks[0]->open_accounts(kAccounts, 100).or_throw(); });
  for (int life = 0; life < 6; ++life) {
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (std::uint32_t t = 0; t < kThreads; ++t) threads.push_back(teller(t, random(), stop));
    std::this_thread::sleep_for(std::chrono::microseconds(5'000 + random() % 40'000));
    const std::uint64_t loss = random();
    cluster.stop(0, loss);
    cluster.stop(1, loss);
    stop = true;
    for (auto& thread : threads) thread.join();
    banks = {};
    cluster.crash_all(loss);
    open();
    check(NodeId(life % 2));
  }
}

TEST_P(BankAfterCrashes, OfOneNodeIsWholeWhileTheOtherGoesOn) {
  const std::uint64_t seed = test::fresh_seed();
  SCOPED_TRACE(test::repeat_with(seed));
  std::mt19937_64 random(seed);
  open();
  cluster.on(0, [&](Node&) { banks[0]->open_accounts(kAccounts, 100).or_throw(); });
  for (int life = 0; life < 6; ++life) {
    const NodeId dies = NodeId(random() % 2);
    std::array<std::atomic<bool>, 2> stop{};
    std::array<std::vector<std::thread>, 2> threads;
    for (std::uint32_t t = 0; t < kThreads; ++t) threads[t % 2].push_back(teller(t, random(), stop[t % 2]));
    std::this_thread::sleep_for(std::chrono::microseconds(5'000 + random() % 30'000));
    cluster.stop(dies, random());
    stop[dies] = true;
    for (auto& thread : threads[dies]) thread.join();
    banks[dies].reset();
    cluster.crash(dies, random());
    cluster.restart(dies);
    cluster.on(dies, [&](Node& node) { banks[dies] = std::make_unique<Bank>(node); });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    stop[1 - dies] = true;
    for (auto& thread : threads[1 - dies]) thread.join();
    check(dies);
    check(NodeId(1 - dies));
  }
}

TEST_P(BankAfterCrashes, LocksOfALifeThatIsOverAreCleared) {
  open();
  cluster.on(0, [&](Node&) { banks[0]->open_accounts(kAccounts, 100).or_throw(); });
  // It dies while it holds locks of rows and of a bucket, which are in its log.
  std::thread([&] {
    const Status status = banks[1]->database.transact([&](Txn& t) -> Status {
      t.read_for_update(banks[1]->accounts, 3).status().or_throw();
      t.update(banks[1]->accounts, 4, {7, 7}).or_throw();
      t.insert(banks[1]->receipts, {9, 9}, 9).or_throw();
      cluster[1].fence().or_throw();
      std::thread([&] { cluster.stop(1, 1); }).join();
      return {};
    });
    EXPECT_EQ(status.code(), Errc::kFenced);
  }).join();
  banks[1].reset();
  cluster.crash(1, 1);
  cluster.restart(1);
  const auto blocked = [&](std::uint64_t key) {
    Status status;
    cluster.on(0, [&](Node& node) {
      DatabaseOptions options;
      options.give_up_after = std::chrono::milliseconds(30);
      Database database(node, options);
      const auto accounts = database.table<std::uint64_t, Account>(
          "accounts", {field("balance", &Account::balance), field("changes", &Account::changes)});
      status = database.transact([&](Txn& t) { return t.read(accounts, key).status(); });
    });
    return status.code();
  };
  EXPECT_EQ(blocked(2), Errc::kOk);
  EXPECT_EQ(blocked(3), Errc::kDeadline);  // the new process has not said that it has begun
  EXPECT_EQ(blocked(4), Errc::kDeadline);
  cluster.on(1, [&](Node& node) { banks[1] = std::make_unique<Bank>(node); });
  cluster.on(0, [&](Node&) {
    banks[0]->transfer(3, 4, 5, {0, 1}).or_throw();
    banks[0]->database.transact([&](Txn& t) { return t.insert(banks[0]->receipts, {9, 9}, 1); }).or_throw();
    EXPECT_GE(banks[0]->database.stats().locks_cleared, 2u);
    EXPECT_EQ(banks[0]->sums().balance, kTotal);
  });
}

TEST(BankWithoutALog, SaysWhoHasDiedWithALock) {
  LocalCluster cluster(3);
  std::array<std::unique_ptr<Bank>, 3> banks;
  cluster.in_parallel([&](NodeId id) { banks[id] = std::make_unique<Bank>(cluster[id]); });
  std::thread([&] { banks[0]->open_accounts(kAccounts, 100).or_throw(); }).join();
  std::atomic<bool> over{false}, locked{false};
  std::thread holder([&] {
    static_cast<void>(banks[2]->database.transact([&](Txn& t) -> Status {
      const auto row = t.read_for_update(banks[2]->accounts, 3);
      locked = true;
      while (!over) std::this_thread::yield();
      return row.status();
    }));
  });
  while (!locked) std::this_thread::yield();
  // Its line comes to node 0 before node 2 dies.
  std::thread([&] {
    EXPECT_THROW(static_cast<void>(banks[0]->database.transact([&](Txn& t) -> Status {
                   EXPECT_EQ(t.read(banks[0]->accounts, 3).status().code(), Errc::kRefused);
                   throw std::runtime_error("seen");
                 })),
                 std::runtime_error);
    cluster.hub().kill(2);
    const Status status = banks[0]->database.transact([&](Txn& t) { return t.read(banks[0]->accounts, 3).status(); });
    EXPECT_EQ(status.code(), Errc::kNodeDied) << status.to_string();
    EXPECT_EQ(status.node(), 2);
  }).join();
  cluster.hub().set_standing(2, cluster::Standing::kFenced);
  over = true;
  holder.join();
}

}  // namespace
}  // namespace atoll::txn
