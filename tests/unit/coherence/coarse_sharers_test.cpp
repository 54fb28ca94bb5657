// Beyond 64 nodes a bit of the directory stands for a group of nodes.
#include "unit/coherence/fake_env.hpp"

namespace atoll::coherence {
namespace {

constexpr NodeId kNodes = 70;  // bit 3 stands for 3 and 67

class CoarseSharers : public HomeTest {
 protected:
  CoarseSharers() : HomeTest(kNodes) {}
};

TEST_F(CoarseSharers, AWriterExpectsTheWholeGroupInvalidated) {
  receive(Kind::kGetShared, 67);
  receive(Kind::kGetExclusive, 1);
  EXPECT_THAT(env.did, ElementsAre("Invalidate to 3", "Invalidate to 67"));
  EXPECT_EQ(entry.acks_left, 2);
  receive(Kind::kInvalidateAck, 3, {.requester = 1});
  EXPECT_THAT(env.did, IsEmpty());
  receive(Kind::kInvalidateAck, 67, {.requester = 1});
  EXPECT_THAT(env.did, ElementsAre("log owner 1", "Data to 1 with data for slot 3"));
  EXPECT_EQ(entry.owner, 1);
}

TEST_F(CoarseSharers, AReturnKeepsTheBitBecauseOthersMayStandBehindIt) {
  receive(Kind::kGetShared, 3);
  receive(Kind::kGetShared, 67);
  receive(Kind::kPutShared, 3);
  EXPECT_EQ(entry.sharers, std::uint64_t{1} << 3);
  EXPECT_EQ(entry.state, DirState::kShared);
}

TEST_F(CoarseSharers, AnUpgradeIsAnsweredWithData) {
  receive(Kind::kGetShared, 3);
  receive(Kind::kUpgrade, 3);
  EXPECT_THAT(env.did, ElementsAre("Invalidate to 67"));
  receive(Kind::kInvalidateAck, 67, {.requester = 3});
  EXPECT_THAT(env.did, ElementsAre("log owner 3", "Data to 3 with data for slot 3"));
}

TEST_F(CoarseSharers, ALoneMemberOfItsGroupIsTheOnlySharer) {
  receive(Kind::kGetShared, 40);  // 104 is no node
  receive(Kind::kUpgrade, 40);
  EXPECT_THAT(env.did, ElementsAre("log owner 40", "Data to 40 with data for slot 3"));
}

TEST_F(CoarseSharers, TheHomeIsInAGroupAndNeverAsksItself) {
  receive(Kind::kGetShared, 64);  // shares bit 0 with the home
  TestOp write(OpKind::kWrite);
  submit(write);
  EXPECT_THAT(env.did, ElementsAre("Invalidate to 64"));
  receive(Kind::kInvalidateAck, 64, {.requester = 0});
  EXPECT_TRUE(write.done());
}

TEST_F(CoarseSharers, ARefusedTryLeavesTheGroup) {
  receive(Kind::kGetShared, 3);
  receive(Kind::kGetExclusive, 1, {.is_try = true});
  receive(Kind::kInvalidateRefused, 3, {.is_try = true, .requester = 1});
  receive(Kind::kInvalidateAck, 67, {.is_try = true, .requester = 1});
  EXPECT_THAT(env.did, ElementsAre("Refused to 1"));
  EXPECT_EQ(entry.state, DirState::kShared);
  EXPECT_EQ(entry.sharers, std::uint64_t{1} << 3);
}

class CoarseParked : public FileHomeTest {
 protected:
  CoarseParked() : FileHomeTest(kNodes) {}
};

TEST_F(CoarseParked, AReturnLeavesItParkedBecauseOthersMayStandBehindTheBit) {
  parked_at({3, 67});
  receive(Kind::kPutShared, 3);
  receive(Kind::kPutShared, 67);
  EXPECT_EQ(entry.state, DirState::kParked);
  EXPECT_EQ(entry.sharers, std::uint64_t{1} << 3);
}

TEST_F(CoarseParked, AWriteOfTheHomeExpectsTheLineAndThenTheGroupInvalidated) {
  parked_at({3});
  receive(Kind::kPutShared, 3);
  TestOp write(OpKind::kWrite);
  submit(write);
  EXPECT_THAT(env.did, ElementsAre("load"));
  receive(Kind::kPutShared, 67);  // perhaps it had one, too
  loaded(true);
  EXPECT_THAT(env.did, ElementsAre("held", "Invalidate to 3", "Invalidate to 67"));
  receive(Kind::kInvalidateAck, 3, {.requester = 0});
  receive(Kind::kInvalidateAck, 67, {.requester = 0});
  EXPECT_TRUE(write.done());
  EXPECT_EQ(entry.state, DirState::kUnshared);
  EXPECT_FALSE(filed());
}

TEST_F(CoarseParked, AFailedLoadExpectsItParked) {
  parked_at({3});
  receive(Kind::kGetShared, 5);
  loaded(false);
  EXPECT_THAT(env.did, ElementsAre("Failed to 5"));
  EXPECT_EQ(entry.state, DirState::kParked);
}

class CoarseUpgrade : public LineTest {
 protected:
  CoarseUpgrade() : LineTest(3, kNodes) {}
};

TEST_F(CoarseUpgrade, DataInAnswerToAnUpgradeExpectDirty) {
  TestOp read(OpKind::kRead);
  submit(read);
  receive(Kind::kData, 0);
  TestOp write(OpKind::kWrite);
  submit(write);
  EXPECT_THAT(env.did, ElementsAre("Upgrade to 0"));
  receive(Kind::kData, 0);
  EXPECT_EQ(ref.state(), CacheState::kDirty);
  EXPECT_TRUE(write.done());
}

}  // namespace
}  // namespace atoll::coherence
