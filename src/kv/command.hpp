// The commands: what each is called, takes and does. The table is in command_table.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "kv/keys.hpp"
#include "kv/resp_writer.hpp"

namespace atoll::kv {

class Session;
struct Command;
using Arguments = std::span<const std::string_view>;

/// A command that is being run on its keys.
struct Call {
  const Command& command;
  Arguments arguments;  // with the name
  Keys& keys;
  RespWriter& reply;
};

/// Answers by `reply` what stands in `keys` now, and only then changes it. Does not throw, nor use the map but by
/// `keys`.
using KeyHandler = void (*)(Call& call);
/// A command that has no keys.
using SessionHandler = void (*)(Session& session, Arguments arguments);

enum CommandFlags : std::uint16_t {
  kWrites = 1,       // changes keys
  kFast = 2,         // takes the same time whatever there is
  kNoAuth = 4,       // may come before the password
  kAtOnce = 8,       // is run, not queued, after MULTI
  kNotQueued = 16,   // is an error after MULTI
  kWholeMap = 32,    // uses the map as a whole: in EXEC it is run outside of the step
  kSlow = 64,        // other clients have their turn after it
  kContainer = 128,  // its second word is a command of its own: see check_subcommand
};

struct Command {
  std::string_view name;  // in lower case
  int arity;              // with the name; negative: at least so many
  std::uint16_t flags;
  int first_key, last_key, key_step;  // 0: no keys; last -1: the last argument
  KeyHandler on_keys;
  SessionHandler on_session;
  std::string_view group, summary;

  [[nodiscard]] bool has(CommandFlags flag) const noexcept { return (flags & flag) != 0; }
  [[nodiscard]] bool takes(std::size_t arguments) const noexcept {
    return arity > 0 ? arguments == std::size_t(arity) : arguments >= std::size_t(-arity);
  }
};

inline constexpr std::size_t kMaxNameBytes = 16;

/// All of them, in the order of their names.
[[nodiscard]] std::span<const Command> all_commands() noexcept;
/// By a name in any case; nullptr when there is none.
[[nodiscard]] const Command* find_command(std::string_view name) noexcept;

/// Whether a command that is a kContainer has a subcommand of this name which takes so many arguments. False: the
/// client has been told what is wrong.
[[nodiscard]] bool check_subcommand(const Command& command, Arguments arguments, RespWriter& reply);

/// Equal but for the case of ASCII letters; `upper` is in upper case.
[[nodiscard]] bool is_word(std::string_view word, std::string_view upper) noexcept;
/// A decimal number as Redis takes it: no spaces, no plus, no leading zeros.
[[nodiscard]] bool parse_integer(std::string_view text, std::int64_t& value) noexcept;

inline constexpr std::string_view kSyntaxError = "ERR syntax error";
inline constexpr std::string_view kNotAnInteger = "ERR value is not an integer or out of range";
/// "ERR wrong number of arguments for 'get' command"
void wrong_arity(RespWriter& reply, std::string_view name);
/// False: the pattern is too long for `glob_match`, and the client has been told.
[[nodiscard]] bool check_pattern(std::string_view pattern, RespWriter& reply);
/// What the map says, in words of Redis where it has some.
void reply_status(RespWriter& reply, Status status);

}  // namespace atoll::kv
