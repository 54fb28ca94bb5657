#include "base/units.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>

namespace atoll::base {

Result<std::uint64_t> parse_bytes(std::string_view text) noexcept {
  constexpr const char* kWhat = "a size is a number with K, M, G or T behind it, for example 256M";
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return {Errc::kInvalidArgument, kWhat};
  std::string_view unit(end, std::size_t(text.data() + text.size() - end));
  unsigned shift = 0;
  if (!unit.empty()) {
    constexpr std::string_view kUnits = "BKMGT";
    const auto at = kUnits.find(char(unit.front() & ~0x20));
    if (at == std::string_view::npos) return {Errc::kInvalidArgument, kWhat};
    shift = unsigned(at) * 10;
    unit.remove_prefix(1);
    if (!unit.empty() && unit != "iB" && unit != "B" && unit != "b") return {Errc::kInvalidArgument, kWhat};
  }
  if (shift > 0 && number > (UINT64_MAX >> shift)) return {Errc::kInvalidArgument, "the size does not fit 64 bits"};
  return number << shift;
}

std::string format_bytes(std::uint64_t bytes) {
  static constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = double(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return value == double(std::uint64_t(value)) ? fmt::format("{} {}", std::uint64_t(value), kUnits[unit])
                                               : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string bytes_option(std::uint64_t bytes) {
  constexpr std::string_view kUnits = "KMGT";
  std::string unit;
  for (std::size_t k = 0; k < kUnits.size() && bytes != 0 && bytes % 1024 == 0; ++k) {
    bytes /= 1024;
    unit = kUnits[k];
  }
  return fmt::format("{}{}", bytes, unit);
}

}  // namespace atoll::base
