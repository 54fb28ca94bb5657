// Places that follow Zipf's law.
#pragma once

#include <cstdint>
#include <vector>

#include "atoll/detail/namespace.hpp"

namespace atoll::bench {

inline constexpr double kZipfSkew = 0.99;

/// `draws` places below `words`, drawn beforehand: what is measured is the operation. Scattered, so that what is used
/// most does not stand together; alike on every node.
[[nodiscard]] std::vector<std::uint32_t> zipf_places(std::uint64_t words, std::size_t draws, std::uint64_t seed);

}  // namespace atoll::bench
