// Sizes as people write them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "atoll/status.hpp"

namespace atoll::base {

/// "4096", "256M", "1G", "64KiB": powers of 1024. kInvalidArgument for anything else.
[[nodiscard]] Result<std::uint64_t> parse_bytes(std::string_view text) noexcept;
/// "256 MiB", "1.5 GiB", "17 B".
[[nodiscard]] std::string format_bytes(std::uint64_t bytes);
/// As parse_bytes() takes it, exactly: "256M", "1536K", "17".
[[nodiscard]] std::string bytes_option(std::uint64_t bytes);

}  // namespace atoll::base
