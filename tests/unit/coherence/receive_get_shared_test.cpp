// Receive GetShared / Expect what the table says.
#include "unit/coherence/fake_env.hpp"

namespace atoll::coherence {
namespace {

class ReceiveGetShared : public HomeTest {};

TEST_F(ReceiveGetShared, UnsharedExpectDataAndASharer) {
  TestOp write(OpKind::kWrite);
  submit(write);  // a thread of the home is in the line
  receive(Kind::kGetShared, 1);
  EXPECT_THAT(env.did, ElementsAre("quiesce", "Data to 1 with data for slot 3"));
  EXPECT_EQ(entry.state, DirState::kShared);
  EXPECT_EQ(entry.sharers, 0b10U);
  EXPECT_EQ(access(), detail::kReadable);
}

TEST_F(ReceiveGetShared, UnusedLineExpectNoQuiesce) {
  receive(Kind::kGetShared, 1);
  EXPECT_THAT(env.did, ElementsAre("Data to 1 with data for slot 3"));
}

TEST_F(ReceiveGetShared, SharedExpectAnotherSharer) {
  shared_by({1});
  receive(Kind::kGetShared, 2);
  EXPECT_THAT(env.did, ElementsAre("Data to 2 with data for slot 3"));
  EXPECT_EQ(entry.sharers, 0b110U);
}

TEST_F(ReceiveGetShared, DirtyExpectForwardToTheOwner) {
  owned_by(1);
  receive(Kind::kGetShared, 2);
  EXPECT_THAT(env.did, ElementsAre("ForwardShared to 1"));
  EXPECT_EQ(entry.state, DirState::kDirtyToShared);
  EXPECT_EQ(entry.requester, 2);
}

TEST_F(ReceiveGetShared, BusyExpectItsTurnLater) {
  owned_by(1);
  receive(Kind::kGetShared, 2);
  receive(Kind::kGetShared, 3);
  EXPECT_THAT(env.did, IsEmpty());
  receive(Kind::kWriteBack, 1, {.requester = 2});
  EXPECT_THAT(env.did, ElementsAre("Grant to 2", "Data to 3 with data for slot 3"));
  EXPECT_EQ(entry.sharers, 0b1110U);
}

/// Else a node could make the home's queue as long as it likes.
TEST_F(ReceiveGetShared, AgainWhileItWaitsItsTurnExpectFault) {
  owned_by(1);
  receive(Kind::kGetShared, 2);
  receive(Kind::kGetShared, 3);
  expect_fault(Kind::kGetShared, 3);
  expect_fault(Kind::kUpgrade, 3);
  receive(Kind::kWriteBack, 1, {.requester = 2});
  EXPECT_EQ(entry.sharers, 0b1110U);
}

TEST_F(ReceiveGetShared, WriteLockAtHomeExpectDataAfterUnlock) {
  TestOp lock(OpKind::kWriteLock);
  submit(lock);
  ASSERT_TRUE(lock.done());
  receive(Kind::kGetShared, 1);
  EXPECT_THAT(env.did, IsEmpty());
  unlock(true);
  EXPECT_THAT(env.did, ElementsAre("quiesce", "Data to 1 with data for slot 3"));
}

TEST_F(ReceiveGetShared, TryAgainstWriteLockAtHomeExpectRefused) {
  TestOp lock(OpKind::kWriteLock);
  submit(lock);
  receive(Kind::kGetShared, 1, {.is_try = true});
  EXPECT_THAT(env.did, ElementsAre("Refused to 1"));
  EXPECT_EQ(entry.state, DirState::kUnshared);
}

TEST_F(ReceiveGetShared, FromTheOwnerExpectFault) {
  owned_by(1);
  expect_fault(Kind::kGetShared, 1);
}

}  // namespace
}  // namespace atoll::coherence
