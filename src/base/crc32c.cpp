#include "base/crc32c.hpp"

#include <array>
#include <cstring>

namespace atoll::base {
namespace {

constexpr std::uint32_t kPolynomial = 0x82f63b78;  // with its bits reversed, as the instruction has it

/// table[k][b]: what byte b becomes when k more bytes come behind it.
constexpr auto kTable = [] {
  std::array<std::array<std::uint32_t, 256>, 8> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    table[0][byte] = crc;
  }
  for (std::size_t k = 1; k < 8; ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t crc = table[k - 1][byte];
      table[k][byte] = (crc >> 8) ^ table[0][crc & 0xff];
    }
  }
  return table;
}();

std::uint32_t step_byte(std::uint32_t state, std::byte byte) noexcept {
  return (state >> 8) ^ kTable[0][(state ^ std::uint32_t(byte)) & 0xff];
}

template <typename Crc>
std::uint32_t extend(std::uint32_t crc, std::span<const std::byte> bytes) noexcept {
  std::uint64_t state = std::uint32_t(~crc);
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof(word));
    state = Crc::step(state, word);
  }
  for (const std::byte byte : bytes) state = step_byte(std::uint32_t(state), byte);
  return std::uint32_t(~state);
}

#if ATOLL_CRC_IN_HARDWARE
/// Steps cannot be inlined where the instruction may not be used, so this is written out.
ATOLL_CRC_TARGET std::uint32_t extend_in_hardware(std::uint32_t crc, std::span<const std::byte> bytes) noexcept {
  std::uint64_t state = std::uint32_t(~crc);
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof(word));
    state = HardwareCrc::step(state, word);
  }
  for (const std::byte byte : bytes) state = step_byte(std::uint32_t(state), byte);
  return std::uint32_t(~state);
}
#endif

}  // namespace

std::uint64_t PortableCrc::step(std::uint64_t state, std::uint64_t word) noexcept {
  word ^= state;
  std::uint32_t next = 0;
  for (std::size_t k = 0; k < 8; ++k) next ^= kTable[7 - k][word >> (8 * k) & 0xff];
  return next;
}

std::uint64_t PortableCrc::step(std::uint64_t state, std::uint32_t word) noexcept {
  for (int k = 0; k < 4; ++k) state = step_byte(std::uint32_t(state), std::byte(word >> (8 * k)));
  return state;
}

bool has_crc32c() noexcept {
#if ATOLL_CRC_IN_HARDWARE
  static const bool has = __builtin_cpu_supports("sse4.2") != 0;
  return has;
#else
  return false;
#endif
}

std::uint32_t crc32c(std::uint32_t crc, std::span<const std::byte> bytes) noexcept {
#if ATOLL_CRC_IN_HARDWARE
  if (has_crc32c()) return extend_in_hardware(crc, bytes);
#endif
  return extend<PortableCrc>(crc, bytes);
}

}  // namespace atoll::base
