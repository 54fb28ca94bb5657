// Small, fast, seeded random numbers (splitmix64). Never seeded from the clock: who wants fresh numbers passes a seed.
#pragma once

#include <cstdint>

#include "atoll/detail/namespace.hpp"

namespace atoll::base {

class Random {
 public:
  using result_type = std::uint64_t;  // so that it works with <random>'s distributions
  explicit Random(std::uint64_t seed) noexcept : state_(seed) {}

  std::uint64_t next() noexcept {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  /// Uniform in [0, bound). REQUIRES: bound > 0.
  std::uint64_t below(std::uint64_t bound) noexcept {
    return std::uint64_t((static_cast<unsigned __int128>(next()) * bound) >> 64);
  }
  /// True with probability `p`.
  bool chance(double p) noexcept { return double(next() >> 11) * 0x1.0p-53 < p; }

  std::uint64_t operator()() noexcept { return next(); }
  static constexpr std::uint64_t min() noexcept { return 0; }
  static constexpr std::uint64_t max() noexcept { return UINT64_MAX; }

 private:
  std::uint64_t state_;
};

}  // namespace atoll::base
