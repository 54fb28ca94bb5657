// The reference memory accepts what may be, and rejects what may not.
#include "sim/reference.hpp"

#include <gtest/gtest.h>

namespace atoll::sim {
namespace {

class CellTest : public testing::Test {
 protected:
  std::string read(std::uint64_t stamp, std::uint32_t thread, Tick begin, Tick end) {
    std::byte bytes[8];
    for (std::size_t i = 0; i < 8; ++i) bytes[i] = pattern(stamp, 16 + i);
    return cell.check_read(bytes, thread, begin, end);
  }
  void write(std::uint64_t stamp, std::uint32_t thread, Tick begin, Tick end) {
    cell.begin_write(stamp, thread, begin);
    if (end != kNever) cell.end_write(stamp, end);
  }
  Cell cell{GlobalAddress::make(1, 4096), 8, 16};
};

TEST_F(CellTest, FreshMemoryIsZero) {
  EXPECT_EQ(read(0, 1, 1, 2), "");
  EXPECT_NE(read(7, 1, 1, 2), "");
}

TEST_F(CellTest, AWriteUnderWayMayBeSeenOrNot) {
  write(1, 1, 10, kNever);
  EXPECT_EQ(read(0, 2, 11, 12), "");
  EXPECT_EQ(read(1, 2, 13, 14), "");
}

TEST_F(CellTest, OnceSeenAWriteStays) {
  write(1, 1, 10, kNever);
  EXPECT_EQ(read(1, 2, 13, 14), "");
  EXPECT_NE(read(0, 3, 15, 16), "");
}

TEST_F(CellTest, AWriteThatIsDoneHidesOlderOnes) {
  write(1, 1, 10, 20);
  EXPECT_NE(read(0, 2, 21, 22), "");
  EXPECT_EQ(read(1, 2, 21, 22), "");
}

TEST_F(CellTest, AReadThatBeganEarlierMaySeeTheOlderOne) {
  write(1, 1, 10, 20);
  EXPECT_EQ(read(0, 2, 19, 30), "");
}

TEST_F(CellTest, AThreadSeesItsOwnWrites) {
  write(1, 1, 10, kNever);
  EXPECT_NE(read(0, 1, 11, 12), "");
  EXPECT_EQ(read(1, 1, 11, 12), "");
}

TEST_F(CellTest, WritesOfOneThreadToOnePlaceKeepTheirOrder) {
  write(1, 1, 10, kNever);
  write(2, 1, 11, kNever);
  EXPECT_EQ(read(2, 2, 12, 13), "");
  EXPECT_NE(read(1, 2, 14, 15), "");
}

TEST_F(CellTest, WritesAtTheSameTimeMayComeInEitherOrder) {
  write(1, 1, 10, 20);
  write(2, 2, 11, 19);
  EXPECT_EQ(read(1, 3, 21, 22), "");
  write(3, 1, 30, 40);
  write(4, 2, 31, 39);
  EXPECT_EQ(read(4, 3, 41, 42), "");
}

TEST_F(CellTest, OfWritesAtTheSameTimeTheOneThatWasReplacedStaysSo) {
  write(1, 1, 10, 20);
  write(2, 2, 11, 19);
  EXPECT_EQ(read(1, 3, 21, 22), "");
  EXPECT_NE(read(2, 3, 23, 24), "");  // it was replaced by the first, which is done
}

TEST_F(CellTest, AWriteThatIsNotDoneMayComeLater) {
  write(1, 1, 10, 20);
  write(2, 2, 11, kNever);
  EXPECT_EQ(read(1, 3, 21, 22), "");
  EXPECT_EQ(read(2, 3, 23, 24), "");
  EXPECT_NE(read(1, 3, 25, 26), "");
}

TEST_F(CellTest, AWriteOfWhichHalfIsThereIsRejected) {
  write(1, 1, 10, 20);
  std::byte bytes[8];
  for (std::size_t i = 0; i < 8; ++i) bytes[i] = pattern(i < 4 ? 1 : 0, 16 + i);
  EXPECT_NE(cell.check_read(bytes, 2, 15, 16), "");
}

TEST_F(CellTest, PruningKeepsWhatMayBeRead) {
  for (std::uint64_t stamp = 1; stamp <= 50; ++stamp) write(stamp, 1, stamp * 10, stamp * 10 + 5);
  write(51, 2, 600, kNever);
  cell.prune(550);
  EXPECT_EQ(cell.candidates(), 2u);
  EXPECT_EQ(read(50, 3, 601, 602), "");
  EXPECT_EQ(read(51, 3, 603, 604), "");
  EXPECT_NE(read(49, 3, 605, 606), "");
}

}  // namespace
}  // namespace atoll::sim
