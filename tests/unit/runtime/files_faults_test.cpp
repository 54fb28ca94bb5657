// Files on a disk that fails, and files whose process is killed.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/random.hpp"
#include "storage/faulty_page_store.hpp"
#include "support/local_cluster.hpp"
#include "support/seed.hpp"

namespace atoll::test {
namespace {

constexpr std::uint64_t kPage = 4096;

Options small(std::uint64_t pages) {
  Options o = LocalCluster::small_options();
  o.file_space_bytes = 256 << 20;
  o.file_memory_bytes = pages * kPage;
  o.cache_bytes = 1 << 20;
  return o;
}

/// One node on a disk in memory. All that drives the disk is the test's own thread.
class FaultyFiles : public ::testing::Test {
 protected:
  FaultyFiles() {
    auto store = std::make_unique<storage::FaultyPageStore>(7);
    disk = store.get();
    const Options options = small(32);
    node = std::make_unique<Node>(std::make_unique<runtime::Runtime>(
        options, std::make_unique<LocalMembership>(hub_, 0), runtime::make_transport(options), base::Host::real(),
        nullptr, std::move(store)));
    FileOptions how;
    how.create = true;
    file = node->open_file("data", how).value();
    file.resize(256 * kPage).or_throw();
  }
  ~FaultyFiles() override {
    disk->set_faults({});
    file = {};
    node.reset();
  }
  global_ptr<std::uint64_t> word(std::uint64_t page) const {
    return global_ptr<std::uint64_t>(file.address() + std::int64_t(page * kPage));
  }

