// Receive Written, or Refused in its place / Expect what the table says.
#include "unit/coherence/fake_env.hpp"

namespace atoll::coherence {
namespace {

class ReceiveWritten : public CacheTest {
 protected:
  void send_write() {
    write.may_leave = true;
    submit(write);
    EXPECT_THAT(env.did, ElementsAre("WriteHome to 0 with the bytes"));
    EXPECT_EQ(state(), CacheState::kWritingHome);
    EXPECT_EQ(line.slot, 0U);
  }
};

TEST_F(ReceiveWritten, ExpectTheWriteDoneAndNothingHere) {
  send_write();
  EXPECT_FALSE(write.done());
  receive(Kind::kWritten, 0);
  EXPECT_TRUE(write.done());
  EXPECT_FALSE(write.performed);  // not here
  EXPECT_EQ(state(), CacheState::kInvalid);
  EXPECT_EQ(env.find_cold(ref), nullptr);
}

TEST_F(ReceiveWritten, WithAReadBehindTheWriteExpectTheLineAskedFor) {
  send_write();
  submit(read);
  EXPECT_THAT(env.did, IsEmpty());  // it would not see the write
  receive(Kind::kWritten, 0);
  EXPECT_TRUE(write.done());
  EXPECT_THAT(env.did, ElementsAre("GetShared to 0"));
}

TEST_F(ReceiveWritten, WithASecondWriteBehindTheFirstExpectTheLineAskedFor) {
  send_write();
  TestOp second{OpKind::kWrite};
  second.may_leave = true;
  submit(second);
  EXPECT_THAT(env.did, IsEmpty());
  receive(Kind::kWritten, 0);
  EXPECT_THAT(env.did, ElementsAre("GetExclusive to 0"));
  receive(Kind::kData, 0);
  EXPECT_TRUE(second.performed);
}

TEST_F(ReceiveWritten, RefusedExpectTheLineAskedForAndTheWriteDoneFirst) {
  send_write();
  submit(read);
  receive(Kind::kRefused, 0);
  EXPECT_FALSE(write.done());
  EXPECT_THAT(env.did, ElementsAre("GetExclusive to 0"));
  receive(Kind::kData, 0);
  EXPECT_TRUE(write.performed);
  EXPECT_TRUE(read.done());
  EXPECT_EQ(state(), CacheState::kDirty);
}

TEST_F(ReceiveWritten, AfterTheWriteWasTakenBackExpectNothing) {
  for (const Kind answer : {Kind::kWritten, Kind::kRefused}) {
    send_write();
    EXPECT_TRUE(protocol.cancel(ref, write));
    receive(answer, 0);
    EXPECT_THAT(env.did, IsEmpty());
    EXPECT_EQ(state(), CacheState::kInvalid);
    EXPECT_FALSE(write.result.has_value());
  }
}

TEST_F(ReceiveWritten, AnInvalidationOfADroppedCopyBeforeItExpectItAcknowledged) {
  become_shared();
  ASSERT_TRUE(protocol.evict(ref));
  send_write();
  receive(Kind::kInvalidate, 0, {.requester = 2});
  EXPECT_THAT(env.did, ElementsAre("InvalidateAck to 0"));
  EXPECT_EQ(state(), CacheState::kWritingHome);
}

TEST_F(ReceiveWritten, ALineThatIsHereExpectItWrittenHere) {
  become_dirty();
  TestOp second{OpKind::kWrite};
  second.may_leave = true;
  submit(second);
  EXPECT_TRUE(second.performed);
}

TEST_F(ReceiveWritten, UnaskedExpectFault) {
  expect_fault(Kind::kWritten, 0);
  become_dirty();
  expect_fault(Kind::kWritten, 0);
}

TEST_F(ReceiveWritten, ForAWriteThatIsForTheHomeExpectItDone) {
  TestOp away{OpKind::kWriteAway};
  submit(away);
  EXPECT_THAT(env.did, ElementsAre("WriteHome to 0 with the bytes"));
  receive(Kind::kWritten, 0);
  EXPECT_TRUE(away.done());
  EXPECT_EQ(*away.result, Errc::kOk);
  EXPECT_EQ(state(), CacheState::kInvalid);
}

TEST_F(ReceiveWritten, RefusedForAWriteThatIsForTheHomeExpectItRefusedAndNothingAskedFor) {
  TestOp away{OpKind::kWriteAway};
  submit(away);
  EXPECT_THAT(env.did, ElementsAre("WriteHome to 0 with the bytes"));
  receive(Kind::kRefused, 0);
  EXPECT_EQ(*away.result, Errc::kRefused);
  EXPECT_THAT(env.did, IsEmpty());
  EXPECT_EQ(state(), CacheState::kInvalid);
  EXPECT_EQ(env.find_cold(ref), nullptr);
}

TEST_F(ReceiveWritten, WithAWriteUnderWayExpectOneThatIsForTheHomeRefusedAtOnce) {
  send_write();
  TestOp away{OpKind::kWriteAway};
  submit(away);
  EXPECT_EQ(*away.result, Errc::kRefused);
  EXPECT_THAT(env.did, IsEmpty());
}

}  // namespace
}  // namespace atoll::coherence
