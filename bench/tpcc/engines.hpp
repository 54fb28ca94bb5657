// The engines that TPC-C runs on.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "atoll/node.hpp"
#include "bench/tpcc/job.hpp"

namespace atoll::bench::tpcc {

struct Engine {
  std::string_view name;  // as the command line has it
  std::string_view what;
  bool is_ordered = false;      // it has ordered tables, so that it can run the full mix
  bool is_of_one_node = false;  // it cannot use more
  void (*run)(Node& node, const nlohmann::json& json, const Job& job) = nullptr;  // one node's side
};

/// All, Atoll's first.
[[nodiscard]] std::span<const Engine> engines();
[[nodiscard]] std::vector<std::string> engine_names();
/// Throws Error: there is none of this name.
[[nodiscard]] const Engine& engine_of(std::string_view name);

void run_atoll(Node& node, const nlohmann::json& json, const Job& job);
void run_farm(Node& node, const nlohmann::json& json, const Job& job);
void run_migrating(Node& node, const nlohmann::json& json, const Job& job);
void run_sqlite(Node& node, const nlohmann::json& json, const Job& job);

}  // namespace atoll::bench::tpcc
