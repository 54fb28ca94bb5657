// Receive ForwardShared / Expect what the table says.
#include "unit/coherence/fake_env.hpp"

namespace atoll::coherence {
namespace {

class ReceiveForwardShared : public CacheTest {};

TEST_F(ReceiveForwardShared, DirtyExpectDataToTheRequesterAndWriteBack) {
  become_dirty();
  receive(Kind::kForwardShared, 0, {.requester = 2, .slot = 7});
  EXPECT_THAT(env.did, ElementsAre("quiesce", "OwnerData to 2 with data for slot 7", "WriteBack to 0 with data"));
  EXPECT_EQ(state(), CacheState::kShared);
  EXPECT_EQ(access() & detail::kWritable, 0);
}

TEST_F(ReceiveForwardShared, ForTheHomeExpectTheWriteBackAlone) {
  become_dirty();
  receive(Kind::kForwardShared, 0, {.requester = 0});
  EXPECT_THAT(env.did, ElementsAre("quiesce", "WriteBack to 0 with data"));
}

TEST_F(ReceiveForwardShared, WriteLockedExpectItWaitsAndReadLockedNot) {
  become_dirty();
  ASSERT_TRUE(take_lock(line.lock, true));
  receive(Kind::kForwardShared, 0, {.requester = 2});
  EXPECT_THAT(env.did, IsEmpty());
  unlock(true);
  EXPECT_EQ(env.did.back(), "WriteBack to 0 with data");
}

TEST_F(ReceiveForwardShared, ReadLockedExpectACopyAtOnce) {
  become_dirty();
  ASSERT_TRUE(take_lock(line.lock, false));
  receive(Kind::kForwardShared, 0, {.requester = 2});
  EXPECT_EQ(state(), CacheState::kShared);
}

TEST_F(ReceiveForwardShared, CrossingOurReturnExpectTheCopyStillAnswers) {
  become_dirty();
  ASSERT_TRUE(protocol.evict(ref));
  receive(Kind::kForwardShared, 0, {.requester = 2});
  EXPECT_THAT(env.did, ElementsAre("OwnerData to 2 with data for slot 3", "WriteBack to 0 with data"));
  EXPECT_EQ(state(), CacheState::kLeftToInvalid);
}

TEST_F(ReceiveForwardShared, InvalidExpectFault) {
  expect_fault(Kind::kForwardShared, 0);
}

}  // namespace
}  // namespace atoll::coherence
