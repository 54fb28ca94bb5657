#include "atoll/options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "atoll/address.hpp"
#include "atoll/status.hpp"

namespace atoll {
namespace {

/// An environment variable for the time of a scope.
class With {
 public:
  With(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~With() { ::unsetenv(name_); }
  With(const With&) = delete;

 private:
  const char* name_;
};

std::string why_refused() {
  try {
    (void)Options::from_environment();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Options, HaveDefaults) {
  const Options options = Options::from_environment();
  EXPECT_EQ(options.line_bytes, 512u);
  EXPECT_EQ(options.memory_bytes, 256ull << 20);
  EXPECT_EQ(options.consistency, Consistency::kPso);
  EXPECT_TRUE(options.read_in_place);
  EXPECT_TRUE(options.write_at_home);
  EXPECT_EQ(options.log, LogMode::kOff);
  EXPECT_EQ(options.log_dir, "");
  EXPECT_EQ(options.log_bytes, 256ull << 20);
}

TEST(Options, ComeFromTheEnvironment) {
  const With memory("ATOLL_MEMORY", "1G"), cache("ATOLL_CACHE", "128K"), line("ATOLL_LINE", "4096"),
      consistency("ATOLL_CONSISTENCY", "sc"), writes("ATOLL_OUTSTANDING_WRITES", "7"), spin("ATOLL_SPIN_NS", "5"),
      yield("ATOLL_YIELD_US", "6"), ahead("ATOLL_READ_AHEAD", "0"), in_place("ATOLL_READ_IN_PLACE", "off"),
      at_home("ATOLL_WRITE_AT_HOME", "off"), below("ATOLL_EVICT_BELOW", "10"), until("ATOLL_EVICT_UNTIL", "20"),
      transport("ATOLL_TRANSPORT", "tcp"), address("ATOLL_ADDRESS", "127.0.0.1"), log("ATOLL_LOG_MODE", "power"),
      log_dir("ATOLL_LOG_DIR", "/var/lib/a"), log_size("ATOLL_LOG_SIZE", "8M");
  const Options options = Options::from_environment();
  EXPECT_EQ(options.memory_bytes, 1ull << 30);
  EXPECT_EQ(options.cache_bytes, 128u << 10);
  EXPECT_EQ(options.line_bytes, 4096u);
  EXPECT_EQ(options.consistency, Consistency::kSc);
  EXPECT_EQ(options.outstanding_writes, 7u);
  EXPECT_EQ(options.spin_ns, 5u);
  EXPECT_EQ(options.yield_us, 6u);
  EXPECT_EQ(options.read_ahead_lines, 0u);
  EXPECT_FALSE(options.read_in_place);
  EXPECT_FALSE(options.write_at_home);
  EXPECT_EQ(options.evict_below_percent, 10u);
  EXPECT_EQ(options.evict_until_percent, 20u);
  EXPECT_EQ(options.transport, "tcp");
  EXPECT_EQ(options.address, "127.0.0.1");
  EXPECT_EQ(options.log, LogMode::kPower);
  EXPECT_EQ(options.log_dir, "/var/lib/a");
  EXPECT_EQ(options.log_bytes, 8u << 20);
}

TEST(Options, BadValuesAreNamed) {
  for (const char* name : {"ATOLL_MEMORY", "ATOLL_CACHE", "ATOLL_LINE", "ATOLL_OUTSTANDING_WRITES", "ATOLL_SPIN_NS",
                           "ATOLL_YIELD_US", "ATOLL_READ_AHEAD", "ATOLL_READ_IN_PLACE", "ATOLL_WRITE_AT_HOME",
                           "ATOLL_EVICT_BELOW", "ATOLL_EVICT_UNTIL", "ATOLL_LOG_MODE", "ATOLL_LOG_SIZE"}) {
    const With bad(name, "many");
    EXPECT_THAT(why_refused(), testing::HasSubstr(name));
    EXPECT_THAT(why_refused(), testing::HasSubstr("many"));
  }
  const With empty("ATOLL_TRANSPORT", "");
  EXPECT_THAT(why_refused(), testing::HasSubstr("ATOLL_TRANSPORT"));
  const With named("ATOLL_TRANSPORT", "tcp");
  const With bad("ATOLL_CONSISTENCY", "strict");
  EXPECT_THAT(why_refused(), testing::HasSubstr("pso, tso or sc"));
}

TEST(Options, LogModes) {
  for (const auto& [text, mode] : {std::pair("off", LogMode::kOff), {"process", LogMode::kProcess}}) {
    const With log("ATOLL_LOG_MODE", text);
    EXPECT_EQ(Options::from_environment().log, mode);
  }
  const With bad("ATOLL_LOG_MODE", "info");
  EXPECT_THAT(why_refused(), testing::HasSubstr("off, process or power"));
}

/// A number that does not fit its 32 bits must not become another one in silence. (It does: from_environment cuts it.)
TEST(Options, NumbersThatDoNotFitAreRefused) {
  for (const char* name :
       {"ATOLL_LINE", "ATOLL_OUTSTANDING_WRITES", "ATOLL_SPIN_NS", "ATOLL_YIELD_US", "ATOLL_READ_AHEAD"}) {
    const With bad(name, "4294967808");  // 2^32 + 512
    EXPECT_THAT(why_refused(), testing::HasSubstr(name));
  }
}

TEST(Status, SaysWhatWhereAndWhy) {
  EXPECT_EQ(Status().to_string(), "ok");
  EXPECT_EQ(Status(Errc::kNodeDied, "it is gone", 3).to_string(), "node died (node 3): it is gone");
  EXPECT_EQ(Status(Errc::kRefused).to_string(), "refused");
  EXPECT_THROW(Status(Errc::kRefused).or_throw(), Error);
  EXPECT_NO_THROW(Status().or_throw());
  const Result<int> none(Errc::kNotFound, "nothing");
  EXPECT_FALSE(none.ok());
  EXPECT_EQ(none.value_or(7), 7);
  EXPECT_THROW((void)none.value(), Error);
  for (int code = 0; code <= int(Errc::kStorageFull); ++code) {
    EXPECT_STRNE(to_string(Errc(code)), "unknown error");
  }
  EXPECT_STREQ(to_string(Errc(200)), "unknown error");
}

TEST(GlobalAddress, IsReadable) {
  EXPECT_EQ(GlobalAddress().to_string(), "null");
  EXPECT_EQ(GlobalAddress::make(2, 0x1a40).to_string(), "2:0x1a40");
  EXPECT_EQ(GlobalAddress::make(2, 0x10, GlobalAddress::Kind::kFile).to_string(), "2:file:0x10");
  EXPECT_EQ(GlobalAddress::make(2, 0x10) + 0x10, GlobalAddress::make(2, 0x20));
  EXPECT_EQ(GlobalAddress::make(2, 0x10) - GlobalAddress::make(2, 0x20), -0x10);
}

}  // namespace
}  // namespace atoll
