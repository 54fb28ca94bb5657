// Receive Data / Expect what the table says.
#include "unit/coherence/fake_env.hpp"

namespace atoll::coherence {
namespace {

class ReceiveData : public CacheTest {};

TEST_F(ReceiveData, AfterAReadExpectSharedAndTheReadDone) {
  ask_shared();
  EXPECT_THAT(env.did, ElementsAre("GetShared to 0"));
  receive(Kind::kData, 0);
  EXPECT_TRUE(read.performed && read.done());
  EXPECT_EQ(state(), CacheState::kShared);
  EXPECT_EQ(access(), detail::kReadable);
}

TEST_F(ReceiveData, AfterAWriteExpectDirtyAndAllWhoWaitedDone) {
  ask_exclusive();
  submit(read);
  EXPECT_THAT(env.did, IsEmpty()) << "one request per line";
  receive(Kind::kData, 0);
  EXPECT_TRUE(write.done() && read.done());
  EXPECT_EQ(access(), detail::kReadable | detail::kWritable);
}

TEST_F(ReceiveData, ForReadsWithAWriteBehindExpectAnUpgrade) {
  ask_shared();
  submit(write);
  receive(Kind::kData, 0);
  EXPECT_TRUE(read.done());
  EXPECT_FALSE(write.done());
  EXPECT_THAT(env.did, ElementsAre("Upgrade to 0"));
  EXPECT_EQ(access(), 0) << "nobody overtakes the write by a hit";
}

TEST_F(ReceiveData, UnaskedExpectFault) {
  expect_fault(Kind::kData, 0);
}

}  // namespace
}  // namespace atoll::coherence
