// Atomics of all widths, contended by all nodes, and registered functions.
#include <thread>
#include <vector>

#include "behaviour/together.hpp"

namespace atoll::test {
namespace {

class Atomics : public Together {};

template <typename T>
void contend(Node& node, global_ptr<T> counter, global_ptr<T> by_cas, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    ASSERT_TRUE(node.fetch_add(counter, 1).ok());
    T seen = node.read(by_cas).value();
    for (T found; (found = node.compare_exchange(by_cas, seen, T(seen + 1)).value()) != seen;) seen = found;
  }
}

TEST_F(Atomics, OfAllWidthsAddUp) {
  const GlobalAddress line = shared_bytes(512, NodeId(count() - 1));
  constexpr int kRounds = 300;
  contend(node(), global_ptr<std::uint8_t>(line), global_ptr<std::uint8_t>(line + 1), kRounds);
  contend(node(), global_ptr<std::uint16_t>(line + 2), global_ptr<std::uint16_t>(line + 4), kRounds);
  contend(node(), global_ptr<std::uint32_t>(line + 8), global_ptr<std::uint32_t>(line + 12), kRounds);
  contend(node(), global_ptr<std::uint64_t>(line + 16), global_ptr<std::uint64_t>(line + 24), kRounds);
  meet();
  const std::uint64_t all = std::uint64_t(kRounds) * count();
  EXPECT_EQ(node().read<std::uint8_t>(line).value(), std::uint8_t(all));
  EXPECT_EQ(node().read<std::uint8_t>(line + 1).value(), std::uint8_t(all));
  EXPECT_EQ(node().read<std::uint16_t>(line + 2).value(), all);
  EXPECT_EQ(node().read<std::uint16_t>(line + 4).value(), all);
  EXPECT_EQ(node().read<std::uint32_t>(line + 8).value(), all);
  EXPECT_EQ(node().read<std::uint32_t>(line + 12).value(), all);
  EXPECT_EQ(node().read<std::uint64_t>(line + 16).value(), all);
  EXPECT_EQ(node().read<std::uint64_t>(line + 24).value(), all);
}

TEST_F(Atomics, GiveWhatTheyFound) {
  const auto word = node().allocate<std::int32_t>(1, Placement::on(next())).value();
  EXPECT_EQ(node().fetch_add(word, -5).value(), 0);
  EXPECT_EQ(node().fetch_add(word, 3).value(), -5);
  EXPECT_EQ(node().exchange(word, 100).value(), -2);
  EXPECT_EQ(node().compare_exchange(word, 99, 7).value(), 100);  // not replaced
  EXPECT_EQ(node().compare_exchange(word, 100, 7).value(), 100);
  EXPECT_EQ(node().read(word).value(), 7);
  const auto real = node().allocate<double>(1, Placement::on(next())).value();
  EXPECT_EQ(node().exchange(real, 2.5).value(), 0.0);
  EXPECT_EQ(node().compare_exchange(real, 2.5, -1.0).value(), 2.5);
  EXPECT_EQ(node().read(real).value(), -1.0);
}

/// A token that exists once: whoever exchanges it out has it alone.
TEST_F(Atomics, ExchangeHandsATokenAround) {
  const auto place = shared_objects<std::uint64_t>();
  const auto uses = shared_objects<std::uint64_t>();
  if (id() == 0) {
    ASSERT_TRUE(node().write(place, 1).ok());
  }
  meet();
  for (int i = 0; i < 200;) {
    if (node().exchange(place, 0).value() == 0) {
      std::this_thread::yield();
      continue;
    }
    // Not an atomic increment: the token is the lock.
    ASSERT_TRUE(node().write(uses, node().read(uses).value() + 1).ok());
    ASSERT_TRUE(node().fence().ok());
    ASSERT_EQ(node().exchange(place, 1).value(), 0u);
    ++i;
  }
  meet();
  EXPECT_EQ(node().read(uses).value(), 200u * count());
}

TEST_F(Atomics, RegisteredFunctionsRunAlone) {
  struct Extremes {
    std::int64_t least, most, number;
  };
  const Status registered =
      node().register_atomic("extremes", [](std::span<std::byte> target, std::span<const std::byte> args) {
        auto& extremes = *reinterpret_cast<Extremes*>(target.data());
        std::int64_t value = 0;
        std::memcpy(&value, args.data(), sizeof(value));
        extremes.least = std::min(extremes.least, value);
        extremes.most = std::max(extremes.most, value);
        ++extremes.number;
      });
  ASSERT_TRUE(registered.ok());
  const auto extremes = shared_objects<Extremes>(1, NodeId(count() - 1));
  for (std::int64_t i = 1; i <= 100; ++i) {
    const std::int64_t value = (i % 2 == 0 ? i : -i) * (id() + 1);
    ASSERT_TRUE(
        node().atomic(extremes.address(), sizeof(Extremes), "extremes", std::as_bytes(std::span(&value, 1))).ok());
  }
  meet();
  const Extremes found = node().read(extremes).value();
  EXPECT_EQ(found.least, -99 * std::int64_t(count()));
  EXPECT_EQ(found.most, 100 * std::int64_t(count()));
  EXPECT_EQ(found.number, 100 * std::int64_t(count()));
}

TEST_F(Atomics, OfSeveralThreadsPerNode) {
  const auto counters = shared_objects<std::uint32_t>(4);
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 300; ++i) ASSERT_TRUE(node().fetch_add(counters + i % 4, 1).ok());
    });
  }
  for (auto& thread : threads) thread.join();
  meet();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(node().read(counters + i).value(), 225u * count());
}

}  // namespace
}  // namespace atoll::test
