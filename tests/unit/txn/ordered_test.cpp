// Ordered tables: what a map would do, whatever leaves divide and go; and ranges that nobody slips into.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "atoll/txn.hpp"
#include "support/local_cluster.hpp"
#include "support/seed.hpp"

namespace atoll::txn {
namespace {

using test::LocalCluster;

TEST(SortedNumber, HasBytesInTheOrderOfItsValues) {
  const auto bytes = [](auto number) { return std::string(reinterpret_cast<const char*>(&number), sizeof(number)); };
  const std::array<std::int32_t, 7> numbers{INT32_MIN, -70000, -1, 0, 1, 256, INT32_MAX};
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    EXPECT_EQ(std::int32_t(Sorted<std::int32_t>(numbers[i])), numbers[i]);
    if (i > 0) {
      EXPECT_LT(bytes(Sorted<std::int32_t>(numbers[i - 1])), bytes(Sorted<std::int32_t>(numbers[i])));
    }
  }
  EXPECT_EQ(std::uint64_t(Sorted<std::uint64_t>(0x0102030405060708)), 0x0102030405060708u);
  EXPECT_EQ(bytes(Sorted<std::uint16_t>(0x0102)), "\x01\x02");
  EXPECT_EQ(std::int8_t(Sorted<std::int8_t>()), 0);
  EXPECT_EQ(bytes(Sorted<std::int64_t>()), bytes(Sorted<std::int64_t>(0)));
  EXPECT_EQ(std::uint8_t(Sorted<std::uint8_t>(200)), 200);
}

/// A key that is long, so that nodes have few entries and the tree is high.
struct Key {
  Sorted<std::uint32_t> number;
  std::array<std::uint8_t, 60> rest{};
  Key(std::uint32_t n = 0) : number(n) {}
};
using Numbers = Table<Key, std::uint64_t>;

class Ordered : public testing::Test {
 protected:
  static constexpr NodeId kNodes = 2;
  LocalCluster cluster{kNodes, options()};
  std::array<std::unique_ptr<Database>, kNodes> databases;
  std::vector<Numbers> tables;

