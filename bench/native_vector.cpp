// Like native.cpp, but the compiler may vectorise: what pinned views are compared with.
#include "bench/native.hpp"

namespace atoll::bench {

std::uint64_t native_vector_sum(std::span<const std::uint64_t> data) {
  std::uint64_t total = 0;
  for (const std::uint64_t word : data) total += word;
  return total;
}

}  // namespace atoll::bench
