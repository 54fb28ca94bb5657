// The kinds of message that nodes exchange, as one list that everything else is made from.
#pragma once

#include "atoll/detail/namespace.hpp"

#include <cstdint>
#include <string_view>

namespace atoll::wire {

// X(name, direction, meaning)
#define ATOLL_MESSAGE_KINDS(X)                                                               \
  X(GetShared, "requester to home", "a copy to read")                                        \
  X(GetExclusive, "requester to home", "the line to write")                                  \
  X(Upgrade, "requester to home", "write permission for a copy that is already here")        \
  X(WriteHome, "requester to home", "do this write there, if nobody else has the line")      \
  X(GetOperated, "requester to home", "permission to combine operands of one operator here") \
  X(PutShared, "sharer to home", "a read copy was dropped")                                  \
  X(PutDirty, "owner to home", "ownership returned; the data stands in the home's memory")   \
  X(PutOperated, "operator to home", "operands stand in my slot; take them")                 \
  X(Invalidate, "home to sharer", "drop your copy, or return your operands")                 \
  X(ForwardShared, "home to owner", "send a copy to the requester, keep one")                \
  X(ForwardExclusive, "home to owner", "send the line to the requester, keep none")          \
  X(Data, "home to requester", "the line stands in your slot, with the permission asked")    \
  X(Grant, "home to requester", "the permission alone")                                      \
  X(Written, "home to requester", "your write is done")                                      \
  X(Refused, "home to requester", "your try or write meets a lock, or others have the line") \
  X(PutAck, "home to owner", "the returned line has arrived")                                \
  X(InvalidateAck, "sharer to home", "the copy is gone")                                     \
  X(InvalidateRefused, "sharer to home", "the copy is locked; a try is refused")             \
  X(WriteBack, "owner to home", "downgraded; the data stands in the home's memory")          \
  X(Transfer, "owner to home", "the line has gone to the requester")                         \
  X(OwnerRefused, "owner to home", "the line is locked; a try is refused")                   \
  X(OwnerData, "owner to requester", "the line stands in your slot; wait for the grant")     \
  X(FetchCopy, "home to sharer", "I have none of this line any more: let me have yours")     \
  X(Copy, "sharer to home", "it stands in the home's memory")                                \
  X(NoCopy, "sharer to home", "I have dropped it")                                           \
  X(Failed, "home to requester", "the line's file could not be read")                        \
  X(Offer, "home to any", "I have no room for this line: take a copy if you have")           \
  X(ReportShared, "sharer to home", "logged: to a home that is back: I have a copy")         \
  X(ReportDirty, "owner to home", "logged: to a home that is back: I own the line")          \
  X(Allocate, "any to home", "memory of this size")                                          \
  X(AllocateReply, "home to any", "its address, or an error")                                \
  X(Free, "any to home", "this allocation is no longer used")                                \
  X(FreeReply, "home to any", "done, or an error")                                           \
  X(BarrierArrive, "any to node 0", "this node reached barrier number n")                    \
  X(BarrierRelease, "node 0 to all", "everyone reached barrier number n")                    \
  X(Leaving, "any to all", "this node's program is done; it was in barrier number n last")   \
  X(ElementLock, "any to home", "this element's lock, or an end of that wish")               \
  X(ElementAnswer, "home to any", "the lock is yours, or why not")                           \
  X(Probe, "any to any", "do you hear me?")                                                  \
  X(ProbeAnswer, "any to any", "yes")                                                        \
  X(ReportEnd, "any to any", "logged: that was all that I have of your lines")               \
  X(Open, "home to any", "logged: everybody has reported; ask (again) for what you want")    \
  X(WriteIf, "any to home", "logged: a guarded write, if nobody else has the line")          \
  X(WriteIfReply, "home to any", "whether it was done, or why not")                          \
  X(FileCall, "any to any", "do what my memory says there with a file of yours")             \
  X(FileReply, "any to any", "it is done, and how it went stands in your memory")

enum class Kind : std::uint8_t {
  kNone,
#define ATOLL_X(name, direction, meaning) k##name,
  ATOLL_MESSAGE_KINDS(ATOLL_X)
#undef ATOLL_X
      kCount,
};
inline constexpr std::uint8_t kKinds = std::uint8_t(Kind::kCount);
static_assert(kKinds <= 48, "Stats::sent_by_kind has 48 counters");

/// Kinds up to ReportDirty concern lines and may carry runs of them; the rest concern the node.
[[nodiscard]] constexpr bool is_line_kind(Kind kind) noexcept {
  return kind >= Kind::kGetShared && kind <= Kind::kReportDirty;
}

/// Does `argument` hold the line's tenure? (0 where nothing is logged, and where no owner is meant.)
[[nodiscard]] constexpr bool has_tenure(Kind kind) noexcept {
  return kind == Kind::kData || kind == Kind::kGrant || kind == Kind::kPutDirty || kind == Kind::kWriteBack ||
         kind == Kind::kTransfer || kind == Kind::kReportDirty;
}
/// Does the kind bring an owner's line back to its home?
[[nodiscard]] constexpr bool is_return(Kind kind) noexcept {
  return kind == Kind::kPutDirty || kind == Kind::kWriteBack || kind == Kind::kTransfer;
}

[[nodiscard]] std::string_view to_string(Kind kind) noexcept;
[[nodiscard]] std::string_view meaning(Kind kind) noexcept;
[[nodiscard]] std::string_view direction(Kind kind) noexcept;

}  // namespace atoll::wire
