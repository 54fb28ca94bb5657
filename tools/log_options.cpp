#include "log_options.hpp"

#include <fmt/format.h>

#include "base/units.hpp"

namespace atoll::tools {
namespace {

constexpr std::uint64_t kSmallestLog = 1u << 20;

std::string check_size(const std::string& text) {
  const auto bytes = base::parse_bytes(text);
  if (!bytes.ok()) return fmt::format("\"{}\": {}", text, bytes.status().what());
  if (*bytes >= kSmallestLog) return {};
  return fmt::format("\"{}\" is too small: give at least {}", text, base::format_bytes(kSmallestLog));
}

}  // namespace

void add_log_options(CLI::App& command, LogArguments& arguments) {
  command
      .add_option("--log", arguments.mode,
                  "What nodes log, so that a write that was fenced outlives a crash of processes (process) or of hosts "
                  "(power)")
      ->envname("ATOLL_LOG_MODE")
      ->capture_default_str()
      ->check(CLI::IsMember({"off", "process", "power"}));
  command.add_option("--log-dir", arguments.directory, "The folder for the logs of all nodes")
      ->type_name("DIR")
      ->envname("ATOLL_LOG_DIR");
  command.add_option("--log-size", arguments.size, "Room for the log of each node")
      ->type_name("SIZE")
      ->envname("ATOLL_LOG_SIZE")
      ->check(CLI::Validator(check_size, "", "log-size"));
  command
      .add_option("--restart", arguments.restarts,
                  "Start a node that was killed by a signal, or declared out, again: so often at most")
      ->type_name("TIMES")
      ->capture_default_str()
      ->check(CLI::Range(0u, 1'000'000u));
  command.add_flag("--recover", arguments.recover, "Go on from the logs that are in --log-dir");
  command.add_flag(
      "--recover-after-reboot", arguments.after_reboot,
      "The same where the host was started again since, with --log process: the last writes may be missing");
}

void apply(const LogArguments& arguments, cluster::LaunchSpec& spec) {
  if (arguments.mode == "off") {
    if (arguments.restarts > 0) {
      throw CLI::ValidationError("--restart",
                                 "a node that is started again needs its log: give --log process or power");
    }
    if (arguments.recover || arguments.after_reboot)
      throw CLI::ValidationError("--recover", "give --log process or power as well");
    return;
  }
  if (arguments.directory.empty()) {
    throw CLI::ValidationError("--log", fmt::format("\"{}\" needs a folder: give --log-dir DIR", arguments.mode));
  }
  spec.log = {arguments.mode, arguments.directory,
              arguments.size.empty() ? 0 : base::parse_bytes(arguments.size).value(),
              arguments.recover || arguments.after_reboot, arguments.after_reboot};
  spec.restarts = arguments.restarts;
}

}  // namespace atoll::tools
