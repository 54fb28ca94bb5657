#include "sim/simulation.hpp"
#include "runtime/journal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

namespace atoll::sim {
namespace {

template <typename T, std::size_t N>
T one_of(base::Random& random, const T (&choices)[N]) {
  return choices[random.below(N)];
}

void draw_weights(base::Random& random, WorkloadOptions& workload) {
  for (auto& weight : workload.weights) weight = random.below(4) == 0 ? 0 : std::uint32_t(1 + random.below(10));
  // Something must be written, or there is nothing to see.
  auto& write = workload.weights[std::size_t(Act::kWriteWord)];
  auto& read = workload.weights[std::size_t(Act::kReadWord)];
  write = std::max(write, 2u);
  read = std::max(read, 2u);
}

/// Nodes with logs, which crash and come back, instead of those that die for good.
void draw_crashes(base::Random& random, Plan& plan) {
  Options& node = plan.cluster.node;
  WorkloadOptions& workload = plan.workload;
  node.log = random.below(2) == 0 ? LogMode::kProcess : LogMode::kPower;
  node.outstanding_writes = std::min(node.outstanding_writes, 64u);
  // As short as can be: the more checkpoints there are, the better.
  node.log_bytes = runtime::Journal::least_log_bytes(node, std::uint32_t(node.cache_bytes / node.line_bytes));
  workload.kill_after = 0;
  workload.crash_every = workload.ops / (1 + random.below(8)) + 1 + random.below(50);
}

}  // namespace

Plan draw(std::uint64_t seed, const Wishes& wishes) {
  base::Random random(seed ^ 0xa70115eed);
  Plan plan;
  ClusterOptions& cluster = plan.cluster;
  cluster.seed = seed;
  cluster.nodes = wishes.nodes.value_or(one_of<NodeId>(random, {2, 2, 3, 3, 4, 5, 8}));
  Options& node = cluster.node;
  node.line_bytes = wishes.line_bytes.value_or(one_of<std::uint32_t>(random, {64, 128, 512, 512, 1024}));
  node.cache_bytes = 64ull * node.line_bytes;
  node.memory_bytes = node.line_bytes > 256 ? 4 << 20 : 1 << 20;  // whole grains of larger lines for all
  node.consistency = wishes.consistency.value_or(
      one_of<Consistency>(random, {Consistency::kPso, Consistency::kPso, Consistency::kTso, Consistency::kSc}));
  node.outstanding_writes = one_of<std::uint32_t>(random, {1, 4, 64, 1024});
  node.spin_ns = one_of<std::uint32_t>(random, {0, 1000});
  node.yield_us = one_of<std::uint32_t>(random, {0, 0, 20});
  node.read_ahead_lines = one_of<std::uint32_t>(random, {0, 8, 128});
  node.evict_below_percent = one_of<std::uint32_t>(random, {0, 30, 30});
  node.evict_until_percent = std::max(node.evict_below_percent, 50u);
  node.read_in_place = one_of<bool>(random, {false, true});
  node.write_at_home = one_of<bool>(random, {false, true, true});
  node.death_grace = std::chrono::milliseconds(200);

  NetworkOptions& network = cluster.network;
  network.latency_ns = wishes.latency_ns.value_or(one_of<std::uint32_t>(random, {200, 2'000, 20'000}));
  network.jitter_ns = network.latency_ns * one_of<std::uint32_t>(random, {0, 1, 1, 5});
  network.gbps = wishes.gbps.value_or(one_of<double>(random, {10, 100, 400}));
  network.data_at_once = random.below(3) == 0;
  network.echoes = one_of<double>(random, {0, 0, 0.01});
  network.message_cpu_ns = one_of<std::uint32_t>(random, {0, 0, 300, 2'000});

  WorkloadOptions& workload = plan.workload;
  workload.threads = wishes.threads.value_or(one_of<std::uint32_t>(random, {1, 2, 2, 3}));
  workload.ops = wishes.ops.value_or(10'000);
  workload.hot_words = std::uint32_t(4 + random.below(20));
  workload.hot_lines = std::uint32_t(1 + random.below(4));
  workload.blobs = std::uint32_t(1 + random.below(8));
  workload.larger = one_of<std::uint32_t>(random, {0, 0, 0, 1, 2});
  workload.locked = std::uint32_t(1 + random.below(6));
  workload.cold_lines = one_of<std::uint32_t>(random, {4, 40, 150, 400});
  workload.think_ns = one_of<std::uint32_t>(random, {50, 500, 5'000});
  draw_weights(random, workload);
  if (random.chance(wishes.loss_of_nodes.value_or(0.1))) workload.kill_after = 1 + random.below(workload.ops);
  if (random.chance(0.2)) workload.suspend_every = 20 + random.below(workload.ops / 4 + 1);
  base::Random more(seed ^ 0x106106);
  if (wishes.logged) draw_crashes(more, plan);
  return plan;
}

std::string to_string(const Plan& plan) {
  const auto& [cluster, workload] = plan;
  std::string text = fmt::format(
      "{} nodes of {} threads, lines of {} B ({}-fold in use), {}, {} outstanding writes, spin {} ns, yield {} us, "
      "read ahead {}, {}in "
      "place, {}at home; network {} ns + up to {} ns, {} Gbit/s, data {}, {} echoes, {} ns per message; {} operations, "
      "{} words in {} lines, {} "
      "blobs, {} "
      "locked, "
      "{} cold lines, think {} ns",
      cluster.nodes, workload.threads, cluster.node.line_bytes, 1u << workload.larger,
      cluster.node.consistency == Consistency::kPso   ? "pso"
      : cluster.node.consistency == Consistency::kTso ? "tso"
                                                      : "sc",
      cluster.node.outstanding_writes, cluster.node.spin_ns, cluster.node.yield_us, cluster.node.read_ahead_lines,
      cluster.node.read_in_place ? "" : "not ", cluster.node.write_at_home ? "" : "not ", cluster.network.latency_ns,
      cluster.network.jitter_ns, cluster.network.gbps, cluster.network.data_at_once ? "at once" : "in turn",
      cluster.network.echoes, cluster.network.message_cpu_ns, workload.ops, workload.hot_words, workload.hot_lines,
      workload.blobs, workload.locked, workload.cold_lines, workload.think_ns);
  if (workload.suspend_every != 0) text += fmt::format(", a node is suspended every {}", workload.suspend_every);
  if (cluster.node.log != LogMode::kOff) {
    text += fmt::format(", log {}, nodes crash every {}", cluster.node.log == LogMode::kPower ? "power" : "process",
                        workload.crash_every);
  }
  if (workload.kill_after != 0) text += fmt::format(", a node dies after {}", workload.kill_after);
  return text;
}

Outcome simulate(const Plan& plan) {
  Outcome outcome;
  outcome.with_death = plan.workload.kill_after != 0;
  auto cluster = std::make_unique<Cluster>(plan.cluster);
  auto workload = std::make_unique<Workload>(*cluster, plan.workload);
  try {
    workload->run();
  } catch (const Failure& failure) {
    outcome.ok = false;
    outcome.failure = fmt::format("{}\nat {} ns\n\nmessages{}:\n{}", failure.what(), cluster->machine().time(),
                                  failure.about() ? " about " + failure.about().to_string() : "",
                                  cluster->network().chart(failure.about()));
  } catch (const std::exception& error) {
    outcome.ok = false;
    outcome.failure = error.what();
  }
  outcome.logged = cluster->is_logged();
  outcome.crashes = cluster->crashes();
  outcome.returns = cluster->returns();
  outcome.operations = workload->operations();
  outcome.failed = workload->failed();
  outcome.done = workload->done();
  outcome.messages = cluster->network().messages();
  outcome.switches = cluster->machine().switches();
  outcome.virtual_ns = cluster->machine().time();
  if (!outcome.ok) {  // fibers stand in the middle of it all
    (void)cluster.release();
    (void)workload.release();
  }
  return outcome;
}

}  // namespace atoll::sim
