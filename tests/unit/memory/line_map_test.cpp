#include "memory/line_map.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <utility>

#include "atoll/detail/hit.hpp"

namespace atoll::memory {
namespace {

using detail::HotLine;
using detail::HotWord;

constexpr std::uint32_t kLine = 512;
constexpr std::uint64_t kMemory = 3 << 20;

class LineMapTest : public testing::TestWithParam<bool> {
 protected:
  struct alignas(4096) Page {
    std::byte bytes[4096];
  };
  std::vector<Page> memory = std::vector<Page>(kMemory / 4096);
  std::vector<coherence::DirEntry> directory = std::vector<coherence::DirEntry>(kMemory / kLine);
  std::vector<detail::Line> lines = std::vector<detail::Line>(kMemory / kLine);
  LineMap map{1,
              kLine,
              {{1 << 20}, {kMemory}, {2 << 20}},
              {memory.front().bytes, reinterpret_cast<std::byte*>(directory.data()), lines.data()},
              GetParam(),
              true};
};
INSTANTIATE_TEST_SUITE_P(Fenced, LineMapTest, testing::Bool());

TEST_P(LineMapTest, KnowsWhatMemoryThereIs) {
  EXPECT_TRUE(map.contains(GlobalAddress::make(0, 0), 1 << 20));
  EXPECT_FALSE(map.contains(GlobalAddress::make(0, 0), (1 << 20) + 1));
  EXPECT_TRUE(map.contains(GlobalAddress::make(1, kMemory - 1), 1));
  EXPECT_FALSE(map.contains(GlobalAddress::make(1, kMemory), 0));
  EXPECT_FALSE(map.contains(GlobalAddress::make(1, 64), UINT64_MAX));
  EXPECT_FALSE(map.contains(GlobalAddress::make(3, 64), 1));
  EXPECT_FALSE(map.contains(GlobalAddress::make(kNoNode, 64), 1));
  EXPECT_FALSE(map.contains(GlobalAddress::make(1, 64, GlobalAddress::Kind::kFile), 1));
}

TEST_P(LineMapTest, FindsNothingWhereThereIsNone) {
  for (const GlobalAddress address :
       {GlobalAddress::make(3, 64), GlobalAddress::make(0, 1 << 20), GlobalAddress::make(2, 2 << 20),
        GlobalAddress::make(1, 64, GlobalAddress::Kind::kFile), GlobalAddress(~std::uint64_t{0})}) {
    EXPECT_EQ(detail::find_line(map.table(), address.bits()), nullptr) << address.to_string();
  }
}

TEST_P(LineMapTest, OwnLinesHaveDataAndADirectoryEntry) {
  const GlobalAddress at = GlobalAddress::make(1, (1 << 20) + 5 * kLine + 17);
  const coherence::LineRef ref = map.ref(at);
  EXPECT_EQ(ref.address, at - 17);
  EXPECT_TRUE(ref.is_home());
  EXPECT_EQ(ref.directory->state, coherence::DirState::kUnshared);
  EXPECT_EQ(ref.directory->owner, kNoNode);
  EXPECT_EQ(ref.hot.byte_at(at), reinterpret_cast<std::byte*>(memory.data()) + at.offset());
  EXPECT_EQ(ref.hot.access(), 0);  // nobody came for it yet
  EXPECT_EQ(ref.hot.fenced(), GetParam());
  EXPECT_EQ(map.ref(at + 100).line, ref.line);
  EXPECT_EQ(map.ref(at + kLine).line, ref.line + 1);
}

TEST_P(LineMapTest, LinesOfOthersHaveNoDataUntilTheyHaveASlot) {
  const coherence::LineRef ref = map.ref(GlobalAddress::make(2, 4096));
  EXPECT_FALSE(ref.is_home());
  EXPECT_FALSE(ref.hot.has_bytes());
  EXPECT_EQ(ref.line->slot, 0u);
  EXPECT_EQ(ref.state(), coherence::CacheState::kInvalid);
  EXPECT_EQ(ref.hot.fenced(), GetParam());
}

/// A thread that wants a lock of a line that nobody has used yet tries the lock word first, without the engine lock,
/// while another thread may make the line's slab usable.
TEST_P(LineMapTest, OpeningASlabLeavesLockWordsAlone) {
  const GlobalAddress at = GlobalAddress::make(1, 7 * kLine);
  detail::Line& line = *detail::find_line(map.table(), at.bits());
  line.lock.store(detail::kLockWriter);
  (void)map.ref(at + kLine);  // another line of the same slab
  EXPECT_EQ(line.lock.load(), detail::kLockWriter);
}

/// An address shifted is the index of its words, whatever the node; what is nobody's memory reads as no access.
TEST_P(LineMapTest, WordsStandWhereTheShiftedAddressSays) {
  if (map.table().reads == nullptr) GTEST_SKIP() << "something else stands where inlined hits look";
  const GlobalAddress at = GlobalAddress::make(1, 5 * kLine);
  map.ref(at).hot.set_access(detail::kReadable);
  const std::uint64_t distance = map.table().reads[at.bits() >> detail::kHotShift];
  EXPECT_EQ(reinterpret_cast<std::byte*>(distance + at.bits()), memory.front().bytes + at.offset());
  for (const GlobalAddress other :
       {at - kLine, at + kLine, GlobalAddress::make(0, 1 << 20), GlobalAddress::make(2, GlobalAddress::kOffsetMask)}) {
    EXPECT_EQ(map.table().reads[other.bits() >> detail::kHotShift], 0u);
    EXPECT_EQ(map.table().writes[other.bits() >> detail::kHotShift], 0u);
  }
}

TEST(HotLine, GivesTheDistanceToWhoMayUseIt) {
  alignas(64) std::byte data[128];
  const GlobalAddress address = GlobalAddress::make(7, 1 << 20);
  detail::Line line;
  HotWord reads[] = {0, 0}, writes[] = {0, 0};  // as of a line of 1024 bytes
  const HotWord &read = reads[1], &write = writes[1];
  const HotLine hot(line, reads, writes, 2);
  EXPECT_FALSE(hot.has_bytes());
  EXPECT_EQ(hot.access(), 0);
  hot.set_bytes(address, data);
  EXPECT_TRUE(hot.has_bytes());
  EXPECT_EQ(hot.byte_at(address), data);
  EXPECT_EQ(hot.byte_at(address + 63), data + 63);
  EXPECT_EQ(read, 0u);
  const auto distance = reinterpret_cast<std::uint64_t>(&data[0]) - address.bits();
  hot.set_access(detail::kReadable);
  EXPECT_EQ(hot.access(), detail::kReadable);
  EXPECT_EQ(read, distance);
  EXPECT_EQ(write, 0u);
  hot.set_access(0);
  hot.set_fenced(true);
  hot.set_access(detail::kReadable | detail::kWritable);
  EXPECT_TRUE(hot.fenced());
  EXPECT_EQ(read, distance);
  EXPECT_EQ(write, 0u);  // the inlined write must not see it
  EXPECT_EQ(hot.access(), detail::kReadable | detail::kWritable);
  hot.set_fenced(false);
  EXPECT_EQ(write, distance);
  hot.set_access(detail::kReadable);
  EXPECT_EQ(write, 0u);
  EXPECT_EQ(read, distance);
}

/// Who reads is not waited for: it must find out by itself that the line went away under it.
TEST(ReadLine, DoesNotBelieveWhatItReadWhileALineWasTakenAway) {
  alignas(64) std::uint64_t data[8] = {7};
  const GlobalAddress address = GlobalAddress::make(7, 1 << 20);
  detail::Line line;
  const HotLine hot(line, nullptr, nullptr, 0);
  detail::ThreadSlot slot;
  std::uint64_t seen = 0;
  const auto copy = [&](const std::byte* from) { std::memcpy(&seen, from, sizeof(seen)); };
  EXPECT_FALSE(detail::read_line(slot, line, address, copy)) << "no access";
  hot.set_bytes(address, reinterpret_cast<const std::byte*>(data));
  hot.set_access(detail::kReadable);
  EXPECT_TRUE(detail::read_line(slot, line, address, copy));
  EXPECT_EQ(seen, 7u);
  const auto disturbed = [&](const std::byte* from) {
    hot.set_access(0);  // as the engine does: access, then the word to all threads, then the bytes
    slot.told = 1;
    data[0] = 8;
    copy(from);
  };
  EXPECT_FALSE(detail::read_line(slot, line, address, disturbed));
  EXPECT_FALSE(detail::read_line(slot, line, address, copy)) << "it is gone";
  hot.set_access(detail::kReadable);
  EXPECT_TRUE(detail::read_line(slot, line, address, copy)) << "what was told is forgotten at the next slow read";
  EXPECT_EQ(slot.told, 0u);
}

TEST(WordIndex, IsThereForAlignedAddressesBelowTheLimit) {
  using detail::kNoWord;
  using detail::word_index;
  const std::uint64_t base = GlobalAddress::make(3, 0).bits();
  const std::uint64_t limit = GlobalAddress::make(4, 0).bits() / 8;
  EXPECT_EQ(word_index<8>(0, base), kNoWord) << "no memory";
  EXPECT_EQ(word_index<8>(limit, base + 4096), (base + 4096) >> 9);
  EXPECT_EQ(word_index<8>(limit, GlobalAddress::make(4, 0).bits()), kNoWord);
  for (const std::uint64_t off : {1, 2, 3, 4, 5, 6, 7}) EXPECT_EQ(word_index<8>(limit, base + off), kNoWord) << off;
  EXPECT_EQ(word_index<4>(limit, base + 512 + 4), (base + 512) >> 9);
  EXPECT_EQ(word_index<4>(limit, base + 2), kNoWord);
  EXPECT_EQ(word_index<2>(limit, base + 2), base >> 9);
  EXPECT_EQ(word_index<2>(limit, base + 1), kNoWord);
  EXPECT_EQ(word_index<1>(limit, base + 1023), (base + 512) >> 9);
  EXPECT_EQ(word_index<8>(limit, GlobalAddress::make(0, 4096, GlobalAddress::Kind::kFile).bits()), kNoWord);
}

TEST(OpQueue, IsFirstComeFirstServed) {
  using coherence::Op;
  using coherence::OpKind;
  coherence::OpQueue queue;
  Op a(OpKind::kRead), b(OpKind::kWrite), c(OpKind::kAtomic), d(OpKind::kRead);
  EXPECT_TRUE(queue.empty());
  EXPECT_FALSE(queue.remove(a));
  for (Op* op : {&a, &b, &c}) queue.push(*op);
  EXPECT_FALSE(queue.remove(d));
  EXPECT_TRUE(queue.remove(b));  // from the middle
  EXPECT_EQ(queue.front(), &a);
  EXPECT_TRUE(queue.remove(c));  // the last: what follows is pushed behind a
  queue.push(d);
  EXPECT_EQ(queue.pop(), &a);
  EXPECT_EQ(queue.pop(), &d);
  EXPECT_TRUE(queue.empty());
  queue.push(b);
  EXPECT_TRUE(queue.remove(b));
  EXPECT_TRUE(queue.empty());
  queue.push(c);
  EXPECT_EQ(queue.front(), &c);
}

}  // namespace
/// Inlined hits look in one place, which belongs to the first node of a process; others do without.
TEST_P(LineMapTest, ASecondNodeHasNoWords) {
  LineMap second{1,
                 kLine,
                 {{1 << 20}, {kMemory}, {2 << 20}},
                 {memory.front().bytes, reinterpret_cast<std::byte*>(directory.data()), lines.data()},
                 GetParam(),
                 map.table().reads != nullptr};
  EXPECT_EQ(second.table().reads, nullptr);
  const coherence::LineRef ref = second.ref(GlobalAddress::make(1, 5 * kLine));
  ref.hot.set_access(detail::kReadable | detail::kWritable);
  EXPECT_EQ(ref.hot.access(), detail::kReadable | detail::kWritable);
}

}  // namespace atoll::memory