  static Options options() {
    Options options = LocalCluster::small_options();
    options.memory_bytes = 16 << 20;
    options.cache_bytes = 2 << 20;
    return options;
  }
  void SetUp() override {
    std::array<std::optional<Numbers>, kNodes> opened;
    cluster.in_parallel([&](NodeId id) {
      databases[id] = std::make_unique<Database>(cluster[id]);
      opened[id] = databases[id]->table<Key, std::uint64_t>("numbers", {}, {.ordered = true});
    });
    for (auto& table : opened) tables.push_back(*table);
  }
  template <typename F>
  Status run(NodeId on, F f) {
    Status status;
    std::thread([&] { status = databases[on]->transact([&](Txn& t) -> Status { return f(t, tables[on]); }); }).join();
    return status;
  }
  using Pairs = std::vector<std::pair<std::uint32_t, std::uint64_t>>;
  static Status collect(Txn& t, const Numbers& table, std::uint32_t first, std::uint32_t last, Direction direction,
                        Pairs& pairs) {
    pairs.clear();
    return t.scan(
        table, first, last,
        [&](const Key& key, const std::uint64_t& value) { return pairs.emplace_back(key.number, value), true; },
        direction);
  }
  Pairs range(NodeId on, std::uint32_t first, std::uint32_t last, Direction direction = Direction::kForward) {
    Pairs pairs;
    const Status status =
        run(on, [&](Txn& t, Numbers& table) { return collect(t, table, first, last, direction, pairs); });
    EXPECT_TRUE(status.ok()) << status.to_string();
    return pairs;
  }
};

/// What is between first and last of a map.
std::vector<std::pair<std::uint32_t, std::uint64_t>> between(const std::map<std::uint32_t, std::uint64_t>& map,
                                                             std::uint32_t first, std::uint32_t last) {
  if (first > last) return {};
  return {map.lower_bound(first), map.upper_bound(last)};
}

TEST_F(Ordered, DoesWhatAMapDoes) {
  const std::uint64_t seed = test::fresh_seed();
  SCOPED_TRACE(test::repeat_with(seed));
  std::mt19937_64 random(seed);
  std::map<std::uint32_t, std::uint64_t> model;
  for (int round = 0; round < 120; ++round) {
    const NodeId on = NodeId(random() % kNodes);
    const bool growing = round < 60;
    const std::uint64_t plan = random();
    std::map<std::uint32_t, std::uint64_t> next;
    const Status status = run(on, [&](Txn& t, Numbers& table) -> Status {
      next = model;
      std::mt19937_64 dice(plan);
      for (int i = 0; i < 30; ++i) {
        const std::uint32_t key = std::uint32_t(dice() % 2000);
        const bool there = next.contains(key);
        Status done;
        if (!there) {
          done = growing || dice() % 4 == 0 ? t.insert(table, key, dice()) : t.erase(table, key);
        } else {
          done = growing || dice() % 4 == 0 ? t.update(table, key, dice()) : t.erase(table, key);
        }
        if (done.code() == Errc::kRefused) return done;
        EXPECT_EQ(done.code(), !there && !growing && done.code() == Errc::kNotFound ? Errc::kNotFound : Errc::kOk);
        const auto found = t.read(table, key);
        if (!found.ok()) return found.status();
        if (*found) {
          next[key] = **found;
        } else {
          next.erase(key);
        }
      }
      Pairs pairs;  // it sees its own
      const Status scanned = collect(t, table, 100, 900, Direction::kForward, pairs);
      if (scanned.ok()) {
        EXPECT_EQ(pairs, between(next, 100, 900));
      }
      return dice() % 8 == 0 ? Status(Errc::kOutOfMemory, "on purpose") : scanned;
    });
    ASSERT_TRUE(status.ok() || status.code() == Errc::kOutOfMemory) << status.to_string();
    if (status.ok()) model = next;
    const std::uint32_t first = std::uint32_t(random() % 2000), last = std::uint32_t(random() % 2000);
    ASSERT_EQ(range(on, first, last), between(model, first, last));
    Pairs turned = between(model, first, last);
    std::reverse(turned.begin(), turned.end());
    ASSERT_EQ(range(NodeId(1 - on), first, last, Direction::kBackward), turned);
  }
  EXPECT_EQ(range(0, 0, 0xffffffff), Pairs(model.begin(), model.end()));
}

TEST_F(Ordered, ManyRowsOfOneTransactionAndAllOfThemAgain) {
  for (int round = 0; round < 2; ++round) {
    for (std::uint32_t from = 0; from < 3000; from += 40) {
      ASSERT_TRUE(run(0, [&](Txn& t, Numbers& table) -> Status {
                    for (std::uint32_t i = from; i < from + 40; ++i) {
                      if (const Status status = t.insert(table, i * 2, i); !status.ok()) return status;
                    }
                    return {};
                  }).ok());
    }
    const Pairs all = range(1, 0, 10000);
    ASSERT_EQ(all.size(), 3000u);
    for (std::uint32_t i = 0; i < 3000; ++i) ASSERT_EQ(all[i], (std::pair<std::uint32_t, std::uint64_t>(i * 2, i)));
    EXPECT_EQ(range(1, 1001, 1006), (Pairs{{1002, 501}, {1004, 502}, {1006, 503}}));
    EXPECT_EQ(range(1, 1001, 1006, Direction::kBackward), (Pairs{{1006, 503}, {1004, 502}, {1002, 501}}));
    EXPECT_EQ(range(1, 5, 4), Pairs());
    EXPECT_EQ(range(1, 5999, 10000), Pairs());
    // From the front, as a queue goes.
    for (std::uint32_t from = 0; from < 3000; from += 50) {
      ASSERT_TRUE(run(1, [&](Txn& t, Numbers& table) -> Status {
                    std::vector<std::uint32_t> oldest;
                    const Status scanned = t.scan(table, 0, 0xffffffff, [&](const Key& key, const std::uint64_t&) {
                      return oldest.push_back(key.number), oldest.size() < 50;
                    });
                    if (!scanned.ok()) return scanned;
                    EXPECT_EQ(oldest.front(), from * 2);
                    for (const std::uint32_t key : oldest) {
                      if (const Status status = t.erase(table, key); !status.ok()) return status;
                    }
                    return {};
                  }).ok());
    }
    EXPECT_EQ(range(0, 0, 0xffffffff), Pairs());
  }
}

TEST_F(Ordered, MoreRowsAtOnePlaceThanCanBeDividedAreRefused) {
  const Status status = run(0, [&](Txn& t, Numbers& table) -> Status {
    for (std::uint32_t i = 0; i < 200; ++i) {
      if (const Status one = t.insert(table, i, i); !one.ok()) return one;
    }
    return {};
  });
  EXPECT_EQ(status.code(), Errc::kInvalidArgument) << status.to_string();
  EXPECT_EQ(range(1, 0, 1000), Pairs());
}

TEST_F(Ordered, OtherKindsOfTablesAreToldApart) {
  std::thread([&] {
    const auto hashed = databases[0]->table<Key, std::uint64_t>("hashed", {});
    EXPECT_THROW((databases[0]->table<Key, std::uint64_t>("hashed", {}, {.ordered = true})), Error);
    EXPECT_THROW((databases[0]->table<Key, std::uint64_t>("numbers", {})), Error);
    databases[0]
        ->transact([&](Txn& t) -> Status {
          EXPECT_EQ(t.scan(hashed, 1, 2, [](const Key&, const std::uint64_t&) { return true; }).code(),
                    Errc::kInvalidArgument);
          return {};
        })
        .or_throw();
  }).join();
}

/// Two nodes take the oldest and put new ones at the end, as orders are; others look at ranges. Nothing is lost.
TEST_F(Ordered, QueuesOfSeveralNodesKeepTheirNumbers) {
  constexpr std::uint32_t kStart = 200;
  for (std::uint32_t from = 0; from < kStart; from += 20) {
    ASSERT_TRUE(run(0, [&](Txn& t, Numbers& table) -> Status {
                  for (std::uint32_t i = from; i < from + 20; ++i) {
                    if (const Status status = t.insert(table, i, i); !status.ok()) return status;
                  }
                  return {};
                }).ok());
  }
  std::atomic<int> workers{4};
  std::vector<std::thread> threads;
  std::array<std::set<std::uint64_t>, 4> moved;
  for (std::size_t k = 0; k < 4; ++k) {
    threads.emplace_back([&, k] {
      Database& database = *databases[k % 2];
      const Numbers& table = tables[k % 2];
      for (int i = 0; i < 200; ++i) {
        std::uint64_t ticket = 0;
        const Status status = database.transact([&](Txn& t) -> Status {
          std::optional<std::uint32_t> first, last;
          Status scanned = t.scan(table, 0, 0xffffffff, [&](const Key& key, const std::uint64_t& value) {
            first = key.number;
            ticket = value;
            return false;
          });
          if (!scanned.ok()) return scanned;
          scanned = t.scan(
              table, 0, 0xffffffff, [&](const Key& key, const std::uint64_t&) { return last = key.number, false; },
              Direction::kBackward);
          if (!scanned.ok()) return scanned;
          if (const Status erased = t.erase(table, *first); !erased.ok()) return erased;
          return t.insert(table, *last + 1, ticket + kStart);
        });
        EXPECT_TRUE(status.ok()) << status.to_string();
        EXPECT_TRUE(moved[k].insert(ticket).second);
      }
      --workers;
    });
  }
  threads.emplace_back([&] {
    do {
      Pairs pairs;
      const Status status = databases[1]->transact(
          [&](Txn& t) { return collect(t, tables[1], 0, 0xffffffff, Direction::kForward, pairs); });
      EXPECT_TRUE(status.ok());
      EXPECT_EQ(pairs.size(), kStart);
      for (std::size_t i = 0; i + 1 < pairs.size(); ++i) EXPECT_EQ(pairs[i].first + 1, pairs[i + 1].first);
    } while (workers > 0);
  });
  for (auto& thread : threads) thread.join();
  std::set<std::uint64_t> all;
  for (const auto& some : moved) all.insert(some.begin(), some.end());
  EXPECT_EQ(all.size(), 800u);  // nobody took what another took
  EXPECT_EQ(*all.rbegin(), 799u);
  EXPECT_EQ(range(0, 0, 0xffffffff).front().first, 800u);
}

}  // namespace
}  // namespace atoll::txn
