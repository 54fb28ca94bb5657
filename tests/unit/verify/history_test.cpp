// The text of histories: what is written can be read back, and what makes no sense is refused with its line.
#include "verify/history.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.hpp"
#include "support/seed.hpp"

namespace atoll::verify {
namespace {

using testing::HasSubstr;

TEST(History, EachKindOfOperationComesBackFromItsText) {
  const char* const lines[] = {
      "0.0 1 2 k0 read = 7",
      "3.1 10 20 k4294967295 write 18446744073709551615",
      "65535.65535 0 0 k1 exchange 5 = 4",
      "0.1 100 250 k3 compare_exchange 5 7 = 5",
      "0.1 100 250 k3 fetch_add 2 = 40",
      "0.1 1 2 k9 read_lock",
      "0.1 1 2 k9 write_lock",
      "0.1 1 2 k9 try_read_lock = taken",
      "0.1 1 2 k9 try_write_lock = refused",
      "0.1 1 2 k9 unlock_read",
      "0.1 1 2 k9 unlock_write",
      "0.1 1 ? k9 unlock_write",
      "0.1 1 ? k9 try_write_lock",
      "0.1 1 ? k9 compare_exchange 1 2",
      "0.1 1 ? k9 read",
  };
  for (const char* line : lines) {
    const auto parsed = parse_operations(line);
    ASSERT_EQ(parsed.error, "") << line;
    ASSERT_EQ(parsed.all.size(), 1u) << line;
    EXPECT_EQ(to_string(parsed.all[0]), line);
  }
}

TEST(History, TransactionsComeBackFromTheirText) {
  for (const char* line : {"0.1 100 250 committed r3=5 w3=6", "0.1 100 ? unknown w18446744073709551615=6",
                           "0.1 100 101 aborted", "2.0 5 5 committed r1=0 r2=0"}) {
    const auto parsed = parse_transactions(line);
    ASSERT_EQ(parsed.error, "") << line;
    EXPECT_EQ(to_string(parsed.all.at(0)), line);
  }
}

TEST(History, WhatMakesNoSenseIsRefused) {
  const char* const lines[] = {
      "x",
      "0.0",
      "0 1 2 k0 read = 1",
      "0.0 1 2",
      "0.0 1 2 k0",
      "0.0 1 2 0 read = 1",
      "0.0 1 2 k read = 1",
      "0.0 1 2 k0 look = 1",
      "0.0 1 2 k0 read",
      "0.0 1 2 k0 read 1",
      "0.0 1 2 k0 read = ",
      "0.0 1 2 k0 read = -1",
      "0.0 1 2 k0 read = 18446744073709551616",
      "0.0 1 2 k0 read = 1 1",
      "0.0 1 ? k0 read = 1",
      "0.0 2 1 k0 read = 1",
      "0.0 -2 1 k0 read = 1",
      "65536.0 1 2 k0 read = 1",
      "0.0 1 2 k4294967296 read = 1",
      "0.0 1 2 k0 write",
      "0.0 1 2 k0 write 1 = 1",
      "0.0 1 2 k0 compare_exchange 1 = 1",
      "0.0 1 2 k0 try_read_lock",
      "0.0 1 2 k0 try_read_lock = maybe",
      "0.0 1 2 k0 write_lock = refused",
      "0.0 one 2 k0 write 1",
      "0.0 1 2 k0 write 0x1",
  };
  for (const char* line : lines) {
    const auto parsed = parse_operations(std::string("# a comment\n\n") + line + "\n");
    EXPECT_THAT(parsed.error, HasSubstr("line 3: ")) << line;
    EXPECT_TRUE(parsed.all.empty()) << line;
  }
  for (const char* line : {"0.0 1 2 done r1=1", "0.0 1 2 committed x1=1", "0.0 1 2 committed r1",
                           "0.0 1 2 committed r=1", "0.0 1 2 committed r1=", "0.0 2 1 committed", "0.0 1 2"}) {
    EXPECT_THAT(parse_transactions(line).error, HasSubstr("line 1: ")) << line;
  }
}

/// Bytes of all kinds and damaged lines: an answer, never a crash, and what is accepted is what it says.
TEST(History, TheParserTrustsNothing) {
  const std::uint64_t seed = test::fresh_seed();
  SCOPED_TRACE(test::repeat_with(seed));
  base::Random random(seed);
  const std::string good = "0.1 100 250 k3 compare_exchange 5 7 = 5\n2.0 5 ? k1 write 3\n";
  for (int round = 0; round < test::scaled(20000); ++round) {
    std::string text = good;
    for (std::uint64_t i = 0, number = 1 + random.below(4); i < number; ++i) {
      const std::size_t at = random.below(text.size());
      if (random.chance(0.3)) text.erase(at, 1 + random.below(5));
      if (!text.empty())
        text[random.below(text.size())] = char(random.chance(0.5) ? " .?k=0\n-"[random.below(8)] : random.next());
    }
    const auto parsed = parse_operations(text);
    for (const Operation& operation : parsed.all) {
      ASSERT_EQ(what_is_wrong(operation), nullptr);
      const auto again = parse_operations(to_string(operation));
      ASSERT_EQ(again.error, "") << to_string(operation);
      ASSERT_EQ(again.all.at(0), operation);
    }
    (void)parse_transactions(text);
  }
}

TEST(History, DeathMayFreeWhatWasHeld) {
  auto history = parse_operations(
                     "1.0 1 2 k1 read_lock\n1.0 3 4 k1 unlock_read\n"
                     "1.1 1 2 k1 read_lock\n"
                     "1.1 5 6 k2 try_write_lock = refused\n"
                     "1.2 5 ? k2 write_lock\n"
                     "0.0 1 2 k3 write_lock\n")
                     .all;
  const std::size_t before = history.size();
  release_by_death(history, 1, 10);
  ASSERT_EQ(history.size(), before + 2);
  EXPECT_EQ(to_string(history[before]), "1.1 10 ? k1 unlock_read");
  EXPECT_EQ(to_string(history[before + 1]), "1.2 10 ? k2 unlock_write");
}

}  // namespace
}  // namespace atoll::verify
