// Receive Copy, or NoCopy in its place / Expect what the table says: the home has asked a sharer for what it dropped.
#include "unit/coherence/fake_env.hpp"

namespace atoll::coherence {
namespace {

class ReceiveCopy : public FileHomeTest {
 protected:
  void fetch_from(NodeId node) {
    env.nearest = node;
    env.did.clear();
    ASSERT_TRUE(protocol.fetch_home(ref));
    EXPECT_EQ(env.did.back(), "FetchCopy to 1");
    EXPECT_EQ(entry.state, DirState::kFetching);
    EXPECT_EQ(entry.requester, node);
  }
};

TEST_F(ReceiveCopy, ExpectTheLineHomeAndAsFiled) {
  parked_at({1, 2});
  EXPECT_FALSE(is_whole(line.version.load()));
  fetch_from(1);
  receive(Kind::kCopy, 1);
  EXPECT_THAT(env.did, ElementsAre("held"));
  EXPECT_EQ(entry.state, DirState::kShared);
  EXPECT_EQ(entry.sharers, 0b110U);
  EXPECT_TRUE(filed());
  EXPECT_TRUE(is_whole(line.version.load()));
}

TEST_F(ReceiveCopy, AfterEverySharersPutSharedExpectTheLineUnshared) {
  parked_at({1});
  fetch_from(1);
  receive(Kind::kPutShared, 1);
  EXPECT_EQ(entry.state, DirState::kFetching);
  receive(Kind::kCopy, 1);
  EXPECT_EQ(entry.state, DirState::kUnshared);
  EXPECT_TRUE(filed());
}

TEST_F(ReceiveCopy, WithRequestsQueuedExpectThemServedInTurn) {
  parked_at({1});
  env.nearest = 1;
  receive(Kind::kGetShared, 2);
  EXPECT_THAT(env.did, ElementsAre("FetchCopy to 1"));
  TestOp read(OpKind::kRead);
  submit(read);
  receive(Kind::kGetExclusive, 3);
  receive(Kind::kCopy, 1);
  EXPECT_THAT(env.did,
              ElementsAre("held", "Data to 2 with data for slot 3", "quiesce", "Invalidate to 1", "Invalidate to 2"));
  EXPECT_TRUE(read.done());
  EXPECT_EQ(entry.state, DirState::kSharedToDirty);
  EXPECT_FALSE(filed());
}

TEST_F(ReceiveCopy, AnUpgradeQueuedExpectThePermissionAlone) {
  parked_at({1});
  env.nearest = 1;
  receive(Kind::kUpgrade, 1);
  EXPECT_THAT(env.did, ElementsAre("FetchCopy to 1"));
  receive(Kind::kCopy, 1);
  EXPECT_THAT(env.did, ElementsAre("held", "log owner 1", "Grant to 1", "not held"));
  EXPECT_EQ(entry.state, DirState::kDirty);
}

TEST_F(ReceiveCopy, NoCopyExpectTheFileRead) {
  parked_at({1});
  fetch_from(1);
  receive(Kind::kPutShared, 1);
  receive(Kind::kNoCopy, 1);
  EXPECT_THAT(env.did, ElementsAre("load"));
  EXPECT_EQ(entry.state, DirState::kFetching);
  EXPECT_EQ(entry.requester, kNoNode);
  loaded(true);
  EXPECT_EQ(entry.state, DirState::kUnshared);
}

TEST_F(ReceiveCopy, NoCopyWhileOthersHaveOneExpectTheFileReadAndTheLineShared) {
  parked_at({1, 2});
  fetch_from(1);
  receive(Kind::kPutShared, 1);
  receive(Kind::kNoCopy, 1);
  EXPECT_THAT(env.did, ElementsAre("load"));
  loaded(true);
  EXPECT_EQ(entry.state, DirState::kShared);
  EXPECT_EQ(entry.sharers, 0b100U);
}

TEST_F(ReceiveCopy, FromANodeThatWasNotAskedExpectFault) {
  parked_at({1, 2});
  expect_fault(Kind::kCopy, 1);
  fetch_from(1);
  expect_fault(Kind::kCopy, 2);
  expect_fault(Kind::kNoCopy, 2);
  receive(Kind::kNoCopy, 1);
  expect_fault(Kind::kCopy, 1);  // once
  loaded(true);
  expect_fault(Kind::kNoCopy, 1);
}

}  // namespace
}  // namespace atoll::coherence
