// Tests that all nodes of a cluster run together: each node is a process that runs the same tests in the same order.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>

#include "atoll/atoll.hpp"

namespace atoll::test {

/// This process's membership, made by main.
extern Node* g_node;

/// A test of all nodes. They begin together and end together; `meet` is a barrier in between.
///
/// A node whose test fails fatally exits at once (see main), so that the others get an error instead of waiting.
class Together : public testing::Test {
 protected:
  void SetUp() override { meet(); }
  void TearDown() override { meet(); }

  static Node& node() { return *g_node; }
  static NodeId id() { return g_node->id(); }
  static NodeId count() { return g_node->count(); }
  /// The node after this one; this one itself when it is alone.
  static NodeId next() { return NodeId((id() + 1) % count()); }

  static void meet() {
    const Status status = g_node->barrier(std::chrono::minutes(2));
    ASSERT_TRUE(status.ok()) << status.to_string();
  }
  /// An address that `make` allocates on one node, known to all.
  static GlobalAddress shared(NodeId maker, const std::function<GlobalAddress()>& make) {
    const testing::TestInfo& info = *testing::UnitTest::GetInstance()->current_test_info();
    static int made = 0;
    const std::string name = std::string(info.name()) + " " + std::to_string(made++);
    if (id() == maker) g_node->publish(name, make()).or_throw();
    return g_node->lookup(name, std::chrono::minutes(2)).value();
  }
  /// `bytes` on the node `home`, known to all.
  static GlobalAddress shared_bytes(std::uint64_t bytes, NodeId home = 0) {
    return shared(home, [&] { return g_node->allocate(bytes, Placement::local()).value(); });
  }
  template <Shareable T>
  static global_ptr<T> shared_objects(std::uint64_t number = 1, NodeId home = 0) {
    return global_ptr<T>(shared_bytes(number * sizeof(T), home));
  }
};

#define ATOLL_NEEDS_NODES(n) \
  if (count() < (n)) GTEST_SKIP() << "needs " << (n) << " nodes"

}  // namespace atoll::test
