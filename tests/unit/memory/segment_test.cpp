#include "memory/segment.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <functional>

namespace atoll::memory {
namespace {

Options small() {
  Options options;
  options.memory_bytes = 2 << 20;
  options.cache_bytes = 64 * 512;
  return options;
}

TEST(Segment, IsSharedBetweenItsMappings) {
  const Segment mine = Segment::create(small(), 3);
  const Segment theirs = Segment::open(mine.fd());
  EXPECT_EQ(theirs.memory_bytes(), 2u << 20);
  EXPECT_EQ(theirs.cache_bytes(), 64u * 512);
  EXPECT_EQ(theirs.header().nodes, 3u);
  EXPECT_NE(mine.memory(), theirs.memory());
  mine.memory()[12345] = std::byte(7);
  theirs.cache()[99] = std::byte(8);
  mine.header().counters.hits.set(17);
  EXPECT_EQ(theirs.memory()[12345], std::byte(7));
  EXPECT_EQ(mine.cache()[99], std::byte(8));
  EXPECT_EQ(theirs.header().counters.hits.get(), 17u);
  mine.populate_cache();
}

TEST(Segment, PartsDoNotOverlap) {
  for (const NodeId nodes : {NodeId(1), NodeId(7), NodeId(64)}) {
    const Segment segment = Segment::create(small(), nodes);
    const SegmentHeader& header = segment.header();
    EXPECT_GE(header.rings_offset, sizeof(SegmentHeader));
    EXPECT_GE(header.directory_offset, header.rings_offset + nodes * (128 + header.ring_slots * std::uint64_t{64}));
    EXPECT_GE(header.cache_offset, header.directory_offset + header.memory_bytes / 512 * 32);
    EXPECT_GE(header.memory_offset, header.cache_offset + header.cache_bytes);
    EXPECT_GE(header.total_bytes, header.memory_offset + header.memory_bytes);
    EXPECT_EQ(header.memory_offset % 4096, 0u);
  }
}

TEST(Segment, RoundsMemoryUpToMegabytes) {
  Options options = small();
  options.memory_bytes = (1 << 20) + 1;
  EXPECT_EQ(Segment::create(options, 1).memory_bytes(), 2u << 20);
}

TEST(Segment, RefusesOptionsThatMakeNoSense) {
  const auto refused = [](const std::function<void(Options&)>& change) {
    Options options = small();
    change(options);
    try {
      (void)Segment::create(options, 1);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(refused([](Options& o) { o.line_bytes = 500; }), testing::HasSubstr("500"));
  EXPECT_THAT(refused([](Options& o) { o.memory_bytes = 0; }), testing::HasSubstr("memory"));
  EXPECT_THAT(refused([](Options& o) { o.cache_bytes = 0; }), testing::HasSubstr("cache"));
  EXPECT_EQ(refused([](Options&) {}), "");
}

TEST(Segment, RefusesWhatIsNone) {
  const base::Fd empty(::memfd_create("empty", MFD_CLOEXEC));
  EXPECT_THROW((void)Segment::open(empty), Error);
  EXPECT_THROW((void)Segment::open(base::Fd()), Error);
  const base::Fd zeros(::memfd_create("zeros", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(zeros.get(), 8 << 20), 0);
  EXPECT_THROW((void)Segment::open(zeros), Error);
}

TEST(Segment, RefusesHeadersThatContradictThemselves) {
  const std::vector<std::function<void(SegmentHeader&)>> damages = {
      [](SegmentHeader& h) { h.magic ^= 1; },
      [](SegmentHeader& h) { ++h.version; },
      [](SegmentHeader& h) { h.line_bytes = 0; },
      [](SegmentHeader& h) { h.line_bytes = 500; },
      [](SegmentHeader& h) { h.nodes = 0; },
      [](SegmentHeader& h) { h.nodes = 500; },
      [](SegmentHeader& h) { h.nodes = 65536 + 3; },
      [](SegmentHeader& h) { h.nodes = UINT32_MAX; },
      [](SegmentHeader& h) { h.ring_slots = 7; },
      [](SegmentHeader& h) { h.ring_slots = UINT32_MAX; },
      [](SegmentHeader& h) { h.total_bytes += 4096; },
      [](SegmentHeader& h) { h.rings_offset += 4096; },
      [](SegmentHeader& h) { h.directory_offset = 0; },
      [](SegmentHeader& h) { h.lines_offset += 64; },
      [](SegmentHeader& h) { h.cache_offset = UINT64_MAX - 4095; },
      [](SegmentHeader& h) { h.cache_bytes *= 1024; },
      [](SegmentHeader& h) { h.cache_bytes = UINT64_MAX; },
      [](SegmentHeader& h) { h.memory_offset += 1 << 21; },
      [](SegmentHeader& h) { h.memory_bytes *= 64; },
      [](SegmentHeader& h) { h.memory_bytes = UINT64_MAX; },
  };
  for (std::size_t i = 0; i < damages.size(); ++i) {
    const Segment mine = Segment::create(small(), 3);
    ASSERT_NO_THROW((void)Segment::open(mine.fd()));
    damages[i](mine.header());
    EXPECT_THROW((void)Segment::open(mine.fd()), Error) << "damage " << i;
  }
}

/// A peer that cuts its file short would kill everybody who has mapped it.
TEST(Segment, RefusesOneThatCouldShrink) {
  const Segment mine = Segment::create(small(), 3);
  const base::Fd copy(::memfd_create("copy", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const SegmentHeader& header = mine.header();
  ASSERT_EQ(::ftruncate(copy.get(), off_t(header.total_bytes)), 0);
  ASSERT_EQ(::pwrite(copy.get(), &header, sizeof(header), 0), ssize_t(sizeof(header)));
  try {
    (void)Segment::open(copy);
    ADD_FAILURE() << "opened";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("not sealed"));
  }
  ASSERT_EQ(::fcntl(copy.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  EXPECT_NO_THROW((void)Segment::open(copy));
}

/// Its owner can write to the header at any time; nobody follows it there.
TEST(Segment, StaysAsItWasChecked) {
  const Segment mine = Segment::create(small(), 3);
  const Segment theirs = Segment::open(mine.fd());
  const std::byte* const rings = theirs.rings();
  const std::byte* const directory = theirs.directory();
  mine.header().rings_offset = mine.header().directory_offset = UINT64_MAX;
  mine.header().nodes = 1000;
  EXPECT_EQ(theirs.rings(), rings);
  EXPECT_EQ(theirs.directory(), directory);
  EXPECT_EQ(theirs.layout().nodes, 3u);
}

TEST(Segment, MovesAndLetsGo) {
  Segment first = Segment::create(small(), 1);
  std::byte* const memory = first.memory();
  Segment second = std::move(first);
  EXPECT_EQ(second.memory(), memory);
  first = Segment::create(small(), 2);
  second = std::move(first);
  EXPECT_EQ(second.header().nodes, 2u);
}

}  // namespace
}  // namespace atoll::memory
