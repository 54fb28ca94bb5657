// Files as memory: nodes of one process, real files in a folder of the test's own.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <numeric>

#include "base/random.hpp"
#include "support/local_cluster.hpp"
#include "support/seed.hpp"

namespace atoll::test {
namespace {

using namespace std::chrono_literals;

class Files : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  Files() {
    folder_ = std::filesystem::temp_directory_path() / ("atoll-files-" + std::to_string(::getpid()) + "-" + name());
    std::filesystem::create_directories(folder_);
  }
  ~Files() override { std::filesystem::remove_all(folder_); }
  static std::string name() {
    std::string text = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::replace(text.begin(), text.end(), '/', '_');
    return text;
  }
  std::string path(const std::string& file = "data") const { return folder_ / file; }
  /// 16 pages of 4 KiB have a place in memory; the space is for 64 MiB of files.
  static Options options(std::uint64_t pages = 32) {
    Options o = LocalCluster::small_options();
    o.file_space_bytes = 256 << 20;
    o.file_memory_bytes = pages * 4096;
    o.cache_bytes = 4 << 20;
    return o;
  }
  FileOptions how(NodeId node = 0) const {
    FileOptions o;
    o.node = node;
    o.create = true;
    o.page_bytes = GetParam();
    return o;
  }
  std::uint64_t word_in_file(std::uint64_t offset) const {
    std::ifstream in(path(), std::ios::binary);
    in.seekg(std::streamoff(offset));
    std::uint64_t value = ~0ull;
    in.read(reinterpret_cast<char*>(&value), sizeof(value));
    return value;
  }
  void make(std::uint64_t bytes) const {
    std::ofstream out(path(), std::ios::binary);
    std::vector<std::uint64_t> words(bytes / 8);
    std::iota(words.begin(), words.end(), 1);
    out.write(reinterpret_cast<const char*>(words.data()), std::streamsize(words.size() * 8));
  }
  std::filesystem::path folder_;
};
INSTANTIATE_TEST_SUITE_P(Pages, Files, ::testing::Values(512, 4096, 65536),
                         [](const auto& one) { return std::to_string(one.param); });

TEST_P(Files, IsReadAsMemory) {
  make(1 << 20);
  LocalCluster cluster(1, options());
  File file = cluster[0].open_file(path(), how()).value();
  EXPECT_EQ(file.bytes(), 1u << 20);
  for (std::uint64_t at = 0; at < file.bytes(); at += 1000) {
    ASSERT_EQ(cluster[0].read<std::uint64_t>(file.address() + std::int64_t(at / 8 * 8)).value(), at / 8 + 1);
  }
  std::vector<std::uint64_t> all(file.bytes() / 8);
  ASSERT_TRUE(file.read(0, std::as_writable_bytes(std::span(all))).ok());
  for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], i + 1);
  EXPECT_GT(cluster[0].stats().file_evictions, 0u);
}

TEST_P(Files, WhatIsWrittenIsThereWhenItWasOutOfMemory) {
  LocalCluster cluster(1, options());
  File file = cluster[0].open_file(path(), how()).value();
  ASSERT_TRUE(file.resize(4 << 20).ok());
  for (std::uint64_t at = 0; at < file.bytes(); at += 512) {
    ASSERT_TRUE(cluster[0].write<std::uint64_t>(file.address() + std::int64_t(at), at + 7).ok());
  }
  for (std::uint64_t at = 0; at < file.bytes(); at += 512) {
    ASSERT_EQ(cluster[0].read<std::uint64_t>(file.address() + std::int64_t(at)).value(), at + 7);
  }
  ASSERT_TRUE(file.close().ok());
  for (std::uint64_t at = 0; at < 4 << 20; at += 512) ASSERT_EQ(word_in_file(at), at + 7);
}

TEST_P(Files, AFlushPutsItIntoTheFile) {
  LocalCluster cluster(2, options());
  File home = cluster[0].open_file(path(), how()).value();
  ASSERT_TRUE(home.resize(1 << 20).ok());
  File far = cluster[1].open_file(path(), how()).value();
  EXPECT_EQ(far.address(), home.address());
  EXPECT_EQ(far.bytes(), 1u << 20);
  const std::uint64_t page = std::max<std::uint64_t>(4096, GetParam());  // what is written to the file at once
  ASSERT_TRUE(cluster[1].write<std::uint64_t>(far.address() + std::int64_t(page), 11).ok());
  ASSERT_TRUE(cluster[0].write<std::uint64_t>(far.address() + std::int64_t(2 * page), 12).ok());
  ASSERT_TRUE(far.flush().ok());
  EXPECT_EQ(word_in_file(page), 11u);
  EXPECT_EQ(word_in_file(2 * page), 12u);
  ASSERT_TRUE(cluster[1].write<std::uint64_t>(far.address() + std::int64_t(page), 13).ok());
  ASSERT_TRUE(cluster[1].fence().ok());
  ASSERT_TRUE(home.flush(0, 4096).ok());
  EXPECT_EQ(word_in_file(page), 11u);
  ASSERT_TRUE(home.flush(page, 8).ok());
  EXPECT_EQ(word_in_file(page), 13u);
  EXPECT_EQ(cluster[0].read<std::uint64_t>(far.address() + std::int64_t(page)).value(), 13u);
  ASSERT_TRUE(far.close().ok());
  ASSERT_TRUE(home.close().ok());
}

