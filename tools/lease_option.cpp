#include "lease_option.hpp"

#include <fmt/format.h>

#include "cluster/lease.hpp"

namespace atoll::tools {
namespace {

constexpr double kLongest_s = 86400;

std::string check_lease(const std::string& text) {
  double seconds = -1;
  const bool number = CLI::detail::lexical_cast(text, seconds);
  if (number && (seconds == 0 || (seconds * 1000 >= double(cluster::kShortestLease_ms) && seconds <= kLongest_s))) {
    return {};
  }
  return fmt::format("\"{}\": give {} to {} seconds, or 0 for no lease", text,
                     double(cluster::kShortestLease_ms) / 1000, kLongest_s);
}

}  // namespace

void add_lease_option(CLI::App& command, double& seconds) {
  command
      .add_option("--lease", seconds,
                  "After so long a node that is hung or cut off is declared out; 0: never, for debuggers")
      ->type_name("SECONDS")
      ->capture_default_str()
      ->check(CLI::Validator(check_lease, "", "lease"));
}

std::chrono::milliseconds lease_of(double seconds) noexcept {
  if (seconds == 0) return std::chrono::milliseconds(cluster::kNoLease_ms);
  return std::chrono::milliseconds(std::int64_t(seconds * 1000));
}

}  // namespace atoll::tools
