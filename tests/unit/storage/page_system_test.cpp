// Page stores on files of the system: processes that are killed, disks that are full, files that may not be written.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/random.hpp"
#include "storage/async_io.hpp"
#include "storage/page_store.hpp"
#include "support/page_store.hpp"
#include "support/seed.hpp"

namespace atoll::storage {
namespace {

using test::PageDriver;
using test::PageMemory;
using test::stamp;
using test::version_of;
using testing::HasSubstr;

constexpr std::uint32_t kPage = 16384;
constexpr std::uint32_t kPages = 64;
constexpr int kSkip = 77;

/// True: io_uring.
class SystemPages : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (make() == nullptr) GTEST_SKIP() << "the system gives no io_uring";
  }
  static std::unique_ptr<PageStore> make() {
    int error = 0;
    std::shared_ptr<AsyncIo> io = GetParam() ? make_uring_io(32, error) : make_thread_io(32);
    return io ? make_page_store(std::move(io)) : nullptr;
  }
  /// What a process of its own makes of it: 0 if it went well.
  static int in_child(const std::function<int()>& body) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(body());
    int status = 0;
    if (::waitpid(child, &status, 0) != child) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  static PageFileOptions options() { return {.create = true, .page_bytes = kPage}; }

  test::PageFolder folder_;
};

/// Writes pages until it is killed, and says in a pipe what was done.
[[noreturn]] void write_until_killed(PageStore& store, const std::string& path, int report, std::uint64_t seed,
                                     std::uint32_t version) {
  base::Random random(seed);
  PageDriver driver(store);
  const auto file = store.open(path, {.create = true, .page_bytes = kPage});
  if (!file.ok()) ::_exit(1);
  for (;; ++version) {
    const std::uint32_t first = std::uint32_t(random.below(kPages));
    const std::uint32_t count = 1 + std::uint32_t(random.below(std::min(kPages - first, 20u)));
    PageMemory memory(std::size_t(count) * kPage);
    for (std::uint32_t k = 0; k < count; ++k) stamp(memory.span(std::size_t(k) * kPage, kPage), first + k, version);
    if (!driver.wait(driver.write(*file, std::uint64_t(first) * kPage, memory.span())).ok()) ::_exit(2);
    const std::uint32_t done[3] = {first, count, version};
    if (::write(report, done, sizeof(done)) != sizeof(done)) ::_exit(3);
  }
}

TEST_P(SystemPages, PagesAreWholeAfterAKill) {
  const std::uint64_t seed = test::fresh_seed();
  SCOPED_TRACE(test::repeat_with(seed));
  base::Random random(seed);
  const std::string path = folder_ / "a";
  {
    const auto store = make();
    const FileNumber file = store->open(path, options()).value();
    store->resize(file, std::uint64_t(kPages) * kPage).or_throw();
    store->close(file).or_throw();
  }
  std::vector<std::uint32_t> least(kPages, 0);
  std::uint32_t version = 1;
  int unfinished = 0;
  for (int round = 0; round < 8; ++round) {
    int report[2];
    ASSERT_EQ(::pipe2(report, O_CLOEXEC), 0);
    const std::uint64_t child_seed = random.next();
    const pid_t child = ::fork();
    if (child == 0) write_until_killed(*make(), path, report[1], child_seed, version);
    ::close(report[1]);
    std::uint32_t done[3];
    std::uint64_t batches = 0;
    const std::uint64_t enough = 5 + random.below(60);
    while (::read(report[0], done, sizeof(done)) == sizeof(done)) {
      for (std::uint32_t k = 0; k < done[1]; ++k) least[done[0] + k] = done[2];
      version = std::max(version, done[2] + 2);
      if (++batches == enough) {
        std::this_thread::sleep_for(std::chrono::microseconds(random.below(2000)));
        ::kill(child, SIGKILL);
      }
    }
    ::close(report[0]);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "it ended with " << WEXITSTATUS(status);

    const auto store = make();
    PageDriver driver(*store);
    unfinished += std::filesystem::exists(path + kCompanionSuffix) ? 1 : 0;
    const FileNumber file = store->open(path, options()).value();
    PageMemory seen(std::size_t(kPages) * kPage);
    driver.wait(driver.read(file, 0, seen.span())).or_throw();
    for (std::uint32_t page = 0; page < kPages; ++page) {
      const std::uint32_t there = version_of(seen.span(std::size_t(page) * kPage, kPage), page);
      ASSERT_NE(there, test::kTorn) << "page " << page << " in round " << round;
      ASSERT_GE(there, least[page]) << "page " << page << " in round " << round;
      least[page] = there;
    }
    store->close(file).or_throw();
  }
  EXPECT_EQ(unfinished, 8);
}

TEST_P(SystemPages, AnotherProcessThatHasItOpenIsWaitedForAndNamed) {
  const auto store = make();
  const std::string path = folder_ / "a";
  const FileNumber file = store->open(path, options()).value();
  EXPECT_EQ(in_child([&] { return make()->open(path, options()).status().code() == Errc::kAlreadyExists ? 0 : 1; }), 0);
  EXPECT_EQ(in_child([&] { return make()->open(path, {.read_only = true, .page_bytes = kPage}).ok() ? 0 : 1; }), 0);
  store->close(file).or_throw();
  EXPECT_EQ(in_child([&] { return make()->open(path, options()).ok() ? 0 : 1; }), 0);
}

