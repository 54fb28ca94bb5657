// Receive InvalidateRefused / Expect what the table says.
#include "unit/coherence/fake_env.hpp"

namespace atoll::coherence {
namespace {

class ReceiveInvalidateRefused : public HomeTest {};

TEST_F(ReceiveInvalidateRefused, TheLastExpectTheTryRefusedAndTheSharerKept) {
  shared_by({1, 2});
  receive(Kind::kGetExclusive, 3, {.is_try = true});
  EXPECT_THAT(env.did, ElementsAre("Invalidate (try) to 1", "Invalidate (try) to 2"));
  receive(Kind::kInvalidateRefused, 1, {.is_try = true, .requester = 3});
  receive(Kind::kInvalidateAck, 2, {.is_try = true, .requester = 3});
  EXPECT_THAT(env.did, ElementsAre("Refused to 3"));
  EXPECT_EQ(entry.state, DirState::kShared);
  EXPECT_EQ(entry.sharers, 0b10U) << "node 2 has dropped its copy";
}

TEST_F(ReceiveInvalidateRefused, ForTheHomesOwnTryExpectItsReadersServed) {
  shared_by({1});
  TestOp attempt(OpKind::kTryWriteLock);
  submit(attempt);
  TestOp read(OpKind::kRead);
  submit(read);  // of another thread of the home
  EXPECT_FALSE(read.done());
  receive(Kind::kInvalidateRefused, 1, {.is_try = true, .requester = 0});
  EXPECT_TRUE(attempt.refused());
  EXPECT_TRUE(read.done());
}

TEST_F(ReceiveInvalidateRefused, OfWhatIsNoTryExpectFault) {
  shared_by({2, 3});
  receive(Kind::kGetOperated, 1, {.operation = 5});
  expect_fault(Kind::kInvalidateRefused, 2);
  EXPECT_EQ(entry.state, DirState::kSharedToOperated);
}

}  // namespace
}  // namespace atoll::coherence
