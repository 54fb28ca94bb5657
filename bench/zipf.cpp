#include "bench/zipf.hpp"

#include <algorithm>
#include <cmath>

#include "bench/harness.hpp"

namespace atoll::bench {

std::vector<std::uint32_t> zipf_places(std::uint64_t words, std::size_t draws, std::uint64_t seed) {
  std::vector<double> sums(words);
  double sum = 0;
  for (std::uint64_t i = 0; i < words; ++i) sums[i] = sum += std::pow(double(i + 1), -kZipfSkew);
  Lcg random(seed);
  std::vector<std::uint32_t> places(draws);
  for (std::uint32_t& place : places) {
    const double lot = double(random.next()) / 4294967296.0 * sum;
    const auto rank = std::uint64_t(std::lower_bound(sums.begin(), sums.end(), lot) - sums.begin());
    place = std::uint32_t(std::min(rank, words - 1) * 2654435761u % words);
  }
  return places;
}

}  // namespace atoll::bench
