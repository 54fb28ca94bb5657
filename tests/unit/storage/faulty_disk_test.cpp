// The disk that fails: what survives, and what does not.
#include "storage/faulty_disk.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace atoll::storage {
namespace {

using testing::ElementsAre;

constexpr std::size_t kSector = FaultyDisk::kSector;

std::vector<std::byte> filled(std::size_t bytes, int value) {
  return std::vector<std::byte>(bytes, std::byte(value));
}

std::vector<int> sectors_of(File& file) {
  std::vector<std::byte> bytes(file.size().value());
  if (!bytes.empty()) file.read(0, bytes).or_throw();
  std::vector<int> values;
  for (std::size_t at = 0; at < bytes.size(); at += kSector) {
    const std::set<std::byte> different(bytes.begin() + long(at),
                                        bytes.begin() + long(std::min(at + kSector, bytes.size())));
    EXPECT_EQ(different.size(), 1u) << "a torn sector";
    values.push_back(int(*different.begin()));
  }
  return values;
}

TEST(FaultyDisk, TheNthOperationFails) {
  FaultyDisk disk;
  const auto file = disk.open("f", OpenMode::kCreate);
  disk.fail_operation(3);
  EXPECT_TRUE(file->write(0, filled(10, 1)).ok());
  EXPECT_TRUE(file->sync().ok());
  EXPECT_EQ(file->sync().code(), Errc::kStorage);
  EXPECT_TRUE(file->sync().ok());
  EXPECT_EQ(disk.operations(), 4u);
  EXPECT_EQ(disk.count(Operation::kSync), 3u);
  disk.fail_next(Operation::kRename);
  EXPECT_TRUE(file->sync().ok());
  EXPECT_FALSE(disk.rename("f", "g").ok());
  EXPECT_TRUE(disk.rename("f", "g").ok());
  disk.fail_from(1);
  EXPECT_FALSE(disk.sync_directory().ok());
  EXPECT_FALSE(disk.remove("g").ok());
  EXPECT_FALSE(file->resize(0).ok());
  disk.fail_operation(0);
  EXPECT_TRUE(disk.remove("g").ok());
}

TEST(FaultyDisk, AWriteThatFailsHasWrittenSomeSectors) {
  std::set<std::size_t> lengths;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    FaultyDisk disk(seed);
    const auto file = disk.open("f", OpenMode::kCreate);
    disk.fail_operation(1);
    EXPECT_FALSE(file->write(0, filled(4 * kSector, 7)).ok());
    lengths.insert(file->size().value());
  }
  EXPECT_THAT(lengths, ElementsAre(0, kSector, 2 * kSector, 3 * kSector));
}

TEST(FaultyDisk, CanBeFull) {
  FaultyDisk disk;
  disk.set_capacity(10 * kSector);
  const auto one = disk.open("one", OpenMode::kCreate), two = disk.open("two", OpenMode::kCreate);
  EXPECT_TRUE(one->resize(6 * kSector).ok());
  EXPECT_EQ(two->resize(6 * kSector).code(), Errc::kStorageFull);
  EXPECT_EQ(two->size().value(), 0u);
  EXPECT_EQ(two->write(0, filled(6 * kSector, 1)).code(), Errc::kStorageFull);
  EXPECT_EQ(two->size().value(), 4 * kSector);  // as much as there was room for
  EXPECT_TRUE(two->write(0, filled(4 * kSector, 1)).ok());
  EXPECT_TRUE(disk.remove("one").ok());
  EXPECT_TRUE(two->resize(10 * kSector).ok());
}

TEST(FaultyDisk, TheEndOfAProcessLosesNothing) {
  FaultyDisk disk;
  auto file = disk.open("f", OpenMode::kCreate);
  file->resize(2 * kSector).or_throw();
  const auto map = file->map().value();
  std::fill(map.begin(), map.end(), std::byte{5});
  disk.crash_process();
  EXPECT_FALSE(file->sync().ok());  // it was the dead process's
  EXPECT_FALSE(file->size().ok());
  EXPECT_FALSE(file->map().ok());
  EXPECT_FALSE(file->next_extent(0).ok());
  std::fill(map.begin(), map.end(), std::byte{6});  // as is its map
  EXPECT_THAT(sectors_of(*disk.open("f", OpenMode::kWrite)), ElementsAre(5, 5));
}

