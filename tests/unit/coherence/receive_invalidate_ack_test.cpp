// Receive InvalidateAck / Expect what the table says.
#include "unit/coherence/fake_env.hpp"

namespace atoll::coherence {
namespace {

class ReceiveInvalidateAck : public HomeTest {};

TEST_F(ReceiveInvalidateAck, OneOfTwoExpectWaiting) {
  shared_by({1, 2});
  receive(Kind::kGetExclusive, 3);
  receive(Kind::kInvalidateAck, 1, {.requester = 3});
  EXPECT_THAT(env.did, IsEmpty());
  EXPECT_EQ(entry.acks_left, 1);
}

TEST_F(ReceiveInvalidateAck, TheLastExpectLogThenDataToTheWriter) {
  shared_by({1, 2});
  receive(Kind::kGetExclusive, 3);
  receive(Kind::kInvalidateAck, 1, {.requester = 3});
  receive(Kind::kInvalidateAck, 2, {.requester = 3});
  EXPECT_THAT(env.did, ElementsAre("log owner 3", "Data to 3 with data for slot 3"));
  EXPECT_EQ(entry.owner, 3);
  EXPECT_EQ(entry.sharers, 0U);
}

TEST_F(ReceiveInvalidateAck, TheLastForTheHomeExpectItsWriteDone) {
  shared_by({1});
  TestOp write(OpKind::kWrite);
  submit(write);
  EXPECT_THAT(env.did, ElementsAre("Invalidate to 1"));
  receive(Kind::kInvalidateAck, 1, {.requester = 0});
  EXPECT_TRUE(write.done());
  EXPECT_EQ(entry.state, DirState::kUnshared);
}

TEST_F(ReceiveInvalidateAck, UnaskedExpectFault) {
  shared_by({1});
  expect_fault(Kind::kInvalidateAck, 1);
}

}  // namespace
}  // namespace atoll::coherence
