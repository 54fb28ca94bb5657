// What waits at a node: reads and writes, locks, tries, and when each may go ahead.
#include "unit/coherence/fake_env.hpp"

namespace atoll::coherence {
namespace {

class HomeQueues : public HomeTest {};
class CacheQueues : public CacheTest {};

TEST_F(HomeQueues, AWriteBehindABlockedRequestHidesTheLine) {
  shared_by({1});
  TestOp lock(OpKind::kReadLock);
  submit(lock);
  ASSERT_EQ(access(), detail::kReadable);
  receive(Kind::kUpgrade, 1);  // waits for the lock
  TestOp write(OpKind::kWrite);
  submit(write);  // waits for node 1
  EXPECT_EQ(access(), 0) << "the writer must not read the old value by a hit";
}

TEST_F(HomeQueues, AHolderReadsThoughOthersWaitBeforeIt) {
  shared_by({1});
  TestOp lock(OpKind::kReadLock);
  submit(lock);
  receive(Kind::kUpgrade, 1);
  TestOp write(OpKind::kWrite);
  submit(write);
  TestOp read(OpKind::kRead);
  read.under_lock = true;
  submit(read);
  EXPECT_TRUE(read.done()) << "the write waits for node 1, which waits for the lock";
  EXPECT_FALSE(write.done());
}

TEST_F(HomeQueues, TheHomesWishTakesItsTurnAmongRequests) {
  owned_by(1);
  receive(Kind::kGetExclusive, 2);
  TestOp write(OpKind::kWrite);
  submit(write);
  receive(Kind::kGetExclusive, 3);  // came after the home's own
  receive(Kind::kTransfer, 1, {.requester = 2});
  EXPECT_THAT(env.did, ElementsAre("log owner 2", "Grant to 2", "ForwardExclusive to 2"));
  receive(Kind::kTransfer, 2, {.requester = 0});
  EXPECT_TRUE(write.done());
}

TEST_F(HomeQueues, TheWaitersBitIsSetWhileRequestsAreQueued) {
  owned_by(1);
  receive(Kind::kGetExclusive, 2);
  EXPECT_EQ(line.lock.load(), 0U);
  receive(Kind::kGetExclusive, 3);
  EXPECT_EQ(line.lock.load(), detail::kLockWaiters);
  receive(Kind::kTransfer, 1, {.requester = 2});
  EXPECT_EQ(line.lock.load(), 0U);
}

TEST_F(HomeQueues, AnOperationIsTakenBackAndTheRecordGoes) {
  TestOp lock(OpKind::kWriteLock);
  submit(lock);
  TestOp second(OpKind::kWriteLock);
  submit(second);
  EXPECT_TRUE(protocol.cancel(ref, second));
  EXPECT_FALSE(protocol.cancel(ref, second));
  EXPECT_EQ(env.find_cold(ref), nullptr);
  EXPECT_EQ(line.lock.load(), detail::kLockWriter);
}

TEST_F(CacheQueues, WithoutASlotAReadIsAskedForLater) {
  env.slots_left = false;
  submit(read);
  EXPECT_THAT(env.did, IsEmpty());
  env.slots_left = true;
  protocol.pursue(ref);
  EXPECT_THAT(env.did, ElementsAre("GetShared to 0"));
}

TEST_F(CacheQueues, WithoutASlotATryIsRefused) {
  env.slots_left = false;
  TestOp attempt(OpKind::kTryReadLock);
  submit(attempt);
  EXPECT_TRUE(attempt.refused());
}

TEST_F(CacheQueues, LocksOfOneNodeGoInOrder) {
  TestOp first(OpKind::kWriteLock);
  TestOp second(OpKind::kReadLock);
  TestOp third(OpKind::kReadLock);
  submit(first);
  submit(second);
  submit(third);
  receive(Kind::kData, 0);
  EXPECT_TRUE(first.done());
  EXPECT_FALSE(second.done());
  unlock(true);
  EXPECT_TRUE(second.done() && third.done());
}

TEST_F(CacheQueues, AReadAheadThatNobodyWaitsForEndsShared) {
  EXPECT_TRUE(protocol.read_ahead(ref));
  EXPECT_FALSE(protocol.read_ahead(ref));
  receive(Kind::kData, 0);
  EXPECT_EQ(state(), CacheState::kShared);
  EXPECT_EQ(access(), 0) << "raised only for a thread that comes for it";
}

TEST_F(CacheQueues, ALockedOrBusyLineIsNotEvicted) {
  ask_shared();
  EXPECT_FALSE(protocol.evict(ref));
  receive(Kind::kData, 0);
  ASSERT_TRUE(take_lock(line.lock, false));
  EXPECT_FALSE(protocol.evict(ref));
  EXPECT_EQ(line.lock.load(), 1U);
  unlock(false);
  EXPECT_TRUE(protocol.evict(ref));
  EXPECT_THAT(env.did, ElementsAre("quiesce", "PutShared to 0"));
}

}  // namespace
}  // namespace atoll::coherence
