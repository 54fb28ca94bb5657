// Two nodes: what does not fit into the memory of the home is in the other node's.
#include <fmt/format.h>

#include "bench/buffer/raw_reads.hpp"
#include "bench/buffer/work.hpp"

namespace atoll::bench {
namespace {

constexpr std::uint64_t kPaperPages = 300;
constexpr std::uint64_t kSteps[] = {30, 60, kPaperPages};  // the paper has 30 frames on each of two nodes
constexpr const char* kStepCases[] = {"frames_1_30", "frames_31_60", "frames_61_300"};
constexpr const char* kSetCases[] = {"frames_set_30", "frames_set_60", "frames_set_300"};
constexpr double kTimesHome = 1.8;

double fix_us(BufferPool& pool, std::uint64_t page) {
  const Clock::time_point begun = Clock::now();
  fix_and_check(pool, page);
  return seconds_since(begun) * 1e6;
}

/// What one read of the disk takes, of the same file.
double disk_us(const std::string& path, std::uint64_t pages, double seconds) {
  return 1e6 / uring_reads_per_s({path, pages, 1, 1, seconds});
}

/// Fixes 300 different pages, none of which is in memory: the mean time of each step.
void first_fixes(BufferPool& pool, std::vector<Samples>& steps) {
  std::uint64_t page = 0;
  for (std::size_t step = 0; step < std::size(kSteps); ++step) {
    const std::uint64_t first = page;
    double us = 0;
    for (; page < kSteps[step]; ++page) us += fix_us(pool, page);
    steps[step].values.push_back(us / double(page - first));
  }
}

/// Fixes pages of a set again and again, in random order: the mean time once it is where it stays.
void again_and_again(BufferPool& pool, std::vector<Samples>& sets, bool quick) {
  const std::uint64_t rounds = quick ? 10 : 50;
  for (std::size_t set = 0; set < std::size(kSteps); ++set) {
    RandomPages random(kSteps[set], set + 1);
    const std::uint64_t count = rounds * kSteps[set];
    for (std::uint64_t i = 0; i < count; ++i) fix_and_check(pool, random.next());
    const auto all = [&] {
      for (std::uint64_t i = 0; i < count; ++i) fix_and_check(pool, random.next());
    };
    sets[set].values.push_back(time_ns(count, all) * 1e-3);
  }
}

}  // namespace

void run_frames(BufferWork& work) {
  const std::string path = work.folder + "/frames";
  if (work.measures()) make_page_file(path, kPaperPages);
  std::vector<Samples> all;
  for (const char* name : kStepCases) all.push_back({name, 2, {}, {}});
  std::vector<Samples> sets;
  for (const char* name : kSetCases) sets.push_back({name, 2, {}, {}});
  for (int i = 0; i < work.repetitions; ++i) {
    work.together();
    BufferPool pool = open_pool(work.node, path);  // again: the last who closed it has left no page in memory
    work.alone([&] {
      first_fixes(pool, all);
      again_and_again(pool, sets, work.quick);
      const double disk = disk_us(path, kPaperPages, work.quick ? 0.05 : 0.3);
      for (Samples& samples : all) samples.baselines.push_back(disk);
      for (Samples& samples : sets) samples.baselines.push_back(disk);
    });
  }
  if (!work.measures()) return;
  for (const Samples& samples : all) work.report(samples);
  for (const Samples& samples : sets) work.report(samples);
}

/// The home has room for half of the pages that it uses, the other node for all: fixes that bring one from there take
/// turns with fixes of pages that nobody has.
void run_remote(BufferWork& work) {
  const std::string path = work.folder + "/remote";
  const std::uint64_t used = 2 * work.frames;
  const std::uint64_t cold = (work.quick ? 400u : 2000u) * std::uint64_t(work.repetitions);
  if (work.measures()) make_page_file(path, used + cold);
  work.together();
  BufferPool pool = open_pool(work.node, path);
  work.alone([&] {
    constexpr int kWarmRounds = 10;
    RandomPages random(used, 1);
    for (std::uint64_t i = 0; i < kWarmRounds * used; ++i) fix_and_check(pool, random.next());
    Samples samples{"remote_frame", 2, {}, {}};
    for (int i = 0; i < work.repetitions; ++i) {
      std::vector<double> copies, reads;
      const std::uint64_t each = cold / std::uint64_t(work.repetitions);
      for (std::uint64_t n = 0; n < each; ++n) {
        const Stats before = work.node.stats();
        const double us = fix_us(pool, random.next());
        const Stats after = work.node.stats();
        if (after.file_copies > before.file_copies && after.file_reads == before.file_reads) copies.push_back(us);
        reads.push_back(fix_us(pool, used + std::uint64_t(i) * each + n));
      }
      if (copies.empty()) continue;
      samples.values.push_back(median(copies));
      samples.baselines.push_back(median(reads));
    }
    work.report(samples);
  });
}

/// A set of pages, at random, by the home: as it is with this number of nodes.
void run_set(BufferWork& work) {
  const std::string path = work.folder + "/set";
  const auto used = std::uint64_t(kTimesHome * double(work.frames));
  if (work.measures()) make_page_file(path, used);
  work.together();
  BufferPool pool = open_pool(work.node, path);
  work.alone([&] {
    constexpr int kWarmRounds = 20;
    RandomPages random(used, 1);
    for (std::uint64_t i = 0; i < kWarmRounds * used; ++i) fix_and_check(pool, random.next());
    const std::uint64_t before = work.node.stats().file_reads;
    const std::uint64_t count = (work.quick ? 5 : 20) * used;
    const Clock::time_point begun = Clock::now();
    for (std::uint64_t i = 0; i < count; ++i) fix_and_check(pool, random.next());
    const double seconds = seconds_since(begun);
    const double reads = double(work.node.stats().file_reads - before);
    cluster::report(work.job, {{"reads", reads * 1e3 / double(count)}, {"rate", double(count) / seconds * 1e-3}});
  });
}

}  // namespace atoll::bench
