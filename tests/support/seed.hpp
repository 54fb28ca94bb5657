// Seeds for random tests: fresh each time, printed on failure, repeatable with ATOLL_TEST_SEED.
#pragma once

#include <cstdlib>
#include <random>
#include <string>

#include "atoll/detail/line.hpp"

#if defined(__SANITIZE_ADDRESS__)
#define ATOLL_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ATOLL_ASAN 1
#endif
#endif

namespace atoll::test {

inline std::uint64_t fresh_seed() {
  if (const char* given = std::getenv("ATOLL_TEST_SEED"); given != nullptr) return std::strtoull(given, nullptr, 10);
  return std::random_device{}();
}

inline std::string repeat_with(std::uint64_t seed) {
  return "repeat with ATOLL_TEST_SEED=" + std::to_string(seed);
}

/// Fewer rounds where a sanitizer makes each ten times as long.
constexpr int scaled(int rounds) {
#if defined(ATOLL_TSAN) || defined(ATOLL_ASAN)
  return rounds / 10;
#else
  return rounds;
#endif
}

}  // namespace atoll::test
