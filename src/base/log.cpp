#include "base/log.hpp"

#include <spdlog/sinks/stdout_color_sinks.h>

#include <cstdlib>
#include <mutex>

namespace atoll::base {

void init_logging() {
  static std::once_flag once;
  std::call_once(once, [] {
    auto logger = spdlog::get("atoll");
    if (!logger) logger = spdlog::stderr_color_mt("atoll");
    logger->set_pattern("%H:%M:%S.%e %^%l%$ atoll: %v");
    const char* level = std::getenv("ATOLL_LOG");
    logger->set_level(level != nullptr ? spdlog::level::from_str(level) : spdlog::level::warn);
    spdlog::set_default_logger(std::move(logger));
  });
}

}  // namespace atoll::base
