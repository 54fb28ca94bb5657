// `atoll status`: what runs on this host, asked of the masters; the nodes are not disturbed.
#include "cluster/status_client.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "atoll/stats.hpp"
#include "base/units.hpp"
#include "cluster/stats_json.hpp"
#include "commands.hpp"

namespace atoll::tools {
namespace {

using cluster::Json;

constexpr auto kPatience = std::chrono::seconds(5);

std::string duration_text(std::int64_t seconds) {
  if (seconds < 60) return fmt::format("{} s", seconds);
  if (seconds < 3600) return fmt::format("{} min {} s", seconds / 60, seconds % 60);
  return fmt::format("{} h {} min", seconds / 3600, seconds / 60 % 60);
}

using Row = std::vector<std::string>;

Row row_of(const Json& node) {
  Row row = {std::to_string(node.at("node").get<unsigned>()), "-", node.at("state").get<std::string>()};
  if (const int pid = node.at("pid").get<int>(); pid != 0) row[1] = std::to_string(pid);
  if (!node.contains("counters")) {
    row.resize(11, "-");
  } else {
    const auto stats = node.at("counters").get<Stats>();
    const auto line = node.at("line").get<std::uint64_t>();
    row.push_back(base::format_bytes(stats.memory_bytes));
    row.push_back(base::format_bytes(stats.memory_bytes - std::min(stats.memory_bytes, stats.memory_free_bytes)));
    row.push_back(base::format_bytes(stats.cache_lines * line));
    row.push_back(base::format_bytes(stats.cache_lines_used * line));
    row.push_back(std::to_string(stats.misses()));
    row.push_back(std::to_string(stats.invalidations));
    row.push_back(std::to_string(stats.messages_sent));
    row.push_back(base::format_bytes(stats.bytes_sent));
  }
  row.push_back(node.value("why", ""));
  if (const auto restarts = node.value("restarts", 0u); restarts > 0) {
    row.back() += fmt::format("{}back {} time{}", row.back().empty() ? "" : "; ", restarts, restarts == 1 ? "" : "s");
  }
  return row;
}

void print_cluster(const Json& status) {
  const auto age = std::int64_t(std::time(nullptr)) - status.at("started").get<std::int64_t>();
  fmt::print("cluster {} ({} nodes, for {}): {}\n", status.at("pid").get<int>(), status.at("nodes").size(),
             duration_text(std::max<std::int64_t>(age, 0)), status.at("program").get<std::string>());
  std::vector<Row> rows = {
      {"node", "pid", "state", "memory", "used", "cache", "in use", "misses", "taken", "msgs", "sent", ""}};
  for (const Json& node : status.at("nodes")) rows.push_back(row_of(node));
  std::vector<std::size_t> widths(rows.front().size(), 0);
  for (const Row& row : rows) {
    for (std::size_t k = 0; k < row.size(); ++k) widths[k] = std::max(widths[k], row[k].size());
  }
  for (const Row& row : rows) {
    std::string text;
    // Numbers to the right; the state, and why a node is dead, to the left.
    for (std::size_t k = 0; k + 1 < row.size(); ++k) {
      text += k == 2 ? fmt::format("  {:<{}}", row[k], widths[k]) : fmt::format("  {:>{}}", row[k], widths[k]);
    }
    fmt::print("{}{}{}\n", text, row.back().empty() ? "" : "  ", row.back());
  }
}

void show(bool json, int only_pid) {
  Json all = Json::array();
  for (const cluster::FoundCluster& found : cluster::find_clusters()) {
    if (only_pid != 0 && found.pid != only_pid) continue;
    const auto status = cluster::query_status(found.socket, kPatience);
    // One that ended between the two steps is no error; it just does not run any more.
    if (status.ok()) all.push_back(*status);
    if (status.status().code() == Errc::kDeadline) {
      fmt::print(stderr, "atoll: the master {} does not answer; is it stopped?\n", found.pid);
    }
  }
  if (json) {
    fmt::print("{}\n", all.dump(2, ' ', false, Json::error_handler_t::replace));
  } else {
    for (std::size_t k = 0; k < all.size(); ++k) {
      if (k > 0) fmt::print("\n");
      print_cluster(all[k]);
    }
  }
  if (!all.empty()) return;
  if (only_pid != 0) {
    fmt::print(stderr, "atoll: no cluster with process {} runs; `atoll status` shows all\n", only_pid);
  } else {
    fmt::print(stderr, "atoll: no cluster of yours runs on this host; `atoll run -n 4 -- ./program` starts one\n");
  }
  throw CLI::RuntimeError(1);
}

}  // namespace

void add_status(CLI::App& app) {
  struct Arguments {
    bool json = false;
    int cluster = 0;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* status = app.add_subcommand("status", "Show the clusters that run on this host, and their counters");
  status->add_flag("--json", arguments->json, "All counters, as a JSON array of clusters");
  status->add_option("--cluster", arguments->cluster, "Only the cluster of this `atoll run` process")
      ->type_name("PID")
      ->check(CLI::PositiveNumber);
  status->footer(
      "Columns: used - allocated of memory; in use - cached lines; misses - accesses that needed a\n"
      "message; taken - lines that others took away; msgs, sent - messages and bytes sent.\n\n"
      "Examples:\n"
      "  atoll status\n"
      "  atoll status --json | jq '.[0].nodes[].counters.read_misses'\n"
      "  watch -n 1 atoll status");
  status->callback([arguments] { show(arguments->json, arguments->cluster); });
}

}  // namespace atoll::tools
