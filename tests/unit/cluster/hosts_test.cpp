#include "cluster/hosts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace atoll::cluster {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string refusal(const std::string& text) {
  try {
    return "took " + std::to_string(parse_hosts(text, "hosts").size());
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(Hosts, are_read_in_order) {
  const auto hosts = parse_hosts(
      "# the rack\n"
      "node1\n"
      "\n"
      "  user@10.0.0.2\tslots=3   # the large one\r\n"
      "[fe80::1%eth0] slots=2 env FI_PROVIDER=verbs EMPTY= A=b=c\n"
      "node1 env X=1",
      "hosts");
  ASSERT_EQ(hosts.size(), 4u);
  EXPECT_EQ(hosts[0].name, "node1");
  EXPECT_EQ(hosts[0].slots, 1);
  EXPECT_EQ(hosts[1].name, "user@10.0.0.2");
  EXPECT_EQ(hosts[1].slots, 3);
  EXPECT_EQ(hosts[2].name, "[fe80::1%eth0]");
  const std::map<std::string, std::string> variables = {{"FI_PROVIDER", "verbs"}, {"EMPTY", ""}, {"A", "b=c"}};
  EXPECT_EQ(hosts[2].environment, variables);
  EXPECT_EQ(hosts[3].environment.at("X"), "1");
  EXPECT_EQ(slots_of(hosts), 7);
}

TEST(Hosts, mistakes_are_named_with_their_line) {
  EXPECT_THAT(refusal("a\n\n# x\nb slots=0\n"), StartsWith("hosts:4: slots=0: give a number from 1 to 1024"));
  EXPECT_THAT(refusal("a slots=\n"), StartsWith("hosts:1: slots="));
  EXPECT_THAT(refusal("a slots=2x"), HasSubstr("slots=2x"));
  EXPECT_THAT(refusal("a slots=1025"), HasSubstr("slots=1025"));
  EXPECT_THAT(refusal("a 4"), HasSubstr("\"4\": give slots=N, or env NAME=VALUE"));
  EXPECT_THAT(refusal("a env 1X=2"), HasSubstr("give NAME=VALUE"));
  EXPECT_THAT(refusal("a env X"), HasSubstr("give NAME=VALUE"));
  EXPECT_THAT(refusal("a\nb env ATOLL_NODE=3"), StartsWith("hosts:2: ATOLL_NODE is set by"));
  EXPECT_THAT(refusal("a slots=600\nb slots=600"), StartsWith("hosts:2: 1200 slots by now"));
  EXPECT_EQ(refusal(""), "hosts names no host");
  EXPECT_EQ(refusal("# none\n\n"), "hosts names no host");
}

TEST(Hosts, nothing_but_a_host_reaches_ssh) {
  for (const char* bad :
       {"-oProxyCommand=reboot", "a;b", "a$(b)", "a'b", "a\"b", "a`b`", "a|b", "a/b", "a\\b", "\x01"}) {
    EXPECT_THAT(refusal(bad), HasSubstr("is no name or address of a host")) << bad;
  }
  EXPECT_THAT(refusal(std::string("a\0b", 3)), StartsWith("hosts:1: "));
  EXPECT_THAT(refusal(std::string(256, 'a')), HasSubstr("is no name or address"));
  EXPECT_THAT(refusal(std::string((1 << 20) + 1, '\n')), HasSubstr("larger than"));
}

TEST(Hosts, files_are_read) {
  const auto path = testing::TempDir() + "atoll-hosts-" + std::to_string(::getpid());
  std::ofstream(path) << "one slots=2\ntwo\n";
  EXPECT_EQ(slots_of(read_hosts(path)), 3);
  std::filesystem::remove(path);
  EXPECT_THROW((void)read_hosts(path), Error);
  EXPECT_THROW((void)read_hosts("/"), Error);
}

}  // namespace
}  // namespace atoll::cluster
