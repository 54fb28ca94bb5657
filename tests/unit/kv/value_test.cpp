#include "kv/value.hpp"

#include <gtest/gtest.h>

namespace atoll::kv {
namespace {

TEST(Value, ComesBackAsItWas) {
  for (const std::string& value : {std::string(), std::string("abc"), std::string("\0\1\2", 3)}) {
    for (const std::int64_t time : {kNever, std::int64_t(1), std::int64_t(1'700'000'000'123)}) {
      std::string stored = "what was there";
      encode(value, time, stored);
      const std::optional<Item> item = decode(stored);
      ASSERT_TRUE(item.has_value());
      EXPECT_EQ(item->value, value);
      EXPECT_EQ(item->expires_at, time);
    }
  }
}

TEST(Value, OneThatNeverExpiresCostsOneByteMore) {
  std::string stored;
  encode(std::string(100, 'x'), kNever, stored);
  EXPECT_EQ(stored.size(), 101u);
  EXPECT_EQ(stored.front(), kPlainTag);
}

TEST(Value, WhatIsNoneIsNotTakenForOne) {
  for (const std::string& stored : {std::string(), std::string("\2abc"), std::string("\1abcdefg"), std::string("\1")}) {
    EXPECT_FALSE(decode(stored).has_value());
  }
}

}  // namespace
}  // namespace atoll::kv