TEST_P(SystemPages, FilesThatMayNotBeWritten) {
  const std::string path = folder_ / "a";
  {
    const auto store = make();
    const FileNumber file = store->open(path, options()).value();
    store->resize(file, kPage).or_throw();
    store->close(file).or_throw();
  }
  ASSERT_EQ(::chmod(path.c_str(), 0444), 0);
  ASSERT_EQ(::chmod(folder_.path().c_str(), 0555), 0);
  const int result = in_child([&] {
    if (::geteuid() == 0 && ::seteuid(65534) != 0) return kSkip;
    const auto store = make();
    const auto file = store->open(path, options());
    if (file.ok() || std::string(file.status().what()).find("Permission denied") == std::string::npos) return 1;
    if (store->open(folder_ / "b", options()).status().code() != Errc::kStorage) return 2;
    const auto read = store->open(path, {.read_only = true, .page_bytes = kPage});
    return read.ok() && store->bytes(*read) == kPage ? 0 : 3;
  });
  ASSERT_EQ(::chmod(folder_.path().c_str(), 0755), 0);
  if (result == kSkip) GTEST_SKIP() << "no other user can be had";
  EXPECT_EQ(result, 0);
}

TEST_P(SystemPages, WhatIsNoFile) {
  const auto store = make();
  EXPECT_THAT(store->open(folder_.path(), {}).status().what(), HasSubstr("Is a directory"));
  EXPECT_THAT(store->open(folder_.path(), {.read_only = true}).status().what(), HasSubstr("Is a directory"));
  EXPECT_THAT(store->open("/dev/null", {}).status().what(), HasSubstr("no regular file"));
  EXPECT_EQ(store->open(folder_ / "none/a", options()).status().code(), Errc::kNotFound);
}

/// A companion that stands beside a file that is made is another one's.
TEST_P(SystemPages, ACompanionOfAFileThatIsGoneIsNotUsed) {
  const std::string path = folder_ / "a";
  EXPECT_EQ(in_child([&] {
              const auto store = make();
              PageDriver driver(*store);
              const FileNumber file = store->open(path, options()).value();
              store->resize(file, kPage).or_throw();
              PageMemory memory(kPage, 1);
              driver.wait(driver.write(file, 0, memory.span())).or_throw();
              ::unlink(path.c_str());
              return 0;  // without closing it
            }),
            0);
  ASSERT_TRUE(std::filesystem::exists(path + kCompanionSuffix));
  const auto store = make();
  PageDriver driver(*store);
  const FileNumber file = store->open(path, options()).value();
  store->resize(file, kPage).or_throw();
  PageMemory seen(kPage, 9);
  driver.wait(driver.read(file, 0, seen.span())).or_throw();
  EXPECT_EQ(version_of(seen.span(), 0), 0u);
}

/// A limit on the length of files stands for the end of a disk: what is written beyond fails half way.
TEST_P(SystemPages, AWriteThatFailsHalfWayIsSaid) {
  const std::string path = folder_ / "a";
  EXPECT_EQ(in_child([&] {
              ::signal(SIGXFSZ, SIG_IGN);
              const auto store = make();
              PageDriver driver(*store);
              const FileNumber file = store->open(path, {.create = true, .whole = false}).value();
              store->resize(file, 64 * 4096).or_throw();
              const rlimit limit{32 * 4096, RLIM_INFINITY};
              if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return kSkip;
              PageMemory memory(16 * 4096, 1);
              const Status status = driver.wait(driver.write(file, 24 * 4096, memory.span()));
              if (status.code() != Errc::kStorage) return 1;
              if (std::string(status.what()).find("File too large") == std::string::npos) return 2;
              return driver.wait(driver.write(file, 4096, memory.span())).ok() ? 0 : 3;
            }),
            0);
}

TEST_P(SystemPages, AFullDiskIsSaid) {
  const int result = in_child([&] {
    const uid_t uid = ::getuid();
    if (::unshare(uid == 0 ? CLONE_NEWNS : CLONE_NEWNS | CLONE_NEWUSER) != 0) return kSkip;
    if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return kSkip;
    if (::mount("tmpfs", folder_.path().c_str(), "tmpfs", 0, "size=2m") != 0) return kSkip;
    const auto store = make();
    PageDriver driver(*store);
    const FileNumber file = store->open(folder_ / "a", {.create = true}).value();
    store->resize(file, 4 << 20).or_throw();
    PageMemory memory(4096, 3);
    Status status;
    std::uint64_t offset = 0;
    for (; status.ok() && offset < (4 << 20); offset += 4096) {
      status = driver.wait(driver.write(file, offset, memory.span()));
    }
    if (status.code() != Errc::kStorageFull) return 1;
    if (std::string(status.what()).find("No space left") == std::string::npos) return 2;
    for (int k = 0; k < 30; ++k) {  // what has its place is written on
      if (!driver.wait(driver.write(file, std::uint64_t(k) * 4096, memory.span())).ok()) return 3;
    }
    return driver.wait(driver.sync(file)).ok() ? 0 : 4;
  });
  if (result == kSkip) GTEST_SKIP() << "no file system can be mounted";
  EXPECT_EQ(result, 0);
}

INSTANTIATE_TEST_SUITE_P(Ways, SystemPages, testing::Bool(),
                         [](const testing::TestParamInfo<bool>& way) { return way.param ? "Uring" : "Threads"; });

}  // namespace
}  // namespace atoll::storage