TEST_P(Files, NodesShareItAsMemory) {
  LocalCluster cluster(3, options());
  std::vector<File> files(3);
  for (NodeId id = 0; id < 3; ++id) files[id] = cluster[id].open_file(path(), how(1)).value();
  ASSERT_TRUE(files[2].resize(2 << 20).ok());
  for (NodeId id = 0; id < 3; ++id) ASSERT_TRUE(files[id].refresh().ok());
  EXPECT_EQ(files[0].bytes(), 2u << 20);
  constexpr int kRounds = 300;
  cluster.in_parallel([&](NodeId id) {
    base::Random random(id + 1);
    Node& node = cluster[id];
    for (int i = 0; i < kRounds; ++i) {
      const std::uint64_t at = random.below(files[id].bytes() / 512) * 512;
      const global_ptr<std::uint64_t> counter(files[id].address() + std::int64_t(at));
      if (!node.fetch_add(counter, 1).ok()) std::abort();
      if (i % 16 == 0 && !files[id].flush(at, 8).ok()) std::abort();
    }
  });
  std::uint64_t sum = 0;
  for (std::uint64_t at = 0; at < files[0].bytes(); at += 512) {
    sum += cluster[0].read<std::uint64_t>(files[0].address() + std::int64_t(at)).value();
  }
  EXPECT_EQ(sum, 3u * kRounds);
  for (File& file : files) ASSERT_TRUE(file.close().ok());
  sum = 0;
  for (std::uint64_t at = 0; at < 2 << 20; at += 512) sum += word_in_file(at);
  EXPECT_EQ(sum, 3u * kRounds);
}

TEST_P(Files, LocksAndPinsHoldPagesInMemory) {
  make(1 << 20);
  LocalCluster cluster(1, options());
  File file = cluster[0].open_file(path(), how()).value();
  std::byte* const pinned = cluster[0].pin(file.address(), 512, LockMode::kWrite).value();
  for (std::uint64_t at = 4096 * 16; at < file.bytes(); at += 512) {
    ASSERT_TRUE(cluster[0].read<std::uint64_t>(file.address() + std::int64_t(at)).ok());
  }
  const std::uint64_t word = 99;
  std::memcpy(pinned + 8, &word, 8);
  ASSERT_TRUE(cluster[0].unlock(file.address(), 512).ok());
  ASSERT_TRUE(file.flush().ok());
  EXPECT_EQ(word_in_file(8), 99u);
  EXPECT_EQ(word_in_file(16), 3u);
}

TEST_P(Files, ErrorsGoToWhoHitsThem) {
  LocalCluster cluster(2, options());
  FileOptions missing = how();
  missing.create = false;
  EXPECT_EQ(cluster[0].open_file(path("nothing"), missing).status().code(), Errc::kNotFound);
  EXPECT_EQ(cluster[1].open_file(path("nothing"), missing).status().code(), Errc::kNotFound);
  missing.node = 7;
  EXPECT_EQ(cluster[0].open_file(path("nothing"), missing).status().code(), Errc::kInvalidArgument);
  FileOptions odd = how();
  odd.page_bytes = 1000;
  EXPECT_EQ(cluster[0].open_file(path(), odd).status().code(), Errc::kInvalidArgument);
  File file = cluster[0].open_file(path(), how()).value();
  FileOptions again = how();
  again.page_bytes = GetParam() == 4096 ? 8192 : 4096;
  EXPECT_EQ(cluster[1].open_file(path(), again).status().code(), Errc::kInvalidArgument);
  again = how();
  again.exclusive = true;
  EXPECT_EQ(cluster[1].open_file(path(), again).status().code(), Errc::kAlreadyExists);
  // Who has not opened it does not know its pages.
  EXPECT_EQ(cluster[1].read<std::uint64_t>(file.address()).status().code(), Errc::kBadAddress);
  std::uint64_t word = 0;
  EXPECT_FALSE(file.read(0, std::as_writable_bytes(std::span(&word, 1))).ok());  // it has no bytes
  EXPECT_EQ(file.resize(1ull << 40).code(), Errc::kOutOfMemory);
  EXPECT_EQ(cluster[1].unlink_file(path(), 0).code(), Errc::kRefused);
  ASSERT_TRUE(file.close().ok());
  EXPECT_EQ(cluster[0].read<std::uint64_t>(file.address()).status().code(), Errc::kBadAddress);
  EXPECT_TRUE(cluster[1].unlink_file(path(), 0).ok());
  EXPECT_EQ(cluster[1].unlink_file(path(), 0).code(), Errc::kNotFound);
}

