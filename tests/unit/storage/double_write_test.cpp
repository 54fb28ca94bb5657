// The companion's bytes, as docs/formats.md has them; what replay makes of damaged ones; what areas are for.
#include "storage/double_write.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/crc32c.hpp"
#include "storage/simulated_io.hpp"
#include "support/page_store.hpp"

namespace atoll::storage {
namespace {

using test::stamp;
using test::version_of;
using testing::HasSubstr;

constexpr std::uint32_t kPage = 4096;

template <typename T>
T number_at(std::span<const std::byte> bytes, std::size_t at) {
  T number{};
  std::memcpy(&number, bytes.data() + at, sizeof(T));
  return number;
}

std::string text_at(std::span<const std::byte> bytes, std::size_t at) {
  return {reinterpret_cast<const char*>(bytes.data()) + at, 8};
}

TEST(DoubleWrite, BytesOfTheCompanion) {
  HeaderImage image;
  encode_companion(image, 8192);
  EXPECT_EQ(text_at(image, 0), "ATOLLPGS");
  EXPECT_EQ(number_at<std::uint32_t>(image, 8), 1u);
  EXPECT_EQ(number_at<std::uint32_t>(image, 12), 8192u);
  EXPECT_EQ(number_at<std::uint32_t>(image, 16), 8u);
  EXPECT_EQ(number_at<std::uint32_t>(image, 20), 128u);
  EXPECT_EQ(number_at<std::uint32_t>(image, 24), 0u);
  EXPECT_EQ(number_at<std::uint32_t>(image, 28), base::crc32c(0, std::span(image).first(28)));
}

TEST(DoubleWrite, BytesOfABatch) {
  HeaderImage image;
  const PageEntry entries[] = {{0x1000, 4096, 7}, {0x8000, 100, 9}};
  encode_batch(image, 42, entries);
  EXPECT_EQ(text_at(image, 0), "ATOLLPGB");
  EXPECT_EQ(number_at<std::uint64_t>(image, 8), 42u);
  EXPECT_EQ(number_at<std::uint32_t>(image, 16), 2u);
  EXPECT_EQ(number_at<std::uint32_t>(image, 20), base::crc32c(0, std::span(image).subspan(32, 32)));
  EXPECT_EQ(number_at<std::uint32_t>(image, 28), base::crc32c(0, std::span(image).first(28)));
  EXPECT_EQ(number_at<std::uint64_t>(image, 48), 0x8000u);
  EXPECT_EQ(number_at<std::uint32_t>(image, 56), 100u);
  EXPECT_EQ(number_at<std::uint32_t>(image, 60), 9u);
}

TEST(DoubleWrite, ShapeOfAreas) {
  EXPECT_EQ(area_pages(4096), 250u);
  EXPECT_EQ(area_pages(16384), 64u);
  EXPECT_EQ(area_pages(1 << 20), 4u);
  EXPECT_EQ(area_offset(4096, 0), 4096u);
  EXPECT_EQ(area_offset(4096, 1), 4096u + 4096 + 250 * 4096);
}

/// Which pairs may be is in the table alone; that nothing is written to an area whose copy is needed is here.
TEST(DoubleWrite, OnlyWhatIsDurableInPlaceIsGivenUp) {
  std::set<std::pair<int, int>> to_free;
  for (std::size_t state = 0; state < kAreaStates; ++state) {
    for (std::size_t event = 0; event < kAreaEvents; ++event) {
      const auto from = AreaState(state);
      if (!may_be(from, AreaEvent(event))) continue;
      const AreaState to = next_state(from, AreaEvent(event));
      if (from != AreaState::kFree && to == AreaState::kFree) to_free.emplace(int(state), int(event));
      EXPECT_TRUE(AreaEvent(event) != AreaEvent::kTaken || from == AreaState::kFree) << state;
      EXPECT_TRUE(to != AreaState::kPlacing || from == AreaState::kSecuring) << state;
    }
  }
  const auto pair = [](AreaState state, AreaEvent event) { return std::pair(int(state), int(event)); };
  EXPECT_EQ(to_free,
            (std::set{pair(AreaState::kLogging, AreaEvent::kFailed), pair(AreaState::kSecuring, AreaEvent::kFailed),
                      pair(AreaState::kPlaced, AreaEvent::kSynced), pair(AreaState::kPlaced, AreaEvent::kRepaired),
                      pair(AreaState::kOwed, AreaEvent::kRepaired)}));
  for (std::size_t state = 0; state < kAreaStates; ++state) {  // it comes at any time
    EXPECT_TRUE(may_be(AreaState(state), AreaEvent::kSyncFailed)) << state;
  }
}

class Replay : public testing::Test {
 protected:
  Replay() {
    file_ = io_.open("f", {.create = true});
    companion_ = io_.open("c", {.create = true});
    EXPECT_EQ(io_.truncate(file_, 8 * kPage), 0);
    make_companion(io_, companion_, "c", kPage).or_throw();
  }
  void put_batch(std::uint32_t area, std::uint64_t sequence, const std::vector<std::uint32_t>& pages,
                 std::uint32_t bytes = kPage) {
    HeaderImage header;
    std::vector<PageEntry> entries;
    std::vector<std::byte> page(kPage);
    std::uint64_t at = area_offset(kPage, area) + kHeaderBytes;
    for (const std::uint32_t number : pages) {
      stamp(page, number, std::uint32_t(sequence));
      entries.push_back({std::uint64_t(number) * kPage, bytes, base::crc32c(0, page)});
      EXPECT_EQ(io_.write_now(companion_, at, page), 0);
      at += kPage;
    }
    encode_batch(header, sequence, entries);
    EXPECT_EQ(io_.write_now(companion_, area_offset(kPage, area), header), 0);
  }
  void damage_at(std::uint64_t offset) {
    std::byte one{};
    EXPECT_EQ(io_.read_now(companion_, offset, {&one, 1}), 1);
    one ^= std::byte(1);
    EXPECT_EQ(io_.write_now(companion_, offset, {&one, 1}), 0);
  }
  Result<std::uint64_t> run() { return replay(io_, companion_, "c", file_, "f"); }
  std::vector<std::uint32_t> versions() {
    std::vector<std::uint32_t> all;
    std::vector<std::byte> page(kPage);
    for (std::uint32_t number = 0; number < 8; ++number) {
      if (io_.read_now(file_, std::uint64_t(number) * kPage, page) <= 0) break;
      all.push_back(version_of(page, number));
    }
    return all;
  }
  using Versions = std::vector<std::uint32_t>;

