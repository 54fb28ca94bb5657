// What all page stores do alike: io_uring, threads, and the simulated one.
#include "storage/page_store.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "storage/async_io.hpp"
#include "storage/faulty_page_store.hpp"
#include "support/page_store.hpp"
#include "support/seed.hpp"

namespace atoll::storage {
namespace {

using test::PageDriver;
using test::PageMemory;
using test::stamp;
using test::version_of;
using testing::HasSubstr;

constexpr std::uint32_t kPage = 4096;

enum class Kind { kUring, kThreads, kSimulated };

std::unique_ptr<PageStore> make(Kind kind, std::uint32_t depth) {
  int error = 0;
  switch (kind) {
    case Kind::kUring: {
      std::shared_ptr<AsyncIo> io = make_uring_io(depth, error);
      return io ? make_page_store(std::move(io)) : nullptr;
    }
    case Kind::kThreads: return make_page_store(std::shared_ptr<AsyncIo>(make_thread_io(depth)));
    case Kind::kSimulated: return std::make_unique<FaultyPageStore>(1, nullptr, depth);
  }
  return nullptr;
}

struct Case {
  Kind kind;
  std::uint32_t depth;
  bool direct;
  bool whole;
};

std::string name_of(const testing::TestParamInfo<Case>& info) {
  const char* const kinds[] = {"Uring", "Threads", "Simulated"};
  return std::string(kinds[int(info.param.kind)]) + std::to_string(info.param.depth) +
         (info.param.direct ? "Direct" : "Cached") + (info.param.whole ? "Whole" : "Once");
}

class AnyPageStore : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    store_ = make(GetParam().kind, GetParam().depth);
    if (store_ == nullptr) GTEST_SKIP() << "the system gives no io_uring";
    driver_ = std::make_unique<PageDriver>(*store_, simulated() ? [] {} : std::function<void()>());
  }
  [[nodiscard]] bool simulated() const { return GetParam().kind == Kind::kSimulated; }
  [[nodiscard]] PageFileOptions options(std::uint32_t page_bytes = kPage) const {
    return {.create = true, .direct = GetParam().direct, .whole = GetParam().whole, .page_bytes = page_bytes};
  }
  /// A file of so many bytes.
  FileNumber make_file(const std::string& name, std::uint64_t bytes, std::uint32_t page_bytes = kPage) {
    const FileNumber file = store_->open(folder_ / name, options(page_bytes)).value();
    store_->resize(file, bytes).or_throw();
    return file;
  }
  void put(FileNumber file, std::uint32_t page, std::uint32_t version, std::uint32_t page_bytes = kPage) {
    PageMemory memory(page_bytes);
    stamp(memory.span(), page, version);
    driver_->wait(driver_->write(file, std::uint64_t(page) * page_bytes, memory.span())).or_throw();
  }
  std::uint32_t get(FileNumber file, std::uint32_t page, std::uint32_t page_bytes = kPage) {
    PageMemory memory(page_bytes, 0xee);
    driver_->wait(driver_->read(file, std::uint64_t(page) * page_bytes, memory.span())).or_throw();
    return version_of(memory.span(), page);
  }

  test::PageFolder folder_;
  std::unique_ptr<PageStore> store_;
  std::unique_ptr<PageDriver> driver_;
};

TEST_P(AnyPageStore, PagesAreReadAsTheyWereWritten) {
  const FileNumber file = make_file("a", 8 * kPage);
  EXPECT_EQ(store_->bytes(file), 8u * kPage);
  put(file, 3, 1);
  put(file, 0, 2);
  put(file, 3, 5);
  EXPECT_EQ(get(file, 3), 5u);
  EXPECT_EQ(get(file, 0), 2u);
  EXPECT_EQ(get(file, 7), 0u);
  EXPECT_EQ(get(file, 700), 0u);  // beyond the end
  driver_->wait(driver_->sync(file)).or_throw();
  EXPECT_EQ(store_->under_way(), 0u);
  store_->close(file).or_throw();
  const FileNumber again = store_->open(folder_ / "a", {}).value();
  EXPECT_EQ(again, file);  // the number is used again
  EXPECT_EQ(store_->bytes(again), 8u * kPage);
  EXPECT_EQ(get(again, 3), 5u);
  EXPECT_EQ(get(again, 0), 2u);
}

