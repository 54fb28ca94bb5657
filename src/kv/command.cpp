#include "kv/command.hpp"

#include <fmt/format.h>

#include <charconv>

#include "kv/glob.hpp"

namespace atoll::kv {

bool is_word(std::string_view word, std::string_view upper) noexcept {
  if (word.size() != upper.size()) return false;
  for (std::size_t i = 0; i < word.size(); ++i) {
    const char c = word[i] >= 'a' && word[i] <= 'z' ? char(word[i] - 'a' + 'A') : word[i];
    if (c != upper[i]) return false;
  }
  return true;
}

bool parse_integer(std::string_view text, std::int64_t& value) noexcept {
  const std::string_view digits = text.starts_with('-') ? text.substr(1) : text;
  if (digits.empty() || (digits.front() == '0' && text.size() > 1)) return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

void wrong_arity(RespWriter& reply, std::string_view name) {
  reply.error(fmt::format("ERR wrong number of arguments for '{}' command", name));
}

bool check_pattern(std::string_view pattern, RespWriter& reply) {
  if (pattern.size() <= kMaxPatternBytes) return true;
  reply.error(fmt::format("ERR the pattern is longer than {} bytes", kMaxPatternBytes));
  return false;
}

void reply_status(RespWriter& reply, Status status) {
  switch (status.code()) {
    case Errc::kOutOfMemory: return reply.error("OOM command not allowed when used memory > 'maxmemory'.");
    case Errc::kInvalidArgument: return reply.error(fmt::format("ERR {}", status.what()));
    default: return reply.error(fmt::format("ERR {}", status.to_string()));
  }
}

}  // namespace atoll::kv
