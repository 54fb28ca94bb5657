// Receive OwnerData / Expect what the table says.
#include "unit/coherence/fake_env.hpp"

namespace atoll::coherence {
namespace {

class ReceiveOwnerData : public CacheTest {};

TEST_F(ReceiveOwnerData, ForAWriteExpectWaitingForTheHome) {
  ask_exclusive();
  receive(Kind::kOwnerData, 2, {.requester = 1});
  EXPECT_EQ(state(), CacheState::kInvalidToDirtyGrant);
  EXPECT_FALSE(write.done());
}

TEST_F(ReceiveOwnerData, ForReadsExpectThoseThatWaitDoneAndNoHitsYet) {
  ask_shared();
  receive(Kind::kOwnerData, 2, {.requester = 1});
  EXPECT_TRUE(read.done());
  EXPECT_EQ(state(), CacheState::kInvalidToSharedGrant);
  EXPECT_EQ(access(), 0);
}

TEST_F(ReceiveOwnerData, ForReadsBehindAWriteExpectTheyWait) {
  ask_shared();
  submit(write);
  TestOp later(OpKind::kRead);
  submit(later);
  receive(Kind::kOwnerData, 2, {.requester = 1});
  EXPECT_TRUE(read.done());
  EXPECT_FALSE(later.done()) << "it may be the writer's own";
}

TEST_F(ReceiveOwnerData, AfterTheGrantExpectComplete) {
  ask_shared();
  receive(Kind::kGrant, 0);
  receive(Kind::kOwnerData, 2, {.requester = 1});
  EXPECT_EQ(state(), CacheState::kShared);
  EXPECT_TRUE(read.done());
}

TEST_F(ReceiveOwnerData, UnaskedExpectFault) {
  expect_fault(Kind::kOwnerData, 2);
}

}  // namespace
}  // namespace atoll::coherence
