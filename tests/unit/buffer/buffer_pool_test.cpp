// The pool: pages of several files on several nodes, of one process.
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "base/random.hpp"
#include "support/local_cluster.hpp"
#include "support/seed.hpp"

namespace atoll::test {
namespace {

constexpr std::uint32_t kPage = 4096;
// BufferPool::read looks at bytes that may be changing, and then whether they were: ThreadSanitizer sees a race.
#ifdef ATOLL_TSAN
constexpr bool kFixesAlone = true;
#else
constexpr bool kFixesAlone = false;
#endif

class Pool : public ::testing::Test {
 protected:
  Pool() {
    const std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    folder_ = std::filesystem::temp_directory_path() / ("atoll-pool-" + std::to_string(::getpid()) + "-" + name);
    std::filesystem::create_directories(folder_);
  }
  ~Pool() override { std::filesystem::remove_all(folder_); }
  static Options options(std::uint64_t frames) {
    Options o = LocalCluster::small_options();
    o.file_space_bytes = 256 << 20;
    o.file_memory_bytes = frames * kPage;
    o.cache_bytes = 4 << 20;
    return o;
  }
  static FileOptions on(NodeId node) {
    FileOptions o;
    o.node = node;
    o.create = true;
    return o;
  }
  static void put(const ExclusivePage& page, std::uint64_t value) {
    for (std::size_t at = 0; at < page.bytes().size(); at += 8) std::memcpy(page.bytes().data() + at, &value, 8);
  }
  /// The value that the whole page has; it fails where it is not one.
  static std::uint64_t whole(std::span<const std::byte> bytes) {
    std::uint64_t first = 0, at = 0;
    std::memcpy(&first, bytes.data(), 8);
    for (std::size_t i = 8; i < bytes.size(); i += 8) {
      std::memcpy(&at, bytes.data() + i, 8);
      if (at != first) return ~std::uint64_t{0};
    }
    return first;
  }
  std::string path(const std::string& file) const { return folder_ / file; }
  std::filesystem::path folder_;
};

TEST_F(Pool, PagesOfSeveralFilesOnSeveralNodes) {
  LocalCluster cluster(2, options(40));
  std::vector<BufferPool> pools;
  for (NodeId id = 0; id < 2; ++id) {
    BufferPool& pool = pools.emplace_back(cluster[id], kPage);
    for (const NodeId home : {NodeId(0), NodeId(1), NodeId(0)}) {
      ASSERT_TRUE(pool.add_file(path("f" + std::to_string(pool.files())), on(home)).ok());
    }
  }
  for (std::uint32_t file = 0; file < 3; ++file) {
    ASSERT_TRUE(pools[0].resize(file, 100).ok());
    ASSERT_TRUE(pools[1].file(file).refresh().ok());
    EXPECT_EQ(pools[1].pages(file), 100u);
    for (std::uint64_t page = 0; page < 100; ++page) {
      const ExclusivePage fixed = pools[page % 2].fix_exclusive({file, page});
      ASSERT_TRUE(fixed.ok()) << fixed.status().to_string();
      put(fixed, file * 1000 + page);
    }
  }
  for (std::uint32_t file = 0; file < 3; ++file) {
    for (std::uint64_t page = 0; page < 100; ++page) {
      const SharedPage fixed = pools[(page + 1) % 2].fix_shared({file, page});
      ASSERT_TRUE(fixed.ok()) << fixed.status().to_string();
      ASSERT_EQ(whole(fixed.bytes()), file * 1000 + page);
    }
  }
  ASSERT_TRUE(pools[1].flush().ok());
}

TEST_F(Pool, FixesExcludeEachOther) {
  LocalCluster cluster(2, options(40));
  BufferPool here(cluster[0], kPage), there(cluster[1], kPage);
  ASSERT_TRUE(here.add_file(path("f"), on(0)).ok());
  ASSERT_TRUE(here.resize(0, 4).ok());
  ASSERT_TRUE(there.add_file(path("f"), on(0)).ok());
  SharedPage shared = here.fix_shared({0, 1});
  ASSERT_TRUE(shared.ok());
  EXPECT_EQ(there.try_fix_exclusive({0, 1}).status().code(), Errc::kRefused);
  EXPECT_TRUE(there.try_fix_shared({0, 1}).ok());
  ASSERT_TRUE(shared.unfix().ok());
  ExclusivePage exclusive = there.fix_exclusive({0, 1});
  ASSERT_TRUE(exclusive.ok());
  EXPECT_EQ(here.try_fix_shared({0, 1}).status().code(), Errc::kRefused);
  ASSERT_TRUE(exclusive.unfix().ok());
  EXPECT_TRUE(here.try_fix_exclusive({0, 1}).ok());
}

TEST_F(Pool, WhatIsNotThereIsAnError) {
  LocalCluster cluster(1, options(40));
  BufferPool pool(cluster[0], kPage);
  EXPECT_EQ(pool.fix_shared({0, 0}).status().code(), Errc::kInvalidArgument);
  ASSERT_TRUE(pool.add_file(path("f"), on(0)).ok());
  EXPECT_EQ(pool.fix_shared({0, 0}).status().code(), Errc::kInvalidArgument);
  EXPECT_EQ(pool.add_file(path("no/such/folder"), on(0)).status().ok(), false);
  BufferPool odd(cluster[0], 1000);
  EXPECT_EQ(odd.add_file(path("g"), on(0)).status().code(), Errc::kInvalidArgument);
}

TEST_F(Pool, MoreFixedThanThereIsMemoryForIsAnErrorAndNotTheEnd) {
  LocalCluster cluster(1, options(32));
  BufferPool pool(cluster[0], kPage);
  ASSERT_TRUE(pool.add_file(path("f"), on(0)).ok());
  ASSERT_TRUE(pool.resize(0, 64).ok());
  std::vector<SharedPage> fixed;
  Status failed;
  for (std::uint64_t page = 0; page < 64 && failed.ok(); ++page) {
    fixed.push_back(pool.fix_shared({0, page}));
    failed = fixed.back().status();
  }
  EXPECT_EQ(failed.code(), Errc::kStorage) << failed.to_string();
  EXPECT_GE(fixed.size(), 32u);
  fixed.clear();
  EXPECT_TRUE(pool.fix_shared({0, 63}).ok());
}

/// Threads change whole pages and read them whole, fixed or not, with few frames: no reader may see half a change.
TEST_F(Pool, ReadersSeeWholePages) {
  LocalCluster cluster(2, options(32));
  constexpr std::uint64_t kPages = 48;
  std::vector<BufferPool> pools;
  for (NodeId id = 0; id < 2; ++id) {
    pools.emplace_back(cluster[id], kPage);
    ASSERT_TRUE(pools[id].add_file(path("f"), on(0)).ok());
    if (id != 0) continue;
    ASSERT_TRUE(pools[0].resize(0, kPages).ok());
  }
  std::atomic<std::uint64_t> torn{0}, changes{0};
  const std::uint64_t seed = fresh_seed();
  SCOPED_TRACE(repeat_with(seed));
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      BufferPool& pool = pools[t % 2];
      base::Random random(seed + t);
      for (int i = 0; i < 2000; ++i) {
        const PageId page{0, random.below(kPages)};
        if (i % 4 == 0) {
          const ExclusivePage fixed = pool.fix_exclusive(page);
          if (!fixed.ok()) std::abort();
          put(fixed, t * 10000 + std::uint64_t(i));
          ++changes;
        } else if (i % 4 == 1 || kFixesAlone) {
          const SharedPage fixed = pool.fix_shared(page);
          if (!fixed.ok()) std::abort();
          if (whole(fixed.bytes()) == ~std::uint64_t{0}) ++torn;
        } else {
          std::uint64_t value = 0;
          if (!pool.read(page, [&](std::span<const std::byte> bytes) { value = whole(bytes); }).ok()) std::abort();
          if (value == ~std::uint64_t{0}) ++torn;
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(torn, 0u);
  EXPECT_EQ(changes, 4 * 500u);
}

TEST_F(Pool, AScanSeesEveryPageOnceAndReadsAhead) {
  LocalCluster cluster(1, options(64));
  BufferPool pool(cluster[0], kPage);
  ASSERT_TRUE(pool.add_file(path("f"), on(0)).ok());
  ASSERT_TRUE(pool.resize(0, 300).ok());
  for (std::uint64_t page = 0; page < 300; ++page) put(pool.fix_exclusive({0, page}), page);
  std::uint64_t next = 0;
  ASSERT_TRUE(pool.scan(0, 0, 300,
                        [&](std::uint64_t page, std::span<const std::byte> bytes) {
                          EXPECT_EQ(page, next++);
                          EXPECT_EQ(whole(bytes), page);
                        })
                  .ok());
  EXPECT_EQ(next, 300u);
}

}  // namespace
}  // namespace atoll::test
