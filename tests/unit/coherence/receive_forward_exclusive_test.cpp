// Receive ForwardExclusive / Expect what the table says.
#include "unit/coherence/fake_env.hpp"

namespace atoll::coherence {
namespace {

class ReceiveForwardExclusive : public CacheTest {};

TEST_F(ReceiveForwardExclusive, DirtyExpectTheLineGoesAndTransfer) {
  become_dirty();
  receive(Kind::kForwardExclusive, 0, {.requester = 2});
  EXPECT_THAT(env.did, ElementsAre("quiesce", "OwnerData to 2 with data for slot 3", "Transfer to 0"));
  EXPECT_EQ(state(), CacheState::kInvalid);
}

TEST_F(ReceiveForwardExclusive, ForTheHomeExpectTransferWithData) {
  become_dirty();
  receive(Kind::kForwardExclusive, 0, {.requester = 0});
  EXPECT_THAT(env.did, ElementsAre("quiesce", "Transfer to 0 with data"));
}

TEST_F(ReceiveForwardExclusive, LockedExpectItWaitsAndALaterLockBehindIt) {
  TestOp lock(OpKind::kWriteLock);
  submit(lock);
  receive(Kind::kData, 0);
  receive(Kind::kForwardExclusive, 0, {.requester = 2});
  TestOp later(OpKind::kWriteLock);
  submit(later);
  unlock(true);
  EXPECT_THAT(env.did,
              ElementsAre("quiesce", "OwnerData to 2 with data for slot 3", "Transfer to 0", "GetExclusive to 0"));
  EXPECT_FALSE(later.done());
}

TEST_F(ReceiveForwardExclusive, TryOnLockedExpectOwnerRefused) {
  become_dirty();
  ASSERT_TRUE(take_lock(line.lock, false));
  receive(Kind::kForwardExclusive, 0, {.is_try = true, .requester = 2});
  EXPECT_THAT(env.did, ElementsAre("OwnerRefused (try) to 0"));
  EXPECT_EQ(state(), CacheState::kDirty);
}

TEST_F(ReceiveForwardExclusive, BeforeTheDataExpectItIsUsedOnceFirst) {
  ask_exclusive();
  receive(Kind::kGrant, 0);
  receive(Kind::kForwardExclusive, 0, {.requester = 3});
  EXPECT_THAT(env.did, IsEmpty());
  receive(Kind::kOwnerData, 2, {.requester = 1});
  EXPECT_TRUE(write.done());
  EXPECT_THAT(env.did, ElementsAre("quiesce", "OwnerData to 3 with data for slot 3", "Transfer to 0"));
}

TEST_F(ReceiveForwardExclusive, CrossingOurReturnExpectTheCopyStillAnswers) {
  become_dirty();
  ASSERT_TRUE(protocol.evict(ref));
  receive(Kind::kForwardExclusive, 0, {.requester = 2});
  EXPECT_THAT(env.did, ElementsAre("OwnerData to 2 with data for slot 3", "Transfer to 0"));
  EXPECT_EQ(state(), CacheState::kLeftToInvalid);
}

TEST_F(ReceiveForwardExclusive, SharedExpectFault) {
  become_shared();
  expect_fault(Kind::kForwardExclusive, 0);
}

}  // namespace
}  // namespace atoll::coherence