  std::shared_ptr<Hub> hub_ = std::make_shared<Hub>(1);
  storage::FaultyPageStore* disk = nullptr;
  std::unique_ptr<Node> node;
  File file;
};

TEST_F(FaultyFiles, AReadThatFailsIsTheErrorOfWhoWaitedAndIsTriedAgain) {
  for (std::uint64_t page = 0; page < 256; ++page) ASSERT_TRUE(node->write<std::uint64_t>(word(page), page + 1).ok());
  ASSERT_TRUE(file.flush().ok());
  disk->fail_next(storage::Operation::kRead, 1, EIO);
  EXPECT_EQ(node->read(word(3)).status().code(), Errc::kStorage);
  EXPECT_EQ(node->read(word(3)).value(), 4u);
  disk->fail_next(storage::Operation::kRead, 1, EIO);
  EXPECT_EQ(node->write_lock(word(5).address(), 8).code(), Errc::kStorage);
  ASSERT_TRUE(node->write_lock(word(5).address(), 8).ok());
  EXPECT_EQ(node->read(word(5)).value(), 6u);
  ASSERT_TRUE(node->unlock(word(5).address(), 8).ok());
  disk->fail_next(storage::Operation::kRead, 1, EIO);
  EXPECT_FALSE(node->fetch_add(word(7), 1).ok());
  EXPECT_EQ(node->fetch_add(word(7), 1).value(), 8u);
  // A write that fails in the background is told by the next fence.
  disk->fail_next(storage::Operation::kRead, 1, EIO);
  ASSERT_TRUE(node->write<std::uint64_t>(word(9), 1).ok());
  EXPECT_EQ(node->fence().code(), Errc::kStorage);
  EXPECT_TRUE(node->fence().ok());
}

TEST_F(FaultyFiles, AWriteThatFailsLosesNothing) {
  for (std::uint64_t page = 0; page < 16; ++page) ASSERT_TRUE(node->write<std::uint64_t>(word(page), page + 1).ok());
  disk->fail_next(storage::Operation::kWrite, 1, EIO);
  EXPECT_EQ(file.flush().code(), Errc::kStorage);
  EXPECT_TRUE(file.flush().ok());
  disk->fail_next(storage::Operation::kSync, 1, EIO);
  ASSERT_TRUE(node->write<std::uint64_t>(word(2), 33).ok());
  EXPECT_FALSE(file.flush().ok());
  EXPECT_TRUE(file.flush().ok());
  for (std::uint64_t page = 32; page < 256; ++page) ASSERT_TRUE(node->read(word(page)).ok());  // out with the first
  for (std::uint64_t page = 0; page < 16; ++page) EXPECT_EQ(node->read(word(page)).value(), page == 2 ? 33 : page + 1);
}

TEST_F(FaultyFiles, AFullDiskIsAnErrorAndNotTheEnd) {
  for (std::uint64_t page = 0; page < 8; ++page) ASSERT_TRUE(node->write<std::uint64_t>(word(page), page + 1).ok());
  ASSERT_TRUE(file.flush().ok());
  disk->set_capacity(1);
  ASSERT_TRUE(node->write<std::uint64_t>(word(100), 100).ok());
  EXPECT_EQ(file.flush().code(), Errc::kStorageFull);
  EXPECT_EQ(node->read(word(3)).value(), 4u);
  EXPECT_EQ(node->read(word(100)).value(), 100u);
  disk->set_capacity(1 << 30);
  EXPECT_TRUE(file.flush().ok());
}

/// Random changes, reads and flushes, where any request of the disk may fail: what a call says was done was done, and
/// what is read is what was written last.
TEST_F(FaultyFiles, WhatIsReadIsWhatWasWrittenWhateverTheDiskDoes) {
  const std::uint64_t seed = fresh_seed();
  SCOPED_TRACE(repeat_with(seed));
  base::Random random(seed);
  std::vector<std::uint64_t> model(256);
  int failed = 0;
  for (int i = 0; i < scaled(20'000); ++i) {
    if (i % 1000 == 0) disk->set_faults({.failure = i % 2000 == 0 ? 0.02 : 0, .short_transfer = 0.05});
    const std::uint64_t page = random.below(model.size());
    const auto what = random.below(100);
    if (what < 45) {
      const auto got = node->read(word(page));
      failed += !got.ok();
      if (got.ok()) {
        ASSERT_EQ(*got, model[page]) << "page " << page << " at " << i;
      }
    } else if (what < 90) {
      const auto got = node->fetch_add(word(page), 1);
      failed += !got.ok();
      if (got.ok()) {
        ASSERT_EQ(*got, model[page]++) << "page " << page << " at " << i;
      }
    } else if (what < 92) {
      failed += !file.flush().ok();
    } else {
      failed += !file.flush(page * kPage, kPage).ok();
    }
  }
  disk->set_faults({});
  EXPECT_GT(failed, 0);
  ASSERT_TRUE(file.flush().ok());
  for (std::uint64_t page = 0; page < model.size(); ++page) ASSERT_EQ(node->read(word(page)).value(), model[page]);
}

/// What a child that is killed says it has flushed: of each page the version, whole.
struct Told {
  std::uint32_t page = 0;
  std::uint32_t version = 0;
};

[[noreturn]] void change_pages(const std::string& path, int out, std::uint64_t seed, std::uint32_t pages) {
  LocalCluster cluster(1, small(64));
  FileOptions how;
  File file = cluster[0].open_file(path, how).value();
  base::Random random(seed);
  std::vector<std::uint64_t> image(kPage / 8);
  std::uint32_t version = std::uint32_t(seed % 1000) * 100'000;
  while (true) {
    Told told[8];
    for (Told& one : told) {
      one = {std::uint32_t(random.below(pages)), ++version};
      std::fill(image.begin(), image.end(), std::uint64_t(version) << 32 | one.page);
      file.write(one.page * kPage, std::as_bytes(std::span(image))).or_throw();
    }
    if (random.below(2) == 0) continue;  // it reaches the file when there is no room for it, or not at all
    cluster[0].fence().or_throw();
    for (const Told& one : told) {
      file.flush(one.page * kPage, kPage).or_throw();
      (void)!::write(out, &one, sizeof(one));
    }
  }
}

TEST(KilledFiles, EveryFlushedPageIsWholeAndCurrent) {
  constexpr std::uint32_t kPages = 300;
  const std::string path = std::filesystem::temp_directory_path() / ("atoll-killed-" + std::to_string(::getpid()));
  std::ofstream(path) << std::string(kPages * kPage, '\0');
  const std::uint64_t seed = fresh_seed();
  SCOPED_TRACE(repeat_with(seed));
  base::Random random(seed);
  std::map<std::uint32_t, std::uint32_t> flushed;  // page: version
  std::uint64_t told_count = 0;
  for (int round = 1; round <= scaled(5) + 2; ++round) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      try {
        change_pages(path, ends[1], std::uint64_t(round), kPages);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "the child: %s\n", error.what());
        ::_exit(1);
      }
    }
    ::close(ends[1]);
    Told told;
    for (std::uint64_t left = 1 + random.below(200); left > 0; --left) {
      ASSERT_EQ(::read(ends[0], &told, sizeof(told)), ssize_t(sizeof(told)));
      flushed[told.page] = told.version;
      ++told_count;
    }
    ::kill(child, SIGKILL);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    while (::read(ends[0], &told, sizeof(told)) == ssize_t(sizeof(told))) flushed[told.page] = told.version;
    ::close(ends[0]);
    LocalCluster cluster(1, small(64));
    FileOptions how;
    File file = cluster[0].open_file(path, how).value();
    std::vector<std::uint64_t> image(kPage / 8);
    for (std::uint32_t page = 0; page < kPages; ++page) {
      ASSERT_TRUE(file.read(page * kPage, std::as_writable_bytes(std::span(image))).ok());
      for (const std::uint64_t word : image) ASSERT_EQ(word, image[0]) << "page " << page << " is torn";
      const auto version = std::uint32_t(image[0] >> 32);
      if (flushed.contains(page)) {
        ASSERT_GE(version, flushed[page]) << "page " << page << " is old";
      }
      if (version != 0) {
        ASSERT_EQ(std::uint32_t(image[0]), page);
      }
    }
  }
  EXPECT_GT(told_count, 0u);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace atoll::test
