// Logging: spdlog to stderr, level from ATOLL_LOG (trace, debug, info, warn, error, off; default warn).
// The function that decides that something is an error logs it, once.
#pragma once

#include "atoll/detail/namespace.hpp"

#include <spdlog/spdlog.h>

namespace atoll::base {
/// Sets format and level; called by whoever starts first (join, the tools). Idempotent.
void init_logging();
}  // namespace atoll::base
