// Cases that find their lines here: what a hit costs against ordinary memory.
#include <functional>

#include "bench/native.hpp"
#include "bench/pair.hpp"

namespace atoll::bench {
namespace {

// The loops are functions of their own so that each is compiled for itself, like native.cpp's.

[[gnu::noinline]] std::uint64_t sum(Node& node, const Area& area) {
  std::uint64_t total = 0;
  const global_ptr<std::uint64_t> first = area.first;
  const std::uint64_t count = area.count;
  for (std::uint64_t i = 0; i < count; ++i) total += node.read(first + std::int64_t(i)).value();
  return total;
}

[[gnu::noinline]] void store(Node& node, const Area& area) {
  const global_ptr<std::uint64_t> first = area.first;
  const std::uint64_t count = area.count;
  for (std::uint64_t i = 0; i < count; ++i) {
    const Status status = node.write(first + std::int64_t(i), i);
    if (!status.ok()) [[unlikely]]
      status.or_throw();
  }
}

[[gnu::noinline]] std::uint64_t random_sum(Node& node, const Area& area, std::uint64_t count, std::uint64_t seed) {
  Lcg random(seed);
  std::uint64_t total = 0;
  const global_ptr<std::uint64_t> first = area.first;
  const std::uint64_t mask = area.count - 1;
  for (std::uint64_t i = 0; i < count; ++i) {
    total += node.read(first + std::int64_t(random.next() & mask)).value();
  }
  return total;
}

[[gnu::noinline]] void lock_unlock(Node& node, const Area& area, std::uint64_t count) {
  const GlobalAddress address = area.first.address();
  for (std::uint64_t i = 0; i < count; ++i) {
    node.write_lock(address, sizeof(std::uint64_t)).or_throw();
    node.unlock(address, sizeof(std::uint64_t)).or_throw();
  }
}

/// Takes turns, a few passes each, after one untimed pass of both that warms the caches and brings the lines here.
Samples take_turns(Pair& pair, const char* name, std::uint64_t operations, const std::function<void()>& ours,
                   const std::function<void()>& native) {
  const std::uint64_t passes = pair.quick ? 4 : 10;
  const auto many = [passes](const std::function<void()>& work) {
    return [passes, &work] {
      for (std::uint64_t pass = 0; pass < passes; ++pass) work();
    };
  };
  Samples samples{name, pair.node.count(), {}, {}};
  pair.alone([&] {
    ours();
    pair.node.fence().or_throw();
    native();
    pair.repeat([&] {
      samples.values.push_back(time_ns(operations * passes, many(ours)));
      samples.baselines.push_back(time_ns(operations * passes, many(native)));
    });
  });
  return samples;
}

std::vector<std::uint64_t> counted(std::uint64_t words) {
  std::vector<std::uint64_t> data(words);
  native_store(data);
  return data;
}

std::vector<Samples> read_area(Pair& pair, const char* name, const Area& area) {
  const std::uint64_t expected = area.count * (area.count - 1) / 2;
  const std::vector<std::uint64_t> data = counted(area.count);
  return {take_turns(
      pair, name, area.count, [&] { expect_sum(sum(pair.node, area), expected); },
      [&] { expect_sum(native_sum(data), expected); })};
}

std::vector<Samples> write_area(Pair& pair, const char* name, const Area& area) {
  std::vector<std::uint64_t> data = counted(area.count);
  return {take_turns(
      pair, name, area.count, [&] { store(pair.node, area); }, [&] { native_store(data); })};
}

std::vector<Samples> read_local(Pair& pair) {
  return read_area(pair, "read_local", pair.near);
}
std::vector<Samples> read_cached(Pair& pair) {
  return read_area(pair, "read_cached", pair.cached.part(kNearWords));
}
std::vector<Samples> write_local(Pair& pair) {
  return write_area(pair, "write_local", pair.near);
}
std::vector<Samples> write_owned(Pair& pair) {
  return write_area(pair, "write_owned", pair.cached.part(kNearWords));
}

std::vector<Samples> read_random_cached(Pair& pair) {
  constexpr std::uint64_t kReads = 2'000'000;
  constexpr std::uint64_t kSeed = 42;
  const std::vector<std::uint64_t> data = counted(pair.cached.count);
  const std::uint64_t expected = native_random_sum(data, kReads, kSeed);
  pair.alone([&] { keep(sum(pair.node, pair.cached)); });
  return {take_turns(
      pair, "read_random_cached", kReads,
      [&] { expect_sum(random_sum(pair.node, pair.cached, kReads, kSeed), expected); },
      [&] { expect_sum(native_random_sum(data, kReads, kSeed), expected); })};
}

std::vector<Samples> lock_cached(Pair& pair) {
  constexpr std::uint64_t kLocks = 500'000;
  std::shared_mutex mutex;
  return {take_turns(
      pair, "lock_cached", kLocks, [&] { lock_unlock(pair.node, pair.cached, kLocks); },
      [&] { native_lock(mutex, kLocks); })};
}

constexpr PairCase kCases[] = {
    {"read_local", read_local},   {"read_cached", read_cached}, {"write_local", write_local},
    {"write_owned", write_owned}, {"lock_cached", lock_cached}, {"read_random_cached", read_random_cached},
};

}  // namespace

std::span<const PairCase> hit_cases() {
  return kCases;
}

}  // namespace atoll::bench