  FaultyDisk disk_;
  SimulatedIo io_{disk_, 1, nullptr, 8};
  int file_ = -1;
  int companion_ = -1;
};

TEST_F(Replay, TheNewestCopyCounts) {
  EXPECT_FALSE(has_batches(io_, companion_, "c").value());
  put_batch(5, 3, {1, 2});
  put_batch(6, 4, {2, 3});
  put_batch(0, 11, {3, 4});
  EXPECT_TRUE(has_batches(io_, companion_, "c").value());
  EXPECT_EQ(run().value(), 4u);
  EXPECT_EQ(versions(), (Versions{0, 3, 4, 11, 11, 0, 0, 0}));
  EXPECT_EQ(io_.sync_folder("f"), 0);
  io_.crash(true);  // it was synced
  file_ = io_.open("f", {});
  EXPECT_EQ(versions(), (Versions{0, 3, 4, 11, 11, 0, 0, 0}));
}

TEST_F(Replay, ATornBatchIsLeftOut) {
  put_batch(0, 1, {1, 2});
  put_batch(1, 2, {1, 3});
  const std::uint64_t second = area_offset(kPage, 1);
  const std::uint64_t places[] = {second,                 // magic
                                  second + 9,             // sequence
                                  second + 16,            // count
                                  second + 33,            // the first entry
                                  second + 63,            // the last
                                  second + kHeaderBytes,  // the first page
                                  second + kHeaderBytes + 2 * kPage - 1};
  for (const std::uint64_t at : places) {
    damage_at(at);
    EXPECT_EQ(run().value(), 2u);
    EXPECT_EQ(versions(), (Versions{0, 1, 1, 0, 0, 0, 0, 0})) << at;
    damage_at(at);  // as it was
  }
  EXPECT_EQ(run().value(), 3u);
  EXPECT_EQ(versions(), (Versions{0, 2, 1, 2, 0, 0, 0, 0}));
}

TEST_F(Replay, NothingIsWrittenBeyondTheEnd) {
  put_batch(0, 1, {6, 7});
  put_batch(1, 2, {2}, 100);  // the file had only so much of it
  EXPECT_EQ(io_.truncate(file_, 7 * kPage - 1000), 0);
  EXPECT_EQ(run().value(), 2u);
  EXPECT_EQ(io_.length(file_), 7 * kPage - 1000);
  std::vector<std::byte> page(kPage);
  EXPECT_EQ(io_.read_now(file_, 2 * kPage, page), kPage);
  EXPECT_EQ(version_of(std::span(page).first(96), 2), 2u);
  EXPECT_EQ(version_of(std::span(page).subspan(104), 2), 0u);
}

TEST_F(Replay, AHeaderThatWasNotMadeToTheEndIsNoError) {
  put_batch(0, 1, {1});
  damage_at(13);
  EXPECT_EQ(run().value(), 0u);
  EXPECT_EQ(io_.truncate(companion_, 10), 0);
  EXPECT_EQ(run().value(), 0u);
  EXPECT_EQ(io_.truncate(companion_, 0), 0);
  EXPECT_EQ(run().value(), 0u);
}

TEST_F(Replay, AnotherVersionIsAnError) {
  HeaderImage image;
  encode_companion(image, kPage);
  image[8] = std::byte(2);
  const std::uint32_t crc = base::crc32c(0, std::span(image).first(28));
  std::memcpy(image.data() + 28, &crc, sizeof(crc));
  EXPECT_EQ(io_.write_now(companion_, 0, image), 0);
  EXPECT_EQ(run().status().code(), Errc::kStorage);
  EXPECT_THAT(run().status().what(), HasSubstr("another version"));
}

TEST_F(Replay, AFailureIsAnError) {
  put_batch(0, 1, {1});
  disk_.fail_next(Operation::kSync);
  EXPECT_THAT(run().status().what(), HasSubstr("cannot sync f"));
  disk_.fail_next(Operation::kWrite);
  EXPECT_THAT(run().status().what(), HasSubstr("cannot write f"));
  disk_.fail_next(Operation::kRead);
  EXPECT_THAT(run().status().what(), HasSubstr("cannot read c"));
  EXPECT_EQ(run().value(), 1u);
}

}  // namespace
}  // namespace atoll::storage
