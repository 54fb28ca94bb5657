// SQLite as an engine of TPC-C: what the concept asks of it, and that TPC-C's conditions hold on it.
#include <gmock/gmock.h>

#include <cstring>
#include <stdexcept>
#include <thread>

#include "bench/tpcc/consistency.hpp"
#include "bench/tpcc/population.hpp"
#include "bench/tpcc/sqlite_db.hpp"
#include "bench/tpcc/worker.hpp"

namespace atoll::bench::tpcc {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Txn = SqliteDb::Txn;

struct TpccSqlite : testing::Test {
  template <typename Key, typename Row>
  using Table = SqliteDb::Table<Key, Row>;

  /// A transaction that must end well.
  template <typename Function>
  void change(Function&& function) {
    const Status status = db.transact([&](Txn& t) -> Status { return function(t); });
    ASSERT_TRUE(status.ok()) << status.to_string();
  }
  std::optional<Order> read(const OrderKey& key) {
    std::optional<Order> found;
    change([&](Txn& t) {
      const auto row = t.read(orders, key);
      if (row.ok()) found = *row;
      return row.status();
    });
    return found;
  }
  void put(const OrderKey& key, std::uint32_t customer) {
    change([&](Txn& t) { return t.insert(orders, key, Order{1, customer, 2, 3, 4}); });
  }
  std::vector<std::uint32_t> scan(const OrderKey& first, const OrderKey& last, txn::Direction direction,
                                  std::size_t most = 100) {
    std::vector<std::uint32_t> seen;
    change([&](Txn& t) {
      return t.scan(
          orders, first, last,
          [&](const OrderKey& key, const Order& row) {
            EXPECT_EQ(row.customer, 100 * key.district + key.order);
            seen.push_back(row.customer);
            return seen.size() < most;
          },
          direction);
    });
    return seen;
  }

