// Cases of arrays that find their elements here: what an access costs against ordinary memory, and against reference
// counting.
#include <algorithm>
#include <barrier>
#include <functional>
#include <thread>

#include "bench/array_cases.hpp"
#include "bench/native.hpp"
#include "bench/pins.hpp"
#include "bench/refcount.hpp"

namespace atoll::bench {
namespace {

using Words = Array<std::uint64_t>;

/// Elements from `first` to `end`.
struct Range {
  std::uint64_t first = 0, end = 0;
  [[nodiscard]] std::uint64_t count() const noexcept { return end - first; }
  /// What the elements add up to, for element i holds i.
  [[nodiscard]] std::uint64_t sum() const noexcept { return (end * (end - 1) - first * (first - 1)) / 2; }
};
constexpr Range kAll{0, ArrayPair::kWords};
constexpr Range kLocal{0, ArrayPair::kHalf};                    // homed on node 0, which measures
constexpr Range kOther{ArrayPair::kHalf, ArrayPair::kWords};    // homed on node 1
constexpr Range kFew{kOther.first, kOther.first + (1u << 19)};  // 4 MiB of them, for what memory shall not slow down

// The loops are functions of their own so that each is compiled for itself, like native.cpp's.

[[gnu::noinline]] std::uint64_t sum(const Words& array, Range range) {
  std::uint64_t total = 0;
  for (std::uint64_t i = range.first; i < range.end; ++i) total += array.get(i).value();
  return total;
}

[[gnu::noinline]] void store(const Words& array, Range range) {
  for (std::uint64_t i = range.first; i < range.end; ++i) {
    const Status status = array.set(i, i);
    if (!status.ok()) [[unlikely]]
      status.or_throw();
  }
}

/// REQUIRES: range.count() is a power of two.
[[gnu::noinline]] std::uint64_t random_sum(const Words& array, Range range, std::uint64_t count, std::uint64_t seed) {
  Lcg random(seed);
  std::uint64_t total = 0;
  const std::uint64_t mask = range.count() - 1;
  for (std::uint64_t i = 0; i < count; ++i) total += array.get(range.first + (random.next() & mask)).value();
  return total;
}

/// Ordinary memory with what the range holds.
std::vector<std::uint64_t> copy_of(Range range) {
  std::vector<std::uint64_t> data(range.count());
  for (std::uint64_t i = 0; i < data.size(); ++i) data[i] = range.first + i;
  return data;
}

/// Does `work` until it needs no other node any more. Throws Error when it always does: then it is not a hit that would
/// be measured.
void settle(Node& node, const std::function<void()>& work) {
  constexpr int kTries = 10;
  for (int i = 0; i < kTries; ++i) {
    const Stats before = node.stats();
    work();
    node.fence().or_throw();
    const Stats after = node.stats();
    if (after.misses() == before.misses() && after.reads_in_place == before.reads_in_place) return;
  }
  throw Error("the elements do not stay in the cache");
}

/// Takes turns, a few passes each, after untimed ones of both that warm the caches and bring the elements here.
Samples take_turns(ArrayPair& pair, const char* name, std::uint64_t operations, const std::function<void()>& ours,
                   const std::function<void()>& native) {
  const std::uint64_t passes = pair.quick ? 2 : 5;
  const auto many = [passes](const std::function<void()>& work) {
    for (std::uint64_t pass = 0; pass < passes; ++pass) work();
  };
  Samples samples{name, pair.node.count(), {}, {}};
  pair.alone([&] {
    settle(pair.node, ours);
    native();
    for (int i = 0; i < pair.repetitions; ++i) {
      samples.values.push_back(time_ns(operations * passes, [&] { many(ours); }));
      samples.baselines.push_back(time_ns(operations * passes, [&] { many(native); }));
    }
  });
  return samples;
}

/// Asks for all that node 1 has, so that no read finds it better to look there.
void bring_all(ArrayPair& pair) {
  pair.alone([&] { pair.array.prefetch(kOther.first, kOther.count()).or_throw(); });
}

Samples get_range(ArrayPair& pair, const char* name, Range range) {
  const std::vector<std::uint64_t> data = copy_of(range);
  return take_turns(
      pair, name, range.count(), [&] { expect_sum(sum(pair.array, range), range.sum()); },
      [&] { expect_sum(native_sum(data), range.sum()); });
}

std::vector<Samples> get_seq(ArrayPair& pair) {
  bring_all(pair);
  return {get_range(pair, "get_seq", kAll), get_range(pair, "get_seq_local", kLocal),
          get_range(pair, "get_seq_cached", kOther)};
}

Samples set_range(ArrayPair& pair, const char* name, Range range) {
  std::vector<std::uint64_t> data(range.count());
  Samples samples = take_turns(
      pair, name, range.count(), [&] { store(pair.array, range); }, [&] { native_store(data); });
  pair.alone([&] { expect_sum(sum(pair.array, range), range.sum()); });
  return samples;
}

std::vector<Samples> set_seq(ArrayPair& pair) {
  return {set_range(pair, "set_seq", kAll), set_range(pair, "set_seq_local", kLocal),
          set_range(pair, "set_seq_owned", kOther)};
}

Samples pin_range(ArrayPair& pair, const char* name, Range range) {
  const std::vector<std::uint64_t> data = copy_of(range);
  return take_turns(
      pair, name, range.count(), [&] { expect_sum(sum_pinned(pair.array, range.first, range.end), range.sum()); },
      [&] { expect_sum(native_vector_sum(data), range.sum()); });
}

std::vector<Samples> pin_sum(ArrayPair& pair) {
  bring_all(pair);
  return {pin_range(pair, "pin_sum", kAll), pin_range(pair, "pin_sum_few", kFew)};
}

constexpr std::uint64_t kReads = 2'000'000;
constexpr std::uint64_t kSeed = 42;

Samples get_random_range(ArrayPair& pair, const char* name, Range range) {
  const std::vector<std::uint64_t> data = copy_of(range);
  const std::uint64_t expected = native_random_sum(data, kReads, kSeed);
  return take_turns(
      pair, name, kReads, [&] { expect_sum(random_sum(pair.array, range, kReads, kSeed), expected); },
      [&] { expect_sum(native_random_sum(data, kReads, kSeed), expected); });
}

std::vector<Samples> get_random(ArrayPair& pair) {
  bring_all(pair);
  pair.alone([&] { expect_sum(sum(pair.array, kAll), kAll.sum()); });
  return {get_random_range(pair, "get_random", kAll), get_random_range(pair, "get_random_cached", kOther)};
}

std::vector<Samples> refcount_seq(ArrayPair& pair) {
  RefcountArray counted(kAll.count());
  const std::vector<std::uint64_t> data = copy_of(kAll);
  return {take_turns(
      pair, "refcount_seq", kAll.count(), [&] { expect_sum(refcount_sum(counted, kAll.count()), kAll.sum()); },
      [&] { expect_sum(native_sum(data), kAll.sum()); })};
}

std::vector<Samples> refcount_random(ArrayPair& pair) {
  RefcountArray counted(kAll.count());
  const std::vector<std::uint64_t> data = copy_of(kAll);
  const std::uint64_t expected = native_random_sum(data, kReads, kSeed);
  return {take_turns(
      pair, "refcount_random", kReads,
      [&] { expect_sum(refcount_random_sum(counted, kAll.count(), kReads, kSeed), expected); },
      [&] { expect_sum(native_random_sum(data, kReads, kSeed), expected); })};
}

/// Million elements per second that `threads` threads sum up, each a range of its own and `passes` times, by
/// `sum_of(range)`. The time is from the first that begins to the last that ends, by their own clocks: a thread that
/// only waits for them might be woken late. A thread's first pass does not count.
template <typename SumOf>
double rate_of(unsigned threads, Range all, int passes, SumOf&& sum_of) {
  std::barrier<> line_up(threads);
  std::vector<Clock::time_point> begun(threads), ended(threads);
  const auto work = [&](unsigned t) {
    const Range mine{all.first + all.count() * t / threads, all.first + all.count() * (t + 1) / threads};
    keep(sum_of(mine));
    line_up.arrive_and_wait();
    begun[t] = Clock::now();
    for (int pass = 0; pass < passes; ++pass) keep(sum_of(mine));
    ended[t] = Clock::now();
  };
  {
    std::vector<std::jthread> others;
    for (unsigned t = 1; t < threads; ++t) others.emplace_back(work, t);
    work(0);
  }
  const Clock::duration took =
      *std::max_element(ended.begin(), ended.end()) - *std::min_element(begun.begin(), begun.end());
  return double(all.count()) * passes / std::chrono::duration<double>(took).count() / 1e6;
}

std::vector<Samples> threads(ArrayPair& pair) {
  Samples ours{"threads", pair.node.count(), {}, {}};
  Samples native{"threads_native", pair.node.count(), {}, {}};
  const std::vector<std::uint64_t> data = copy_of(kFew);
  const auto get = [&](Range range) { return sum(pair.array, range); };
  const auto plain = [&](Range range) {
    return native_sum(std::span(data).subspan(range.first - kFew.first, range.count()));
  };
  bring_all(pair);
  pair.alone([&] {
    settle(pair.node, [&] { expect_sum(sum(pair.array, kFew), kFew.sum()); });
    const int passes = pair.quick ? 50 : 200;
    for (int i = 0; i < pair.repetitions; ++i) {
      ours.values.push_back(rate_of(2, kFew, passes, get));
      ours.baselines.push_back(rate_of(1, kFew, passes, get));
      native.values.push_back(rate_of(2, kFew, passes, plain));
      native.baselines.push_back(rate_of(1, kFew, passes, plain));
    }
  });
  return {ours, native};
}

constexpr ArrayCase kCases[] = {
    {"get_seq", get_seq},       {"set_seq", set_seq},           {"pin_sum", pin_sum},
    {"get_random", get_random}, {"refcount_seq", refcount_seq}, {"refcount_random", refcount_random},
    {"threads", threads},
};

}  // namespace

std::span<const ArrayCase> array_hit_cases() {
  return kCases;
}

}  // namespace atoll::bench