TEST_P(AnyPageStore, ManyRequestsEndOnceEach) {
  const std::uint64_t seed = test::fresh_seed();
  SCOPED_TRACE(test::repeat_with(seed));
  base::Random random(seed);
  constexpr std::uint32_t kPages = 600;
  const FileNumber file = make_file("a", kPages * kPage);
  std::vector<std::uint32_t> versions(kPages, 0);
  PageMemory memory(kPages * kPage), seen(kPages * kPage);
  for (std::uint32_t round = 1; round <= 4; ++round) {
    std::vector<std::uint64_t> tags;
    for (std::uint32_t page = 0; page < kPages;) {  // some in runs, some alone, some not at all
      const std::uint32_t run = std::min<std::uint32_t>(kPages - page, 1 + std::uint32_t(random.below(40)));
      if (random.below(4) > 0) {
        std::vector<PageImage> images;
        for (std::uint32_t k = page; k < page + run; ++k) {
          stamp(memory.span(k * kPage, kPage), k, round);
          images.push_back({std::uint64_t(k) * kPage, memory.span(k * kPage, kPage)});
          versions[k] = round;
        }
        std::reverse(images.begin(), images.end());
        store_->write(file, std::move(images), 1'000'000 + page);
        tags.push_back(1'000'000 + page);
      }
      page += run;
    }
    EXPECT_EQ(store_->under_way(), tags.size());
    for (const std::uint64_t tag : tags) driver_->wait(tag).or_throw();
    tags.clear();
    for (std::uint32_t page = 0; page < kPages; page += 50) {
      tags.push_back(driver_->read(file, std::uint64_t(page) * kPage, seen.span(page * kPage, 50 * kPage)));
    }
    for (const std::uint64_t tag : tags) driver_->wait(tag).or_throw();
    for (std::uint32_t page = 0; page < kPages; ++page) {
      ASSERT_EQ(version_of(seen.span(page * kPage, kPage), page), versions[page]) << "page " << page;
    }
  }
  EXPECT_EQ(store_->under_way(), 0u);
}

TEST_P(AnyPageStore, LargePages) {
  constexpr std::uint32_t kLarge = 1 << 20;
  const FileNumber file = make_file("a", 11ull * kLarge, kLarge);
  for (std::uint32_t page = 0; page < 11; ++page) put(file, page, page + 1, kLarge);
  for (std::uint32_t page = 0; page < 11; ++page) EXPECT_EQ(get(file, page, kLarge), page + 1);
}

TEST_P(AnyPageStore, TheLastPageIsCutOffAtTheEnd) {
  const FileNumber file = make_file("a", 2 * kPage + 5000, 2 * kPage);
  PageMemory page(2 * kPage, 7), seen(2 * kPage, 9);
  driver_->wait(driver_->write(file, 2 * kPage, page.span())).or_throw();
  EXPECT_EQ(store_->bytes(file), 2u * kPage + 5000);
  const auto check = [&] {
    driver_->wait(driver_->read(file, 2 * kPage, seen.span())).or_throw();
    EXPECT_EQ(std::count(seen.span().begin(), seen.span().end(), std::byte(7)), 5000);
    EXPECT_EQ(std::count(seen.span().begin(), seen.span().end(), std::byte(0)), 2 * kPage - 5000);
    EXPECT_EQ(seen.span()[4999], std::byte(7));
  };
  check();
  if (!simulated()) {
    EXPECT_EQ(std::filesystem::file_size(folder_ / "a"), 2u * kPage + 5000);
  }
  store_->resize(file, 4 * kPage).or_throw();  // what is new is zeros
  check();
  driver_->wait(driver_->write(file, 2 * kPage, page.span())).or_throw();
  driver_->wait(driver_->read(file, 2 * kPage, seen.span())).or_throw();
  EXPECT_EQ(std::count(seen.span().begin(), seen.span().end(), std::byte(7)), 2 * kPage);
}

