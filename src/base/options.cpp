#include "atoll/options.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

#include "atoll/status.hpp"
#include "base/units.hpp"

namespace atoll {
namespace {

constexpr std::size_t kMaxTextBytes = 128;
constexpr std::size_t kMaxPathBytes = 4000;

std::uint64_t bytes_from(const char* name, std::uint64_t fallback) {
  const char* text = std::getenv(name);
  if (text == nullptr) return fallback;
  const auto value = base::parse_bytes(text);
  if (!value.ok()) throw Error(fmt::format("{}=\"{}\": {}", name, text, value.status().what()));
  return *value;
}

std::uint32_t number_from(const char* name, std::uint32_t fallback) {
  const std::uint64_t value = bytes_from(name, fallback);
  if (value > UINT32_MAX) throw Error(fmt::format("{}={} is too large", name, value));
  return std::uint32_t(value);
}

Consistency consistency_from(const char* name, Consistency fallback) {
  const char* text = std::getenv(name);
  if (text == nullptr) return fallback;
  const std::string_view value = text;
  if (value == "pso") return Consistency::kPso;
  if (value == "tso") return Consistency::kTso;
  if (value == "sc") return Consistency::kSc;
  throw Error(fmt::format("{}=\"{}\": give pso, tso or sc", name, text));
}

LogMode log_mode_from(const char* name, LogMode fallback) {
  const char* text = std::getenv(name);
  if (text == nullptr) return fallback;
  const std::string_view value = text;
  if (value == "off") return LogMode::kOff;
  if (value == "process") return LogMode::kProcess;
  if (value == "power") return LogMode::kPower;
  throw Error(fmt::format("{}=\"{}\": give off, process or power", name, text));
}

std::string text_from(const char* name, const std::string& fallback, std::size_t most = kMaxTextBytes) {
  const char* text = std::getenv(name);
  if (text == nullptr) return fallback;
  if (*text == '\0' || std::string_view(text).size() > most) {
    throw Error(fmt::format("{}=\"{}\": give 1 to {} characters, or do not set it", name, text, most));
  }
  return text;
}

bool switch_from(const char* name, bool fallback) {
  const char* text = std::getenv(name);
  if (text == nullptr) return fallback;
  const std::string_view value = text;
  if (value == "on") return true;
  if (value == "off") return false;
  throw Error(fmt::format("{}=\"{}\": give on or off", name, text));
}

}  // namespace

Options Options::from_environment() {
  Options options;
  options.memory_bytes = bytes_from("ATOLL_MEMORY", options.memory_bytes);
  options.cache_bytes = bytes_from("ATOLL_CACHE", options.cache_bytes);
  options.file_space_bytes = bytes_from("ATOLL_FILE_SPACE", options.file_space_bytes);
  options.file_memory_bytes = bytes_from("ATOLL_FILE_MEMORY", options.file_memory_bytes);
  options.line_bytes = number_from("ATOLL_LINE", options.line_bytes);
  options.consistency = consistency_from("ATOLL_CONSISTENCY", options.consistency);
  options.outstanding_writes = number_from("ATOLL_OUTSTANDING_WRITES", options.outstanding_writes);
  options.spin_ns = number_from("ATOLL_SPIN_NS", options.spin_ns);
  options.yield_us = number_from("ATOLL_YIELD_US", options.yield_us);
  options.read_ahead_lines = number_from("ATOLL_READ_AHEAD", options.read_ahead_lines);
  options.evict_below_percent = number_from("ATOLL_EVICT_BELOW", options.evict_below_percent);
  options.evict_until_percent = number_from("ATOLL_EVICT_UNTIL", options.evict_until_percent);
  options.transport = text_from("ATOLL_TRANSPORT", options.transport);
  options.address = text_from("ATOLL_ADDRESS", options.address);
  options.write_at_home = switch_from("ATOLL_WRITE_AT_HOME", options.write_at_home);
  options.read_in_place = switch_from("ATOLL_READ_IN_PLACE", options.read_in_place);
  options.log = log_mode_from("ATOLL_LOG_MODE", options.log);
  options.log_dir = text_from("ATOLL_LOG_DIR", options.log_dir, kMaxPathBytes);
  options.log_bytes = bytes_from("ATOLL_LOG_SIZE", options.log_bytes);
  options.recover = switch_from("ATOLL_RECOVER", options.recover);
  options.recover_after_reboot = switch_from("ATOLL_RECOVER_AFTER_REBOOT", options.recover_after_reboot);
  options.recovery_wait =
      std::chrono::milliseconds(number_from("ATOLL_RECOVERY_WAIT_MS", std::uint32_t(options.recovery_wait.count())));
  if (options.recover) options.join_timeout = std::max(options.join_timeout, options.recovery_wait);
  return options;
}

}  // namespace atoll
