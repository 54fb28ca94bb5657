// Small writes of lines that are not here, done by their home.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>

#include "base/random.hpp"
#include "support/local_cluster.hpp"
#include "wire/kinds.hpp"

namespace atoll {
namespace {

using test::LocalCluster;
using wire::Kind;

class AtHome : public testing::Test {
 protected:
  static constexpr std::int64_t kLine = 64;  // words

  LocalCluster cluster{3};
  Node& writer = cluster[0];
  Node& home = cluster[1];
  Node& other = cluster[2];
  global_ptr<std::uint64_t> words = home.allocate<std::uint64_t>(64 * kLine).value();

  /// In a thread that has never been another node's: see "Several nodes in one process" in docs/memory-model.md.
  template <typename F>
  static void in_thread(F f) {
    std::thread(f).join();
  }
  void write(std::int64_t index, std::uint64_t value, Consistency consistency = Consistency::kPso) {
    in_thread([&] {
      ASSERT_TRUE(writer.write(words + index, value, consistency).ok());
      ASSERT_TRUE(writer.fence().ok());
    });
  }
  [[nodiscard]] static std::uint64_t read(Node& node, global_ptr<std::uint64_t> at) {
    std::uint64_t value = 0;
    in_thread([&] { value = node.read(at).value(); });
    return value;
  }
  [[nodiscard]] std::uint64_t sent(Kind kind) { return writer.stats().sent_by_kind[std::size_t(kind)]; }
};

TEST_F(AtHome, ASmallWriteIsDoneThereAndTheLineStays) {
  write(0, 7);
  EXPECT_EQ(sent(Kind::kWriteHome), 1u);
  EXPECT_EQ(sent(Kind::kGetExclusive), 0u);
  EXPECT_EQ(read(home, words), 7u);
  EXPECT_EQ(read(other, words), 7u);
  EXPECT_EQ(read(writer, words), 7u);
}

TEST_F(AtHome, EverySizeThatFitsAndNoOther) {
  std::array<std::byte, 64> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::byte(i + 1);
  for (const std::size_t size : {1u, 2u, 3u, 8u, 13u, 31u, 32u, 33u, 64u}) {
    const GlobalAddress at = words.address() + std::int64_t(size) * 512 + 5;
    const std::uint64_t before = sent(Kind::kWriteHome);
    in_thread([&] {
      ASSERT_TRUE(writer.write(at, std::span(bytes).first(size)).ok());
      ASSERT_TRUE(writer.fence().ok());
    });
    EXPECT_EQ(sent(Kind::kWriteHome) - before, size <= 32 ? 1u : 0u) << size;
    std::array<std::byte, 66> found{};
    in_thread([&] { ASSERT_TRUE(home.read(at + -1, std::span(found).first(size + 2)).ok()); });
    EXPECT_EQ(found[0], std::byte{0}) << size;
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.begin() + std::ptrdiff_t(size), found.begin() + 1)) << size;
    EXPECT_EQ(found[size + 1], std::byte{0}) << size;
  }
}

TEST_F(AtHome, ALineThatIsWrittenAgainAndAgainIsFetched) {
  for (std::uint64_t i = 0; i < 10; ++i) write(std::int64_t(i), i);
  EXPECT_EQ(sent(Kind::kWriteHome), 4u);
  EXPECT_EQ(sent(Kind::kGetExclusive), 1u);
  for (std::int64_t i = 0; i < 10; ++i) EXPECT_EQ(read(home, words + i), std::uint64_t(i));
}

TEST_F(AtHome, WhoWaitsForEachWriteFetchesTheLineSooner) {
  for (std::uint64_t i = 0; i < 10; ++i) write(std::int64_t(i), i, Consistency::kTso);
  EXPECT_EQ(sent(Kind::kWriteHome), 2u);
  EXPECT_EQ(sent(Kind::kGetExclusive), 1u);
}

TEST_F(AtHome, ALineThatItsHomeUsesAsWellStaysThere) {
  for (std::uint64_t i = 0; i < 20; ++i) {
    in_thread([&] { ASSERT_TRUE(home.write(words + 1, i).ok()); });
    write(0, i);
    EXPECT_EQ(read(home, words), i);
  }
  EXPECT_EQ(sent(Kind::kWriteHome), 20u);
  EXPECT_EQ(sent(Kind::kGetExclusive), 0u);
}

