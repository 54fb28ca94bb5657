// Arrays that all nodes make together.
#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <vector>

#include "base/random.hpp"
#include "behaviour/together.hpp"

namespace atoll::test {
namespace {

class Arrays : public Together {};

TEST_F(Arrays, AreSpreadEvenlyInWholeChunks) {
  constexpr std::uint64_t kCount = 5000;
  const Array<std::uint64_t> array(node(), kCount);
  EXPECT_EQ(array.size(), kCount);
  EXPECT_EQ(array.begin_of(0), 0u);
  for (NodeId k = 0; k < count(); ++k) {
    EXPECT_EQ(array.begin_of(k) % 512, array.begin_of(k) == kCount ? kCount % 512 : 0u);
    EXPECT_EQ(array.end_of(k), k + 1 == count() ? kCount : array.begin_of(NodeId(k + 1)));
    for (std::uint64_t i = array.begin_of(k); i < array.end_of(k); i += 97) {
      EXPECT_EQ(array.owner_of(i), k);
      EXPECT_EQ(array.at(i).node(), k);
    }
  }
  EXPECT_EQ(array.local_begin(), array.begin_of(id()));
  for (std::uint64_t i = id(); i < kCount; i += count()) ASSERT_TRUE(array.set(i, i * 3).ok());
  meet();
  for (std::uint64_t i = 0; i < kCount; ++i) ASSERT_EQ(array.get(i).value(), i * 3);
  EXPECT_EQ(array.get(kCount).status().code(), Errc::kBadAddress);
  EXPECT_EQ(array.set(kCount, 1).code(), Errc::kBadAddress);
}

TEST_F(Arrays, InPartsOfTheProgramsOwn) {
  ArrayOptions options;
  for (NodeId k = 0; k < count(); ++k) options.first.push_back(k == 0 ? 0 : 100u + 10u * (k / 2));  // some are empty
  const Array<std::int32_t> array(node(), 1000, options);
  for (NodeId k = 0; k < count(); ++k) {
    EXPECT_EQ(array.begin_of(k), options.first[k]);
    for (std::uint64_t i = array.begin_of(k); i < array.end_of(k); ++i) ASSERT_EQ(array.owner_of(i), k) << i;
  }
  if (id() == NodeId(count() - 1)) {
    std::vector<std::int32_t> values(1000);
    std::iota(values.begin(), values.end(), -500);
    ASSERT_TRUE(array.write(0, values).ok());  // over the parts of all nodes
  }
  meet();
  std::vector<std::int32_t> found(700);
  ASSERT_TRUE(array.read(50, found).ok());
  for (int i = 0; i < 700; ++i) ASSERT_EQ(found[std::size_t(i)], i - 450);
  EXPECT_EQ(array.read(301, found).code(), Errc::kBadAddress);
}

/// What the nodes do not agree on, or one of them has no memory for, fails on all of them; and the next array is made.
TEST_F(Arrays, FailTogether) {
  const auto fails = [&](std::uint64_t elements, const ArrayOptions& options) {
    try {
      const Array<std::uint64_t> array(node(), elements, options);
    } catch (const Error& error) {
      return error.code();
    }
    return Errc::kOk;
  };
  EXPECT_EQ(fails(0, {}), Errc::kInvalidArgument);
  EXPECT_EQ(fails(1ull << 40, {}), Errc::kOutOfMemory);
  EXPECT_EQ(fails(100, {.chunk = 0}), Errc::kInvalidArgument);
  EXPECT_EQ(fails(100, {.first = {1}}), Errc::kInvalidArgument);
  if (count() > 1) {
    EXPECT_EQ(fails(id() == 0 ? 100 : 101, {}), Errc::kInvalidArgument);
    EXPECT_EQ(fails(id() == 0 ? 0 : 100, {}), Errc::kInvalidArgument);
  }
  if (count() == 3) {  // what only the last node sees
    EXPECT_EQ(fails(4096, {.first = {0, id() == 2 ? 512u : 1024u, 2048}}), Errc::kInvalidArgument);
  }
  const std::uint64_t before = node().stats().memory_free_bytes;
  meet();
  {
    const Array<std::uint64_t> array(node(), 10'000);
    EXPECT_LT(node().stats().memory_free_bytes, before);
  }
  EXPECT_EQ(node().stats().memory_free_bytes, before);
}

template <std::size_t Bytes>
struct Blob {
  std::array<std::uint8_t, Bytes> bytes{};
  friend bool operator==(const Blob&, const Blob&) = default;
};
template <std::size_t Bytes>
Blob<Bytes> blob(std::uint64_t seed) {
  Blob<Bytes> made;
  for (std::size_t i = 0; i < Bytes; ++i) made.bytes[i] = std::uint8_t(seed * 31 + i);
  return made;
}

template <typename Element>
class ArraysOf : public Together {};
using Elements = testing::Types<Blob<1>, Blob<3>, Blob<8>, Blob<24>, Blob<100>, Blob<513>, Blob<4096>>;
TYPED_TEST_SUITE(ArraysOf, Elements);

TYPED_TEST(ArraysOf, ElementsOfAnySize) {
  constexpr std::size_t kBytes = sizeof(TypeParam);
  const std::uint64_t elements = 40 + 3000 / kBytes;
  Node& node = this->node();
  const Array<TypeParam> array(node, elements, {.chunk = 8});
  const NodeId id = this->id(), count = this->count();
  for (std::uint64_t i = id; i < elements; i += count) ASSERT_TRUE(array.set(i, blob<kBytes>(i)).ok());
  this->meet();
  for (std::uint64_t i = 0; i < elements; ++i) {
    ASSERT_EQ(array.get(i).value(), blob<kBytes>(i)) << i;
    const std::uint64_t line = std::bit_ceil(array.chunk() * kBytes);
    if (kBytes <= node.largest_line_bytes()) {
      ASSERT_EQ(array.at(i).address().offset() / line, (array.at(i).address().offset() + kBytes - 1) / line);
    }
  }
  std::vector<TypeParam> all(elements);
  ASSERT_TRUE(array.read(0, all).ok());
  for (std::uint64_t i = 0; i < elements; ++i) ASSERT_EQ(all[i], blob<kBytes>(i));
  ASSERT_TRUE(array.prefetch(0, elements).ok());
}

TEST_F(Arrays, ThePartOfANodeByItsThreads) {
  const Array<std::uint64_t> array(node(), 4000);
  array.parallel_for(3, [&](std::uint64_t i) { array.set(i, i + 1).or_throw(); });
  meet();
  std::uint64_t seen = 0;
  array.for_each_local([&](std::uint64_t i, auto element) { seen += element == i + 1 ? 1 : 0; });
  EXPECT_EQ(seen, array.local_end() - array.local_begin());
  for (std::uint64_t i = 0; i < 4000; ++i) ASSERT_EQ(array.get(i).value(), i + 1);
  EXPECT_THROW(array.parallel_for(2, [](std::uint64_t) { throw Error("no"); }), Error);
  meet();
  ASSERT_TRUE(array.fill(7).ok());
  EXPECT_EQ(array.get(3999).value(), 7u);
}

TEST_F(Arrays, WithTheStandardsAlgorithms) {
  const Array<std::int64_t> array(node(), 600, {.chunk = 16});
  if (id() == 0) {
    base::Random random(5);
    for (std::uint64_t i = 0; i < array.size(); ++i) array[i] = std::int64_t(random.below(1000));
    const std::int64_t sum = std::accumulate(array.begin(), array.end(), std::int64_t{0});
    std::sort(array.begin(), array.end());
    EXPECT_TRUE(std::is_sorted(array.begin(), array.end()));
    EXPECT_EQ(std::accumulate(array.begin(), array.end(), std::int64_t{0}), sum);
    std::reverse(array.begin(), array.end());
    EXPECT_TRUE(std::is_sorted(array.begin(), array.end(), std::greater<>()));
    const std::int64_t largest = array[0];
    EXPECT_EQ(*std::max_element(array.begin(), array.end()), largest);
    array[0] += 5;
    array[1] = array[0];
    EXPECT_EQ(array[1], largest + 5);
    EXPECT_EQ(std::find(array.begin(), array.end(), largest + 5) - array.begin(), 0);
  }
  meet();
}

TEST_F(Arrays, AreCombinedByOperators) {
  const Array<double> sums(node(), 1000);
  for (std::uint64_t i = 0; i < 20'000; ++i) ASSERT_TRUE(sums.apply(i * i % 1000, op::add<double>, 0.5).ok());
  meet();
  double total = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) total += sums.get(i).value();
  EXPECT_EQ(total, 10'000.0 * count());
  EXPECT_EQ(sums.apply(1000, op::add<double>, 1).code(), Errc::kBadAddress);
}

/// A set has taken effect when it returns, without a fence: who was told afterwards sees it.
TEST_F(Arrays, ASetHasTakenEffectWhenItReturns) {
  ATOLL_NEEDS_NODES(2);
  const Array<std::uint64_t> data(node(), 64, {.chunk = 1}), flag(node(), 1);
  int stale = 0;
  for (std::uint64_t round = 1; id() == 0 && round <= 100; ++round) {
    for (std::uint64_t i = 0; i < data.size(); i += 7) ASSERT_TRUE(data.set(i, round).ok());
    ASSERT_TRUE(flag.set(0, round).ok());
  }
  for (std::uint64_t seen = 0; id() != 0 && seen < 100;) {
    seen = flag.get(0).value();
    for (std::uint64_t i = 0; i < data.size(); i += 7) stale += data.get(i).value() < seen ? 1 : 0;
    std::this_thread::yield();
  }
  meet();
  EXPECT_EQ(stale, 0);
}

TEST_F(Arrays, HaveChunksOfTheirOwn) {
  const auto chunk_of = [&](std::uint32_t chunk) {
    return Array<std::uint64_t>(node(), 10'000, {.chunk = chunk}).chunk();
  };
  const std::uint64_t least = node().line_bytes() / 8, most = node().largest_line_bytes() / 8;
  EXPECT_EQ(chunk_of(512), std::min<std::uint64_t>(512, most));
  EXPECT_EQ(chunk_of(1), least);
  EXPECT_EQ(chunk_of(300), std::min<std::uint64_t>(512, most));  // a power of two of bytes
  EXPECT_EQ(chunk_of(1 << 30), most);
  struct Odd {
    std::uint32_t words[3];
  };
  const Array<Odd> odd(node(), 3000, {.chunk = 100});
  EXPECT_EQ(odd.chunk(), std::clamp<std::uint64_t>(2048, least * 8, most * 8) / 12);
  for (std::uint64_t i = id(); i < odd.size(); i += count()) {
    ASSERT_TRUE(odd.set(i, {{std::uint32_t(i), std::uint32_t(i + 1), std::uint32_t(i + 2)}}).ok());
  }
  meet();
  for (std::uint64_t i = 0; i < odd.size(); ++i) {
    const Odd found = odd.get(i).value();
    ASSERT_EQ(found.words[0], i);
    ASSERT_EQ(found.words[2], i + 2);
  }
}

/// The memory of arrays with other chunks, and of the heap, is used again and again.
TEST_F(Arrays, OfOtherChunksUseTheSameMemory) {
  const std::uint64_t before = node().stats().memory_free_bytes;
  meet();
  for (const std::uint32_t chunk : {512u, 64u, 2048u, 512u, 128u}) {
    const Array<std::uint64_t> array(node(), 100'000, {.chunk = chunk});
    for (std::uint64_t i = id(); i < array.size(); i += 101) ASSERT_EQ(array.get(i).value(), 0u);
    meet();
    for (std::uint64_t i = id(); i < array.size(); i += count()) ASSERT_TRUE(array.set(i, i + chunk).ok());
    meet();
    for (std::uint64_t i = id(); i < array.size(); i += 7) ASSERT_EQ(array.get(i).value(), i + chunk);
  }
  meet();
  EXPECT_EQ(node().stats().memory_free_bytes, before);
}

TEST_F(Arrays, ReadsOfOneThreadSeeWhatOthersWrite) {
  const Array<std::uint64_t> array(node(), 2048, {.chunk = 64});
  for (std::uint64_t round = 1; round <= 20; ++round) {
    // All have read the whole array, and remember where it was.
    for (std::uint64_t i = 0; i < array.size(); ++i) ASSERT_EQ(array.get(i).value(), round == 1 ? 0 : i + round - 1);
    meet();
    for (std::uint64_t i = id(); i < array.size(); i += count()) ASSERT_TRUE(array.set(i, i + round).ok());
    ASSERT_EQ(array.get(id()).value(), id() + round) << "its own";
    meet();
  }
}

/// Two arrays, of which the second is made where the first was.
TEST_F(Arrays, AreNotMistakenForThoseThatWereThere) {
  for (std::uint64_t round = 0; round < 10; ++round) {
    const Array<std::uint64_t> array(node(), 512u * count());
    for (std::uint64_t i = 0; i < array.size(); ++i) ASSERT_EQ(array.get(i).value(), 0u);
    meet();
    for (std::uint64_t i = array.local_begin(); i < array.local_end(); ++i) ASSERT_TRUE(array.set(i, round + 1).ok());
    meet();
    ASSERT_EQ(array.get(0).value(), round + 1);
  }
}

class Pins : public Together {};

TEST_F(Pins, AreSpansOverChunks) {
  const Array<std::uint64_t> array(node(), 3000);
  for (std::uint64_t i = array.local_begin(); i < array.local_end();) {
    auto pin = array.pin_write(i);
    ASSERT_TRUE(pin.ok()) << pin.status().to_string();
    EXPECT_EQ(pin.first(), i);
    std::iota(pin.span().begin(), pin.span().end(), i);
    i = pin.end();
  }
  meet();
  std::uint64_t sum = 0;
  ASSERT_TRUE(array
                  .read_chunks(10, 2900,
                               [&](std::uint64_t first, std::span<const std::uint64_t> span) {
                                 EXPECT_EQ(span.front(), first);
                                 sum = std::accumulate(span.begin(), span.end(), sum);
                               })
                  .ok());
  EXPECT_EQ(sum, 2900u * 10 + 2900ull * 2899 / 2);
  const auto here = array.pin_read(700);
  EXPECT_LE(here.first(), 700u);
  EXPECT_GT(here.end(), 700u);
  EXPECT_EQ(here.span()[700 - here.first()], 700u);
  meet();  // all nodes have pinned the same chunk: who reads does not keep others from reading
  EXPECT_EQ(array.pin_read(3000).status().code(), Errc::kBadAddress);
  EXPECT_TRUE(array.pin_write(3000).span().empty());
}

/// All nodes change one chunk, each alone with it while it does.
TEST_F(Pins, ForWritingExcludeOthers) {
  const Array<std::uint64_t> array(node(), 512);
  for (int round = 0; round < 50; ++round) {
    const auto pin = array.pin_write(0);
    ASSERT_TRUE(pin.ok());
    for (std::uint64_t& element : pin.span()) ++element;
  }
  meet();
  for (std::uint64_t i = 0; i < array.chunk(); i += 7) EXPECT_EQ(array.get(i).value(), 50u * count());
}

TEST_F(Pins, GatherOperands) {
  const Array<double> array(node(), 2000);
  ASSERT_TRUE(array
                  .operate_chunks(0, 2000, op::add<double>,
                                  [&](std::uint64_t first, std::span<double> operands) {
                                    for (std::size_t k = 0; k < operands.size(); ++k) operands[k] += double(first + k);
                                  })
                  .ok());
  {
    auto pin = array.pin_operate(3, op::add<double>);
    ASSERT_TRUE(pin.ok());
    pin.span()[3 - pin.first()] += 0.5;
  }
  meet();
  for (std::uint64_t i = 0; i < 2000; ++i) {
    ASSERT_EQ(array.get(i).value(), count() * (double(i) + (i == 3 ? 0.5 : 0))) << i;
  }
  const auto least = node().register_op<std::int64_t>("least", INT64_MAX,
                                                      [](std::int64_t a, std::int64_t b) { return std::min(a, b); });
  ASSERT_TRUE(least.ok());
  const Array<std::int64_t> marks(node(), 100);
  ASSERT_TRUE(marks
                  .operate_chunks(0, 100, *least,
                                  [&](std::uint64_t first, std::span<std::int64_t> operands) {
                                    for (std::size_t k = 0; k < operands.size(); ++k)
                                      operands[k] = std::min(operands[k], -std::int64_t(first + k) * (id() + 1));
                                  })
                  .ok());
  meet();
  for (std::uint64_t i = 0; i < 100; ++i) ASSERT_EQ(marks.get(i).value(), -std::int64_t(i) * count());
}

/// More pins than the cache has room for: an error, and all goes on when some end.
TEST_F(Pins, TooManyAreRefused) {
  if (count() == 1) GTEST_SKIP() << "a node's own chunks need no cache";
  const std::uint64_t line = node().largest_line_bytes();
  const std::uint64_t room = node().stats().cache_lines * node().line_bytes() / line;
  const std::uint64_t each = line / 8;
  ArrayOptions options{.chunk = std::uint32_t(each)};
  for (NodeId k = 0; k < count(); ++k) options.first.push_back(k == 0 ? 0 : (room + 8) * each);  // all on node 0
  const Array<std::uint64_t> array(node(), (room + 8) * each, options);
  meet();
  if (id() == 1) {
    std::vector<Pin<const std::uint64_t>> pins;
    Status status;
    for (std::uint64_t i = 0; i < array.size() && status.ok(); i += each) {
      pins.push_back(array.pin_read(i));
      status = pins.back().status();
    }
    EXPECT_EQ(status.code(), Errc::kCacheFull) << status.to_string() << " after " << pins.size() << " of " << room;
    EXPECT_LE(pins.size(), room + 1);
    pins.clear();
    EXPECT_TRUE(array.pin_read(array.size() - 1).ok());
  }
  meet();
}

}  // namespace
}  // namespace atoll::test
