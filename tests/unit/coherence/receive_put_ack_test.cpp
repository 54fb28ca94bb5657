// Receive PutAck / Expect what the table says.
#include "unit/coherence/fake_env.hpp"

namespace atoll::coherence {
namespace {

class ReceivePutAck : public CacheTest {};

TEST_F(ReceivePutAck, AfterAReturnExpectInvalidAndTheSlotFree) {
  become_dirty();
  env.did.clear();
  ASSERT_TRUE(protocol.evict(ref));
  EXPECT_THAT(env.did, ElementsAre("quiesce", "PutDirty to 0 with data"));
  receive(Kind::kPutAck, 0);
  EXPECT_EQ(state(), CacheState::kInvalid);
  EXPECT_EQ(line.slot, 0U);
}

TEST_F(ReceivePutAck, WithAThreadWaitingExpectItIsAskedForAgain) {
  become_dirty();
  ASSERT_TRUE(protocol.evict(ref));
  submit(read);
  EXPECT_THAT(env.did, IsEmpty());
  receive(Kind::kPutAck, 0);
  EXPECT_THAT(env.did, ElementsAre("GetShared to 0"));
}

TEST_F(ReceivePutAck, UnaskedExpectFault) {
  become_dirty();
  expect_fault(Kind::kPutAck, 0);
}

}  // namespace
}  // namespace atoll::coherence
