// The home's side of a line: states, events, and the table that joins them.
#pragma once

#include <cstdint>
#include <string_view>

#include "coherence/table.hpp"

namespace atoll::coherence {

/// States of a line at its home. Those with "To" wait for a message and serve nobody meanwhile.
enum class DirState : std::uint8_t {
  kUnshared,            // the home alone has it and may write
  kShared,              // the home and the sharers may read
  kDirty,               // the owner alone has it
  kOperated,            // the sharers, and the home, combine operands of one operator; nobody reads
  kStored,              // the line's file alone has it
  kParked,              // the line's file and the sharers have it, the home does not
  kSharedToUnshared,    // the home wants to write; sharers are being invalidated
  kSharedToDirty,       // a requester wants to write; the other sharers are being invalidated
  kDirtyToShared,       // a copy was asked of the owner
  kDirtyToDirty,        // the line was asked of the owner for another node
  kDirtyToUnshared,     // the line was asked of the owner for the home
  kSharedToOperated,    // a requester wants to operate; sharers are being invalidated
  kDirtyToOperated,     // the line was asked of the owner for the home, so that a requester may operate
  kOperatedToUnshared,  // somebody wants something else; operands are being returned
  kFetching,            // the line is on its way home, from its file or a sharer
  kOrphaned,            // logged: the owner has died, or has not reported yet; who wants the line waits
  kCount,
};

enum class DirEvent : std::uint8_t {
  kGetShared,        // a node wants to read
  kGetExclusive,     // a node wants to write and has no valid copy
  kUpgrade,          // a sharer wants to write; there are other sharers
  kUpgradeSole,      // the only sharer wants to write
  kLocalShared,      // a thread of the home wants to read
  kLocalExclusive,   // a thread of the home wants to write
  kOperate,          // a node wants to operate, and may: nobody has the line, or it is operated so already
  kOperateFirst,     // a node wants to operate, and others have to give the line up before
  kBlocked,          // any of the remote wishes, while a lock of the home forbids it
  kTryBlocked,       // a try, while a lock forbids it or the line is busy or awaited by others
  kWriteHome,        // a node wants a write done here; the home has the line for itself, unlocked and awaited by nobody
  kWriteElsewhere,   // the same, but it is not so
  kPutShared,        // a sharer dropped its copy; others remain
  kPutSharedLast,    // the last sharer dropped its copy
  kPutDirty,         // the owner returned the line
  kPutDirtyLast,     // returned by a node that was downgraded meanwhile and is now the only sharer
  kPutDirtyStale,    // returned by a node that is not the owner any more
  kPutOperated,      // an operator returned its operands; others remain
  kPutOperatedLast,  // the last operator did, or the last that was asked to
  kAnswer,           // a sharer answered an invalidation, or died; more are outstanding
  kAllGone,          // the last answer; every sharer asked has dropped its copy
  kSomeRefused,      // the last answer; a sharer refused a try
  kWriteBack,        // the owner kept a copy and wrote the line home
  kTransfer,         // the owner gave the line to the requester (or back to the home)
  kOwnerRefused,     // the owner's lock refuses a try
  kReturn,           // logged: the line stands in the sender's slot, and nobody's word about it is newer
  kReturnShared,     // the same, and the sender goes on reading
  kReturnStale,      // logged: returned in a tenure that is over
  kReportShared,     // to a home that is back: a node has a copy
  kReportDirty,      // to a home that is back: a node owns the line
  kSharerDied,       // a sharer that owed no answer has died; others remain
  kSharerDiedLast,   // the last sharer has died
  kOwnerDied,        // the owner has died
  kRequesterDied,    // who was remembered has died
  kOwnerBack,        // the owner is back (or the home, and the owner has reported), and said nothing of the line
  kFetchAhead,       // the home expects that the line will be wanted
  kDrop,             // the home needs the room; the line is as its file has it, unlocked and awaited by nobody
  kFetched,          // the line stands in the home's memory; nobody else has it
  kFetchedShared,    // the same, and there are sharers
  kNoCopy,           // the sharer that was asked has none any more
  kFetchFailed,      // the file could not be read; nobody has the line
  kFetchFailedShared,  // the same, and there are sharers
  kCount,
};

enum class DirAction : std::uint8_t {
  kNone,
  kWithdrawWrite,  // no thread of the home writes any more
  kWithdrawAll,    // no thread of the home reads or writes any more
  kHide,           // threads of the home go through the queue from now on
  kAddSharer,      // the requester (nothing when that is the home)
  kDropSharer,     // the sender
  kClearSharers,
  kOwnerToSharer,  // the owner keeps a copy
  kSetOwner,       // the requester; nobody else has a copy
  kClearOwner,
  kLogTransfer,       // before ownership moves: the counter, and the log's record
  kSendData,          // the line and the permission to the requester
  kRemember,          // who asked and what for, until the answers are in
  kInvalidateOthers,  // every sharer but the requester
  kForwardShared,     // to the owner
  kForwardExclusive,  // to the owner
  kTally,             // one answer of a sharer
  kAnswerPending,     // data or permission to who was remembered, or serve the home's own threads
  kRefusePending,     // tell who was remembered that the try failed
  kServeLocal,        // the home's own threads waited for this
  kDefer,             // put it into the line's queue, first come first served
  kRefuse,            // tell the sender that the try failed
  kPutAck,            // tell the sender that its line has arrived
  kWrite,             // do the sender's write and tell it
  kDeferFirst,        // put it back to the head of the line's queue
  kBegin,             // the requester operates, and the first one makes the bytes here incomplete
  kGrant,             // the permission alone to the requester
  kForwardHome,       // to the owner: the line is for the home
  kRecall,            // every operator returns its operands
  kMerge,             // the sender's operands are combined with what is here
  kEnd,               // nobody operates any more: the bytes here are complete
  kTake,              // logged: the sender's line is fetched and an image of it logged; the home's own tenure begins
  kAddSender,         // as a sharer
  kOwnerReports,      // the sender is the owner, and says in which tenure
  kUndo,              // the owner's tenure ends without a trace; logged, for the home's own begins
  kResume,            // what was remembered takes its turn, the first one
  kSuspend,           // the same when the line is not here: a try fails
  kForgetRequester,   // nobody is answered; it has no copy either
  kSoil,              // the line will not be as its file has it
  kClean,             // the line is as its file has it
  kDiscard,           // the home's memory does not have it any more
  kHere,              // the home's memory has it
  kFetch,             // from a sharer, where there is one that is known, else from the file
  kLoad,              // from the file
  kFail,              // who waits for the line is told that it cannot be had
};

using DirRow = Row<DirState, DirEvent, DirAction>;
using DirTable = Table<DirState, DirEvent, DirAction>;

// clang-format off
inline constexpr DirRow kDirRows[] = {
#define S DirState
#define E DirEvent
#define A DirAction
  // ---- Unshared: nobody else has it ----
  {S::kUnshared, {E::kGetShared}, S::kShared, {A::kWithdrawWrite, A::kAddSharer, A::kSendData}, "the home's memory is current; from now on the home only reads"},
  {S::kUnshared, {E::kGetExclusive}, S::kDirty, {A::kWithdrawAll, A::kLogTransfer, A::kSetOwner, A::kSendData}, "nobody else to ask: permission and data in one message"},
  {S::kUnshared, {E::kOperate}, S::kOperated, {A::kWithdrawAll, A::kBegin, A::kGrant}, "operands begin at nothing: no data goes out"},
  {S::kUnshared, {E::kLocalShared}, S::kUnshared, {A::kServeLocal}, "the permission came back while the wish was queued"},
  {S::kUnshared, {E::kLocalExclusive}, S::kUnshared, {A::kSoil, A::kServeLocal}, "the same; or the line was as its file has it, and will not be"},
  {S::kUnshared, {E::kDrop}, S::kStored, {A::kWithdrawAll, A::kDiscard}, "its file has it"},
  {S::kUnshared, {E::kBlocked}, S::kUnshared, {A::kDefer}, "a lock of the home; the request waits its turn"},
  {S::kUnshared, {E::kTryBlocked}, S::kUnshared, {A::kRefuse}, "a try never waits"},
  {S::kUnshared, {E::kWriteHome}, S::kUnshared, {A::kSoil, A::kWrite, A::kHide}, "as a thread of the home would; hidden, so that we see whether such a thread comes before the next"},
  {S::kUnshared, {E::kWriteElsewhere}, S::kUnshared, {A::kRefuse}, "a lock of the home, or others wait: the writer has to take its turn with them"},
  {S::kUnshared, {E::kPutDirtyStale}, S::kUnshared, {A::kPutAck}, "the return crossed a recall for the home, which was answered already"},
  {S::kUnshared, {E::kUpgrade, E::kUpgradeSole}, "an upgrade by a node without a copy is taken as GetExclusive"},
  {S::kUnshared, {E::kOperateFirst, E::kPutOperated, E::kPutOperatedLast}, "nobody has anything to give up"},
  {S::kUnshared, {E::kPutShared, E::kPutSharedLast, E::kPutDirty, E::kPutDirtyLast}, "nobody has a copy to return"},
  {S::kUnshared, {E::kAnswer, E::kAllGone, E::kSomeRefused, E::kWriteBack, E::kTransfer, E::kOwnerRefused}, "nothing was asked"},
  {S::kUnshared, {E::kReturn}, S::kUnshared, {A::kWithdrawAll, A::kTake, A::kPutAck}, "the grant was lost with the end of the home's log; the owner knows better"},
  {S::kUnshared, {E::kReturnShared}, S::kShared, {A::kWithdrawAll, A::kTake, A::kAddSender, A::kPutAck}, "the grant was lost with the end of the home's log; the owner knows better"},
  {S::kUnshared, {E::kReturnStale}, S::kUnshared, {A::kPutAck}, "the home's log has something newer"},
  {S::kUnshared, {E::kReportShared}, S::kShared, {A::kWithdrawWrite, A::kAddSender}, "what was known before the home died"},
  {S::kUnshared, {E::kReportDirty}, S::kDirty, {A::kWithdrawAll, A::kOwnerReports}, "the grant was lost with the end of the home's log; the owner knows better"},
  {S::kUnshared, {E::kSharerDied, E::kSharerDiedLast, E::kOwnerDied, E::kRequesterDied, E::kOwnerBack}, "nobody has it, and nobody waits"},

  // ---- Shared: home and sharers read ----
  {S::kShared, {E::kGetShared}, S::kShared, {A::kAddSharer, A::kSendData}, "the home's memory is current"},
  {S::kShared, {E::kGetExclusive}, S::kSharedToDirty, {A::kWithdrawAll, A::kRemember, A::kInvalidateOthers}, "every copy must be gone before the permission goes out"},
  {S::kShared, {E::kUpgrade}, S::kSharedToDirty, {A::kWithdrawAll, A::kRemember, A::kInvalidateOthers}, "the requester keeps its copy; the others go"},
  {S::kShared, {E::kUpgradeSole}, S::kDirty, {A::kWithdrawAll, A::kLogTransfer, A::kRemember, A::kSetOwner, A::kAnswerPending}, "nobody else to invalidate: the permission alone"},
  {S::kShared, {E::kOperateFirst}, S::kSharedToOperated, {A::kWithdrawAll, A::kRemember, A::kInvalidateOthers}, "nobody reads what others operate on"},
  {S::kShared, {E::kOperate, E::kPutOperated, E::kPutOperatedLast}, "it is not operated"},
  {S::kShared, {E::kDrop}, S::kParked, {A::kWithdrawAll, A::kDiscard}, "its file has it, and the sharers, who go on reading"},
  {S::kShared, {E::kLocalShared}, S::kShared, {A::kServeLocal}, "the permission came back while the wish was queued"},
  {S::kShared, {E::kLocalExclusive}, S::kSharedToUnshared, {A::kHide, A::kRemember, A::kInvalidateOthers}, "the home writes: every sharer goes"},
  {S::kShared, {E::kBlocked}, S::kShared, {A::kDefer}, "a lock of the home; the request waits its turn"},
  {S::kShared, {E::kTryBlocked}, S::kShared, {A::kRefuse}, "a try never waits"},
  {S::kShared, {E::kWriteElsewhere}, S::kShared, {A::kRefuse}, "there are copies; the writer has to ask for the line"},
  {S::kShared, {E::kWriteHome}, "the home does not have the line for itself"},
  {S::kShared, {E::kPutShared, E::kPutDirtyStale}, S::kShared, {A::kDropSharer, A::kPutAck}, "one reader less (PutAck goes to returned dirty lines only)"},
  {S::kShared, {E::kPutSharedLast, E::kPutDirtyLast}, S::kUnshared, {A::kDropSharer, A::kPutAck}, "the last reader is gone: the home may write again"},
  {S::kShared, {E::kPutDirty}, "there is no owner"},
  {S::kShared, {E::kAnswer, E::kAllGone, E::kSomeRefused, E::kWriteBack, E::kTransfer, E::kOwnerRefused}, "nothing was asked"},
  {S::kShared, {E::kReturnStale}, S::kShared, {A::kPutAck}, "the home's log has something newer"},
  {S::kShared, {E::kReportShared}, S::kShared, {A::kAddSender}, "what was known before the home died"},
  {S::kShared, {E::kSharerDied}, S::kShared, {A::kDropSharer}, "one reader less"},
  {S::kShared, {E::kSharerDiedLast}, S::kUnshared, {A::kDropSharer}, "the last reader is gone: the home may write again"},
  {S::kShared, {E::kReturn, E::kReturnShared, E::kReportDirty, E::kOwnerDied, E::kOwnerBack}, "there are copies, so there is no owner"},
  {S::kShared, {E::kRequesterDied}, "nobody waits"},

  // ---- Dirty: the owner has it ----
  {S::kDirty, {E::kGetShared}, S::kDirtyToShared, {A::kRemember, A::kForwardShared}, "the owner has the only current copy and sends it straight to the requester"},
  {S::kDirty, {E::kGetExclusive}, S::kDirtyToDirty, {A::kRemember, A::kForwardExclusive}, "the line goes from owner to owner; the home confirms"},
  {S::kDirty, {E::kOperateFirst}, S::kDirtyToOperated, {A::kRemember, A::kForwardHome}, "operands are combined with what stands in the home's memory"},
  {S::kDirty, {E::kOperate, E::kPutOperated, E::kPutOperatedLast}, "it is not operated"},
  {S::kDirty, {E::kLocalShared}, S::kDirtyToShared, {A::kRemember, A::kForwardShared}, "the home is the requester: the write-back is its data"},
  {S::kDirty, {E::kLocalExclusive}, S::kDirtyToUnshared, {A::kRemember, A::kForwardExclusive}, "the home takes the line back"},
  {S::kDirty, {E::kPutDirty}, S::kUnshared, {A::kClearOwner, A::kPutAck}, "the data was written to the home's memory before the message"},
  {S::kDirty, {E::kPutDirtyStale}, S::kDirty, {A::kPutAck}, "the return crossed a forward, which was answered already"},
  {S::kDirty, {E::kBlocked, E::kTryBlocked}, "the home holds no lock on a line that it does not have, so nobody waits here"},
  {S::kDirty, {E::kWriteElsewhere}, S::kDirty, {A::kRefuse}, "the line is elsewhere; the writer has to ask for it"},
  {S::kDirty, {E::kWriteHome}, "the home does not have the line for itself"},
  {S::kDirty, {E::kUpgrade, E::kUpgradeSole, E::kPutShared, E::kPutSharedLast, E::kPutDirtyLast}, "there are no sharers; a sharer's message comes before its acknowledgement"},
  {S::kDirty, {E::kAnswer, E::kAllGone, E::kSomeRefused, E::kWriteBack, E::kTransfer, E::kOwnerRefused}, "nothing was asked"},
  {S::kDirty, {E::kReturn}, S::kUnshared, {A::kTake, A::kPutAck}, "fetch, log, then acknowledge: the owner keeps it until then"},
  {S::kDirty, {E::kReturnStale}, S::kDirty, {A::kPutAck}, "the home's log has something newer"},
  {S::kDirty, {E::kOwnerDied}, S::kOrphaned, {}, "what it wrote is in its log: it brings that when it is back"},
  {S::kDirty, {E::kReturnShared}, "nothing was asked"},
  {S::kDirty, {E::kReportShared, E::kReportDirty, E::kSharerDied, E::kSharerDiedLast}, "the owner alone has it, and reports once"},
  {S::kDirty, {E::kRequesterDied, E::kOwnerBack}, "nobody waits, and the owner was never away"},

  // ---- SharedToUnshared: the home waits for its sharers ----
  {S::kSharedToUnshared, {E::kGetShared, E::kGetExclusive, E::kUpgrade}, S::kSharedToUnshared, {A::kDefer}, "one at a time"},
  {S::kSharedToUnshared, {E::kOperateFirst}, S::kSharedToUnshared, {A::kDefer}, "one at a time"},
  {S::kSharedToUnshared, {E::kOperate, E::kPutOperated, E::kPutOperatedLast}, "it is not operated"},
  {S::kSharedToUnshared, {E::kTryBlocked}, S::kSharedToUnshared, {A::kRefuse}, "busy: a try never waits"},
  {S::kSharedToUnshared, {E::kWriteElsewhere}, S::kSharedToUnshared, {A::kRefuse}, "busy: the writer has to ask for the line"},
  {S::kSharedToUnshared, {E::kWriteHome}, "the home does not have the line for itself"},
  {S::kSharedToUnshared, {E::kPutShared}, S::kSharedToUnshared, {}, "crossed the invalidation, which is acknowledged as well, or followed a refusal: at worst a sharer too many"},
  {S::kSharedToUnshared, {E::kAnswer}, S::kSharedToUnshared, {A::kTally}, "more to come"},
  {S::kSharedToUnshared, {E::kAllGone}, S::kUnshared, {A::kTally, A::kClearSharers, A::kAnswerPending}, "nobody else has a copy: the home writes"},
  {S::kSharedToUnshared, {E::kSomeRefused}, S::kShared, {A::kTally, A::kRefusePending}, "a sharer's lock; those who dropped their copy are off the list"},
  {S::kSharedToUnshared, {E::kUpgradeSole, E::kPutSharedLast, E::kPutDirtyLast, E::kPutDirtyStale}, "told apart in stable states only; a return comes before the answer that makes it stale"},
  {S::kSharedToUnshared, {E::kLocalShared, E::kLocalExclusive}, S::kSharedToUnshared, {A::kDefer}, "one at a time: who this was begun for has died (the home has one wish under way at a time)"},
  {S::kSharedToUnshared, {E::kBlocked, E::kPutDirty, E::kWriteBack, E::kTransfer, E::kOwnerRefused}, "there is no owner"},
  {S::kSharedToUnshared, {E::kReturnStale}, S::kSharedToUnshared, {A::kPutAck}, "the home's log has something newer"},
  {S::kSharedToUnshared, {E::kSharerDied}, S::kSharedToUnshared, {A::kDropSharer}, "it had refused; one reason less"},
  {S::kSharedToUnshared, {E::kReturn, E::kReturnShared, E::kOwnerDied, E::kOwnerBack}, "there is no owner"},
  {S::kSharedToUnshared, {E::kReportShared, E::kReportDirty, E::kSharerDiedLast, E::kRequesterDied}, "who is back serves nobody before all have reported; the home itself waits, or nobody"},

  // ---- SharedToDirty: a requester waits for the other sharers ----
  {S::kSharedToDirty, {E::kGetShared, E::kGetExclusive, E::kUpgrade, E::kLocalShared, E::kLocalExclusive}, S::kSharedToDirty, {A::kDefer}, "one at a time"},
  {S::kSharedToDirty, {E::kOperateFirst}, S::kSharedToDirty, {A::kDefer}, "one at a time"},
  {S::kSharedToDirty, {E::kOperate, E::kPutOperated, E::kPutOperatedLast}, "it is not operated"},
  {S::kSharedToDirty, {E::kTryBlocked}, S::kSharedToDirty, {A::kRefuse}, "busy: a try never waits"},
  {S::kSharedToDirty, {E::kWriteElsewhere}, S::kSharedToDirty, {A::kRefuse}, "busy: the writer has to ask for the line"},
  {S::kSharedToDirty, {E::kWriteHome}, "the home does not have the line for itself"},
  {S::kSharedToDirty, {E::kPutShared}, S::kSharedToDirty, {}, "crossed the invalidation, which is acknowledged as well, or followed a refusal: at worst a sharer too many"},
  {S::kSharedToDirty, {E::kAnswer}, S::kSharedToDirty, {A::kTally}, "more to come"},
  {S::kSharedToDirty, {E::kAllGone}, S::kDirty, {A::kTally, A::kClearSharers, A::kLogTransfer, A::kSetOwner, A::kAnswerPending}, "every other copy is gone: log, then grant"},
  {S::kSharedToDirty, {E::kSomeRefused}, S::kShared, {A::kTally, A::kRefusePending}, "a sharer's lock; those who dropped their copy are off the list"},
  {S::kSharedToDirty, {E::kUpgradeSole, E::kPutSharedLast, E::kPutDirtyLast, E::kPutDirtyStale}, "told apart in stable states only; a return comes before the answer that makes it stale"},
  {S::kSharedToDirty, {E::kBlocked, E::kPutDirty, E::kWriteBack, E::kTransfer, E::kOwnerRefused}, "there is no owner"},
  {S::kSharedToDirty, {E::kReturnStale}, S::kSharedToDirty, {A::kPutAck}, "the home's log has something newer"},
  {S::kSharedToDirty, {E::kSharerDied}, S::kSharedToDirty, {A::kDropSharer}, "it had refused; one reason less"},
  {S::kSharedToDirty, {E::kRequesterDied}, S::kSharedToUnshared, {A::kForgetRequester}, "the invalidations are under way; nobody is served when they are done"},
  {S::kSharedToDirty, {E::kReturn, E::kReturnShared, E::kOwnerDied, E::kOwnerBack}, "there is no owner"},
  {S::kSharedToDirty, {E::kReportShared, E::kReportDirty, E::kSharerDiedLast}, "who is back serves nobody before all have reported; told apart in stable states only"},

  // ---- DirtyToShared: a copy was asked of the owner ----
  {S::kDirtyToShared, {E::kGetShared, E::kGetExclusive, E::kLocalShared, E::kLocalExclusive}, S::kDirtyToShared, {A::kDefer}, "one at a time"},
  {S::kDirtyToShared, {E::kOperateFirst}, S::kDirtyToShared, {A::kDefer}, "one at a time"},
  {S::kDirtyToShared, {E::kOperate, E::kPutOperated, E::kPutOperatedLast}, "it is not operated"},
  {S::kDirtyToShared, {E::kTryBlocked}, S::kDirtyToShared, {A::kRefuse}, "busy: a try never waits"},
  {S::kDirtyToShared, {E::kWriteElsewhere}, S::kDirtyToShared, {A::kRefuse}, "busy: the writer has to ask for the line"},
  {S::kDirtyToShared, {E::kWriteHome}, "the home does not have the line for itself"},
  {S::kDirtyToShared, {E::kPutDirty}, S::kDirtyToShared, {A::kDefer}, "the return crossed the forward; the owner answers that from the copy it still has"},
  {S::kDirtyToShared, {E::kPutDirtyStale}, "a return comes before the answer that makes it stale, and is deferred with it"},
  {S::kDirtyToShared, {E::kWriteBack}, S::kShared, {A::kOwnerToSharer, A::kAddSharer, A::kAnswerPending}, "the home's memory is current again; owner and requester read"},
  {S::kDirtyToShared, {E::kOwnerRefused}, S::kDirty, {A::kRefusePending}, "the owner's lock; nothing has changed"},
  {S::kDirtyToShared, {E::kBlocked, E::kUpgrade, E::kUpgradeSole, E::kPutShared, E::kPutSharedLast, E::kPutDirtyLast, E::kAnswer, E::kAllGone, E::kSomeRefused, E::kTransfer}, "there are no sharers, and a copy was asked, not the line"},
  {S::kDirtyToShared, {E::kReturn}, S::kUnshared, {A::kTake, A::kPutAck, A::kResume}, "the answer, or a return that crossed the recall and is the answer"},
  {S::kDirtyToShared, {E::kReturnShared}, S::kShared, {A::kTake, A::kAddSender, A::kPutAck, A::kResume}, "the home's memory and log are current again; the former owner reads"},
  {S::kDirtyToShared, {E::kRequesterDied}, S::kDirtyToShared, {A::kForgetRequester}, "the recall is under way; nobody is served when it is answered"},
  {S::kDirtyToShared, {E::kReturnStale}, S::kDirtyToShared, {A::kPutAck}, "the home's log has something newer"},
  {S::kDirtyToShared, {E::kOwnerDied}, S::kOrphaned, {A::kSuspend}, "the request waits for the owner's return, before all others"},
  {S::kDirtyToShared, {E::kReportShared, E::kReportDirty, E::kSharerDied, E::kSharerDiedLast, E::kOwnerBack}, "there are no sharers, and the owner was never away"},

  // ---- DirtyToDirty: the line was asked of the owner for another node ----
  {S::kDirtyToDirty, {E::kGetShared, E::kGetExclusive, E::kLocalShared, E::kLocalExclusive}, S::kDirtyToDirty, {A::kDefer}, "one at a time"},
  {S::kDirtyToDirty, {E::kOperateFirst}, S::kDirtyToDirty, {A::kDefer}, "one at a time"},
  {S::kDirtyToDirty, {E::kOperate, E::kPutOperated, E::kPutOperatedLast}, "it is not operated"},
  {S::kDirtyToDirty, {E::kTryBlocked}, S::kDirtyToDirty, {A::kRefuse}, "busy: a try never waits"},
  {S::kDirtyToDirty, {E::kWriteElsewhere}, S::kDirtyToDirty, {A::kRefuse}, "busy: the writer has to ask for the line"},
  {S::kDirtyToDirty, {E::kWriteHome}, "the home does not have the line for itself"},
  {S::kDirtyToDirty, {E::kPutDirty}, S::kDirtyToDirty, {A::kDefer}, "the return crossed the forward; the owner answers that from the copy it still has"},
  {S::kDirtyToDirty, {E::kPutDirtyStale}, "a return comes before the answer that makes it stale, and is deferred with it"},
  {S::kDirtyToDirty, {E::kTransfer}, S::kDirty, {A::kLogTransfer, A::kSetOwner, A::kAnswerPending}, "log, then confirm the new owner, who waits for this and for the data"},
  {S::kDirtyToDirty, {E::kOwnerRefused}, S::kDirty, {A::kRefusePending}, "the owner's lock; nothing has changed"},
  {S::kDirtyToDirty, {E::kBlocked, E::kUpgrade, E::kUpgradeSole, E::kPutShared, E::kPutSharedLast, E::kPutDirtyLast, E::kAnswer, E::kAllGone, E::kSomeRefused, E::kWriteBack}, "there are no sharers, and the line was asked, not a copy"},
  {S::kDirtyToDirty, {E::kReturn}, S::kUnshared, {A::kTake, A::kPutAck, A::kResume}, "the answer, or a return that crossed the recall and is the answer"},
  {S::kDirtyToDirty, {E::kRequesterDied}, S::kDirtyToUnshared, {A::kForgetRequester}, "the recall is under way; the line comes home for nobody"},
  {S::kDirtyToDirty, {E::kReturnShared}, "the line was asked, not a copy"},
  {S::kDirtyToDirty, {E::kReturnStale}, S::kDirtyToDirty, {A::kPutAck}, "the home's log has something newer"},
  {S::kDirtyToDirty, {E::kOwnerDied}, S::kOrphaned, {A::kSuspend}, "the request waits for the owner's return, before all others"},
  {S::kDirtyToDirty, {E::kReportShared, E::kReportDirty, E::kSharerDied, E::kSharerDiedLast, E::kOwnerBack}, "there are no sharers, and the owner was never away"},

  // ---- DirtyToUnshared: the home takes the line back ----
  {S::kDirtyToUnshared, {E::kGetShared, E::kGetExclusive}, S::kDirtyToUnshared, {A::kDefer}, "one at a time"},
  {S::kDirtyToUnshared, {E::kLocalShared, E::kLocalExclusive}, S::kDirtyToUnshared, {A::kDefer}, "one at a time: who this was begun for has died (the home has one wish under way at a time)"},
  {S::kDirtyToUnshared, {E::kOperateFirst}, S::kDirtyToUnshared, {A::kDefer}, "one at a time"},
  {S::kDirtyToUnshared, {E::kOperate, E::kPutOperated, E::kPutOperatedLast}, "it is not operated"},
  {S::kDirtyToUnshared, {E::kTryBlocked}, S::kDirtyToUnshared, {A::kRefuse}, "busy: a try never waits"},
  {S::kDirtyToUnshared, {E::kWriteElsewhere}, S::kDirtyToUnshared, {A::kRefuse}, "busy: the writer has to ask for the line"},
  {S::kDirtyToUnshared, {E::kWriteHome}, "the home does not have the line for itself"},
  {S::kDirtyToUnshared, {E::kPutDirty}, S::kDirtyToUnshared, {A::kDefer}, "the return crossed the recall; the owner answers that from the copy it still has"},
  {S::kDirtyToUnshared, {E::kPutDirtyStale}, "a return comes before the answer that makes it stale, and is deferred with it"},
  {S::kDirtyToUnshared, {E::kTransfer}, S::kUnshared, {A::kClearOwner, A::kServeLocal}, "the data stands in the home's memory"},
  {S::kDirtyToUnshared, {E::kOwnerRefused}, S::kDirty, {A::kRefusePending}, "the owner's lock; nothing has changed"},
  {S::kDirtyToUnshared, {E::kBlocked, E::kUpgrade, E::kUpgradeSole, E::kPutShared, E::kPutSharedLast, E::kPutDirtyLast, E::kAnswer, E::kAllGone, E::kSomeRefused, E::kWriteBack}, "there are no sharers, and the line was asked, not a copy"},
  {S::kDirtyToUnshared, {E::kReturn}, S::kUnshared, {A::kTake, A::kPutAck, A::kResume}, "the answer, or a return that crossed the recall and is the answer"},
  {S::kDirtyToUnshared, {E::kReturnShared}, "the line was asked, not a copy"},
  {S::kDirtyToUnshared, {E::kRequesterDied}, "the home itself waits, or nobody"},
  {S::kDirtyToUnshared, {E::kReturnStale}, S::kDirtyToUnshared, {A::kPutAck}, "the home's log has something newer"},
  {S::kDirtyToUnshared, {E::kOwnerDied}, S::kOrphaned, {A::kSuspend}, "the request waits for the owner's return, before all others"},
  {S::kDirtyToUnshared, {E::kReportShared, E::kReportDirty, E::kSharerDied, E::kSharerDiedLast, E::kOwnerBack}, "there are no sharers, and the owner was never away"},
  // ---- Operated: sharers and home combine operands ----
  {S::kOperated, {E::kOperate}, S::kOperated, {A::kBegin, A::kGrant}, "one more; the order of operands does not matter"},
  {S::kOperated, {E::kGetShared, E::kGetExclusive, E::kOperateFirst, E::kLocalShared, E::kLocalExclusive}, S::kOperatedToUnshared, {A::kDeferFirst, A::kHide, A::kRecall}, "every operand must be in before anybody reads, writes or operates otherwise; those of the home are"},
  {S::kOperated, {E::kPutOperated}, S::kOperated, {A::kMerge, A::kDropSharer, A::kPutAck}, "one operator less"},
  {S::kOperated, {E::kPutOperatedLast}, S::kUnshared, {A::kMerge, A::kDropSharer, A::kEnd, A::kPutAck}, "all operands are in: the home may read and write again"},
  {S::kOperated, {E::kPutDirtyStale}, S::kOperated, {A::kPutAck}, "the return crossed a recall for the home, which was answered already"},
  {S::kOperated, {E::kTryBlocked, E::kWriteElsewhere}, S::kOperated, {A::kRefuse}, "others wait; or the writer has to ask for the line"},
  {S::kOperated, {E::kWriteHome, E::kBlocked}, "the home neither writes nor locks a line that is operated"},
  {S::kOperated, {E::kUpgrade, E::kUpgradeSole, E::kPutShared, E::kPutSharedLast, E::kPutDirty, E::kPutDirtyLast}, "there are no readers and no owner"},
  {S::kOperated, {E::kAnswer, E::kAllGone, E::kSomeRefused, E::kWriteBack, E::kTransfer, E::kOwnerRefused}, "nothing was asked"},
  {S::kOperated, {E::kReturn, E::kReturnShared, E::kReturnStale, E::kReportShared, E::kReportDirty, E::kSharerDied, E::kSharerDiedLast, E::kOwnerDied, E::kRequesterDied, E::kOwnerBack}, "not in a logged cluster"},

  // ---- SharedToOperated: a requester waits for the sharers ----
  {S::kSharedToOperated, {E::kGetShared, E::kGetExclusive, E::kUpgrade, E::kOperateFirst, E::kLocalShared, E::kLocalExclusive}, S::kSharedToOperated, {A::kDefer}, "one at a time"},
  {S::kSharedToOperated, {E::kTryBlocked, E::kWriteElsewhere}, S::kSharedToOperated, {A::kRefuse}, "busy: a try never waits, and a writer has to ask for the line"},
  {S::kSharedToOperated, {E::kPutShared}, S::kSharedToOperated, {}, "crossed the invalidation, which is acknowledged as well"},
  {S::kSharedToOperated, {E::kAnswer}, S::kSharedToOperated, {A::kTally}, "more to come"},
  {S::kSharedToOperated, {E::kAllGone}, S::kOperated, {A::kTally, A::kClearSharers, A::kBegin, A::kGrant}, "every copy is gone"},
  {S::kSharedToOperated, {E::kSomeRefused}, "no try was sent"},
  {S::kSharedToOperated, {E::kUpgradeSole, E::kPutSharedLast, E::kPutDirtyLast, E::kPutDirtyStale, E::kOperate, E::kPutOperated, E::kPutOperatedLast, E::kWriteHome}, "told apart in stable states only; it is not operated yet"},
  {S::kSharedToOperated, {E::kBlocked, E::kPutDirty, E::kWriteBack, E::kTransfer, E::kOwnerRefused}, "there is no owner"},
  {S::kSharedToOperated, {E::kReturn, E::kReturnShared, E::kReturnStale, E::kReportShared, E::kReportDirty, E::kSharerDied, E::kSharerDiedLast, E::kOwnerDied, E::kRequesterDied, E::kOwnerBack}, "not in a logged cluster"},

  // ---- DirtyToOperated: the line comes home first ----
  {S::kDirtyToOperated, {E::kGetShared, E::kGetExclusive, E::kOperateFirst, E::kLocalShared, E::kLocalExclusive}, S::kDirtyToOperated, {A::kDefer}, "one at a time"},
  {S::kDirtyToOperated, {E::kTryBlocked, E::kWriteElsewhere}, S::kDirtyToOperated, {A::kRefuse}, "busy: a try never waits, and a writer has to ask for the line"},
  {S::kDirtyToOperated, {E::kPutDirty}, S::kDirtyToOperated, {A::kDefer}, "the return crossed the recall; the owner answers that from the copy it still has"},
  {S::kDirtyToOperated, {E::kTransfer}, S::kOperated, {A::kClearOwner, A::kBegin, A::kGrant}, "the data stands in the home's memory"},
  {S::kDirtyToOperated, {E::kPutDirtyStale, E::kOwnerRefused}, "a return is deferred with the answer that makes it stale; no try was sent"},
  {S::kDirtyToOperated, {E::kOperate, E::kPutOperated, E::kPutOperatedLast, E::kWriteHome}, "it is not operated yet"},
  {S::kDirtyToOperated, {E::kBlocked, E::kUpgrade, E::kUpgradeSole, E::kPutShared, E::kPutSharedLast, E::kPutDirtyLast, E::kAnswer, E::kAllGone, E::kSomeRefused, E::kWriteBack}, "there are no sharers, and the line was asked, not a copy"},
  {S::kDirtyToOperated, {E::kReturn, E::kReturnShared, E::kReturnStale, E::kReportShared, E::kReportDirty, E::kSharerDied, E::kSharerDiedLast, E::kOwnerDied, E::kRequesterDied, E::kOwnerBack}, "not in a logged cluster"},

  // ---- OperatedToUnshared: operands are being returned ----
  {S::kOperatedToUnshared, {E::kGetShared, E::kGetExclusive, E::kUpgrade, E::kOperateFirst, E::kLocalShared, E::kLocalExclusive}, S::kOperatedToUnshared, {A::kDefer}, "one at a time"},
  {S::kOperatedToUnshared, {E::kTryBlocked, E::kWriteElsewhere}, S::kOperatedToUnshared, {A::kRefuse}, "busy: a try never waits, and a writer has to ask for the line"},
  {S::kOperatedToUnshared, {E::kPutOperated}, S::kOperatedToUnshared, {A::kMerge, A::kTally, A::kPutAck}, "more to come"},
  {S::kOperatedToUnshared, {E::kPutOperatedLast}, S::kUnshared, {A::kMerge, A::kTally, A::kClearSharers, A::kEnd, A::kPutAck}, "all operands are in; those who wait take their turns"},
  {S::kOperatedToUnshared, {E::kAnswer}, S::kOperatedToUnshared, {A::kTally}, "a node that did not operate, where a bit stands for several"},
  {S::kOperatedToUnshared, {E::kAllGone}, S::kUnshared, {A::kTally, A::kClearSharers, A::kEnd}, "a node that did not operate, and the last to answer"},
  {S::kOperatedToUnshared, {E::kWriteHome, E::kOperate, E::kBlocked}, "the home does not have the line for itself"},
  {S::kOperatedToUnshared, {E::kUpgradeSole, E::kPutShared, E::kPutSharedLast, E::kPutDirty, E::kPutDirtyLast, E::kPutDirtyStale}, "there are no readers and no owner"},
  {S::kOperatedToUnshared, {E::kSomeRefused, E::kWriteBack, E::kTransfer, E::kOwnerRefused}, "there is no owner, and no try was sent"},
  {S::kOperatedToUnshared, {E::kReturn, E::kReturnShared, E::kReturnStale, E::kReportShared, E::kReportDirty, E::kSharerDied, E::kSharerDiedLast, E::kOwnerDied, E::kRequesterDied, E::kOwnerBack}, "not in a logged cluster"},

  // ---- Orphaned: the owner has died, or the home is back and the owner has not reported ----
  {S::kOrphaned, {E::kGetShared, E::kGetExclusive, E::kLocalShared, E::kLocalExclusive}, S::kOrphaned, {A::kDefer}, "what the line holds is in the owner's log: nobody gets it before the owner has spoken"},
  {S::kOrphaned, {E::kTryBlocked}, S::kOrphaned, {A::kRefuse}, "a try does not wait for a node to return"},
  {S::kOrphaned, {E::kReturn}, S::kUnshared, {A::kTake, A::kPutAck}, "the owner brings what it had in its log, or in its slot"},
  {S::kOrphaned, {E::kReturnShared}, S::kShared, {A::kTake, A::kAddSender, A::kPutAck}, "the owner had written it back when the home died, and reads on"},
  {S::kOrphaned, {E::kReturnStale}, S::kOrphaned, {A::kPutAck}, "of a tenure before; the owner has not spoken of this one"},
  {S::kOrphaned, {E::kReportShared}, S::kShared, {A::kUndo, A::kAddSender}, "the owner never heard of its permission, and still reads"},
  {S::kOrphaned, {E::kReportDirty}, S::kDirty, {A::kOwnerReports}, "it is as the log says"},
  {S::kOrphaned, {E::kOwnerBack}, S::kUnshared, {A::kUndo}, "the owner never heard of its permission, or wrote nothing: what stands here is current"},
  {S::kOrphaned, {E::kOwnerDied}, S::kOrphaned, {}, "once more"},
  {S::kOrphaned, {E::kSharerDied, E::kSharerDiedLast, E::kRequesterDied}, "there are no sharers, and nobody is being served"},
  {S::kOrphaned, {E::kBlocked, E::kUpgrade, E::kUpgradeSole, E::kPutShared, E::kPutSharedLast}, "there are no sharers, and the home holds no lock on a line that it does not have"},
  {S::kOrphaned, {E::kAnswer, E::kAllGone, E::kSomeRefused, E::kOwnerRefused}, "nothing was asked"},
  {S::kOrphaned, {E::kOperate, E::kOperateFirst, E::kWriteHome, E::kWriteElsewhere, E::kPutOperated, E::kPutOperatedLast}, "not in a logged cluster"},
  {S::kOrphaned, {E::kPutDirty, E::kPutDirtyLast, E::kPutDirtyStale, E::kWriteBack, E::kTransfer}, "not in a logged cluster"},

  // ---- Stored: the file alone has it (docs/files.md) ----
  {S::kStored, {E::kGetShared, E::kGetExclusive, E::kOperateFirst, E::kLocalShared, E::kLocalExclusive}, S::kFetching, {A::kDefer, A::kFetch}, "the line first, then the request takes its turn"},
  {S::kStored, {E::kFetchAhead}, S::kFetching, {A::kFetch}, "before anybody waits for it"},
  {S::kStored, {E::kWriteElsewhere}, S::kStored, {A::kRefuse}, "the writer has to ask for the line"},
  {S::kStored, {E::kTryBlocked}, "nobody waits for a line that is at rest in its file, and nobody locks it: a try fetches it"},
  {S::kStored, {E::kUpgrade, E::kUpgradeSole, E::kPutShared, E::kPutSharedLast, E::kPutDirty, E::kPutDirtyLast, E::kPutDirtyStale}, "nobody has a copy"},
  {S::kStored, {E::kOperate, E::kPutOperated, E::kPutOperatedLast, E::kWriteHome, E::kBlocked}, "the home does not have the line, and no lock of it"},
  {S::kStored, {E::kAnswer, E::kAllGone, E::kSomeRefused, E::kWriteBack, E::kTransfer, E::kOwnerRefused}, "nothing was asked"},
  {S::kStored, {E::kReturn, E::kReturnShared, E::kReturnStale, E::kReportShared, E::kReportDirty, E::kSharerDied, E::kSharerDiedLast, E::kOwnerDied, E::kRequesterDied, E::kOwnerBack}, "not in a logged cluster"},
  {S::kStored, {E::kDrop, E::kFetched, E::kFetchedShared, E::kNoCopy, E::kFetchFailed, E::kFetchFailedShared}, "nothing is here, and nothing under way"},

  // ---- Parked: the file and the sharers have it ----
  {S::kParked, {E::kGetShared, E::kGetExclusive, E::kUpgrade, E::kOperateFirst, E::kLocalShared, E::kLocalExclusive}, S::kFetching, {A::kDefer, A::kFetch}, "the line first, then the request takes its turn"},
  {S::kParked, {E::kFetchAhead}, S::kFetching, {A::kFetch}, "before anybody waits for it"},
  {S::kParked, {E::kWriteElsewhere}, S::kParked, {A::kRefuse}, "the writer has to ask for the line"},
  {S::kParked, {E::kTryBlocked}, "nobody waits for a line that is at rest in its file, and no lock of the home is on it: a try fetches it"},
  {S::kParked, {E::kPutShared}, S::kParked, {A::kDropSharer}, "one copy less"},
  {S::kParked, {E::kPutSharedLast}, S::kStored, {A::kDropSharer}, "the last copy; the file has it"},
  {S::kParked, {E::kUpgradeSole, E::kPutDirty, E::kPutDirtyLast, E::kPutDirtyStale}, "told apart where the home has the line; there is no owner, and a return comes before what makes it stale"},
  {S::kParked, {E::kOperate, E::kPutOperated, E::kPutOperatedLast, E::kWriteHome, E::kBlocked}, "the home does not have the line, and no lock of it"},
  {S::kParked, {E::kAnswer, E::kAllGone, E::kSomeRefused, E::kWriteBack, E::kTransfer, E::kOwnerRefused}, "nothing was asked"},
  {S::kParked, {E::kReturn, E::kReturnShared, E::kReturnStale, E::kReportShared, E::kReportDirty, E::kSharerDied, E::kSharerDiedLast, E::kOwnerDied, E::kRequesterDied, E::kOwnerBack}, "not in a logged cluster"},
  {S::kParked, {E::kDrop, E::kFetched, E::kFetchedShared, E::kNoCopy, E::kFetchFailed, E::kFetchFailedShared}, "nothing is here, and nothing under way"},

  // ---- Fetching: on its way home ----
  {S::kFetching, {E::kGetShared, E::kGetExclusive, E::kUpgrade, E::kOperateFirst, E::kLocalShared, E::kLocalExclusive}, S::kFetching, {A::kDefer}, "one at a time"},
  {S::kFetching, {E::kTryBlocked, E::kWriteElsewhere}, S::kFetching, {A::kRefuse}, "busy: a try never waits, and a writer has to ask for the line"},
  {S::kFetching, {E::kPutShared}, S::kFetching, {A::kDropSharer}, "one copy less; if it is the one that was asked, its answer follows"},
  {S::kFetching, {E::kFetched}, S::kUnshared, {A::kHere, A::kClean}, "the home has it, as the file does; those who wait take their turns"},
  {S::kFetching, {E::kFetchedShared}, S::kShared, {A::kHere, A::kClean}, "the home has it again, as the file and the sharers do"},
  {S::kFetching, {E::kNoCopy}, S::kFetching, {A::kLoad}, "then from the file"},
  {S::kFetching, {E::kFetchFailed}, S::kStored, {A::kFail}, "who waits is told; who comes later tries again"},
  {S::kFetching, {E::kFetchFailedShared}, S::kParked, {A::kFail}, "who waits is told; the copies stay"},
  {S::kFetching, {E::kFetchAhead, E::kDrop}, "it is not at rest"},
  {S::kFetching, {E::kUpgradeSole, E::kPutSharedLast, E::kPutDirty, E::kPutDirtyLast, E::kPutDirtyStale}, "told apart in stable states only; there is no owner"},
  {S::kFetching, {E::kOperate, E::kPutOperated, E::kPutOperatedLast, E::kWriteHome, E::kBlocked}, "the home does not have the line, and no lock of it"},
  {S::kFetching, {E::kAnswer, E::kAllGone, E::kSomeRefused, E::kWriteBack, E::kTransfer, E::kOwnerRefused}, "nothing of the kind was asked"},
  {S::kFetching, {E::kReturn, E::kReturnShared, E::kReturnStale, E::kReportShared, E::kReportDirty, E::kSharerDied, E::kSharerDiedLast, E::kOwnerDied, E::kRequesterDied, E::kOwnerBack}, "not in a logged cluster"},

  // ---- what only lines that have a file do, and in the states above ----
  {S::kUnshared, {E::kFetched, E::kFetchedShared, E::kNoCopy, E::kFetchFailed, E::kFetchFailedShared, E::kFetchAhead}, "the home has it: nothing is fetched"},
  {S::kShared, {E::kFetched, E::kFetchedShared, E::kNoCopy, E::kFetchFailed, E::kFetchFailedShared, E::kFetchAhead}, "the home has it: nothing is fetched"},
  {S::kDirty, {E::kFetched, E::kFetchedShared, E::kNoCopy, E::kFetchFailed, E::kFetchFailedShared, E::kFetchAhead, E::kDrop}, "nothing is fetched, and only what is at rest at home is dropped"},
  {S::kOperated, {E::kFetched, E::kFetchedShared, E::kNoCopy, E::kFetchFailed, E::kFetchFailedShared, E::kFetchAhead, E::kDrop}, "nothing is fetched, and only what is at rest at home is dropped"},
  {S::kSharedToUnshared, {E::kFetched, E::kFetchedShared, E::kNoCopy, E::kFetchFailed, E::kFetchFailedShared, E::kFetchAhead, E::kDrop}, "nothing is fetched, and only what is at rest at home is dropped"},
  {S::kSharedToDirty, {E::kFetched, E::kFetchedShared, E::kNoCopy, E::kFetchFailed, E::kFetchFailedShared, E::kFetchAhead, E::kDrop}, "nothing is fetched, and only what is at rest at home is dropped"},
  {S::kDirtyToShared, {E::kFetched, E::kFetchedShared, E::kNoCopy, E::kFetchFailed, E::kFetchFailedShared, E::kFetchAhead, E::kDrop}, "nothing is fetched, and only what is at rest at home is dropped"},
  {S::kDirtyToDirty, {E::kFetched, E::kFetchedShared, E::kNoCopy, E::kFetchFailed, E::kFetchFailedShared, E::kFetchAhead, E::kDrop}, "nothing is fetched, and only what is at rest at home is dropped"},
  {S::kDirtyToUnshared, {E::kFetched, E::kFetchedShared, E::kNoCopy, E::kFetchFailed, E::kFetchFailedShared, E::kFetchAhead, E::kDrop}, "nothing is fetched, and only what is at rest at home is dropped"},
  {S::kSharedToOperated, {E::kFetched, E::kFetchedShared, E::kNoCopy, E::kFetchFailed, E::kFetchFailedShared, E::kFetchAhead, E::kDrop}, "nothing is fetched, and only what is at rest at home is dropped"},
  {S::kDirtyToOperated, {E::kFetched, E::kFetchedShared, E::kNoCopy, E::kFetchFailed, E::kFetchFailedShared, E::kFetchAhead, E::kDrop}, "nothing is fetched, and only what is at rest at home is dropped"},
  {S::kOperatedToUnshared, {E::kFetched, E::kFetchedShared, E::kNoCopy, E::kFetchFailed, E::kFetchFailedShared, E::kFetchAhead, E::kDrop}, "nothing is fetched, and only what is at rest at home is dropped"},
  {S::kOrphaned, {E::kFetched, E::kFetchedShared, E::kNoCopy, E::kFetchFailed, E::kFetchFailedShared, E::kFetchAhead, E::kDrop}, "nothing is fetched, and only what is at rest at home is dropped"},
#undef S
#undef E
#undef A
};
// clang-format on

inline constexpr DirTable kDirTable{kDirRows};
static_assert(kDirTable.complete(), "every (state, event) of the directory has exactly one row");

[[nodiscard]] constexpr bool is_stable(DirState state) noexcept {
  return state <= DirState::kParked;
}

[[nodiscard]] std::string_view to_string(DirState state) noexcept;
[[nodiscard]] std::string_view to_string(DirEvent event) noexcept;
[[nodiscard]] std::string_view to_string(DirAction action) noexcept;

}  // namespace atoll::coherence
