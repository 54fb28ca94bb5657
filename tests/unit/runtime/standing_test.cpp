// A node that does not know whether it is still in waits; one that is out says so, and nothing of it gets out.
#include <gtest/gtest.h>

#include <array>
#include <future>

#include "support/local_cluster.hpp"

namespace atoll::test {
namespace {

using namespace std::chrono_literals;
using cluster::Standing;
using Word = std::uint64_t;

template <typename Future>
bool waits(const Future& future) {
  return future.wait_for(50ms) == std::future_status::timeout;
}

TEST(Standing, CopiesOfASuspendedNodeAreNotReadUntilItMayActAgain) {
  LocalCluster cluster(2);
  const auto word = cluster[0].allocate<Word>(1, Placement::on(1)).value();
  ASSERT_TRUE(cluster[1].write(word, 1).ok());
  ASSERT_EQ(cluster[0].read(word).value(), 1u);  // a copy is here
  ASSERT_EQ(cluster[0].read(word).value(), 1u);
  cluster.hub().set_standing(0, Standing::kSuspended);
  auto read = std::async(std::launch::async, [&] { return cluster[0].read(word).value(); });
  EXPECT_TRUE(waits(read));
  // Nor does it answer: who wants to write the word waits for its copy.
  auto wrote = std::async(std::launch::async, [&] { return cluster[1].fetch_add(word, 1).value(); });
  EXPECT_TRUE(waits(wrote));
  cluster.hub().set_standing(0, Standing::kActive);
  EXPECT_EQ(wrote.get(), 1u);
  const Word seen = read.get();
  EXPECT_TRUE(seen == 1 || seen == 2);
  EXPECT_EQ(cluster[0].read(word).value(), 2u);
}

TEST(Standing, EveryCallOfASuspendedNodeWaits) {
  LocalCluster cluster(2);
  const auto here = cluster[0].allocate<Word>(64, Placement::local()).value();
  const auto there = cluster[0].allocate<Word>(64, Placement::on(1)).value();
  const auto locked = cluster[0].allocate(512, Placement::on(1)).value();
  ASSERT_TRUE(cluster[0].write_lock(locked, 512).ok());
  ASSERT_TRUE(cluster[0].read(here).ok());
  cluster.hub().set_standing(0, Standing::kSuspended);
  std::vector<std::future<Status>> calls;
  const auto call = [&](std::function<Status(Node&)> what) {
    calls.push_back(std::async(std::launch::async, [&cluster, what] { return what(cluster[0]); }));
  };
  call([&](Node& node) { return node.read(there + 8).status(); });
  call([&](Node& node) { return node.write(there + 9, 1, Consistency::kSc); });
  call([&](Node& node) { return node.fetch_add(there + 10, 1).status(); });
  call([&](Node& node) {
    const Status status = node.write_lock(there.address() + 400, 1);
    return status.ok() ? node.unlock(there.address() + 400, 1) : status;
  });
  call([&](Node& node) {
    const Status status = node.write_lock_element(there.address() + 80);
    return status.ok() ? node.unlock_element(there.address() + 80) : status;
  });
  call([&](Node& node) { return node.allocate(8, Placement::on(1)).status(); });
  const std::array<std::byte, 8> bytes{};
  call([&](Node& node) { return node.write_if(there + 3, 0, 1, there.address(), bytes).status(); });
  for (const auto& each : calls) EXPECT_TRUE(waits(each));
  EXPECT_TRUE(cluster[0].read(here).ok());  // its own memory, which nobody else can have meanwhile
  cluster.hub().set_standing(0, Standing::kActive);
  for (std::size_t k = 0; k < calls.size(); ++k) {
    const Status status = calls[k].get();
    EXPECT_TRUE(status.ok()) << k << ": " << status.to_string();
  }
  EXPECT_TRUE(cluster[0].unlock(locked, 512).ok());
}

TEST(Standing, AFencedNodeTouchesNothingAndSaysWhy) {
  LocalCluster cluster(2);
  Node& node = cluster[0];
  const auto here = node.allocate<Word>(64, Placement::local()).value();
  const auto there = node.allocate<Word>(64, Placement::on(1)).value();
  ASSERT_TRUE(node.write(there, 7, Consistency::kSc).ok());
  const auto locked = cluster[1].allocate(512, Placement::local()).value();
  ASSERT_TRUE(cluster[1].write_lock(locked, 512).ok());
  auto waiting = std::async(std::launch::async, [&] { return node.write_lock(locked, 512); });
  EXPECT_TRUE(waits(waiting));
  cluster.hub().set_standing(0, Standing::kFenced);
  EXPECT_EQ(waiting.get().code(), Errc::kFenced);
  EXPECT_EQ(node.read(there).status().code(), Errc::kFenced);
  EXPECT_EQ(node.read(here).status().code(), Errc::kFenced);
  EXPECT_EQ(node.write(there, 8).code(), Errc::kFenced);
  EXPECT_EQ(node.write(here, 8).code(), Errc::kFenced);
  EXPECT_EQ(node.fetch_add(there, 1).status().code(), Errc::kFenced);
  EXPECT_EQ(node.write_lock(there.address(), 8).code(), Errc::kFenced);
  EXPECT_EQ(node.write_lock_element(there.address()).code(), Errc::kFenced);
  EXPECT_EQ(node.allocate(8, Placement::on(1)).status().code(), Errc::kFenced);
  EXPECT_EQ(node.allocate(8, Placement::local()).status().code(), Errc::kFenced);
  EXPECT_EQ(node.write_lock_element(here.address()).code(), Errc::kFenced);
  EXPECT_EQ(node.free(here.address()).code(), Errc::kFenced);
  EXPECT_EQ(node.barrier(10s).code(), Errc::kFenced);
  EXPECT_EQ(node.free(there.address()).code(), Errc::kFenced);
  cluster.hub().kill(0);  // the other learns of it
  EXPECT_TRUE(cluster[1].unlock(locked, 512).ok());
}

}  // namespace
}  // namespace atoll::test
