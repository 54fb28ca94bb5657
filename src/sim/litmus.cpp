#include "sim/litmus.hpp"

#include <algorithm>
#include <optional>

namespace atoll::sim {
namespace {

constexpr unsigned kInstances = 512;  // of a round

/// Where fibers wait for each other.
class Meeting {
 public:
  Meeting(Machine& machine, unsigned members) : machine_(machine), members_(members) {}
  void meet() {
    const unsigned round = round_;
    if (++arrived_ == members_) {
      arrived_ = 0;
      ++round_;
      return;
    }
    while (round_ == round) machine_.sleep_ns(1 + machine_.random().below(3'000));
  }

 private:
  Machine& machine_;
  unsigned members_;
  unsigned arrived_ = 0;
  unsigned round_ = 0;
};

ClusterOptions options_for(const litmus::Case& test, Consistency mode, std::uint64_t seed, bool read_in_place) {
  ClusterOptions options;
  options.seed = seed;
  options.nodes = litmus::nodes_for(test);
  options.node.consistency = mode;
  options.node.memory_bytes = 8u << 20;
  options.node.cache_bytes = 128u << 10;  // less than what a round touches
  options.node.yield_us = 0;
  options.node.read_in_place = read_in_place;
  options.network.jitter_ns = 6'000;
  options.network.message_cpu_ns = 100;
  return options;
}

}  // namespace

litmus::Histogram run_litmus(const litmus::Case& test, Consistency mode, const litmus::RunSettings& settings,
                             bool read_in_place) {
  Cluster cluster(options_for(test, mode, settings.seed, read_in_place));
  const NodeId nodes = cluster.options().nodes;
  const unsigned threads = test.shape->thread_count;
  const bool one_node = test.layout == litmus::Layout::kOneNode;
  const unsigned seats = nodes + (one_node ? threads - 1 : 0);
  Machine& machine = cluster.machine();
  Meeting meeting(machine, seats);
  std::vector<std::optional<litmus::Arena>> arenas(nodes);
  litmus::Histogram histogram;
  for (unsigned index = 0; index < seats; ++index) {
    const bool guest = index >= nodes;  // a further thread of node 0
    const NodeId home = guest ? 0 : NodeId(index);
    cluster.spawn(home, [&, index, guest, home](Node& node) {
      if (!guest) arenas[home].emplace(node, unsigned(std::min<std::uint64_t>(settings.runs, kInstances)));
      meeting.meet();
      litmus::Seat seat{index, seats, {}, !guest, {}, {}};
      if (guest) seat.thread = index - nodes + 1;
      if (!guest && (one_node ? index == 0 : index < threads)) seat.thread = index;
      seat.meet = [&] {
        node.fence().or_throw();
        meeting.meet();
      };
      // Hits take no time here; without this a thread would go through all of them before the next one begins.
      seat.keep_step = [&] { machine.sleep_ns(machine.random().below(4'000)); };
      litmus::Histogram found = litmus::run_seat(node, seat, *arenas[home], test, settings);
      if (index == 0) histogram = std::move(found);
    });
  }
  cluster.run();
  return histogram;
}

}  // namespace atoll::sim
