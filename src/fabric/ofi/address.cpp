#include "fabric/ofi/address.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>

#include "fabric/shm/bell.hpp"

namespace atoll::fabric {
namespace {

constexpr std::string_view kStart = "ofi1";
constexpr std::size_t kFields = 12;
constexpr char kBetween = ',';

/// The parts between single spaces. Fewer or more than there should be: the first is empty.
std::array<std::string_view, kFields> split(std::string_view text) {
  std::array<std::string_view, kFields> parts;
  for (std::size_t i = 0; i < kFields; ++i) {
    const std::size_t end = text.find(' ');
    if ((end == std::string_view::npos) != (i + 1 == kFields)) return {};
    parts[i] = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return parts;
}

template <typename Number>
bool parse_hex(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  return error == std::errc{} && end == text.data() + text.size();
}

bool parse_name(std::string_view text, std::vector<std::byte>& name) {
  if (text.empty() || text.size() % 2 != 0 || text.size() / 2 > kMaxEndpointNameBytes) return false;
  for (; !text.empty(); text.remove_prefix(2)) {
    std::uint8_t byte = 0;
    if (!parse_hex(text.substr(0, 2), byte)) return false;
    name.push_back(std::byte(byte));
  }
  return true;
}

bool is_name(std::string_view text, std::size_t max_bytes) {
  if (text.empty() || text.size() > max_bytes) return false;
  for (const char c : text) {
    const bool known = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == ';' ||
                       c == '_' || c == '-' || c == '.' || c == ':';
    if (!known) return false;
  }
  return true;
}

}  // namespace

std::string to_text(std::span<const OfiAddress> addresses) {
  std::string text;
  for (const OfiAddress& address : addresses) {
    std::string name;
    for (const std::byte byte : address.name) fmt::format_to(std::back_inserter(name), "{:02x}", unsigned(byte));
    fmt::format_to(std::back_inserter(text), "{}{} {} {} {:x} {:x} {:x} {:x} {:x} {:x} {:x} {:x} {}",
                   text.empty() ? "" : std::string(1, kBetween), kStart, address.provider, name, address.cache_at,
                   address.memory_at, address.key, address.cookie, address.memory_bytes, address.file_bytes,
                   address.cache_bytes, address.line_bytes, address.bell);
  }
  return text;
}

Result<std::vector<OfiAddress>> parse_ofi_addresses(std::string_view text) {
  std::vector<OfiAddress> addresses;
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(kBetween));
    text.remove_prefix(std::min(one.size() + 1, text.size()));
    const auto parts = split(one);
    OfiAddress address;
    const bool good = parts[0] == kStart && is_name(parts[1], kMaxProviderBytes) &&
                      parse_name(parts[2], address.name) && parse_hex(parts[3], address.cache_at) &&
                      parse_hex(parts[4], address.memory_at) && parse_hex(parts[5], address.key) &&
                      parse_hex(parts[6], address.cookie) && parse_hex(parts[7], address.memory_bytes) &&
                      parse_hex(parts[8], address.file_bytes) && parse_hex(parts[9], address.cache_bytes) &&
                      parse_hex(parts[10], address.line_bytes) && is_name(parts[11], fabric::kMaxBellNameBytes);
    if (!good) return {Errc::kInvalidArgument, "this is not the address of a libfabric endpoint"};
    address.provider = parts[1];
    address.bell = parts[11];
    addresses.push_back(std::move(address));
  }
  return addresses;
}

}  // namespace atoll::fabric