TEST_P(Files, ANodeWithoutFileSpaceSaysSo) {
  Options none = options();
  none.file_space_bytes = 0;
  LocalCluster cluster(2, none);
  EXPECT_EQ(cluster[0].open_file(path(), how()).status().code(), Errc::kOutOfMemory);
  EXPECT_EQ(cluster[1].open_file(path(), how()).status().code(), Errc::kOutOfMemory);
  EXPECT_EQ(cluster[1].unlink_file(path(), 0).code(), Errc::kOutOfMemory);
}

TEST_P(Files, ShorterAndLongerAgainIsZeros) {
  make(1 << 20);
  LocalCluster cluster(2, options());
  File file = cluster[0].open_file(path(), how()).value();
  File far = cluster[1].open_file(path(), how()).value();
  ASSERT_TRUE(cluster[1].write<std::uint64_t>(file.address() + (512 << 10), 1).ok());
  ASSERT_TRUE(cluster[1].fence().ok());
  ASSERT_TRUE(file.resize(10'000).ok());
  EXPECT_EQ(std::filesystem::file_size(path()), 10'000u);
  ASSERT_TRUE(far.resize(1 << 20).ok());
  EXPECT_EQ(cluster[1].read<std::uint64_t>(file.address() + 9992).value(), 1250u);
  for (std::uint64_t at = 10'000; at < 1 << 20; at += 8) {
    ASSERT_EQ(cluster[1].read<std::uint64_t>(file.address() + std::int64_t(at)).value(), 0u) << at;
  }
}

TEST_P(Files, OtherNodesKeepWhatHasNoRoom) {
  make(1 << 20);
  Options o = options(64);
  o.cache_bytes = 8 << 20;
  LocalCluster cluster(2, o);
  File file = cluster[0].open_file(path(), how()).value();
  File far = cluster[1].open_file(path(), how()).value();
  const auto look = [&] {
    for (std::uint64_t at = 0; at < file.bytes(); at += 512) {
      ASSERT_EQ(cluster[0].read<std::uint64_t>(file.address() + std::int64_t(at)).value(), at / 8 + 1);
    }
  };
  for (int i = 0; i < 5; ++i) look();
  const Stats before = cluster[0].stats();
  look();
  const Stats after = cluster[0].stats();
  EXPECT_GT(after.file_copies, before.file_copies);
}

/// Not now and then: what is used and has no room at home comes to be with the other node, if that has room for all.
TEST_P(Files, WhatHasNoRoomComesFromOtherNodesAgainAndAgain) {
  constexpr std::uint64_t kFrames = 512, kUsed = kFrames * 9 / 5 * 4096;
  make(kUsed);
  Options o = options(kFrames);
  o.cache_bytes = 2 * kFrames * 4096;
  o.evict_below_percent = 0;
  LocalCluster cluster(2, o);
  File file = cluster[0].open_file(path(), how()).value();
  File far = cluster[1].open_file(path(), how()).value();
  base::Random random(1);
  const auto look = [&](std::uint64_t times) {
    for (std::uint64_t i = 0; i < times; ++i) {
      const std::uint64_t at = random.below(kUsed / 4096) * 4096;
      ASSERT_EQ(cluster[0].read<std::uint64_t>(file.address() + std::int64_t(at)).value(), at / 8 + 1);
    }
  };
  look(60'000);
  const Stats before = cluster[0].stats();
  look(5'000);
  const Stats after = cluster[0].stats();
  // Most, as a rule; how many depends on when the other node's threads run. Of large pages, which need whole runs of
  // its cache, it keeps fewer.
  const std::uint64_t copies = after.file_copies - before.file_copies;
  EXPECT_GT(GetParam() > 4096 ? 1000 * copies : 4 * copies, after.file_reads - before.file_reads);
}

TEST_P(Files, ANodeThatDiesWithCopiesTakesNothingAlong) {
  make(1 << 20);
  Options o = options(64);
  LocalCluster cluster(2, o);
  File file = cluster[0].open_file(path(), how()).value();
  File far = cluster[1].open_file(path(), how()).value();
  for (int i = 0; i < 3; ++i) {
    for (std::uint64_t at = 0; at < file.bytes(); at += 512) {
      ASSERT_EQ(cluster[0].read<std::uint64_t>(file.address() + std::int64_t(at)).value(), at / 8 + 1);
    }
  }
  cluster.hub().kill(1);
  cluster.hub().set_standing(1, cluster::Standing::kFenced);  // so that it does not wait for who does not hear it
  for (std::uint64_t at = 0; at < file.bytes(); at += 512) {
    ASSERT_EQ(cluster[0].read<std::uint64_t>(file.address() + std::int64_t(at)).value(), at / 8 + 1);
  }
}

}  // namespace
}  // namespace atoll::test
