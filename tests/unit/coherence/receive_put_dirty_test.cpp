// Receive PutDirty / Expect what the table says.
#include "unit/coherence/fake_env.hpp"

namespace atoll::coherence {
namespace {

class ReceivePutDirty : public HomeTest {};

TEST_F(ReceivePutDirty, ByTheOwnerExpectPutAckAndUnshared) {
  owned_by(1);
  receive(Kind::kPutDirty, 1);
  EXPECT_THAT(env.did, ElementsAre("PutAck to 1"));
  EXPECT_EQ(entry.state, DirState::kUnshared);
}

TEST_F(ReceivePutDirty, CrossingAForwardSharedExpectAckAfterTheWriteBack) {
  owned_by(1);
  receive(Kind::kGetShared, 2);
  receive(Kind::kPutDirty, 1);
  EXPECT_THAT(env.did, IsEmpty());
  receive(Kind::kWriteBack, 1, {.requester = 2});
  EXPECT_THAT(env.did, ElementsAre("Grant to 2", "PutAck to 1"));
  EXPECT_EQ(entry.sharers, 0b100U);
}

TEST_F(ReceivePutDirty, CrossingAForwardExclusiveExpectTheNewOwnerStays) {
  owned_by(1);
  receive(Kind::kGetExclusive, 2);
  receive(Kind::kPutDirty, 1);
  receive(Kind::kTransfer, 1, {.requester = 2});
  EXPECT_THAT(env.did, ElementsAre("log owner 2", "Grant to 2", "PutAck to 1"));
  EXPECT_EQ(entry.owner, 2);
}

TEST_F(ReceivePutDirty, CrossingARecallForTheHomeExpectTheHomesThreadsServed) {
  owned_by(1);
  TestOp read(OpKind::kRead);
  submit(read);
  TestOp write(OpKind::kWrite);
  submit(write);  // comes too late for the forward, which asked for a copy
  receive(Kind::kPutDirty, 1);
  receive(Kind::kWriteBack, 1, {.requester = 0});
  EXPECT_THAT(env.did, ElementsAre("PutAck to 1"));
  EXPECT_EQ(entry.state, DirState::kUnshared);
  EXPECT_TRUE(read.done());
  EXPECT_TRUE(write.done()) << "the return has brought what it needs";
}

TEST_F(ReceivePutDirty, ByASharerExpectFault) {
  owned_by(1);
  receive(Kind::kGetShared, 2);
  receive(Kind::kWriteBack, 1, {.requester = 2});
  receive(Kind::kGetExclusive, 3);
  expect_fault(Kind::kPutDirty, 2);
}

}  // namespace
}  // namespace atoll::coherence
