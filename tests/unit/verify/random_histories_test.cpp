// The search against a check that tries everything: what a real object did must be accepted, and of histories with one
// mistake both must say the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/random.hpp"
#include "support/seed.hpp"
#include "verify/linearizability.hpp"

namespace atoll::verify {
namespace {

/// A word and a lock, written again without a look at the models of the checker.
struct Object {
  std::uint64_t value = 0;
  std::map<std::uint32_t, int> readers;
  std::uint32_t writer = 0;
  bool written_by_somebody = false;

  bool can_lock(bool for_writing) const { return !written_by_somebody && (!for_writing || readers.empty()); }
  bool unlock(std::uint32_t client, bool for_writing) {
    if (for_writing) {
      if (!written_by_somebody || writer != client) return false;
      written_by_somebody = false;
      return true;
    }
    const auto at = readers.find(client);
    if (at == readers.end()) return false;
    if (--at->second == 0) readers.erase(at);
    return true;
  }
  bool lock(std::uint32_t client, bool for_writing) {
    if (!can_lock(for_writing)) return false;
    if (for_writing) {
      written_by_somebody = true;
      writer = client;
    } else {
      ++readers[client];
    }
    return true;
  }
  /// False: it cannot be done now, or not with this answer.
  bool perform(const Operation& operation) {
    const std::uint64_t found = value;
    const bool for_writing = operation.kind == OpKind::kWriteLock || operation.kind == OpKind::kTryWriteLock;
    if (is_lock_kind(operation.kind)) {
      if (operation.refused) return true;
      if (operation.kind == OpKind::kUnlockRead) return unlock(operation.client(), false);
      if (operation.kind == OpKind::kUnlockWrite) return unlock(operation.client(), true);
      return lock(operation.client(), for_writing);
    }
    if (operation.kind == OpKind::kWrite || operation.kind == OpKind::kExchange) value = operation.argument;
    if (operation.kind == OpKind::kFetchAdd) value = found + operation.argument;
    if (operation.kind == OpKind::kCompareExchange && found == operation.expected) value = operation.argument;
    return operation.kind == OpKind::kWrite || operation.pending() || found == operation.result;
  }
};

/// Tries every order and every choice of pending operations.
bool some_order_explains(std::vector<Operation> left, const Object& object) {
  if (std::all_of(left.begin(), left.end(), [](const Operation& one) { return one.pending(); })) return true;
  for (std::size_t i = 0; i < left.size(); ++i) {
    const bool too_early = std::any_of(left.begin(), left.end(),
                                       [&](const Operation& other) { return other.responded < left[i].invoked; });
    Object after = object;
    if (too_early || !after.perform(left[i])) continue;
    std::vector<Operation> rest = left;
    rest.erase(rest.begin() + std::ptrdiff_t(i));
    if (some_order_explains(std::move(rest), after)) return true;
  }
  return false;
}

/// Clients at work on an object: each step of the simulation one client calls, is served, or returns.
class Simulation {
 public:
  Simulation(base::Random& random, bool locks, std::size_t operations, unsigned clients)
      : random_(random), locks_(locks), clients_(clients) {
    for (std::uint32_t i = 0; i < clients; ++i) clients_[i].thread = std::uint16_t(i);
    // Who waits for a lock that a client without another turn holds would wait for ever: hence the bound.
    for (int step = 0; step < 200 && (history_.size() < operations || busy()); ++step) {
      Client& client = clients_[random.below(clients)];
      ++now_;
      if (random.chance(0.2)) ++now_;
      advance(client, history_.size() < operations);
    }
  }
  std::vector<Operation> history() {
    auto all = history_;
    for (const Client& client : clients_) {
      if (client.stage != Stage::kIdle) all[client.at].responded = kNever;
    }
    for (Operation& operation : all) {
      if (!operation.pending()) continue;
      operation.result = 0;
      operation.refused = false;
    }
    return all;
  }

