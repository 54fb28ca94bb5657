// Cases of arrays that need the other node: reading in order, and at random, what is not here.
#include "bench/array_cases.hpp"
#include "bench/native.hpp"

namespace atoll::bench {
namespace {

using Words = Array<std::uint64_t>;
constexpr std::uint64_t kSumOfAll = ArrayPair::kWords * (ArrayPair::kWords - 1) / 2;

[[gnu::noinline]] std::uint64_t sum(const Words& array) {
  std::uint64_t total = 0;
  const std::uint64_t count = array.size();
  for (std::uint64_t i = 0; i < count; ++i) total += array.get(i).value();
  return total;
}

/// ns per element of the whole array, of which half is homed elsewhere and not here.
std::vector<Samples> get_seq_cold(ArrayPair& pair) {
  std::vector<std::uint64_t> data(pair.array.size());
  native_store(data);
  Samples samples{"get_seq_cold", pair.node.count(), {}, {}};
  for (int i = -1; i < pair.repetitions; ++i) {  // the first one touches the pages of the cache, and does not count
    pair.make_cold();
    pair.alone([&] {
      const double ours = time_ns(data.size(), [&] { expect_sum(sum(pair.array), kSumOfAll); });
      const double native = time_ns(data.size(), [&] { expect_sum(native_sum(data), kSumOfAll); });
      if (i < 0) return;
      samples.values.push_back(ours);
      samples.baselines.push_back(native);
    });
  }
  return {samples};
}

/// ns per element at random places of the other node's half, by a cache that is filled but holds little of it.
std::vector<Samples> get_random_cold(ArrayPair& pair) {
  const std::uint64_t reads = pair.quick ? 20'000 : 100'000;
  Samples samples{"get_random_cold", pair.node.count(), {}, {1}};
  for (int i = -1; i < pair.repetitions; ++i) {
    pair.alone([&] {
      Lcg random(std::uint64_t(i + 2));
      const double ours = time_ns(reads, [&] {
        for (std::uint64_t k = 0; k < reads; ++k) {
          const std::uint64_t at = ArrayPair::kHalf + (random.next() & (ArrayPair::kHalf - 1));
          expect_sum(pair.array.get(at).value(), at);
        }
      });
      if (i >= 0) samples.values.push_back(ours);
    });
  }
  return {samples};
}

constexpr ArrayCase kCases[] = {{"get_seq_cold", get_seq_cold}, {"get_random_cold", get_random_cold}};

}  // namespace

std::span<const ArrayCase> array_cold_cases() {
  return kCases;
}

}  // namespace atoll::bench
