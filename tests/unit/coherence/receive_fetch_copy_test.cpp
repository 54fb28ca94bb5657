// Receive FetchCopy / Expect what the table says: the home has dropped the line, and wants it again.
#include "unit/coherence/fake_env.hpp"

namespace atoll::coherence {
namespace {

class ReceiveFetchCopy : public CacheTest {};

TEST_F(ReceiveFetchCopy, SharedExpectACopyAndTheOwnOneKept) {
  become_shared();
  receive(Kind::kFetchCopy, 0);
  EXPECT_THAT(env.did, ElementsAre("Copy to 0 with data"));
  EXPECT_EQ(state(), CacheState::kShared);
  EXPECT_EQ(access(), detail::kReadable);
  EXPECT_NE(line.slot, 0U);
}

TEST_F(ReceiveFetchCopy, ReadLockedExpectACopyAllTheSame) {
  TestOp lock(OpKind::kReadLock);
  submit(lock);
  receive(Kind::kData, 0);
  ASSERT_TRUE(lock.done());
  receive(Kind::kFetchCopy, 0);
  EXPECT_THAT(env.did, ElementsAre("Copy to 0 with data"));
  EXPECT_EQ(state(), CacheState::kShared);
}

TEST_F(ReceiveFetchCopy, FetchedAheadAndNeverUsedExpectItGivenBack) {
  ASSERT_TRUE(protocol.read_ahead(ref));
  line.lives = Line::kFetchedAhead;
  receive(Kind::kData, 0);
  ASSERT_EQ(state(), CacheState::kShared);
  receive(Kind::kFetchCopy, 0);
  EXPECT_THAT(env.did, ElementsAre("Copy to 0 with data", "PutShared to 0"));
  EXPECT_EQ(state(), CacheState::kInvalid);
  EXPECT_EQ(line.slot, 0U);
}

TEST_F(ReceiveFetchCopy, FetchedAheadAndUsedExpectItKept) {
  ASSERT_TRUE(protocol.read_ahead(ref));
  line.lives = Line::kFetchedAhead;
  receive(Kind::kData, 0);
  submit(read);
  ASSERT_TRUE(read.done());
  receive(Kind::kFetchCopy, 0);
  EXPECT_THAT(env.did, ElementsAre("Copy to 0 with data"));
  EXPECT_EQ(state(), CacheState::kShared);
}

TEST_F(ReceiveFetchCopy, FetchedAheadAndLockedExpectItKept) {
  ASSERT_TRUE(protocol.read_ahead(ref));
  line.lives = Line::kFetchedAhead;
  receive(Kind::kData, 0);
  TestOp lock(OpKind::kTryReadLock);
  submit(lock);
  ASSERT_TRUE(lock.done());
  ref.hot.set_access(0);  // the clock of the eviction has come by
  line.use = Line::kUnused;
  receive(Kind::kFetchCopy, 0);
  EXPECT_THAT(env.did, ElementsAre("Copy to 0 with data"));
  EXPECT_EQ(state(), CacheState::kShared);
}

TEST_F(ReceiveFetchCopy, UpgradeUnderWayExpectACopyAndTheUpgradeToGoOn) {
  become_shared();
  ask_exclusive();
  ASSERT_EQ(state(), CacheState::kSharedToDirty);
  receive(Kind::kFetchCopy, 0);
  EXPECT_THAT(env.did, ElementsAre("Copy to 0 with data"));
  EXPECT_EQ(state(), CacheState::kSharedToDirty);
  receive(Kind::kGrant, 0);
  EXPECT_TRUE(write.done());
}

TEST_F(ReceiveFetchCopy, DroppedExpectNoCopy) {
  become_shared();
  ASSERT_TRUE(protocol.evict(ref));
  receive(Kind::kFetchCopy, 0);
  EXPECT_THAT(env.did, ElementsAre("NoCopy to 0"));
  EXPECT_EQ(state(), CacheState::kInvalid);
}

TEST_F(ReceiveFetchCopy, DroppedAndAskedForAgainExpectNoCopy) {
  for (const OpKind kind : {OpKind::kRead, OpKind::kWrite}) {
    TestOp again(kind);
    submit(again);
    const CacheState asked = state();
    receive(Kind::kFetchCopy, 0);
    EXPECT_THAT(env.did, ElementsAre("NoCopy to 0"));
    EXPECT_EQ(state(), asked);
    receive(Kind::kData, 0);
    EXPECT_TRUE(again.done());
    ASSERT_TRUE(protocol.evict(ref));
    if (state() == CacheState::kDirtyToInvalid) receive(Kind::kPutAck, 0);
  }
}

TEST_F(ReceiveFetchCopy, WriteOnItsWayToTheHomeExpectNoCopy) {
  write.may_leave = true;
  submit(write);
  ASSERT_EQ(state(), CacheState::kWritingHome);
  receive(Kind::kFetchCopy, 0);
  EXPECT_THAT(env.did, ElementsAre("NoCopy to 0"));
}

TEST_F(ReceiveFetchCopy, BeforeTheOwnersDataExpectNoCopy) {
  ask_shared();
  receive(Kind::kGrant, 0);
  ASSERT_EQ(state(), CacheState::kInvalidToSharedData);
  receive(Kind::kFetchCopy, 0);
  EXPECT_THAT(env.did, ElementsAre("NoCopy to 0"));
  receive(Kind::kOwnerData, 2);
  EXPECT_TRUE(read.done());
}

TEST_F(ReceiveFetchCopy, OwnedExpectFault) {
  become_dirty();
  expect_fault(Kind::kFetchCopy, 0);
}

}  // namespace
}  // namespace atoll::coherence