 private:
  enum class Stage { kIdle, kCalled, kServed };
  struct Client {
    Stage stage = Stage::kIdle;
    std::size_t at = 0;
    std::uint16_t thread = 0;
    int held = 0;  // 1: for reading, 2: for writing
  };
  bool busy() const {
    return std::any_of(clients_.begin(), clients_.end(), [](const Client& one) { return one.stage != Stage::kIdle; });
  }
  void advance(Client& client, bool may_call) {
    switch (client.stage) {
      case Stage::kIdle:
        if (may_call) call(client);
        return;
      case Stage::kCalled:
        if (!give_up(client)) serve(client);
        return;
      case Stage::kServed:
        if (give_up(client)) return;
        history_[client.at].responded = now_;
        client.stage = Stage::kIdle;
        return;
    }
  }
  void call(Client& client) {
    Operation operation;
    operation.invoked = now_;
    operation.thread = client.thread;
    if (locks_) {
      operation.kind = client.held != 0 ? (client.held == 1 ? OpKind::kUnlockRead : OpKind::kUnlockWrite)
                                        : OpKind(int(OpKind::kReadLock) + int(random_.below(4)));
    } else {
      operation.kind = OpKind(random_.below(5));
      if (operation.kind != OpKind::kRead) operation.argument = 1 + random_.below(3);
      if (operation.kind == OpKind::kCompareExchange) operation.expected = random_.below(4);
    }
    client.at = history_.size();
    client.stage = Stage::kCalled;
    history_.push_back(operation);
  }
  void serve(Client& client) {
    Operation& operation = history_[client.at];
    operation.result = is_lock_kind(operation.kind) || operation.kind == OpKind::kWrite ? 0 : object_.value;
    const bool is_try = is_try_kind(operation.kind);
    operation.refused = is_try && random_.chance(0.2);
    operation.responded = now_;  // so that it is not taken for pending
    if (!object_.perform(operation)) {
      operation.responded = kNever;
      if (!is_try) return;  // it waits
      operation.refused = true;
    }
    if (operation.kind == OpKind::kUnlockRead || operation.kind == OpKind::kUnlockWrite) {
      client.held = 0;
    } else if (is_lock_kind(operation.kind) && !operation.refused) {
      client.held = operation.kind == OpKind::kReadLock || operation.kind == OpKind::kTryReadLock ? 1 : 2;
    }
    client.stage = Stage::kServed;
  }
  /// Its node dies; another client takes its place.
  bool give_up(Client& client) {
    if (!random_.chance(0.08)) return false;
    history_[client.at].responded = kNever;
    client = {Stage::kIdle, 0, std::uint16_t(client.thread + clients_.size()), 0};
    return true;
  }

  base::Random& random_;
  bool locks_;
  std::vector<Client> clients_;
  std::vector<Operation> history_;
  Object object_;
  std::int64_t now_ = 0;
};

/// One mistake, which may or may not show.
void break_one(std::vector<Operation>& history, base::Random& random) {
  Operation& one = history[random.below(history.size())];
  switch (random.below(7)) {
    case 0: one.result = random.below(6); break;
    case 1: one.argument = random.below(4); break;
    case 2: one.invoked = std::min(one.responded, one.invoked + std::int64_t(random.below(8))); break;
    case 3:
      if (!one.pending()) one.responded = one.invoked;
      break;
    case 4:
      if (!one.pending()) one.refused = is_try_kind(one.kind) && !one.refused;
      break;
    case 5: one.kind = OpKind(is_lock_kind(one.kind) ? 5 + random.below(6) : random.below(5)); break;
    case 6: one.thread = std::uint16_t(random.below(3)); break;
  }
  if (one.pending() || !is_try_kind(one.kind)) one.refused = false;
}

std::string text_of(const std::vector<Operation>& history) {
  std::string text;
  for (const Operation& operation : history) text += to_string(operation) + "\n";
  return text;
}

class RandomHistories : public testing::TestWithParam<bool> {};

TEST_P(RandomHistories, SmallOnesAsByTryingEverything) {
  const std::uint64_t seed = test::fresh_seed();
  SCOPED_TRACE(test::repeat_with(seed));
  base::Random random(seed);
  int accepted = 0, rejected = 0;
  for (int round = 0; round < test::scaled(20000); ++round) {
    auto history = Simulation(random, GetParam(), 2 + random.below(6), 1 + unsigned(random.below(4))).history();
    const auto good = check_linearizable(history);
    ASSERT_EQ(good.verdict, Verdict::kAccepted) << text_of(history) << good.explanation;
    break_one(history, random);
    const auto report = check_linearizable(history);
    ASSERT_NE(report.verdict, Verdict::kUnknown);
    const bool fits = some_order_explains(history, Object{});
    ASSERT_EQ(report.verdict == Verdict::kAccepted, fits) << text_of(history) << report.explanation;
    ASSERT_TRUE(fits || !some_order_explains(report.window, Object{})) << text_of(history) << report.explanation;
    ++(fits ? accepted : rejected);
  }
  EXPECT_GT(accepted, 0);
  EXPECT_GT(rejected, 0);
}

TEST_P(RandomHistories, LongOnesAreAccepted) {
  const std::uint64_t seed = test::fresh_seed();
  SCOPED_TRACE(test::repeat_with(seed));
  base::Random random(seed);
  for (int round = 0; round < test::scaled(500); ++round) {
    const auto history = Simulation(random, GetParam(), 60, 2 + unsigned(random.below(6))).history();
    const auto report = check_linearizable(history);
    ASSERT_EQ(report.verdict, Verdict::kAccepted) << text_of(history) << report.explanation;
  }
}

INSTANTIATE_TEST_SUITE_P(Linearizability, RandomHistories, testing::Bool(),
                         [](const auto& each) { return each.param ? "Locks" : "Words"; });

}  // namespace
}  // namespace atoll::verify