TEST_P(AnyPageStore, WhatWasCutOffIsZerosLater) {
  const FileNumber file = make_file("a", 4 * kPage);
  for (std::uint32_t page = 0; page < 4; ++page) put(file, page, 1);
  store_->resize(file, kPage).or_throw();
  EXPECT_EQ(get(file, 1), 0u);
  store_->resize(file, 4 * kPage).or_throw();
  EXPECT_EQ(get(file, 0), 1u);
  for (std::uint32_t page = 1; page < 4; ++page) EXPECT_EQ(get(file, page), 0u);
  put(file, 2, 3);
  EXPECT_EQ(get(file, 2), 3u);
}

TEST_P(AnyPageStore, WrongRequestsAreErrors) {
  const FileNumber file = make_file("a", 4 * kPage, 2 * kPage);
  PageMemory memory(8 * kPage);
  const auto refuses = [&](std::uint64_t offset, std::span<std::byte> bytes, const char* why) {
    const Status status = driver_->wait(driver_->write(file, offset, bytes));
    EXPECT_EQ(status.code(), Errc::kInvalidArgument);
    EXPECT_THAT(status.what(), HasSubstr(why));
  };
  refuses(kPage, memory.span(0, 2 * kPage), "whole pages");         // offset
  refuses(0, memory.span(0, kPage), "whole pages");                 // length
  refuses(0, memory.span(512, 2 * kPage), "multiple of 4096");      // address
  refuses(4 * kPage, memory.span(0, 2 * kPage), "beyond the end");  // all of it
  refuses(2 * kPage, memory.span(0, 4 * kPage), "beyond the end");  // a part of it
  for (const std::uint64_t offset : {std::uint64_t(kPage), std::uint64_t(512)}) {
    const Status status = driver_->wait(driver_->read(file, offset, memory.span(0, 2 * kPage)));
    EXPECT_EQ(status.code(), Errc::kInvalidArgument);
  }
  EXPECT_EQ(driver_->wait(driver_->read(file, 0, memory.span(8, 2 * kPage))).code(), Errc::kInvalidArgument);
  store_->write(file, {{0, memory.span(0, 2 * kPage)}, {0, memory.span(2 * kPage, 2 * kPage)}}, 77);
  EXPECT_THAT(driver_->wait(77).what(), HasSubstr("the same page"));
  store_->write(file, {}, 78);
  EXPECT_TRUE(driver_->wait(78).ok());
  const std::uint64_t first = driver_->write(file, 0, memory.span(0, 2 * kPage));
  const std::uint64_t second = driver_->write(file, 0, memory.span(2 * kPage, 2 * kPage));
  EXPECT_EQ(store_->resize(file, 0).code(), Errc::kInvalidArgument);
  EXPECT_THAT(driver_->wait(second).what(), HasSubstr("is under way"));
  EXPECT_TRUE(driver_->wait(first).ok());
  EXPECT_EQ(get(file, 0, 2 * kPage), 0u);
}

TEST_P(AnyPageStore, OpeningSaysWhatIsWrong) {
  EXPECT_EQ(store_->open(folder_ / "none", {}).status().code(), Errc::kNotFound);
  EXPECT_EQ(store_->unlink(folder_ / "none").code(), Errc::kNotFound);
  EXPECT_THAT(store_->open(folder_ / "none", {}).status().what(), HasSubstr("none"));
  for (const std::uint32_t bytes : {0u, 512u, 5000u, 2u << 20}) {
    EXPECT_EQ(store_->open(folder_ / "a", options(bytes)).status().code(), Errc::kInvalidArgument);
  }
  EXPECT_EQ(store_->open(folder_ / "a", {.create = true, .read_only = true}).status().code(), Errc::kInvalidArgument);
  PageFileOptions fresh = options();
  fresh.exclusive = true;
  const FileNumber file = store_->open(folder_ / "a", fresh).value();
  store_->close(file).or_throw();
  EXPECT_EQ(store_->open(folder_ / "a", fresh).status().code(), Errc::kAlreadyExists);
  store_->unlink(folder_ / "a").or_throw();
  store_->close(store_->open(folder_ / "a", fresh).value()).or_throw();
}

