// Commands about keys, whatever their values are; and when they expire.
#include <fmt/format.h>

#include "kv/expiry.hpp"
#include "kv/handlers.hpp"

namespace atoll::kv {
namespace {

struct ExpireOptions {
  bool if_never = false, if_set = false, if_later = false, if_sooner = false;
};

/// False: the client has been told what is wrong.
bool parse_expire(Call& call, ExpireOptions& options) {
  for (const std::string_view word : call.arguments.subspan(3)) {
    if (is_word(word, "NX")) {
      options.if_never = true;
    } else if (is_word(word, "XX")) {
      options.if_set = true;
    } else if (is_word(word, "GT")) {
      options.if_later = true;
    } else if (is_word(word, "LT")) {
      options.if_sooner = true;
    } else {
      call.reply.error(fmt::format("ERR Unsupported option {}", word));
      return false;
    }
  }
  if (options.if_never && (options.if_set || options.if_later || options.if_sooner)) {
    call.reply.error("ERR NX and XX, GT or LT options at the same time are not compatible");
    return false;
  }
  if (options.if_later && options.if_sooner) {
    call.reply.error("ERR GT and LT options at the same time are not compatible");
    return false;
  }
  return true;
}

/// Whether the options let a key that has `old` be given `time`. Never is later than any time.
bool allows(const ExpireOptions& options, std::int64_t old, std::int64_t time) noexcept {
  if (options.if_never && old != kNever) return false;
  if (options.if_set && old == kNever) return false;
  if (options.if_later && (old == kNever || time <= old)) return false;
  return !(options.if_sooner && old != kNever && time >= old);
}

/// Answers what a key's time is: -2 when there is no key, -1 when it never expires.
void tell_time(Call& call, bool milliseconds, bool absolute) {
  const std::optional<Item> item = call.keys.get(call.arguments[1]);
  if (!item) return call.reply.integer(-2);
  if (item->expires_at == kNever) return call.reply.integer(-1);
  const std::int64_t time = item->expires_at - (absolute ? 0 : call.keys.now());
  if (milliseconds) return call.reply.integer(time);
  call.reply.integer(time / 1000 + (time % 1000 >= 500 ? 1 : 0));
}

}  // namespace

namespace commands {

void del(Call& call) {
  std::int64_t count = 0;
  for (const std::string_view key : call.arguments.subspan(1)) count += call.keys.erase(key) ? 1 : 0;
  call.reply.integer(count);
}

void exists(Call& call) {
  std::int64_t count = 0;
  for (const std::string_view key : call.arguments.subspan(1)) count += call.keys.get(key) ? 1 : 0;
  call.reply.integer(count);
}

void expire(Call& call) {
  const std::string_view name = call.command.name, key = call.arguments[1];
  const TimeForm form{name.starts_with('p'), name.ends_with("at")};
  ExpireOptions options;
  if (!parse_expire(call, options)) return;
  std::int64_t number = 0;
  if (!parse_integer(call.arguments[2], number)) return call.reply.error(kNotAnInteger);
  const auto time = to_time(number, form, call.keys.now());
  if (!time) return call.reply.error(fmt::format("ERR invalid expire time in '{}' command", name));
  const std::optional<Item> item = call.keys.get(key);
  if (!item || !allows(options, item->expires_at, *time)) return call.reply.integer(0);
  call.reply.integer(1);
  if (*time <= call.keys.now()) {
    (void)call.keys.erase(key);
    return;
  }
  call.keys.worker().text = item->value;  // which is gone once the key is changed
  call.keys.put(key, call.keys.worker().text, *time);
}

void persist(Call& call) {
  const std::optional<Item> item = call.keys.get(call.arguments[1]);
  const bool expires = item && item->expires_at != kNever;
  call.reply.integer(expires ? 1 : 0);
  if (!expires) return;
  call.keys.worker().text = item->value;
  call.keys.put(call.arguments[1], call.keys.worker().text);
}

void ttl(Call& call) {
  tell_time(call, false, false);
}
void pttl(Call& call) {
  tell_time(call, true, false);
}
void expiretime(Call& call) {
  tell_time(call, false, true);
}
void pexpiretime(Call& call) {
  tell_time(call, true, true);
}

void type(Call& call) {
  call.reply.simple(call.keys.get(call.arguments[1]) ? "string" : "none");
}

}  // namespace commands
}  // namespace atoll::kv
