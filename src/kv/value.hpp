// How a value stands in the map.
//
//   00 bytes...                   never expires
//   01 tttttttt bytes...          expires at t: milliseconds of Unix time, little-endian
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "atoll/detail/namespace.hpp"

namespace atoll::kv {

inline constexpr std::int64_t kNever = 0;
inline constexpr char kPlainTag = 0, kExpiringTag = 1;

struct Item {
  std::string_view value;
  std::int64_t expires_at = kNever;
};

/// None: not written by `encode`. Others may use the map too.
[[nodiscard]] std::optional<Item> decode(std::string_view stored) noexcept;
/// Replaces what is in `out`, whose memory is used again.
void encode(std::string_view value, std::int64_t expires_at, std::string& out);

}  // namespace atoll::kv
