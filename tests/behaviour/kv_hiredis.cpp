// Uses a cluster of `atoll kv serve` through hiredis: kv_hiredis PORT PORT. Exits with 1 and says why when an answer is
// not as it should be.
#include <hiredis/hiredis.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

namespace {

struct Free {
  void operator()(redisContext* context) const { redisFree(context); }
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};
using Context = std::unique_ptr<redisContext, Free>;
using Reply = std::unique_ptr<redisReply, Free>;

void expect(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "kv_hiredis: %s\n", what);
  std::exit(1);
}

Context connect(const char* port) {
  Context context(redisConnect("127.0.0.1", std::atoi(port)));
  expect(context != nullptr && context->err == 0, "cannot connect");
  return context;
}

template <typename... Args>
Reply ask(const Context& context, const char* format, Args... args) {
  Reply reply(static_cast<redisReply*>(redisCommand(context.get(), format, args...)));
  expect(reply != nullptr, "no reply");
  return reply;
}

bool is(const Reply& reply, int type, std::string_view text) {
  return reply->type == type && std::string_view(reply->str, reply->len) == text;
}

void strings(const Context& a, const Context& b) {
  const std::string value("\0\r\nbinary", 9);
  expect(is(ask(a, "SET %s %b", "key", value.data(), value.size()), REDIS_REPLY_STATUS, "OK"), "SET");
  expect(is(ask(b, "GET %s", "key"), REDIS_REPLY_STRING, value), "GET through the other node");
  expect(ask(b, "GET none")->type == REDIS_REPLY_NIL, "GET of what is not there");
  expect(ask(b, "INCRBY number 41")->integer == 41, "INCRBY");
  expect(ask(a, "INCR number")->integer == 42, "INCR");
  expect(is(ask(a, "GET"), REDIS_REPLY_ERROR, "ERR wrong number of arguments for 'get' command"), "an error");
}

void pipeline(const Context& a) {
  constexpr int kCount = 1000;
  for (int i = 0; i < kCount; ++i) {
    redisAppendCommand(a.get(), "SET p%d %d", i % 10, i);
    redisAppendCommand(a.get(), "GET p%d", i % 10);
  }
  for (int i = 0; i < kCount * 2; ++i) {
    void* got = nullptr;
    expect(redisGetReply(a.get(), &got) == REDIS_OK, "an answer of the pipeline");
    const Reply reply(static_cast<redisReply*>(got));
    expect(i % 2 == 0 ? is(reply, REDIS_REPLY_STATUS, "OK") : is(reply, REDIS_REPLY_STRING, std::to_string(i / 2)),
           "the pipeline's order");
  }
}

void transaction(const Context& a, const Context& b) {
  (void)ask(a, "MULTI");
  (void)ask(a, "MSET x 1 y 2");
  expect(is(ask(a, "INCR x"), REDIS_REPLY_STATUS, "QUEUED"), "QUEUED");
  const Reply done = ask(a, "EXEC");
  expect(done->type == REDIS_REPLY_ARRAY && done->elements == 2 && done->element[1]->integer == 2, "EXEC");
  const Reply both = ask(b, "MGET x y");
  expect(both->elements == 2 && std::string_view(both->element[0]->str) == "2", "MGET");
}

void about_itself(const Context& b) {
  const Reply hello = ask(b, "HELLO 2");
  expect(hello->type == REDIS_REPLY_ARRAY && hello->elements == 14, "HELLO 2");
  expect(ask(b, "CONFIG GET save")->elements == 2, "CONFIG GET");
  expect(ask(b, "INFO")->type == REDIS_REPLY_STRING, "INFO");
  expect(ask(b, "COMMAND")->elements > 40, "COMMAND");
  expect(ask(b, "COMMAND DOCS")->elements > 80, "COMMAND DOCS");
}

}  // namespace

int main(int argc, char** argv) {
  expect(argc == 3, "usage: kv_hiredis PORT PORT");
  const Context a = connect(argv[1]), b = connect(argv[2]);
  strings(a, b);
  pipeline(a);
  transaction(a, b);
  about_itself(b);
  return 0;
}
