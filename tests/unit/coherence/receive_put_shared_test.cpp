// Receive PutShared / Expect what the table says.
#include "unit/coherence/fake_env.hpp"

namespace atoll::coherence {
namespace {

class ReceivePutShared : public HomeTest {};

TEST_F(ReceivePutShared, OneOfTwoExpectOneSharerLess) {
  shared_by({1, 2});
  receive(Kind::kPutShared, 1);
  EXPECT_THAT(env.did, IsEmpty());
  EXPECT_EQ(entry.state, DirState::kShared);
  EXPECT_EQ(entry.sharers, 0b100U);
}

TEST_F(ReceivePutShared, TheLastExpectUnshared) {
  shared_by({1});
  receive(Kind::kPutShared, 1);
  EXPECT_EQ(entry.state, DirState::kUnshared);
  EXPECT_EQ(Protocol::permission(ref), detail::kReadable | detail::kWritable);
}

TEST_F(ReceivePutShared, CrossingAnInvalidationExpectTheAnswerStillCounts) {
  shared_by({1, 2});
  receive(Kind::kGetExclusive, 3);
  receive(Kind::kPutShared, 1);
  EXPECT_EQ(entry.acks_left, 2);
  receive(Kind::kInvalidateAck, 1, {.requester = 3});
  receive(Kind::kInvalidateAck, 2, {.requester = 3});
  EXPECT_EQ(entry.state, DirState::kDirty);
}

TEST_F(ReceivePutShared, OfACopyNeverGivenExpectFault) {
  shared_by({1});
  expect_fault(Kind::kPutShared, 2);
}

TEST_F(ReceivePutShared, UnsharedExpectFault) {
  expect_fault(Kind::kPutShared, 1);
}

}  // namespace
}  // namespace atoll::coherence
