// Receive ElementLock, which asks for an element or lets it go / Expect what the table says.
#include "unit/coherence/fake_element_env.hpp"

namespace atoll::coherence {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ReceiveElementLock : public ElementTest {};

// ---- asked for ----

TEST_F(ReceiveElementLock, OfAFreeElementExpectGranted) {
  EXPECT_THAT(write({1, 7}), ElementsAre("1.7 granted"));
  EXPECT_EQ(state(), ElementState::kWriting);
}

TEST_F(ReceiveElementLock, OfReadersExpectThatTheyShare) {
  EXPECT_THAT(read({1, 1}), ElementsAre("1.1 granted"));
  EXPECT_THAT(read({2, 1}), ElementsAre("2.1 granted"));
  EXPECT_THAT(try_read({1, 2}), ElementsAre("1.2 granted"));
  EXPECT_EQ(state(), ElementState::kReading);
}

TEST_F(ReceiveElementLock, OfAWriterBesideReadersExpectItWaitsForAllOfThem) {
  read({1, 1});
  read({2, 1});
  EXPECT_THAT(write({3, 1}), IsEmpty());
  EXPECT_THAT(release({1, 1}), IsEmpty());
  EXPECT_THAT(release({2, 1}), ElementsAre("3.1 granted"));
  EXPECT_EQ(state(), ElementState::kWriting);
}

TEST_F(ReceiveElementLock, OfAReaderBehindAWriterThatWaitsExpectItsTurnAfterIt) {
  read({1, 1});
  write({2, 1});
  EXPECT_THAT(read({3, 1}), IsEmpty());
  EXPECT_THAT(release({1, 1}), ElementsAre("2.1 granted"));
  EXPECT_EQ(state(), ElementState::kWritingQueued);
  EXPECT_THAT(release({2, 1}), ElementsAre("3.1 granted"));
  EXPECT_EQ(state(), ElementState::kReading);
}

TEST_F(ReceiveElementLock, OfSeveralReadersThatWaitExpectAllUpToTheNextWriter) {
  write({1, 1});
  read({2, 1});
  read({3, 1});
  write({2, 2});
  read({3, 2});
  EXPECT_THAT(release({1, 1}), ElementsAre("2.1 granted", "3.1 granted"));
  EXPECT_EQ(state(), ElementState::kReadingQueued);
  EXPECT_THAT(release({2, 1}), IsEmpty());
  EXPECT_THAT(release({3, 1}), ElementsAre("2.2 granted"));
  EXPECT_THAT(release({2, 2}), ElementsAre("3.2 granted"));
}

TEST_F(ReceiveElementLock, OfTheNeighbourExpectGranted) {
  write({1, 1});
  locks.request({2, 1}, neighbour, true, false);
  EXPECT_THAT(env.did, ElementsAre("1.1 granted", "2.1 granted"));
}

TEST_F(ReceiveElementLock, ThatTriesExpectAnAnswerAtOnce) {
  read({1, 1});
  EXPECT_THAT(try_write({2, 1}), ElementsAre("2.1 refused"));
  write({2, 2});
  EXPECT_THAT(try_read({3, 1}), ElementsAre("3.1 refused"));  // it would overtake the writer
  release({1, 1});
  EXPECT_THAT(try_write({3, 2}), ElementsAre("3.2 refused"));
  EXPECT_THAT(locks.book().requests, SizeIs(1));
  EXPECT_THAT(locks.book().requests_of, SizeIs(1));
}

// ---- let go ----

TEST_F(ReceiveElementLock, ThatLetsGoExpectNothingLeft) {
  read({1, 1});
  read({2, 1});
  release({2, 1});
  release({1, 1});
  EXPECT_TRUE(nothing_is_left());
  EXPECT_THAT(env.faults, IsEmpty());
}

TEST_F(ReceiveElementLock, ThatWithdrawsAWaitingWriterExpectTheReadersBehindItLetIn) {
  read({1, 1});
  write({2, 1});
  read({3, 1});
  read({1, 2});
  EXPECT_THAT(release({2, 1}), ElementsAre("3.1 granted", "1.2 granted"));
  EXPECT_EQ(state(), ElementState::kReading);
}

TEST_F(ReceiveElementLock, ThatWithdrawsWhatWasGrantedMeanwhileExpectItPassedOn) {
  write({1, 1});
  write({2, 1});
  write({3, 1});
  EXPECT_THAT(release({1, 1}), ElementsAre("2.1 granted"));
  EXPECT_THAT(release({2, 1}), ElementsAre("3.1 granted"));  // crossed the grant
}

TEST_F(ReceiveElementLock, ThatLetsGoTwiceOrWithoutALockExpectNothing) {
  EXPECT_THAT(release({1, 1}), IsEmpty());
  EXPECT_TRUE(nothing_is_left());
  write({1, 1});
  read({2, 1});
  EXPECT_THAT(release({3, 1}), IsEmpty());
  EXPECT_THAT(release({2, 9}), IsEmpty());
  EXPECT_THAT(release({2, 1}), IsEmpty());
  EXPECT_THAT(release({2, 1}), IsEmpty());
  EXPECT_EQ(state(), ElementState::kWriting);
  EXPECT_THAT(env.faults, IsEmpty());
}

// ---- what correct nodes do not send ----

TEST_F(ReceiveElementLock, OfATicketInUseExpectFault) {
  write({1, 1});
  EXPECT_THAT(write({1, 1}), IsEmpty());
  locks.request({1, 1}, neighbour, false, false);
  EXPECT_THAT(env.faults, SizeIs(2));
  EXPECT_EQ(state(), ElementState::kWriting);
}

TEST_F(ReceiveElementLock, ThatLetsGoOfAnotherElementExpectFault) {
  write({1, 1});
  locks.release({1, 1}, neighbour);
  EXPECT_THAT(env.faults, SizeIs(1));
  EXPECT_EQ(state(), ElementState::kWriting);
}

TEST_F(ReceiveElementLock, OfTooManyExpectAnErrorAndOthersServed) {
  for (std::uint64_t ticket = 0; ticket < kMost; ++ticket) read({1, ticket});
  EXPECT_THAT(read({1, 99}), ElementsAre("1.99 too many"));
  EXPECT_THAT(try_write({1, 99}), ElementsAre("1.99 too many"));
  locks.request({1, 99}, neighbour, true, false);
  EXPECT_THAT(env.did, ElementsAre("1.99 too many", "1.99 too many"));
  EXPECT_THAT(locks.book().elements, SizeIs(1));
  EXPECT_THAT(read({2, 1}), ElementsAre("2.1 granted"));
  release({1, 0});
  EXPECT_THAT(read({1, 99}), ElementsAre("1.99 granted"));
}

// ---- a node dies ----

TEST_F(ReceiveElementLock, AfterAReaderDiedExpectItsLockGone) {
  read({1, 1});
  read({2, 1});
  write({3, 1});
  EXPECT_THAT(died(1), IsEmpty());
  EXPECT_THAT(release({2, 1}), ElementsAre("3.1 granted"));
}

TEST_F(ReceiveElementLock, AfterAllReadersDiedExpectTheWriterLetIn) {
  read({1, 1});
  read({1, 2});
  write({2, 1});
  EXPECT_THAT(died(1), ElementsAre("2.1 granted"));
}

TEST_F(ReceiveElementLock, AfterTheWriterDiedExpectItRefusedToAll) {
  write({1, 1});
  read({2, 1});
  write({3, 1});
  EXPECT_THAT(died(1), ElementsAre("2.1 abandoned by 1", "3.1 abandoned by 1"));
  EXPECT_EQ(state(), ElementState::kAbandoned);
  EXPECT_THAT(read({2, 2}), ElementsAre("2.2 abandoned by 1"));
  EXPECT_THAT(try_write({3, 2}), ElementsAre("3.2 abandoned by 1"));
  EXPECT_THAT(release({2, 1}), IsEmpty());  // crossed the word of the death
  EXPECT_THAT(locks.book().requests, IsEmpty());
}

TEST_F(ReceiveElementLock, AfterOneDiedThatWaitedExpectTheOthersInOrder) {
  read({1, 1});
  write({2, 1});
  read({2, 2});
  read({3, 1});
  const auto did = died(2);
  EXPECT_THAT(did, ::testing::Contains("3.1 granted"));
  EXPECT_EQ(state(), ElementState::kReading);
  EXPECT_THAT(locks.book().requests, SizeIs(2));
  release({1, 1});
  release({3, 1});
  EXPECT_TRUE(nothing_is_left());
}

TEST_F(ReceiveElementLock, AfterADeathThatConcernsNobodyExpectNothing) {
  write({1, 1});
  EXPECT_THAT(died(2), IsEmpty());
  EXPECT_THAT(died(2), IsEmpty());
  EXPECT_EQ(state(), ElementState::kWriting);
}

// ---- a node dies, and will be back ----

class ReceiveElementLockLogged : public ElementTest {
 protected:
  void SetUp() override { env.logged = true; }
};

TEST_F(ReceiveElementLockLogged, AfterTheWriterDiedExpectAllWaitUntilItsReturn) {
  write({1, 1});
  read({2, 1});
  EXPECT_THAT(died(1), IsEmpty());
  EXPECT_EQ(state(), ElementState::kAwayQueued);
  EXPECT_THAT(read({3, 1}), IsEmpty());
  EXPECT_THAT(write({2, 2}), IsEmpty());
  EXPECT_THAT(returned(2), IsEmpty());
  EXPECT_THAT(returned(1), ElementsAre("2.1 granted", "3.1 granted"));
  EXPECT_EQ(state(), ElementState::kReadingQueued);
}

TEST_F(ReceiveElementLockLogged, AfterTheWriterDiedAndNobodyWaitedExpectFreeAtItsReturn) {
  write({1, 1});
  died(1);
  EXPECT_EQ(state(), ElementState::kAway);
  EXPECT_THAT(died(1), IsEmpty());  // its successor
  EXPECT_THAT(returned(1), IsEmpty());
  EXPECT_TRUE(nothing_is_left());
  EXPECT_THAT(write({1, 1}), ElementsAre("1.1 granted"));  // tickets of the successor begin anew
}

TEST_F(ReceiveElementLockLogged, ThatTriesWhileTheWriterIsAwayExpectRefused) {
  write({1, 1});
  died(1);
  EXPECT_THAT(try_read({2, 1}), ElementsAre("2.1 refused"));
  EXPECT_THAT(try_write({2, 1}), ElementsAre("2.1 refused"));
  write({2, 2});
  EXPECT_THAT(try_read({3, 1}), ElementsAre("3.1 refused"));
  EXPECT_THAT(returned(1), ElementsAre("2.2 granted"));
}

TEST_F(ReceiveElementLockLogged, ThatWithdrawsWhileTheWriterIsAwayExpectTheOthersServed) {
  write({1, 1});
  died(1);
  write({2, 1});
  write({3, 1});
  write({2, 2});
  EXPECT_THAT(release({2, 1}), IsEmpty());
  EXPECT_THAT(died(2), IsEmpty());  // with its second request
  EXPECT_THAT(returned(1), ElementsAre("3.1 granted"));
  EXPECT_EQ(state(), ElementState::kWriting);
}

TEST_F(ReceiveElementLockLogged, OfTooManyWhileTheWriterIsAwayExpectAnError) {
  write({1, 1});
  died(1);
  for (std::uint64_t ticket = 0; ticket < kMost; ++ticket) EXPECT_THAT(read({2, ticket}), IsEmpty());
  EXPECT_THAT(read({2, 99}), ElementsAre("2.99 too many"));
  for (std::uint64_t ticket = 0; ticket < kMost; ++ticket) release({2, ticket});
  for (std::uint64_t ticket = 0; ticket < kMost; ++ticket) locks.request({2, ticket}, neighbour, false, false);
  EXPECT_EQ(state(), ElementState::kAway);
  EXPECT_THAT(try_read({2, 99}), ElementsAre("2.99 too many"));
}

TEST_F(ReceiveElementLockLogged, AfterAReaderDiedExpectItsLockGone) {
  read({1, 1});
  write({2, 1});
  EXPECT_THAT(died(1), ElementsAre("2.1 granted"));
  EXPECT_THAT(returned(1), IsEmpty());
  EXPECT_EQ(state(), ElementState::kWriting);
}

// ---- this home died, and is back ----

class ReceiveReinstate : public ReceiveElementLockLogged {
 protected:
  void SetUp() override {
    env.logged = true;
    locks.close();
  }
};

TEST_F(ReceiveReinstate, OfReadersExpectAWriterToWaitForThem) {
  EXPECT_THAT(reinstate({1, 7}, false), IsEmpty());  // they know that they hold it
  EXPECT_THAT(reinstate({2, 7}, false), IsEmpty());
  EXPECT_EQ(state(), ElementState::kReading);
  locks.open();
  EXPECT_THAT(write({3, 1}), IsEmpty());
  EXPECT_THAT(read({1, 8}), IsEmpty());
  EXPECT_THAT(release({1, 7}), IsEmpty());
  EXPECT_THAT(release({2, 7}), ElementsAre("3.1 granted"));
  EXPECT_THAT(env.faults, IsEmpty());
}

TEST_F(ReceiveReinstate, OfAWriterExpectItAlone) {
  reinstate({1, 7}, true);
  locks.open();
  EXPECT_EQ(state(), ElementState::kWriting);
  EXPECT_THAT(try_read({2, 1}), ElementsAre("2.1 refused"));
  EXPECT_THAT(read({2, 2}), IsEmpty());
  EXPECT_THAT(release({1, 7}), ElementsAre("2.2 granted"));
}

TEST_F(ReceiveReinstate, ThatIsLetGoBeforeTheHomeIsOpenExpectNothingLeft) {
  reinstate({1, 7}, true);
  EXPECT_THAT(release({1, 7}), IsEmpty());
  locks.open();
  EXPECT_TRUE(nothing_is_left());
}

TEST_F(ReceiveReinstate, OfOneThatDiesBeforeTheHomeIsOpenExpectItAwaited) {
  reinstate({1, 7}, true);
  died(1);
  EXPECT_EQ(state(), ElementState::kAway);
  locks.open();
  EXPECT_THAT(write({2, 1}), IsEmpty());
  EXPECT_THAT(returned(1), ElementsAre("2.1 granted"));
}

TEST_F(ReceiveReinstate, OfTwoOfWhichOneWritesExpectFaultOfTheSecond) {
  reinstate({1, 7}, true);
  reinstate({2, 7}, true);
  EXPECT_THAT(env.faults, SizeIs(1));
  reinstate({2, 7}, false);
  EXPECT_THAT(env.faults, SizeIs(2));
  EXPECT_EQ(state(), ElementState::kWriting);
  died(1);
  reinstate({2, 7}, false);
  EXPECT_THAT(env.faults, SizeIs(3));
  EXPECT_THAT(locks.book().requests, IsEmpty());
  locks.reinstate({2, 7}, neighbour, false);
  locks.reinstate({3, 7}, neighbour, true);
  EXPECT_THAT(env.faults, SizeIs(4));
  EXPECT_THAT(locks.book().requests, SizeIs(1));
}

TEST_F(ReceiveReinstate, OfATicketInUseOrTooManyExpectFault) {
  reinstate({1, 7}, false);
  reinstate({1, 7}, false);
  EXPECT_THAT(env.faults, SizeIs(1));
  for (std::uint64_t ticket = 8; ticket < 7 + kMost; ++ticket) reinstate({1, ticket}, false);
  EXPECT_THAT(env.faults, SizeIs(1));
  reinstate({1, 99}, false);
  EXPECT_THAT(env.faults, SizeIs(2));
}

TEST_F(ReceiveReinstate, AtAnOpenHomeExpectFault) {
  locks.open();
  reinstate({1, 7}, false);
  EXPECT_THAT(env.faults, SizeIs(1));
  EXPECT_TRUE(nothing_is_left());
}

TEST_F(ReceiveReinstate, AndARequestBeforeTheHomeIsOpenExpectFault) {
  EXPECT_THAT(write({1, 7}), IsEmpty());
  EXPECT_THAT(try_read({1, 8}), IsEmpty());
  EXPECT_THAT(env.faults, SizeIs(2));
  EXPECT_THAT(locks.book().requests, IsEmpty());
}

}  // namespace
}  // namespace atoll::coherence
