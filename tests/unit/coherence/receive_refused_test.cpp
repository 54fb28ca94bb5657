// Receive Refused / Expect what the table says.
#include "unit/coherence/fake_env.hpp"

namespace atoll::coherence {
namespace {

class ReceiveRefused : public CacheTest {};

TEST_F(ReceiveRefused, TryOnNothingExpectRefusedAndInvalid) {
  TestOp attempt(OpKind::kTryWriteLock);
  submit(attempt);
  EXPECT_THAT(env.did, ElementsAre("GetExclusive (try) to 0"));
  receive(Kind::kRefused, 0);
  EXPECT_TRUE(attempt.refused());
  EXPECT_EQ(state(), CacheState::kInvalid);
  EXPECT_EQ(line.slot, 0U);
}

TEST_F(ReceiveRefused, TryOnACopyExpectTheCopyKept) {
  become_shared();
  TestOp attempt(OpKind::kTryWriteLock);
  submit(attempt);
  EXPECT_THAT(env.did, ElementsAre("Upgrade (try) to 0"));
  receive(Kind::kRefused, 0);
  EXPECT_TRUE(attempt.refused());
  EXPECT_EQ(state(), CacheState::kShared);
}

TEST_F(ReceiveRefused, WithAReadBehindTheTryExpectTheReadServedFromTheCopy) {
  become_shared();
  TestOp attempt(OpKind::kTryWriteLock);
  submit(attempt);
  TestOp other(OpKind::kRead);
  submit(other);
  EXPECT_FALSE(other.done());
  receive(Kind::kRefused, 0);
  EXPECT_TRUE(other.done());
}

TEST_F(ReceiveRefused, WithAWriteBehindTheTryExpectItIsAskedForInEarnest) {
  TestOp attempt(OpKind::kTryReadLock);
  submit(attempt);
  submit(write);
  receive(Kind::kRefused, 0);
  EXPECT_TRUE(attempt.refused());
  EXPECT_THAT(env.did, ElementsAre("GetExclusive to 0"));
}

}  // namespace
}  // namespace atoll::coherence
