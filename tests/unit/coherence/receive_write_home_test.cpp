// Receive WriteHome / Expect what the table says.
#include "unit/coherence/fake_env.hpp"

namespace atoll::coherence {
namespace {

class ReceiveWriteHome : public HomeTest {
 protected:
  TestOp local{OpKind::kWrite};
};

TEST_F(ReceiveWriteHome, UnsharedExpectTheWriteDoneAndTold) {
  receive(Kind::kWriteHome, 1);
  EXPECT_THAT(env.did, ElementsAre("write for 1", "Written to 1"));
  EXPECT_EQ(entry.state, DirState::kUnshared);
}

TEST_F(ReceiveWriteHome, WithThreadsOfTheHomeInTheLineExpectItHiddenUntilTheyComeAgain) {
  submit(local);
  EXPECT_NE(access(), 0);
  receive(Kind::kWriteHome, 1);
  EXPECT_THAT(env.did, ElementsAre("write for 1", "Written to 1"));  // and nobody was waited for
  EXPECT_EQ(access(), 0);
  TestOp again{OpKind::kRead};
  submit(again);
  EXPECT_TRUE(again.done());
  EXPECT_NE(access(), 0);
}

TEST_F(ReceiveWriteHome, UnderALockOfTheHomeExpectRefused) {
  for (const OpKind kind : {OpKind::kReadLock, OpKind::kWriteLock}) {
    TestOp lock{kind};
    submit(lock);
    receive(Kind::kWriteHome, 1);
    EXPECT_THAT(env.did, ElementsAre("Refused to 1"));
    unlock(kind == OpKind::kWriteLock);
    EXPECT_EQ(line.lock.load() & detail::kLockWaiters, 0U);
  }
}

TEST_F(ReceiveWriteHome, BehindARequestThatWaitsForALockExpectRefused) {
  TestOp lock{OpKind::kReadLock};
  submit(lock);
  receive(Kind::kGetExclusive, 2);
  EXPECT_THAT(env.did, IsEmpty());
  receive(Kind::kWriteHome, 1);
  EXPECT_THAT(env.did, ElementsAre("Refused to 1"));
}

TEST_F(ReceiveWriteHome, SharedExpectRefused) {
  shared_by({2, 3});
  receive(Kind::kWriteHome, 1);
  EXPECT_THAT(env.did, ElementsAre("Refused to 1"));
  EXPECT_EQ(entry.state, DirState::kShared);
}

TEST_F(ReceiveWriteHome, DirtyExpectRefused) {
  owned_by(2);
  receive(Kind::kWriteHome, 1);
  EXPECT_THAT(env.did, ElementsAre("Refused to 1"));
  EXPECT_EQ(entry.owner, 2);
}

TEST_F(ReceiveWriteHome, BusyExpectRefused) {
  owned_by(2);
  receive(Kind::kGetShared, 3);
  EXPECT_EQ(entry.state, DirState::kDirtyToShared);
  receive(Kind::kWriteHome, 1);
  EXPECT_THAT(env.did, ElementsAre("Refused to 1"));
  EXPECT_EQ(entry.requester, 3);
}

}  // namespace
}  // namespace atoll::coherence
