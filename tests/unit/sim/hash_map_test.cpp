// Hash maps in virtual time: random clusters and networks, nodes that die, and histories that must have an order.
#include "atoll/hash_map.hpp"

#include <gtest/gtest.h>

#include "sim/simulation.hpp"
#include "support/map_workload.hpp"
#include "support/seed.hpp"
#include "verify/linearizability.hpp"

namespace atoll::sim {
namespace {

using test::map_number;
using test::map_value;
using verify::OpKind;

constexpr std::uint32_t kKeys = 4;
constexpr std::uint32_t kCounter = kKeys;
constexpr std::uint32_t kFill = 1500;  // pairs from the start: buckets are full, and the next ones split them

/// What the threads of all nodes do, and what they saw. All of it happens on one thread, so that a count is a clock.
class MapPlay {
 public:
  MapPlay(Cluster& cluster, const Plan& plan, std::uint32_t operations)
      : cluster_(cluster), plan_(plan), operations_(operations), random_(plan.cluster.seed) {
    options_.seed = plan.cluster.seed + 1;
    options_.max_buckets = random_.below(4) == 0 ? 1 : 0;
    if (plan.workload.kill_after > 0) {
      kill_after_ = 1 + random_.below(std::uint64_t(plan.cluster.nodes) * plan.workload.threads * operations);
    }
  }

  void run() {
    for (NodeId node = 0; node < plan_.cluster.nodes; ++node) {
      for (std::uint32_t thread = 0; thread < plan_.workload.threads; ++thread) {
        const std::uint64_t seed = random_.next();
        cluster_.spawn(node, [this, thread, seed](Node& own) { play(own, thread, seed); });
      }
    }
    cluster_.run();
    // Threads of a node that was killed go on and end now, in a world of their own: what they see there counts no more.
    is_over_ = true;
    cluster_.leave();
  }

  [[nodiscard]] const std::vector<verify::Operation>& history() const { return history_; }
  [[nodiscard]] bool has_grown() const { return buckets_ > buckets_at_first_; }

 private:
  struct Client {
    HashMap& map;
    base::Random random;
    std::uint16_t process;
    std::uint16_t thread;
    std::uint64_t unique;
    std::array<std::uint64_t, kKeys> seen{};
    std::uint64_t filled = 0;
  };

  /// What throws, making and opening a map, may when a node has died.
  void play(Node& node, std::uint32_t thread, std::uint64_t seed) {
    try {
      use(node, thread, seed);
    } catch (const Error&) {
      if (!cluster_.any_dead()) throw;
    }
  }

  void use(Node& node, std::uint32_t thread, std::uint64_t seed) {
    if (node.id() == 0 && thread == 0) {
      HashMap made(node, options_);
      std::vector<std::string> keys;
      for (std::uint32_t i = 0; i < kFill; ++i) keys.push_back("fill:" + std::to_string(i));
      std::vector<HashMap::KeyValue> pairs;
      for (const std::string& key : keys) pairs.emplace_back(key, "x");
      if (!check(made.put_many(pairs).status())) return;
      buckets_at_first_ = made.stats().value().buckets;
      node.publish("map", made.address()).or_throw();
    }
    const auto address = node.lookup("map", std::chrono::seconds(10));
    if (!address.ok()) return;
    HashMap map(node, *address);
    Client client{map, base::Random(seed), node.id(), std::uint16_t(thread), seed << 20 >> 1, {}, 0};
    for (std::uint32_t i = 0; i < operations_; ++i) {
      if (++done_ == kill_after_) cluster_.kill(NodeId(cluster_.machine().random().below(plan_.cluster.nodes)));
      if (is_over_ || !step(client)) return;
      if (client.random.below(4) == 0) cluster_.machine().sleep_ns(client.random.below(plan_.workload.think_ns * 2));
    }
    if (!cluster_.any_dead()) buckets_ = std::max(buckets_, map.stats().value().buckets);
  }

