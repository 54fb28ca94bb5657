// The subcommands of `atoll`. Each adds itself to the command line; its callback does the work, and ends with
// `throw CLI::RuntimeError(code)` when the exit code is not 0.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "atoll/detail/namespace.hpp"

namespace atoll::tools {

/// `program`: what stood behind "--". CLI11 is not shown it, because it would rewrite some of it ("[1,2]" is a list
/// to it) and take options of the program for its own.
void add_run(CLI::App& app, const std::vector<std::string>& program);
void add_agent(CLI::App& app);
void add_status(CLI::App& app);
void add_explore(CLI::App& app);
void add_litmus(CLI::App& app);
void add_bench(CLI::App& app);
void add_sim(CLI::App& app);
void add_scale(CLI::App& app);
void add_kv(CLI::App& app);
void add_key(CLI::App& app);
void add_log(CLI::App& app);
void add_master(CLI::App& app);
void add_doctor(CLI::App& app);

/// Empty when `text` is HOST:PORT, else what is wrong with it. A validator, as CLI11 wants it.
std::string check_address(const std::string& text);

}  // namespace atoll::tools
