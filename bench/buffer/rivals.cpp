// The pool beside a mapped file and LMDB.
#include <fmt/format.h>

#include "bench/buffer/records.hpp"
#include "bench/buffer/rival.hpp"
#include "bench/buffer/work.hpp"

namespace atoll::bench {
namespace {

constexpr std::uint64_t kTimesMemory = 4;
constexpr std::uint64_t kLooksAtClock = 16;

/// `read(n)` for random numbers below `count`, for a time: thousands per second.
template <typename Read>
double rate(std::uint64_t count, double seconds, std::uint64_t seed, Read&& read) {
  RandomPages random(count, seed);
  const Clock::time_point begun = Clock::now();
  std::uint64_t done = 0;
  do {
    read(random.next());
  } while (++done % kLooksAtClock != 0 || seconds_since(begun) < seconds);
  return double(done) / seconds_since(begun) * 1e-3;
}

void check_record(bool found, std::uint64_t key, const RecordFile::Value& value) {
  std::uint64_t word = 0;
  std::memcpy(&word, value.data(), sizeof(word));
  if (!found) throw Error(fmt::format("there is no record {}", key));
  expect_sum(word, key);
}

double seconds_of(const BufferWork& work) {
  return work.quick ? 0.25 : 2;
}

void compare_mapped(BufferWork& work, const MemoryGroup& group) {
  const std::string path = work.folder + "/pages";
  const std::uint64_t pages = kTimesMemory * work.frames;
  make_page_file(path, pages);
  Samples samples{"mmap_4x", 1, {}, {}};
  for (int i = 0; i < work.repetitions; ++i) {
    const RivalReads rival{"mmap", path, pages, seconds_of(work), group.path(), work.frames * kPageBytes};
    const double theirs = rival_reads_per_s(rival, work.folder + "/results") * 1e-3;
    BufferPool pool = open_pool(work.node, path);
    const auto read = [&](std::uint64_t page) { fix_and_check(pool, page); };
    (void)rate(pages, seconds_of(work), 1, read);
    samples.values.push_back(rate(pages, seconds_of(work), std::uint64_t(i) + 2, read));
    samples.baselines.push_back(theirs);
  }
  work.report(samples);
}

/// The same records in pages of the pool, found by arithmetic and through a tree, and in LMDB.
void compare_lmdb(BufferWork& work, const std::string& size, std::uint64_t leaves, const MemoryGroup* group) {
  const RecordFile file(leaves);
  const std::string path = work.folder + "/records-" + size, lmdb = work.folder + "/lmdb-" + size;
  file.make(path);
  make_lmdb(lmdb, file.records());
  BufferPool pool = open_pool(work.node, path);
  RecordFile::Value value{};
  const auto by_key = [&](std::uint64_t record) {
    const std::uint64_t key = RecordFile::key_of(record);
    const bool found = file.get(pool, key, value);
    check_record(found, key, value);
  };
  const auto by_tree = [&](std::uint64_t record) {
    const std::uint64_t key = RecordFile::key_of(record);
    const bool found = file.find(pool, key, value);
    check_record(found, key, value);
  };
  const double seconds = seconds_of(work);
  // What fits is in memory before it is measured, here as there.
  if (group == nullptr) {
    for (std::uint64_t page = 0; page < file.pages(); ++page) pool.fix_shared({0, page}).status().or_throw();
  }
  Samples arithmetic{"lmdb_key_" + size, 1, {}, {}}, tree{"lmdb_tree_" + size, 1, {}, {}};
  for (int i = 0; i < work.repetitions; ++i) {
    const auto seed = std::uint64_t(2 * i + 1);
    RivalReads rival{"lmdb", lmdb, file.records(), seconds, "", work.frames * kPageBytes};
    if (group != nullptr) rival.group = group->path();
    const double theirs = rival_reads_per_s(rival, work.folder + "/results") * 1e-3;
    (void)rate(file.records(), seconds / 2, seed, by_key);
    arithmetic.values.push_back(rate(file.records(), seconds, seed, by_key));
    arithmetic.baselines.push_back(theirs);
    (void)rate(file.records(), seconds / 2, seed + 1, by_tree);
    tree.values.push_back(rate(file.records(), seconds, seed + 1, by_tree));
    tree.baselines.push_back(theirs);
  }
  work.report(arithmetic);
  work.report(tree);
}

}  // namespace

void run_rivals(BufferWork& work) {
  const auto wants = [&work](const std::string& size) {
    return work.wants("lmdb_key_" + size) || work.wants("lmdb_tree_" + size);
  };
  if (wants("fits")) compare_lmdb(work, "fits", work.frames * 3 / 4, nullptr);
  if (!wants("4x") && !work.wants("mmap_4x")) return;
  const std::optional<MemoryGroup> group = MemoryGroup::make();
  if (!group) {
    fmt::print(stderr, "atoll bench: mmap_4x, lmdb_key_4x and lmdb_tree_4x are skipped: no cgroup can be made here\n");
    return;
  }
  if (work.wants("mmap_4x")) compare_mapped(work, *group);
  if (wants("4x")) compare_lmdb(work, "4x", kTimesMemory * work.frames, &*group);
}

}  // namespace atoll::bench
