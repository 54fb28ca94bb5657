#include "kv/glob.hpp"

#include <algorithm>
#include <cstddef>

namespace atoll::kv {
namespace {

unsigned char fold(char c, bool ignore_case) noexcept {
  return static_cast<unsigned char>(ignore_case && c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

/// Whether `c` is in the set whose '[' is at `at`; `at` is then behind the set. A set that is not closed ends with the
/// pattern.
bool match_set(std::string_view pattern, std::size_t& at, char c, bool ignore_case) noexcept {
  ++at;
  const bool inverted = at < pattern.size() && pattern[at] == '^';
  if (inverted) ++at;
  const unsigned char byte = fold(c, ignore_case);
  bool found = false;
  for (; at < pattern.size() && pattern[at] != ']'; ++at) {
    if (pattern[at] == '\\' && at + 1 < pattern.size()) {
      ++at;
      found |= fold(pattern[at], ignore_case) == byte;
    } else if (at + 2 < pattern.size() && pattern[at + 1] == '-') {
      unsigned char low = fold(pattern[at], ignore_case), high = fold(pattern[at + 2], ignore_case);
      if (low > high) std::swap(low, high);
      found |= byte >= low && byte <= high;
      at += 2;
    } else {
      found |= fold(pattern[at], ignore_case) == byte;
    }
  }
  if (at < pattern.size()) ++at;  // ']'
  return found != inverted;
}

/// Matches one byte of the text with what stands at `at`, which is no '*'; `at` is then behind it.
bool match_one(std::string_view pattern, std::size_t& at, char c, bool ignore_case) noexcept {
  switch (pattern[at]) {
    case '?': ++at; return true;
    case '[': return match_set(pattern, at, c, ignore_case);
    case '\\':
      if (at + 1 < pattern.size()) ++at;
      [[fallthrough]];
    default: return fold(pattern[at++], ignore_case) == fold(c, ignore_case);
  }
}

}  // namespace

bool glob_match(std::string_view pattern, std::string_view text, bool ignore_case) noexcept {
  std::size_t p = 0, t = 0;
  std::size_t star = std::string_view::npos, star_text = 0;  // behind the last '*', and what it has taken so far
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = ++p;
      star_text = t;
      continue;
    }
    if (p < pattern.size() && match_one(pattern, p, text[t], ignore_case)) {
      ++t;
      continue;
    }
    if (star == std::string_view::npos) return false;
    p = star;  // the last '*' takes one more: enough, for an earlier one could not do better
    t = ++star_text;
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace atoll::kv
