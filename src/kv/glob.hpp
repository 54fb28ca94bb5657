// Patterns as KEYS and SCAN take them.
#pragma once

#include <cstddef>
#include <string_view>

#include "atoll/detail/namespace.hpp"

namespace atoll::kv {

/// Longer patterns are refused: what a pattern costs grows with its length, for every key.
inline constexpr std::size_t kMaxPatternBytes = 1024;

/// `*` any bytes, `?` one, `[abc]`, `[a-z]`, `[^a]` one of a set, `\` takes the next byte as it is. Time grows with the
/// product of both lengths at most, whatever the pattern.
[[nodiscard]] bool glob_match(std::string_view pattern, std::string_view text, bool ignore_case = false) noexcept;

}  // namespace atoll::kv