TEST_F(AtHome, WhoWritesOneLineAfterTheOtherFetchesThem) {
  in_thread([&] {
    for (std::int64_t i = 0; i < 10 * kLine; ++i) ASSERT_TRUE(writer.write(words + i, 1).ok());
    ASSERT_TRUE(writer.fence().ok());
  });
  EXPECT_LE(sent(Kind::kWriteHome), 1u);  // the first says nothing yet
  EXPECT_GE(sent(Kind::kGetExclusive), 2u);
}

TEST_F(AtHome, ALineThatOthersHaveIsAskedFor) {
  EXPECT_EQ(read(other, words), 0u);
  write(0, 3);
  EXPECT_EQ(sent(Kind::kWriteHome), 1u);  // refused
  EXPECT_EQ(sent(Kind::kGetExclusive), 1u);
  EXPECT_EQ(read(other, words), 3u);
  in_thread([&] { ASSERT_TRUE(other.fetch_add(words, 1).ok()); });
  write(0, 9);  // it was taken away before
  EXPECT_EQ(sent(Kind::kWriteHome), 1u);
  EXPECT_EQ(read(other, words), 9u);
}

TEST_F(AtHome, ALockOfTheHomeIsWaitedFor) {
  std::atomic<bool> locked{false}, unlock{false};
  std::thread holder([&] {
    ASSERT_TRUE(home.read_lock(words.address(), 8).ok());
    locked = true;
    while (!unlock) std::this_thread::yield();
    EXPECT_EQ(home.read(words).value(), 0u);
    ASSERT_TRUE(home.unlock(words.address(), 8).ok());
  });
  while (!locked) std::this_thread::yield();
  std::atomic<bool> written{false};
  std::thread thread([&] {
    ASSERT_TRUE(writer.write(words, 5).ok());
    unlock = true;
    ASSERT_TRUE(writer.fence().ok());
    written = true;
  });
  holder.join();
  thread.join();
  EXPECT_TRUE(written);
  EXPECT_EQ(read(home, words), 5u);
}

/// A home that took the line back has it for itself: the next write is done there.
TEST_F(AtHome, ALineThatItsHomeTookBackIsWrittenThereAgain) {
  in_thread([&] { ASSERT_TRUE(writer.fetch_add(words, 1).ok()); });  // fetched
  in_thread([&] { ASSERT_TRUE(home.write(words, 5, Consistency::kTso).ok()); });
  write(0, 6);
  EXPECT_EQ(sent(Kind::kWriteHome), 1u);
  EXPECT_EQ(read(home, words), 6u);
}

/// Whatever way writes and reads take, a thread sees what it wrote, and what it wrote last stays.
TEST(AtHomeAndInPlace, AThreadSeesItsOwnWrites) {
  for (const bool in_place : {false, true}) {
    Options options = LocalCluster::small_options();
    options.read_in_place = in_place;
    LocalCluster cluster(2, options);
    Node& writer = cluster[0];
    constexpr std::int64_t kLine = 64;
    const auto words = cluster[1].allocate<std::uint64_t>(64 * kLine).value();
    std::thread([&] {
      std::array<std::uint64_t, 64> last{};
      base::Random random(1);
      for (std::uint64_t i = 1; i <= 20'000; ++i) {
        const std::size_t line = random.below(last.size());
        const auto at = words + std::int64_t(line) * kLine;
        if (random.chance(0.4)) {
          ASSERT_TRUE(writer.write(at, i).ok());
          last[line] = i;
        } else {
          ASSERT_EQ(writer.read(at).value(), last[line]) << "line " << line << " in step " << i;
        }
      }
      ASSERT_TRUE(writer.fence().ok());
      for (std::size_t line = 0; line < last.size(); ++line) {
        ASSERT_EQ(writer.read(words + std::int64_t(line) * kLine).value(), last[line]);
      }
    }).join();
  }
}

}  // namespace
}  // namespace atoll
