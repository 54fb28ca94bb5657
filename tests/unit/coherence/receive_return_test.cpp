// Logged: receive PutDirty, WriteBack, Transfer at the home / Expect that it is fetched, logged, then acknowledged.
#include "unit/coherence/fake_env.hpp"

namespace atoll::coherence {
namespace {

class ReceiveReturn : public LoggedHomeTest {};

TEST_F(ReceiveReturn, AGrantNamesItsTenureExpectOneMoreEachTime) {
  receive(Kind::kGetExclusive, 1);
  EXPECT_THAT(env.did, ElementsAre("log owner 1", "Data of 1 to 1 with data for slot 3"));
  receive(Kind::kPutDirty, 1, {.tenure = 1});
  EXPECT_THAT(env.did, ElementsAre("take from 1 slot 3", "PutAck to 1 when durable"));
  EXPECT_EQ(entry.state, DirState::kUnshared);
  EXPECT_EQ(entry.transfers, 2U);
  receive(Kind::kGetExclusive, 2);
  EXPECT_THAT(env.did, ElementsAre("log owner 2", "Data of 3 to 2 with data for slot 3"));
}

TEST_F(ReceiveReturn, ACopyToReadHasNoTenure) {
  receive(Kind::kGetShared, 1);
  EXPECT_THAT(env.did, ElementsAre("Data to 1 with data for slot 3"));
}

TEST_F(ReceiveReturn, AnUpgradeIsGrantedWithItsTenure) {
  shared_by({1});
  receive(Kind::kUpgrade, 1);
  EXPECT_THAT(env.did, ElementsAre("log owner 1", "Grant of 1 to 1"));
}

TEST_F(ReceiveReturn, TransferForAnotherNodeExpectTheLineByWayOfTheHome) {
  owned_by(1);
  receive(Kind::kGetExclusive, 2, {.slot = 7});
  EXPECT_THAT(env.did, ElementsAre("ForwardExclusive to 1"));
  receive(Kind::kTransfer, 1, {.tenure = 1});
  EXPECT_THAT(env.did, ElementsAre("take from 1 slot 3", "PutAck to 1 when durable", "log owner 2",
                                   "Data of 3 to 2 with data for slot 7"));
  EXPECT_EQ(entry.owner, 2);
}

TEST_F(ReceiveReturn, WriteBackExpectBothRead) {
  owned_by(1);
  receive(Kind::kGetShared, 2, {.slot = 7});
  receive(Kind::kWriteBack, 1, {.tenure = 1});
  EXPECT_THAT(env.did, ElementsAre("take from 1 slot 3", "PutAck to 1 when durable", "Data to 2 with data for slot 7"));
  EXPECT_EQ(entry.state, DirState::kShared);
  EXPECT_EQ(entry.sharers, 0b110U);
}

TEST_F(ReceiveReturn, PutDirtyThatCrossedTheRecallExpectItIsTheAnswer) {
  owned_by(1);
  receive(Kind::kGetShared, 2, {.slot = 7});
  receive(Kind::kPutDirty, 1, {.tenure = 1});
  EXPECT_THAT(env.did, ElementsAre("take from 1 slot 3", "PutAck to 1 when durable", "Data to 2 with data for slot 7"));
  EXPECT_EQ(entry.sharers, 0b100U);
}

TEST_F(ReceiveReturn, ForTheHomeItselfExpectItsThreadServed) {
  owned_by(1);
  TestOp write(OpKind::kWrite);
  submit(write);
  receive(Kind::kTransfer, 1, {.tenure = 1});
  EXPECT_TRUE(write.done());
  EXPECT_EQ(entry.state, DirState::kUnshared);
}

TEST_F(ReceiveReturn, OfATenureThatIsOverExpectAckAndNothingElse) {
  owned_by(1);
  receive(Kind::kPutDirty, 1, {.tenure = 1});
  receive(Kind::kPutDirty, 1, {.tenure = 1});
  EXPECT_THAT(env.did, ElementsAre("PutAck to 1 when durable"));
  owned_by(2);
  receive(Kind::kPutDirty, 1, {.tenure = 1});
  EXPECT_THAT(env.did, ElementsAre("PutAck to 1 when durable"));
  EXPECT_EQ(entry.owner, 2);
  EXPECT_EQ(entry.transfers, 3U);
}

TEST_F(ReceiveReturn, OfATenureThatTheHomeHasLostExpectItIsTaken) {
  receive(Kind::kPutDirty, 1, {.tenure = 9});
  EXPECT_THAT(env.did, ElementsAre("take from 1 slot 3", "PutAck to 1 when durable"));
  EXPECT_EQ(entry.transfers, 10U);
}

TEST_F(ReceiveReturn, WriteBackThatNobodyAskedForExpectFault) {
  owned_by(1);
  receive(Kind::kWriteBack, 1, {.tenure = 1});
  EXPECT_EQ(env.faults.size(), 1U);
  env.faults.clear();
  EXPECT_EQ(entry.state, DirState::kDirty);
}

TEST_F(ReceiveReturn, NotDurableYetExpectTheNextOwnerWaits) {
  owned_by(1);
  receive(Kind::kGetExclusive, 2, {.slot = 7});
  env.settled = false;
  receive(Kind::kTransfer, 1, {.tenure = 1});
  EXPECT_THAT(env.did, ElementsAre("take from 1 slot 3", "PutAck to 1 when durable"));
  receive(Kind::kGetShared, 3, {.is_try = true});
  EXPECT_THAT(env.did, ElementsAre("Refused to 3"));
  env.settled = true;
  env.did.clear();
  protocol.unlocked(ref);
  EXPECT_THAT(env.did, ElementsAre("log owner 2", "Data of 3 to 2 with data for slot 7"));
}

TEST_F(ReceiveReturn, WhileOthersWaitForTheLogExpectWritesOfTheHomeWaitBehindThem) {
  TestOp first(OpKind::kWrite);
  submit(first);
  EXPECT_TRUE(first.done());
  env.settled = false;
  receive(Kind::kGetExclusive, 1);
  TestOp second(OpKind::kWrite);
  submit(second);
  EXPECT_FALSE(second.done()) << "or the line would never settle";
  env.settled = true;
  protocol.unlocked(ref);
  EXPECT_EQ(entry.owner, 1);
  receive(Kind::kTransfer, 1, {.tenure = 1});
  EXPECT_TRUE(second.done());
}

/// Logged: receive ForwardShared, ForwardExclusive, PutAck, Invalidate at the owner.
class ReceiveRecall : public LoggedCacheTest {};

TEST_F(ReceiveRecall, SharedExpectWriteBackAndACopyThatIsKept) {
  become_dirty_in(5);
  receive(Kind::kForwardShared, 0, {.requester = 0});
  EXPECT_THAT(env.did, ElementsAre("quiesce", "WriteBack of 5 to 0"));
  EXPECT_EQ(state(), CacheState::kDirtyToShared);
  TestOp again(OpKind::kRead);
  submit(again);
  EXPECT_TRUE(again.done());
  TestOp later(OpKind::kWrite);
  submit(later);
  EXPECT_THAT(env.did, IsEmpty());
  receive(Kind::kPutAck, 0);
  EXPECT_THAT(env.did, ElementsAre("Upgrade to 0"));
}

TEST_F(ReceiveRecall, ExclusiveExpectTransferAndTheSlotKeptUntilPutAck) {
  become_dirty_in(5);
  receive(Kind::kForwardExclusive, 0, {.requester = 0});
  EXPECT_EQ(env.did.back(), "Transfer of 5 to 0");
  EXPECT_EQ(state(), CacheState::kDirtyToInvalid);
  EXPECT_NE(line.slot, 0U);
  receive(Kind::kPutAck, 0);
  EXPECT_EQ(state(), CacheState::kInvalid);
  EXPECT_EQ(line.slot, 0U);
}

TEST_F(ReceiveRecall, CrossingAReturnExpectNothing) {
  become_dirty_in(5);
  env.did.clear();
  ASSERT_TRUE(protocol.evict(ref));
  EXPECT_EQ(env.did.back(), "PutDirty of 5 to 0");
  receive(Kind::kForwardShared, 0, {.requester = 0});
  receive(Kind::kForwardExclusive, 0, {.requester = 0});
  EXPECT_THAT(env.did, IsEmpty());
  EXPECT_EQ(state(), CacheState::kDirtyToInvalid);
}

TEST_F(ReceiveRecall, InvalidateBeforeThePutAckExpectAckAndTheSlotKept) {
  become_dirty_in(5);
  receive(Kind::kForwardShared, 0, {.requester = 0});
  receive(Kind::kInvalidate, 0, {.requester = 2});
  EXPECT_EQ(env.did.back(), "InvalidateAck to 0");
  EXPECT_EQ(state(), CacheState::kDirtyToInvalid);
  receive(Kind::kPutAck, 0);
  EXPECT_EQ(state(), CacheState::kInvalid);
}

TEST_F(ReceiveRecall, InvalidateBeforeThePutAckUnderAReadLockExpectAckAfterUnlock) {
  become_dirty_in(5);
  TestOp lock(OpKind::kReadLock);
  submit(lock);
  receive(Kind::kForwardShared, 0, {.requester = 0});
  EXPECT_EQ(state(), CacheState::kDirtyToShared);
  receive(Kind::kInvalidate, 0, {.is_try = true, .requester = 2});
  EXPECT_THAT(env.did, ElementsAre("InvalidateRefused (try) to 0"));
  receive(Kind::kInvalidate, 0, {.requester = 2});
  EXPECT_THAT(env.did, IsEmpty());
  unlock(false);
  EXPECT_EQ(env.did.back(), "InvalidateAck to 0");
  EXPECT_EQ(state(), CacheState::kDirtyToInvalid);
}

TEST_F(ReceiveRecall, OfWhatIsNotDurableExpectTheAnswerWhenItIs) {
  become_dirty_in(5);
  env.settled = false;
  receive(Kind::kForwardExclusive, 0, {.is_try = true, .requester = 0});
  EXPECT_EQ(env.did.back(), "OwnerRefused (try) to 0");
  receive(Kind::kForwardExclusive, 0, {.requester = 0});
  EXPECT_THAT(env.did, IsEmpty());
  EXPECT_FALSE(protocol.evict(ref));
  env.settled = true;
  protocol.unlocked(ref);
  EXPECT_EQ(env.did.back(), "Transfer of 5 to 0");
}

}  // namespace
}  // namespace atoll::coherence
