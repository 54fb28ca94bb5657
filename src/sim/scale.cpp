#include "sim/scale.hpp"

#include <algorithm>
#include <vector>

namespace atoll::sim {
namespace {

constexpr std::uint32_t kLineBytes = 512;
constexpr std::uint32_t kWordsPerLine = kLineBytes / 8;
constexpr std::uint32_t kWorkingSet = 256;  // lines of each node, or of all together when they are shared

/// A thread's own time: what does not wait takes none in the simulator, and is paid for here, in pieces that are large
/// enough to be worth a switch.
class Payer {
 public:
  Payer(Machine& machine, double hit_ns) : machine_(machine), hit_ns_(hit_ns) {}
  void pay(std::uint32_t hits) {
    owed_ns_ += hits * hit_ns_;
    if (owed_ns_ >= 200) settle();
  }
  void settle() {
    machine_.sleep_ns(Time(owed_ns_));
    owed_ns_ = 0;
  }

 private:
  Machine& machine_;
  double hit_ns_;
  double owed_ns_ = 0;
};

struct Shared {
  Cluster& cluster;
  const ScaleOptions& options;
  std::vector<GlobalAddress> arenas;   // of each node, line-aligned
  std::vector<std::uint32_t> took_ns;  // of each operation that was measured
  std::uint64_t operations = 0;
  Time begun = 0;  // once all are there
  std::uint64_t messages_before = 0;
  unsigned waiting = 0;

