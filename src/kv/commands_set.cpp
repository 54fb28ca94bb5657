// SET and its kin: what replaces a value or says when it expires.
#include <fmt/format.h>

#include "kv/expiry.hpp"
#include "kv/handlers.hpp"

namespace atoll::kv {

std::optional<std::int64_t> parse_expiry(Call& call, std::string_view text, TimeForm form) {
  std::int64_t number = 0;
  if (!parse_integer(text, number)) {
    call.reply.error(kNotAnInteger);
    return std::nullopt;
  }
  const std::int64_t now = form.absolute ? 0 : call.keys.now();
  const std::optional<std::int64_t> time = number > 0 ? to_time(number, form, now) : std::nullopt;
  if (!time) call.reply.error(fmt::format("ERR invalid expire time in '{}' command", call.command.name));
  return time;
}

namespace {

struct SetOptions {
  bool if_absent = false, if_there = false, keep_time = false, tell_old = false;
  std::optional<std::int64_t> expires_at;
};

/// False: the client has been told what is wrong.
bool parse_set(Call& call, SetOptions& options) {
  const auto syntax_error = [&] {
    call.reply.error(kSyntaxError);
    return false;
  };
  std::optional<TimeForm> form;
  std::string_view time;
  for (std::size_t i = 3; i < call.arguments.size(); ++i) {
    const std::string_view word = call.arguments[i];
    if (is_word(word, "NX") && !options.if_there) {
      options.if_absent = true;
    } else if (is_word(word, "XX") && !options.if_absent) {
      options.if_there = true;
    } else if (is_word(word, "GET")) {
      options.tell_old = true;
    } else if (is_word(word, "KEEPTTL") && !form) {
      options.keep_time = true;
    } else if (const auto given = time_option(word); given && form.value_or(*given) == *given && !options.keep_time) {
      form = given;
      if (++i == call.arguments.size()) return syntax_error();
      time = call.arguments[i];  // of several the last counts
    } else {
      return syntax_error();
    }
  }
  if (!form) return true;
  options.expires_at = parse_expiry(call, time, *form);
  return options.expires_at.has_value();
}

struct GetexOptions {
  bool persist = false;
  std::optional<TimeForm> form;
  std::string_view time;
};

/// None: there is a syntax error.
std::optional<GetexOptions> parse_getex(Arguments arguments) {
  GetexOptions options;
  for (std::size_t i = 2; i < arguments.size(); ++i) {
    if (is_word(arguments[i], "PERSIST") && !options.form) {
      options.persist = true;
      continue;
    }
    const auto given = time_option(arguments[i]);
    if (!given || options.persist || options.form.value_or(*given) != *given) return std::nullopt;
    options.form = given;
    if (++i == arguments.size()) return std::nullopt;
    options.time = arguments[i];
  }
  return options;
}

void tell(RespWriter& reply, const std::optional<Item>& item) {
  if (item) {
    reply.bulk(item->value);
  } else {
    reply.null();
  }
}

}  // namespace

namespace commands {

void set(Call& call) {
  SetOptions options;
  if (!parse_set(call, options)) return;
  const std::string_view key = call.arguments[1], value = call.arguments[2];
  const std::optional<Item> old = call.keys.get(key);
  const bool done = !(options.if_absent && old) && !(options.if_there && !old);
  const std::int64_t kept = options.keep_time && old ? old->expires_at : kNever;
  if (options.tell_old) {
    tell(call.reply, old);
  } else if (done) {
    call.reply.ok();
  } else {
    call.reply.null();
  }
  if (done) call.keys.put(key, value, options.expires_at.value_or(kept));
}

void setnx(Call& call) {
  const bool there = call.keys.get(call.arguments[1]).has_value();
  call.reply.integer(there ? 0 : 1);
  if (!there) call.keys.put(call.arguments[1], call.arguments[2]);
}

void setex(Call& call) {
  const bool milliseconds = call.command.name == "psetex";
  const auto time = parse_expiry(call, call.arguments[2], {milliseconds, false});
  if (!time) return;
  call.reply.ok();
  call.keys.put(call.arguments[1], call.arguments[3], *time);
}

void getset(Call& call) {
  tell(call.reply, call.keys.get(call.arguments[1]));
  call.keys.put(call.arguments[1], call.arguments[2]);
}

void getdel(Call& call) {
  tell(call.reply, call.keys.get(call.arguments[1]));
  (void)call.keys.erase(call.arguments[1]);
}

void getex(Call& call) {
  const std::optional<GetexOptions> options = parse_getex(call.arguments);
  if (!options) return call.reply.error(kSyntaxError);
  const std::string_view key = call.arguments[1];
  const std::optional<Item> item = call.keys.get(key);
  if (!item) return call.reply.null();  // whatever the time is
  std::optional<std::int64_t> time;
  if (options->form) {
    time = parse_expiry(call, options->time, *options->form);
    if (!time) return;
  }
  call.reply.bulk(item->value);
  if (time && *time <= call.keys.now()) {
    (void)call.keys.erase(key);
  } else if (time || (options->persist && item->expires_at != kNever)) {
    call.keys.worker().text = item->value;  // which is gone once the key is changed
    call.keys.put(key, call.keys.worker().text, time.value_or(kNever));
  }
}

void mset(Call& call) {
  if (call.arguments.size() % 2 == 0) return wrong_arity(call.reply, call.command.name);
  call.reply.ok();
  call.keys.put_all(call.arguments.subspan(1));
}

void msetnx(Call& call) {
  if (call.arguments.size() % 2 == 0) return wrong_arity(call.reply, call.command.name);
  bool none = true;
  for (std::size_t i = 1; i < call.arguments.size() && none; i += 2) none = !call.keys.get(call.arguments[i]);
  call.reply.integer(none ? 1 : 0);
  if (none) call.keys.put_all(call.arguments.subspan(1));
}

}  // namespace commands
}  // namespace atoll::kv