  /// False: a call has failed, as it may when a node has died.
  bool step(Client& client) {
    const std::uint64_t dice = client.random.below(100);
    const auto key = std::uint32_t(client.random.below(kKeys));
    const std::string name = "key:" + std::to_string(key);
    const std::uint64_t number = ++client.unique;
    if (dice < 25) {
      const std::string own = "own:" + std::to_string(client.process) + ":" + std::to_string(client.thread) + ":" +
                              std::to_string(client.filled++);
      const auto is_new = client.map.put(own, map_value(number));
      if (!check(is_new.status())) return false;
      if (!*is_new) throw Failure("a key was there before it was put");
      const auto back = client.map.get(own);
      if (!check(back.status())) return false;
      if (map_number(*back) != number) throw Failure("a pair of its own thread is not as it was left");
      return true;
    }
    if (dice < 35) {
      const std::size_t at = called(client, OpKind::kFetchAdd, kCounter, 3);
      const auto sum = client.map.increment("counter", 3);
      if (!check(sum.status())) return false;
      returned(at, std::uint64_t(*sum) - 3);
    } else if (dice < 60) {
      const std::size_t at = called(client, OpKind::kRead, key);
      const auto value = client.map.get(name);
      if (!check(value.status())) return false;
      returned(at, client.seen[key] = map_number(*value));
    } else if (dice < 75) {
      const std::size_t at = called(client, OpKind::kWrite, key, number);
      if (!check(client.map.put(name, map_value(number)).status())) return false;
      returned(at, 0);
    } else {
      const bool swaps = dice < 88;
      const std::uint64_t next = dice < 82 || dice >= 94 ? number : 0;
      const std::size_t at =
          called(client, swaps ? OpKind::kCompareExchange : OpKind::kExchange, key, next, swaps ? client.seen[key] : 0);
      std::uint64_t found = 0;
      const auto done = client.map.update(name, [&](std::optional<std::string_view> current, std::string& value) {
        found = map_number(current);
        value = map_value(next);
        if (swaps && found != client.seen[key]) return Change::kKeep;
        return next == 0 ? Change::kErase : Change::kPut;
      });
      if (!check(done.status())) return false;
      returned(at, found);
      client.seen[key] = swaps && found != client.seen[key] ? found : next;
    }
    return true;
  }

  bool check(const Status& status) const {
    if (!status.ok() && !cluster_.any_dead()) throw Failure("a call failed: " + status.to_string());
    return status.ok() && !is_over_;
  }
  std::size_t called(const Client& client, OpKind kind, std::uint32_t key, std::uint64_t argument = 0,
                     std::uint64_t expected = 0) {
    verify::Operation operation;
    operation.kind = kind;
    operation.key = key;
    operation.argument = argument;
    operation.expected = expected;
    operation.process = client.process;
    operation.thread = client.thread;
    operation.invoked = ++clock_;
    history_.push_back(operation);
    return history_.size() - 1;
  }
  void returned(std::size_t at, std::uint64_t result) {
    history_[at].responded = ++clock_;
    history_[at].result = result;
  }

  Cluster& cluster_;
  const Plan& plan_;
  std::uint32_t operations_;
  base::Random random_;
  HashMapOptions options_;
  std::uint64_t kill_after_ = 0, done_ = 0;
  std::int64_t clock_ = 0;
  bool is_over_ = false;
  std::vector<verify::Operation> history_;
  std::uint64_t buckets_ = 0, buckets_at_first_ = 0;
};

struct Outcome {
  std::uint64_t operations = 0;
  bool has_grown = false;
};

Outcome play_and_check(std::uint64_t seed) {
  SCOPED_TRACE(test::repeat_with(seed));
  Plan plan = draw(seed, {});
  plan.cluster.node.memory_bytes = 8 << 20;
  plan.cluster.nodes = std::min<NodeId>(plan.cluster.nodes, 4);
  Cluster cluster(plan.cluster);
  MapPlay play(cluster, plan, 60);
  EXPECT_NO_THROW(play.run()) << to_string(plan);
  const auto report = verify::check_linearizable(play.history());
  EXPECT_EQ(report.verdict, verify::Verdict::kAccepted) << to_string(plan) << '\n' << report.explanation;
  return {report.operations, play.has_grown()};
}

TEST(SimHashMap, HasAnOrderInEveryCluster) {
  const std::uint64_t first = test::fresh_seed();
  std::uint64_t operations = 0, grown = 0;
  for (std::uint64_t seed = first; seed < first + std::uint64_t(test::scaled(60)); ++seed) {
    const Outcome outcome = play_and_check(seed);
    if (HasFailure()) return;
    operations += outcome.operations;
    grown += outcome.has_grown ? 1 : 0;
  }
  EXPECT_GT(operations, 100u);
  EXPECT_GT(grown, 0u) << "no table has grown";
}

/// An overflow bucket of a node that has died was taken for an empty one, and its keys for absent.
TEST(SimHashMap, HasAnOrderWhereItOnceHadNone) {
  for (const std::uint64_t seed : {2385466801u, 2543755552u}) static_cast<void>(play_and_check(seed));
}

}  // namespace
}  // namespace atoll::sim
