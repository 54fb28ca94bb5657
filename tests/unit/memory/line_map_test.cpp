#include "memory/line_map.hpp"

#include <gtest/gtest.h>

#include <memory>

#include "atoll/detail/hit.hpp"

namespace atoll::memory {
namespace {

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
  std::unique_ptr<detail::Home[]> homes = std::make_unique<detail::Home[]>(65536);
  LineMap map{1,
              kLine,
              {{1 << 20}, {kMemory}, {2 << 20}},
              memory.front().bytes,
              reinterpret_cast<std::byte*>(directory.data()),
              GetParam(),
              homes.get()};
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
    EXPECT_EQ(detail::find_line(map.table(), address.bits()).word, nullptr) << address.to_string();
  }
}

TEST_P(LineMapTest, OwnLinesHaveDataAndADirectoryEntry) {
  const GlobalAddress at = GlobalAddress::make(1, (1 << 20) + 5 * kLine + 17);
  const coherence::LineRef ref = map.ref(at);
  EXPECT_EQ(ref.address, at - 17);
  EXPECT_TRUE(ref.is_home());
  EXPECT_EQ(ref.directory->state, coherence::DirState::kUnshared);
  EXPECT_EQ(ref.directory->owner, kNoNode);
  EXPECT_EQ(ref.word->byte_at(at), memory.front().bytes + at.offset());
  EXPECT_EQ(ref.word->access(), 0);  // nobody came for it yet
  EXPECT_EQ(ref.word->fenced(), GetParam());
  EXPECT_EQ(map.ref(at + 100).line, ref.line);
  EXPECT_EQ(map.ref(at + kLine).line, ref.line + 1);
}

TEST_P(LineMapTest, LinesOfOthersHaveNoDataUntilTheyHaveASlot) {
  const coherence::LineRef ref = map.ref(GlobalAddress::make(2, 4096));
  EXPECT_FALSE(ref.is_home());
  EXPECT_FALSE(ref.word->has_bytes());
  EXPECT_EQ(ref.line->slot, 0u);
  EXPECT_EQ(ref.state(), coherence::CacheState::kInvalid);
  EXPECT_EQ(ref.word->fenced(), GetParam());
}

/// A thread that wants a lock of a line that nobody has used yet tries the lock word first, without the engine lock,
/// while another thread may make the line's slab usable.
TEST_P(LineMapTest, OpeningASlabLeavesLockWordsAlone) {
  const GlobalAddress at = GlobalAddress::make(1, 7 * kLine);
  detail::Line& line = *detail::find_line(map.table(), at.bits()).line;
  line.lock.store(detail::kLockWriter);
  (void)map.ref(at + kLine);  // another line of the same slab
  EXPECT_EQ(line.lock.load(), detail::kLockWriter);
}

TEST_P(LineMapTest, LeavesTheHomesEmptyWhenItGoes) {
  auto others = std::make_unique<detail::Home[]>(65536);
  {
    const LineMap gone(0, kLine, {{1 << 20}}, memory.front().bytes, reinterpret_cast<std::byte*>(directory.data()),
                       false, others.get());
    EXPECT_NE(detail::find_line(gone.table(), GlobalAddress::make(0, 64).bits()).word, nullptr);
  }
  const detail::LineTable table{others.get(), kLine - 1};
  EXPECT_EQ(detail::find_line(table, GlobalAddress::make(0, 64).bits()).word, nullptr);
}

TEST(HotWord, KeepsPlaceAccessAndMode) {
  alignas(64) std::byte data[128];
  const GlobalAddress line = GlobalAddress::make(7, 1 << 20);
  HotWord word;
  EXPECT_FALSE(word.has_bytes());
  EXPECT_EQ(word.access(), 0);
  word.set_bytes(line, data);
  EXPECT_TRUE(word.has_bytes());
  EXPECT_EQ(word.byte_at(line), data);
  EXPECT_EQ(word.byte_at(line + 63), data + 63);
  word.set_access(detail::kReadable);
  EXPECT_EQ(word.access(), detail::kReadable);
  EXPECT_EQ(word.load() & HotWord::kPlain, detail::kReadable);
  word.set_access(0);
  word.set_fenced(true);
  word.set_access(detail::kReadable | detail::kWritable);
  EXPECT_TRUE(word.fenced());
  EXPECT_EQ(word.load() & HotWord::kPlain, 0u);  // the inlined hit must not see it
  EXPECT_EQ(word.access(), detail::kReadable | detail::kWritable);
  EXPECT_EQ(word.byte_at(line + 5), data + 5);
  word.set_fenced(false);
  EXPECT_EQ(word.load() & HotWord::kPlain, detail::kReadable | detail::kWritable);
  EXPECT_EQ(word.byte_at(line + 5), data + 5);
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
}  // namespace atoll::memory
