// The page store on a disk that fails: what ends with which error, what goes on, and what a crash leaves.
#include "storage/faulty_page_store.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/random.hpp"
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

class FaultyPages : public testing::Test {
 protected:
  FileNumber make_file(std::uint32_t pages, bool whole = true) {
    const FileNumber file = store_.open("f", {.create = true, .whole = whole}).value();
    store_.resize(file, std::uint64_t(pages) * kPage).or_throw();
    return file;
  }
  Status put(FileNumber file, std::uint32_t page, std::uint32_t version) {
    stamp(memory_.span(), page, version);
    return driver_.wait(driver_.write(file, std::uint64_t(page) * kPage, memory_.span()));
  }
  std::uint32_t get(FileNumber file, std::uint32_t page) {
    PageMemory seen(kPage, 0xee);
    driver_.wait(driver_.read(file, std::uint64_t(page) * kPage, seen.span())).or_throw();
    return version_of(seen.span(), page);
  }
  Status sync(FileNumber file) { return driver_.wait(driver_.sync(file)); }

  std::int64_t now_ = 0;
  FaultyPageStore store_{1, [this] { return now_; }};
  PageDriver driver_{store_, [this] {
                       if (store_.next_due() != FaultyPageStore::kNever) now_ = std::max(now_, store_.next_due());
                     }};
  PageMemory memory_{kPage};
};

TEST_F(FaultyPages, AReadThatFailsFailsAlone) {
  const FileNumber file = make_file(2);
  put(file, 1, 1).or_throw();
  store_.fail_next(1, EIO);
  PageMemory seen(kPage);
  const Status status = driver_.wait(driver_.read(file, kPage, seen.span()));
  EXPECT_EQ(status.code(), Errc::kStorage);
  EXPECT_THAT(status.what(), HasSubstr("cannot read f"));
  EXPECT_EQ(get(file, 1), 1u);
}

/// Whichever of its steps fails, the write ends with it and the next one works.
TEST_F(FaultyPages, AWriteThatFailsIsFollowedByOneThatWorks) {
  const FileNumber file = make_file(4);
  std::uint32_t version = 0;
  for (const Operation kind : {Operation::kWrite, Operation::kSync}) {
    put(file, 1, ++version).or_throw();
    put(file, 2, version).or_throw();
    sync(file).or_throw();  // no other one is under way that could fail instead
    store_.fail_next(kind, 1, EIO);
    EXPECT_EQ(put(file, 1, version + 100).code(), Errc::kStorage);
    EXPECT_EQ(get(file, 1), version);  // it was not begun in place
    EXPECT_EQ(get(file, 2), version);
    for (int k = 0; k < 20; ++k) put(file, 1, ++version).or_throw();
    EXPECT_EQ(get(file, 1), version);
  }
}

/// In its place: the companion's copy is put there before anything else is written.
TEST_F(FaultyPages, AWriteThatFailsInPlaceIsRepaired) {
  const FileNumber file = make_file(4);
  put(file, 1, 1).or_throw();
  put(file, 2, 1).or_throw();
  stamp(memory_.span(), 1, 2);
  const std::uint64_t tag = driver_.write(file, kPage, memory_.span());
  const std::uint64_t begun = store_.requests();
  while (store_.requests() < begun + 2 && !driver_.has_ended(tag)) (void)driver_.collect();
  // The companion is written, and synced; now the place.
  store_.fail_next(Operation::kWrite, 1, EIO);
  const Status status = driver_.wait(tag);
  EXPECT_EQ(status.code(), Errc::kStorage);
  EXPECT_THAT(status.what(), HasSubstr("cannot write f:"));
  put(file, 2, 2).or_throw();
  EXPECT_EQ(get(file, 1), 2u);
  EXPECT_EQ(get(file, 2), 2u);
}

TEST_F(FaultyPages, ASyncThatFailsIsFollowedByOneThatWritesAgain) {
  const FileNumber file = make_file(4);
  put(file, 1, 1).or_throw();
  store_.fail_next(Operation::kSync, 1, EIO);
  EXPECT_THAT(sync(file).what(), HasSubstr("cannot sync f"));
  const std::uint64_t writes = store_.disk().count(Operation::kWrite);
  sync(file).or_throw();
  EXPECT_EQ(store_.disk().count(Operation::kWrite), writes + 1);
  sync(file).or_throw();
  EXPECT_EQ(store_.disk().count(Operation::kWrite), writes + 1);
}

