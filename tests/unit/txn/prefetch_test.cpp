// Txn::prefetch: what it brings, and that it is only a hint.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <optional>
#include <thread>

#include "atoll/txn.hpp"
#include "support/local_cluster.hpp"

namespace atoll::txn {
namespace {

struct Large {
  std::array<std::uint64_t, 60> words{};
};

/// Node 0 has rows that node 1 wants. Of a few the index names another row first, which a hint does not look behind.
class Prefetch : public testing::Test {
 protected:
  static constexpr std::uint64_t kRows = 50, kMostMissed = 15;
  using Rows = Table<std::uint64_t, Large>;
  test::LocalCluster cluster{2};
  std::array<std::unique_ptr<Database>, 2> databases;
  std::array<std::optional<Rows>, 2> rows;
  std::array<std::uint64_t, kRows> keys{};

  void open(const TableOptions& options) {
    cluster.in_parallel([&](NodeId id) {
      databases[id] = std::make_unique<Database>(cluster[id]);
      rows[id] = databases[id]->table<std::uint64_t, Large>("rows", {}, options);
    });
    for (std::uint64_t i = 0; i < kRows; ++i) keys[i] = i;
    const Status status = run(0, [&](Txn& t, Rows& table) -> Status {
      for (const std::uint64_t key : keys) {
        if (const Status inserted = t.insert(table, key, {{key}}); !inserted.ok()) return inserted;
      }
      return {};
    });
    ASSERT_TRUE(status.ok()) << status.to_string();
  }
  template <typename F>
  Status run(NodeId on, F f) {
    Status status;
    std::thread([&] { status = databases[on]->transact([&](Txn& t) -> Status { return f(t, *rows[on]); }); }).join();
    return status;
  }
  [[nodiscard]] std::uint64_t waits() {
    const Stats stats = cluster[1].stats();
    return stats.read_misses + stats.atomic_misses + stats.lock_misses;
  }
};

TEST_F(Prefetch, RowsToBeUpdatedComeBeforeTheyAreWantedAndNobodyWaitsForThemOneByOne) {
  open({.rows = kRows});
  const Status status = run(1, [&](Txn& t, Rows& table) -> Status {
    if (const Status hinted = t.prefetch(table, keys, true); !hinted.ok()) return hinted;
    const std::uint64_t asked = cluster[1].stats().write_misses;
    EXPECT_GE(asked, kRows - kMostMissed) << "each row has a line at least";
    EXPECT_TRUE(cluster[1].fence().ok());
    const std::uint64_t before = waits();
    for (const std::uint64_t key : keys) {
      const auto row = t.read_for_update(table, key);
      if (!row.ok()) return row.status();
      EXPECT_EQ((*row)->words[0], key);
      if (const Status updated = t.update(table, key, {{key + 1}}); !updated.ok()) return updated;
    }
    EXPECT_LE(waits() - before, kMostMissed);
    return {};
  });
  EXPECT_TRUE(status.ok()) << status.to_string();
  EXPECT_TRUE(run(0, [&](Txn& t, Rows& table) -> Status {
                for (const std::uint64_t key : keys) {
                  const auto row = t.read(table, key);
                  if (!row.ok()) return row.status();
                  EXPECT_EQ((*row)->words[0], key + 1);
                }
                return {};
              }).ok());
}

TEST_F(Prefetch, RowsToBeReadAreFetched) {
  open({.rows = kRows});
  const Status status = run(1, [&](Txn& t, Rows& table) -> Status {
    if (const Status hinted = t.prefetch(table, keys); !hinted.ok()) return hinted;
    EXPECT_GE(cluster[1].stats().read_ahead_lines, kRows - kMostMissed);
    EXPECT_EQ(cluster[1].stats().write_misses, 0u);
    for (const std::uint64_t key : keys) {
      const auto row = t.read(table, key);
      if (!row.ok()) return row.status();
      EXPECT_EQ((*row)->words[0], key);
    }
    return {};
  });
  EXPECT_TRUE(status.ok()) << status.to_string();
}

TEST_F(Prefetch, PlacesOfKeysToBeInsertedComeBeforeTheyAreWanted) {
  open({.rows = 100 * kRows});  // so that nearly all of them have buckets of their own
  std::array<std::uint64_t, kRows> fresh{};
  for (std::uint64_t i = 0; i < kRows; ++i) fresh[i] = 1000 + i;
  const Status status = run(1, [&](Txn& t, Rows& table) -> Status {
    if (const Status hinted = t.prefetch_inserts(table, fresh); !hinted.ok()) return hinted;
    EXPECT_GE(cluster[1].stats().write_misses, kRows / 5) << "half of the buckets are the other node's";
    EXPECT_TRUE(cluster[1].fence().ok());
    const std::uint64_t before = waits();
    for (const std::uint64_t key : fresh) {
      if (const Status inserted = t.insert(table, key, {{key}}); !inserted.ok()) return inserted;
    }
    EXPECT_EQ(waits() - before, 0u);
    return {};
  });
  EXPECT_TRUE(status.ok()) << status.to_string();
  EXPECT_TRUE(run(0, [&](Txn& t, Rows& table) -> Status {
                for (const std::uint64_t key : fresh) {
                  const auto row = t.read(table, key);
                  if (!row.ok()) return row.status();
                  EXPECT_TRUE(row->has_value() && (*row)->words[0] == key);
                }
                return {};
              }).ok());
}

TEST_F(Prefetch, KeysThatAreNotThereAndTreesDoNoHarm) {
  open({.rows = kRows, .ordered = true});
  const Status status = run(1, [&](Txn& t, Rows& table) -> Status {
    const std::array<std::uint64_t, 3> some{3, 1000, 4};
    if (const Status hinted = t.prefetch(table, some, true); !hinted.ok()) return hinted;
    if (const Status hinted = t.prefetch(table, {}, true); !hinted.ok()) return hinted;
    if (const Status hinted = t.prefetch_inserts(table, some); !hinted.ok()) return hinted;
    const auto absent = t.read(table, 1000);
    EXPECT_TRUE(absent.ok() && !absent->has_value());
    return absent.status();
  });
  EXPECT_TRUE(status.ok()) << status.to_string();
}

TEST_F(Prefetch, AbsentKeysOfGroupsThatAreNotMadeAreNothing) {
  TableOptions options{.rows = kRows};
  options.group_bytes = 1;
  options.groups = 256;
  open(options);
  const Status status = run(1, [&](Txn& t, Rows& table) -> Status {
    const std::array<std::uint64_t, 2> some{200, 3};
    if (const Status hinted = t.prefetch(table, some, true); !hinted.ok()) return hinted;
    if (const Status hinted = t.prefetch_inserts(table, some); !hinted.ok()) return hinted;
    return t.insert(table, 200, {{200}});
  });
  EXPECT_TRUE(status.ok()) << status.to_string();
}

TEST_F(Prefetch, BytesMustBeWholeKeysAndTheTransactionMustGoOn) {
  open({.rows = kRows});
  const Status status = run(1, [&](Txn& t, Rows& table) -> Status {
    EXPECT_EQ(t.prefetch(table, std::as_bytes(std::span(keys)).first(15), false).code(), Errc::kInvalidArgument);
    EXPECT_EQ(t.prefetch_inserts(table, std::as_bytes(std::span(keys)).first(15)).code(), Errc::kInvalidArgument);
    const auto row = t.read(table, 1);
    if (!row.ok()) return row.status();
    return {};
  });
  EXPECT_TRUE(status.ok()) << status.to_string();
  Status within, inserts;
  int runs = 0;
  EXPECT_TRUE(run(1, [&](Txn& t, Rows& table) -> Status {
                if (++runs > 1) return {};
                const Status locked = t.read_for_update(table, 1).status();
                if (!locked.ok()) return locked;
                EXPECT_TRUE(t.update(table, 1, {{7}}).ok());
                const Status other = run(0, [&](Txn& u, Rows& same) -> Status {
                  if (runs > 1) return {};
                  const Status met = u.read_for_update(same, 1).status();
                  within = u.prefetch(same, keys, true);
                  inserts = u.prefetch_inserts(same, keys);
                  ++runs;
                  return met;
                });
                return other;
              }).ok());
  EXPECT_EQ(within.code(), Errc::kRefused);
  EXPECT_EQ(inserts.code(), Errc::kRefused);
}

}  // namespace
}  // namespace atoll::txn
