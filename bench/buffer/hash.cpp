// A hash table that does not fit into the memory for pages, beside one that does.
#include <fmt/format.h>

#include <fstream>

#include "bench/buffer/page_table.hpp"
#include "bench/buffer/work.hpp"

namespace atoll::bench {
namespace {

struct Times {
  double insert = 0, update = 0;  // us
};

/// Zeros that are on the disk, so that reading them costs what reading costs.
void make_empty_file(const std::string& path, std::uint64_t pages) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  const std::vector<char> zeros(kPageBytes);
  for (std::uint64_t page = 0; page < pages; ++page) out.write(zeros.data(), std::streamsize(zeros.size()));
  out.close();
  if (!out) throw Error(fmt::format("cannot write {}", path));
  drop_page_cache(path);
}

/// Inserts so many keys, then gives each another value, in another order; some of them are looked at in the end.
Times use_table(BufferPool& pool, std::uint64_t pages, std::uint64_t keys) {
  PageTable table(pool, 0, pages);
  const auto insert = [&] {
    for (std::uint64_t key = 1; key <= keys; ++key) {
      if (!table.put(key, key)) throw Error(fmt::format("key {} is there before it is inserted", key));
    }
  };
  RandomPages random(keys, pages);
  std::vector<std::uint64_t> updated(keys);
  for (std::uint64_t& key : updated) key = random.next() + 1;
  const auto update = [&] {
    for (const std::uint64_t key : updated) {
      if (table.put(key, key + 1)) throw Error(fmt::format("key {} is gone", key));
    }
  };
  Times times;
  times.insert = time_ns(keys, insert) * 1e-3;
  times.update = time_ns(keys, update) * 1e-3;
  for (std::uint64_t i = 0; i < keys; i += 100) expect_sum(table.get(updated[i]).value_or(0), updated[i] + 1);
  return times;
}

}  // namespace

void run_hash(BufferWork& work) {
  const std::string suffix = work.node.count() == 1 ? "_alone" : "";
  const std::uint64_t keys = work.quick ? 5'000 : 50'000;
  Samples insert{"hash_insert" + suffix, work.node.count(), {}, {}};
  Samples update{"hash_update" + suffix, work.node.count(), {}, {}};
  Samples both{"hash_insert_fits" + suffix, work.node.count(), {}, {}};
  for (int i = 0; i < work.repetitions; ++i) {
    Times times[2];
    for (const bool exceeds : {false, true}) {
      const std::uint64_t pages = exceeds ? 2 * work.frames : work.frames / 2;
      const std::string path = work.folder + (exceeds ? "/large-" : "/small-") + std::to_string(i);
      if (work.measures()) make_empty_file(path, pages);
      work.together();
      BufferPool pool = open_pool(work.node, path);
      work.alone([&] {
        // What is in memory is there from the beginning, however large the table.
        for (std::uint64_t page = 0; page < pages; ++page) pool.fix_shared({0, page}).status().or_throw();
        times[int(exceeds)] = use_table(pool, pages, keys);
      });
    }
    insert.values.push_back(times[1].insert);
    insert.baselines.push_back(times[0].insert);
    update.values.push_back(times[1].update);
    update.baselines.push_back(times[0].update);
    both.values.push_back(times[0].insert);
    both.baselines.push_back(times[0].update);
  }
  if (!work.measures()) return;
  for (const Samples& samples : {insert, update, both}) work.report(samples);
}

}  // namespace atoll::bench
