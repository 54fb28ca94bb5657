// The option --lease, which those commands have that run a master.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <string>

#include "atoll/detail/namespace.hpp"

namespace atoll::tools {

/// `seconds`: where the value goes. 0 means that nobody is declared out for being silent.
void add_lease_option(CLI::App& command, double& seconds);
[[nodiscard]] std::chrono::milliseconds lease_of(double seconds) noexcept;

}  // namespace atoll::tools
