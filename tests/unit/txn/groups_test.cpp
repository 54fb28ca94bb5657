// Tables whose rows have an index for each group of keys.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <thread>

#include "atoll/txn.hpp"
#include "support/local_cluster.hpp"

namespace atoll::txn {
namespace {

using testing::HasSubstr;

struct Key {
  Sorted<std::uint16_t> group;
  Sorted<std::uint16_t> number;
};

class Groups : public testing::Test {
 protected:
  using Rows = Table<Key, std::uint64_t>;
  test::LocalCluster cluster{2};
  std::array<std::unique_ptr<Database>, 2> databases;
  std::array<std::optional<Rows>, 2> rows;

  void open(const TableOptions& options) {
    cluster.in_parallel([&](NodeId id) {
      databases[id] = std::make_unique<Database>(cluster[id]);
      rows[id] = databases[id]->table<Key, std::uint64_t>("rows", {}, options);
    });
  }
  template <typename F>
  Status run(NodeId on, F f) {
    Status status;
    std::thread([&] { status = databases[on]->transact([&](Txn& t) -> Status { return f(t, *rows[on]); }); }).join();
    return status;
  }
  void insert(NodeId on, std::uint16_t group, std::uint16_t number, std::uint64_t value) {
    const Status status = run(on, [&](Txn& t, Rows& table) { return t.insert(table, {group, number}, value); });
    ASSERT_TRUE(status.ok()) << status.to_string();
  }
  std::optional<std::uint64_t> value(NodeId on, std::uint16_t group, std::uint16_t number) {
    std::optional<std::uint64_t> found;
    const Status status = run(on, [&](Txn& t, Rows& table) {
      const auto row = t.read(table, {group, number});
      if (row.ok()) found = *row;
      return row.status();
    });
    EXPECT_TRUE(status.ok()) << status.to_string();
    return found;
  }
  std::uint64_t free_bytes(NodeId node) { return cluster[node].stats().memory_free_bytes; }
};

TableOptions with_groups(std::uint32_t groups, std::uint64_t rows = 60) {
  TableOptions options{.rows = rows};
  options.group_bytes = sizeof(Key::group);
  options.groups = groups;
  return options;
}

TEST_F(Groups, AreThereForAllNodesWithMoreThanWereExpected) {
  open(with_groups(3));
  std::map<std::pair<int, int>, std::uint64_t> expected;
  for (std::uint16_t group = 0; group < 9; ++group) {
    for (std::uint16_t number = 0; number < 12; ++number) {
      insert(NodeId(group % 2), group, number, group * 100u + number);
      expected[{group, number}] = group * 100u + number;
    }
  }
  for (NodeId node = 0; node < 2; ++node) {
    EXPECT_EQ(value(node, 8, 11), 811u);
    EXPECT_EQ(value(node, 8, 12), std::nullopt);
    EXPECT_EQ(value(node, 77, 1), std::nullopt);
    std::map<std::pair<int, int>, std::uint64_t> found;
    const Status status = run(node, [&](Txn& t, Rows& table) {
      found.clear();
      return t.scan(table, [&](const Key& key, const std::uint64_t& number) {
        EXPECT_TRUE((found.emplace(std::pair<int, int>(key.group, key.number), number).second));
        return true;
      });
    });
    EXPECT_TRUE(status.ok()) << status.to_string();
    EXPECT_EQ(found, expected);
  }
}

TEST_F(Groups, HaveTheirIndexWhereTheirFirstRowIsInserted) {
  open(with_groups(4, 40'000));  // 512 buckets each: 256 KiB
  for (const NodeId node : {NodeId(1), NodeId(0)}) {
    const std::array<std::uint64_t, 2> before{free_bytes(0), free_bytes(1)};
    insert(node, node, 1, 7);
    EXPECT_GE(before[node] - free_bytes(node), 256u << 10) << "node " << node;
    EXPECT_LT(before[1 - node] - free_bytes(NodeId(1 - node)), 64u << 10) << "node " << node;
  }
}

/// Numbers whose bytes are not in the order of their values name groups as well.
TEST_F(Groups, OfPlainNumbersHaveAnIndexEachToo) {
  struct Plain {
    std::uint32_t group = 0, number = 0;
  };
  TableOptions options{.rows = 40'000};  // 512 buckets each: 256 KiB
  options.group_bytes = sizeof(Plain::group);
  options.groups = 4;
  cluster.in_parallel([&](NodeId id) { databases[id] = std::make_unique<Database>(cluster[id]); });
  std::thread([&] {
    const auto plain = databases[0]->table<Plain, std::uint64_t>("plain", {}, options);
    for (std::uint32_t group = 1; group <= 4; ++group) {
      const std::uint64_t before = free_bytes(0);
      databases[0]->transact([&](Txn& t) { return t.insert(plain, {group, 7}, group); }).or_throw();
      EXPECT_GE(before - free_bytes(0), 256u << 10) << "group " << group;
    }
  }).join();
}

TEST_F(Groups, ATransactionBeginsAgainWhenAGroupCameThatWasNotThere) {
  open(with_groups(4));
  insert(0, 0, 0, 1);
  for (const bool scans : {false, true}) {
    int runs = 0;
    const auto group = std::uint16_t(scans ? 2 : 1);
    std::size_t seen = 0;
    const Status status = run(0, [&](Txn& t, Rows& table) -> Status {
      ++runs;
      seen = 0;
      if (scans) {
        const Status scanned =
            t.scan(table, [&](const Key& key, const std::uint64_t&) { return seen += key.group == group, true; });
        if (!scanned.ok()) return scanned;
      } else {
        const auto row = t.read(table, {group, 5});
        if (!row.ok()) return row.status();
        seen = row->has_value() ? 1 : 0;
      }
      if (runs == 1) insert(1, group, 5, 1);
      return t.update(table, {0, 0}, std::uint64_t(runs));
    });
    EXPECT_TRUE(status.ok()) << status.to_string();
    EXPECT_EQ(runs, 2) << "scans: " << scans;
    EXPECT_EQ(seen, 1u) << "scans: " << scans;
  }
}

TEST_F(Groups, ManyThreadsMakeThemAtOnce) {
  open(with_groups(64));
  std::vector<std::thread> threads;
  for (std::uint16_t k = 0; k < 4; ++k) {
    threads.emplace_back([&, k] {
      const std::size_t node = k % 2;
      for (std::uint16_t group = 0; group < 64; ++group) {
        const Status status = databases[node]->transact([&](Txn& t) {
          return t.insert(*rows[node], {group, k}, std::uint64_t(k));
        });
        EXPECT_TRUE(status.ok()) << status.to_string();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (std::uint16_t group = 0; group < 64; ++group) {
    for (std::uint16_t k = 0; k < 4; ++k) EXPECT_EQ(value(NodeId(1 - k % 2), group, k), k);
  }
}

/// Seen by what inserts them: a key that comes changes what is known of its neighbours that are not there.
TEST_F(Groups, NeighboursAreInOnePlace) {
  TableOptions options = with_groups(1, 40'000);  // 2048 buckets
  options.neighbour_bytes = sizeof(Key::group);
  open(options);
  insert(0, 1, 0, 1);
  int runs = 0;
  const Status status = run(0, [&](Txn& t, Rows& table) -> Status {
    ++runs;
    const auto row = t.read(table, {1, 5});
    if (!row.ok()) return row.status();
    if (runs == 1) insert(1, 1, 6, 6);
    return t.update(table, {1, 0}, std::uint64_t(runs));
  });
  EXPECT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(runs, 2);
}

TEST_F(Groups, MoreNeighboursThanABucketHasEntriesAreAllThere) {
  TableOptions options{.rows = 100};
  options.neighbour_bytes = sizeof(Key::group);
  open(options);
  for (std::uint16_t number = 0; number < 130; ++number) insert(NodeId(number % 2), number % 2, number, number);
  for (std::uint16_t number = 0; number < 130; ++number) {
    EXPECT_EQ(value(NodeId(1 - number % 2), number % 2, number), number);
    EXPECT_EQ(value(0, 1 - number % 2, number), std::nullopt);
  }
}

TEST_F(Groups, OptionsThatMakeNoSenseAreRefused) {
  cluster.in_parallel([&](NodeId id) { databases[id] = std::make_unique<Database>(cluster[id]); });
  const auto why = [&](const TableOptions& options) -> std::string {
    try {
      static_cast<void>(databases[0]->table<Key, std::uint64_t>("rows", {}, options));
      return "nothing";
    } catch (const Error& error) {
      return error.what();
    }
  };
  TableOptions options = with_groups(4);
  options.group_bytes = sizeof(Key) + 1;
  EXPECT_THAT(why(options), HasSubstr("bytes that a key has"));
  options = with_groups(0);
  EXPECT_THAT(why(options), HasSubstr("1 to 1048576 groups"));
  options = with_groups((1 << 20) + 1);
  EXPECT_THAT(why(options), HasSubstr("1 to 1048576 groups"));
  options = with_groups(4);
  options.ordered = true;
  EXPECT_THAT(why(options), HasSubstr("groups has a hash index"));
  options = {.ordered = true};
  options.neighbour_bytes = 1;
  EXPECT_THAT(why(options), HasSubstr("neighbours has a hash index"));
  options.neighbour_bytes = sizeof(Key) + 1;
  EXPECT_THAT(why(options), HasSubstr("neighbours are named by bytes that a key has"));
  options = with_groups(4);
  options.neighbour_bytes = 1;
  EXPECT_THAT(why(options), HasSubstr("neighbours are of one group"));
}

}  // namespace
}  // namespace atoll::txn
