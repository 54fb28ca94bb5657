// Receive Grant / Expect what the table says.
#include "unit/coherence/fake_env.hpp"

namespace atoll::coherence {
namespace {

class ReceiveGrant : public CacheTest {};

TEST_F(ReceiveGrant, AfterAnUpgradeExpectDirty) {
  become_shared();
  submit(write);
  EXPECT_THAT(env.did, ElementsAre("Upgrade to 0"));
  receive(Kind::kGrant, 0);
  EXPECT_EQ(state(), CacheState::kDirty);
  EXPECT_TRUE(write.done());
}

TEST_F(ReceiveGrant, BeforeTheOwnersDataExpectNothingIsDoneYet) {
  ask_exclusive();
  receive(Kind::kGrant, 0);
  EXPECT_EQ(state(), CacheState::kInvalidToDirtyData);
  EXPECT_FALSE(write.done());
}

TEST_F(ReceiveGrant, AfterTheOwnersDataExpectDirty) {
  ask_exclusive();
  receive(Kind::kOwnerData, 2, {.requester = 1});
  receive(Kind::kGrant, 0);
  EXPECT_EQ(state(), CacheState::kDirty);
  EXPECT_TRUE(write.done());
}

TEST_F(ReceiveGrant, TwiceExpectFault) {
  become_dirty();
  expect_fault(Kind::kGrant, 0);
}

}  // namespace
}  // namespace atoll::coherence