TEST_P(AnyPageStore, ReadOnlyFilesAreNotWritten) {
  const FileNumber file = make_file("a", 2 * kPage);
  put(file, 1, 4);
  store_->close(file).or_throw();
  const FileNumber read = store_->open(folder_ / "a", {.read_only = true, .direct = GetParam().direct}).value();
  EXPECT_EQ(get(read, 1), 4u);
  PageMemory memory(kPage);
  EXPECT_THAT(driver_->wait(driver_->write(read, 0, memory.span())).what(), HasSubstr("reading only"));
  EXPECT_EQ(store_->resize(read, 0).code(), Errc::kInvalidArgument);
  store_->close(read).or_throw();
}

TEST_P(AnyPageStore, AWholeFileIsOpenOnce) {
  if (!GetParam().whole) return;
  const FileNumber file = make_file("a", kPage);
  const auto second = store_->open(folder_ / "a", options());
  EXPECT_EQ(second.status().code(), Errc::kAlreadyExists);
  EXPECT_THAT(second.status().what(), HasSubstr("open already"));
  store_->close(file).or_throw();
  EXPECT_TRUE(store_->open(folder_ / "a", options()).ok());
}

/// So that nobody finds one who copies, moves or replaces a file that is closed.
TEST_P(AnyPageStore, AClosedFileHasNoCompanion) {
  if (simulated()) return;
  const FileNumber file = make_file("a", 100 * kPage);
  const std::string companion = folder_ / ("a" + std::string(kCompanionSuffix));
  EXPECT_EQ(std::filesystem::exists(companion), GetParam().whole);
  for (std::uint32_t page = 0; page < 100; ++page) put(file, page, 1);
  store_->close(file).or_throw();
  EXPECT_FALSE(std::filesystem::exists(companion));
  EXPECT_EQ(store_->open(folder_ / "a", options()).value(), file);
  for (std::uint32_t page = 0; page < 100; ++page) EXPECT_EQ(get(file, page), 1u);
}

const Case kCases[] = {
    {Kind::kUring, 256, true, true},   {Kind::kUring, 256, false, true},     {Kind::kUring, 4, true, false},
    {Kind::kThreads, 256, true, true}, {Kind::kThreads, 2, false, false},    {Kind::kThreads, 1, true, true},
    {Kind::kSimulated, 3, true, true}, {Kind::kSimulated, 256, true, false},
};
INSTANTIATE_TEST_SUITE_P(Stores, AnyPageStore, testing::ValuesIn(kCases), name_of);

TEST(PageStore, WakesWhoWaits) {
  const auto store = make_page_store(8);
  pollfd fd{store->wake_fd(), POLLIN, 0};
  ASSERT_EQ(::poll(&fd, 1, 0), 0);
  test::PageFolder folder;
  const FileNumber file = store->open(folder / "a", {.create = true}).value();
  store->resize(file, kPage).or_throw();
  PageMemory memory(kPage);
  store->write(file, {{1, memory.span()}}, 1);  // an error needs no disk
  ASSERT_EQ(::poll(&fd, 1, 0), 1);
  PageDone done[2];
  store->calm();
  ASSERT_EQ(store->reap(done), 1u);
  ASSERT_EQ(::poll(&fd, 1, 0), 0);
  store->read(file, 0, memory.span(), 2);
  store->flush();
  ASSERT_EQ(::poll(&fd, 1, 60'000), 1);
  while (store->under_way() > 0) (void)store->reap(done);
  EXPECT_EQ(done[0].tag, 2u);
  EXPECT_TRUE(done[0].status.ok());
}

}  // namespace
}  // namespace atoll::storage
