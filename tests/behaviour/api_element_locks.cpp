// Locks of single elements of an array, which know nothing of lines.
#include <thread>
#include <vector>

#include "behaviour/together.hpp"

namespace atoll::test {
namespace {

class ElementLocks : public Together {};

TEST_F(ElementLocks, OfOneLineAreHeldByAllNodesAtOnce) {
  const Array<std::uint64_t> array(node(), 512);  // all on node 0, eight or more of them in a line
  for (int round = 0; round < 20; ++round) {
    const ElementWriteGuard own(array, id());
    ASSERT_TRUE(own.status().ok()) << own.status().to_string();
    meet();  // all hold theirs
    ASSERT_TRUE(array.set(id(), array.get(id()).value() + 1).ok());
    if (count() > 1) {
      EXPECT_EQ(array.try_write_lock(next()).code(), Errc::kRefused);
      EXPECT_EQ(array.try_read_lock(next()).code(), Errc::kRefused);
    }
    (void)array.get(next()).value();  // a lock keeps nobody from the line
    meet();
  }
  meet();
  for (NodeId k = 0; k < count(); ++k) EXPECT_EQ(array.get(k).value(), 20u);
}

TEST_F(ElementLocks, CountExactly) {
  ArrayOptions options;
  options.writes = Consistency::kPso;  // the unlock makes it visible
  const Array<std::uint64_t> array(node(), 2048, options);
  const std::uint64_t counters[] = {0, 1, 1025};
  constexpr std::uint64_t kThreads = 3, kRounds = 120;
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < kRounds; ++i) {
        const std::uint64_t which = counters[(i + t + id()) % 3];
        const ElementWriteGuard guard(array, which);
        guard.status().or_throw();
        array.set(which, array.get(which).value() + 1).or_throw();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  meet();
  std::uint64_t sum = 0;
  for (const std::uint64_t which : counters) sum += array.get(which).value();
  EXPECT_EQ(sum, count() * kThreads * kRounds);
}

/// Elements that are larger than a word, and than a line: what is written under the lock is seen whole under it.
TEST_F(ElementLocks, CoverAnElementOfAnySize) {
  struct Large {
    std::uint64_t words[150];
  };
  const Array<Large> array(node(), 64);
  for (std::uint64_t i = 0; i < 30; ++i) {
    const std::uint64_t which = (i + id()) % 5;
    if (i % 3 == 0) {
      const ElementReadGuard guard(array, which);
      ASSERT_TRUE(guard.status().ok());
      const Large found = array.get(which).value();
      for (const std::uint64_t word : found.words) ASSERT_EQ(word, found.words[0]);
      continue;
    }
    const ElementWriteGuard guard(array, which);
    ASSERT_TRUE(guard.status().ok());
    Large value = array.get(which).value();
    for (std::uint64_t& word : value.words) ++word;
    ASSERT_TRUE(array.set(which, value).ok());
  }
  meet();
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < 5; ++i) sum += array.get(i).value().words[149];
  EXPECT_EQ(sum, 20u * count());
}

TEST_F(ElementLocks, AreSharedByReaders) {
  const Array<std::uint32_t> array(node(), 100);
  {
    const ElementReadGuard guard(array, 7);
    ASSERT_TRUE(guard.status().ok());
    meet();
    EXPECT_TRUE(array.try_read_lock(7).ok());  // a second one, and all others hold theirs
    EXPECT_TRUE(array.unlock(7).ok());
    meet();
  }
  meet();
  if (id() == 0) {
    EXPECT_TRUE(array.write_lock(7).ok());
    EXPECT_TRUE(array.unlock(7).ok());
  }
}

TEST_F(ElementLocks, SayWhatIsWrong) {
  const Array<std::uint32_t> array(node(), 100);
  EXPECT_EQ(array.read_lock(100).code(), Errc::kBadAddress);
  EXPECT_EQ(array.write_lock(100).code(), Errc::kBadAddress);
  EXPECT_EQ(array.try_read_lock(100).code(), Errc::kBadAddress);
  EXPECT_EQ(array.try_write_lock(100).code(), Errc::kBadAddress);
  EXPECT_EQ(array.unlock(100).code(), Errc::kBadAddress);
  EXPECT_EQ(ElementWriteGuard(array, 100).status().code(), Errc::kBadAddress);
  EXPECT_EQ(array.unlock(id()).code(), Errc::kNotHeld);
  ASSERT_TRUE(array.write_lock(id()).ok());
  EXPECT_EQ(array.write_lock(id()).code(), Errc::kWouldDeadlock);
  EXPECT_EQ(array.try_read_lock(id()).code(), Errc::kWouldDeadlock);
  ASSERT_TRUE(array.unlock(id()).ok());
  EXPECT_EQ(array.unlock(id()).code(), Errc::kNotHeld);
}

}  // namespace
}  // namespace atoll::test
