// The lock of one element at its home: states, events, and the table that joins them.
#pragma once

#include <cstdint>
#include <string_view>

#include "coherence/table.hpp"

namespace atoll::coherence {

/// States of an element's lock.
enum class ElementState : std::uint8_t {
  kFree,           // nobody holds it; there is no entry
  kReading,        // readers hold it, nobody waits
  kReadingQueued,  // readers hold it; a writer is the first of those who wait
  kWriting,        // a writer holds it, nobody waits
  kWritingQueued,  // a writer holds it, others wait
  kPassing,        // nobody holds it and somebody waits; never between two events
  kAbandoned,      // its writer's node has died: what it guards may be half done
  kAway,           // logged: its writer's node has died, and will be back; nobody waits
  kAwayQueued,     // the same, and others wait for that
  kCount,
};

enum class ElementEvent : std::uint8_t {
  kRead,            // somebody wants to read, and waits if need be
  kWrite,           // the same to write
  kTryRead,         // somebody wants to read at once, or not at all
  kTryWrite,        // the same to write
  kExcess,          // any of these, by a node that has as many requests here as it may
  kRelease,         // one of several holders lets go
  kReleaseLast,     // the only holder lets go
  kWithdraw,        // one of several who wait gives up
  kWithdrawLast,    // the only one who waits gives up
  kStranger,        // somebody lets go who neither holds it nor waits
  kHolderDied,      // the node of the writer who holds it has died, for good
  kHolderAway,      // logged: it has died, and will be back
  kHolderBack,      // logged: the node of the writer who held it is back
  kReinstateRead,   // logged: this home is back, and somebody holds it to read since before
  kReinstateWrite,  // the same to write
  kTurnRead,        // the first of those who wait wants to read; others are behind it
  kTurnReadLast,    // the only one who waits wants to read
  kTurnWrite,       // the first of those who wait wants to write; others are behind it
  kTurnWriteLast,   // the only one who waits wants to write
  kCount,
};

enum class ElementAction : std::uint8_t {
  kNone,
  kGrant,            // who asked holds it, and is told
  kQueue,            // who asked waits, behind all others
  kRefuse,           // who asked is told that somebody is in the way
  kRefuseExcess,     // who asked is told that it has too many
  kRefuseAbandoned,  // who asked is told whose death has left it locked
  kDrop,             // who lets go is forgotten
  kAdmit,            // the first of those who wait holds it, and is told
  kTurn,             // look who is first now
  kMourn,            // remember whose death leaves it locked
  kRefuseWaiting,    // all who wait are told of the death
  kForgetDeath,      // who died is back
  kReinstate,        // who says that it holds it does, and knows it
};

using ElementRow = Row<ElementState, ElementEvent, ElementAction>;
using ElementTable = Table<ElementState, ElementEvent, ElementAction>;

// clang-format off
inline constexpr ElementRow kElementRows[] = {
#define S ElementState
#define E ElementEvent
#define A ElementAction
  // ---- Free: nobody has it ----
  {S::kFree, {E::kRead, E::kTryRead}, S::kReading, {A::kGrant}, "nobody is in the way"},
  {S::kFree, {E::kWrite, E::kTryWrite}, S::kWriting, {A::kGrant}, "nobody is in the way"},
  {S::kFree, {E::kExcess}, S::kFree, {A::kRefuseExcess}, "a peer must not make the table grow without end"},
  {S::kFree, {E::kStranger}, S::kFree, {}, "a withdrawal that crossed its refusal, or is a second one"},
  {S::kFree, {E::kReinstateRead}, S::kReading, {A::kReinstate}, "its home was away, its holder was not"},
  {S::kFree, {E::kReinstateWrite}, S::kWriting, {A::kReinstate}, "its home was away, its holder was not"},
  {S::kFree, {E::kRelease, E::kReleaseLast, E::kWithdraw, E::kWithdrawLast}, "nobody holds it or waits"},
  {S::kFree, {E::kHolderDied, E::kHolderAway, E::kHolderBack}, "nobody holds it, and nobody is away who did"},
  {S::kFree, {E::kTurnRead, E::kTurnReadLast, E::kTurnWrite, E::kTurnWriteLast}, "nobody waits"},

  // ---- Reading: readers have it ----
  {S::kReading, {E::kRead, E::kTryRead}, S::kReading, {A::kGrant}, "readers share"},
  {S::kReading, {E::kWrite}, S::kReadingQueued, {A::kQueue}, "the readers that are in finish first"},
  {S::kReading, {E::kTryWrite}, S::kReading, {A::kRefuse}, "a try never waits"},
  {S::kReading, {E::kExcess}, S::kReading, {A::kRefuseExcess}, "a peer must not make the table grow without end"},
  {S::kReading, {E::kRelease}, S::kReading, {A::kDrop}, "others still read"},
  {S::kReading, {E::kReleaseLast}, S::kFree, {A::kDrop}, "nobody is left"},
  {S::kReading, {E::kStranger}, S::kReading, {}, "a withdrawal that crossed its refusal, or is a second one"},
  {S::kReading, {E::kWithdraw, E::kWithdrawLast, E::kTurnRead, E::kTurnReadLast, E::kTurnWrite, E::kTurnWriteLast}, "nobody waits"},
  {S::kReading, {E::kReinstateRead}, S::kReading, {A::kReinstate}, "readers share"},
  {S::kReading, {E::kReinstateWrite}, "a writer is alone: who says otherwise is at fault, and told so before"},
  {S::kReading, {E::kHolderDied, E::kHolderAway, E::kHolderBack}, "readers change nothing: theirs are let go"},

  // ---- ReadingQueued: readers have it, a writer is next ----
  {S::kReadingQueued, {E::kRead, E::kWrite}, S::kReadingQueued, {A::kQueue}, "nobody overtakes: a writer would wait for ever for readers that keep coming"},
  {S::kReadingQueued, {E::kTryRead, E::kTryWrite}, S::kReadingQueued, {A::kRefuse}, "a try neither waits nor overtakes"},
  {S::kReadingQueued, {E::kExcess}, S::kReadingQueued, {A::kRefuseExcess}, "a peer must not make the table grow without end"},
  {S::kReadingQueued, {E::kRelease}, S::kReadingQueued, {A::kDrop}, "others still read"},
  {S::kReadingQueued, {E::kReleaseLast}, S::kPassing, {A::kDrop, A::kTurn}, "the next one's turn"},
  {S::kReadingQueued, {E::kWithdraw}, S::kReadingQueued, {A::kDrop, A::kTurn}, "it may have been the writer that readers wait behind"},
  {S::kReadingQueued, {E::kWithdrawLast}, S::kReading, {A::kDrop}, "nobody waits any more"},
  {S::kReadingQueued, {E::kTurnRead}, S::kReadingQueued, {A::kAdmit, A::kTurn}, "readers share, up to the next writer"},
  {S::kReadingQueued, {E::kTurnReadLast}, S::kReading, {A::kAdmit}, "readers share"},
  {S::kReadingQueued, {E::kTurnWrite, E::kTurnWriteLast}, S::kReadingQueued, {}, "a writer waits for the readers that are in"},
  {S::kReadingQueued, {E::kStranger}, S::kReadingQueued, {}, "a withdrawal that crossed its refusal, or is a second one"},
  {S::kReadingQueued, {E::kReinstateRead, E::kReinstateWrite}, "nobody waits before the home is open, nothing is reinstated after that"},
  {S::kReadingQueued, {E::kHolderDied, E::kHolderAway, E::kHolderBack}, "readers change nothing: theirs are let go"},

  // ---- Writing: a writer has it ----
  {S::kWriting, {E::kRead, E::kWrite}, S::kWritingQueued, {A::kQueue}, "a writer is alone"},
  {S::kWriting, {E::kTryRead, E::kTryWrite}, S::kWriting, {A::kRefuse}, "a try never waits"},
  {S::kWriting, {E::kExcess}, S::kWriting, {A::kRefuseExcess}, "a peer must not make the table grow without end"},
  {S::kWriting, {E::kReleaseLast}, S::kFree, {A::kDrop}, "nobody is left"},
  {S::kWriting, {E::kHolderDied}, S::kAbandoned, {A::kMourn, A::kDrop}, "its update may be half done: nobody gets to see it"},
  {S::kWriting, {E::kHolderAway}, S::kAway, {A::kMourn, A::kDrop}, "its update may be half done: it is for the program that is started again"},
  {S::kWriting, {E::kStranger}, S::kWriting, {}, "a withdrawal that crossed its refusal, or is a second one"},
  {S::kWriting, {E::kReinstateRead, E::kReinstateWrite}, "a writer is alone: who says otherwise is at fault, and told so before"},
  {S::kWriting, {E::kRelease}, "a writer is alone"},
  {S::kWriting, {E::kHolderBack}, "its holder is not away"},
  {S::kWriting, {E::kWithdraw, E::kWithdrawLast, E::kTurnRead, E::kTurnReadLast, E::kTurnWrite, E::kTurnWriteLast}, "nobody waits"},

  // ---- WritingQueued: a writer has it, others wait ----
  {S::kWritingQueued, {E::kRead, E::kWrite}, S::kWritingQueued, {A::kQueue}, "first come, first served"},
  {S::kWritingQueued, {E::kTryRead, E::kTryWrite}, S::kWritingQueued, {A::kRefuse}, "a try never waits"},
  {S::kWritingQueued, {E::kExcess}, S::kWritingQueued, {A::kRefuseExcess}, "a peer must not make the table grow without end"},
  {S::kWritingQueued, {E::kReleaseLast}, S::kPassing, {A::kDrop, A::kTurn}, "the next one's turn"},
  {S::kWritingQueued, {E::kWithdraw}, S::kWritingQueued, {A::kDrop}, "the others wait on"},
  {S::kWritingQueued, {E::kWithdrawLast}, S::kWriting, {A::kDrop}, "nobody waits any more"},
  {S::kWritingQueued, {E::kHolderDied}, S::kAbandoned, {A::kMourn, A::kDrop, A::kRefuseWaiting}, "its update may be half done: nobody gets to see it"},
  {S::kWritingQueued, {E::kHolderAway}, S::kAwayQueued, {A::kMourn, A::kDrop}, "its update may be half done: the others wait until its node is back"},
  {S::kWritingQueued, {E::kStranger}, S::kWritingQueued, {}, "a withdrawal that crossed its refusal, or is a second one"},
  {S::kWritingQueued, {E::kReinstateRead, E::kReinstateWrite}, "nobody waits before the home is open, nothing is reinstated after that"},
  {S::kWritingQueued, {E::kRelease}, "a writer is alone"},
  {S::kWritingQueued, {E::kHolderBack}, "its holder is not away"},
  {S::kWritingQueued, {E::kTurnRead, E::kTurnReadLast, E::kTurnWrite, E::kTurnWriteLast}, "it is nobody's turn while the writer is in"},

  // ---- Passing: nobody has it, somebody waits ----
  {S::kPassing, {E::kTurnRead}, S::kReadingQueued, {A::kAdmit, A::kTurn}, "and the readers behind it, up to the next writer"},
  {S::kPassing, {E::kTurnReadLast}, S::kReading, {A::kAdmit}, "first come, first served"},
  {S::kPassing, {E::kTurnWrite}, S::kWritingQueued, {A::kAdmit}, "first come, first served"},
  {S::kPassing, {E::kTurnWriteLast}, S::kWriting, {A::kAdmit}, "first come, first served"},
  {S::kPassing, {E::kRead, E::kWrite, E::kTryRead, E::kTryWrite, E::kExcess}, "it is passed on within one event"},
  {S::kPassing, {E::kRelease, E::kReleaseLast, E::kWithdraw, E::kWithdrawLast, E::kStranger}, "it is passed on within one event"},
  {S::kPassing, {E::kHolderDied, E::kHolderAway, E::kHolderBack, E::kReinstateRead, E::kReinstateWrite}, "it is passed on within one event"},

  // ---- Abandoned: the writer's node has died, and stays dead ----
  {S::kAbandoned, {E::kRead, E::kWrite, E::kTryRead, E::kTryWrite}, S::kAbandoned, {A::kRefuseAbandoned}, "nobody can say what became of the update"},
  {S::kAbandoned, {E::kExcess}, S::kAbandoned, {A::kRefuseExcess}, "a peer must not make the table grow without end"},
  {S::kAbandoned, {E::kStranger}, S::kAbandoned, {}, "a withdrawal that crossed the word of the death"},
  {S::kAbandoned, {E::kRelease, E::kReleaseLast, E::kWithdraw, E::kWithdrawLast, E::kHolderDied}, "nobody holds it or waits"},
  {S::kAbandoned, {E::kTurnRead, E::kTurnReadLast, E::kTurnWrite, E::kTurnWriteLast}, "nobody waits"},
  {S::kAbandoned, {E::kHolderAway, E::kHolderBack, E::kReinstateRead, E::kReinstateWrite}, "where nothing is logged nobody comes back"},

  // ---- Away: the writer's node has died, and will be back ----
  {S::kAway, {E::kRead, E::kWrite}, S::kAwayQueued, {A::kQueue}, "the writer's node will be back"},
  {S::kAway, {E::kTryRead, E::kTryWrite}, S::kAway, {A::kRefuse}, "a try never waits"},
  {S::kAway, {E::kExcess}, S::kAway, {A::kRefuseExcess}, "a peer must not make the table grow without end"},
  {S::kAway, {E::kStranger}, S::kAway, {}, "a withdrawal that crossed its refusal, or is a second one"},
  {S::kAway, {E::kHolderBack}, S::kFree, {A::kForgetDeath}, "the program that was started again knows what its update means"},
  {S::kAway, {E::kRelease, E::kReleaseLast, E::kWithdraw, E::kWithdrawLast, E::kHolderDied, E::kHolderAway}, "nobody holds it or waits"},
  {S::kAway, {E::kTurnRead, E::kTurnReadLast, E::kTurnWrite, E::kTurnWriteLast}, "nobody waits"},
  {S::kAway, {E::kReinstateRead, E::kReinstateWrite}, "a writer is alone: who says otherwise is at fault, and told so before"},

  // ---- AwayQueued: the same, and others wait for it ----
  {S::kAwayQueued, {E::kRead, E::kWrite}, S::kAwayQueued, {A::kQueue}, "first come, first served"},
  {S::kAwayQueued, {E::kTryRead, E::kTryWrite}, S::kAwayQueued, {A::kRefuse}, "a try never waits"},
  {S::kAwayQueued, {E::kExcess}, S::kAwayQueued, {A::kRefuseExcess}, "a peer must not make the table grow without end"},
  {S::kAwayQueued, {E::kWithdraw}, S::kAwayQueued, {A::kDrop}, "the others wait on"},
  {S::kAwayQueued, {E::kWithdrawLast}, S::kAway, {A::kDrop}, "nobody waits any more"},
  {S::kAwayQueued, {E::kStranger}, S::kAwayQueued, {}, "a withdrawal that crossed its refusal, or is a second one"},
  {S::kAwayQueued, {E::kHolderBack}, S::kPassing, {A::kForgetDeath, A::kTurn}, "the program that was started again knows what its update means"},
  {S::kAwayQueued, {E::kRelease, E::kReleaseLast, E::kHolderDied, E::kHolderAway}, "nobody holds it"},
  {S::kAwayQueued, {E::kTurnRead, E::kTurnReadLast, E::kTurnWrite, E::kTurnWriteLast}, "it is nobody's turn while the writer is away"},
  {S::kAwayQueued, {E::kReinstateRead, E::kReinstateWrite}, "nobody waits before the home is open, nothing is reinstated after that"},
#undef S
#undef E
#undef A
};
// clang-format on

inline constexpr ElementTable kElementTable{kElementRows};
static_assert(kElementTable.complete(), "every (state, event) of an element's lock has exactly one row");

[[nodiscard]] std::string_view to_string(ElementState state) noexcept;
[[nodiscard]] std::string_view to_string(ElementEvent event) noexcept;
[[nodiscard]] std::string_view to_string(ElementAction action) noexcept;

}  // namespace atoll::coherence
