#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "kv/command.hpp"
#include "kv/execute.hpp"

namespace atoll::kv {
namespace {

using ::testing::ElementsAre;

TEST(CommandTable, IsInOrderWithOneRowEach) {
  const auto commands = all_commands();
  for (std::size_t i = 1; i < commands.size(); ++i) EXPECT_LT(commands[i - 1].name, commands[i].name);
}

TEST(CommandTable, EveryRowIsSound) {
  for (const Command& command : all_commands()) {
    SCOPED_TRACE(command.name);
    EXPECT_TRUE((command.on_keys == nullptr) != (command.on_session == nullptr));
    EXPECT_EQ(command.on_keys != nullptr, command.first_key > 0);
    EXPECT_NE(command.arity, 0);
    EXPECT_FALSE(command.summary.empty());
    EXPECT_FALSE(command.group.empty());
    EXPECT_LE(command.name.size(), kMaxNameBytes);
    // find_command folds the case of letters only.
    EXPECT_TRUE(std::all_of(command.name.begin(), command.name.end(), [](char c) { return c >= 'a' && c <= 'z'; }));
    if (command.first_key > 0) {
      EXPECT_GT(std::abs(command.arity), command.first_key);
      EXPECT_GT(command.key_step, 0);
    }
  }
}

TEST(CommandTable, FindsEachInAnyCaseAndNothingElse) {
  for (const Command& command : all_commands()) {
    std::string upper(command.name);
    std::transform(upper.begin(), upper.end(), upper.begin(), [](char c) { return char(c - 'a' + 'A'); });
    EXPECT_EQ(find_command(command.name), &command);
    EXPECT_EQ(find_command(upper), &command);
    EXPECT_EQ(find_command(upper + "X"), nullptr);
    EXPECT_EQ(find_command(upper + std::string(1, '\0')), nullptr);
  }
  for (const std::string_view name : {"", "ge", "gett", "a name that is far too long to be one", "GE\x74 "}) {
    EXPECT_EQ(find_command(name), nullptr);
  }
}

TEST(CommandTable, ArityCountsTheName) {
  EXPECT_TRUE(find_command("get")->takes(2));
  EXPECT_FALSE(find_command("get")->takes(3));
  EXPECT_TRUE(find_command("set")->takes(7));
  EXPECT_FALSE(find_command("set")->takes(2));
}

TEST(CommandTable, KnowsWhereTheKeysAre) {
  const auto keys_of = [](std::vector<std::string_view> arguments) {
    std::vector<std::string_view> keys;
    add_keys(*find_command(arguments[0]), arguments, keys);
    return keys;
  };
  EXPECT_THAT(keys_of({"mset", "a", "1", "b", "2"}), ElementsAre("a", "b"));
  EXPECT_THAT(keys_of({"del", "a", "b", "c"}), ElementsAre("a", "b", "c"));
  EXPECT_THAT(keys_of({"set", "a", "1", "EX", "2"}), ElementsAre("a"));
  EXPECT_THAT(keys_of({"ping"}), ElementsAre());
}

TEST(Integers, AreTakenAsRedisTakesThem) {
  std::int64_t value = 0;
  for (const std::string_view good : {"0", "-1", "9223372036854775807", "-9223372036854775808"}) {
    EXPECT_TRUE(parse_integer(good, value)) << good;
  }
  for (const std::string_view bad : {"", "-", "+1", " 1", "1 ", "01", "-0", "1.0", "9223372036854775808", "abc"}) {
    EXPECT_FALSE(parse_integer(bad, value)) << bad;
  }
}

}  // namespace
}  // namespace atoll::kv
