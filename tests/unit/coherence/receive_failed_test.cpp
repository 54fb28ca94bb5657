// Receive Failed / Expect what the table says: the line's file could not be read, and nobody has it.
#include "unit/coherence/fake_env.hpp"

namespace atoll::coherence {
namespace {

class ReceiveFailed : public CacheTest {};

TEST_F(ReceiveFailed, AskedToReadExpectAllWhoWaitTold) {
  ask_shared();
  TestOp lock(OpKind::kReadLock);
  submit(lock);
  receive(Kind::kFailed, 0);
  EXPECT_EQ(read.result, Errc::kStorage);
  EXPECT_EQ(lock.result, Errc::kStorage);
  EXPECT_FALSE(read.performed);
  EXPECT_THAT(env.did, IsEmpty());  // who comes later asks again, and not those
  EXPECT_EQ(state(), CacheState::kInvalid);
  EXPECT_EQ(line.slot, 0U);
  EXPECT_EQ(env.find_cold(ref), nullptr);
  EXPECT_EQ(line.lock.load(), 0U);
}

TEST_F(ReceiveFailed, AskedToWriteExpectTheWriteTold) {
  ask_exclusive();
  receive(Kind::kFailed, 0);
  EXPECT_EQ(write.result, Errc::kStorage);
  EXPECT_EQ(state(), CacheState::kInvalid);
}

TEST_F(ReceiveFailed, AskedToOperateExpectTheOperandTold) {
  TestOp operand(OpKind::kOperate);
  operand.operation = 1;
  submit(operand);
  ASSERT_EQ(state(), CacheState::kInvalidToOperated);
  receive(Kind::kFailed, 0);
  EXPECT_EQ(operand.result, Errc::kStorage);
  EXPECT_EQ(state(), CacheState::kInvalid);
}

TEST_F(ReceiveFailed, ATryExpectItTold) {
  TestOp lock(OpKind::kTryWriteLock);
  submit(lock);
  receive(Kind::kFailed, 0);
  EXPECT_EQ(lock.result, Errc::kStorage);
  EXPECT_EQ(line.lock.load(), 0U);
}

TEST_F(ReceiveFailed, UpgradeExpectTheCopyKept) {
  TestOp lock(OpKind::kReadLock);
  submit(lock);
  receive(Kind::kData, 0);
  ask_exclusive();
  ASSERT_EQ(state(), CacheState::kSharedToDirty);
  receive(Kind::kFailed, 0);
  EXPECT_EQ(write.result, Errc::kStorage);
  EXPECT_EQ(state(), CacheState::kShared);
  submit(read);
  EXPECT_TRUE(read.done());
  EXPECT_THAT(env.did, IsEmpty());
}

TEST_F(ReceiveFailed, AskedAheadExpectTheSlotFree) {
  ASSERT_TRUE(protocol.read_ahead(ref));
  receive(Kind::kFailed, 0);
  EXPECT_EQ(state(), CacheState::kInvalid);
  EXPECT_EQ(line.slot, 0U);
}

TEST_F(ReceiveFailed, TheNextReadExpectItAskedAgain) {
  ask_shared();
  receive(Kind::kFailed, 0);
  TestOp again(OpKind::kRead);
  submit(again);
  EXPECT_THAT(env.did, ElementsAre("GetShared to 0"));
  receive(Kind::kData, 0);
  EXPECT_TRUE(again.done());
}

TEST_F(ReceiveFailed, UnaskedExpectFault) {
  expect_fault(Kind::kFailed, 0);
  become_shared();
  expect_fault(Kind::kFailed, 0);
}

}  // namespace
}  // namespace atoll::coherence
