// Runs commands on their keys.
#pragma once

#include <vector>

#include "kv/command.hpp"

namespace atoll::kv {

/// Adds the keys of a request. REQUIRES: the command takes so many arguments.
void add_keys(const Command& command, Arguments arguments, std::vector<std::string_view>& keys);
/// A key that the map takes; else the client has been told.
[[nodiscard]] bool check_key(std::string_view key, RespWriter& reply);
/// Runs a command that has keys as one step, and answers. REQUIRES: it takes so many arguments.
void run_on_keys(Worker& worker, const Command& command, Arguments arguments, RespWriter& reply);
/// The same within somebody else's step, which has the keys.
void run_in_step(Worker& worker, HashMap::Step& step, const Command& command, Arguments arguments, RespWriter& reply);

}  // namespace atoll::kv
