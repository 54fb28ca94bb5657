// What Atoll's buffer pool is measured with must be right too: a table that loses keys is quick.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "base/random.hpp"
#include "bench/buffer/page_table.hpp"
#include "bench/buffer/raw_reads.hpp"
#include "bench/buffer/records.hpp"
#include "bench/buffer/rival.hpp"
#include "bench/buffer/work.hpp"
#include "bench/folder.hpp"
#include "support/local_cluster.hpp"
#include "support/seed.hpp"

namespace atoll::bench {
namespace {

Options options() {
  Options options = test::LocalCluster::small_options();
  options.file_space_bytes = 256u << 20;
  options.file_memory_bytes = 64 * kPageBytes;
  options.cache_bytes = 4u << 20;
  return options;
}

class BufferBench : public testing::Test {
 protected:
  [[nodiscard]] std::string path() const { return folder_.path() + "/file"; }

  const Folder folder_{""};
  test::LocalCluster cluster_{1, options()};
};

TEST_F(BufferBench, PagesHoldTheirNumbers) {
  constexpr std::uint64_t kPages = 300;  // not all at once
  make_page_file(path(), kPages);
  EXPECT_EQ(std::filesystem::file_size(path()), kPages * kPageBytes);
  BufferPool pool = open_pool(cluster_[0], path());
  for (std::uint64_t page = 0; page < kPages; ++page) EXPECT_NO_THROW(fix_and_check(pool, page));
  EXPECT_GT(read_ahead(pool, kPages, 8, 0.01, 1), 0u);
}

TEST_F(BufferBench, RawReadersReadWhatIsThere) {
  make_page_file(path(), 100);
  EXPECT_GT(uring_reads_per_s({path(), 100, 4, 2, 0.01}), 0);
  EXPECT_THROW((void)uring_reads_per_s({path() + "-not", 100, 4, 1, 0.01}), Error);
  std::filesystem::resize_file(path(), 50 * kPageBytes);
  EXPECT_THROW((void)uring_reads_per_s({path(), 1000, 4, 1, 0.1}), Error);
}

TEST_F(BufferBench, ATableHoldsWhatAMapDoes) {
  const std::uint64_t seed = test::fresh_seed();
  SCOPED_TRACE(test::repeat_with(seed));
  constexpr std::uint64_t kPages = 4;  // few: probes go on into the next page, and from the last into the first
  make_page_file(path(), 1);
  BufferPool pool = open_pool(cluster_[0], path());
  ASSERT_TRUE(pool.resize(0, kPages).ok());  // page 0 was all zeros, as the others are
  PageTable table(pool, 0, kPages);
  std::map<std::uint64_t, std::uint64_t> model;
  base::Random random(seed);
  while (model.size() < table.slots()) {
    const std::uint64_t key = random.below(2 * table.slots()) + 1, value = random.below(1u << 30);
    ASSERT_EQ(table.put(key, value), model.count(key) == 0);
    model[key] = value;
  }
  for (std::uint64_t key = 1; key <= 2 * table.slots(); ++key) {
    const auto found = model.find(key);
    ASSERT_EQ(table.get(key), found == model.end() ? std::nullopt : std::optional(found->second)) << key;
  }
  EXPECT_THROW((void)table.put(3 * table.slots(), 1), Error);  // it is full
}

TEST_F(BufferBench, RecordsAreFoundByKeyAndThroughTheTree) {
  for (const std::uint64_t leaves : {1u, 2u, 256u, 257u, 600u}) {
    const RecordFile file(leaves);
    file.make(path());
    EXPECT_EQ(std::filesystem::file_size(path()), file.pages() * kPageBytes);
    BufferPool pool = open_pool(cluster_[0], path());
    RecordFile::Value value{};
    for (std::uint64_t record = 0; record < file.records(); record += record % 37 == 0 ? 1 : 9) {
      const std::uint64_t key = RecordFile::key_of(record);
      ASSERT_TRUE(file.get(pool, key, value)) << record;
      ASSERT_EQ(value, RecordFile::value_of(key));
      value = {};
      ASSERT_TRUE(file.find(pool, key, value)) << record;
      ASSERT_EQ(value, RecordFile::value_of(key));
      ASSERT_FALSE(file.find(pool, key + 1, value)) << record;
    }
    EXPECT_FALSE(file.get(pool, RecordFile::key_of(file.records()), value));
    EXPECT_FALSE(file.find(pool, RecordFile::key_of(file.records()), value));
    EXPECT_FALSE(file.find(pool, 0, value));
  }
}

/// A leaf holds 37 records, a node of the tree 256 children: 600 leaves, 3 nodes, the root.
TEST(RecordFile, HasATreeAboveItsLeaves) {
  EXPECT_EQ(RecordFile(1).pages(), 2u);
  EXPECT_EQ(RecordFile(256).pages(), 257u);
  EXPECT_EQ(RecordFile(600).pages(), 604u);
  EXPECT_EQ(RecordFile(600).records(), 600u * 37);
}

TEST(RandomPagesOf, AreAllOfThem) {
  RandomPages random(10, 1);
  std::map<std::uint64_t, int> seen;
  for (int i = 0; i < 1000; ++i) ++seen[random.next()];
  EXPECT_EQ(seen.size(), 10u);
  EXPECT_EQ(seen.rbegin()->first, 9u);
}

}  // namespace
}  // namespace atoll::bench
