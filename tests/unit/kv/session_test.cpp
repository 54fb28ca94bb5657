// Receive requests / expect answers: sessions on a map of a cluster in this process.
#include "support/kv_session.hpp"

#include <gmock/gmock.h>

#include "kv/sweeper.hpp"

namespace atoll::kv {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST_F(SessionTest, ReceiveAPipelineExpectAnswersInOrder) {
  EXPECT_EQ(client_.receive("SET a 1\r\nGET a\r\nINCR a\r\n"
                            "*3\r\n$3\r\nSET\r\n$1\r\nb\r\n$1\r\nx\r\n*2\r\n$3\r\nGET\r\n$1\r\nb\r\n"
                            "*3\r\n$3\r\nset\r\n$1\r\nb\r\n$1\r\ny\r\n*2\r\n$3\r\nget\r\n$1\r\nb\r\nDEL a b c\r\n"),
            "+OK\r\n$1\r\n1\r\n:2\r\n+OK\r\n$1\r\nx\r\n+OK\r\n$1\r\ny\r\n:2\r\n");
}

TEST_F(SessionTest, ReceiveManyOfAKindExpectAsManyAnswers) {
  std::string requests, expected;
  for (int i = 0; i < 100; ++i) {
    requests += fmt::format("*3\r\n$3\r\nSET\r\n$2\r\n{:02}\r\n$2\r\n{:02}\r\n", i, i);
    expected += "+OK\r\n";
  }
  for (int i = 0; i < 100; ++i) {
    requests += fmt::format("*2\r\n$3\r\nGET\r\n$2\r\n{:02}\r\n", i);
    expected += fmt::format("$2\r\n{:02}\r\n", i);
  }
  EXPECT_EQ(client_.receive(requests), expected);
}

TEST_F(SessionTest, ReceiveWhatIsNoRequestExpectAnErrorAndTheEnd) {
  EXPECT_EQ(client_.receive("SET a 1\r\n*1\r\n$-5\r\n"), "+OK\r\n-ERR Protocol error: invalid bulk length\r\n");
  EXPECT_TRUE(client_.session().closing());
  EXPECT_EQ(client_.receive("PING\r\n"), "");
}

TEST_F(SessionTest, ReceiveWhatIsNoRequestBehindABatchExpectBothAnswers) {
  EXPECT_EQ(client_.receive("*2\r\n$3\r\nGET\r\n$1\r\na\r\n\"\n"),
            "$-1\r\n-ERR Protocol error: unbalanced quotes in request\r\n");
  EXPECT_TRUE(client_.session().closing());
}

TEST_F(SessionTest, ReceiveUnknownOrIncompleteCommandsExpectWhatRedisSays) {
  EXPECT_EQ(client_.say("foo bar 'b c'"), "-ERR unknown command 'foo', with args beginning with: 'bar' 'b c' \r\n");
  EXPECT_EQ(client_.say("get"), "-ERR wrong number of arguments for 'get' command\r\n");
  EXPECT_EQ(client_.say("MSET a"), "-ERR wrong number of arguments for 'mset' command\r\n");
  EXPECT_EQ(client_.say("MSET a 1 b"), "-ERR wrong number of arguments for 'mset' command\r\n");
  EXPECT_EQ(client_.say("set a 1 EX"), "-ERR syntax error\r\n");
  EXPECT_EQ(client_.say("set a 1 NX XX"), "-ERR syntax error\r\n");
  EXPECT_EQ(client_.say("set a 1 EX 1 KEEPTTL"), "-ERR syntax error\r\n");
  EXPECT_EQ(client_.say("set a 1 EX 1 PX 1"), "-ERR syntax error\r\n");
  EXPECT_EQ(client_.say("set a 1 EX 0"), "-ERR invalid expire time in 'set' command\r\n");
  EXPECT_EQ(client_.say("set a 1 EX 9223372036854775807"), "-ERR invalid expire time in 'set' command\r\n");
  EXPECT_EQ(client_.say("set a 1 EX x"), "-ERR value is not an integer or out of range\r\n");
  EXPECT_EQ(client_.say("setex a 0 1"), "-ERR invalid expire time in 'setex' command\r\n");
  EXPECT_EQ(client_.say("incrby a x"), "-ERR value is not an integer or out of range\r\n");
  EXPECT_EQ(client_.say("select 1"), "-ERR DB index is out of range\r\n");
  EXPECT_EQ(client_.say("select abc"), "-ERR value is not an integer or out of range\r\n");
  EXPECT_EQ(client_.say("select 4294967296"),
            "-ERR value is out of range, value must between -2147483648 and 2147483647\r\n");
  EXPECT_EQ(client_.say("scan x"), "-ERR invalid cursor\r\n");
  EXPECT_EQ(client_.say("scan 0 COUNT 0"), "-ERR syntax error\r\n");
  EXPECT_EQ(client_.say("hello 4"), "-NOPROTO unsupported protocol version\r\n");
  EXPECT_EQ(client_.say("client foo"), "-ERR unknown subcommand 'foo'. Try CLIENT HELP.\r\n");
  EXPECT_EQ(client_.say("exists a"), ":0\r\n");
}

TEST_F(SessionTest, SetAndItsOptions) {
  EXPECT_EQ(client_.say("SET a 1 XX"), "$-1\r\n");
  EXPECT_EQ(client_.say("SET a 1 NX"), "+OK\r\n");
  EXPECT_EQ(client_.say("SET a 2 NX"), "$-1\r\n");
  EXPECT_EQ(client_.say("SET a 2 NX GET"), "$1\r\n1\r\n");
  EXPECT_EQ(client_.say("SET a 3 XX GET PX 5000"), "$1\r\n1\r\n");
  EXPECT_EQ(client_.say("PTTL a"), ":5000\r\n");
  EXPECT_EQ(client_.say("SET a 4 KEEPTTL"), "+OK\r\n");
  EXPECT_EQ(client_.say("PTTL a"), ":5000\r\n");
  EXPECT_EQ(client_.say("SET a 5"), "+OK\r\n");
  EXPECT_EQ(client_.say("PTTL a"), ":-1\r\n");
  EXPECT_EQ(client_.say("SET a 6 EXAT 1700000010"), "+OK\r\n");
  EXPECT_EQ(client_.say("TTL a"), ":10\r\n");
  EXPECT_EQ(client_.say("EXPIRETIME a"), ":1700000010\r\n");
  EXPECT_EQ(client_.say("PEXPIREAT a 1700000010499"), ":1\r\n");
  EXPECT_EQ(client_.say("EXPIRETIME a"), ":1700000010\r\n");
  EXPECT_EQ(client_.say("PEXPIREAT a 1700000010500"), ":1\r\n");
  EXPECT_EQ(client_.say("EXPIRETIME a"), ":1700000011\r\n") << "rounded, as TTL is";
  EXPECT_EQ(client_.say("PEXPIREAT a 9223372036854775807"), ":1\r\n");
  EXPECT_EQ(client_.say("EXPIRETIME a"), ":9223372036854776\r\n");
  EXPECT_EQ(client_.say("GETSET a 7"), "$1\r\n6\r\n");
  EXPECT_EQ(client_.say("TTL a"), ":-1\r\n");
  EXPECT_EQ(client_.say("GETDEL a"), "$1\r\n7\r\n");
  EXPECT_EQ(client_.say("GETDEL a"), "$-1\r\n");
  EXPECT_EQ(client_.say("SETNX a 1"), ":1\r\n");
  EXPECT_EQ(client_.say("SETNX a 2"), ":0\r\n");
  EXPECT_EQ(client_.say("MSETNX a 1 b 2"), ":0\r\n");
  EXPECT_EQ(client_.say("MSETNX b 1 c 2"), ":1\r\n");
  EXPECT_EQ(client_.say("MGET a b c d"), "*4\r\n$1\r\n1\r\n$1\r\n1\r\n$1\r\n2\r\n$-1\r\n");
  EXPECT_EQ(client_.say("MSET a 1 a 2"), "+OK\r\n");
  EXPECT_EQ(client_.say("DEL a a b b"), ":2\r\n");
}

TEST_F(SessionTest, OfOptionsThatComeTwiceTheLastCounts) {
  EXPECT_EQ(client_.say("SET a 1 EX 10 EX 20"), "+OK\r\n");
  EXPECT_EQ(client_.say("TTL a"), ":20\r\n");
  EXPECT_EQ(client_.say("SET a 1 EX abc EX 30 XX XX"), "+OK\r\n");
  EXPECT_EQ(client_.say("TTL a"), ":30\r\n");
  EXPECT_EQ(client_.say("SET a 1 EX 10 EX"), "-ERR syntax error\r\n");
  EXPECT_EQ(client_.say("GETEX a PX 10 PX 40000"), "$1\r\n1\r\n");
  EXPECT_EQ(client_.say("TTL a"), ":40\r\n");
  EXPECT_EQ(client_.say("GETEX a"), "$1\r\n1\r\n");
  EXPECT_EQ(client_.say("TTL a"), ":40\r\n");
  EXPECT_EQ(client_.say("GETEX a PERSIST PERSIST"), "$1\r\n1\r\n");
  EXPECT_EQ(client_.say("TTL a"), ":-1\r\n");
}

TEST_F(SessionTest, GetexOfNoKeyLooksAtTheSyntaxOnly) {
  for (const char* line : {"GETEX none EX abc", "GETEX none EX 0", "GETEX none EX 1 EX 2", "GETEX none PERSIST"}) {
    EXPECT_EQ(client_.say(line), "$-1\r\n") << line;
  }
  for (const char* line : {"GETEX none EX", "GETEX none foo", "GETEX none EX 1 PX 1", "GETEX none PERSIST EX 1"}) {
    EXPECT_EQ(client_.say(line), "-ERR syntax error\r\n") << line;
  }
  EXPECT_EQ(client_.say("SET a 1"), "+OK\r\n");
  EXPECT_EQ(client_.say("GETEX a EX abc"), "-ERR value is not an integer or out of range\r\n");
  EXPECT_EQ(client_.say("GETEX a EX 0"), "-ERR invalid expire time in 'getex' command\r\n");
  EXPECT_EQ(client_.say("GETEX a EXAT 1"), "$1\r\n1\r\n");
  EXPECT_EQ(client_.say("EXISTS a"), ":0\r\n");
}

TEST_F(SessionTest, NumbersAndParts) {
  EXPECT_EQ(client_.say("INCR n"), ":1\r\n");
  EXPECT_EQ(client_.say("INCRBY n 9223372036854775806"), ":9223372036854775807\r\n");
  EXPECT_EQ(client_.say("INCR n"), "-ERR increment or decrement would overflow\r\n");
  EXPECT_EQ(client_.say("DECRBY n -9223372036854775808"), "-ERR decrement would overflow\r\n");
  EXPECT_EQ(client_.say("DECRBY n 9223372036854775807"), ":0\r\n");
  EXPECT_EQ(client_.say("DECR n"), ":-1\r\n");
  EXPECT_EQ(client_.say("APPEND s Hello"), ":5\r\n");
  EXPECT_EQ(client_.say("APPEND s \" World\""), ":11\r\n");
  EXPECT_EQ(client_.say("INCR s"), "-ERR value is not an integer or out of range\r\n");
  EXPECT_EQ(client_.say("STRLEN s"), ":11\r\n");
  EXPECT_EQ(client_.say("GETRANGE s 0 4"), "$5\r\nHello\r\n");
  EXPECT_EQ(client_.say("GETRANGE s -5 -1"), "$5\r\nWorld\r\n");
  EXPECT_EQ(client_.say("GETRANGE s 5 100"), "$6\r\n World\r\n");
  EXPECT_EQ(client_.say("GETRANGE s 5 1"), "$0\r\n\r\n");
  EXPECT_EQ(client_.say("GETRANGE s -20 -15"), "$1\r\nH\r\n");
  EXPECT_EQ(client_.say("GETRANGE s -15 -20"), "$0\r\n\r\n");
  EXPECT_EQ(client_.say("GETRANGE none 0 -1"), "$0\r\n\r\n");
  EXPECT_EQ(client_.say("TYPE s"), "+string\r\n");
  EXPECT_EQ(client_.say("TYPE none"), "+none\r\n");
}

TEST_F(SessionTest, WhatHasExpiredIsAbsentToEveryCommand) {
  // Each is asked of a key of its own, which has expired and was never looked at since.
  const std::pair<const char*, const char*> kCases[] = {
      {"GET", "$-1\r\n"},    {"STRLEN", ":0\r\n"},  {"EXISTS", ":0\r\n"},     {"TTL", ":-2\r\n"},
      {"TYPE", "+none\r\n"}, {"GETDEL", "$-1\r\n"}, {"DEL", ":0\r\n"},        {"INCR", ":1\r\n"},
      {"PERSIST", ":0\r\n"}, {"GETEX", "$-1\r\n"},  {"MGET", "*1\r\n$-1\r\n"}};
  for (const auto& [command, answer] : kCases) {
    EXPECT_EQ(client_.say(fmt::format("SET {0} 7 PX 100", command)), "+OK\r\n");
  }
  EXPECT_EQ(client_.say("SET nx 1 PX 100"), "+OK\r\n");
  now_ += 100;
  EXPECT_EQ(client_.say("DBSIZE"), ":12\r\n");
  EXPECT_EQ(client_.say("KEYS *"), "*0\r\n");
  for (const auto& [command, answer] : kCases) EXPECT_EQ(client_.say(fmt::format("{0} {0}", command)), answer);
  EXPECT_EQ(client_.say("SETNX nx 2"), ":1\r\n");
  EXPECT_EQ(client_.say("TTL nx"), ":-1\r\n");
  EXPECT_EQ(client_.say("DBSIZE"), ":2\r\n") << "INCR and SETNX have made theirs anew; the others are erased";
}

TEST_F(SessionTest, ExpireAndItsOptions) {
  EXPECT_EQ(client_.say("EXPIRE a 10"), ":0\r\n");
  EXPECT_EQ(client_.say("SET a 1"), "+OK\r\n");
  EXPECT_EQ(client_.say("EXPIRE a 10 XX"), ":0\r\n");
  EXPECT_EQ(client_.say("EXPIRE a 10 GT"), ":0\r\n");
  EXPECT_EQ(client_.say("EXPIRE a 10 NX"), ":1\r\n");
  EXPECT_EQ(client_.say("EXPIRE a 20 NX"), ":0\r\n");
  EXPECT_EQ(client_.say("EXPIRE a 5 GT"), ":0\r\n");
  EXPECT_EQ(client_.say("PEXPIRE a 20000 GT"), ":1\r\n");
  EXPECT_EQ(client_.say("EXPIRE a 30 LT"), ":0\r\n");
  EXPECT_EQ(client_.say("EXPIREAT a 1700000007 LT XX"), ":1\r\n");
  EXPECT_EQ(client_.say("PTTL a"), ":7000\r\n");
  EXPECT_EQ(client_.say("INCR a"), ":2\r\n");
  EXPECT_EQ(client_.say("APPEND a 3"), ":2\r\n");
  EXPECT_EQ(client_.say("PTTL a"), ":7000\r\n");
  EXPECT_EQ(client_.say("PERSIST a"), ":1\r\n");
  EXPECT_EQ(client_.say("PERSIST a"), ":0\r\n");
  EXPECT_EQ(client_.say("GETEX a PX 10"), "$2\r\n23\r\n");
  EXPECT_EQ(client_.say("GETEX a PERSIST"), "$2\r\n23\r\n");
  EXPECT_EQ(client_.say("TTL a"), ":-1\r\n");
  EXPECT_EQ(client_.say("EXPIRE a 1 NX GT"),
            "-ERR NX and XX, GT or LT options at the same time are not compatible\r\n");
  EXPECT_EQ(client_.say("EXPIRE a 1 GT LT"), "-ERR GT and LT options at the same time are not compatible\r\n");
  EXPECT_EQ(client_.say("EXPIRE a 1 FOO"), "-ERR Unsupported option FOO\r\n");
  EXPECT_EQ(client_.say("EXPIRE a 9223372036854775807"), "-ERR invalid expire time in 'expire' command\r\n");
  EXPECT_EQ(client_.say("EXPIRE a -1"), ":1\r\n");
  EXPECT_EQ(client_.say("EXISTS a"), ":0\r\n");
}

TEST_F(SessionTest, TheSweeperErasesWhatNobodyAsksFor) {
  for (int i = 0; i < 1000; ++i) (void)client_.say(fmt::format("SET key{} v{}", i, i % 2 == 0 ? " PX 100" : ""));
  now_ += 1000;
  Sweeper sweeper(client_.worker());
  for (int tick = 0; tick < 10'000 && client_.say("DBSIZE") != ":500\r\n"; ++tick) (void)sweeper.tick();
  EXPECT_EQ(client_.say("DBSIZE"), ":500\r\n");
  EXPECT_THAT(client_.say("INFO stats"), HasSubstr("expired_keys:500\r\n"));
}

TEST_F(SessionTest, ScanTellsAllKeysSomeAtATime) {
  for (int i = 0; i < 500; ++i) (void)client_.say(fmt::format("SET key{} v", i));
  std::set<std::string> seen;
  std::string cursor = "0";
  do {
    std::istringstream answer(client_.say(fmt::format("SCAN {} COUNT 20 MATCH key* TYPE string", cursor)));
    std::string line;
    std::getline(answer, line);
    ASSERT_EQ(line, "*2\r");
    std::getline(answer, line);
    std::getline(answer, cursor);
    cursor.pop_back();
    std::getline(answer, line);
    EXPECT_LT(std::stoi(line.substr(1)), 200) << "bounded by COUNT";
    while (std::getline(answer, line) && std::getline(answer, line)) seen.insert(line);
  } while (cursor != "0");
  EXPECT_EQ(seen.size(), 500u);
  EXPECT_EQ(client_.say("SCAN 0 TYPE hash COUNT 10000"), "*2\r\n$1\r\n0\r\n*0\r\n");
  EXPECT_EQ(client_.say("KEYS key49?"), client_.say("KEYS key49[0-9]"));
  EXPECT_THAT(client_.say("RANDOMKEY"), HasSubstr("key"));
  EXPECT_EQ(client_.say("FLUSHALL ASYNC"), "+OK\r\n");
  EXPECT_EQ(client_.say("RANDOMKEY"), "$-1\r\n");
}

TEST_F(SessionTest, APatternThatIsTooLongIsRefused) {
  const std::string longest(1024, 'k'), longer(1025, '*');
  constexpr std::string_view kRefused = "-ERR the pattern is longer than 1024 bytes\r\n";
  (void)client_.ask({"SET", longest, "v"});
  EXPECT_THAT(client_.ask({"KEYS", longest}), StartsWith("*1\r\n"));
  EXPECT_EQ(client_.ask({"KEYS", longer}), kRefused);
  EXPECT_THAT(client_.ask({"SCAN", "0", "COUNT", "10000", "MATCH", longest}), HasSubstr(longest));
  EXPECT_EQ(client_.ask({"SCAN", "0", "MATCH", longer, "COUNT", "10"}), kRefused);
  EXPECT_EQ(client_.ask({"CONFIG", "GET", "save", longer}), kRefused);
}

TEST_F(SessionTest, RandomkeyFindsTheOnlyOneOfALargeTable) {
  for (int i = 0; i < 50'000; ++i) ASSERT_TRUE(map_.put(fmt::format("key{}", i), std::string_view("\0v", 2)).ok());
  EXPECT_EQ(client_.say("FLUSHALL"), "+OK\r\n");
  EXPECT_EQ(client_.say("SET lonely 1"), "+OK\r\n");
  for (int i = 0; i < 20; ++i) EXPECT_EQ(client_.say("RANDOMKEY"), "$6\r\nlonely\r\n");
  EXPECT_EQ(client_.say("PEXPIRE lonely 10"), ":1\r\n");
  now_ += 10;
  EXPECT_EQ(client_.say("RANDOMKEY"), "$-1\r\n");
}

TEST_F(SessionTest, WhatIsTooLargeForTheMapIsAnErrorAndNoMore) {
  EXPECT_EQ(client_.ask({"SET", std::string(1025, 'k'), "v"}), "-ERR the key is longer than 1024 bytes\r\n");
  EXPECT_EQ(client_.ask({"MGET", "a", std::string(1025, 'k')}), "-ERR the key is longer than 1024 bytes\r\n");
  EXPECT_EQ(client_.ask({"SET", std::string(1024, 'k'), "v"}), "+OK\r\n");
  EXPECT_EQ(client_.ask({"SET", "", "empty"}), "+OK\r\n");
  EXPECT_EQ(client_.ask({"GET", ""}), "$5\r\nempty\r\n");
  EXPECT_EQ(client_.ask({"SET", "a", std::string(kMaxStringBytes, 'v')}), "+OK\r\n");
  EXPECT_EQ(client_.say("STRLEN a"), fmt::format(":{}\r\n", kMaxStringBytes));
  EXPECT_THAT(client_.say("APPEND a x"), StartsWith("-ERR string exceeds maximum allowed size"));
  EXPECT_THAT(client_.ask({"SET", "a", std::string(kMaxStringBytes + 1, 'v')}),
              StartsWith("-ERR string exceeds maximum allowed size"));
  EXPECT_EQ(client_.say("STRLEN a"), fmt::format(":{}\r\n", kMaxStringBytes));
  EXPECT_EQ(client_.say("EXPIRE a 100"), ":1\r\n");
}

TEST_F(SessionTest, AFullMapIsAnErrorAndNoMore) {
  std::string answer = "+OK\r\n";
  int stored = 0;
  for (; stored < 100 && answer == "+OK\r\n"; ++stored) {
    answer = client_.ask({"SET", fmt::format("large{}", stored), std::string(1 << 19, 'v')});
  }
  EXPECT_EQ(answer, "-OOM command not allowed when used memory > 'maxmemory'.\r\n");
  EXPECT_THAT(client_.receive("*3\r\n$3\r\nSET\r\n$1\r\ns\r\n$1\r\n1\r\n*2\r\n$3\r\nGET\r\n$5\r\nempty\r\n"),
              HasSubstr("$-1\r\n"));
  EXPECT_EQ(client_.say("FLUSHALL"), "+OK\r\n");
  EXPECT_EQ(client_.say("SET s 1"), "+OK\r\n");
}

TEST_F(SessionTest, SetsOfABatchThatFailsAreToldEachForItself) {
  std::string answer = "+OK\r\n";
  const std::string large(1 << 19, 'v');
  EXPECT_EQ(client_.say("MSET a 1 b 1"), "+OK\r\n");
  for (int i = 0; i < 100 && answer == "+OK\r\n"; ++i) answer = client_.ask({"SET", fmt::format("large{}", i), large});
  constexpr std::string_view kOom = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
  EXPECT_EQ(answer, kOom);
  const auto set = [](std::string_view key, std::string_view value) {
    return fmt::format("*3\r\n$3\r\nSET\r\n$1\r\n{}\r\n${}\r\n{}\r\n", key, value.size(), value);
  };
  for (int i = 2; i < 5; ++i) {
    const std::string value = std::to_string(i);
    EXPECT_EQ(client_.receive(set("a", value) + set("x", large) + set("b", value)),
              fmt::format("+OK\r\n{}+OK\r\n", kOom));
    EXPECT_EQ(client_.say("MGET a x b"), fmt::format("*3\r\n$1\r\n{0}\r\n$-1\r\n$1\r\n{0}\r\n", value));
  }
}

TEST_F(SessionTest, AnswersThatAreNotTakenStopTheRequests) {
  (void)client_.ask({"SET", "a", std::string(900'000, 'v')});
  std::string requests;
  for (int i = 0; i < 300; ++i) requests += "*2\r\n$6\r\nSTRLEN\r\n$1\r\na\r\n*2\r\n$3\r\nGET\r\n$1\r\na\r\n";
  std::size_t total = client_.receive(requests).size();
  EXPECT_LT(total, 4u << 20);
  EXPECT_FALSE(client_.session().reply().overflowed());
  for (int i = 0; i < 400; ++i) total += client_.receive("").size();
  EXPECT_EQ(total, 300u * (9 + 900'000 + 11));
}

TEST_F(SessionTest, GetsOfLargeValuesWaitUntilTheClientTakesThem) {
  (void)client_.ask({"SET", "large", std::string(1'000'000, 'v')});
  (void)client_.ask({"SET", "small", "s"});
  std::string gets, expected;
  for (int i = 0; i < 40; ++i) {
    gets += i % 4 == 0 ? "*2\r\n$3\r\nGET\r\n$5\r\nlarge\r\n" : "*2\r\n$3\r\nGET\r\n$5\r\nsmall\r\n";
    expected += i % 4 == 0 ? "$1000000\r\n" + std::string(1'000'000, 'v') + "\r\n" : "$1\r\ns\r\n";
  }
  gets += "*1\r\n$4\r\nPING\r\n";
  expected += "+PONG\r\n";
  std::string all = client_.receive(gets);
  EXPECT_LT(all.size(), 2'100'000u) << "the pause, and one answer more";
  for (int i = 0; i < 40 && all.size() < expected.size(); ++i) {
    const std::string more = client_.receive("");
    EXPECT_LT(more.size(), 2'100'000u);
    all += more;
  }
  EXPECT_TRUE(all == expected);
}

TEST_F(SessionTest, AnAnswerBeyondTheLimitEndsTheClient) {
  (void)client_.ask({"SET", "a", std::string(900'000, 'v')});
  std::vector<std::string> words(20, "a");
  words[0] = "MGET";
  (void)client_.ask(words);
  EXPECT_TRUE(client_.session().reply().overflowed());
}

TEST_F(SessionTest, Resp3) {
  EXPECT_THAT(client_.say("HELLO 3 SETNAME me"), StartsWith("%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n"));
  EXPECT_EQ(client_.say("GET none"), "_\r\n");
  EXPECT_EQ(client_.say("CONFIG GET save"), "%1\r\n$4\r\nsave\r\n$0\r\n\r\n");
  EXPECT_THAT(client_.say("INFO clients"), StartsWith("="));
  EXPECT_EQ(client_.say("CLIENT GETNAME"), "$2\r\nme\r\n");
  EXPECT_THAT(client_.say("HELLO"), HasSubstr("proto\r\n:3\r\n"));
  EXPECT_THAT(client_.say("HELLO 2"), StartsWith("*14\r\n"));
  EXPECT_EQ(client_.say("RESET"), "+RESET\r\n");
  EXPECT_EQ(client_.say("CLIENT GETNAME"), "$-1\r\n");
}

TEST_F(SessionTest, TellsAboutItself) {
  EXPECT_EQ(client_.say("COMMAND COUNT"), fmt::format(":{}\r\n", all_commands().size()));
  EXPECT_THAT(client_.say("COMMAND"),
              StartsWith(fmt::format("*{}\r\n*10\r\n$6\r\nappend\r\n:3\r\n", all_commands().size())));
  EXPECT_THAT(client_.say("COMMAND LIST"), StartsWith(fmt::format("*{}\r\n", all_commands().size())));
  EXPECT_EQ(client_.say("COMMAND LIST x"), "-ERR syntax error\r\n");
  EXPECT_EQ(client_.say("COMMAND INFO nothing"), "*1\r\n$-1\r\n");
  EXPECT_THAT(client_.say("COMMAND DOCS get"), StartsWith("*2\r\n$3\r\nget\r\n*6\r\n"));
  EXPECT_THAT(client_.say("CONFIG GET max*"), HasSubstr("$10\r\nmaxclients\r\n$5\r\n10000\r\n"));
  EXPECT_EQ(client_.say("CONFIG GET save appendonly"),
            "*4\r\n$10\r\nappendonly\r\n$2\r\nno\r\n$4\r\nsave\r\n$0\r\n\r\n");
  EXPECT_EQ(client_.say("CONFIG GET SAVE Save a*"), "*4\r\n$10\r\nappendonly\r\n$2\r\nno\r\n$4\r\nSAVE\r\n$0\r\n\r\n");
  EXPECT_THAT(client_.say("CONFIG SET save x"), StartsWith("-ERR"));
  EXPECT_THAT(client_.say("INFO"), HasSubstr("redis_version:"));
  EXPECT_EQ(client_.say("CLIENT SETINFO LIB-NAME test"), "+OK\r\n");
  EXPECT_THAT(client_.ask({"CLIENT", "SETNAME", "a b"}), StartsWith("-ERR Client names cannot contain spaces"));
  EXPECT_THAT(client_.ask({"CLIENT", "SETNAME", std::string(257, 'n')}),
              StartsWith("-ERR Client names cannot be longer than 256 bytes."));
  EXPECT_THAT(client_.ask({"HELLO", "2", "SETNAME", std::string(257, 'n')}), StartsWith("-ERR Client names cannot"));
  EXPECT_EQ(client_.say("CLIENT GETNAME"), "$-1\r\n");
  EXPECT_EQ(client_.ask({"CLIENT", "SETNAME", std::string(256, 'n')}), "+OK\r\n");
  EXPECT_THAT(client_.say("CLIENT ID"), StartsWith(":"));
  EXPECT_EQ(client_.say("PING hi"), "$2\r\nhi\r\n");
  EXPECT_EQ(client_.say("TIME"), "*2\r\n$10\r\n1700000000\r\n$1\r\n0\r\n");
  EXPECT_EQ(client_.say("QUIT"), "+OK\r\n");
  EXPECT_TRUE(client_.session().closing());
}

TEST_F(SessionTest, WhatOthersPutIntoTheMapIsNotTakenForAValue) {
  ASSERT_TRUE(map_.put("other", "\x05not ours").ok());
  EXPECT_THAT(client_.say("GET other"), StartsWith("-ERR"));
  EXPECT_THAT(client_.ask({"GET", "other"}), StartsWith("-ERR"));
  EXPECT_THAT(client_.say("INCR other"), StartsWith("-ERR"));
  EXPECT_EQ(client_.say("KEYS *"), "*0\r\n");
}

TEST_F(SessionTest, ABrowserIsShownTheDoor) {
  EXPECT_EQ(client_.receive("POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nSET a 1\r\n"), "");
  EXPECT_TRUE(client_.session().closing());
  EXPECT_FALSE(*map_.contains("a"));
}

class PasswordTest : public SessionTest {
 protected:
  ServiceOptions with_password() {
    ServiceOptions made = service_options();
    made.password = "secret";
    return made;
  }
  Service guarded_{cluster_[0], map_, with_password()};
  Client stranger_{guarded_};
};

TEST_F(PasswordTest, ReceiveAnythingBeforeThePasswordExpectNoauth) {
  for (const Command& command : all_commands()) {
    if (command.has(kNoAuth)) continue;
    std::vector<std::string> words(std::size_t(std::abs(command.arity)), "1");
    words[0] = command.name;
    EXPECT_EQ(stranger_.ask(words), "-NOAUTH Authentication required.\r\n") << command.name;
  }
  EXPECT_EQ(stranger_.say("foo"), "-NOAUTH Authentication required.\r\n");
  EXPECT_THAT(stranger_.say("HELLO 3"), StartsWith("-NOAUTH HELLO must be called"));
}

TEST_F(PasswordTest, ReceiveThePasswordExpectToBeLetIn) {
  for (const char* wrong : {"AUTH secre", "AUTH secrets", "AUTH ''", "AUTH somebody secret", "AUTH secretsecret"}) {
    EXPECT_EQ(stranger_.say(wrong), "-WRONGPASS invalid username-password pair or user is disabled.\r\n") << wrong;
  }
  EXPECT_EQ(stranger_.receive("AUTH secret\r\nPING\r\n"), "+OK\r\n+PONG\r\n");
  EXPECT_EQ(stranger_.say("RESET"), "+RESET\r\n");
  EXPECT_EQ(stranger_.say("PING"), "-NOAUTH Authentication required.\r\n");
  EXPECT_THAT(stranger_.say("HELLO 3 AUTH default wrong"), StartsWith("-WRONGPASS"));
  EXPECT_THAT(stranger_.say("HELLO 3 AUTH default secret SETNAME x"), StartsWith("%7\r\n"));
  EXPECT_EQ(stranger_.say("PING"), "+PONG\r\n");
}

TEST_F(PasswordTest, AStrangerMayNotSendMuch) {
  EXPECT_EQ(stranger_.receive("*11\r\n"), "-ERR Protocol error: unauthenticated multibulk length\r\n");
  Client other(guarded_);
  EXPECT_EQ(other.receive("*2\r\n$4\r\nAUTH\r\n$20000\r\n"), "-ERR Protocol error: unauthenticated bulk length\r\n");
}

TEST_F(SessionTest, WithoutAPasswordAuthSaysSo) {
  EXPECT_THAT(client_.say("AUTH secret"), StartsWith("-ERR AUTH <password> called without any password configured"));
  EXPECT_EQ(client_.say("AUTH default x"), "+OK\r\n");
  EXPECT_THAT(client_.say("HELLO 2 AUTH default x"), StartsWith("*14\r\n"));
  EXPECT_EQ(client_.say("AUTH somebody x"), "-WRONGPASS invalid username-password pair or user is disabled.\r\n");
}

}  // namespace
}  // namespace atoll::kv
