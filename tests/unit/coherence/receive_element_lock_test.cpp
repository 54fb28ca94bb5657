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

}  // namespace
}  // namespace atoll::coherence
