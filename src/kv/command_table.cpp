#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <cstring>

#include "kv/handlers.hpp"

namespace atoll::kv {
namespace {

constexpr KeyHandler kNoKeys = nullptr;
constexpr SessionHandler kOnKeys = nullptr;
using namespace commands;  // NOLINT: the table is about nothing else

// clang-format off
constexpr Command kCommands[] = {
    // name         arity flags                            keys      on keys      on the session  group          summary
    {"append",       3, kWrites | kFast,                   1,  1, 1, append,      kOnKeys,   "string",       "Appends to the value of a key"},
    {"auth",        -2, kNoAuth | kNotQueued | kFast,      0,  0, 0, kNoKeys,     auth,      "connection",   "Gives the password"},
    {"client",      -2, kContainer,                        0,  0, 0, kNoKeys,     client,    "connection",   "Names the connection, and tells its name and number"},
    {"command",     -1, kContainer | kSlow,                0,  0, 0, kNoKeys,     command,   "server",       "Tells about the commands"},
    {"config",      -2, kContainer,                        0,  0, 0, kNoKeys,     config,    "server",       "Tells settings"},
    {"dbsize",       1, kWholeMap | kFast,                 0,  0, 0, kNoKeys,     dbsize,    "server",       "Tells how many keys there are"},
    {"decr",         2, kWrites | kFast,                   1,  1, 1, decr,        kOnKeys,   "string",       "Subtracts one from the number of a key"},
    {"decrby",       3, kWrites | kFast,                   1,  1, 1, decrby,      kOnKeys,   "string",       "Subtracts from the number of a key"},
    {"del",         -2, kWrites,                           1, -1, 1, del,         kOnKeys,   "generic",      "Deletes keys"},
    {"discard",      1, kAtOnce | kFast,                   0,  0, 0, kNoKeys,     discard,   "transactions", "Forgets the commands since MULTI"},
    {"echo",         2, kFast,                             0,  0, 0, kNoKeys,     echo,      "connection",   "Tells what it was given"},
    {"exec",         1, kAtOnce | kSlow,                   0,  0, 0, kNoKeys,     exec,      "transactions", "Runs the commands since MULTI as one step"},
    {"exists",      -2, kFast,                             1, -1, 1, exists,      kOnKeys,   "generic",      "Tells how many of the keys there are"},
    {"expire",      -3, kWrites | kFast,                   1,  1, 1, expire,      kOnKeys,   "generic",      "Lets a key expire in seconds"},
    {"expireat",    -3, kWrites | kFast,                   1,  1, 1, expire,      kOnKeys,   "generic",      "Lets a key expire at a time in seconds"},
    {"expiretime",   2, kFast,                             1,  1, 1, expiretime,  kOnKeys,   "generic",      "Tells when a key expires, in seconds"},
    {"flushall",    -1, kWrites | kWholeMap | kSlow,       0,  0, 0, kNoKeys,     flush,     "server",       "Deletes all keys"},
    {"flushdb",     -1, kWrites | kWholeMap | kSlow,       0,  0, 0, kNoKeys,     flush,     "server",       "Deletes all keys"},
    {"get",          2, kFast,                             1,  1, 1, get,         kOnKeys,   "string",       "Tells the value of a key"},
    {"getdel",       2, kWrites | kFast,                   1,  1, 1, getdel,      kOnKeys,   "string",       "Tells the value of a key and deletes it"},
    {"getex",       -2, kWrites | kFast,                   1,  1, 1, getex,       kOnKeys,   "string",       "Tells the value of a key and sets when it expires"},
    {"getrange",     4, 0,                                 1,  1, 1, getrange,    kOnKeys,   "string",       "Tells a part of the value of a key"},
    {"getset",       3, kWrites | kFast,                   1,  1, 1, getset,      kOnKeys,   "string",       "Tells the value of a key and sets another"},
    {"hello",       -1, kNoAuth | kNotQueued | kFast,      0,  0, 0, kNoKeys,     hello,     "connection",   "Chooses the version of the protocol"},
    {"incr",         2, kWrites | kFast,                   1,  1, 1, incr,        kOnKeys,   "string",       "Adds one to the number of a key"},
    {"incrby",       3, kWrites | kFast,                   1,  1, 1, incrby,      kOnKeys,   "string",       "Adds to the number of a key"},
    {"info",        -1, kWholeMap,                         0,  0, 0, kNoKeys,     info,      "server",       "Tells about the server"},
    {"keys",         2, kWholeMap | kSlow,                 0,  0, 0, kNoKeys,     commands::keys, "generic", "Tells all keys that match a pattern"},
    {"mget",        -2, kFast,                             1, -1, 1, mget,        kOnKeys,   "string",       "Tells the values of keys, as of one moment"},
    {"mset",        -3, kWrites,                           1, -1, 2, mset,        kOnKeys,   "string",       "Sets the values of keys, as one step"},
    {"msetnx",      -3, kWrites,                           1, -1, 2, msetnx,      kOnKeys,   "string",       "Sets the values of keys if none of them is there, as one step"},
    {"multi",        1, kAtOnce | kFast,                   0,  0, 0, kNoKeys,     multi,     "transactions", "Begins a transaction"},
    {"persist",      2, kWrites | kFast,                   1,  1, 1, persist,     kOnKeys,   "generic",      "Lets a key never expire"},
    {"pexpire",     -3, kWrites | kFast,                   1,  1, 1, expire,      kOnKeys,   "generic",      "Lets a key expire in milliseconds"},
    {"pexpireat",   -3, kWrites | kFast,                   1,  1, 1, expire,      kOnKeys,   "generic",      "Lets a key expire at a time in milliseconds"},
    {"pexpiretime",  2, kFast,                             1,  1, 1, pexpiretime, kOnKeys,   "generic",      "Tells when a key expires, in milliseconds"},
    {"ping",        -1, kFast,                             0,  0, 0, kNoKeys,     ping,      "connection",   "Answers PONG"},
    {"psetex",       4, kWrites | kFast,                   1,  1, 1, setex,       kOnKeys,   "string",       "Sets the value of a key that expires in milliseconds"},
    {"pttl",         2, kFast,                             1,  1, 1, pttl,        kOnKeys,   "generic",      "Tells in how many milliseconds a key expires"},
    {"quit",        -1, kNoAuth | kAtOnce | kFast,         0,  0, 0, kNoKeys,     quit,      "connection",   "Ends the connection"},
    {"randomkey",    1, kWholeMap | kSlow,                 0,  0, 0, kNoKeys,     randomkey, "generic",      "Tells any key"},
    {"reset",        1, kNoAuth | kAtOnce | kFast,         0,  0, 0, kNoKeys,     reset,     "connection",   "Makes the connection as it was at first"},
    {"scan",        -2, kWholeMap | kSlow,                 0,  0, 0, kNoKeys,     scan,      "generic",      "Tells the keys, some at a time"},
    {"select",       2, kFast,                             0,  0, 0, kNoKeys,     select,    "connection",   "Chooses the database, of which there is one"},
    {"set",         -3, kWrites | kFast,                   1,  1, 1, set,         kOnKeys,   "string",       "Sets the value of a key"},
    {"setex",        4, kWrites | kFast,                   1,  1, 1, setex,       kOnKeys,   "string",       "Sets the value of a key that expires in seconds"},
    {"setnx",        3, kWrites | kFast,                   1,  1, 1, setnx,       kOnKeys,   "string",       "Sets the value of a key if it is not there"},
    {"strlen",       2, kFast,                             1,  1, 1, commands::strlen, kOnKeys, "string",    "Tells the length of the value of a key"},
    {"substr",       4, 0,                                 1,  1, 1, getrange,    kOnKeys,   "string",       "Tells a part of the value of a key"},
    {"time",         1, kFast,                             0,  0, 0, kNoKeys,     commands::time, "server",  "Tells the time"},
    {"touch",       -2, kFast,                             1, -1, 1, exists,      kOnKeys,   "generic",      "Tells how many of the keys there are"},
    {"ttl",          2, kFast,                             1,  1, 1, ttl,         kOnKeys,   "generic",      "Tells in how many seconds a key expires"},
    {"type",         2, kFast,                             1,  1, 1, type,        kOnKeys,   "generic",      "Tells what kind of value a key has"},
    {"unlink",      -2, kWrites | kFast,                   1, -1, 1, del,         kOnKeys,   "generic",      "Deletes keys"},
    {"unwatch",      1, kFast,                             0,  0, 0, kNoKeys,     unwatch,   "transactions", "Forgets the keys of WATCH"},
    {"watch",       -2, kAtOnce | kFast,                   0,  0, 0, kNoKeys,     watch,     "transactions", "Makes EXEC do nothing if a key changes before"},
};
// clang-format on

struct Subcommand {
  std::string_view of, name;  // both in upper case
  int arity;                  // with both names; negative: at least so many
};
constexpr Subcommand kSubcommands[] = {
    {"CLIENT", "GETNAME", 2}, {"CLIENT", "ID", 2},        {"CLIENT", "SETINFO", 4}, {"CLIENT", "SETNAME", 3},
    {"COMMAND", "COUNT", 2},  {"COMMAND", "DOCS", -2},    {"COMMAND", "INFO", -2},  {"COMMAND", "LIST", -2},
    {"CONFIG", "GET", -3},    {"CONFIG", "RESETSTAT", 2}, {"CONFIG", "REWRITE", 2}, {"CONFIG", "SET", -4},
};

std::string in_case(std::string text, int (*to_case)(int)) {
  std::transform(text.begin(), text.end(), text.begin(), [&](char c) { return char(to_case(c)); });
  return text;
}

/// A name of up to 16 bytes as two words, in lower case.
struct Name {
  std::uint64_t low = 0, high = 0;
  constexpr bool operator==(const Name&) const = default;
};

constexpr Name pack(std::string_view name) noexcept {
  std::uint64_t words[2] = {0, 0};
  for (std::size_t i = 0; i < name.size(); ++i) {
    // Letters to lower case; what it does to others can make no name of them.
    words[i / 8] |= std::uint64_t(static_cast<unsigned char>(name[i]) | 0x20) << (i % 8 * 8);
  }
  return {words[0], words[1]};
}

constexpr std::size_t kSlots = 256;
constexpr std::size_t slot_of(Name name) noexcept {
  return std::size_t(((name.low ^ (name.high * 0x9e3779b97f4a7c15)) * 0xd6e8feb86659fd93) >> 56);
}

struct Slot {
  Name name;
  const Command* command = nullptr;
};

constexpr std::array<Slot, kSlots> make_slots() {
  std::array<Slot, kSlots> slots{};
  for (const Command& command : kCommands) {
    const Name name = pack(command.name);
    std::size_t at = slot_of(name);
    while (slots[at].command != nullptr) at = (at + 1) % kSlots;
    slots[at] = {name, &command};
  }
  return slots;
}
constexpr std::array<Slot, kSlots> kTable = make_slots();

}  // namespace

std::span<const Command> all_commands() noexcept {
  return kCommands;
}

const Command* find_command(std::string_view name) noexcept {
  if (name.empty() || name.size() > kMaxNameBytes) return nullptr;
  const Name wanted = pack(name);
  for (std::size_t at = slot_of(wanted); kTable[at].command != nullptr; at = (at + 1) % kSlots) {
    if (kTable[at].name == wanted) return kTable[at].command->name.size() == name.size() ? kTable[at].command : nullptr;
  }
  return nullptr;
}

bool check_subcommand(const Command& command, Arguments arguments, RespWriter& reply) {
  if (arguments.size() == 1) return true;  // COMMAND needs none
  for (const Subcommand& each : kSubcommands) {
    if (!is_word(command.name, each.of) || !is_word(arguments[1], each.name)) continue;
    const auto count = std::size_t(std::abs(each.arity));
    if (each.arity > 0 ? arguments.size() == count : arguments.size() >= count) return true;
    wrong_arity(reply, in_case(fmt::format("{}|{}", command.name, each.name), std::tolower));
    return false;
  }
  reply.error(fmt::format("ERR unknown subcommand '{}'. Try {} HELP.", arguments[1].substr(0, 128),
                          in_case(std::string(command.name), std::toupper)));
  return false;
}

}  // namespace atoll::kv
