#include "bench/refcount.hpp"

#include <numeric>

#include "bench/harness.hpp"

namespace atoll::bench {

RefcountArray::RefcountArray(std::uint64_t words) : words_(words), entries_(words) {
  std::iota(words_.begin(), words_.end(), std::uint64_t{0});
  for (std::uint64_t i = 0; i < words; i += ChunkEntries::kChunk) entries_.of(i).data = words_.data() + i;
}

std::uint64_t refcount_sum(RefcountArray& array, std::uint64_t words) {
  std::uint64_t total = 0;
  for (std::uint64_t i = 0; i < words; ++i) total += array.get(i);
  return total;
}

std::uint64_t refcount_random_sum(RefcountArray& array, std::uint64_t words, std::uint64_t count, std::uint64_t seed) {
  Lcg random(seed);
  std::uint64_t total = 0;
  for (std::uint64_t i = 0; i < count; ++i) total += array.get(random.next() & (words - 1));
  return total;
}

}  // namespace atoll::bench
