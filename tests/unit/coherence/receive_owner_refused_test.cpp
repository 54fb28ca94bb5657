// Receive OwnerRefused / Expect what the table says.
#include "unit/coherence/fake_env.hpp"

namespace atoll::coherence {
namespace {

class ReceiveOwnerRefused : public HomeTest {};

TEST_F(ReceiveOwnerRefused, ExpectTheTryRefusedAndNothingChanged) {
  owned_by(1);
  receive(Kind::kGetExclusive, 2, {.is_try = true});
  EXPECT_THAT(env.did, ElementsAre("ForwardExclusive (try) to 1"));
  receive(Kind::kOwnerRefused, 1, {.is_try = true, .requester = 2});
  EXPECT_THAT(env.did, ElementsAre("Refused to 2"));
  EXPECT_EQ(entry.state, DirState::kDirty);
  EXPECT_EQ(entry.owner, 1);
}

TEST_F(ReceiveOwnerRefused, ForTheHomesTryWithAnotherThreadWaitingExpectItIsAskedForInEarnest) {
  owned_by(1);
  TestOp attempt(OpKind::kTryWriteLock);
  submit(attempt);
  TestOp read(OpKind::kRead);
  submit(read);
  receive(Kind::kOwnerRefused, 1, {.is_try = true, .requester = 0});
  EXPECT_TRUE(attempt.refused());
  EXPECT_THAT(env.did, ElementsAre("ForwardShared to 1"));
}

}  // namespace
}  // namespace atoll::coherence
