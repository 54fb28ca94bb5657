// Receive GetOperated / Expect what the table says.
#include "unit/coherence/fake_env.hpp"

namespace atoll::coherence {
namespace {

class ReceiveGetOperated : public HomeTest {
 protected:
  void operate(NodeId from, std::uint8_t operation) { receive(Kind::kGetOperated, from, {.operation = operation}); }
};

TEST_F(ReceiveGetOperated, UnsharedExpectThePermissionAlone) {
  operate(1, 5);
  EXPECT_THAT(env.did, ElementsAre("Grant to 1"));
  EXPECT_EQ(entry.state, DirState::kOperated);
  EXPECT_EQ(entry.operation, 5u);
  EXPECT_EQ(line.operation.load(std::memory_order_relaxed), 5u);
  EXPECT_EQ(line.version.load() & 1, 1u) << "who can see the home's memory must not read it";
}

TEST_F(ReceiveGetOperated, WithThreadsOfTheHomeInTheLineExpectThemWaitedFor) {
  TestOp local{OpKind::kWrite};
  submit(local);
  operate(1, 5);
  EXPECT_THAT(env.did, ElementsAre("quiesce", "Grant to 1"));
  EXPECT_EQ(access(), 0);
}

TEST_F(ReceiveGetOperated, OperatedSoAlreadyExpectOneMore) {
  operate(1, 5);
  operate(2, 5);
  EXPECT_THAT(env.did, ElementsAre("Grant to 2"));
  EXPECT_EQ(entry.sharers, 0b110u);
}

TEST_F(ReceiveGetOperated, OperatedOtherwiseExpectOperandsFirst) {
  operate(1, 5);
  operate(2, 6);
  EXPECT_THAT(env.did, ElementsAre("Invalidate to 1"));
  EXPECT_EQ(entry.state, DirState::kOperatedToUnshared);
  receive(Kind::kPutOperated, 1);
  EXPECT_THAT(env.did, ElementsAre("merge from 1 slot 3", "PutAck to 1", "Grant to 2"));
  EXPECT_EQ(entry.operation, 6u);
}

TEST_F(ReceiveGetOperated, SharedExpectEveryCopyGoneBefore) {
  shared_by({2, 3});
  operate(1, 5);
  EXPECT_THAT(env.did, ElementsAre("Invalidate to 2", "Invalidate to 3"));
  receive(Kind::kInvalidateAck, 2);
  EXPECT_THAT(env.did, IsEmpty());
  receive(Kind::kInvalidateAck, 3);
  EXPECT_THAT(env.did, ElementsAre("Grant to 1"));
  EXPECT_EQ(entry.sharers, 0b10u);
}

TEST_F(ReceiveGetOperated, SharedByTheSenderTooExpectItAskedAsWell) {
  shared_by({1});
  operate(1, 5);
  EXPECT_THAT(env.did, ElementsAre("Invalidate to 1"));
  receive(Kind::kInvalidateAck, 1);
  EXPECT_THAT(env.did, ElementsAre("Grant to 1"));
}

TEST_F(ReceiveGetOperated, DirtyExpectTheLineHomeBefore) {
  owned_by(2);
  operate(1, 5);
  EXPECT_THAT(env.did, ElementsAre("ForwardExclusive to 2"));
  receive(Kind::kTransfer, 2);
  EXPECT_THAT(env.did, ElementsAre("Grant to 1"));
  EXPECT_EQ(entry.owner, kNoNode);
}

TEST_F(ReceiveGetOperated, UnderALockOfTheHomeExpectItToWait) {
  TestOp lock{OpKind::kReadLock};
  submit(lock);
  operate(1, 5);
  EXPECT_THAT(env.did, IsEmpty());
  unlock(false);
  EXPECT_THAT(env.did, ElementsAre("quiesce", "Grant to 1"));
}

TEST_F(ReceiveGetOperated, WhileOperatedExpectThreadsOfTheHomeToOperateToo) {
  operate(1, 5);
  TestOp same{OpKind::kOperate};
  same.operation = 5;
  submit(same);
  EXPECT_TRUE(same.done());
  EXPECT_EQ(access(), detail::kOperable);
  TestOp other{OpKind::kOperate};
  other.operation = 6;
  submit(other);
  EXPECT_FALSE(other.done());
  EXPECT_THAT(env.did, ElementsAre("Invalidate to 1"));
  receive(Kind::kPutOperated, 1);
  EXPECT_TRUE(other.done());
  EXPECT_EQ(entry.state, DirState::kUnshared);
}

TEST_F(ReceiveGetOperated, WhileAReaderWaitsForOperandsExpectItBehindHim) {
  operate(1, 5);
  receive(Kind::kGetShared, 2);
  operate(3, 5);
  EXPECT_THAT(env.did, IsEmpty());
  receive(Kind::kPutOperated, 1);
  EXPECT_THAT(env.did,
              ElementsAre("merge from 1 slot 3", "PutAck to 1", "Data to 2 with data for slot 3", "Invalidate to 2"));
  receive(Kind::kInvalidateAck, 2);
  EXPECT_THAT(env.did, ElementsAre("Grant to 3"));
}

/// The other side: what a node does to come to operate.
class WantOperated : public CacheTest {
 protected:
  WantOperated() { operate.operation = other.operation = 5; }
  void become_operated() {
    submit(operate);
    receive(Kind::kGrant, 0);
  }
  TestOp operate{OpKind::kOperate}, other{OpKind::kOperate};
};

TEST_F(WantOperated, InvalidExpectAskedAndBegunWithNothing) {
  submit(operate);
  EXPECT_THAT(env.did, ElementsAre("GetOperated to 0"));
  receive(Kind::kGrant, 0);
  EXPECT_THAT(env.did, ElementsAre("clear for 5"));
  EXPECT_TRUE(operate.performed && operate.done());
  EXPECT_EQ(access(), detail::kOperable);
}

TEST_F(WantOperated, SharedExpectTheCopyDroppedBefore) {
  become_shared();
  submit(operate);
  EXPECT_THAT(env.did, ElementsAre("quiesce", "PutShared to 0", "GetOperated to 0"));
  receive(Kind::kInvalidate, 0);  // it crossed what we sent
  EXPECT_THAT(env.did, ElementsAre("InvalidateAck to 0"));
  receive(Kind::kGrant, 0);
  EXPECT_TRUE(operate.done());
}

TEST_F(WantOperated, SharedAndLockedExpectAnUpgrade) {
  TestOp lock{OpKind::kReadLock};
  submit(lock);
  receive(Kind::kData, 0);
  ASSERT_TRUE(lock.done());
  submit(operate);
  EXPECT_THAT(env.did, ElementsAre("Upgrade to 0"));
  receive(Kind::kGrant, 0);
  EXPECT_TRUE(operate.done());
  EXPECT_EQ(state(), CacheState::kDirty);
  unlock(false);
}

/// The lock is dropped, and its holder is on the way to tell us: the home's message waits for that, so the copy must
/// too.
TEST_F(WantOperated, SharedWithAnInvalidationHeldExpectAnUpgradeAndTheInvalidationAnswered) {
  TestOp lock{OpKind::kReadLock};
  submit(lock);
  receive(Kind::kData, 0);
  receive(Kind::kInvalidate, 0, {.requester = 2});
  EXPECT_THAT(env.did, IsEmpty());
  ASSERT_TRUE(drop_lock(line.lock, false));
  submit(operate);
  EXPECT_THAT(env.did, ElementsAre("Upgrade to 0"));
  protocol.unlocked(ref);
  EXPECT_THAT(env.did, ElementsAre("Upgrade to 0", "quiesce", "InvalidateAck to 0"));
  receive(Kind::kData, 0);
  EXPECT_TRUE(operate.done());
}

TEST_F(WantOperated, DirtyExpectItDoneAsAWrite) {
  become_dirty();
  submit(operate);
  EXPECT_TRUE(operate.done());
  EXPECT_THAT(env.did, IsEmpty());
}

TEST_F(WantOperated, OperatedOtherwiseExpectOperandsReturnedBefore) {
  become_operated();
  other.operation = 6;
  submit(other);
  EXPECT_THAT(env.did, ElementsAre("quiesce", "PutOperated to 0"));
  receive(Kind::kPutAck, 0);
  EXPECT_THAT(env.did, ElementsAre("GetOperated to 0"));
  receive(Kind::kGrant, 0);
  EXPECT_THAT(env.did, ElementsAre("clear for 6"));
  EXPECT_TRUE(other.done());
}

TEST_F(WantOperated, ThenToReadExpectOperandsReturnedBefore) {
  become_operated();
  submit(read);
  EXPECT_THAT(env.did, ElementsAre("quiesce", "PutOperated to 0"));
  receive(Kind::kInvalidate, 0);  // a recall that crossed the return, which is the answer
  EXPECT_THAT(env.did, IsEmpty());
  receive(Kind::kPutAck, 0);
  EXPECT_THAT(env.did, ElementsAre("GetShared to 0"));
  receive(Kind::kData, 0);
  EXPECT_TRUE(read.done());
}

TEST_F(WantOperated, ThenToTryALockExpectRefusedAndTheOperandsReturned) {
  become_operated();
  TestOp attempt{OpKind::kTryWriteLock};
  submit(attempt);
  EXPECT_TRUE(attempt.refused());
  EXPECT_THAT(env.did, ElementsAre("quiesce", "PutOperated to 0"));
  receive(Kind::kPutAck, 0);
  EXPECT_EQ(state(), CacheState::kInvalid);
}

TEST_F(WantOperated, RecalledExpectOperandsReturned) {
  become_operated();
  receive(Kind::kInvalidate, 0);
  EXPECT_THAT(env.did, ElementsAre("quiesce", "PutOperated to 0"));
  submit(other);
  EXPECT_THAT(env.did, IsEmpty());  // it waits for the answer
  receive(Kind::kPutAck, 0);
  EXPECT_THAT(env.did, ElementsAre("GetOperated to 0"));
}

}  // namespace
}  // namespace atoll::coherence
