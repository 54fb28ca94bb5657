// Transactions: what each call does, what it says when it cannot, and what others see.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <map>
#include <thread>

#include "atoll/txn.hpp"
#include "support/local_cluster.hpp"

namespace atoll::txn {
namespace {

using test::LocalCluster;
using testing::HasSubstr;

struct Account {
  std::int64_t balance = 0;
  std::uint32_t owner = 0;
  float rate = 0;
  std::array<char, 16> name{};
};

std::vector<Field> account_fields() {
  return {field("balance", &Account::balance), field("owner", &Account::owner), field("rate", &Account::rate),
          field("name", &Account::name)};
}

/// Two nodes with a table; what is done on a node is done in a thread of its own.
class Transactions : public testing::Test {
 protected:
  using Accounts = Table<std::uint64_t, Account>;
  LocalCluster cluster{2};
  std::array<std::unique_ptr<Database>, 2> databases;
  std::vector<Accounts> accounts;

  void SetUp() override {
    std::array<std::optional<Accounts>, 2> opened;
    cluster.in_parallel([&](NodeId id) {
      databases[id] = std::make_unique<Database>(cluster[id], options());
      opened[id] = databases[id]->table<std::uint64_t, Account>("accounts", account_fields(), {.rows = 60});
    });
    accounts = {*opened[0], *opened[1]};
  }
  static DatabaseOptions options() {
    DatabaseOptions options;
    options.give_up_after = std::chrono::milliseconds(100);
    return options;
  }
  template <typename F>
  static void in_thread(F f) {
    std::thread(f).join();
  }
  /// On one node, where the function must get what it needs.
  template <typename F>
  Status run(NodeId on, F f) {
    Status status;
    in_thread([&] { status = databases[on]->transact([&](Txn& t) -> Status { return f(t, accounts[on]); }); });
    return status;
  }
  void put(NodeId on, std::uint64_t key, std::int64_t balance) {
    const Status status = run(on, [&](Txn& t, Accounts& table) {
      const Status updated = t.update(table, key, {balance, 1, 0.5f, {}});
      return updated.code() == Errc::kNotFound ? t.insert(table, key, {balance, 1, 0.5f, {}}) : updated;
    });
    ASSERT_TRUE(status.ok()) << status.to_string();
  }
  std::optional<std::int64_t> balance(NodeId on, std::uint64_t key) {
    std::optional<std::int64_t> found;
    const Status status = run(on, [&](Txn& t, Accounts& table) -> Status {
      const auto row = t.read(table, key);
      if (!row.ok()) return row.status();
      found = *row ? std::optional((*row)->balance) : std::nullopt;
      return {};
    });
    EXPECT_TRUE(status.ok()) << status.to_string();
    return found;
  }
  std::map<std::uint64_t, std::int64_t> all(NodeId on) {
    std::map<std::uint64_t, std::int64_t> found;
    const Status status = run(on, [&](Txn& t, Accounts& table) {
      found.clear();
      return t.scan(table, [&](const std::uint64_t& key, const Account& row) {
        EXPECT_TRUE(found.emplace(key, row.balance).second);
        return true;
      });
    });
    EXPECT_TRUE(status.ok()) << status.to_string();
    return found;
  }
};

TEST_F(Transactions, WhatOneNodeCommitsTheOtherReads) {
  put(0, 7, 100);
  EXPECT_EQ(balance(1, 7), 100);
  put(1, 7, 200);
  EXPECT_EQ(balance(0, 7), 200);
  EXPECT_EQ(balance(0, 8), std::nullopt);
  EXPECT_EQ(databases[0]->stats().commits, 3u);
}

TEST_F(Transactions, SeeTheirOwnChanges) {
  put(0, 1, 10);
  const Status status = run(1, [&](Txn& t, Accounts& table) -> Status {
    t.insert(table, 2, {20, 0, 0, {}}).or_throw();
    EXPECT_EQ(t.read(table, 2).value()->balance, 20);
    t.update(table, 2, {21, 0, 0, {}}).or_throw();
    EXPECT_EQ(t.read(table, 2).value()->balance, 21);
    t.erase(table, 1).or_throw();
    EXPECT_FALSE(t.read(table, 1).value().has_value());
    EXPECT_EQ(t.update(table, 1, {}).code(), Errc::kNotFound);
    EXPECT_EQ(t.erase(table, 1).code(), Errc::kNotFound);
    t.insert(table, 1, {11, 0, 0, {}}).or_throw();
    EXPECT_EQ(t.insert(table, 1, {}).code(), Errc::kAlreadyExists);
    t.insert(table, 3, {30, 0, 0, {}}).or_throw();
    t.erase(table, 3).or_throw();
    return {};
  });
  EXPECT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(all(0), (std::map<std::uint64_t, std::int64_t>{{1, 11}, {2, 21}}));
}

TEST_F(Transactions, DoNothingWhenTheyFail) {
  put(0, 1, 10);
  const auto change = [](Txn& t, Accounts& table) {
    t.update(table, 1, {99, 0, 0, {}}).or_throw();
    t.insert(table, 2, {99, 0, 0, {}}).or_throw();
  };
  const Status refused = run(1, [&](Txn& t, Accounts& table) -> Status {
    change(t, table);
    return {Errc::kOutOfMemory, "the function's own error"};
  });
  EXPECT_EQ(refused.code(), Errc::kOutOfMemory);
  EXPECT_STREQ(refused.what(), "the function's own error");
  EXPECT_EQ(run(1, [&](Txn& t, Accounts& table) { return change(t, table), Txn::abort(); }).code(), Errc::kRefused);
  in_thread([&] {
    EXPECT_THROW(static_cast<void>(databases[1]->transact([&](Txn& t) -> Status {
                   change(t, accounts[1]);
                   throw std::runtime_error("half way");
                 })),
                 std::runtime_error);
  });
  EXPECT_EQ(all(0), (std::map<std::uint64_t, std::int64_t>{{1, 10}}));
  EXPECT_EQ(databases[1]->stats().aborts, 2u);
  put(0, 1, 11);  // nothing is locked
  put(0, 2, 12);
}

TEST_F(Transactions, RowsComeGoAndComeAgain) {
  for (int round = 0; round < 3; ++round) {
    const NodeId on = NodeId(round % 2);
    for (std::uint64_t key = 0; key < 300; ++key) put(on, key * 7, std::int64_t(key));  // chains of several buckets
    EXPECT_EQ(all(NodeId(1 - on)).size(), 300u);
    for (std::uint64_t key = 0; key < 300; ++key) {
      if (key % 3 == 0) continue;
      EXPECT_TRUE(run(NodeId(1 - on), [&](Txn& t, Accounts& table) { return t.erase(table, key * 7); }).ok());
    }
    const auto left = all(on);
    EXPECT_EQ(left.size(), 100u);
    for (const auto& [key, value] : left) EXPECT_EQ(key, std::uint64_t(value) * 7);
    EXPECT_EQ(balance(on, 7), std::nullopt);
    EXPECT_EQ(balance(on, 21), 3);
  }
}

TEST_F(Transactions, MemoryOfErasedRowsIsUsedAgain) {
  put(0, 1, 1);
  EXPECT_TRUE(run(0, [&](Txn& t, Accounts& table) { return t.erase(table, 1); }).ok());
  const std::uint64_t allocations = cluster[0].stats().allocations;
  for (int i = 0; i < 20; ++i) {
    put(0, 1, i);
    EXPECT_TRUE(run(0, [&](Txn& t, Accounts& table) { return t.erase(table, 1); }).ok());
  }
  EXPECT_EQ(cluster[0].stats().allocations, allocations);
}

TEST_F(Transactions, ScansShowWhatTheTransactionItselfHasDone) {
  put(0, 1, 10);
  put(0, 2, 20);
  put(0, 3, 30);
  std::map<std::uint64_t, std::int64_t> seen;
  const Status status = run(1, [&](Txn& t, Accounts& table) {
    seen.clear();
    t.insert(table, 4, {40, 0, 0, {}}).or_throw();
    t.erase(table, 2).or_throw();
    t.update(table, 3, {31, 0, 0, {}}).or_throw();
    return t.scan(table,
                  [&](const std::uint64_t& key, const Account& row) { return seen.emplace(key, row.balance).second; });
  });
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(seen, (std::map<std::uint64_t, std::int64_t>{{1, 10}, {3, 31}, {4, 40}}));
  int visits = 0;
  EXPECT_TRUE(run(1, [&](Txn& t, Accounts& table) {
                return t.scan(table, [&](const std::uint64_t&, const Account&) { return ++visits < 2; });
              }).ok());
  EXPECT_EQ(visits, 2);
}

/// Runs `other` on node 1 while a transaction on node 0 is between its two halves, the first time.
template <typename First, typename Second, typename Other>
Status with_another(Database& database, const First& first, const Other& other, const Second& second, int* runs) {
  Status status;
  std::thread([&] {
    status = database.transact([&](Txn& t) -> Status {
      if (const Status begun = first(t); !begun.ok()) return begun;
      if ((*runs)++ == 0) other();
      return second(t);
    });
  }).join();
  return status;
}

TEST_F(Transactions, BeginAgainWhenWhatTheyReadWasChanged) {
  put(0, 1, 10);
  put(0, 2, 0);
  int runs = 0;
  std::int64_t seen = 0;
  const Status status = with_another(
      *databases[0],
      [&](Txn& t) -> Status {
        seen = t.read(accounts[0], 1).value()->balance;
        return {};
      },
      [&] { put(1, 1, 11); },
      [&](Txn& t) {
        return t.update(accounts[0], 2, {seen, 0, 0, {}});
      },
      &runs);
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(balance(1, 2), 11);
  EXPECT_EQ(databases[0]->stats().read_conflicts, 1u);
}

TEST_F(Transactions, BeginAgainWhenAKeyThatWasNotThereCame) {
  int runs = 0;
  put(0, 2, 0);
  bool was_there = false;
  const Status status = with_another(
      *databases[0],
      [&](Txn& t) -> Status {
        was_there = t.read(accounts[0], 1).value().has_value();
        return {};
      },
      [&] { put(1, 1, 11); },
      [&](Txn& t) {
        return t.update(accounts[0], 2, {was_there, 0, 0, {}});
      },
      &runs);
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(balance(1, 2), 1);
}

TEST_F(Transactions, BeginAgainWhenARowCameWhereTheyScanned) {
  for (std::uint64_t key = 1; key <= 40; ++key) put(0, key, 1);
  int runs = 0;
  std::int64_t sum = 0;
  const Status status = with_another(
      *databases[0],
      [&](Txn& t) {
        sum = 0;
        return t.scan(accounts[0], [&](const std::uint64_t&, const Account& row) { return sum += row.balance, true; });
      },
      [&] { put(1, 100, 5); },
      [&](Txn& t) {
        return t.insert(accounts[0], 1000, {sum, 0, 0, {}});
      },
      &runs);
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(balance(1, 1000), 45);
}

TEST_F(Transactions, AnErrorCountsOnlyIfWhatWasReadWasThereAtOneMoment) {
  put(0, 1, 10);
  put(0, 2, 10);
  int runs = 0;
  std::int64_t one = 0;
  const Status status = with_another(
      *databases[0],
      [&](Txn& t) -> Status {
        one = t.read(accounts[0], 1).value()->balance;
        return {};
      },
      [&] {
        EXPECT_TRUE(run(1, [&](Txn& t, Accounts& table) {
                      t.update(table, 1, {0, 0, 0, {}}).or_throw();
                      return t.update(table, 2, {20, 0, 0, {}});
                    }).ok());
      },
      [&](Txn& t) -> Status {
        if (one + t.read(accounts[0], 2).value()->balance != 20) return {Errc::kOutOfMemory, "money was made"};
        return {};
      },
      &runs);
  EXPECT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(runs, 2);
}

/// While a row comes, others may see a part of it before the rest: that a key is absent must be looked at again, even
/// if nothing else was read.
TEST_F(Transactions, AnAbsentKeyAloneIsLookedAtAgain) {
  Status alone, with_error;
  const Status status = run(0, [&](Txn& t, Accounts& table) -> Status {
    const Status inserted = t.insert(table, 5, {});
    if (!inserted.ok()) return inserted;
    alone = run(1, [&](Txn& u, Accounts& same) { return u.read(same, 5).status(); });
    with_error = run(1, [&](Txn& u, Accounts& same) -> Status {
      const auto row = u.read(same, 5);
      if (!row.ok()) return row.status();
      return *row ? Status() : Status(Errc::kNotFound, "it is not there");
    });
    return {};
  });
  EXPECT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(alone.code(), Errc::kDeadline) << alone.to_string();
  EXPECT_EQ(with_error.code(), Errc::kDeadline) << with_error.to_string();
}

TEST_F(Transactions, ARowThatIsErasedAndComesAgainInOneTransaction) {
  put(0, 3, 30);
  const Status status = run(0, [&](Txn& t, Accounts& table) -> Status {
    if (const Status erased = t.erase(table, 3); !erased.ok()) return erased;
    EXPECT_FALSE(t.read(table, 3).value().has_value());
    return t.insert(table, 3, {31, 2, 0, {}});
  });
  EXPECT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(balance(1, 3), 31);
}

TEST_F(Transactions, GiveUpWhenALockStays) {
  put(0, 1, 10);
  Status other, reader;
  in_thread([&] {
    const Status status = databases[0]->transact([&](Txn& t) -> Status {
      EXPECT_EQ(t.read_for_update(accounts[0], 1).value()->balance, 10);
      other = run(1, [](Txn& u, Accounts& table) { return u.update(table, 1, {11, 0, 0, {}}); });
      reader = run(1, [](Txn& u, Accounts& table) { return u.read(table, 1).status(); });
      return {};
    });
    EXPECT_TRUE(status.ok());
  });
  EXPECT_EQ(other.code(), Errc::kDeadline);
  EXPECT_EQ(reader.code(), Errc::kDeadline);
  EXPECT_GT(databases[1]->stats().lock_conflicts, 2u);
  put(1, 1, 12);  // it was only read, and is free again
  EXPECT_EQ(balance(0, 1), 12);
}

TEST_F(Transactions, AreNotBegunWithinATransaction) {
  Status inner;
  const Status outer = run(0, [&](Txn& t, Accounts& table) {
    inner = databases[0]->transact([](Txn&) { return Status(); });
    return t.insert(table, 1, {1, 0, 0, {}});
  });
  EXPECT_TRUE(outer.ok());
  EXPECT_EQ(inner.code(), Errc::kWouldDeadlock);
  EXPECT_EQ(balance(1, 1), 1);
}

TEST_F(Transactions, LargeRowsAndKeysWork) {
  using Key = std::array<std::uint32_t, 16>;
  using Row = std::array<std::uint64_t, 400>;  // seven lines
  std::array<std::optional<Table<Key, Row>>, 2> tables;
  cluster.in_parallel([&](NodeId id) { tables[id] = databases[id]->table<Key, Row>("large", {}); });
  Row row;
  for (std::uint64_t round = 1; round <= 5; ++round) {
    const NodeId on = NodeId(round % 2);
    row.fill(round);
    in_thread([&] {
      databases[on]
          ->transact([&](Txn& t) {
            return round == 1 ? t.insert(*tables[on], {1, 2}, row) : t.update(*tables[on], {1, 2}, row);
          })
          .or_throw();
    });
    in_thread([&] {
      databases[1 - on]
          ->transact([&](Txn& t) -> Status {
            EXPECT_EQ(t.read(*tables[1 - on], {1, 2}).value(), row);
            EXPECT_FALSE(t.read(*tables[1 - on], {1, 3}).value());
            return {};
          })
          .or_throw();
    });
  }
}

// ---- what does not make sense ----

std::string why_not(Database& database, std::string_view name, const Schema& schema) {
  try {
    database.table(name, schema, {}, std::chrono::milliseconds(50));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_F(Transactions, ATableHasOneSchema) {
  const Schema right{8, sizeof(Account), account_fields()};
  in_thread([&] {
    EXPECT_EQ(why_not(*databases[1], "accounts", right), "");
    Schema turned = right;
    std::swap(turned.fields[0], turned.fields[3]);
    EXPECT_EQ(why_not(*databases[1], "accounts", turned), "");
    Schema other = right;
    other.key_bytes = 4;
    EXPECT_THAT(why_not(*databases[1], "accounts", other), HasSubstr("another schema"));
    other = right;
    other.fields[0].kind = FieldKind::kUnsigned;
    EXPECT_THAT(why_not(*databases[1], "accounts", other), HasSubstr("another schema"));
    other.fields.pop_back();
    EXPECT_THAT(why_not(*databases[1], "accounts", other), HasSubstr("another schema"));
  });
  // A Database that sees it for the first time.
  in_thread([&] {
    Database again(cluster[1]);
    EXPECT_EQ(why_not(again, "accounts", right), "");
    EXPECT_THAT(why_not(again, "accounts", {8, 8, {}}), HasSubstr("another schema"));
  });
}

TEST_F(Transactions, SchemasThatMakeNoSenseAreRefused) {
  in_thread([&] {
    Database& database = *databases[0];
    EXPECT_THAT(why_not(database, "bad", {65, 8, {}}), HasSubstr("key"));
    EXPECT_THAT(why_not(database, "bad", {0, 8, {}}), HasSubstr("key"));
    EXPECT_THAT(why_not(database, "bad", {8, 0, {}}), HasSubstr("row"));
    EXPECT_THAT(why_not(database, "bad", {8, kMaxRowBytes + 1, {}}), HasSubstr("row"));
    EXPECT_THAT(why_not(database, "bad", {8, 8, {{"a", 4, 5}}}), HasSubstr("within the row"));
    EXPECT_THAT(why_not(database, "bad", {8, 8, {{"a", 0xffffffff, 2}}}), HasSubstr("within the row"));
    EXPECT_THAT(why_not(database, "bad", {8, 8, {{"a", 0, 0}}}), HasSubstr("within the row"));
    EXPECT_THAT(why_not(database, "bad", {8, 8, {{"a", 0, 5}, {"b", 4, 4}}}), HasSubstr("overlap"));
    EXPECT_THAT(why_not(database, "bad", {8, 8, {{"a", 0, 4}, {"a", 4, 4}}}), HasSubstr("same name"));
    EXPECT_THAT(why_not(database, "bad", {8, 8, {{"", 0, 4}}}), HasSubstr("name"));
    EXPECT_THAT(why_not(database, "bad", {8, 8, {{std::string(32, 'a'), 0, 4}}}), HasSubstr("name"));
    Schema many{8, 100, {}};
    for (std::uint32_t i = 0; i < 65; ++i) many.fields.push_back({std::to_string(i), i, 1});
    EXPECT_THAT(why_not(database, "bad", many), HasSubstr("64 fields"));
  });
}

TEST_F(Transactions, ATableThatNobodyMakesIsNotFound) {
  in_thread([&] { EXPECT_THAT(why_not(*databases[1], "nowhere", {8, 8, {}}), HasSubstr("deadline")); });
}

TEST_F(Transactions, BytesMustFitTheSchemaAndTablesTheirDatabase) {
  in_thread([&] {
    Database other(cluster[0]);
    const auto foreign = other.table<std::uint64_t, Account>("accounts", account_fields());
    databases[0]
        ->transact([&](Txn& t) -> Status {
          std::array<std::byte, 64> room{};
          const std::span<std::byte> bytes(room);
          EXPECT_EQ(t.read(accounts[0], bytes.first(7), bytes.first(sizeof(Account)), false).status().code(),
                    Errc::kInvalidArgument);
          EXPECT_EQ(t.read(accounts[0], bytes.first(8), bytes.first(8), false).status().code(), Errc::kInvalidArgument);
          EXPECT_EQ(t.insert(accounts[0], bytes.first(9), bytes.first(sizeof(Account))).code(), Errc::kInvalidArgument);
          EXPECT_EQ(t.insert(accounts[0], bytes.first(8), bytes.first(1)).code(), Errc::kInvalidArgument);
          EXPECT_EQ(t.update(accounts[0], bytes.first(8), bytes.first(1)).code(), Errc::kInvalidArgument);
          EXPECT_EQ(t.erase(accounts[0], bytes.first(1)).code(), Errc::kInvalidArgument);
          EXPECT_EQ(t.read(foreign, 1).status().code(), Errc::kInvalidArgument);
          return {};
        })
        .or_throw();
  });
}

TEST_F(Transactions, MoreThanTheCacheHoldsIsRefusedAndNothingIsDone) {
  for (std::uint64_t key = 0; key < 200; ++key) put(0, key, 1);  // rows in the memory of node 0
  const Status status = run(1, [&](Txn& t, Accounts& table) -> Status {
    for (std::uint64_t key = 0; key < 200; ++key) {
      if (const Status one = t.update(table, key, {2, 0, 0, {}}); !one.ok()) return one;
    }
    return {};
  });
  // Rows of 64 bytes share lines: 200 of them are 25 lines or more, and the cache has 64.
  EXPECT_TRUE(status.ok() || status.code() == Errc::kCacheFull) << status.to_string();
  const auto found = all(0);
  EXPECT_EQ(found.size(), 200u);
  for (const auto& [key, value] : found) EXPECT_EQ(value, status.ok() ? 2 : 1);
}

}  // namespace
}  // namespace atoll::txn
