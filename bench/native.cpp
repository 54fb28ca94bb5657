#include "bench/native.hpp"

#include <atomic>

#include <algorithm>
#include <cstring>

#include "bench/harness.hpp"

namespace atoll::bench {

std::uint64_t native_sum(std::span<const std::uint64_t> data) {
  std::uint64_t total = 0;
  const std::uint64_t* at = data.data();
  const std::size_t count = data.size();
  for (std::size_t i = 0; i < count; ++i) total += at[i];
  return total;
}

void native_store(std::span<std::uint64_t> data) {
  std::uint64_t* at = data.data();
  const std::size_t count = data.size();
  for (std::size_t i = 0; i < count; ++i) at[i] = i;
  keep(at);
}

std::uint64_t native_random_sum(std::span<const std::uint64_t> data, std::uint64_t count, std::uint64_t seed) {
  Lcg random(seed);
  std::uint64_t total = 0;
  const std::uint64_t* at = data.data();
  const std::uint64_t mask = data.size() - 1;
  for (std::uint64_t i = 0; i < count; ++i) total += at[random.next() & mask];
  return total;
}

void native_atomic_adds(std::span<std::uint64_t> data) {
  for (std::uint64_t& word : data) std::atomic_ref(word).fetch_add(1, std::memory_order_relaxed);
}

void native_lock(std::shared_mutex& mutex, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    mutex.lock();
    mutex.unlock();
  }
}

void native_stream(const std::vector<std::uint64_t>& from, std::vector<std::uint64_t>& into) {
  for (std::size_t at = 0; at < from.size(); at += into.size()) {
    const std::size_t words = std::min(into.size(), from.size() - at);
    std::memcpy(into.data(), from.data() + at, words * sizeof(std::uint64_t));
    keep(into.data());
  }
}

}  // namespace atoll::bench
