// Receive WriteBack / Expect what the table says.
#include "unit/coherence/fake_env.hpp"

namespace atoll::coherence {
namespace {

class ReceiveWriteBack : public HomeTest {};

TEST_F(ReceiveWriteBack, ExpectGrantAndBothAreSharers) {
  owned_by(1);
  receive(Kind::kGetShared, 2);
  receive(Kind::kWriteBack, 1, {.requester = 2});
  EXPECT_THAT(env.did, ElementsAre("Grant to 2"));
  EXPECT_EQ(entry.state, DirState::kShared);
  EXPECT_EQ(entry.sharers, 0b110U);
}

TEST_F(ReceiveWriteBack, ForTheHomeExpectItsReadDone) {
  owned_by(1);
  TestOp read(OpKind::kRead);
  submit(read);
  EXPECT_THAT(env.did, ElementsAre("ForwardShared to 1"));
  receive(Kind::kWriteBack, 1, {.requester = 0});
  EXPECT_TRUE(read.done());
  EXPECT_EQ(entry.sharers, 0b10U);
}

TEST_F(ReceiveWriteBack, ForAnotherWithTheHomeWaitingExpectTheHomesReadDoneToo) {
  owned_by(1);
  receive(Kind::kGetShared, 2);
  TestOp read(OpKind::kRead);
  submit(read);
  receive(Kind::kWriteBack, 1, {.requester = 2});
  EXPECT_TRUE(read.done());
}

TEST_F(ReceiveWriteBack, FromANodeThatIsNotTheOwnerExpectFault) {
  owned_by(1);
  receive(Kind::kGetShared, 2);
  expect_fault(Kind::kWriteBack, 3);
}

}  // namespace
}  // namespace atoll::coherence
