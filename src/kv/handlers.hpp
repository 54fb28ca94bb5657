// One function per command; those that differ in little share one.
#pragma once

#include "kv/command.hpp"

namespace atoll::kv {

/// What clients are told that they talk to: some look at it to know what they may use.
[[nodiscard]] std::string_view redis_version() noexcept;

namespace commands {

// strings (commands_string.cpp, commands_set.cpp)
void append(Call& call);
void decr(Call& call);
void decrby(Call& call);
void get(Call& call);
void getdel(Call& call);
void getex(Call& call);
void getrange(Call& call);
void getset(Call& call);
void incr(Call& call);
void incrby(Call& call);
void mget(Call& call);
void mset(Call& call);
void msetnx(Call& call);
void set(Call& call);
void setex(Call& call);  // and psetex
void setnx(Call& call);
void strlen(Call& call);

// keys (commands_key.cpp)
void del(Call& call);  // and unlink
void exists(Call& call);
void expire(Call& call);  // and pexpire, expireat, pexpireat
void expiretime(Call& call);
void persist(Call& call);
void pexpiretime(Call& call);
void pttl(Call& call);
void ttl(Call& call);
void type(Call& call);

// all keys (commands_map.cpp)
void dbsize(Session& session, Arguments arguments);
void flush(Session& session, Arguments arguments);
void keys(Session& session, Arguments arguments);
void randomkey(Session& session, Arguments arguments);
void scan(Session& session, Arguments arguments);

// the connection (commands_connection.cpp)
void auth(Session& session, Arguments arguments);
void client(Session& session, Arguments arguments);
void echo(Session& session, Arguments arguments);
void hello(Session& session, Arguments arguments);
void ping(Session& session, Arguments arguments);
void quit(Session& session, Arguments arguments);
void reset(Session& session, Arguments arguments);
void select(Session& session, Arguments arguments);

// transactions (transaction.cpp)
void discard(Session& session, Arguments arguments);
void exec(Session& session, Arguments arguments);
void multi(Session& session, Arguments arguments);
void unwatch(Session& session, Arguments arguments);
void watch(Session& session, Arguments arguments);

// the server (commands_server.cpp)
void command(Session& session, Arguments arguments);
void config(Session& session, Arguments arguments);
void info(Session& session, Arguments arguments);
void time(Session& session, Arguments arguments);

}  // namespace commands
}  // namespace atoll::kv
