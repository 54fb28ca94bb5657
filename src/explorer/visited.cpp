#include "explorer/visited.hpp"

#include <cstring>

namespace atoll::explorer {
namespace {

std::uint64_t mix(std::uint64_t a, std::uint64_t b) noexcept {
  const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  return std::uint64_t(product) ^ std::uint64_t(product >> 64);
}

/// Two independent 64-bit hashes (the multiply-and-fold of wyhash, with different secrets).
void hash_bytes(std::span<const std::uint8_t> bytes, std::uint64_t (&out)[2]) noexcept {
  std::uint64_t a = 0xa076'1d64'78bd'642fULL ^ bytes.size();
  std::uint64_t b = 0xe703'7ed1'a0b4'28dbULL;
  for (std::size_t i = 0; i < bytes.size(); i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, bytes.size() - i < 8 ? bytes.size() - i : 8);
    a = mix(a ^ word, 0x8ebc'6af0'9c88'c6e3ULL);
    b = mix(b ^ word ^ 0x5899'65cc'7537'4cc3ULL, 0x1d8e'4e27'c47d'124fULL) + (a << 1);
  }
  out[0] = mix(a, 0x9e37'79b9'7f4a'7c15ULL ^ b);
  out[1] = mix(b, 0xc2b2'ae3d'27d4'eb4fULL) ^ a;
}

}  // namespace

std::pair<std::uint32_t, bool> Visited::insert(std::span<const std::uint8_t> bytes, std::uint32_t parent,
                                               std::uint16_t step) {
  if (std::uint64_t{size_} * 10 >= index_.size() * 7) grow();
  Record record{};
  hash_bytes(bytes, record.hash);
  const std::size_t mask = index_.size() - 1;
  std::size_t at = record.hash[0] & mask;
  for (; index_[at] != kNone; at = (at + 1) & mask) {
    const Record& other = (*this)[index_[at]];
    if (other.hash[0] == record.hash[0] && other.hash[1] == record.hash[1]) return {index_[at], false};
  }
  record.parent = parent;
  record.drain = kNone;
  record.step = step;
  if ((size_ & (kChunk - 1)) == 0) {
    chunks_.emplace_back();
    chunks_.back().resize(kChunk);
  }
  index_[at] = size_;
  (*this)[size_] = record;
  return {size_++, true};
}

void Visited::grow() {
  std::vector<std::uint32_t> larger(index_.size() * 2, kNone);
  const std::size_t mask = larger.size() - 1;
  for (std::uint32_t number = 0; number < size_; ++number) {
    std::size_t at = (*this)[number].hash[0] & mask;
    while (larger[at] != kNone) at = (at + 1) & mask;
    larger[at] = number;
  }
  index_ = std::move(larger);
}

}  // namespace atoll::explorer
