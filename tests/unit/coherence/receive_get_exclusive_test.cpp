// Receive GetExclusive / Expect what the table says.
#include "unit/coherence/fake_env.hpp"

namespace atoll::coherence {
namespace {

class ReceiveGetExclusive : public HomeTest {};

TEST_F(ReceiveGetExclusive, UnsharedExpectLogThenData) {
  receive(Kind::kGetExclusive, 1);
  EXPECT_THAT(env.did, ElementsAre("log owner 1", "Data to 1 with data for slot 3"));
  EXPECT_EQ(entry.state, DirState::kDirty);
  EXPECT_EQ(entry.owner, 1);
  EXPECT_EQ(entry.transfers, 1U);
  EXPECT_EQ(access(), 0);
}

TEST_F(ReceiveGetExclusive, SharedExpectInvalidationsAndNoGrantYet) {
  shared_by({1, 2});
  receive(Kind::kGetExclusive, 3);
  EXPECT_THAT(env.did, ElementsAre("Invalidate to 1", "Invalidate to 2"));
  EXPECT_EQ(entry.state, DirState::kSharedToDirty);
  EXPECT_EQ(entry.acks_left, 2);
}

TEST_F(ReceiveGetExclusive, DirtyExpectForward) {
  owned_by(1);
  receive(Kind::kGetExclusive, 2);
  EXPECT_THAT(env.did, ElementsAre("ForwardExclusive to 1"));
  EXPECT_EQ(entry.state, DirState::kDirtyToDirty);
}

TEST_F(ReceiveGetExclusive, ReadLockAtHomeExpectItWaitsAndALaterLockToo) {
  TestOp first(OpKind::kReadLock);
  submit(first);
  receive(Kind::kGetExclusive, 1);
  EXPECT_THAT(env.did, IsEmpty());
  TestOp later(OpKind::kReadLock);
  submit(later);
  EXPECT_FALSE(later.done()) << "node 1 has waited longer";
  unlock(false);
  EXPECT_THAT(env.did, ElementsAre("quiesce", "log owner 1", "Data to 1 with data for slot 3", "ForwardShared to 1"));
}

TEST_F(ReceiveGetExclusive, TryWhileBusyExpectRefused) {
  owned_by(1);
  receive(Kind::kGetExclusive, 2);
  receive(Kind::kGetExclusive, 3, {.is_try = true});
  EXPECT_THAT(env.did, ElementsAre("Refused to 3"));
}

}  // namespace
}  // namespace atoll::coherence
