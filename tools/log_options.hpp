// The options of commands that start nodes which log, and start them again.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "cluster/launcher.hpp"

namespace atoll::tools {

struct LogArguments {
  std::string mode = "off", directory, size;
  unsigned restarts = 0;
  bool recover = false, after_reboot = false;
};

void add_log_options(CLI::App& command, LogArguments& arguments);
/// Throws CLI::ValidationError for what makes no sense together.
void apply(const LogArguments& arguments, cluster::LaunchSpec& spec);

}  // namespace atoll::tools
