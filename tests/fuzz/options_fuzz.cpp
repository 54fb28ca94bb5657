// The environment of a node, and sizes as people write them.
//
//   input = lines: a letter for the variable, then its value
#include <charconv>
#include <string>
#include <vector>

#include "atoll/options.hpp"
#include "atoll/status.hpp"
#include "base/units.hpp"
#include "cluster/membership.hpp"
#include "fuzz.hpp"

namespace atoll::fuzz {
namespace {

constexpr const char* kNames[] = {
    "ATOLL_MEMORY",        "ATOLL_CACHE",       "ATOLL_LINE",        "ATOLL_CONSISTENCY",
    "ATOLL_SPIN_NS",       "ATOLL_YIELD_US",    "ATOLL_READ_AHEAD",  "ATOLL_OUTSTANDING_WRITES",
    "ATOLL_MASTER",        "ATOLL_NODE",        "ATOLL_NODES",       "ATOLL_READ_IN_PLACE",
    "ATOLL_WRITE_AT_HOME", "ATOLL_EVICT_BELOW", "ATOLL_EVICT_UNTIL", "ATOLL_TRANSPORT",
    "ATOLL_ADDRESS",       "ATOLL_LOG_MODE",    "ATOLL_LOG_DIR",     "ATOLL_LOG_SIZE"};

void set_environment(std::string_view text) {
  for (const char* name : kNames) ::unsetenv(name);
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string line(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.empty()) continue;
    const auto which = static_cast<unsigned char>(line[0]) % std::size(kNames);
    // A NUL ends the value, as it would in a real environment.
    ::setenv(kNames[which], line.c_str() + 1, 1);
  }
}

/// A size says the same when it is written again, and a unit multiplies by what it should.
void check_size(std::string_view text) {
  const auto parsed = base::parse_bytes(text);
  if (!parsed.ok()) {
    ATOLL_FUZZ_CHECK(parsed.status().code() == Errc::kInvalidArgument);
    return;
  }
  const auto again = base::parse_bytes(std::to_string(*parsed));
  ATOLL_FUZZ_CHECK(again.ok() && *again == *parsed);
  std::uint64_t digits = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), digits);
  ATOLL_FUZZ_CHECK(error == std::errc{} && (digits == 0 ? *parsed == 0 : *parsed % digits == 0));
  ATOLL_FUZZ_CHECK(*parsed >= digits && !base::format_bytes(*parsed).empty());
}

/// Joins whatever the environment names: nobody listens there, so that it is an error with words, or a cluster of one.
void check_membership(const Options& options) {
  try {
    const auto membership = cluster::Membership::connect(options);
    ATOLL_FUZZ_CHECK(std::getenv("ATOLL_MASTER") == nullptr);
    ATOLL_FUZZ_CHECK(membership->count() == 1 && membership->id() == 0);
  } catch (const Error& error) {
    ATOLL_FUZZ_CHECK(*error.what() != '\0' && std::getenv("ATOLL_MASTER") != nullptr);
  }
}

}  // namespace
}  // namespace atoll::fuzz

using namespace atoll;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::quiet_logging();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  fuzz::check_size(text);
  fuzz::set_environment(text);
  Options options;
  try {
    options = Options::from_environment();
    ATOLL_FUZZ_CHECK(options.consistency != Consistency::kDefault);
  } catch (const Error& error) {
    ATOLL_FUZZ_CHECK(*error.what() != '\0');
  }
  options.join_timeout = std::chrono::milliseconds(0);
  fuzz::check_membership(options);
  return 0;
}
