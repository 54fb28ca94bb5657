#include "kv/glob.hpp"

#include <gtest/gtest.h>

#include <string>

namespace atoll::kv {
namespace {

struct Case {
  const char *pattern, *text;
  bool matches;
};

TEST(Glob, MatchesAsRedisDoes) {
  // clang-format off
  constexpr Case kCases[] = {
      {"*", "", true},           {"*", "abc", true},        {"", "", true},            {"", "a", false},
      {"a*c", "abc", true},      {"a*c", "ac", true},       {"a*c", "abcd", false},    {"**a**", "xay", true},
      {"h?llo", "hello", true},  {"h?llo", "hllo", false},  {"h[ae]llo", "hallo", true}, {"h[ae]llo", "hillo", false},
      {"h[^e]llo", "hallo", true}, {"h[^e]llo", "hello", false}, {"h[a-c]llo", "hbllo", true}, {"h[c-a]llo", "hbllo", true},
      {"h[a-c]llo", "hdllo", false}, {"\\*", "*", true},    {"\\*", "a", false},       {"a\\", "a\\", true},
      {"[\\]]", "]", true},      {"[abc", "b", true},       {"[", "a", false},         {"user:*:name", "user:1:2:name", true},
      {"a*b*c", "aXbYbZc", true}, {"a*b*c", "aXbYbZ", false}, {"A", "a", false},       {"?", "", false},
  };
  // clang-format on
  for (const Case& each : kCases)
    EXPECT_EQ(glob_match(each.pattern, each.text), each.matches) << each.pattern << " " << each.text;
}

TEST(Glob, IgnoresCaseWhenAsked) {
  EXPECT_TRUE(glob_match("Max[A-C]*", "maxbfoo", true));
  EXPECT_FALSE(glob_match("max", "MAX", false));
}

TEST(Glob, ManyStarsEndSoon) {
  std::string pattern;
  for (int i = 0; i < 200; ++i) pattern += "a*";
  EXPECT_FALSE(glob_match(pattern + "b", std::string(5000, 'a')));
}

}  // namespace
}  // namespace atoll::kv