  Machine& machine() { return cluster.machine(); }
  /// All begin at the same time.
  void meet() {
    constexpr Time kLook = 5'000;
    if (++waiting == options.nodes) {
      begun = machine().time() + 2 * kLook;
      messages_before = cluster.network().messages();
    }
    while (begun == 0) machine().sleep_ns(kLook);
    machine().sleep_ns(begun - machine().time());
  }
};

/// Line `index` of the memory of all nodes, which take turns.
GlobalAddress line_of(const Shared& shared, std::uint64_t index) {
  const std::uint64_t node = index % shared.options.nodes;
  return shared.arenas[node] + std::int64_t(index / shared.options.nodes * kLineBytes);
}

template <typename Op>
void timed(Shared& shared, Op&& op) {
  const Time before = shared.machine().time();
  op();
  shared.took_ns.push_back(std::uint32_t(std::min<Time>(shared.machine().time() - before, UINT32_MAX)));
}

/// Random accesses to a working set that fits the cache: of its own, or half of them to one that all share.
void run_gam(Shared& shared, Node& node, bool sharing) {
  base::Random random(shared.options.seed * 1000 + node.id());
  Payer payer(shared.machine(), shared.options.hit_ns);
  const auto own = [&] {
    return line_of(shared, (1 + node.id()) * std::uint64_t(kWorkingSet) + random.below(kWorkingSet));
  };
  for (std::uint32_t i = 0; i < kWorkingSet; ++i) {  // warm up
    node.write<std::uint64_t>(line_of(shared, (1 + node.id()) * std::uint64_t(kWorkingSet) + i), 1).or_throw();
  }
  node.fence().or_throw();
  shared.meet();
  for (std::uint32_t i = 0; i < shared.options.ops; ++i) {
    const bool common = sharing && random.below(2) == 0;
    const GlobalAddress line = common ? line_of(shared, random.below(kWorkingSet)) : own();
    const GlobalAddress at = line + std::int64_t(random.below(kWordsPerLine) * 8);
    timed(shared, [&] {
      if (random.below(2) == 0) {
        node.read<std::uint64_t>(at).status().or_throw();
      } else {
        node.write<std::uint64_t>(at, i).or_throw();
      }
    });
    payer.pay(1);
  }
  payer.settle();
  node.fence().or_throw();
  shared.operations += shared.options.ops;
}

/// The whole array, one element after the other. Of each line the first access is done and the others are paid for.
void run_darray(Shared& shared, Node& node, ScaleCase what) {
  Payer payer(shared.machine(), shared.options.hit_ns);
  const std::uint64_t lines = std::uint64_t(shared.options.lines) * shared.options.nodes;
  shared.meet();
  const std::uint64_t first = shared.options.from_the_beginning ? 0 : node.id() * std::uint64_t(shared.options.lines);
  for (std::uint64_t k = 0; k < lines; ++k) {
    const std::uint64_t i = (first + k) % lines;
    const GlobalAddress at =
        shared.arenas[i / shared.options.lines] + std::int64_t(i % shared.options.lines * kLineBytes);
    timed(shared, [&] {
      switch (what) {
        case ScaleCase::kRead: node.read<std::uint64_t>(at).status().or_throw(); break;
        case ScaleCase::kWrite: node.write<std::uint64_t>(at, i).or_throw(); break;
        case ScaleCase::kAdd: node.fetch_add(global_ptr<std::uint64_t>(at), 1).status().or_throw(); break;
        case ScaleCase::kPrivate:
        case ScaleCase::kShared: break;
      }
    });
    payer.pay(kWordsPerLine);
  }
  payer.settle();
  node.fence().or_throw();
  shared.operations += lines * kWordsPerLine;
}

}  // namespace

std::string_view to_string(ScaleCase what) noexcept {
  switch (what) {
    case ScaleCase::kPrivate: return "private";
    case ScaleCase::kShared: return "shared";
    case ScaleCase::kRead: return "read";
    case ScaleCase::kWrite: return "write";
    case ScaleCase::kAdd: return "add";
  }
  return "?";
}

ScaleResult run_scale(ScaleCase what, const ScaleOptions& options) {
  ClusterOptions wanted;
  wanted.seed = options.seed;
  wanted.nodes = options.nodes;
  wanted.node.memory_bytes = 1u << 20;
  wanted.node.line_bytes = kLineBytes;
  wanted.node.cache_bytes = 4ull * kWorkingSet * kLineBytes;
  wanted.node.yield_us = 0;
  wanted.node.read_in_place = false;  // the nodes are machines of their own
  wanted.node.write_at_home = false;  // of each line only the first access is done: it has to bring the line
  wanted.network = {options.latency_ns, options.latency_ns / 10, options.gbps, false, 0, options.message_cpu_ns};
  Cluster cluster(wanted);
  Shared shared{cluster, options, std::vector<GlobalAddress>(options.nodes), {}};
  for (NodeId id = 0; id < options.nodes; ++id) {
    cluster.spawn(id, [&shared, id](Node& node) {
      const std::uint64_t bytes = std::max(2 * kWorkingSet, shared.options.lines + 1) * std::uint64_t(kLineBytes);
      const GlobalAddress arena = node.allocate(bytes, Placement::on(id)).value();
      shared.arenas[id] = GlobalAddress((arena.bits() + kLineBytes - 1) / kLineBytes * kLineBytes);
    });
  }
  cluster.run();
  const bool gam = what == ScaleCase::kPrivate || what == ScaleCase::kShared;
  for (NodeId id = 0; id < options.nodes; ++id) {
    cluster.spawn(id, [&shared, gam, what](Node& node) {
      if (gam) {
        run_gam(shared, node, what == ScaleCase::kShared);
      } else {
        run_darray(shared, node, what);
      }
    });
  }
  cluster.run();
  ScaleResult result;
  const auto took_ns = double(cluster.machine().time() - shared.begun);
  result.operations = shared.operations;
  result.mops = double(shared.operations) * 1e3 / took_ns;
  result.messages_per_op = double(cluster.network().messages() - shared.messages_before) / double(shared.operations);
  std::sort(shared.took_ns.begin(), shared.took_ns.end());
  const std::size_t count = shared.took_ns.size();
  result.median_us = shared.took_ns[count / 2] / 1e3;
  result.p99_us = shared.took_ns[count * 99 / 100] / 1e3;
  return result;
}

}  // namespace atoll::sim