TEST_F(FaultyPages, WhatCannotBeRepairedIsSaidEachTimeUntilItCan) {
  const FileNumber file = make_file(4);
  put(file, 1, 1).or_throw();
  store_.fail_next(Operation::kSync, 1, EIO);
  EXPECT_FALSE(sync(file).ok());
  for (int k = 0; k < 3; ++k) {
    store_.disk().fail_next(Operation::kWrite);
    EXPECT_THAT((k == 1 ? sync(file) : put(file, 2, 7)).what(), HasSubstr("cannot write f"));
  }
  put(file, 2, 8).or_throw();
  sync(file).or_throw();
  EXPECT_EQ(get(file, 1), 1u);
  EXPECT_EQ(get(file, 2), 8u);
}

TEST_F(FaultyPages, AFullDiskIsSaidAndNotForEver) {
  const FileNumber file = make_file(3000);
  put(file, 0, 1).or_throw();
  store_.set_capacity(store_.disk().allocated_bytes());
  const Status status = put(file, 2999, 1);
  EXPECT_EQ(status.code(), Errc::kStorageFull);
  EXPECT_THAT(status.what(), HasSubstr("No space left"));
  EXPECT_EQ(get(file, 2999), 0u);
  store_.set_capacity(UINT64_MAX);
  put(file, 2999, 2).or_throw();
  EXPECT_EQ(get(file, 2999), 2u);
}

/// What has its space goes on being written while there is none for the rest.
TEST_F(FaultyPages, AFullDiskTakesWhatItHas) {
  const FileNumber file = make_file(3000);
  for (std::uint32_t k = 0; k < 2 * 8; ++k) put(file, k % 4, k + 1).or_throw();  // all areas have been used
  store_.set_capacity(store_.disk().allocated_bytes());
  for (std::uint32_t k = 100; k < 140; ++k) {
    EXPECT_EQ(put(file, 2999, k).code(), Errc::kStorageFull);
    put(file, k % 4, k).or_throw();
    EXPECT_EQ(get(file, k % 4), k);
  }
}

TEST_F(FaultyPages, ShortTransfersAreContinued) {
  store_.set_faults({.short_transfer = 0.5});
  const FileNumber file = make_file(64);
  PageMemory memory(64 * kPage), seen(64 * kPage);
  for (std::uint32_t version = 1; version < 10; ++version) {
    for (std::uint32_t page = 0; page < 64; ++page) stamp(memory.span(page * kPage, kPage), page, version);
    driver_.wait(driver_.write(file, 0, memory.span())).or_throw();
    driver_.wait(driver_.read(file, 0, seen.span())).or_throw();
    for (std::uint32_t page = 0; page < 64; ++page) {
      ASSERT_EQ(version_of(seen.span(page * kPage, kPage), page), version);
    }
  }
}

TEST_F(FaultyPages, TimeIsVirtualAndEndsComeInAnyOrder) {
  const FileNumber file = make_file(64, false);
  store_.set_faults({.least_nanos = 1000, .most_nanos = 100'000});
  EXPECT_EQ(store_.next_due(), FaultyPageStore::kNever);
  PageMemory memory(64 * kPage);
  for (std::uint64_t page = 0; page < 64; ++page)
    store_.read(file, page * kPage, memory.span(page * kPage, kPage), page);
  std::vector<std::uint64_t> order;
  PageDone done[64];
  EXPECT_EQ(store_.reap(done), 0u);
  while (store_.under_way() > 0) {
    const std::int64_t due = store_.next_due();
    ASSERT_GE(due, std::max<std::int64_t>(now_, 1000));
    ASSERT_LE(due, 100'000);
    now_ = due - 1;
    ASSERT_EQ(store_.reap(done), 0u);
    now_ = due;
    const std::size_t count = store_.reap(done);
    ASSERT_GT(count, 0u);
    for (std::size_t k = 0; k < count; ++k) order.push_back(done[k].tag);
  }
  EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
  EXPECT_EQ(std::set<std::uint64_t>(order.begin(), order.end()).size(), 64u);
}

/// So the double write is worth its cost, and the disk tears pages as it should.
TEST(FaultyPageStore, WithoutTheDoubleWriteACrashTearsPages) {
  int torn = 0;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    FaultyPageStore store(seed);
    const FileNumber file = store.open("f", {.create = true, .whole = false}).value();
    store.resize(file, 8 * kPage).or_throw();
    PageMemory memory(8 * kPage);
    for (std::uint32_t page = 0; page < 8; ++page) stamp(memory.span(page * kPage, kPage), page, 1);
    store.write(file, {{0, memory.span()}}, 1);
    store.flush();
    store.crash(true);
    const FileNumber again = store.open("f", {.whole = false}).value();
    store.read(again, 0, memory.span(), 2);
    PageDone done[1];
    while (store.reap(done) == 0) continue;
    for (std::uint32_t page = 0; page < 8; ++page) {
      torn += version_of(memory.span(page * kPage, kPage), page) == test::kTorn ? 1 : 0;
    }
  }
  EXPECT_GT(torn, 10);
}

}  // namespace
}  // namespace atoll::storage