TEST(FaultyDisk, APowerCutLosesSomeOfWhatWasNotSynced) {
  std::set<std::vector<int>> outcomes;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    FaultyDisk disk;
    const auto file = disk.open("f", OpenMode::kCreate);
    file->resize(3 * kSector).or_throw();
    const auto map = file->map().value();
    std::fill(map.begin(), map.end(), std::byte{1});
    file->sync().or_throw();
    disk.sync_directory().or_throw();
    std::fill(map.begin() + kSector, map.begin() + 2 * kSector, std::byte{2});
    file->write(2 * kSector, filled(kSector, 3)).or_throw();
    disk.crash_power(seed);
    outcomes.insert(sectors_of(*disk.open("f", OpenMode::kRead)));
  }
  EXPECT_THAT(outcomes,
              ElementsAre(ElementsAre(1, 1, 1), ElementsAre(1, 1, 3), ElementsAre(1, 2, 1), ElementsAre(1, 2, 3)));
}

TEST(FaultyDisk, AnOlderVersionMayBeWhatIsLeft) {
  std::set<std::vector<int>> outcomes;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    FaultyDisk disk;
    const auto file = disk.open("f", OpenMode::kCreate);
    file->resize(kSector).or_throw();
    file->sync().or_throw();
    disk.sync_directory().or_throw();
    file->write(0, filled(kSector, 1)).or_throw();
    disk.write_back(seed);
    file->write(0, filled(kSector, 2)).or_throw();
    disk.crash_power(seed + 1000);
    outcomes.insert(sectors_of(*disk.open("f", OpenMode::kRead)));
  }
  EXPECT_THAT(outcomes, ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2)));
}

TEST(FaultyDisk, SizesAndNamesAreLostToo) {
  std::set<std::string> outcomes;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    FaultyDisk disk;
    disk.open("old", OpenMode::kCreate)->sync().or_throw();
    disk.open("gone", OpenMode::kCreate)->sync().or_throw();
    disk.sync_directory().or_throw();
    disk.open("old", OpenMode::kWrite)->resize(kSector).or_throw();
    (void)disk.open("fresh", OpenMode::kCreate);
    disk.rename("old", "new").or_throw();
    disk.remove("gone").or_throw();
    disk.crash_power(seed);
    std::string outcome;
    for (const std::string& name : disk.list().value()) {
      outcome += name + std::to_string(disk.open(name, OpenMode::kRead)->size().value()) + " ";
    }
    outcomes.insert(outcome);
    EXPECT_NE(disk.exists("old"), disk.exists("new"));
  }
  // Each of four changes is there or not.
  EXPECT_EQ(outcomes.size(), 16u);
}

TEST(FaultyDisk, WhatWasSyncedStays) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    FaultyDisk disk;
    const auto file = disk.open("f", OpenMode::kCreate);
    file->write(0, filled(2 * kSector, 4)).or_throw();
    file->sync().or_throw();
    disk.rename("f", "g").or_throw();
    disk.sync_directory().or_throw();
    disk.crash_power(seed);
    EXPECT_THAT(disk.list().value(), ElementsAre("g"));
    EXPECT_THAT(sectors_of(*disk.open("g", OpenMode::kRead)), ElementsAre(4, 4));
  }
}

TEST(FaultyDisk, TheHookSeesEachOperation) {
  FaultyDisk disk;
  std::vector<Operation> seen;
  disk.set_hook([&](Operation operation) { seen.push_back(operation); });
  const auto file = disk.open("f", OpenMode::kCreate);
  file->write(0, filled(1, 1)).or_throw();
  file->sync().or_throw();
  EXPECT_THAT(seen, ElementsAre(Operation::kWrite, Operation::kSync));
}

}  // namespace
}  // namespace atoll::storage
