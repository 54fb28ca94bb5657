// Receive Upgrade / Expect what the table says.
#include "unit/coherence/fake_env.hpp"

namespace atoll::coherence {
namespace {

class ReceiveUpgrade : public HomeTest {};

TEST_F(ReceiveUpgrade, OnlySharerExpectLogThenGrantWithoutData) {
  shared_by({1});
  receive(Kind::kUpgrade, 1);
  EXPECT_THAT(env.did, ElementsAre("log owner 1", "Grant to 1"));
  EXPECT_EQ(entry.state, DirState::kDirty);
}

TEST_F(ReceiveUpgrade, OtherSharersExpectTheyGoFirst) {
  shared_by({1, 2});
  receive(Kind::kUpgrade, 1);
  EXPECT_THAT(env.did, ElementsAre("Invalidate to 2"));
  receive(Kind::kInvalidateAck, 2, {.requester = 1});
  EXPECT_THAT(env.did, ElementsAre("log owner 1", "Grant to 1"));
}

TEST_F(ReceiveUpgrade, ByANodeThatLostItsCopyExpectTheLineIsForwarded) {
  shared_by({1, 2});
  receive(Kind::kUpgrade, 1);
  receive(Kind::kUpgrade, 2);  // crosses the invalidation
  EXPECT_THAT(env.did, IsEmpty());
  receive(Kind::kInvalidateAck, 2, {.requester = 1});
  EXPECT_THAT(env.did, ElementsAre("log owner 1", "Grant to 1", "ForwardExclusive to 1"));
}

TEST_F(ReceiveUpgrade, UnsharedExpectDataAsForGetExclusive) {
  receive(Kind::kUpgrade, 1);
  EXPECT_THAT(env.did, ElementsAre("log owner 1", "Data to 1 with data for slot 3"));
}

}  // namespace
}  // namespace atoll::coherence
