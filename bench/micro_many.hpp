// The micro cases that need more than two nodes.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "atoll/options.hpp"
#include "atoll/status.hpp"

namespace atoll::bench {

inline constexpr NodeId kManyNodes = 8;
inline constexpr NodeId kFewNodes = 2;

[[nodiscard]] Options idle_options();
[[nodiscard]] Options crowd_options();

void run_idle_node(const nlohmann::json& job);
void run_crowd_node(const nlohmann::json& job);

}  // namespace atoll::bench
