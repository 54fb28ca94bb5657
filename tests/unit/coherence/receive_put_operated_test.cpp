// Receive PutOperated / Expect what the table says.
#include "unit/coherence/fake_env.hpp"

namespace atoll::coherence {
namespace {

class ReceivePutOperated : public HomeTest {
 protected:
  void SetUp() override {
    receive(Kind::kGetOperated, 1, {.operation = 5});
    receive(Kind::kGetOperated, 2, {.operation = 5});
  }
};

TEST_F(ReceivePutOperated, OthersOperateExpectTheOperandsTaken) {
  receive(Kind::kPutOperated, 1);
  EXPECT_THAT(env.did, ElementsAre("merge from 1 slot 3", "PutAck to 1"));
  EXPECT_EQ(entry.state, DirState::kOperated);
  EXPECT_EQ(entry.sharers, 0b100u);
}

TEST_F(ReceivePutOperated, FromTheLastExpectTheLineWhole) {
  receive(Kind::kPutOperated, 1);
  receive(Kind::kPutOperated, 2);
  EXPECT_THAT(env.did, ElementsAre("merge from 2 slot 3", "PutAck to 2"));
  EXPECT_EQ(entry.state, DirState::kUnshared);
  EXPECT_EQ(line.operation.load(std::memory_order_relaxed), 0u);
  EXPECT_EQ(line.version.load() & 1, 0u);
}

TEST_F(ReceivePutOperated, RecalledForAReaderExpectHimServedAfterTheLast) {
  receive(Kind::kGetShared, 3);
  EXPECT_THAT(env.did, ElementsAre("Invalidate to 1", "Invalidate to 2"));
  receive(Kind::kPutOperated, 2);
  EXPECT_THAT(env.did, ElementsAre("merge from 2 slot 3", "PutAck to 2"));
  EXPECT_EQ(entry.state, DirState::kOperatedToUnshared);
  receive(Kind::kPutOperated, 1);
  EXPECT_THAT(env.did, ElementsAre("merge from 1 slot 3", "PutAck to 1", "Data to 3 with data for slot 3"));
  EXPECT_EQ(entry.state, DirState::kShared);
}

TEST_F(ReceivePutOperated, FromANodeThatDoesNotOperateExpectFault) {
  expect_fault(Kind::kPutOperated, 3);
  EXPECT_EQ(entry.state, DirState::kOperated);
}

TEST_F(ReceivePutOperated, WhenNobodyOperatesExpectFault) {
  receive(Kind::kPutOperated, 1);
  receive(Kind::kPutOperated, 2);
  expect_fault(Kind::kPutOperated, 1);
  shared_by({1});
  expect_fault(Kind::kPutOperated, 1);
}

/// Beyond 64 nodes a bit stands for several: those of them that do not operate acknowledge the recall.
class ManyOperators : public HomeTest {
 protected:
  ManyOperators() : HomeTest(130) {}
};

TEST_F(ManyOperators, RecalledExpectAnswersOfAllThatABitStandsFor) {
  receive(Kind::kGetOperated, 65, {.operation = 5});
  receive(Kind::kGetShared, 3);
  EXPECT_THAT(env.did, ElementsAre("Invalidate to 1", "Invalidate to 65", "Invalidate to 129"));
  receive(Kind::kInvalidateAck, 1);
  receive(Kind::kPutOperated, 65);
  EXPECT_THAT(env.did, ElementsAre("merge from 65 slot 3", "PutAck to 65"));
  receive(Kind::kInvalidateAck, 129);
  EXPECT_THAT(env.did, ElementsAre("Data to 3 with data for slot 3"));
}

}  // namespace
}  // namespace atoll::coherence
