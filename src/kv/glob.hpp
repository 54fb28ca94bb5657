// Patterns as KEYS and SCAN take them.
#pragma once

#include <string_view>

#include "atoll/detail/namespace.hpp"

namespace atoll::kv {

/// `*` any bytes, `?` one, `[abc]`, `[a-z]`, `[^a]` one of a set, `\` takes the next byte as it is. Time grows with the
/// product of both lengths at most, whatever the pattern.
[[nodiscard]] bool glob_match(std::string_view pattern, std::string_view text, bool ignore_case = false) noexcept;

}  // namespace atoll::kv
