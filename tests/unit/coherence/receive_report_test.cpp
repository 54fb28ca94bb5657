// Logged: deaths, and receive ReportShared, ReportDirty and what is sent again / Expect what the table says.
#include "unit/coherence/fake_env.hpp"

namespace atoll::coherence {
namespace {

class PeerDied : public LoggedHomeTest {};

TEST_F(PeerDied, ASharerExpectOneLess) {
  shared_by({1, 2});
  died(1);
  EXPECT_EQ(entry.sharers, 0b100U);
  died(2);
  EXPECT_EQ(entry.state, DirState::kUnshared);
  EXPECT_THAT(env.did, IsEmpty());
}

TEST_F(PeerDied, ASharerThatOwesAnAnswerExpectItCounts) {
  shared_by({1, 2});
  receive(Kind::kGetExclusive, 3);
  receive(Kind::kInvalidateAck, 1, {.requester = 3});
  EXPECT_THAT(env.did, IsEmpty());
  died(2);
  EXPECT_THAT(env.did, ElementsAre("log owner 3", "Data of 1 to 3 with data for slot 3"));
}

TEST_F(PeerDied, ASharerThatHasRefusedExpectItsRefusalIsOver) {
  shared_by({1, 2});
  receive(Kind::kGetExclusive, 3, {.is_try = true});
  receive(Kind::kInvalidateRefused, 1, {.requester = 3});
  died(1);
  EXPECT_THAT(env.did, IsEmpty()) << "the other one's answer is missing";
  receive(Kind::kInvalidateAck, 2, {.requester = 3});
  EXPECT_THAT(env.did, ElementsAre("log owner 3", "Data of 1 to 3 with data for slot 3"));
}

TEST_F(PeerDied, TheRequesterExpectTheLineForNobody) {
  shared_by({1, 2});
  receive(Kind::kUpgrade, 1);
  died(1);
  EXPECT_EQ(entry.state, DirState::kSharedToUnshared);
  TestOp read(OpKind::kRead);
  submit(read);
  receive(Kind::kInvalidateAck, 2, {.requester = 1});
  EXPECT_THAT(env.did, IsEmpty());
  EXPECT_EQ(entry.state, DirState::kUnshared);
  EXPECT_TRUE(read.done());
}

TEST_F(PeerDied, TheRequesterOfARecallExpectTheLineHome) {
  owned_by(1);
  receive(Kind::kGetExclusive, 2);
  died(2);
  EXPECT_EQ(entry.state, DirState::kDirtyToUnshared);
  receive(Kind::kTransfer, 1, {.tenure = 1});
  EXPECT_THAT(env.did, ElementsAre("take from 1 slot 3", "PutAck to 1 when durable"));
  EXPECT_EQ(entry.state, DirState::kUnshared);
}

TEST_F(PeerDied, WhoWaitsExpectItsTurnIsOver) {
  owned_by(1);
  receive(Kind::kGetShared, 2);
  receive(Kind::kGetExclusive, 3);
  died(3);
  receive(Kind::kWriteBack, 1, {.tenure = 1});
  EXPECT_EQ(env.did.back(), "Data to 2 with data for slot 3");
  EXPECT_EQ(entry.state, DirState::kShared);
}

TEST_F(PeerDied, TheOwnerExpectEverybodyWaitsUntilItBringsTheLine) {
  owned_by(1);
  receive(Kind::kGetShared, 2);
  TestOp write(OpKind::kWrite);
  submit(write);
  died(1);
  EXPECT_EQ(entry.state, DirState::kOrphaned);
  EXPECT_THAT(env.did, IsEmpty());
  receive(Kind::kGetShared, 3, {.is_try = true});
  EXPECT_THAT(env.did, ElementsAre("Refused to 3"));
  receive(Kind::kPutDirty, 1, {.tenure = 1});
  EXPECT_THAT(env.did, ElementsAre("take from 1 slot 3", "PutAck to 1 when durable", "Data to 2 with data for slot 3",
                                   "Invalidate to 2"));
}

TEST_F(PeerDied, TheOwnerOfATryExpectItsRefusal) {
  owned_by(1);
  receive(Kind::kGetShared, 2, {.is_try = true});
  died(1);
  EXPECT_THAT(env.did, ElementsAre("Refused to 2"));
}

TEST_F(PeerDied, TheOwnerThatIsBackWithoutAWordExpectTheHomesOwnLine) {
  owned_by(1);
  died(1);
  TestOp write(OpKind::kWrite);
  submit(write);
  owner_back(2);
  EXPECT_EQ(entry.state, DirState::kOrphaned);
  receive(Kind::kPutDirty, 1, {.tenure = 0});  // of a tenure before
  EXPECT_THAT(env.did, ElementsAre("PutAck to 1 when durable"));
  owner_back(1);
  EXPECT_EQ(entry.state, DirState::kUnshared);
  EXPECT_EQ(entry.transfers, 2U);
  EXPECT_TRUE(write.done());
}

TEST_F(PeerDied, ANodeThatHasNothingExpectNothing) {
  owned_by(1);
  died(2);
  EXPECT_EQ(entry.owner, 1);
  EXPECT_EQ(entry.state, DirState::kDirty);
}

class ReceiveReport : public LoggedHomeTest {};

TEST_F(ReceiveReport, SharedExpectASharerEach) {
  protocol.restore_home(ref, 4, kNoNode);
  receive(Kind::kReportShared, 1);
  receive(Kind::kReportShared, 2);
  EXPECT_EQ(entry.state, DirState::kShared);
  EXPECT_EQ(entry.sharers, 0b110U);
  EXPECT_EQ(entry.transfers, 4U);
  EXPECT_THAT(env.did, IsEmpty());
}

TEST_F(ReceiveReport, DirtyExpectTheOwnerThatTheLogNames) {
  protocol.restore_home(ref, 4, 1);
  EXPECT_EQ(entry.state, DirState::kOrphaned);
  receive(Kind::kReportDirty, 1, {.tenure = 4});
  EXPECT_EQ(entry.state, DirState::kDirty);
  owner_back(1);
  EXPECT_EQ(entry.state, DirState::kDirty);
}

TEST_F(ReceiveReport, DirtyOfATenureThatTheLogHasLostExpectItIsBelieved) {
  protocol.restore_home(ref, 4, kNoNode);
  receive(Kind::kReportDirty, 2, {.tenure = 5});
  EXPECT_EQ(entry.owner, 2);
  EXPECT_EQ(entry.transfers, 5U);
}

TEST_F(ReceiveReport, SharedByTheOwnerExpectItNeverHeardOfItsPermission) {
  protocol.restore_home(ref, 4, 1);
  receive(Kind::kReportShared, 1);
  EXPECT_THAT(env.did, ElementsAre(::testing::StartsWith("log owner")));
  EXPECT_EQ(entry.state, DirState::kShared);
  EXPECT_EQ(entry.transfers, 5U);
}

TEST_F(ReceiveReport, ARepeatedWriteBackExpectItIsTakenAndTheSenderReads) {
  protocol.restore_home(ref, 4, 1);
  receive(Kind::kWriteBack, 1, {.tenure = 4});
  EXPECT_THAT(env.did, ElementsAre("take from 1 slot 3", "PutAck to 1 when durable"));
  receive(Kind::kReportShared, 1);
  EXPECT_EQ(entry.sharers, 0b10U);
  EXPECT_EQ(entry.transfers, 5U);
}

TEST_F(ReceiveReport, WhatCannotBeExpectFault) {
  protocol.restore_home(ref, 4, 1);
  expect_fault(Kind::kReportShared, 2);  // of what another node owns
  expect_fault(Kind::kReportDirty, 1);   // of a tenure that is over
  EXPECT_EQ(entry.state, DirState::kOrphaned);
}

TEST_F(ReceiveReport, WhereNothingIsLoggedExpectFault) {
  env.logged = false;
  expect_fault(Kind::kReportShared, 1);
  expect_fault(Kind::kReportDirty, 1);
}

class HomeDied : public LoggedCacheTest {};

TEST_F(HomeDied, SharedExpectAReportAndTheCopyStays) {
  become_shared();
  home_back();
  EXPECT_THAT(env.did, ElementsAre("ReportShared to 0"));
  home_open();
  EXPECT_THAT(env.did, IsEmpty());
  EXPECT_EQ(state(), CacheState::kShared);
}

TEST_F(HomeDied, DirtyExpectAReportWithItsTenure) {
  become_dirty_in(5);
  home_back();
  EXPECT_THAT(env.did, ElementsAre("ReportDirty of 5 to 0"));
}

TEST_F(HomeDied, ReturningExpectTheReturnAgain) {
  become_dirty_in(5);
  ASSERT_TRUE(protocol.evict(ref));
  home_back();
  EXPECT_THAT(env.did, ElementsAre("PutDirty of 5 to 0"));
}

TEST_F(HomeDied, WritingBackExpectTheWriteBackAgainAndAReport) {
  become_dirty_in(5);
  receive(Kind::kForwardShared, 0, {.requester = 0});
  home_back();
  EXPECT_THAT(env.did, ElementsAre("WriteBack of 5 to 0", "ReportShared to 0"));
}

TEST_F(HomeDied, AskingExpectTheRequestAgainWhenItIsOpen) {
  ask_shared();
  home_back();
  EXPECT_THAT(env.did, IsEmpty());
  home_open();
  EXPECT_THAT(env.did, ElementsAre("GetShared to 0"));
}

TEST_F(HomeDied, UpgradingExpectAReportAndTheRequestAgain) {
  become_shared();
  submit(write);
  home_back();
  EXPECT_THAT(env.did, ElementsAre("ReportShared to 0"));
  home_open();
  EXPECT_THAT(env.did, ElementsAre("Upgrade to 0"));
}

TEST_F(HomeDied, TryingExpectATryAgain) {
  TestOp attempt(OpKind::kTryWriteLock);
  submit(attempt);
  home_back();
  home_open();
  EXPECT_THAT(env.did, ElementsAre("GetExclusive (try) to 0"));
}

TEST_F(HomeDied, WhatALockHeldBackExpectItIsForgotten) {
  become_dirty_in(5);
  TestOp lock(OpKind::kWriteLock);
  submit(lock);
  receive(Kind::kForwardExclusive, 0, {.requester = 0});
  protocol.home_died(ref);
  unlock(true);
  EXPECT_THAT(env.did, IsEmpty());
  EXPECT_EQ(state(), CacheState::kDirty);
}

TEST_F(HomeDied, ThisNodeIsBackExpectItReturnsWhatItHadWritten) {
  line.slot = 1 + FakeEnv::kSlot;
  protocol.restore_returning(ref, 7);
  home_back();
  EXPECT_THAT(env.did, ElementsAre("PutDirty of 7 to 0"));
  submit(read);
  EXPECT_THAT(env.did, IsEmpty());
  receive(Kind::kPutAck, 0);
  EXPECT_THAT(env.did, ElementsAre("GetShared to 0"));
}

}  // namespace
}  // namespace atoll::coherence
