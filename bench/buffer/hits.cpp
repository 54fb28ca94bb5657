// Pages that are in memory.
#include <shared_mutex>

#include "bench/buffer/work.hpp"

namespace atoll::bench {
namespace {

constexpr std::uint64_t kHotPages = 64;  // of each thread
constexpr double kBarNs = 30;            // what a hit may cost

/// So many fixes of pages in memory, from `first` on: every line read is checked by its sum.
void fix_hits(BufferPool& pool, std::uint64_t first, std::uint64_t count, std::uint64_t seed) {
  RandomPages random(kHotPages, seed);
  std::uint64_t sum = 0, expected = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t page = first + random.next();
    const SharedPage fixed = pool.fix_shared({0, page});
    if (!fixed.ok()) fixed.status().or_throw();
    sum += sum_of_line(fixed.bytes().data());
    expected += line_sum(page);
  }
  expect_sum(sum, expected);
}

/// The same reads without a fix.
void read_hits(BufferPool& pool, std::uint64_t first, std::uint64_t count, std::uint64_t seed) {
  RandomPages random(kHotPages, seed);
  std::uint64_t sum = 0, expected = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t page = first + random.next();
    std::uint64_t line = 0;
    const Status read =
        pool.read({0, page}, [&line](std::span<const std::byte> bytes) { line = sum_of_line(bytes.data()); });
    if (!read.ok()) read.or_throw();
    sum += line;
    expected += line_sum(page);
  }
  expect_sum(sum, expected);
}

/// The same reads of memory under locks of the system's library.
void lock_hits(std::uint64_t count) {
  struct Page {
    std::shared_mutex lock;
    alignas(kCacheLine) std::byte line[kCacheLine] = {};
  };
  std::vector<Page> pages(kHotPages);
  RandomPages random(kHotPages, 1);
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    Page& page = pages[random.next()];
    const std::shared_lock lock(page.lock);
    sum += sum_of_line(page.line);
  }
  expect_sum(sum, 0);
}

/// Million operations per second of so many threads together; each has its own pages, unless they are `shared`.
template <typename Operations>
double rate(unsigned threads, bool shared, std::uint64_t count, Operations&& operations) {
  const double seconds =
      in_threads_s(threads, [&](unsigned t) { operations(shared ? 0 : t * kHotPages, count, t + 1); });
  return double(threads) * double(count) / seconds * 1e-6;
}

}  // namespace

void run_hits(BufferWork& work) {
  const std::string path = work.folder + "/hits";
  constexpr unsigned kThreads = 2;
  make_page_file(path, kThreads * kHotPages);
  BufferPool pool = open_pool(work.node, path);
  for (std::uint64_t page = 0; page < kThreads * kHotPages; ++page) fix_and_check(pool, page);
  const std::uint64_t count = work.quick ? 1'000'000 : 5'000'000;
  const auto fixes = [&](std::uint64_t first, std::uint64_t n, std::uint64_t seed) { fix_hits(pool, first, n, seed); };
  const auto reads = [&](std::uint64_t first, std::uint64_t n, std::uint64_t seed) { read_hits(pool, first, n, seed); };
  Samples hit{"hit", 1, {}, {}}, hit_read{"hit_read", 1, {}, {}}, hit_mutex{"hit_mutex", 1, {}, {}},
      threads{"hit_threads", 1, {}, {}}, shared{"hit_threads_shared", 1, {}, {}},
      read_threads{"read_threads_shared", 1, {}, {}}, mutex_threads{"mutex_threads", 1, {}, {}};
  for (int i = 0; i < work.repetitions; ++i) {
    const double read = time_ns(count, [&] { reads(0, count, 1); });
    const double fix = time_ns(count, [&] { fixes(0, count, 1); });
    hit_mutex.values.push_back(fix);
    hit_mutex.baselines.push_back(time_ns(count, [&] { lock_hits(count); }));
    hit.values.push_back(fix);
    hit.baselines.push_back(kBarNs);
    hit_read.values.push_back(fix);
    hit_read.baselines.push_back(read);
    const auto locks = [](std::uint64_t, std::uint64_t n, std::uint64_t) { lock_hits(n); };
    mutex_threads.baselines.push_back(rate(1, false, count, locks));
    mutex_threads.values.push_back(rate(kThreads, false, count, locks));
    const double one = rate(1, false, count, fixes);
    threads.values.push_back(rate(kThreads, false, count, fixes));
    threads.baselines.push_back(one);
    shared.values.push_back(rate(kThreads, true, count, fixes));
    shared.baselines.push_back(one);
    read_threads.baselines.push_back(rate(1, false, count, reads));
    read_threads.values.push_back(rate(kThreads, true, count, reads));
  }
  for (const Samples& samples : {hit, hit_read, hit_mutex, threads, shared, read_threads, mutex_threads})
    work.report(samples);
}

}  // namespace atoll::bench
