// The requester's side of a line whose home is elsewhere: states, events, and the table that joins them.
#pragma once

#include <cstdint>
#include <string_view>

#include "coherence/table.hpp"

namespace atoll::coherence {

/// States of a line in a node's cache. Those with "To" wait for a message.
enum class CacheState : std::uint8_t {
  kInvalid,
  kShared,                // may read
  kDirty,                 // may write; the only copy
  kOperated,              // may combine operands of one operator; what is here are operands, not the line
  kInvalidToShared,       // asked for a copy
  kInvalidToSharedData,   // the home has confirmed; the owner's data is on its way
  kInvalidToSharedGrant,  // the owner's data is here; the home's confirmation is on its way
  kInvalidToDirty,        // asked for the line
  kInvalidToDirtyData,    // the home has confirmed; the owner's data is on its way
  kInvalidToDirtyGrant,   // the owner's data is here; the home's confirmation is on its way
  kSharedToDirty,         // asked for the permission alone; the copy is still valid
  kDirtyToInvalid,        // returned to the home; the copy still answers for it
  kLeftToInvalid,         // returned, and given away meanwhile; only the acknowledgement is missing
  kWritingHome,           // a write was sent to the home; nothing of the line is here
  kInvalidToOperated,     // asked for permission to operate
  kOperatedToInvalid,     // the home was told of the operands here, and has not taken them yet
  kDirtyToShared,         // logged: written back, may be read; the home has not logged it yet
  kCount,
};

enum class CacheEvent : std::uint8_t {
  kWantShared,        // a thread of this node wants to read
  kWantExclusive,     // a thread of this node wants to write
  kWantWritten,       // a thread of this node wants one write done, wherever
  kWantOperated,      // a thread of this node wants to combine an operand
  kEvict,             // the slot is needed
  kData,              // from the home: data and permission
  kOwnerData,         // from the owner: data
  kGrant,             // from the home: permission
  kInvalidate,        // from the home: drop it
  kForwardShared,     // from the home: send a copy
  kForwardExclusive,  // from the home: give it away
  kHeld,              // one of these three, or a recall, while a lock of this node forbids it
  kTryHeld,           // the same for a try
  kRefused,           // from the home: the try failed
  kPutAck,            // from the home: the returned line has arrived
  kWritten,           // from the home: the write is done
  kRecallShared,      // logged, from the home: let it have the line, keep a copy
  kRecall,            // logged, from the home: let it have the line
  kHomeBack,          // the home died and is back; it wants to know what is here
  kHomeOpen,          // it knows all that there is to know, and serves requests again
  kFetchCopy,         // from the home: it has none of the line, and wants it
  kFetchIdle,         // the same, and nobody here has used the copy, or waits for it
  kFailed,            // from the home: the line's file could not be read
  kCount,
};

enum class CacheAction : std::uint8_t {
  kNone,
  kAskShared,      // GetShared to the home
  kAskExclusive,   // GetExclusive to the home
  kAskUpgrade,     // Upgrade to the home
  kAskWrite,       // WriteHome to the home
  kHide,           // threads of this node go through the queue from now on
  kWithdrawWrite,  // no thread of this node writes any more
  kWithdrawAll,    // no thread of this node reads or writes any more
  kReturnShared,   // PutShared to the home
  kReturnDirty,    // data to the home's memory, PutDirty to the home
  kReleaseSlot,
  kAckInvalidate,
  kRefuse,           // tell the home that a lock is in the way of its try
  kSendToRequester,  // data to the requester's slot, OwnerData to it (nothing when that is the home)
  kWriteBack,        // data to the home's memory (logged: it stays in the slot), WriteBack to the home
  kTransfer,         // Transfer to the home (with data when the home is the requester; logged: it stays in the slot)
  kHold,             // answer it when the lock is released or the data has come
  kServe,            // threads of this node waited for this
  kServeReads,       // reads queued before the answer may have it already
  kRefuseTry,        // the thread's try-lock fails
  kFinishWrite,      // the thread's write is done
  kTakeBackWrite,    // the thread's write is not done, and is the first to wait for the line
  kAskOperated,      // GetOperated to the home
  kClearOperands,    // the slot holds no operands yet
  kReturnOperated,   // PutOperated to the home, which takes the operands from the slot
  kBeginTenure,      // logged: the number of the permission that has come
  kReportShared,     // ReportShared to the home
  kReportDirty,      // ReportDirty to the home, with the tenure
  kGiveCopy,         // data to the home's memory, Copy to the home
  kTellNoCopy,       // NoCopy to the home
  kFail,             // threads of this node that wait for the line are told that it cannot be had
};

using CacheRow = Row<CacheState, CacheEvent, CacheAction>;
using CacheTable = Table<CacheState, CacheEvent, CacheAction>;

// clang-format off
inline constexpr CacheRow kCacheRows[] = {
#define S CacheState
#define E CacheEvent
#define A CacheAction
  // ---- Invalid ----
  {S::kInvalid, {E::kWantShared}, S::kInvalidToShared, {A::kAskShared}, "a read miss"},
  {S::kInvalid, {E::kWantExclusive}, S::kInvalidToDirty, {A::kAskExclusive}, "a write miss"},
  {S::kInvalid, {E::kWantWritten}, S::kWritingHome, {A::kAskWrite}, "a write miss, of a line that is hardly used here"},
  {S::kInvalid, {E::kWantOperated}, S::kInvalidToOperated, {A::kAskOperated}, "an operand, and nowhere to combine it"},
  {S::kInvalid, {E::kInvalidate}, S::kInvalid, {A::kAckInvalidate}, "the invalidation crossed our PutShared; the home counts on the answer"},
  {S::kInvalid, {E::kEvict}, "there is nothing to evict"},
  {S::kInvalid, {E::kData, E::kOwnerData, E::kGrant, E::kRefused, E::kPutAck}, "nothing was asked"},
  {S::kInvalid, {E::kForwardShared, E::kForwardExclusive, E::kHeld, E::kTryHeld}, "we own nothing; a return is acknowledged before the line is forgotten"},
  {S::kInvalid, {E::kWritten}, "nothing was asked"},
  {S::kInvalid, {E::kHomeBack, E::kHomeOpen}, S::kInvalid, {}, "nothing is here; what waits is asked for when the home is open"},
  {S::kInvalid, {E::kRecallShared, E::kRecall}, "we own nothing; a return is acknowledged before the line is forgotten"},

  // ---- Shared ----
  {S::kShared, {E::kWantExclusive}, S::kSharedToDirty, {A::kHide, A::kAskUpgrade}, "the data is here; the permission is missing"},
  {S::kShared, {E::kWantOperated}, S::kInvalid, {A::kWithdrawAll, A::kReturnShared, A::kReleaseSlot}, "nobody reads what others operate on; the wish follows"},
  {S::kShared, {E::kEvict}, S::kInvalid, {A::kWithdrawAll, A::kReturnShared, A::kReleaseSlot}, "the home has the data: no need to wait"},
  {S::kShared, {E::kInvalidate}, S::kInvalid, {A::kWithdrawAll, A::kAckInvalidate, A::kReleaseSlot}, "somebody writes"},
  {S::kShared, {E::kHeld}, S::kShared, {A::kHold}, "a thread of this node holds a read lock"},
  {S::kShared, {E::kTryHeld}, S::kShared, {A::kRefuse}, "a thread of this node holds a read lock; a try never waits"},
  {S::kShared, {E::kWantShared}, "it can be read"},
  {S::kShared, {E::kData, E::kOwnerData, E::kGrant, E::kRefused, E::kPutAck}, "nothing was asked"},
  {S::kShared, {E::kForwardShared, E::kForwardExclusive}, "the home serves readers itself and invalidates sharers"},
  {S::kShared, {E::kWantWritten, E::kWritten}, "what is here is written here"},
  {S::kShared, {E::kHomeBack}, S::kShared, {A::kReportShared}, "the copy stays good: the home lets nobody write before it has heard of it"},
  {S::kShared, {E::kHomeOpen}, S::kShared, {}, "what waits is asked for"},
  {S::kShared, {E::kRecallShared, E::kRecall}, "we own nothing"},

  // ---- Dirty ----
  {S::kDirty, {E::kEvict}, S::kDirtyToInvalid, {A::kWithdrawAll, A::kReturnDirty}, "the only copy: kept until the home has it"},
  {S::kDirty, {E::kForwardShared}, S::kShared, {A::kWithdrawWrite, A::kSendToRequester, A::kWriteBack}, "a reader elsewhere; we keep a copy"},
  {S::kDirty, {E::kForwardExclusive}, S::kInvalid, {A::kWithdrawAll, A::kSendToRequester, A::kTransfer, A::kReleaseSlot}, "a writer elsewhere"},
  {S::kDirty, {E::kHeld}, S::kDirty, {A::kHold}, "a lock of this node; the home waits, and all others there in order"},
  {S::kDirty, {E::kTryHeld}, S::kDirty, {A::kRefuse}, "a lock of this node; a try never waits"},
  {S::kDirty, {E::kWantShared, E::kWantExclusive, E::kWantOperated}, "it can be written"},
  {S::kDirty, {E::kData, E::kOwnerData, E::kGrant, E::kRefused, E::kPutAck}, "nothing was asked"},
  {S::kDirty, {E::kInvalidate}, "the home recalls owners by a forward"},
  {S::kDirty, {E::kWantWritten, E::kWritten}, "what is here is written here"},
  {S::kDirty, {E::kRecallShared}, S::kDirtyToShared, {A::kWithdrawWrite, A::kWriteBack}, "the home fetches it; we keep a copy, and answer for it until it is logged"},
  {S::kDirty, {E::kRecall}, S::kDirtyToInvalid, {A::kWithdrawAll, A::kTransfer}, "the home fetches it; we answer for it until it is logged"},
  {S::kDirty, {E::kHomeBack}, S::kDirty, {A::kReportDirty}, "ours, whatever the home has forgotten"},
  {S::kDirty, {E::kHomeOpen}, S::kDirty, {}, "there is nothing to ask for"},

  // ---- InvalidToShared: a copy was asked for ----
  {S::kInvalidToShared, {E::kData}, S::kShared, {A::kServe}, "one message there, one back"},
  {S::kInvalidToShared, {E::kOwnerData}, S::kInvalidToSharedGrant, {A::kServeReads}, "from the owner; no writer can be granted before the home confirms us, so reads that wait may have it"},
  {S::kInvalidToShared, {E::kGrant}, S::kInvalidToSharedData, {}, "the home's word overtook the owner's data"},
  {S::kInvalidToShared, {E::kInvalidate}, S::kInvalidToShared, {A::kAckInvalidate}, "meant for the copy that we dropped before we asked again"},
  {S::kInvalidToShared, {E::kRefused}, S::kInvalid, {A::kReleaseSlot, A::kRefuseTry}, "a lock elsewhere"},
  {S::kInvalidToShared, {E::kWantShared, E::kWantExclusive, E::kWantOperated, E::kEvict}, "threads wait in the queue; slots in use are not evicted"},
  {S::kInvalidToShared, {E::kForwardShared, E::kForwardExclusive, E::kHeld, E::kTryHeld, E::kPutAck}, "we own nothing"},
  {S::kInvalidToShared, {E::kWantWritten, E::kWritten}, "a write is sent only when nothing of the line is here, or under way"},
  {S::kInvalidToShared, {E::kHomeBack}, S::kInvalidToShared, {}, "there is nothing to report"},
  {S::kInvalidToShared, {E::kHomeOpen}, S::kInvalidToShared, {A::kAskShared}, "what was asked before is forgotten"},
  {S::kInvalidToShared, {E::kRecallShared, E::kRecall}, "we own nothing"},

  // ---- InvalidToSharedData: confirmed, waiting for the owner's data ----
  {S::kInvalidToSharedData, {E::kOwnerData}, S::kShared, {A::kServe}, "complete"},
  {S::kInvalidToSharedData, {E::kInvalidate}, S::kInvalidToSharedData, {A::kHold}, "for the copy that is on its way: used once, then given up"},
  {S::kInvalidToSharedData, {E::kWantShared, E::kWantExclusive, E::kWantOperated, E::kEvict}, "threads wait in the queue; slots in use are not evicted"},
  {S::kInvalidToSharedData, {E::kData, E::kGrant, E::kForwardShared, E::kForwardExclusive, E::kHeld, E::kTryHeld, E::kRefused, E::kPutAck}, "granted already, and to read only"},
  {S::kInvalidToSharedData, {E::kWantWritten, E::kWritten}, "a write is sent only when nothing of the line is here, or under way"},
  {S::kInvalidToSharedData, {E::kRecallShared, E::kRecall, E::kHomeBack, E::kHomeOpen}, "not in a logged cluster"},

  // ---- InvalidToSharedGrant: the data is here, waiting for the home ----
  {S::kInvalidToSharedGrant, {E::kGrant}, S::kShared, {A::kServe}, "complete"},
  {S::kInvalidToSharedGrant, {E::kWantShared, E::kWantExclusive, E::kWantOperated, E::kEvict}, "threads wait in the queue; slots in use are not evicted"},
  {S::kInvalidToSharedGrant, {E::kInvalidate}, "the home took our request, so it had every earlier answer; a later one follows its grant"},
  {S::kInvalidToSharedGrant, {E::kData, E::kOwnerData, E::kForwardShared, E::kForwardExclusive, E::kHeld, E::kTryHeld, E::kRefused, E::kPutAck}, "the owner has answered"},
  {S::kInvalidToSharedGrant, {E::kWantWritten, E::kWritten}, "a write is sent only when nothing of the line is here, or under way"},
  {S::kInvalidToSharedGrant, {E::kRecallShared, E::kRecall, E::kHomeBack, E::kHomeOpen}, "not in a logged cluster"},

  // ---- InvalidToDirty: the line was asked for ----
  {S::kInvalidToDirty, {E::kData}, S::kDirty, {A::kBeginTenure, A::kServe}, "one message there, one back"},
  {S::kInvalidToDirty, {E::kOwnerData}, S::kInvalidToDirtyGrant, {}, "acknowledged by both: were we to go ahead, an eviction could reach the home before the owner's word"},
  {S::kInvalidToDirty, {E::kGrant}, S::kInvalidToDirtyData, {}, "the home's word overtook the owner's data"},
  {S::kInvalidToDirty, {E::kInvalidate}, S::kInvalidToDirty, {A::kAckInvalidate}, "meant for the copy that we dropped before we asked again"},
  {S::kInvalidToDirty, {E::kRefused}, S::kInvalid, {A::kReleaseSlot, A::kRefuseTry}, "a lock elsewhere"},
  {S::kInvalidToDirty, {E::kWantShared, E::kWantExclusive, E::kWantOperated, E::kEvict}, "threads wait in the queue; slots in use are not evicted"},
  {S::kInvalidToDirty, {E::kForwardShared, E::kForwardExclusive, E::kHeld, E::kTryHeld, E::kPutAck}, "we own nothing yet"},
  {S::kInvalidToDirty, {E::kWantWritten, E::kWritten}, "a write is sent only when nothing of the line is here, or under way"},
  {S::kInvalidToDirty, {E::kHomeBack}, S::kInvalidToDirty, {}, "there is nothing to report; if we were granted the line, it did not reach us"},
  {S::kInvalidToDirty, {E::kHomeOpen}, S::kInvalidToDirty, {A::kAskExclusive}, "what was asked before is forgotten"},
  {S::kInvalidToDirty, {E::kRecallShared, E::kRecall}, "we own nothing yet"},

  // ---- InvalidToDirtyData: confirmed, waiting for the owner's data ----
  {S::kInvalidToDirtyData, {E::kOwnerData}, S::kDirty, {A::kServe}, "complete"},
  {S::kInvalidToDirtyData, {E::kForwardShared, E::kForwardExclusive}, S::kInvalidToDirtyData, {A::kHold}, "the home names us owner already; answered when the data has come and was used once"},
  {S::kInvalidToDirtyData, {E::kWantShared, E::kWantExclusive, E::kWantOperated, E::kEvict}, "threads wait in the queue; slots in use are not evicted"},
  {S::kInvalidToDirtyData, {E::kData, E::kGrant, E::kInvalidate, E::kHeld, E::kTryHeld, E::kRefused, E::kPutAck}, "granted already"},
  {S::kInvalidToDirtyData, {E::kWantWritten, E::kWritten}, "a write is sent only when nothing of the line is here, or under way"},
  {S::kInvalidToDirtyData, {E::kRecallShared, E::kRecall, E::kHomeBack, E::kHomeOpen}, "not in a logged cluster"},

  // ---- InvalidToDirtyGrant: the data is here, waiting for the home ----
  {S::kInvalidToDirtyGrant, {E::kGrant}, S::kDirty, {A::kServe}, "complete"},
  {S::kInvalidToDirtyGrant, {E::kWantShared, E::kWantExclusive, E::kWantOperated, E::kEvict}, "threads wait in the queue; slots in use are not evicted"},
  {S::kInvalidToDirtyGrant, {E::kInvalidate, E::kForwardShared, E::kForwardExclusive, E::kHeld, E::kTryHeld}, "the home names us owner only with its grant"},
  {S::kInvalidToDirtyGrant, {E::kData, E::kOwnerData, E::kRefused, E::kPutAck}, "the owner has answered"},
  {S::kInvalidToDirtyGrant, {E::kWantWritten, E::kWritten}, "a write is sent only when nothing of the line is here, or under way"},
  {S::kInvalidToDirtyGrant, {E::kRecallShared, E::kRecall, E::kHomeBack, E::kHomeOpen}, "not in a logged cluster"},

  // ---- SharedToDirty: the permission was asked for ----
  {S::kSharedToDirty, {E::kGrant, E::kData}, S::kDirty, {A::kBeginTenure, A::kServe}, "alone now (with data where the home cannot tell sharers apart; it is what we have)"},
  {S::kSharedToDirty, {E::kInvalidate}, S::kInvalidToDirty, {A::kWithdrawAll, A::kAckInvalidate}, "another writer was first: back off; the home takes our upgrade as GetExclusive"},
  {S::kSharedToDirty, {E::kHeld}, S::kSharedToDirty, {A::kHold}, "a read lock of another thread here; our upgrade waits at the home meanwhile"},
  {S::kSharedToDirty, {E::kTryHeld}, S::kSharedToDirty, {A::kRefuse}, "a read lock of another thread here; a try never waits"},
  {S::kSharedToDirty, {E::kRefused}, S::kShared, {A::kRefuseTry}, "a lock elsewhere; the copy is still good"},
  {S::kSharedToDirty, {E::kWantShared, E::kWantExclusive, E::kWantOperated, E::kEvict}, "threads wait in the queue; slots in use are not evicted"},
  {S::kSharedToDirty, {E::kOwnerData, E::kForwardShared, E::kForwardExclusive, E::kPutAck}, "we are a sharer: there is no owner"},
  {S::kSharedToDirty, {E::kWantWritten, E::kWritten}, "a write is sent only when nothing of the line is here, or under way"},
  {S::kSharedToDirty, {E::kHomeBack}, S::kSharedToDirty, {A::kReportShared}, "the copy stays good; if we were granted more, it did not reach us"},
  {S::kSharedToDirty, {E::kHomeOpen}, S::kSharedToDirty, {A::kAskUpgrade}, "what was asked before is forgotten"},
  {S::kSharedToDirty, {E::kRecallShared, E::kRecall}, "we are a sharer: there is no owner"},

  // ---- DirtyToInvalid: returned, not yet acknowledged ----
  {S::kDirtyToInvalid, {E::kPutAck}, S::kInvalid, {A::kReleaseSlot}, "the home has it"},
  {S::kDirtyToInvalid, {E::kForwardShared}, S::kLeftToInvalid, {A::kSendToRequester, A::kWriteBack}, "the forward crossed our return; the copy is still here"},
  {S::kDirtyToInvalid, {E::kForwardExclusive}, S::kLeftToInvalid, {A::kSendToRequester, A::kTransfer}, "the forward crossed our return; the copy is still here"},
  {S::kDirtyToInvalid, {E::kWantShared, E::kWantExclusive, E::kWantOperated, E::kEvict}, "threads wait in the queue; slots in use are not evicted"},
  {S::kDirtyToInvalid, {E::kInvalidate, E::kHeld, E::kTryHeld, E::kData, E::kOwnerData, E::kGrant, E::kRefused}, "the home names us owner; a line that is evicted is not locked"},
  {S::kDirtyToInvalid, {E::kWantWritten, E::kWritten}, "a write is sent only when nothing of the line is here, or under way"},
  {S::kDirtyToInvalid, {E::kRecallShared, E::kRecall}, S::kDirtyToInvalid, {}, "crossed our return, which is the answer"},
  {S::kDirtyToInvalid, {E::kHomeBack}, S::kDirtyToInvalid, {A::kReturnDirty}, "it has not acknowledged the return: once more"},
  {S::kDirtyToInvalid, {E::kHomeOpen}, S::kDirtyToInvalid, {}, "what waits is asked for when the return is acknowledged"},

  // ---- LeftToInvalid: given away while it was being returned ----
  {S::kLeftToInvalid, {E::kPutAck}, S::kInvalid, {A::kReleaseSlot}, "the home has seen the return"},
  {S::kLeftToInvalid, {E::kInvalidate}, S::kLeftToInvalid, {A::kAckInvalidate}, "the home counts us as a sharer until it sees the return"},
  {S::kLeftToInvalid, {E::kWantShared, E::kWantExclusive, E::kWantOperated, E::kEvict}, "threads wait in the queue; slots in use are not evicted"},
  {S::kLeftToInvalid, {E::kForwardShared, E::kForwardExclusive, E::kHeld, E::kTryHeld, E::kData, E::kOwnerData, E::kGrant, E::kRefused}, "we own nothing and asked for nothing"},
  {S::kLeftToInvalid, {E::kWantWritten, E::kWritten}, "a write is sent only when nothing of the line is here, or under way"},
  {S::kLeftToInvalid, {E::kRecallShared, E::kRecall, E::kHomeBack, E::kHomeOpen}, "not in a logged cluster"},

  // ---- WritingHome: a write was sent to the home ----
  {S::kWritingHome, {E::kWritten}, S::kInvalid, {A::kFinishWrite}, "one message there, one back, and the line is where it was"},
  {S::kWritingHome, {E::kRefused}, S::kInvalid, {A::kTakeBackWrite}, "others have the line, or a lock: ask for it"},
  {S::kWritingHome, {E::kInvalidate}, S::kWritingHome, {A::kAckInvalidate}, "meant for the copy that we dropped before"},
  {S::kWritingHome, {E::kWantShared, E::kWantExclusive, E::kWantWritten, E::kWantOperated, E::kEvict}, "threads wait in the queue; there is nothing to evict"},
  {S::kWritingHome, {E::kData, E::kOwnerData, E::kGrant, E::kForwardShared, E::kForwardExclusive, E::kHeld, E::kTryHeld, E::kPutAck}, "we own nothing and asked for nothing"},
  {S::kWritingHome, {E::kRecallShared, E::kRecall, E::kHomeBack, E::kHomeOpen}, "not in a logged cluster"},
  // ---- Operated: operands of one operator are here ----
  {S::kOperated, {E::kEvict, E::kInvalidate, E::kWantShared, E::kWantExclusive, E::kWantOperated}, S::kOperatedToInvalid, {A::kWithdrawAll, A::kReturnOperated}, "whoever reads, writes or operates otherwise, here or elsewhere, needs every operand"},
  {S::kOperated, {E::kHeld, E::kTryHeld}, "what cannot be read cannot be locked"},
  {S::kOperated, {E::kData, E::kOwnerData, E::kGrant, E::kRefused, E::kPutAck}, "nothing was asked"},
  {S::kOperated, {E::kForwardShared, E::kForwardExclusive}, "we own nothing"},
  {S::kOperated, {E::kWantWritten, E::kWritten}, "a write is sent only when nothing of the line is here, or under way"},
  {S::kOperated, {E::kRecallShared, E::kRecall, E::kHomeBack, E::kHomeOpen}, "not in a logged cluster"},

  // ---- InvalidToOperated: the permission was asked for ----
  {S::kInvalidToOperated, {E::kGrant}, S::kOperated, {A::kClearOperands, A::kServe}, "one message there, one back"},
  {S::kInvalidToOperated, {E::kInvalidate}, S::kInvalidToOperated, {A::kAckInvalidate}, "meant for the copy that we dropped before we asked"},
  {S::kInvalidToOperated, {E::kWantShared, E::kWantExclusive, E::kWantOperated, E::kEvict}, "threads wait in the queue; slots in use are not evicted"},
  {S::kInvalidToOperated, {E::kData, E::kOwnerData, E::kForwardShared, E::kForwardExclusive, E::kHeld, E::kTryHeld, E::kRefused, E::kPutAck}, "we own nothing, and asked for no data"},
  {S::kInvalidToOperated, {E::kWantWritten, E::kWritten}, "a write is sent only when nothing of the line is here, or under way"},
  {S::kInvalidToOperated, {E::kRecallShared, E::kRecall, E::kHomeBack, E::kHomeOpen}, "not in a logged cluster"},

  // ---- OperatedToInvalid: the home has not taken the operands yet ----
  {S::kOperatedToInvalid, {E::kPutAck}, S::kInvalid, {A::kReleaseSlot}, "the home has them"},
  {S::kOperatedToInvalid, {E::kInvalidate}, S::kOperatedToInvalid, {}, "crossed our return, which is the answer"},
  {S::kOperatedToInvalid, {E::kWantShared, E::kWantExclusive, E::kWantOperated, E::kEvict}, "threads wait in the queue; slots in use are not evicted"},
  {S::kOperatedToInvalid, {E::kData, E::kOwnerData, E::kGrant, E::kForwardShared, E::kForwardExclusive, E::kHeld, E::kTryHeld, E::kRefused}, "we own nothing and asked for nothing"},
  {S::kOperatedToInvalid, {E::kWantWritten, E::kWritten}, "a write is sent only when nothing of the line is here, or under way"},
  {S::kOperatedToInvalid, {E::kRecallShared, E::kRecall, E::kHomeBack, E::kHomeOpen}, "not in a logged cluster"},

  // ---- DirtyToShared: written back, not yet acknowledged ----
  {S::kDirtyToShared, {E::kPutAck}, S::kShared, {}, "the home has it, and its log too"},
  {S::kDirtyToShared, {E::kInvalidate}, S::kDirtyToInvalid, {A::kWithdrawAll, A::kAckInvalidate}, "somebody writes already; what we keep is for the acknowledgement that is late"},
  {S::kDirtyToShared, {E::kHeld}, S::kDirtyToShared, {A::kHold}, "a thread of this node holds a read lock"},
  {S::kDirtyToShared, {E::kTryHeld}, S::kDirtyToShared, {A::kRefuse}, "a thread of this node holds a read lock; a try never waits"},
  {S::kDirtyToShared, {E::kHomeBack}, S::kDirtyToShared, {A::kWriteBack, A::kReportShared}, "it has not acknowledged the return: once more; and if that is stale, the copy is still good"},
  {S::kDirtyToShared, {E::kHomeOpen}, S::kDirtyToShared, {}, "what waits is asked for when the return is acknowledged"},
  {S::kDirtyToShared, {E::kRecallShared, E::kRecall}, "recalled already; the home has one recall under way at a time"},
  {S::kDirtyToShared, {E::kWantShared, E::kWantExclusive, E::kWantOperated, E::kEvict}, "threads wait in the queue; slots in use are not evicted"},
  {S::kDirtyToShared, {E::kData, E::kGrant, E::kRefused}, "nothing was asked"},
  {S::kDirtyToShared, {E::kOwnerData, E::kForwardShared, E::kForwardExclusive, E::kWantWritten, E::kWritten}, "not in a logged cluster"},

  // ---- what only lines that have a file at their home do (docs/files.md) ----
  {S::kShared, {E::kFetchCopy}, S::kShared, {A::kGiveCopy}, "the home made room, and wants it again; we read on"},
  {S::kShared, {E::kFetchIdle}, S::kInvalid, {A::kWithdrawAll, A::kGiveCopy, A::kReturnShared, A::kReleaseSlot}, "it was kept here for the home alone"},
  {S::kSharedToDirty, {E::kFetchCopy}, S::kSharedToDirty, {A::kGiveCopy}, "the copy is good; our upgrade waits at the home"},
  {S::kInvalid, {E::kFetchCopy}, S::kInvalid, {A::kTellNoCopy}, "crossed our PutShared"},
  {S::kInvalidToShared, {E::kFetchCopy}, S::kInvalidToShared, {A::kTellNoCopy}, "crossed our PutShared"},
  {S::kInvalidToDirty, {E::kFetchCopy}, S::kInvalidToDirty, {A::kTellNoCopy}, "crossed our PutShared"},
  {S::kInvalidToOperated, {E::kFetchCopy}, S::kInvalidToOperated, {A::kTellNoCopy}, "crossed our PutShared"},
  {S::kWritingHome, {E::kFetchCopy}, S::kWritingHome, {A::kTellNoCopy}, "crossed our PutShared"},
  {S::kInvalidToSharedData, {E::kFetchCopy}, S::kInvalidToSharedData, {A::kTellNoCopy}, "the owner's data is still on its way"},
  {S::kInvalidToShared, {E::kFailed}, S::kInvalid, {A::kReleaseSlot, A::kFail}, "nobody has it"},
  {S::kInvalidToDirty, {E::kFailed}, S::kInvalid, {A::kReleaseSlot, A::kFail}, "nobody has it"},
  {S::kInvalidToOperated, {E::kFailed}, S::kInvalid, {A::kReleaseSlot, A::kFail}, "nobody has it"},
  {S::kSharedToDirty, {E::kFailed}, S::kShared, {A::kFail}, "the copy is still good"},
  {S::kInvalid, {E::kFetchIdle, E::kFailed}, "there is no copy that is idle"},
  {S::kShared, {E::kFailed}, "nothing was asked that a file could fail"},
  {S::kDirty, {E::kFetchCopy, E::kFetchIdle, E::kFailed}, "the home has what it needs, or does not ask for it here"},
  {S::kOperated, {E::kFetchCopy, E::kFetchIdle, E::kFailed}, "the home has what it needs, or does not ask for it here"},
  {S::kInvalidToShared, {E::kFetchIdle}, "there is no copy that is idle"},
  {S::kInvalidToSharedData, {E::kFetchIdle, E::kFailed}, "there is no copy that is idle"},
  {S::kInvalidToSharedGrant, {E::kFetchCopy, E::kFetchIdle, E::kFailed}, "the home has what it needs, or does not ask for it here"},
  {S::kInvalidToDirty, {E::kFetchIdle}, "there is no copy that is idle"},
  {S::kInvalidToDirtyData, {E::kFetchCopy, E::kFetchIdle, E::kFailed}, "the home has what it needs, or does not ask for it here"},
  {S::kInvalidToDirtyGrant, {E::kFetchCopy, E::kFetchIdle, E::kFailed}, "the home has what it needs, or does not ask for it here"},
  {S::kSharedToDirty, {E::kFetchIdle}, "there is no copy that is idle"},
  {S::kDirtyToInvalid, {E::kFetchCopy, E::kFetchIdle, E::kFailed}, "the home has what it needs, or does not ask for it here"},
  {S::kLeftToInvalid, {E::kFetchCopy, E::kFetchIdle, E::kFailed}, "the home has what it needs, or does not ask for it here"},
  {S::kWritingHome, {E::kFetchIdle, E::kFailed}, "there is no copy that is idle"},
  {S::kInvalidToOperated, {E::kFetchIdle}, "there is no copy that is idle"},
  {S::kOperatedToInvalid, {E::kFetchCopy, E::kFetchIdle, E::kFailed}, "the home has what it needs, or does not ask for it here"},
  {S::kDirtyToShared, {E::kFetchCopy, E::kFetchIdle, E::kFailed}, "the home has what it needs, or does not ask for it here"},
#undef S
#undef E
#undef A
};
// clang-format on

inline constexpr CacheTable kCacheTable{kCacheRows};
static_assert(kCacheTable.complete(), "every (state, event) of the cache has exactly one row");

[[nodiscard]] constexpr bool is_stable(CacheState state) noexcept {
  return state <= CacheState::kOperated;
}

[[nodiscard]] std::string_view to_string(CacheState state) noexcept;
[[nodiscard]] std::string_view to_string(CacheEvent event) noexcept;
[[nodiscard]] std::string_view to_string(CacheAction action) noexcept;

}  // namespace atoll::coherence
