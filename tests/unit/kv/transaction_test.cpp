// MULTI, EXEC and WATCH, and commands that change several keys.
#include <gmock/gmock.h>

#include "support/kv_session.hpp"

namespace atoll::kv {
namespace {

using ::testing::StartsWith;

class TransactionTest : public SessionTest {};

TEST_F(TransactionTest, ATransactionRunsAsAWhole) {
  EXPECT_EQ(client_.receive("MULTI\r\nSET a 1\r\nINCR a\r\nPING\r\nGET a\r\nINCR b c\r\n"),
            "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n"
            "-ERR wrong number of arguments for 'incr' command\r\n");
  EXPECT_EQ(client_.say("EXEC"), "-EXECABORT Transaction discarded because of previous errors.\r\n");
  EXPECT_EQ(client_.say("EXISTS a"), ":0\r\n");
  EXPECT_EQ(client_.receive("MULTI\r\nSET a x\r\nINCR a\r\nDBSIZE\r\nPING\r\nMGET a b\r\nEXEC\r\n"),
            "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n"
            "*5\r\n+OK\r\n-ERR value is not an integer or out of range\r\n:1\r\n+PONG\r\n*2\r\n$1\r\nx\r\n$-1\r\n");
  EXPECT_EQ(client_.receive("MULTI\r\nEXEC\r\nEXEC\r\nDISCARD\r\n"),
            "+OK\r\n*0\r\n-ERR EXEC without MULTI\r\n-ERR DISCARD without MULTI\r\n");
  EXPECT_EQ(client_.receive("MULTI\r\nMULTI\r\nSET a y\r\nDISCARD\r\nGET a\r\n"),
            "+OK\r\n-ERR MULTI calls can not be nested\r\n+QUEUED\r\n+OK\r\n$1\r\nx\r\n");
  EXPECT_EQ(client_.receive("MULTI\r\nFLUSHALL\r\nSET a z\r\nEXEC\r\nDBSIZE\r\n"),
            "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+OK\r\n+OK\r\n:1\r\n");
  EXPECT_EQ(client_.receive("MULTI\r\nAUTH x\r\nEXEC\r\n"),
            "+OK\r\n-ERR Command not allowed inside a transaction\r\n"
            "-EXECABORT Transaction discarded because of previous errors.\r\n");
}

TEST_F(TransactionTest, AWatchedKeyThatChangesStopsExec) {
  Client other(service_);
  EXPECT_EQ(client_.say("WATCH a b"), "+OK\r\n");
  EXPECT_EQ(other.say("SET b 1"), "+OK\r\n");
  EXPECT_EQ(client_.receive("MULTI\r\nSET a 1\r\nEXEC\r\n"), "+OK\r\n+QUEUED\r\n*-1\r\n");
  EXPECT_EQ(client_.say("EXISTS a"), ":0\r\n");
  EXPECT_EQ(client_.receive("WATCH b\r\nMULTI\r\nWATCH b\r\nINCR b\r\nEXEC\r\n"),
            "+OK\r\n+OK\r\n-ERR WATCH inside MULTI is not allowed\r\n+QUEUED\r\n*1\r\n:2\r\n");
  EXPECT_EQ(client_.receive("WATCH b\r\nINCR b\r\nUNWATCH\r\nMULTI\r\nGET b\r\nEXEC\r\n"),
            "+OK\r\n:3\r\n+OK\r\n+OK\r\n+QUEUED\r\n*1\r\n$1\r\n3\r\n");
  EXPECT_EQ(client_.receive("SET e 1 PX 50\r\nWATCH e\r\n"), "+OK\r\n+OK\r\n");
  now_ += 50;
  EXPECT_EQ(client_.receive("MULTI\r\nFLUSHALL\r\nEXEC\r\nDBSIZE\r\n"), "+OK\r\n+QUEUED\r\n*-1\r\n:2\r\n");
}

TEST_F(TransactionTest, ATransactionThatIsTooLargeIsRefused) {
  EXPECT_EQ(client_.say("MULTI"), "+OK\r\n");
  std::string answer;
  for (int i = 0; i < 40 && answer != "-ERR the transaction is too large\r\n"; ++i) {
    answer = client_.ask({"SET", "a", std::string(1 << 19, 'x')});
  }
  EXPECT_EQ(answer, "-ERR the transaction is too large\r\n");
  EXPECT_THAT(client_.say("EXEC"), StartsWith("-EXECABORT"));
}

TEST_F(TransactionTest, UnwatchMakesRoomAgain) {
  (void)client_.ask({"SET", "large", std::string(1 << 20, 'x')});
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(client_.say("WATCH large"), "+OK\r\n");
    EXPECT_EQ(client_.say("UNWATCH"), "+OK\r\n");
  }
  std::string answer;
  int watched = 0;
  for (; watched < 40 && answer != "-ERR the transaction is too large\r\n"; ++watched)
    answer = client_.say("WATCH large");
  EXPECT_EQ(watched, 16) << "the last was refused";
  EXPECT_EQ(client_.receive("WATCH a\r\nUNWATCH\r\nMULTI\r\nINCR a\r\nEXEC\r\n"),
            "+OK\r\n+OK\r\n+OK\r\n+QUEUED\r\n*1\r\n:1\r\n");
}

TEST_F(TransactionTest, AnAnswerBeyondTheLimitDoesNotStopIt) {
  (void)client_.ask({"SET", "large", std::string(900'000, 'v')});
  EXPECT_EQ(client_.say("MULTI"), "+OK\r\n");
  EXPECT_EQ(client_.say("INCR before"), "+QUEUED\r\n");
  for (int i = 0; i < 20; ++i) EXPECT_EQ(client_.say("GET large"), "+QUEUED\r\n");
  EXPECT_EQ(client_.say("INCR behind"), "+QUEUED\r\n");
  EXPECT_EQ(client_.say("DBSIZE"), "+QUEUED\r\n");
  EXPECT_EQ(client_.say("MSET x 1 y 2"), "+QUEUED\r\n");
  (void)client_.say("EXEC");
  EXPECT_TRUE(client_.session().reply().overflowed()) << "which ends the client";
  Client other(service_);
  EXPECT_EQ(other.say("MGET before behind x y"), "*4\r\n$1\r\n1\r\n$1\r\n1\r\n$1\r\n1\r\n$1\r\n2\r\n");
}

TEST_F(TransactionTest, ExecWithArgumentsEndsIt) {
  EXPECT_EQ(client_.receive("MULTI\r\nSET a 1\r\nEXEC x\r\nEXEC\r\nEXISTS a\r\n"),
            "+OK\r\n+QUEUED\r\n"
            "-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command\r\n"
            "-ERR EXEC without MULTI\r\n:0\r\n");
}

TEST_F(TransactionTest, ASubcommandThatIsWrongStopsExec) {
  const std::pair<const char*, const char*> kCases[] = {
      {"CLIENT foo", "-ERR unknown subcommand 'foo'. Try CLIENT HELP.\r\n"},
      {"COMMAND foo", "-ERR unknown subcommand 'foo'. Try COMMAND HELP.\r\n"},
      {"config Foo 1", "-ERR unknown subcommand 'Foo'. Try CONFIG HELP.\r\n"},
      {"CONFIG GET", "-ERR wrong number of arguments for 'config|get' command\r\n"},
      {"CONFIG SET a", "-ERR wrong number of arguments for 'config|set' command\r\n"},
      {"COMMAND COUNT x", "-ERR wrong number of arguments for 'command|count' command\r\n"},
      {"client setname", "-ERR wrong number of arguments for 'client|setname' command\r\n"}};
  for (const auto& [line, answer] : kCases) {
    EXPECT_EQ(client_.say(line), answer);
    EXPECT_EQ(
        client_.receive(fmt::format("MULTI\r\n{}\r\nINCR a\r\nEXEC\r\n", line)),
        fmt::format("+OK\r\n{}+QUEUED\r\n-EXECABORT Transaction discarded because of previous errors.\r\n", answer));
  }
  EXPECT_EQ(client_.receive("MULTI\r\nCOMMAND\r\nCLIENT ID\r\nCONFIG GET save\r\nDISCARD\r\nEXISTS a\r\n"),
            "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+OK\r\n:0\r\n");
}

TEST_F(TransactionTest, CommandsSeeWhatThoseBeforeThemDid) {
  EXPECT_EQ(client_.say("SET gone 1"), "+OK\r\n");
  EXPECT_EQ(
      client_.receive("MULTI\r\nGET a\r\nSET a 1\r\nAPPEND a 2\r\nINCR a\r\nMGET a a gone\r\nDEL a gone\r\n"
                      "EXISTS a gone\r\nSETNX a 5\r\nMSET a 6 gone 7\r\nMGET a gone\r\nEXEC\r\n"),
      "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n"
      "+QUEUED\r\n+QUEUED\r\n*10\r\n$-1\r\n+OK\r\n:2\r\n:13\r\n*3\r\n$2\r\n13\r\n$2\r\n13\r\n$1\r\n1\r\n:2\r\n:0\r\n"
      ":1\r\n+OK\r\n*2\r\n$1\r\n6\r\n$1\r\n7\r\n");
  EXPECT_EQ(client_.say("MGET a gone"), "*2\r\n$1\r\n6\r\n$1\r\n7\r\n");
}

TEST_F(TransactionTest, AValueThatIsTooLongStopsMsetBeforeItBegins) {
  EXPECT_EQ(client_.say("SET a 1"), "+OK\r\n");
  const std::string large(kMaxStringBytes + 1, 'v');
  EXPECT_THAT(client_.ask({"MSET", "a", "2", "b", "2", "c", large}), StartsWith("-ERR string exceeds"));
  EXPECT_THAT(client_.ask({"MSETNX", "b", "2", "c", large}), StartsWith("-ERR string exceeds"));
  EXPECT_THAT(client_.ask({"MSET", "a", "2", std::string(1025, 'k'), "2"}), StartsWith("-ERR the key is longer"));
  EXPECT_EQ(client_.say("MGET a b c"), "*3\r\n$1\r\n1\r\n$-1\r\n$-1\r\n");
}

TEST_F(TransactionTest, MsetThatFindsNoMemoryIsUndone) {
  constexpr std::string_view kOom = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
  const std::string large(1 << 19, 'v');
  EXPECT_EQ(client_.say("MSET small 1 small2 1"), "+OK\r\n");
  std::string answer = "+OK\r\n";
  for (int i = 0; i < 100 && answer == "+OK\r\n"; ++i) answer = client_.ask({"SET", fmt::format("large{}", i), large});
  EXPECT_EQ(answer, kOom);
  EXPECT_EQ(client_.say("DEL large0 large1"), ":2\r\n");
  const std::string size = client_.say("DBSIZE");
  EXPECT_EQ(client_.ask({"MSET", "small", "2", "new", large, "new", large, "new2", large, "new3", large}), kOom);
  EXPECT_EQ(client_.ask({"MSETNX", "new", "2", "new2", large, "new3", large, "new4", large}), kOom);
  EXPECT_EQ(client_.ask({"MSET", "small", "2", "small2", large, "large2", large + "1", "large3", large + "1"}), kOom);
  EXPECT_EQ(client_.say("MGET small small2 new new2 new3"), "*5\r\n$1\r\n1\r\n$1\r\n1\r\n$-1\r\n$-1\r\n$-1\r\n");
  EXPECT_EQ(client_.say("DBSIZE"), size);
  EXPECT_EQ(client_.ask({"MSET", "small", "2", "new", large}), "+OK\r\n") << "the memory is free again";
}

}  // namespace
}  // namespace atoll::kv
