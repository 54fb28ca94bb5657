// The set of states seen, with the way back to the first.
#pragma once

#include "atoll/detail/namespace.hpp"

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace atoll::explorer {

/// Keeps 128 bits of each state's hash in place of its bytes: with 10^8 states the odds that two are taken for
/// one are some 10^-23.
///
/// Thread-safety: none.
/// Invariants: 1. States are numbered from 0 in the order found; a state's parent has a smaller number.
class Visited {
 public:
  static constexpr std::uint32_t kNone = 0xffff'ffff;
  struct Record {
    std::uint64_t hash[2];
    std::uint32_t parent;
    std::uint32_t drain;  // the state that the first delivery (or else unlock) leads to
    std::uint16_t step;   // from the parent to here
  };

  Visited() : index_(std::size_t{1} << 16, kNone) {}

  /// The state's number, and whether it is new.
  std::pair<std::uint32_t, bool> insert(std::span<const std::uint8_t> bytes, std::uint32_t parent, std::uint16_t step);
  [[nodiscard]] Record& operator[](std::uint32_t number) noexcept {
    return chunks_[number >> kChunkShift][number & (kChunk - 1)];
  }
  [[nodiscard]] std::uint32_t size() const noexcept { return size_; }

 private:
  static constexpr unsigned kChunkShift = 16;
  static constexpr std::uint32_t kChunk = 1U << kChunkShift;

  void grow();

  std::vector<std::vector<Record>> chunks_;  // so that growing copies nothing
  std::vector<std::uint32_t> index_;         // open addressing over the hashes
  std::uint32_t size_ = 0;
};

}  // namespace atoll::explorer