  SqliteDb db;
  const Table<OrderKey, Order> orders = db.table<OrderKey, Order>("order", {});  // the name is a word of SQL
};

TEST_F(TpccSqlite, ReadsWhatWasInserted) {
  EXPECT_FALSE(read({1, 2, 3}));
  put({1, 2, 3}, 7);
  const auto row = read({1, 2, 3});
  ASSERT_TRUE(row);
  EXPECT_EQ(row->customer, 7u);
  EXPECT_EQ(row->all_local, 4u);
  EXPECT_FALSE(read({1, 3, 2}));
  EXPECT_FALSE(read({0, 2, 3}));
}

TEST_F(TpccSqlite, SaysWhatIsThereAndWhatIsNot) {
  put({1, 1, 1}, 7);
  const Status status = db.transact([&](Txn& t) -> Status {
    EXPECT_EQ(t.insert(orders, {1, 1, 1}, {}).code(), Errc::kAlreadyExists);
    EXPECT_EQ(t.update(orders, {1, 1, 2}, {}).code(), Errc::kNotFound);
    EXPECT_EQ(t.erase(orders, {1, 1, 2}).code(), Errc::kNotFound);
    EXPECT_TRUE(t.insert(orders, {1, 1, 2}, {}).ok()) << "an error of a call is not one of the transaction";
    return t.erase(orders, {1, 1, 1});
  });
  EXPECT_TRUE(status.ok()) << status.to_string();
  EXPECT_FALSE(read({1, 1, 1}));
  EXPECT_TRUE(read({1, 1, 2}));
}

TEST_F(TpccSqlite, SeesItsOwnChanges) {
  change([&](Txn& t) {
    Status status = t.insert(orders, {1, 1, 1}, Order{0, 5, 0, 0, 0});
    if (status.ok()) status = t.update(orders, {1, 1, 1}, Order{0, 6, 0, 0, 0});
    EXPECT_EQ((*t.read_for_update(orders, {1, 1, 1}))->customer, 6u);
    return status;
  });
}

TEST_F(TpccSqlite, RollsBackWhatEndsWithAnError) {
  put({1, 1, 1}, 7);
  put({1, 1, 2}, 8);
  const Counts before = db.counts();
  const Status status = db.transact([&](Txn& t) -> Status {
    EXPECT_TRUE(t.update(orders, {1, 1, 1}, Order{0, 9, 0, 0, 0}).ok());
    EXPECT_TRUE(t.erase(orders, {1, 1, 2}).ok());
    EXPECT_TRUE(t.insert(orders, {1, 1, 3}, {}).ok());
    return {Errc::kDeadline, "as if"};
  });
  EXPECT_EQ(status.code(), Errc::kDeadline);
  EXPECT_EQ(db.counts().aborts, before.aborts + 1);
  EXPECT_EQ(db.counts().commits, before.commits);
  EXPECT_EQ(read({1, 1, 1})->customer, 7u);
  EXPECT_EQ(read({1, 1, 2})->customer, 8u);
  EXPECT_FALSE(read({1, 1, 3}));
}

TEST_F(TpccSqlite, RollsBackWhatThrows) {
  const auto throws = [&](Txn& t) -> Status {
    EXPECT_TRUE(t.insert(orders, {1, 1, 1}, {}).ok());
    throw std::runtime_error("as if");
  };
  EXPECT_THROW((void)db.transact(throws), std::runtime_error);
  EXPECT_FALSE(read({1, 1, 1}));
}

TEST_F(TpccSqlite, ScansBothWays) {
  for (const std::uint32_t district : {1u, 2u, 3u}) {
    for (const std::uint32_t order : {3u, 1u, 2u}) put({1, district, order}, 100 * district + order);
  }
  using enum txn::Direction;
  EXPECT_THAT(scan({1, 2, 0}, {1, 2, UINT32_MAX}, kForward), ElementsAre(201, 202, 203));
  EXPECT_THAT(scan({1, 2, 0}, {1, 2, UINT32_MAX}, kBackward), ElementsAre(203, 202, 201));
  EXPECT_THAT(scan({1, 1, 3}, {1, 2, 1}, kForward), ElementsAre(103, 201)) << "both ends are included";
  EXPECT_THAT(scan({1, 1, 3}, {1, 2, 1}, kBackward), ElementsAre(201, 103));
  EXPECT_THAT(scan({1, 1, 1}, {1, 3, 3}, kForward, 2), ElementsAre(101, 102)) << "until the visitor has enough";
  EXPECT_THAT(scan({1, 1, 2}, {1, 3, 3}, kForward, 1), ElementsAre(102)) << "and from the start again";
  EXPECT_THAT(scan({1, 4, 0}, {1, 9, 9}, kForward), IsEmpty());
  EXPECT_THAT(scan({1, 2, 3}, {1, 2, 1}, kForward), IsEmpty());
}

TEST_F(TpccSqlite, ScansByTextAndWithBoundsThatAreTooGreat) {
  const auto names = db.table<NameIndexKey, Nothing>("names", {});
  const auto lines = db.table<OrderLineKey, OrderLine>("lines", {});
  std::vector<std::uint32_t> customers, found;
  change([&](Txn& t) {
    Status status;
    for (const auto& [last, first, customer] :
         {std::tuple("B", "x", 1u), std::tuple("B", "a", 2u), std::tuple("BA", "a", 3u), std::tuple("A", "z", 4u)}) {
      if (status.ok()) status = t.insert(names, NameIndexKey{1, 1, {last}, {first}, customer}, {});
    }
    for (const std::uint32_t order : {7u, 8u, 9u}) {
      OrderLine row;
      row.item = order;
      if (status.ok()) status = t.insert(lines, {1, 1, order, 15}, row);
    }
    NameIndexKey from{1, 1, {"B"}, {}, 0}, to = from;
    to.first.bytes.fill('\xff');
    const auto collect = [&](const NameIndexKey& key, const Nothing&) {
      return customers.push_back(key.customer), true;
    };
    if (status.ok()) status = t.scan(names, from, to, collect, txn::Direction::kForward);
    const auto collect_line = [&](const OrderLineKey& key, const OrderLine& row) {
      EXPECT_EQ(key.line, 15u);
      return found.push_back(row.item), true;
    };
    const OrderLineKey first{1, 1, 7, UINT32_MAX}, last{1, 1, 8, UINT32_MAX};
    return status.ok() ? t.scan(lines, first, last, collect_line, txn::Direction::kForward) : status;
  });
  EXPECT_THAT(customers, ElementsAre(2, 1));
  EXPECT_THAT(found, ElementsAre(8));
}

TEST_F(TpccSqlite, RefusesNumbersThatItsKeysCannotHold) {
  const OrderKey key{1u << 16, 1, 1};
  const Status status = db.transact([&](Txn& t) -> Status {
    EXPECT_FALSE(t.read(orders, key).value());
    EXPECT_EQ(t.update(orders, key, {}).code(), Errc::kNotFound);
    EXPECT_EQ(t.erase(orders, key).code(), Errc::kNotFound);
    return t.insert(orders, key, {});
  });
  EXPECT_EQ(status.code(), Errc::kInvalidArgument);
}

TEST(TpccSqliteKey, KeepsItsOrderAndComesBack) {
  const auto check = []<typename Key>(const Key& less, const Key& more) {
    EXPECT_LT(to_sqlite(less).number, to_sqlite(more).number);
    const Key back = from_sqlite<Key>(to_sqlite(less));
    EXPECT_EQ(std::memcmp(&back, &less, sizeof(Key)), 0);
  };
  check(OrderLineKey{32'767, 255, UINT32_MAX - 1, 255}, OrderLineKey{32'767, 255, UINT32_MAX, 0});
  check(OrderIndexKey{4095, 10, 3000, 9'999}, OrderIndexKey{4095, 10, 3001, 1});
  check(HistoryKey{1, 2, 3}, HistoryKey{1, 3, 0});
  check(StockKey{1, UINT32_MAX}, StockKey{2, 0});
  EXPECT_TRUE(to_sqlite(CustomerKey{65'535, 32'767, UINT32_MAX}).fits);
  EXPECT_EQ(to_sqlite(CustomerKey{65'535, 32'767, UINT32_MAX}).number, INT64_MAX);
  EXPECT_FALSE(to_sqlite(CustomerKey{1, 32'768, 1}).fits);
}

TEST_F(TpccSqlite, ThreadsDoNotLoseChanges) {
  constexpr unsigned kThreads = 3, kTimes = 300;
  put({1, 1, 1}, 0);
  ycsb::in_threads(kThreads, [&](unsigned) {
    for (unsigned i = 0; i < kTimes; ++i) {
      db.transact([&](Txn& t) -> Status {
          const auto row = t.read_for_update(orders, {1, 1, 1});
          if (!row.ok()) return row.status();
          Order changed = **row;
          ++changed.customer;
          return t.update(orders, {1, 1, 1}, changed);
        }).or_throw();
    }
  });
  EXPECT_EQ(read({1, 1, 1})->customer, kThreads * kTimes);
}

/// All of a mix's transactions by two threads on few rows; then the conditions.
void run_mix(Mix mix) {
  constexpr unsigned kThreads = 2;
  Shape shape;
  shape.scale = {2, 30, 9, 100};
  shape.homes = {2, 1};
  shape.constants = Constants::from_seed(1);
  SqliteDb db;
  const Tables<SqliteDb> tables = open_tables(db, shape.scale, shape.homes, mix, 1000);
  const std::uint64_t empty = db.memory_bytes();
  Population(db, tables, shape, 0, 1'000).run(kThreads, [](int) {});
  EXPECT_GT(db.memory_bytes(), empty);
  std::array<Tallies, kThreads> tallies;
  ycsb::in_threads(kThreads, [&](unsigned t) {
    Worker<SqliteDb> runs(db, tables, Inputs(shape, 0, t, kThreads, t + 1), mix);
    while (tallies[t].all() < 400) runs.run(0.02, tallies[t]);
  });
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    EXPECT_EQ(tallies[0].kinds[kind].done > 0, mix == Mix::kFull || kind < 2) << name_of(Kind(kind));
  }
  const auto audit = [&] { return Audit<SqliteDb>(db, tables, shape.homes, 0, kThreads).run(2, kAllConditions); };
  EXPECT_THAT(audit(), IsEmpty());
  db.transact([&](Txn& t) -> Status {  // the audit reads what is there
      const auto row = t.read(tables.district, {1, 1});
      District changed = row.value().value();
      ++changed.ytd;
      return t.update(tables.district, {1, 1}, changed);
    })
      .or_throw();
  EXPECT_THAT(audit(), testing::Not(IsEmpty()));
}

TEST(TpccSqliteRun, AllFiveKeepTheConditions) {
  run_mix(Mix::kFull);
}

TEST(TpccSqliteRun, NewOrderAndPaymentKeepTheConditions) {
  run_mix(Mix::kNewOrderPayment);
}

}  // namespace
}  // namespace atoll::bench::tpcc
