// A small TPC-C on nodes of this process.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "bench/tpcc/atoll_db.hpp"
#include "bench/tpcc/consistency.hpp"
#include "bench/tpcc/population.hpp"
#include "bench/tpcc/transactions.hpp"
#include "support/local_cluster.hpp"

namespace atoll::bench::tpcc {

inline constexpr Scale kTiny{2, 30, 9, 100};
inline constexpr Time kLoaded = 1'000, kNow = 2'000;

/// Populated, with Atoll's engine.
class World {
 public:
  explicit World(Mix mix = Mix::kFull, Homes homes = {1, 1}, const Scale& scale = kTiny)
      : cluster_(homes.nodes, options()), databases_(homes.nodes), tables_(homes.nodes) {
    shape.scale = scale;
    shape.homes = homes;
    shape.constants = Constants::from_seed(1);
    cluster_.in_parallel([&](NodeId id) {
      databases_[id] = std::make_unique<AtollDb>(cluster_[id]);
      tables_[id].emplace(open_tables(*databases_[id], scale, homes, mix, 1000));
      cluster_[id].barrier().or_throw();
      Population(*databases_[id], *tables_[id], shape, id, kLoaded).run(2, [](int) {});
    });
  }

  [[nodiscard]] AtollDb& db(NodeId node = 0) { return *databases_[node]; }
  [[nodiscard]] const Tables<AtollDb>& tables(NodeId node = 0) const { return *tables_[node]; }
  [[nodiscard]] test::LocalCluster& cluster() { return cluster_; }

  /// `function(db, tables)` of a node: a thread is of one node.
  template <typename Function>
  auto on(NodeId node, Function&& function) {
    std::optional<decltype(function(db(node), tables(node)))> result;
    std::thread([&] { result.emplace(function(db(node), tables(node))); }).join();
    return std::move(*result);
  }
  /// A transaction of node 0, which must end well.
  template <typename Function>
  void change(Function&& function) {
    const Status status = on(0, [&](AtollDb& db, const Tables<AtollDb>& tables) {
      return db.transact([&](AtollDb::Txn& t) -> Status { return function(t, tables); });
    });
    ASSERT_TRUE(status.ok()) << status.to_string();
  }
  /// The row of a key, as node 0 sees it.
  template <typename Row, typename Key>
  std::optional<Row> row(const txn::Table<Key, Row>& table, const std::type_identity_t<Key>& key) {
    std::optional<Row> found;
    change([&](AtollDb::Txn& t, const Tables<AtollDb>&) -> Status {
      const auto read = t.read(table, key);
      if (read.ok()) found = *read;
      return read.status();
    });
    return found;
  }
  /// The conditions that complain on any node.
  std::vector<unsigned> complaints(std::uint32_t workers = 8) {
    std::vector<std::vector<Violation>> found(shape.homes.nodes);
    cluster_.in_parallel([&](NodeId id) {
      found[id] = Audit<AtollDb>(db(id), tables(id), shape.homes, id, workers).run(2, kAllConditions);
    });
    std::vector<unsigned> conditions;
    for (const auto& of_node : found) {
      for (const Violation& one : of_node) conditions.push_back(one.condition);
    }
    return conditions;
  }

  Shape shape;

 private:
  static Options options() {
    Options options = test::LocalCluster::small_options();
    options.memory_bytes = 64 << 20;
    options.cache_bytes = 8 << 20;
    options.read_in_place = true;
    return options;
  }

  test::LocalCluster cluster_;
  std::vector<std::unique_ptr<AtollDb>> databases_;
  std::vector<std::optional<Tables<AtollDb>>> tables_;
};

}  // namespace atoll::bench::tpcc
