// What the hit cases are compared with: the same loops over ordinary memory. Compiled without vectorisation, for
// one access of 8 bytes at a time is what is compared; but for native_vector_sum.
#pragma once

#include <cstdint>
#include <shared_mutex>
#include <span>
#include <vector>

#include "atoll/detail/namespace.hpp"

namespace atoll::bench {

[[nodiscard]] std::uint64_t native_sum(std::span<const std::uint64_t> data);
/// The same by a loop that the compiler may vectorise.
[[nodiscard]] std::uint64_t native_vector_sum(std::span<const std::uint64_t> data);
/// data[i] = i
void native_store(std::span<std::uint64_t> data);
/// `count` reads at places that an Lcg of `seed` chooses. REQUIRES: data.size() is a power of two.
[[nodiscard]] std::uint64_t native_random_sum(std::span<const std::uint64_t> data, std::uint64_t count,
                                              std::uint64_t seed);
/// Adds one to each word, as one of several threads would have to.
void native_atomic_adds(std::span<std::uint64_t> data);
void native_lock(std::shared_mutex& mutex, std::uint64_t count);

/// Copies `from` by pieces of into.size() bytes, all to the same place.
void native_stream(const std::vector<std::uint64_t>& from, std::vector<std::uint64_t>& into);

}  // namespace atoll::bench
