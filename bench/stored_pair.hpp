// A pair as the stores that Atoll's map is compared with keep it: the length of the key, the key, the value.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "atoll/detail/namespace.hpp"

namespace atoll::bench {

inline constexpr std::uint64_t kPairHeader = 4;

inline std::string_view key_in(std::span<const std::byte> pair) {
  std::uint32_t length = 0;
  std::memcpy(&length, pair.data(), kPairHeader);
  return {reinterpret_cast<const char*>(pair.data()) + kPairHeader, length};
}

inline std::string_view value_in(std::span<const std::byte> pair) {
  const std::uint64_t begin = kPairHeader + key_in(pair).size();
  return {reinterpret_cast<const char*>(pair.data()) + begin, pair.size() - begin};
}

inline void join_pair(std::string_view key, std::string_view value, std::vector<std::byte>& out) {
  out.resize(kPairHeader + key.size() + value.size());
  const auto length = std::uint32_t(key.size());
  std::memcpy(out.data(), &length, kPairHeader);
  std::memcpy(out.data() + kPairHeader, key.data(), key.size());
  std::memcpy(out.data() + kPairHeader + key.size(), value.data(), value.size());
}

/// One per thread and use, so that nothing is allocated: what was read, and what is written.
inline std::vector<std::byte>& pair_read() {
  thread_local std::vector<std::byte> bytes;
  return bytes;
}
inline std::vector<std::byte>& pair_written() {
  thread_local std::vector<std::byte> bytes;
  return bytes;
}

}  // namespace atoll::bench
