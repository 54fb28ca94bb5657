// Receive bytes of a client / expect the requests that are in them.
#include "kv/resp_parser.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace atoll::kv {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Request = std::vector<std::string>;

struct Parsed {
  std::vector<Request> requests;
  std::string error;
  std::size_t left = 0;  // bytes of a request that is not complete
};

/// Receives `bytes`, of which `step` more are there each time, at another place each time.
Parsed receive(const std::string& bytes, std::size_t step, const ParserLimits& limits = {}) {
  Parsed parsed;
  RespParser parser;
  std::size_t begin = 0, end = 0;
  while (end < bytes.size()) {
    end = std::min(end + step, bytes.size());
    while (true) {
      std::vector<char> moved(bytes.begin() + std::ptrdiff_t(begin), bytes.begin() + std::ptrdiff_t(end));
      const RespParser::Outcome outcome = parser.parse(moved.data(), moved.size(), limits);
      if (outcome == RespParser::Outcome::kMore) break;
      if (outcome == RespParser::Outcome::kError) {
        parsed.error = parser.error();
        return parsed;
      }
      parsed.requests.emplace_back(parser.arguments().begin(), parser.arguments().end());
      begin += parser.consumed();
      parser.next();
    }
  }
  parsed.left = end - begin;
  return parsed;
}

/// In one piece and byte by byte it must be the same.
Parsed receive(const std::string& bytes, const ParserLimits& limits = {}) {
  const Parsed whole = receive(bytes, bytes.size(), limits), slow = receive(bytes, 1, limits);
  EXPECT_EQ(whole.requests, slow.requests);
  EXPECT_EQ(whole.error, slow.error);
  return whole;
}

TEST(RespParser, ReceiveAnArrayExpectItsArguments) {
  EXPECT_THAT(receive("*3\r\n$3\r\nSET\r\n$1\r\na\r\n$0\r\n\r\n").requests, ElementsAre(Request{"SET", "a", ""}));
}

TEST(RespParser, ReceiveAnyBytesInAnArgumentExpectThem) {
  const std::string bytes("\0\r\n$\xff*", 6);
  EXPECT_THAT(receive("*1\r\n$6\r\n" + bytes + "\r\n").requests, ElementsAre(Request{bytes}));
}

TEST(RespParser, ReceiveAPipelineExpectEachRequest) {
  const Parsed parsed = receive("*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\nPING\r\n*1\r\n$4\r\nQUIT\r\n");
  EXPECT_THAT(parsed.requests, ElementsAre(Request{"PING"}, Request{"GET", "k"}, Request{"PING"}, Request{"QUIT"}));
  EXPECT_EQ(parsed.left, 0u);
}

TEST(RespParser, ReceiveHalfARequestExpectToWait) {
  const std::string whole = "*2\r\n$3\r\nGET\r\n$3\r\nabc\r\n";
  for (std::size_t length = 1; length < whole.size(); ++length) {
    const Parsed parsed = receive(whole.substr(0, length));
    EXPECT_THAT(parsed.requests, IsEmpty()) << length;
    EXPECT_EQ(parsed.error, "") << length;
  }
}

TEST(RespParser, ReceiveEmptyRequestsExpectNoArguments) {
  EXPECT_THAT(receive("*0\r\n*-1\r\n\r\n\n").requests, ElementsAre(Request{}, Request{}, Request{}, Request{}));
}

TEST(RespParser, ReceiveALineExpectItsWords) {
  EXPECT_THAT(receive("SET key value\r\n  GET   key \n").requests,
              ElementsAre(Request{"SET", "key", "value"}, Request{"GET", "key"}));
}

TEST(RespParser, ReceiveQuotesExpectWhatIsBetweenThem) {
  EXPECT_THAT(receive("a \"b c\\n\\x41\\\"\\q\" 'd \\' \"' \"\"\r\n").requests,
              ElementsAre(Request{"a", "b c\nA\"q", "d ' \"", ""}));
}

TEST(RespParser, ReceiveQuotesThatDoNotMatchExpectAnError) {
  for (const char* line : {"a \"b\r\n", "'a\r\n", "\"a\"b\r\n", "'a'b\r\n"}) {
    EXPECT_EQ(receive(line).error, "Protocol error: unbalanced quotes in request") << line;
  }
}

TEST(RespParser, ReceiveBadCountsExpectAnError) {
  for (const char* bytes :
       {"*x\r\n", "*\r\n", "*1x\r\n", "*1\rx", "*99999999999999999999\r\n", "*--1\r\n", "*65537\r\n"}) {
    EXPECT_EQ(receive(bytes).error, "Protocol error: invalid multibulk length") << bytes;
  }
}

TEST(RespParser, ReceiveBadLengthsExpectAnError) {
  for (const char* length : {"-1", "x", "", "104857600", "1048577", "99999999999999999999", "1x"}) {
    EXPECT_EQ(receive(std::string("*1\r\n$") + length + "\r\n").error, "Protocol error: invalid bulk length") << length;
  }
}

TEST(RespParser, ReceiveSomethingElseThanALengthExpectAnError) {
  EXPECT_EQ(receive("*1\r\nGET\r\n").error, "Protocol error: expected '$', got 'G'");
  EXPECT_EQ(receive("*1\r\n\x01").error, "Protocol error: expected '$', got '?'");
  EXPECT_EQ(receive("*1\r\n\xff").error, "Protocol error: expected '$', got '?'");
}

TEST(RespParser, ReceiveAnArgumentThatIsLongerThanItSaysExpectAnError) {
  EXPECT_THAT(receive("*1\r\n$1\r\nab\r\n").error, HasSubstr("expected CRLF"));
}

TEST(RespParser, ReceiveMoreThanARequestMayHaveExpectAnError) {
  const ParserLimits limits{10, 100, 50, false};
  EXPECT_EQ(receive("*2\r\n$30\r\n" + std::string(30, 'a') + "\r\n$30\r\n", limits).error,
            "Protocol error: the request is too large");
  EXPECT_EQ(receive("*11\r\n", limits).error, "Protocol error: invalid multibulk length");
}

TEST(RespParser, ReceiveMuchOfAStrangerExpectAnErrorThatSaysWhy) {
  const ParserLimits limits{10, 100, 1000, true};
  EXPECT_EQ(receive("*11\r\n", limits).error, "Protocol error: unauthenticated multibulk length");
  EXPECT_EQ(receive("*1\r\n$101\r\n", limits).error, "Protocol error: unauthenticated bulk length");
}

TEST(RespParser, ReceiveALineWithoutEndExpectAnError) {
  EXPECT_EQ(receive(std::string(70'000, 'a'), 1000).error, "Protocol error: too big inline request");
  std::string line(70'000, 'a');
  line.push_back('\n');
  EXPECT_EQ(receive(line, 100'000).error, "Protocol error: too big inline request");
}

TEST(RespParser, AnArgumentCanHaveAByteBeforeItWithoutACopy) {
  std::string bytes = "*2\r\n$3\r\nSET\r\n$5\r\nvalue\r\n";
  RespParser parser;
  ASSERT_EQ(parser.parse(bytes.data(), bytes.size(), {}), RespParser::Outcome::kRequest);
  const std::string_view prefixed = parser.prefixed(1, '\x07');
  EXPECT_EQ(prefixed, "\x07value");
  EXPECT_EQ(prefixed.data() + 1, parser.arguments()[1].data());
  EXPECT_EQ(parser.arguments()[0], "SET");
}

}  // namespace
}  // namespace atoll::kv
