// Allocation, reads and writes, pointers.
#include <algorithm>
#include <numeric>
#include <vector>

#include "base/random.hpp"
#include "behaviour/together.hpp"

namespace atoll::test {
namespace {

class Memory : public Together {};

TEST_F(Memory, EveryHintPlacesAsAsked) {
  EXPECT_EQ(node().allocate(100).value().node(), id());
  EXPECT_EQ(node().allocate(100, Placement::any()).value().node(), id());
  EXPECT_EQ(node().allocate(100, Placement::local()).value().node(), id());
  for (NodeId k = 0; k < count(); ++k) {
    const GlobalAddress there = node().allocate(100, Placement::on(k)).value();
    EXPECT_EQ(there.node(), k);
    EXPECT_EQ(node().allocate(100, Placement::near(there)).value().node(), k);
    EXPECT_EQ(node().allocate<double>(10, Placement::on(k)).value().node(), k);
  }
  const auto remote = node().allocate(100, Placement::remote());
  if (count() == 1) {
    EXPECT_EQ(remote.status().code(), Errc::kInvalidArgument);
  } else {
    EXPECT_NE(remote.value().node(), id());
  }
}

TEST_F(Memory, ANodeThatIsFullGetsFromOthers) {
  ATOLL_NEEDS_NODES(2);
  if (id() == 0) {
    std::vector<GlobalAddress> blocks;
    while (true) {
      const auto block = node().allocate(100'000, Placement::local());
      if (!block.ok()) {
        EXPECT_EQ(block.status().code(), Errc::kOutOfMemory);
        break;
      }
      blocks.push_back(*block);
    }
    const GlobalAddress elsewhere = node().allocate(100'000).value();
    EXPECT_NE(elsewhere.node(), 0);
    EXPECT_TRUE(node().free(elsewhere).ok());
    for (const GlobalAddress block : blocks) EXPECT_TRUE(node().free(block).ok());
    EXPECT_EQ(node().allocate(100'000).value().node(), 0);
  }
  meet();
}

TEST_F(Memory, IsZeroedWhenItIsUsedAgain) {
  const std::vector<std::byte> dirt(3000, std::byte(0xff));
  std::vector<std::byte> content(3000);
  int reused = 0;
  GlobalAddress last;
  for (int i = 0; i < 20; ++i) {
    const GlobalAddress block = node().allocate(3000, Placement::on(next())).value();
    reused += block == last;
    last = block;
    ASSERT_TRUE(node().read(block, content).ok());
    EXPECT_TRUE(std::all_of(content.begin(), content.end(), [](std::byte b) { return b == std::byte(0); }));
    ASSERT_TRUE(node().write(block, dirt).ok());
    ASSERT_TRUE(node().fence().ok());
    ASSERT_TRUE(node().free(block).ok());
    const GlobalAddress raw = node().allocate(3000, Placement::on(next()).uninitialized()).value();
    ASSERT_TRUE(node().write(raw, dirt).ok());
    ASSERT_TRUE(node().fence().ok());
    ASSERT_TRUE(node().free(raw).ok());
  }
  if (count() <= 2) {
    EXPECT_GT(reused, 0) << "the test never saw memory used again";
  }
}

/// Sizes 1 to 5000 at all alignments, in memory of the next node, between guards.
TEST_F(Memory, RangesOfEverySizeAndAlignment) {
  constexpr std::size_t kRoom = 6000;
  const GlobalAddress base = node().allocate(kRoom, Placement::on(next())).value();
  std::vector<std::byte> shadow(kRoom), content(kRoom);
  base::Random random(id());
  for (std::size_t size = 1; size <= 5000; size += size < 130 ? 1 : 1 + random.below(60)) {
    const std::size_t at = random.below(kRoom - size);
    for (std::size_t i = 0; i < size; ++i) shadow[at + i] = std::byte(random.next());
    ASSERT_TRUE(node().write(base + std::int64_t(at), {shadow.data() + at, size}).ok());
    const std::size_t from = random.below(at + 1), to = at + size + random.below(kRoom - at - size);
    ASSERT_TRUE(node().read(base + std::int64_t(from), {content.data(), to - from}).ok());
    ASSERT_TRUE(std::equal(content.begin(), content.begin() + std::ptrdiff_t(to - from), shadow.data() + from))
        << "size " << size << " at " << at;
  }
  // Somebody else sees the same.
  const GlobalAddress of_previous = [&] {
    GlobalAddress mine;
    for (NodeId k = 0; k < count(); ++k) {
      const GlobalAddress found = shared(k, [&] { return base; });
      if (k == NodeId((id() + count() - 1) % count())) mine = found;
    }
    return mine;
  }();
  ASSERT_TRUE(node().fence().ok());
  const GlobalAddress sums = shared_bytes(8 * count());
  const auto sum_of = [](const std::vector<std::byte>& bytes) {
    return std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0},
                           [](std::uint64_t sum, std::byte b) { return sum * 31 + std::uint64_t(b); });
  };
  ASSERT_TRUE(node().write(global_ptr<std::uint64_t>(sums) + id(), sum_of(shadow)).ok());
  meet();
  ASSERT_TRUE(node().read(of_previous, content).ok());
  const auto previous = NodeId((id() + count() - 1) % count());
  EXPECT_EQ(node().read(global_ptr<std::uint64_t>(sums) + previous).value(), sum_of(content));
}

struct Particle {
  double position[3];
  float mass;
  std::int16_t charge;
  char name[6];
  friend bool operator==(const Particle&, const Particle&) = default;
};

TEST_F(Memory, TypedValuesOfAllKinds) {
  const auto particles = shared_objects<Particle>(200, NodeId(count() - 1));
  for (int i = id(); i < 200; i += count()) {
    const Particle p{{double(i), i * 0.5, -1.0 * i}, float(i), std::int16_t(-i), "p"};
    ASSERT_TRUE(node().write(particles + i, p).ok());
  }
  meet();
  for (int i = 0; i < 200; ++i) {
    const Particle expected{{double(i), i * 0.5, -1.0 * i}, float(i), std::int16_t(-i), "p"};
    ASSERT_EQ(node().read(particles + i).value(), expected) << i;
  }
  // Words that are not aligned, over the end of a line too.
  const GlobalAddress bytes = node().allocate(2 * node().line_bytes(), Placement::on(next())).value();
  for (int at = int(node().line_bytes()) - 9; at < int(node().line_bytes()) + 3; ++at) {
    ASSERT_TRUE(node().write<std::uint64_t>(bytes + at, 0x0123456789abcdefULL + std::uint64_t(at)).ok());
    ASSERT_EQ(node().read<std::uint64_t>(bytes + at).value(), 0x0123456789abcdefULL + std::uint64_t(at));
    ASSERT_TRUE(node().write<std::int8_t>(bytes + at, std::int8_t(-at)).ok());
    ASSERT_EQ(node().read<std::int8_t>(bytes + at).value(), std::int8_t(-at));
  }
}

/// A list whose elements live on all nodes; pointers are stored in the memory that they point into.
TEST_F(Memory, PointersLeadThroughTheMemoryOfAllNodes) {
  struct Element {
    global_ptr<Element> next;
    std::uint64_t maker, number;
  };
  const auto head = shared_objects<global_ptr<Element>>();
  constexpr std::uint64_t kEach = 20;
  for (std::uint64_t i = 0; i < kEach; ++i) {
    const auto element = node().allocate<Element>().value();
    Element content{node().read(head).value(), id(), i};
    while (true) {
      ASSERT_TRUE(node().write(element, content).ok());
      const auto found = node().compare_exchange(head, content.next, element).value();  // a fence too
      if (found == content.next) break;
      content.next = found;
    }
  }
  meet();
  std::vector<std::uint64_t> seen(count(), 0);
  for (auto at = node().read(head).value(); at;) {
    const Element element = node().read(at).value();
    ASSERT_LT(element.maker, count());
    ++seen[element.maker];
    at = element.next;
  }
  for (const std::uint64_t number : seen) EXPECT_EQ(number, kEach);

  const global_ptr<std::uint32_t> p(GlobalAddress::make(1, 4096));
  EXPECT_EQ((p + 3).address().offset(), 4096u + 12);
  EXPECT_EQ((p + 3) - p, 3);
  EXPECT_EQ((p + 3) - 3, p);
  EXPECT_LT(p, p + 1);
  EXPECT_FALSE(global_ptr<int>());
  EXPECT_FALSE(global_ptr<int>(nullptr));
}

/// What does not fit the cache and is dirty when it is thrown out is not lost.
TEST_F(Memory, EvictionOfDirtyLinesLosesNothing) {
  const std::uint64_t line = node().line_bytes();
  const std::uint64_t lines = std::min<std::uint64_t>(3 * node().stats().cache_lines, (4 << 20) / line);
  const GlobalAddress base = node().allocate(lines * line, Placement::on(next())).value();
  const auto word = [&](std::uint64_t i) {
    return global_ptr<std::uint64_t>(base + std::int64_t(i * line + i % 8 * 8));
  };
  for (std::uint64_t i = 0; i < lines; ++i) ASSERT_TRUE(node().write(word(i), i * 7 + id()).ok());
  for (std::uint64_t i = 0; i < lines; ++i) ASSERT_EQ(node().read(word(i)).value(), i * 7 + id());
  if (count() > 1 && lines > node().stats().cache_lines) {
    EXPECT_GT(node().stats().evictions_dirty, 0u);
  }
  ASSERT_TRUE(node().fence().ok());
  for (NodeId k = 0; k < count(); ++k) {
    const GlobalAddress of_k = shared(k, [&] { return base; });
    if (next() != k) continue;
    for (std::uint64_t i = 0; i < lines; ++i) {
      ASSERT_EQ(node().read<std::uint64_t>(of_k + std::int64_t(i * line + i % 8 * 8)).value(), i * 7 + k);
    }
  }
  meet();
  EXPECT_TRUE(node().free(base).ok());
}

}  // namespace
}  // namespace atoll::test
