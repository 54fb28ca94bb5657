// Pages that are on the disk, at random.
#include <fmt/format.h>

#include <map>

#include "bench/buffer/raw_reads.hpp"
#include "bench/buffer/work.hpp"

namespace atoll::bench {
namespace {

constexpr std::uint64_t kTimesMemory = 4;
constexpr std::uint64_t kLooksAtClock = 8;  // operations between two
constexpr unsigned kDeepest = 32;

struct DiskCase {
  const char* name;
  unsigned depth;  // of each thread
  unsigned threads;
};
constexpr DiskCase kDiskCases[] = {
    {"disk_1", 1, 1},
    {"disk_8", 8, 1},
    {"disk_32", kDeepest, 1},
    {"disk_8_threads", 4, 2},
    {"disk_32_threads", kDeepest / 2, 2},
};

struct Rate {
  double reads = 0, pages = 0;  // per second; reads of the disk
};

/// `seed` is another one for the next: the pages that were read last are in memory.
Rate pool_rate(BufferWork& work, BufferPool& pool, std::uint64_t pages, const DiskCase& one, double seconds,
               std::uint64_t& seed) {
  const std::uint64_t before = work.node.stats().file_reads;
  std::atomic<std::uint64_t> done{0};
  const double took =
      in_threads_s(one.threads, [&](unsigned t) { done += read_ahead(pool, pages, one.depth, seconds, seed + t); });
  seed += one.threads;
  return {double(work.node.stats().file_reads - before) / took, double(done) / took};
}

}  // namespace

std::uint64_t read_ahead(BufferPool& pool, std::uint64_t pages, unsigned depth, double seconds, std::uint64_t seed) {
  RandomPages random(pages, seed);
  std::vector<std::uint64_t> ahead(depth);
  for (std::uint64_t& page : ahead) {
    page = random.next();
    pool.prefetch({0, page}, 1).or_throw();
  }
  const Clock::time_point begun = Clock::now();
  std::uint64_t done = 0;
  do {
    std::uint64_t& page = ahead[done % depth];
    fix_and_check(pool, page);
    page = random.next();
    pool.prefetch({0, page}, 1).or_throw();
    ++done;
  } while (done % kLooksAtClock != 0 || seconds_since(begun) < seconds);
  return done;
}

void run_disk(BufferWork& work) {
  const std::string path = work.folder + "/disk";
  const std::uint64_t pages = kTimesMemory * work.frames;
  make_page_file(path, pages);
  BufferPool pool = open_pool(work.node, path);
  const double seconds = work.quick ? 0.25 : 2;
  const auto wanted = [&work](const DiskCase& one) {
    const std::string name = one.name;
    return work.wants(name) || work.wants(name + "_pages") || work.wants(name + "_fio");
  };
  std::uint64_t seed = 1;
  (void)read_ahead(pool, pages, kDeepest, seconds, seed++);  // the memory is full then
  std::map<std::string, Samples> found;
  const auto add = [&](const std::string& name, double value, double baseline) {
    Samples& samples = found[name];
    samples.name = name;
    samples.values.push_back(value);
    samples.baselines.push_back(baseline);
  };
  for (int i = 0; i < work.repetitions; ++i) {
    for (const DiskCase& one : kDiskCases) {
      if (!wanted(one)) continue;
      const RawReads raw{path, pages, one.depth, one.threads, seconds};
      const Rate ours = pool_rate(work, pool, pages, one, seconds, seed);
      const double theirs = uring_reads_per_s(raw);
      const std::string name = one.name;
      add(name, ours.reads * 1e-3, theirs * 1e-3);
      add(name + "_pages", ours.pages * 1e-3, theirs * 1e-3);
      if (!work.wants(name + "_fio")) continue;
      const auto fio = fio_reads_per_s(raw);
      if (fio) add(name + "_fio", ours.reads * 1e-3, *fio * 1e-3);
      if (!fio && i == 0) fmt::print(stderr, "atoll bench: {}_fio is skipped: no fio with io_uring here\n", name);
    }
  }
  for (const auto& [name, samples] : found) work.report(samples);
}

}  // namespace atoll::bench
