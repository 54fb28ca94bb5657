#include "explorer/mutants.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <iterator>

namespace atoll::explorer {
namespace {

using coherence::CacheAction;
using coherence::CacheEvent;
using coherence::CacheState;
using coherence::DirAction;
using coherence::DirEvent;
using coherence::DirState;
using coherence::Tables;

template <typename State, typename Action>
void put(coherence::Cell<State, Action>& cell, State next, std::initializer_list<Action> actions) {
  cell.next = next;
  cell.actions = {};
  cell.action_count = 0;
  for (Action action : actions) cell.actions[cell.action_count++] = action;
}

void home(Tables& tables, DirState state, DirEvent event, DirState next, std::initializer_list<DirAction> actions) {
  put(tables.directory.at(state, event), next, actions);
}

void cache(Tables& tables, CacheState state, CacheEvent event, CacheState next,
           std::initializer_list<CacheAction> actions) {
  put(tables.cache.at(state, event), next, actions);
}

// clang-format off
#define S DirState
#define E DirEvent
#define A DirAction
constexpr Mutant kHomeMutants[] = {
  {"ack-not-awaited", "The first answer of a sharer counts as the last: a writer is let in while another copy is read.", 4, 1,
   [](Tables& t) { home(t, S::kSharedToDirty, E::kAnswer, S::kDirty, {A::kTally, A::kClearSharers, A::kLogTransfer, A::kSetOwner, A::kAnswerPending}); }},
  {"invalidation-not-awaited", "The line is granted with the invalidations still under way.", 3, 1,
   [](Tables& t) { home(t, S::kShared, E::kGetExclusive, S::kDirty, {A::kWithdrawAll, A::kLogTransfer, A::kSetOwner, A::kSendData}); }},
  {"sharer-forgotten", "A second reader gets its data but is not written down.", 3, 1,
   [](Tables& t) { home(t, S::kShared, E::kGetShared, S::kShared, {A::kSendData}); }},
  {"downgraded-owner-forgotten", "After a write-back the reader is written down, the former owner not.", 3, 1,
   [](Tables& t) { home(t, S::kDirtyToShared, E::kWriteBack, S::kShared, {A::kClearOwner, A::kAddSharer, A::kAnswerPending}); }},
  {"grant-before-log", "Ownership is granted first and logged after: a crash in between leaves a writer that nobody knows.", 3, 1,
   [](Tables& t) { home(t, S::kSharedToDirty, E::kAllGone, S::kDirty, {A::kTally, A::kClearSharers, A::kSetOwner, A::kAnswerPending, A::kLogTransfer}); }},
  {"upgrade-not-logged", "The upgrade of the only sharer moves ownership without a record.", 2, 1,
   [](Tables& t) { home(t, S::kShared, E::kUpgradeSole, S::kDirty, {A::kWithdrawAll, A::kRemember, A::kSetOwner, A::kAnswerPending}); }},
  {"home-keeps-writing", "The home gives a copy away without waiting for its own writers.", 2, 1,
   [](Tables& t) { home(t, S::kUnshared, E::kGetShared, S::kShared, {A::kAddSharer, A::kSendData}); }},
  {"home-keeps-reading", "The home gives the line away without waiting for its own readers.", 2, 1,
   [](Tables& t) { home(t, S::kUnshared, E::kGetExclusive, S::kDirty, {A::kWithdrawWrite, A::kLogTransfer, A::kSetOwner, A::kSendData}); }},
  {"return-taken-for-answer", "A return that crosses a forward is taken for the answer to it, and the requester forgotten.", 2, 1,
   [](Tables& t) { home(t, S::kDirtyToShared, E::kPutDirty, S::kUnshared, {A::kClearOwner, A::kPutAck}); }},
  {"return-not-acknowledged", "A return that crosses a forward is dropped without a word.", 2, 1,
   [](Tables& t) { home(t, S::kDirtyToShared, E::kPutDirty, S::kDirtyToShared, {}); }},
  {"stale-return-taken", "A return by a node that has since given the line away is taken for the owner's.", 3, 1,
   [](Tables& t) { home(t, S::kDirty, E::kPutDirtyStale, S::kUnshared, {A::kClearOwner, A::kPutAck}); }},
  {"request-dropped", "A request that meets a busy line is dropped in place of queued.", 3, 1,
   [](Tables& t) { home(t, S::kDirtyToShared, E::kGetExclusive, S::kDirtyToShared, {}); }},
  {"lock-at-home-ignored", "A writer is let in although a thread of the home holds a read lock.", 2, 1,
   [](Tables& t) { home(t, S::kShared, E::kBlocked, S::kSharedToDirty, {A::kWithdrawAll, A::kRemember, A::kInvalidateOthers}); }},
  {"refusal-ignored", "A sharer's refusal of a try is counted as an acknowledgement.", 3, 1,
   [](Tables& t) { home(t, S::kSharedToDirty, E::kSomeRefused, S::kDirty, {A::kTally, A::kClearSharers, A::kLogTransfer, A::kSetOwner, A::kAnswerPending}); }},
  {"written-under-lock", "A write is done for another node although a thread of the home holds a lock.", 2, 1,
   [](Tables& t) { home(t, S::kUnshared, E::kWriteElsewhere, S::kUnshared, {A::kWrite}); }},
  {"written-beside-copies", "A write is done for another node while others have copies.", 3, 1,
   [](Tables& t) { home(t, S::kShared, E::kWriteElsewhere, S::kShared, {A::kWrite}); }},
  {"written-without-the-line", "A write is done at the home while another node owns the line.", 3, 1,
   [](Tables& t) { home(t, S::kDirty, E::kWriteElsewhere, S::kDirty, {A::kWrite}); }},
  {"write-unanswered", "A write that the home cannot do is dropped.", 2, 1,
   [](Tables& t) { home(t, S::kUnshared, E::kWriteElsewhere, S::kUnshared, {}); }},
  {"operators-not-recalled", "A copy is given to a reader while operands are elsewhere.", 3, 1,
   [](Tables& t) { home(t, S::kOperated, E::kGetShared, S::kOperated, {A::kSendData}); }},
  {"recall-not-awaited", "The first operands that are returned count as the last.", 3, 1,
   [](Tables& t) { home(t, S::kOperatedToUnshared, E::kPutOperated, S::kUnshared, {A::kMerge, A::kTally, A::kClearSharers, A::kEnd, A::kPutAck}); }},
  {"operands-not-merged", "Operands that are returned are acknowledged, and not combined with the line.", 2, 1,
   [](Tables& t) { home(t, S::kOperatedToUnshared, E::kPutOperatedLast, S::kUnshared, {A::kTally, A::kClearSharers, A::kEnd, A::kPutAck}); }},
  {"operator-forgotten", "A second operator gets its permission but is not written down.", 3, 1,
   [](Tables& t) { home(t, S::kOperated, E::kOperate, S::kOperated, {A::kGrant}); }},
  {"two-operators-at-once", "A node is let in whose operator is not the others'.", 3, 1,
   [](Tables& t) { home(t, S::kOperated, E::kOperateFirst, S::kOperated, {A::kBegin, A::kGrant}); }},
  {"operated-beside-copies", "A node operates while others have copies to read.", 3, 1,
   [](Tables& t) { home(t, S::kShared, E::kOperateFirst, S::kOperated, {A::kWithdrawAll, A::kClearSharers, A::kBegin, A::kGrant}); }},
  {"home-reads-operated", "The home lets a node operate without waiting for its own readers and writers.", 2, 1,
   [](Tables& t) { home(t, S::kUnshared, E::kOperate, S::kOperated, {A::kBegin, A::kGrant}); }},
  {"operated-without-the-line", "A node is let in while the line is still the owner's.", 3, 1,
   [](Tables& t) { home(t, S::kDirty, E::kOperateFirst, S::kOperated, {A::kClearOwner, A::kBegin, A::kGrant}); }},
  {"try-refused-stays-busy", "The owner refuses a try, the requester is told, but the line stays busy for ever.", 3, 1,
   [](Tables& t) { home(t, S::kDirtyToDirty, E::kOwnerRefused, S::kDirtyToDirty, {A::kRefusePending}); }},
};
#undef S
#undef E
#undef A

#define S CacheState
#define E CacheEvent
#define A CacheAction
constexpr Mutant kCacheMutants[] = {
  {"eviction-not-awaited", "An owner forgets the line when it returns it, without waiting for the acknowledgement.", 2, 1,
   [](Tables& t) { cache(t, S::kDirty, E::kEvict, S::kInvalid, {A::kWithdrawAll, A::kReturnDirty, A::kReleaseSlot}); }},
  {"crossed-recall-dropped", "A recall that crosses the owner's return is dropped: the home waits for ever.", 2, 1,
   [](Tables& t) { cache(t, S::kDirtyToInvalid, E::kForwardExclusive, S::kDirtyToInvalid, {}); }},
  {"upgrade-survives-invalidation", "An upgrade that crossed an invalidation goes on as if the copy were still valid.", 2, 1,
   [](Tables& t) { cache(t, S::kSharedToDirty, E::kInvalidate, S::kSharedToDirty, {A::kWithdrawAll, A::kAckInvalidate}); }},
  {"invalidation-before-quiet", "An invalidation is acknowledged while threads may still read the copy.", 2, 1,
   [](Tables& t) { cache(t, S::kShared, E::kInvalidate, S::kInvalid, {A::kHide, A::kAckInvalidate, A::kReleaseSlot}); }},
  {"stale-invalidation-unanswered", "An invalidation for a copy that was just dropped is not acknowledged.", 2, 1,
   [](Tables& t) { cache(t, S::kInvalid, E::kInvalidate, S::kInvalid, {}); }},
  {"invalidation-after-return-unanswered", "A node that gave the line away while returning it does not acknowledge the invalidation that follows.", 3, 1,
   [](Tables& t) { cache(t, S::kLeftToInvalid, E::kInvalidate, S::kLeftToInvalid, {}); }},
  {"early-invalidation-acknowledged", "An invalidation for a copy whose data is still on its way is acknowledged, and the copy used all the same.", 3, 1,
   [](Tables& t) { cache(t, S::kInvalidToSharedData, E::kInvalidate, S::kInvalidToSharedData, {A::kAckInvalidate}); }},
  {"forward-before-data-dropped", "A forward that reaches the new owner before its data is dropped.", 3, 1,
   [](Tables& t) { cache(t, S::kInvalidToDirtyData, E::kForwardExclusive, S::kInvalidToDirtyData, {}); }},
  {"held-message-dropped", "A forward that a lock delays is forgotten in place of kept.", 2, 1,
   [](Tables& t) { cache(t, S::kDirty, E::kHeld, S::kDirty, {}); }},
  {"lock-ignored", "An invalidation is acknowledged although a thread holds a read lock.", 2, 1,
   [](Tables& t) { cache(t, S::kShared, E::kHeld, S::kShared, {A::kAckInvalidate}); }},
  {"lock-refusal-unsaid", "A try that meets a lock of the owner is not answered.", 2, 1,
   [](Tables& t) { cache(t, S::kDirty, E::kTryHeld, S::kDirty, {}); }},
  {"try-waits", "A try that meets a lock of the owner waits for its end.", 2, 1,
   [](Tables& t) { cache(t, S::kDirty, E::kTryHeld, S::kDirty, {A::kHold}); }},
  {"try-refused-state-left", "A refused try tells its thread but leaves the line asking.", 2, 1,
   [](Tables& t) { cache(t, S::kInvalidToDirty, E::kRefused, S::kInvalidToDirty, {A::kRefuseTry}); }},
  {"refused-upgrade-kept-dirty", "A refused upgrade is taken for a granted one.", 3, 1,
   [](Tables& t) { cache(t, S::kSharedToDirty, E::kRefused, S::kDirty, {A::kServe}); }},
  {"owner-data-is-enough", "The owner's data is written to before the home has confirmed.", 3, 1,
   [](Tables& t) { cache(t, S::kInvalidToDirty, E::kOwnerData, S::kDirty, {A::kServe}); }},
  {"grant-is-enough", "The home's confirmation is taken for the data.", 3, 1,
   [](Tables& t) { cache(t, S::kInvalidToShared, E::kGrant, S::kShared, {A::kServe}); }},
  {"refused-write-forgotten", "A write that the home has refused is taken for done.", 2, 1,
   [](Tables& t) { cache(t, S::kWritingHome, E::kRefused, S::kInvalid, {A::kFinishWrite}); }},
  {"done-write-repeated", "A write that the home has done is done again here.", 2, 1,
   [](Tables& t) { cache(t, S::kWritingHome, E::kWritten, S::kInvalid, {A::kTakeBackWrite}); }},
  {"invalidation-at-writer-unanswered", "An invalidation that meets a write on its way to the home is not acknowledged.", 2, 1,
   [](Tables& t) { cache(t, S::kWritingHome, E::kInvalidate, S::kWritingHome, {}); }},
  {"operands-not-cleared", "Operands are combined with what stood in the slot before.", 2, 1,
   [](Tables& t) { cache(t, S::kInvalidToOperated, E::kGrant, S::kOperated, {A::kServe}); }},
  {"operands-returned-before-quiet", "The home is told to take operands while threads still combine theirs.", 2, 1,
   [](Tables& t) { cache(t, S::kOperated, E::kInvalidate, S::kOperatedToInvalid, {A::kHide, A::kReturnOperated}); }},
  {"operands-not-kept", "The slot is used again before the home has taken the operands.", 2, 1,
   [](Tables& t) { cache(t, S::kOperated, E::kEvict, S::kInvalid, {A::kWithdrawAll, A::kReturnOperated, A::kReleaseSlot}); }},
  {"crossed-recall-answered-twice", "A recall that crosses the return of the operands is acknowledged as well.", 2, 1,
   [](Tables& t) { cache(t, S::kOperatedToInvalid, E::kInvalidate, S::kOperatedToInvalid, {A::kAckInvalidate}); }},
  {"copy-kept-by-operator", "A node that wants to operate keeps its copy, and the home waits for it.", 2, 1,
   [](Tables& t) { cache(t, S::kInvalidToOperated, E::kInvalidate, S::kInvalidToOperated, {}); }},
  {"downgrade-keeps-writing", "An owner that sends a copy does not wait for its own writers.", 2, 1,
   [](Tables& t) { cache(t, S::kDirty, E::kForwardShared, S::kShared, {A::kSendToRequester, A::kWriteBack}); }},
};
#undef S
#undef E
#undef A

#define H(state, event, next, ...) home(t, DirState::state, DirEvent::event, DirState::next, {__VA_ARGS__})
#define C(state, event, next, ...) cache(t, CacheState::state, CacheEvent::event, CacheState::next, {__VA_ARGS__})
#define A DirAction
#define B CacheAction
constexpr Mutant kLoggedMutants[] = {
  {"logged-ack-before-image", "A return is acknowledged first and logged after: a crash in between loses the line.", 2, 1,
   [](Tables& t) { H(kDirty, kReturn, kUnshared, A::kPutAck, A::kTake); }, 1},
  {"logged-return-not-fetched", "A return is acknowledged, and the line left where it is.", 2, 1,
   [](Tables& t) { H(kDirty, kReturn, kUnshared, A::kClearOwner, A::kPutAck); }, 1},
  {"logged-stale-return-taken", "A return of a tenure that is over is taken for the owner's.", 2, 1,
   [](Tables& t) { H(kOrphaned, kReturnStale, kUnshared, A::kTake, A::kPutAck); }, 2},
  {"logged-stale-return-unanswered", "A return of a tenure that is over is dropped: its sender keeps the slot for ever.", 2, 1,
   [](Tables& t) { H(kUnshared, kReturnStale, kUnshared, A::kNone); }, 1},
  {"logged-owner-back-ignored", "An owner that is back without the line leaves it orphaned for ever.", 2, 1,
   [](Tables& t) { H(kOrphaned, kOwnerBack, kOrphaned, A::kNone); }, 1},
  {"logged-undo-not-logged", "The home takes an orphan for its own, and its log does not know.", 3, 1,
   [](Tables& t) { H(kOrphaned, kOwnerBack, kUnshared, A::kClearOwner); }, 2},
  {"logged-orphan-handed-out", "What a dead node owned passes for current at the home.", 2, 1,
   [](Tables& t) { H(kDirty, kOwnerDied, kUnshared, A::kClearOwner); }, 1},
  {"logged-orphan-served", "A reader is served from what stands at the home while the owner is dead.", 3, 1,
   [](Tables& t) { H(kOrphaned, kGetShared, kOrphaned, A::kSendData); }, 1},
  {"logged-wish-of-home-lost", "The home's wish that was under way when the owner died is forgotten.", 2, 1,
   [](Tables& t) { H(kDirtyToUnshared, kOwnerDied, kOrphaned, A::kNone); }, 1},
  {"logged-request-lost", "A request that was under way when the owner died is forgotten.", 3, 1,
   [](Tables& t) { H(kDirtyToDirty, kOwnerDied, kOrphaned, A::kNone); }, 1},
  {"logged-requester-lost", "When the line has come home, who it was fetched for is not answered.", 3, 1,
   [](Tables& t) { H(kDirtyToDirty, kReturn, kUnshared, A::kTake, A::kPutAck); }, 1},
  {"logged-dead-sharer-kept", "A dead node stays on the list of sharers: its answer is waited for, for ever.", 2, 1,
   [](Tables& t) { H(kShared, kSharerDiedLast, kShared, A::kNone); }, 1},
  {"logged-dead-requester-served", "The line is granted to a node that has died, and does not know of it when it is back.", 3, 1,
   [](Tables& t) { H(kSharedToDirty, kRequesterDied, kSharedToDirty, A::kNone); }, 1},
  {"logged-report-not-believed", "A home that is back is told of a copy and does not write it down.", 2, 1,
   [](Tables& t) { H(kUnshared, kReportShared, kUnshared, A::kNone); }, 1},
  {"logged-report-forgotten", "A node does not tell a home that is back of its copy.", 2, 1,
   [](Tables& t) { C(kShared, kHomeBack, kShared, B::kNone); }, 1},
  {"logged-owner-silent", "An owner does not tell a home that is back that it has the line.", 2, 1,
   [](Tables& t) { C(kDirty, kHomeBack, kDirty, B::kNone); }, 1},
  {"logged-return-not-repeated", "A return that the home forgot is not made again.", 2, 1,
   [](Tables& t) { C(kDirtyToInvalid, kHomeBack, kDirtyToInvalid, B::kNone); }, 1},
  {"logged-write-back-not-repeated", "A write-back that the home forgot is not made again.", 2, 1,
   [](Tables& t) { C(kDirtyToShared, kHomeBack, kDirtyToShared, B::kReportShared); }, 1},
  {"logged-request-not-repeated", "A request that the home forgot is not made again.", 2, 1,
   [](Tables& t) { C(kInvalidToDirty, kHomeOpen, kInvalidToDirty, B::kNone); }, 1},
  {"logged-upgrade-not-repeated", "An upgrade that the home forgot is not asked for again.", 2, 1,
   [](Tables& t) { C(kSharedToDirty, kHomeOpen, kSharedToDirty, B::kNone); }, 1},
  {"logged-line-not-kept", "An owner forgets the line when it is recalled, without waiting for the home's log.", 2, 1,
   [](Tables& t) { C(kDirty, kRecall, kInvalid, B::kWithdrawAll, B::kTransfer, B::kReleaseSlot); }, 1},
  {"logged-recall-answered-twice", "A recall that crosses a return is answered as well.", 2, 1,
   [](Tables& t) { C(kDirtyToInvalid, kRecall, kDirtyToInvalid, B::kTransfer); }, 1},
  {"logged-copy-kept", "A node whose write-back is not acknowledged goes on reading after an invalidation.", 2, 1,
   [](Tables& t) { C(kDirtyToShared, kInvalidate, kDirtyToShared, B::kAckInvalidate); }, 1, true},
  {"logged-tenure-not-kept", "An owner does not write down the tenure of its permission, and passes for a former one.", 2, 1,
   [](Tables& t) { C(kInvalidToDirty, kData, kDirty, B::kServe); }, 1},
};

constexpr Mutant kFileMutants[] = {
  {"files-drop-keeps-reading", "The home drops a line without waiting for its own readers.", 2, 1,
   [](Tables& t) { H(kUnshared, kDrop, kStored, A::kDiscard); }, 0, false, true},
  {"files-drop-passes-for-here", "A dropped line passes for one that can be read in its home's memory.", 2, 1,
   [](Tables& t) { H(kUnshared, kDrop, kStored, A::kWithdrawAll); }, 0, false, true},
  {"files-sharers-forgotten", "The home drops a line and forgets who else has it.", 2, 1,
   [](Tables& t) { H(kShared, kDrop, kStored, A::kWithdrawAll, A::kDiscard, A::kClearSharers); }, 0, false, true},
  {"files-write-for-another-not-soiled", "After a write for another node the line passes for as its file has it.", 2, 1,
   [](Tables& t) { H(kUnshared, kWriteHome, kUnshared, A::kSoil, A::kWrite, A::kClean, A::kHide); }, 0, false, true},
  {"files-return-passes-for-filed", "What an owner returns passes for as the file has it, and is dropped.", 2, 1,
   [](Tables& t) { H(kDirty, kPutDirty, kUnshared, A::kClearOwner, A::kClean, A::kPutAck); }, 0, false, true},
  {"files-operands-pass-for-filed", "The line with all operands in it passes for as its file has it.", 2, 1,
   [](Tables& t) { H(kOperated, kPutOperatedLast, kUnshared, A::kMerge, A::kDropSharer, A::kEnd, A::kClean, A::kPutAck); }, 0, false, true},
  {"files-not-awaited", "The home reads a line that its file has not given yet.", 2, 1,
   [](Tables& t) { H(kStored, kLocalShared, kUnshared, A::kHere, A::kLoad, A::kServeLocal); }, 0, false, true},
  {"files-parked-served", "A reader is sent what the home has dropped.", 3, 1,
   [](Tables& t) { H(kParked, kGetShared, kParked, A::kAddSharer, A::kSendData); }, 0, false, true},
  {"files-request-forgotten", "The line is fetched, and who it is for forgotten.", 2, 1,
   [](Tables& t) { H(kStored, kGetExclusive, kFetching, A::kFetch); }, 0, false, true},
  {"files-request-dropped", "A request that meets a line on its way home is dropped in place of queued.", 3, 1,
   [](Tables& t) { H(kFetching, kGetShared, kFetching, A::kNone); }, 0, false, true},
  {"files-last-copy-not-noticed", "The last copy of a parked line is given back, and it stays parked.", 2, 1,
   [](Tables& t) { H(kParked, kPutSharedLast, kParked, A::kDropSharer); }, 0, false, true},
  {"files-no-copy-taken-for-one", "A sharer has no copy any more, and what the home has is taken for it.", 2, 1,
   [](Tables& t) { H(kFetching, kNoCopy, kUnshared, A::kHere); }, 0, false, true},
  {"files-no-copy-no-file", "A sharer has no copy any more, and the file is not asked either.", 2, 1,
   [](Tables& t) { H(kFetching, kNoCopy, kFetching, A::kNone); }, 0, false, true},
  {"files-failure-ignored", "A file that could not be read is taken for read.", 2, 1,
   [](Tables& t) { H(kFetching, kFetchFailed, kUnshared, A::kHere); }, 0, false, true, 1},
  {"files-failure-untold", "A file could not be read, and who waits for the line waits on.", 2, 1,
   [](Tables& t) { H(kFetching, kFetchFailed, kFetching, A::kNone); }, 0, false, true, 1},
  {"files-failure-takes-copies", "A file could not be read, and the copies that there are, are forgotten.", 2, 1,
   [](Tables& t) { H(kFetching, kFetchFailedShared, kStored, A::kClearSharers, A::kFail); }, 0, false, true, 1},
  {"files-fetch-unanswered", "A sharer does not answer the home that wants the line again.", 2, 1,
   [](Tables& t) { C(kShared, kFetchCopy, kShared, B::kNone); }, 0, false, true},
  {"files-dropped-copy-given", "A node that has dropped its copy gives the home what is in the slot now.", 2, 1,
   [](Tables& t) { C(kInvalidToShared, kFetchCopy, kInvalidToShared, B::kGiveCopy); }, 0, false, true},
  {"files-early-copy-given", "A node gives the home a copy that has not come yet.", 3, 1,
   [](Tables& t) { C(kInvalidToSharedData, kFetchCopy, kInvalidToSharedData, B::kGiveCopy); }, 0, false, true},
  {"files-idle-copy-kept", "A node that kept a copy for the home alone gives it back and keeps it.", 2, 1,
   [](Tables& t) { C(kShared, kFetchIdle, kShared, B::kGiveCopy, B::kReturnShared); }, 0, false, true},
  {"files-failure-not-told-to-threads", "A node is told that the line cannot be had, and its threads wait on.", 2, 1,
   [](Tables& t) { C(kInvalidToDirty, kFailed, kInvalidToDirty, B::kNone); }, 0, false, true, 1},
  {"files-failed-upgrade-taken", "An upgrade that came to nothing because of the file is taken for granted.", 2, 1,
   [](Tables& t) { C(kSharedToDirty, kFailed, kDirty, B::kServe); }, 0, false, true, 1},
};
#undef H
#undef C
#undef A
#undef B
// clang-format on

constexpr auto kMutants = [] {
  std::array<Mutant,
             std::size(kHomeMutants) + std::size(kCacheMutants) + std::size(kLoggedMutants) + std::size(kFileMutants)>
      all{};
  auto at = std::copy(std::begin(kHomeMutants), std::end(kHomeMutants), all.begin());
  at = std::copy(std::begin(kCacheMutants), std::end(kCacheMutants), at);
  at = std::copy(std::begin(kLoggedMutants), std::end(kLoggedMutants), at);
  std::copy(std::begin(kFileMutants), std::end(kFileMutants), at);
  return all;
}();

}  // namespace

ExploreOptions Mutant::world() const {
  ExploreOptions options{.nodes = nodes, .threads = threads};
  options.logged = crashes != 0;
  options.crashes = crashes;
  options.power = power;
  options.files = files;
  options.failures = failures;
  if (files) options.ops |= kOpsAhead;
  // Many nodes, and deaths, make too many states for all that may be done.
  const unsigned most = options.logged || files ? 3 : 4;
  if (nodes >= most) options.ops = kOpsRead | kOpsWrite | kOpsEvict;
  options.max_states = 5'000'000;
  return options;
}

std::span<const Mutant> mutants() noexcept {
  return kMutants;
}

const Mutant* find_mutant(std::string_view name) noexcept {
  const auto found = std::find_if(kMutants.begin(), kMutants.end(), [&](const Mutant& m) { return m.name == name; });
  return found == kMutants.end() ? nullptr : &*found;
}

}  // namespace atoll::explorer
