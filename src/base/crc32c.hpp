// CRC-32C (Castagnoli), the checksum of all that is written to files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "atoll/detail/namespace.hpp"

#if defined(__x86_64__)
#define ATOLL_CRC_IN_HARDWARE 1
#define ATOLL_CRC_TARGET __attribute__((target("sse4.2")))
#else
#define ATOLL_CRC_IN_HARDWARE 0
#define ATOLL_CRC_TARGET
#endif

namespace atoll::base {

/// Of what `crc` is of, and `bytes` behind it. 0 is of nothing.
[[nodiscard]] std::uint32_t crc32c(std::uint32_t crc, std::span<const std::byte> bytes) noexcept;

template <typename T>
[[nodiscard]] std::uint32_t crc32c_of(std::uint32_t crc, const T& value) noexcept {
  return crc32c(crc, std::as_bytes(std::span(&value, 1)));
}

/// Has this processor an instruction for it?
[[nodiscard]] bool has_crc32c() noexcept;

/// One word at a time, for code that has it in a register. The state is the complement of the checksum.
struct PortableCrc {
  [[nodiscard]] static std::uint64_t step(std::uint64_t state, std::uint64_t word) noexcept;
  [[nodiscard]] static std::uint64_t step(std::uint64_t state, std::uint32_t word) noexcept;
};

#if ATOLL_CRC_IN_HARDWARE
/// REQUIRES: has_crc32c().
struct HardwareCrc {
  [[nodiscard]] ATOLL_CRC_TARGET static std::uint64_t step(std::uint64_t state, std::uint64_t word) noexcept {
    return __builtin_ia32_crc32di(state, word);
  }
  [[nodiscard]] ATOLL_CRC_TARGET static std::uint64_t step(std::uint64_t state, std::uint32_t word) noexcept {
    return __builtin_ia32_crc32si(std::uint32_t(state), word);
  }
};
#endif

}  // namespace atoll::base
