// Commands that read values, or make a new one of the old.
#include <algorithm>
#include <charconv>
#include <limits>

#include "kv/handlers.hpp"

namespace atoll::kv {
namespace {

void add_to(Call& call, std::int64_t by) {
  const std::string_view key = call.arguments[1];
  const std::optional<Item> item = call.keys.get(key);
  std::int64_t number = 0;
  if (item && !parse_integer(item->value, number)) return call.reply.error(kNotAnInteger);
  if (__builtin_add_overflow(number, by, &number)) {
    return call.reply.error("ERR increment or decrement would overflow");
  }
  const std::int64_t expires_at = item ? item->expires_at : kNever;
  char digits[24];
  const char* const end = std::to_chars(digits, digits + sizeof(digits), number).ptr;
  call.reply.integer(number);
  call.keys.put(key, {digits, std::size_t(end - digits)}, expires_at);
}

void count(Call& call, const std::optional<Item>& item) {
  ++(item ? call.keys.worker().counts.hits : call.keys.worker().counts.misses);
}

}  // namespace

namespace commands {

void get(Call& call) {
  const std::optional<Item> item = call.keys.get(call.arguments[1]);
  count(call, item);
  if (item) {
    call.reply.bulk(item->value);
  } else {
    call.reply.null();
  }
}

void mget(Call& call) {
  call.reply.array(call.arguments.size() - 1);
  for (const std::string_view key : call.arguments.subspan(1)) {
    const std::optional<Item> item = call.keys.get(key);
    count(call, item);
    if (item) {
      call.reply.bulk(item->value);
    } else {
      call.reply.null();
    }
    if (call.reply.overflowed()) return;
  }
}

void incr(Call& call) {
  add_to(call, 1);
}

void decr(Call& call) {
  add_to(call, -1);
}

void incrby(Call& call) {
  std::int64_t by = 0;
  if (!parse_integer(call.arguments[2], by)) return call.reply.error(kNotAnInteger);
  add_to(call, by);
}

void decrby(Call& call) {
  std::int64_t by = 0;
  if (!parse_integer(call.arguments[2], by)) return call.reply.error(kNotAnInteger);
  if (by == std::numeric_limits<std::int64_t>::min()) return call.reply.error("ERR decrement would overflow");
  add_to(call, -by);
}

void append(Call& call) {
  const std::string_view key = call.arguments[1];
  const std::optional<Item> item = call.keys.get(key);
  std::string& sum = call.keys.worker().text;
  sum.assign(item ? item->value : std::string_view());
  sum.append(call.arguments[2]);
  call.reply.integer(std::int64_t(sum.size()));
  call.keys.put(key, sum, item ? item->expires_at : kNever);
}

void strlen(Call& call) {
  const std::optional<Item> item = call.keys.get(call.arguments[1]);
  call.reply.integer(item ? std::int64_t(item->value.size()) : 0);
}

void getrange(Call& call) {
  std::int64_t first = 0, last = 0;
  if (!parse_integer(call.arguments[2], first) || !parse_integer(call.arguments[3], last)) {
    return call.reply.error(kNotAnInteger);
  }
  const std::optional<Item> item = call.keys.get(call.arguments[1]);
  const auto size = item ? std::int64_t(item->value.size()) : 0;
  if (first < 0 && last < 0 && first > last) return call.reply.bulk({});  // as both may be before the begin
  // Negative ones count from the end.
  if (first < 0) first = std::max<std::int64_t>(first + size, 0);
  if (last < 0) last = std::max<std::int64_t>(last + size, 0);
  last = std::min(last, size - 1);
  if (first > last) return call.reply.bulk({});
  call.reply.bulk(item->value.substr(std::size_t(first), std::size_t(last - first + 1)));
}

}  // namespace commands
}  // namespace atoll::kv
