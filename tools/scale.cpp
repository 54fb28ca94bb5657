// `atoll scale`: throughput and latency of many nodes, in virtual time.
#include "sim/scale.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/log.hpp"
#include "commands.hpp"

namespace atoll::tools {
namespace {

struct Settings {
  sim::ScaleOptions options;
  std::vector<NodeId> nodes = {2, 4, 8, 16, 32, 64};
  std::vector<std::string> cases;
  std::string json;
};

void run_scale(const Settings& settings) {
  spdlog::set_level(spdlog::level::off);
  std::ofstream json;
  if (!settings.json.empty()) {
    json.open(settings.json);
    if (!json) throw Error(fmt::format("cannot write {}", settings.json));
  }
  const sim::ScaleOptions& given = settings.options;
  fmt::print("virtual time: {} ns from node to node, {} Gbit/s, {} ns of a CPU for each message, {} ns for a hit\n\n",
             given.latency_ns, given.gbps, given.message_cpu_ns, given.hit_ns);
  fmt::print("{:<10}{:>6}{:>14}{:>12}{:>12}{:>12}{:>10}\n", "case", "nodes", "Mops/s", "of linear", "median us",
             "p99 us", "msgs/op");
  for (const sim::ScaleCase what : sim::kScaleCases) {
    const std::string name(to_string(what));
    const auto& wanted = settings.cases;
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), name) == wanted.end()) continue;
    double per_node = 0;  // of the first
    for (const NodeId nodes : settings.nodes) {
      sim::ScaleOptions options = given;
      options.nodes = nodes;
      const sim::ScaleResult result = sim::run_scale(what, options);
      if (per_node == 0) per_node = result.mops / nodes;
      const double linear = result.mops / (per_node * nodes);
      fmt::print("{:<10}{:>6}{:>14.2f}{:>12.2f}{:>12.2f}{:>12.2f}{:>10.3f}\n", name, nodes, result.mops, linear,
                 result.median_us, result.p99_us, result.messages_per_op);
      std::fflush(stdout);
      if (json.is_open()) {
        json << nlohmann::json({{"bench", "scale"},
                                {"case", name},
                                {"nodes", nodes},
                                {"threads", 1},
                                {"value", result.mops},
                                {"unit", "Mops/s of virtual time"},
                                {"baseline", fmt::format("{} nodes, linear", settings.nodes.front())},
                                {"baseline_value", per_node * nodes},
                                {"ratio", linear},
                                {"median_us", result.median_us},
                                {"p99_us", result.p99_us},
                                {"messages_per_operation", result.messages_per_op}})
                    .dump()
             << '\n';
      }
    }
  }
}

}  // namespace

void add_scale(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("scale", "Simulate many nodes: throughput and latency in virtual time");
  sub->footer(
      "The nodes are real, the machine and the network are simulated: what the figures say and what they leave out is "
      "in\n"
      "docs/scale.md. \"of linear\": the throughput per node, compared with that of the smallest cluster.");
  auto settings = std::make_shared<Settings>();
  sim::ScaleOptions& options = settings->options;
  sub->add_option("--nodes", settings->nodes, "Cluster sizes, separated by commas")
      ->delimiter(',')
      ->check(CLI::Range(2, 256))
      ->capture_default_str();
  sub->add_option("--case", settings->cases,
                  "Only these: private, shared (GAM's Figure 10), read, write, add (DArray's 13)")
      ->delimiter(',')
      ->check(CLI::IsMember({"private", "shared", "read", "write", "add"}));
  sub->add_option("--latency", options.latency_ns, "Nanoseconds from one node to another")->capture_default_str();
  sub->add_option("--gbps", options.gbps, "Bandwidth of each node in Gbit/s")
      ->check(CLI::Range(0.001, 1e6))
      ->capture_default_str();
  sub->add_option("--message-cpu", options.message_cpu_ns, "Nanoseconds to work on a message")->capture_default_str();
  sub->add_option("--hit", options.hit_ns, "Nanoseconds of an access that finds its line")
      ->check(CLI::Range(0.001, 1e6))
      ->capture_default_str();
  sub->add_option("--ops", options.ops, "Operations of each node: private, shared")
      ->check(CLI::Range(1u, 1'000'000u))
      ->capture_default_str();
  sub->add_option("--lines", options.lines, "Lines of the array on each node: read, write, add")
      ->check(CLI::Range(1u, 1000u))
      ->capture_default_str();
  sub->add_flag("--from-the-beginning", options.from_the_beginning,
                "All nodes begin with the array's first element, not each with its own part: read, write, add");
  sub->add_option("--seed", options.seed, "The seed")->capture_default_str();
  sub->add_option("--json", settings->json, "Write the results to a file too, one JSON object per line");
  sub->callback([settings] {
    std::sort(settings->nodes.begin(), settings->nodes.end());
    run_scale(*settings);
  });
}

}  // namespace atoll::tools
