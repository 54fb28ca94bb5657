// The nodes of a cluster in one process, as their clients see them; small enough for sanitizers. Real processes, which
// can be killed: tests/behaviour/history_behaviour.cpp.
#include <gtest/gtest.h>

#include "support/history_workload.hpp"
#include "support/seed.hpp"
#include "unit/runtime/workers.hpp"
#include "verify/linearizability.hpp"
#include "verify/serializability.hpp"

namespace atoll::test {
namespace {

using verify::Verdict;

constexpr int kThreads = 2;  // of each node

Field make_field(LocalCluster& cluster, int lines) {
  Field field;
  field.line_bytes = cluster[0].line_bytes();
  field.sweep_lines = kSweepLines;
  for (const auto line : lines_on_all(cluster, lines)) field.lines.push_back(line.address());
  field.sweep = cluster[0].allocate(std::uint64_t(kSweepLines) * field.line_bytes, Placement::on(1)).value();
  return field;
}

Workload workload_of(std::uint64_t seed, Mistake mistake) {
  Workload workload;
  workload.seed = seed;
  workload.duration = std::chrono::seconds(5);  // the logs are full long before
  workload.mistake = mistake;
  return workload;
}

std::vector<verify::Operation> words_of(LocalCluster& cluster, const Workload& workload, int operations) {
  const Field field = make_field(cluster, 3);
  std::vector<std::vector<OperationSlot>> slots;
  for (int i = 0; i < cluster.count() * kThreads; ++i) slots.emplace_back(std::size_t(operations));
  in_workers(cluster, kThreads, [&](Node& node, int worker) {
    OperationLog log(slots[std::size_t(worker)], node.id(), std::uint16_t(worker));
    WordClient(node, field, workload, log, std::uint64_t(worker)).run();
  });
  std::vector<verify::Operation> history;
  for (const auto& thread : slots) {
    for (const OperationSlot& slot : thread) append(history, slot);
  }
  return history;
}

std::vector<verify::Transaction> accounts_of(LocalCluster& cluster, const Workload& workload, int transactions) {
  const Field field = make_field(cluster, 4);
  std::vector<std::vector<TransactionSlot>> slots;
  for (int i = 0; i < cluster.count() * kThreads; ++i) slots.emplace_back(std::size_t(transactions));
  in_workers(cluster, kThreads, [&](Node& node, int worker) {
    TransactionLog log(slots[std::size_t(worker)], node.id(), std::uint16_t(worker));
    AccountClient client(node, field, workload, log, std::uint64_t(worker));
    client.run();
    EXPECT_TRUE(client.wrong_totals() == 0 || workload.mistake != Mistake::kNone);
  });
  std::vector<verify::Transaction> history;
  for (const auto& thread : slots) {
    for (const TransactionSlot& slot : thread) append(history, slot);
  }
  return history;
}

class ClusterHistory : public testing::TestWithParam<Consistency> {
 protected:
  Options options() const {
    Options options = LocalCluster::small_options();
    options.consistency = GetParam();
    return options;
  }
};

TEST_P(ClusterHistory, WordsAndLocksAreLinearizable) {
  LocalCluster cluster(3, options());
  const std::uint64_t seed = fresh_seed();
  SCOPED_TRACE(repeat_with(seed));
  Workload workload = workload_of(seed, Mistake::kNone);
  workload.writes_wait = GetParam() == Consistency::kSc;
  const auto history = words_of(cluster, workload, scaled(4000));
  const auto report = verify::check_linearizable(history);
  EXPECT_EQ(report.verdict, Verdict::kAccepted) << report.explanation;
  EXPECT_GT(report.operations, 100u);
}

TEST_P(ClusterHistory, TransfersAreStrictlySerializable) {
  LocalCluster cluster(3, options());
  const std::uint64_t seed = fresh_seed();
  SCOPED_TRACE(repeat_with(seed));
  const auto history = accounts_of(cluster, workload_of(seed, Mistake::kNone), scaled(1000));
  const auto report = verify::check_serializable(history);
  EXPECT_EQ(report.verdict, Verdict::kAccepted) << report.explanation;
  EXPECT_EQ(report.counted, history.size());
}

INSTANTIATE_TEST_SUITE_P(Verify, ClusterHistory,
                         testing::Values(Consistency::kPso, Consistency::kTso, Consistency::kSc), [](const auto& each) {
                           return each.param == Consistency::kPso   ? "Pso"
                                  : each.param == Consistency::kTso ? "Tso"
                                                                    : "Sc";
                         });

/// Some rounds, for it takes two who meet.
constexpr int kRounds = 20;

TEST(WrongClientHistory, WordsAndLocksAreFoundOut) {
  const std::uint64_t seed = fresh_seed();
  SCOPED_TRACE(repeat_with(seed));
  for (const Mistake mistake : {Mistake::kSplitAdd, Mistake::kOldRead, Mistake::kEarlyUnlock}) {
    Verdict verdict = Verdict::kAccepted;
    for (int round = 0; round < kRounds && verdict == Verdict::kAccepted; ++round) {
      LocalCluster cluster(2);
      const auto history = words_of(cluster, workload_of(seed + std::uint64_t(round), mistake), 600);
      verdict = verify::check_linearizable(history).verdict;
    }
    EXPECT_EQ(verdict, Verdict::kRejected) << "mistake " << int(mistake);
  }
}

TEST(WrongClientHistory, TransfersWithoutLocksAreFoundOut) {
  const std::uint64_t seed = fresh_seed();
  SCOPED_TRACE(repeat_with(seed));
  Verdict verdict = Verdict::kAccepted;
  for (int round = 0; round < kRounds && verdict == Verdict::kAccepted; ++round) {
    LocalCluster cluster(2);
    const auto history = accounts_of(cluster, workload_of(seed + std::uint64_t(round), Mistake::kNoLocks), 200);
    verdict = verify::check_serializable(history).verdict;
  }
  EXPECT_EQ(verdict, Verdict::kRejected);
}

}  // namespace
}  // namespace atoll::test
