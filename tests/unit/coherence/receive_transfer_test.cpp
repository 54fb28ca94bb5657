// Receive Transfer / Expect what the table says.
#include "unit/coherence/fake_env.hpp"

namespace atoll::coherence {
namespace {

class ReceiveTransfer : public HomeTest {};

TEST_F(ReceiveTransfer, ExpectLogThenGrantToTheNewOwner) {
  owned_by(1);
  receive(Kind::kGetExclusive, 2);
  receive(Kind::kTransfer, 1, {.requester = 2});
  EXPECT_THAT(env.did, ElementsAre("log owner 2", "Grant to 2"));
  EXPECT_EQ(entry.owner, 2);
  EXPECT_EQ(entry.transfers, 2U);
}

TEST_F(ReceiveTransfer, ForTheHomeExpectUnsharedAndItsWriteDone) {
  owned_by(1);
  TestOp write(OpKind::kWrite);
  submit(write);
  EXPECT_THAT(env.did, ElementsAre("ForwardExclusive to 1"));
  receive(Kind::kTransfer, 1, {.requester = 0});
  EXPECT_TRUE(write.done());
  EXPECT_EQ(entry.state, DirState::kUnshared);
}

TEST_F(ReceiveTransfer, UnaskedExpectFault) {
  owned_by(1);
  expect_fault(Kind::kTransfer, 1);
}

}  // namespace
}  // namespace atoll::coherence
