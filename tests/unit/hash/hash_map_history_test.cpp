// What threads of several nodes saw of a map that grows around them under a small cache, judged as a whole. Real
// processes: tests/behaviour/history_behaviour.cpp.
#include <gtest/gtest.h>

#include "support/map_workload.hpp"
#include "support/seed.hpp"
#include "unit/runtime/workers.hpp"
#include "verify/linearizability.hpp"
#include "verify/serializability.hpp"

namespace atoll::test {
namespace {

using verify::Verdict;

struct Setting {
  const char* name;
  bool read_in_place;
  std::uint32_t line_bytes;
  Consistency consistency;
  std::uint64_t max_buckets;
};

Options options_of(const Setting& setting) {
  Options options = LocalCluster::small_options();
  options.memory_bytes = 16 << 20;
  options.line_bytes = setting.line_bytes;
  options.cache_bytes = 64 * setting.line_bytes;
  options.read_in_place = setting.read_in_place;
  options.consistency = setting.consistency;
  return options;
}

Workload workload_of(std::uint64_t seed, Mistake mistake = Mistake::kNone) {
  Workload workload;
  workload.seed = seed;
  workload.duration = std::chrono::seconds(5);
  workload.mistake = mistake;
  return workload;
}

/// A handle of the map for each node.
std::vector<std::unique_ptr<HashMap>> on_all(LocalCluster& cluster, const HashMap& map) {
  std::vector<std::unique_ptr<HashMap>> maps;
  for (NodeId node = 0; node < cluster.count(); ++node) {
    maps.push_back(std::make_unique<HashMap>(cluster[node], map.address()));
  }
  return maps;
}

std::vector<verify::Operation> operations_of(LocalCluster& cluster, const Workload& workload, int threads,
                                             int operations, std::uint64_t max_buckets, HashMapStats* stats) {
  HashMap first(cluster[0], {.max_buckets = max_buckets, .seed = workload.seed + 1});
  const auto maps = on_all(cluster, first);
  std::vector<std::vector<OperationSlot>> slots;
  for (int i = 0; i < cluster.count() * threads; ++i) slots.emplace_back(std::size_t(operations));
  in_workers(cluster, threads, [&](Node& node, int worker) {
    OperationLog log(slots[std::size_t(worker)], node.id(), std::uint16_t(worker));
    MapClient(*maps[node.id()], workload, log, std::uint64_t(worker)).run();
  });
  *stats = first.stats().value();
  EXPECT_EQ(std::int64_t(stats->pairs), first.size().value());
  std::vector<verify::Operation> history;
  for (const auto& thread : slots) {
    for (const OperationSlot& slot : thread) append(history, slot);
  }
  return history;
}

std::vector<verify::Transaction> steps_of(LocalCluster& cluster, const Workload& workload, int threads, int steps) {
  HashMap first(cluster[0]);
  const auto maps = on_all(cluster, first);
  std::vector<std::vector<TransactionSlot>> slots;
  for (int i = 0; i < cluster.count() * threads; ++i) slots.emplace_back(std::size_t(steps));
  in_workers(cluster, threads, [&](Node& node, int worker) {
    TransactionLog log(slots[std::size_t(worker)], node.id(), std::uint16_t(worker));
    MapStepClient(*maps[node.id()], workload, log, std::uint64_t(worker)).run();
  });
  std::vector<verify::Transaction> history;
  for (const auto& thread : slots) {
    for (const TransactionSlot& slot : thread) append(history, slot);
  }
  return history;
}

class HashMapHistory : public testing::TestWithParam<Setting> {};

TEST_P(HashMapHistory, KeysAreLinearizable) {
  LocalCluster cluster(4, options_of(GetParam()));
  const std::uint64_t seed = fresh_seed();
  SCOPED_TRACE(repeat_with(seed));
  HashMapStats stats;
  const auto history = operations_of(cluster, workload_of(seed), 8, scaled(400), GetParam().max_buckets, &stats);
  const auto report = verify::check_linearizable(history);
  EXPECT_EQ(report.verdict, Verdict::kAccepted) << report.explanation;
  EXPECT_GT(report.operations, 500u);
}

TEST_P(HashMapHistory, StepsAreStrictlySerializable) {
  LocalCluster cluster(4, options_of(GetParam()));
  const std::uint64_t seed = fresh_seed();
  SCOPED_TRACE(repeat_with(seed));
  const auto history = steps_of(cluster, workload_of(seed), 4, scaled(200));
  const auto report = verify::check_serializable(history);
  EXPECT_EQ(report.verdict, Verdict::kAccepted) << report.explanation;
  EXPECT_EQ(report.counted, history.size());
}

INSTANTIATE_TEST_SUITE_P(Growing, HashMapHistory,
                         testing::Values(Setting{"Asking", false, 512, Consistency::kPso, 0},
                                         Setting{"InPlace", true, 512, Consistency::kPso, 0},
                                         Setting{"Sc", true, 512, Consistency::kSc, 0},
                                         Setting{"Overflowing", true, 512, Consistency::kPso, 1},
                                         Setting{"SmallLines", true, 64, Consistency::kPso, 0},
                                         Setting{"LargeLines", false, 4096, Consistency::kPso, 0}),
                         [](const auto& each) { return std::string(each.param.name); });

/// Some rounds, for it takes two who meet.
constexpr int kRounds = 20;
constexpr Setting kPlain{"", true, 512, Consistency::kPso, 0};

TEST(HashMapHistory, ClientsThatDoItWrongAreFoundOut) {
  const std::uint64_t seed = fresh_seed();
  SCOPED_TRACE(repeat_with(seed));
  for (const Mistake mistake : {Mistake::kSplitAdd, Mistake::kOldRead}) {
    Verdict verdict = Verdict::kAccepted;
    for (int round = 0; round < kRounds && verdict == Verdict::kAccepted; ++round) {
      LocalCluster cluster(2, options_of(kPlain));
      HashMapStats stats;
      const auto history = operations_of(cluster, workload_of(seed + std::uint64_t(round), mistake), 2, 600, 0, &stats);
      verdict = verify::check_linearizable(history).verdict;
    }
    EXPECT_EQ(verdict, Verdict::kRejected) << "mistake " << int(mistake);
  }
  Verdict verdict = Verdict::kAccepted;
  for (int round = 0; round < kRounds && verdict == Verdict::kAccepted; ++round) {
    LocalCluster cluster(2, options_of(kPlain));
    verdict = verify::check_serializable(
                  steps_of(cluster, workload_of(seed + std::uint64_t(round), Mistake::kNoLocks), 2, 200))
                  .verdict;
  }
  EXPECT_EQ(verdict, Verdict::kRejected);
}

}  // namespace
}  // namespace atoll::test
