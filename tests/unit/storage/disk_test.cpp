// Files of a real directory, and of the faulty disk where both must do the same.
#include "storage/disk.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "storage/failure.hpp"
#include "storage/faulty_disk.hpp"

namespace atoll::storage {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string text_of(File& file, std::uint64_t offset, std::size_t bytes) {
  std::string text(bytes, '?');
  file.read(offset, std::as_writable_bytes(std::span(text))).or_throw();
  return text;
}

class TempFolder {
 public:
  TempFolder() : path_(testing::TempDir() + "atoll-storage-XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) std::abort();
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// The same for both disks: true is the real one.
class AnyDisk : public testing::TestWithParam<bool> {
 protected:
  AnyDisk() {
    if (GetParam()) {
      disk_ = open_disk(folder_.path() + "/a/b");
    } else {
      disk_ = std::make_unique<FaultyDisk>();
    }
  }
  TempFolder folder_;
  std::unique_ptr<Disk> disk_;
};

TEST_P(AnyDisk, FilesKeepWhatIsWritten) {
  const auto file = disk_->open("one", OpenMode::kCreate);
  EXPECT_EQ(file->size().value(), 0u);
  file->write(5, bytes_of("hello")).or_throw();
  EXPECT_EQ(file->size().value(), 10u);
  EXPECT_EQ(text_of(*file, 0, 10), std::string(5, '\0') + "hello");
  file->sync().or_throw();
  std::vector<std::byte> beyond(2);
  const Status status = file->read(9, beyond);
  EXPECT_EQ(status.code(), Errc::kStorage);
  EXPECT_THAT(status.what(), HasSubstr("one: it ends too early"));
  EXPECT_EQ(text_of(*disk_->open("one", OpenMode::kRead), 5, 5), "hello");
}

TEST_P(AnyDisk, TheMapIsTheFile) {
  const auto file = disk_->open("one", OpenMode::kCreate);
  EXPECT_FALSE(file->map().ok());  // empty
  file->resize(8192).or_throw();
  const std::span<std::byte> map = file->map().value();
  ASSERT_EQ(map.size(), 8192u);
  std::memcpy(map.data() + 4096, "mapped", 6);
  EXPECT_EQ(text_of(*file, 4096, 6), "mapped");
  file->write(0, bytes_of("written")).or_throw();
  EXPECT_EQ(std::memcmp(map.data(), "written", 7), 0);
  EXPECT_EQ(file->map().value().data(), map.data());
  file->prepare(4096, 4096, true);
  file->prepare(4096, 1 << 20, false);  // beyond its end: nothing happens
  file->sync().or_throw();
}

TEST_P(AnyDisk, HolesAreFound) {
  const auto file = disk_->open("one", OpenMode::kCreate);
  EXPECT_EQ(file->next_extent(0).value().bytes, 0u);
  const std::vector<std::byte> page(4096, std::byte{1});
  file->write(64 << 10, page).or_throw();
  file->write(128 << 10, page).or_throw();
  file->sync().or_throw();
  std::vector<std::uint64_t> offsets;
  for (Extent at = file->next_extent(0).value(); at.bytes != 0; at = file->next_extent(at.offset + at.bytes).value()) {
    offsets.push_back(at.offset);
  }
  EXPECT_THAT(offsets, ElementsAre(64 << 10, 128 << 10));
  EXPECT_EQ(file->next_extent(1 << 20).value().bytes, 0u);
  file->read_ahead(0, 1 << 20);
}

TEST_P(AnyDisk, WhatIsExtendedIsAHole) {
  const auto file = disk_->open("one", OpenMode::kCreate);
  file->write(0, bytes_of("hello")).or_throw();
  file->extend(1 << 20).or_throw();
  EXPECT_EQ(file->size().value(), 1u << 20);
  EXPECT_EQ(text_of(*file, 0, 6), std::string("hello") + '\0');
  EXPECT_LE(file->next_extent(0).value().bytes, 64u << 10);
  file->extend(1 << 10).or_throw();  // never shorter
  EXPECT_EQ(file->size().value(), 1u << 20);
}

TEST_P(AnyDisk, SaysWhetherALogBegan) {
  EXPECT_FALSE(disk_->has_begun());
  disk_->set_begun(true);
  EXPECT_TRUE(disk_->has_begun());
  EXPECT_TRUE(disk_->list().value().empty());  // beside the directory
  disk_->set_begun(false);
  EXPECT_FALSE(disk_->has_begun());
  EXPECT_NE(disk_->boot_id(), BootId{});
}

TEST_P(AnyDisk, NamesComeAndGo) {
  disk_->open("one", OpenMode::kCreate)->write(0, bytes_of("1")).or_throw();
  disk_->open("two", OpenMode::kCreate)->write(0, bytes_of("2")).or_throw();
  EXPECT_THAT(disk_->list().value(), ElementsAre("one", "two"));
  disk_->rename("one", "two").or_throw();
  EXPECT_THAT(disk_->list().value(), ElementsAre("two"));
  EXPECT_EQ(text_of(*disk_->open("two", OpenMode::kWrite), 0, 1), "1");
  EXPECT_EQ(disk_->rename("one", "two").code(), Errc::kStorage);
  EXPECT_EQ(disk_->remove("one").code(), Errc::kStorage);
  disk_->remove("two").or_throw();
  disk_->sync_directory().or_throw();
  EXPECT_FALSE(disk_->exists("two"));
  EXPECT_THROW((void)disk_->open("two", OpenMode::kRead), Error);
  EXPECT_THROW((void)disk_->open("two", OpenMode::kWrite), Error);
}

INSTANTIATE_TEST_SUITE_P(Both, AnyDisk, testing::Bool(),
                         [](const auto& which) { return which.param ? std::string("Real") : std::string("Faulty"); });

TEST(RealDisk, IsForOneProcess) {
  const TempFolder folder;
  int ready[2], done[2];
  ASSERT_EQ(::pipe(ready) + ::pipe(done), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto disk = open_disk(folder.path());
    char byte = 1;
    (void)!::write(ready[1], &byte, 1);
    (void)!::read(done[0], &byte, 1);
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  try {
    (void)open_disk(folder.path());
    ADD_FAILURE() << "two processes have " << folder.path();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::kAlreadyExists);
    EXPECT_THAT(error.what(), HasSubstr("process " + std::to_string(child) + " uses " + folder.path()));
  }
  EXPECT_THROW((void)open_disk(folder.path(), std::chrono::milliseconds(50)), Error);
  // One that is about to end is waited for.
  ASSERT_EQ(::write(done[1], &byte, 1), 1);
  EXPECT_NO_THROW((void)open_disk(folder.path(), std::chrono::seconds(30)));
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  for (const int fd : {ready[0], ready[1], done[0], done[1]}) ::close(fd);
  const auto disk = open_disk(folder.path());
  EXPECT_THAT(disk->list().value(), testing::IsEmpty());  // the lock is no file of it
}

TEST(RealDisk, WhatCannotBeOpenedIsNamed) {
  const TempFolder folder;
  const auto disk = open_disk(folder.path());
  disk->open("plain", OpenMode::kCreate)->write(0, bytes_of("x")).or_throw();
  try {
    (void)open_disk(folder.path() + "/plain/below");
    ADD_FAILURE() << "a file is no directory";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("plain/below"));
  }
  EXPECT_EQ(text_of(*open_file(folder.path() + "/plain"), 0, 1), "x");
  EXPECT_THROW((void)open_file(folder.path() + "/none"), Error);
  EXPECT_THROW((void)open_file(folder.path()), Error);
  EXPECT_EQ(open_file(folder.path() + "/plain")->write(0, bytes_of("y")).code(), Errc::kStorage);
  EXPECT_EQ(disk->open("plain", OpenMode::kRead)->resize(100).code(), Errc::kStorage);
}

TEST(Failure, SaysWhatAndWhere) {
  EXPECT_EQ(failure("sync", "log.3", EIO).to_string(), "storage failed: cannot sync log.3: Input/output error");
  EXPECT_EQ(failure("write", "log.3", ENOSPC).code(), Errc::kStorageFull);
  EXPECT_EQ(failure("sync", "log.3", EIO).what(), failure("sync", "log.3", EIO).what());  // kept once
  EXPECT_EQ(damage("log.3", "it is no log").to_string(), "storage failed: log.3: it is no log");
}

TEST(Failure, TextsAreNotKeptWithoutBound) {
  const auto flood = [] {
    for (int k = 0; k < 1000; ++k) (void)damage("file " + std::to_string(k), "it is damaged");
    std::fprintf(stderr, "%s", damage("the last", "it is damaged").what());
    std::_Exit(0);
  };
  EXPECT_EXIT(flood(), testing::ExitedWithCode(0), "^a file is damaged$");  // in a process of its own
}

}  // namespace
}  // namespace atoll::storage
