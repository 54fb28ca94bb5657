// Rows and nodes of trees that are several lines, whose lines are read at different moments while others change them.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <thread>

#include "atoll/txn.hpp"
#include "support/local_cluster.hpp"
#include "support/seed.hpp"

namespace atoll::txn {
namespace {

constexpr NodeId kNodes = 4;
constexpr std::uint32_t kThreads = 2;  // of a node

template <typename Key, typename Row>
class Cluster {
 public:
  explicit Cluster(const TableOptions& options) {
    cluster_.in_parallel([&](NodeId id) {
      databases_[id] = std::make_unique<Database>(cluster_[id]);
      tables_[id] = databases_[id]->template table<Key, Row>("rows", {}, options);
    });
  }
  /// In threads of all nodes: `f(database, table, thread)`.
  template <typename F>
  void in_threads(F f) {
    std::vector<std::thread> threads;
    for (std::uint32_t k = 0; k < kNodes * kThreads; ++k) {
      threads.emplace_back([&, k] { f(*databases_[k % kNodes], *tables_[k % kNodes], k); });
    }
    for (auto& thread : threads) thread.join();
  }

 private:
  test::LocalCluster cluster_{kNodes};
  std::array<std::unique_ptr<Database>, kNodes> databases_;
  std::array<std::optional<Table<Key, Row>>, kNodes> tables_;
};

struct Large {
  std::array<std::uint64_t, 250> words{};
};

TEST(LargeRows, AreReadAsTheyWereAtOneMoment) {
  constexpr std::uint64_t kRows = 3;
  const int rounds = test::scaled(1500);
  Cluster<std::uint64_t, Large> cluster({.rows = 60});
  std::atomic<std::uint64_t> torn{0}, reads{0};
  cluster.in_threads([&](Database& database, const Table<std::uint64_t, Large>& rows, std::uint32_t thread) {
    for (int i = 0; i < rounds; ++i) {
      const std::uint64_t key = std::uint64_t(i) % kRows;
      if (thread < kNodes) {  // writes
        Large row;
        row.words.fill(std::uint64_t(thread) << 32 | std::uint64_t(i));
        const Status status = database.transact([&](Txn& t) {
          const Status updated = t.update(rows, key, row);
          return updated.code() == Errc::kNotFound ? t.insert(rows, key, row) : updated;
        });
        ASSERT_TRUE(status.ok()) << status.to_string();
        continue;
      }
      std::optional<Large> found;
      const Status status = database.transact([&](Txn& t) {
        const auto row = t.read(rows, key);
        if (row.ok()) found = *row;
        return row.status();
      });
      ASSERT_TRUE(status.ok()) << status.to_string();
      if (!found) continue;
      ++reads;
      for (const std::uint64_t word : found->words) torn += word != found->words[0];
    }
  });
  EXPECT_GT(reads, 0u);
  EXPECT_EQ(torn, 0u);
}

/// 32 bytes of key: a node has 24 entries, over both of its lines.
struct Key {
  std::array<Sorted<std::uint32_t>, 8> parts;
};

TEST(LargeTrees, GrowAndShrinkUnderManyNodes) {
  const auto keys = std::uint32_t(test::scaled(400));
  Cluster<Key, std::uint64_t> cluster({.ordered = true});
  const auto key_of = [](std::uint32_t thread, std::uint32_t i) {
    Key key;
    key.parts[0] = i * 2654435761u;  // those of all threads are mixed
    key.parts[7] = thread;
    return key;
  };
  cluster.in_threads([&](Database& database, const Table<Key, std::uint64_t>& rows, std::uint32_t thread) {
    for (std::uint32_t i = 0; i < keys; ++i) {
      const Status status = database.transact([&](Txn& t) { return t.insert(rows, key_of(thread, i), i); });
      ASSERT_TRUE(status.ok()) << status.to_string();
      if (i % 3 == 2) {
        const Status erased = database.transact([&](Txn& t) { return t.erase(rows, key_of(thread, i - 1)); });
        ASSERT_TRUE(erased.ok()) << erased.to_string();
      }
    }
  });
  cluster.in_threads([&](Database& database, const Table<Key, std::uint64_t>& rows, std::uint32_t thread) {
    for (std::uint32_t i = 0; i < keys; ++i) {
      std::optional<std::uint64_t> found;
      const Status status = database.transact([&](Txn& t) {
        const auto row = t.read(rows, key_of(thread, i));
        if (row.ok()) found = *row;
        return row.status();
      });
      ASSERT_TRUE(status.ok()) << status.to_string();
      const bool is_erased = i % 3 == 1 && i + 1 < keys;
      EXPECT_EQ(found, is_erased ? std::nullopt : std::optional<std::uint64_t>(i)) << thread << ": " << i;
    }
  });
}

}  // namespace
}  // namespace atoll::txn
