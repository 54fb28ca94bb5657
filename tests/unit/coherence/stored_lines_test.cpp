// What the home does with lines that have a file: fetch, load, file, drop, soil / Expect what the tables say.
#include "unit/coherence/fake_env.hpp"

namespace atoll::coherence {
namespace {

// ---- fetch and load

class StoredLineFetched : public FileHomeTest {};

TEST_F(StoredLineFetched, ByAReadOfTheHomeExpectItRead) {
  TestOp read(OpKind::kRead);
  submit(read);
  EXPECT_THAT(env.did, ElementsAre("load"));
  EXPECT_EQ(entry.state, DirState::kFetching);
  EXPECT_FALSE(read.done());
  loaded(true);
  EXPECT_THAT(env.did, ElementsAre("held"));
  EXPECT_TRUE(read.done());
  EXPECT_EQ(entry.state, DirState::kUnshared);
  EXPECT_EQ(access(), detail::kReadable);  // who writes comes here before
  EXPECT_TRUE(filed());
  EXPECT_EQ(env.find_cold(ref), nullptr);
}

TEST_F(StoredLineFetched, ByAWriteOfTheHomeExpectItWrittenAndNotAsFiled) {
  TestOp write(OpKind::kWrite);
  submit(write);
  loaded(true);
  EXPECT_TRUE(write.done());
  EXPECT_FALSE(filed());
  EXPECT_EQ(access(), detail::kReadable | detail::kWritable);
}

TEST_F(StoredLineFetched, ByAnotherNodeExpectDataWhenItIsHere) {
  receive(Kind::kGetShared, 1);
  EXPECT_THAT(env.did, ElementsAre("load"));
  loaded(true);
  EXPECT_THAT(env.did, ElementsAre("held", "Data to 1 with data for slot 3"));
  EXPECT_EQ(entry.state, DirState::kShared);
  EXPECT_TRUE(filed());
}

TEST_F(StoredLineFetched, ByAWriterElsewhereExpectItGivenAwayAndNotAsFiled) {
  receive(Kind::kGetExclusive, 1);
  loaded(true);
  EXPECT_THAT(env.did, ElementsAre("held", "log owner 1", "Data to 1 with data for slot 3", "not held"));
  EXPECT_EQ(entry.state, DirState::kDirty);
  EXPECT_FALSE(filed());
  receive(Kind::kPutDirty, 1);
  EXPECT_FALSE(filed());
  EXPECT_FALSE(protocol.drop(ref));
}

TEST_F(StoredLineFetched, ByAnOperatorExpectTheGrant) {
  receive(Kind::kGetOperated, 1, {.operation = 1});
  EXPECT_THAT(env.did, ElementsAre("load"));
  loaded(true);
  EXPECT_THAT(env.did, ElementsAre("held", "Grant to 1"));
  EXPECT_EQ(entry.state, DirState::kOperated);
  EXPECT_FALSE(filed());
}

TEST_F(StoredLineFetched, AheadExpectItHereForNobody) {
  EXPECT_TRUE(protocol.fetch_home(ref));
  EXPECT_FALSE(protocol.fetch_home(ref));  // it is on its way
  loaded(true);
  EXPECT_THAT(env.did, ElementsAre("held"));
  EXPECT_FALSE(protocol.fetch_home(ref));  // it is here
  EXPECT_EQ(access(), 0U);
}

TEST_F(StoredLineFetched, ByATryExpectItTakenWhenTheLineIsHere) {
  TestOp lock(OpKind::kTryWriteLock);
  submit(lock);
  EXPECT_THAT(env.did, ElementsAre("load"));
  EXPECT_FALSE(lock.result.has_value());
  loaded(true);
  EXPECT_TRUE(lock.done());
  EXPECT_FALSE(filed());  // its holder may write
  unlock(true);
}

TEST_F(StoredLineFetched, ByATryOfAnotherNodeExpectDataWhenTheLineIsHere) {
  receive(Kind::kGetShared, 1, {.is_try = true});
  EXPECT_THAT(env.did, ElementsAre("load"));
  loaded(true);
  EXPECT_THAT(env.did, ElementsAre("held", "Data to 1 with data for slot 3"));
}

TEST_F(StoredLineFetched, ATryThatMeetsItOnItsWayExpectRefused) {
  receive(Kind::kGetShared, 1);
  receive(Kind::kGetShared, 2, {.is_try = true});
  EXPECT_THAT(env.did, ElementsAre("Refused to 2"));
  TestOp lock(OpKind::kTryReadLock);
  submit(lock);
  EXPECT_TRUE(lock.refused());
}

TEST_F(StoredLineFetched, AWriteThatIsToBeDoneHereExpectRefused) {
  receive(Kind::kWriteHome, 1);
  EXPECT_THAT(env.did, ElementsAre("Refused to 1"));
  EXPECT_EQ(entry.state, DirState::kStored);
  receive(Kind::kGetShared, 2);
  receive(Kind::kWriteHome, 1);
  EXPECT_THAT(env.did, ElementsAre("Refused to 1"));
  EXPECT_EQ(entry.state, DirState::kFetching);
}

TEST_F(StoredLineFetched, AndItsWriteTakenBackMeanwhileExpectItHereAsFiled) {
  TestOp write(OpKind::kWrite);
  submit(write);
  EXPECT_TRUE(protocol.cancel(ref, write));
  loaded(true);
  EXPECT_FALSE(write.result.has_value());
  EXPECT_EQ(entry.state, DirState::kUnshared);
  EXPECT_EQ(env.find_cold(ref), nullptr);
}

// ---- a file that cannot be read

class StoredLineFailed : public FileHomeTest {};

TEST_F(StoredLineFailed, ExpectAllWhoWaitTold) {
  receive(Kind::kGetShared, 1);
  TestOp read(OpKind::kRead);
  TestOp lock(OpKind::kWriteLock);
  submit(read);
  submit(lock);
  receive(Kind::kGetExclusive, 2);
  loaded(false);
  EXPECT_THAT(env.did, ElementsAre("Failed to 1", "Failed to 2"));
  EXPECT_EQ(read.result, Errc::kStorage);
  EXPECT_EQ(lock.result, Errc::kStorage);
  EXPECT_FALSE(read.performed);
  EXPECT_EQ(entry.state, DirState::kStored);
  EXPECT_TRUE(filed());
  EXPECT_EQ(env.find_cold(ref), nullptr);
  EXPECT_EQ(line.lock.load(), 0U);
}

TEST_F(StoredLineFailed, ATryOfTheHomeExpectItTold) {
  TestOp lock(OpKind::kTryReadLock);
  submit(lock);
  loaded(false);
  EXPECT_EQ(lock.result, Errc::kStorage);
  EXPECT_EQ(env.find_cold(ref), nullptr);
}

TEST_F(StoredLineFailed, TheNextWhoComesExpectItReadAgain) {
  receive(Kind::kGetShared, 1);
  loaded(false);
  receive(Kind::kGetShared, 1);
  EXPECT_THAT(env.did, ElementsAre("load"));
  loaded(true);
  EXPECT_EQ(entry.state, DirState::kShared);
}

TEST_F(StoredLineFailed, WithCopiesElsewhereExpectThemKnown) {
  parked_at({1, 2});
  receive(Kind::kUpgrade, 1);
  EXPECT_THAT(env.did, ElementsAre("load"));
  receive(Kind::kPutShared, 2);
  loaded(false);
  EXPECT_THAT(env.did, ElementsAre("Failed to 1"));
  EXPECT_EQ(entry.state, DirState::kParked);
  EXPECT_EQ(entry.sharers, 0b10U);
}

// ---- file and soil

class HeldLineFiled : public FileHomeTest {
 protected:
  void write_here() {
    TestOp write(OpKind::kWrite);
    submit(write);
    if (entry.state == DirState::kFetching) loaded(true);
    EXPECT_TRUE(write.done());
    EXPECT_FALSE(filed());
    env.did.clear();
  }
};

TEST_F(HeldLineFiled, ExpectItsWritersWaitedForAndItsReadersLeft) {
  write_here();
  EXPECT_TRUE(protocol.file(ref));
  EXPECT_THAT(env.did, ElementsAre("quiesce"));
  EXPECT_TRUE(filed());
  EXPECT_EQ(access(), detail::kReadable);
}

TEST_F(HeldLineFiled, AndWrittenExpectItSoiled) {
  write_here();
  ASSERT_TRUE(protocol.file(ref));
  TestOp again(OpKind::kWrite);
  submit(again);
  EXPECT_TRUE(again.done());
  EXPECT_FALSE(filed());
  EXPECT_EQ(access(), detail::kReadable | detail::kWritable);
}

TEST_F(HeldLineFiled, AndLockedToWriteExpectItSoiled) {
  become_filed();
  TestOp lock(OpKind::kWriteLock);
  submit(lock);
  EXPECT_TRUE(lock.done());
  EXPECT_FALSE(filed());
  unlock(true);
}

TEST_F(HeldLineFiled, AndLockedToReadExpectItStillFiled) {
  become_filed();
  TestOp lock(OpKind::kReadLock);
  submit(lock);
  EXPECT_TRUE(lock.done());
  EXPECT_TRUE(filed());
  unlock(false);
}

TEST_F(HeldLineFiled, AndWrittenForAnotherNodeExpectItSoiled) {
  become_filed();
  receive(Kind::kWriteHome, 1);
  EXPECT_THAT(env.did, ElementsAre("write for 1", "Written to 1"));
  EXPECT_FALSE(filed());
}

/// The runtime writes by itself then, and nothing would say that the file is old.
TEST_F(HeldLineFiled, AndAskedForWhatIsToBeWrittenAtOnceExpectNo) {
  become_filed();
  EXPECT_FALSE(protocol.may_write_for(ref));
  protocol.wrote_for(ref);
  protocol.soil(ref);
  EXPECT_TRUE(protocol.may_write_for(ref));
  protocol.wrote_for(ref);
}

TEST_F(HeldLineFiled, UnderAWriteLockExpectNo) {
  become_filed();
  TestOp lock(OpKind::kWriteLock);
  submit(lock);
  EXPECT_FALSE(protocol.file(ref));
  EXPECT_FALSE(filed());
  unlock(true);
  EXPECT_TRUE(protocol.file(ref));
}

TEST_F(HeldLineFiled, UnderAReadLockExpectYesAndAWaitingWriterToSoilIt) {
  become_filed();
  protocol.soil(ref);
  TestOp reader(OpKind::kReadLock);
  TestOp writer(OpKind::kWriteLock);
  submit(reader);
  submit(writer);
  EXPECT_TRUE(protocol.file(ref));
  unlock(false);
  EXPECT_TRUE(writer.done());
  EXPECT_FALSE(filed());
  unlock(true);
}

TEST_F(HeldLineFiled, WithSharersExpectThemToReadOn) {
  write_here();
  shared_by({1});
  EXPECT_TRUE(protocol.file(ref));
  EXPECT_EQ(entry.state, DirState::kShared);
  EXPECT_TRUE(filed());
}

TEST_F(HeldLineFiled, WhereItIsNotAtRestExpectNo) {
  EXPECT_FALSE(protocol.file(ref));  // it is not here
  receive(Kind::kGetExclusive, 1);
  loaded(true);
  ASSERT_EQ(entry.state, DirState::kDirty);
  EXPECT_FALSE(protocol.file(ref));
  receive(Kind::kGetShared, 2);
  EXPECT_FALSE(protocol.file(ref));
  EXPECT_FALSE(filed());
}

TEST_F(HeldLineFiled, AndTheWritingFailedExpectItKept) {
  write_here();
  ASSERT_TRUE(protocol.file(ref));
  protocol.soil(ref);
  EXPECT_FALSE(filed());
  EXPECT_FALSE(protocol.drop(ref));
}

// ---- drop

class HeldLineDropped : public FileHomeTest {};

TEST_F(HeldLineDropped, ExpectItNowhereButInItsFile) {
  become_filed();
  TestOp read(OpKind::kRead);
  submit(read);
  env.did.clear();
  EXPECT_TRUE(protocol.drop(ref));
  EXPECT_THAT(env.did, ElementsAre("quiesce", "not held"));
  EXPECT_EQ(entry.state, DirState::kStored);
  EXPECT_EQ(access(), 0U);
  EXPECT_FALSE(is_whole(line.version.load()));
  EXPECT_EQ(line.lock.load(), 0U);
}

TEST_F(HeldLineDropped, WithSharersExpectItParkedAndThenStored) {
  parked_at({1, 2});
  EXPECT_EQ(entry.sharers, 0b110U);
  receive(Kind::kPutShared, 1);
  EXPECT_EQ(entry.state, DirState::kParked);
  receive(Kind::kPutShared, 2);
  EXPECT_EQ(entry.state, DirState::kStored);
  EXPECT_THAT(env.did, IsEmpty());
  expect_fault(Kind::kPutShared, 2);
}

TEST_F(HeldLineDropped, NotAsFiledExpectNo) {
  become_filed();
  protocol.soil(ref);
  EXPECT_FALSE(protocol.drop(ref));
  EXPECT_EQ(entry.state, DirState::kUnshared);
}

TEST_F(HeldLineDropped, LockedExpectNoBeforeTheUnlock) {
  become_filed();
  TestOp lock(OpKind::kReadLock);
  submit(lock);
  EXPECT_FALSE(protocol.drop(ref));
  EXPECT_EQ(entry.state, DirState::kUnshared);
  unlock(false);
  EXPECT_TRUE(protocol.drop(ref));
}

TEST_F(HeldLineDropped, AwaitedExpectNo) {
  become_filed();
  TestOp lock(OpKind::kReadLock);
  submit(lock);
  receive(Kind::kGetExclusive, 1);  // blocked by the lock
  EXPECT_FALSE(protocol.drop(ref));
  unlock(false);
  EXPECT_EQ(entry.state, DirState::kDirty);
  EXPECT_FALSE(protocol.drop(ref));
}

TEST_F(HeldLineDropped, AndReadByTheHomeExpectItFetchedFromTheFileOrASharer) {
  parked_at({1, 2});
  TestOp read(OpKind::kRead);
  submit(read);
  EXPECT_THAT(env.did, ElementsAre("load"));
  loaded(true);
  EXPECT_TRUE(read.done());
  EXPECT_EQ(entry.state, DirState::kShared);
  ASSERT_TRUE(protocol.drop(ref));
  env.nearest = 2;
  TestOp write(OpKind::kWrite);
  submit(write);
  EXPECT_THAT(env.did, ElementsAre("FetchCopy to 2"));
  receive(Kind::kCopy, 2);
  EXPECT_THAT(env.did, ElementsAre("held", "Invalidate to 1", "Invalidate to 2"));
  receive(Kind::kInvalidateAck, 1, {.requester = 0});
  receive(Kind::kInvalidateAck, 2, {.requester = 0});
  EXPECT_TRUE(write.done());
  EXPECT_FALSE(filed());
}

}  // namespace
}  // namespace atoll::coherence
