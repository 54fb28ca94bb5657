// Receive Invalidate / Expect what the table says.
#include "unit/coherence/fake_env.hpp"

namespace atoll::coherence {
namespace {

class ReceiveInvalidate : public CacheTest {};

TEST_F(ReceiveInvalidate, SharedExpectAckAfterQuiesce) {
  become_shared();
  receive(Kind::kInvalidate, 0, {.requester = 2});
  EXPECT_THAT(env.did, ElementsAre("quiesce", "InvalidateAck to 0"));
  EXPECT_EQ(state(), CacheState::kInvalid);
  EXPECT_EQ(line.slot, 0U);
}

TEST_F(ReceiveInvalidate, InvalidExpectAck) {
  receive(Kind::kInvalidate, 0, {.requester = 2});
  EXPECT_THAT(env.did, ElementsAre("InvalidateAck to 0"));
}

TEST_F(ReceiveInvalidate, ReadLockedExpectAckAfterUnlock) {
  TestOp lock(OpKind::kReadLock);
  submit(lock);
  receive(Kind::kData, 0);
  ASSERT_TRUE(lock.done());
  receive(Kind::kInvalidate, 0, {.requester = 2});
  EXPECT_THAT(env.did, IsEmpty());
  unlock(false);
  EXPECT_THAT(env.did, ElementsAre("quiesce", "InvalidateAck to 0"));
}

/// No home does that: it waits for the answer. One that does it all the same must not get two messages held.
TEST_F(ReceiveInvalidate, AgainWhileALockHoldsTheFirstExpectFault) {
  TestOp lock(OpKind::kReadLock);
  submit(lock);
  receive(Kind::kData, 0);
  receive(Kind::kInvalidate, 0, {.requester = 2});
  expect_fault(Kind::kInvalidate, 0);
  unlock(false);
  EXPECT_THAT(env.did, ElementsAre("quiesce", "InvalidateAck to 0"));
}

TEST_F(ReceiveInvalidate, TryOnReadLockedExpectRefusal) {
  TestOp lock(OpKind::kReadLock);
  submit(lock);
  receive(Kind::kData, 0);
  receive(Kind::kInvalidate, 0, {.is_try = true, .requester = 2});
  EXPECT_THAT(env.did, ElementsAre("InvalidateRefused (try) to 0"));
  EXPECT_EQ(state(), CacheState::kShared);
}

TEST_F(ReceiveInvalidate, UpgradingExpectAckAndTheUpgradeGoesOnWithoutACopy) {
  become_shared();
  submit(write);
  receive(Kind::kInvalidate, 0, {.requester = 2});
  EXPECT_THAT(env.did, ElementsAre("quiesce", "InvalidateAck to 0"));
  EXPECT_EQ(state(), CacheState::kInvalidToDirty);
  EXPECT_FALSE(write.done());
}

TEST_F(ReceiveInvalidate, UpgradingUnderAnothersReadLockExpectTheHoldersReadGoesAhead) {
  TestOp lock(OpKind::kReadLock);
  submit(lock);
  receive(Kind::kData, 0);
  submit(write);  // another thread of this node
  receive(Kind::kInvalidate, 0, {.requester = 2});
  EXPECT_THAT(env.did, IsEmpty());
  TestOp held(OpKind::kRead);
  held.under_lock = true;
  submit(held);
  EXPECT_TRUE(held.done()) << "or it would wait for its own unlock";
  unlock(false);
  EXPECT_THAT(env.did, ElementsAre("quiesce", "InvalidateAck to 0"));
}

TEST_F(ReceiveInvalidate, BeforeTheOwnersDataExpectItIsUsedOnceFirst) {
  ask_shared();
  receive(Kind::kGrant, 0);
  receive(Kind::kInvalidate, 0, {.requester = 3});
  EXPECT_THAT(env.did, IsEmpty());
  receive(Kind::kOwnerData, 2, {.requester = 1});
  EXPECT_TRUE(read.done());
  EXPECT_THAT(env.did, ElementsAre("quiesce", "InvalidateAck to 0"));
}

TEST_F(ReceiveInvalidate, DirtyExpectFault) {
  become_dirty();
  expect_fault(Kind::kInvalidate, 0);
}

}  // namespace
}  // namespace atoll::coherence
