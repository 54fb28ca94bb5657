// Names of states, events and actions, as the documents and the message charts print them.
#include <fmt/format.h>

#include <array>

#include "coherence/element_table.hpp"
#include "coherence/types.hpp"

namespace atoll::coherence {
namespace {

template <typename Enum, std::size_t N>
std::string_view name(const std::array<std::string_view, N>& names, Enum value) noexcept {
  return std::size_t(value) < N ? names[std::size_t(value)] : std::string_view("?");
}

}  // namespace

std::string_view to_string(DirState state) noexcept {
  static constexpr std::array<std::string_view, 16> kNames = {
      "Unshared",        "Shared",           "Dirty",           "Operated",           "Stored",
      "Parked",          "SharedToUnshared", "SharedToDirty",   "DirtyToShared",      "DirtyToDirty",
      "DirtyToUnshared", "SharedToOperated", "DirtyToOperated", "OperatedToUnshared", "Fetching",
      "Orphaned"};
  static_assert(kNames.size() == std::size_t(DirState::kCount));
  return name(kNames, state);
}

std::string_view to_string(DirEvent event) noexcept {
  static constexpr std::array<std::string_view, 42> kNames = {
      "GetShared",     "GetExclusive",     "Upgrade",         "UpgradeSole",
      "LocalShared",   "LocalExclusive",   "Operate",         "OperateFirst",
      "Blocked",       "TryBlocked",       "WriteHome",       "WriteElsewhere",
      "PutShared",     "PutSharedLast",    "PutDirty",        "PutDirtyLast",
      "PutDirtyStale", "PutOperated",      "PutOperatedLast", "Answer",
      "AllGone",       "SomeRefused",      "WriteBack",       "Transfer",
      "OwnerRefused",  "Return",           "ReturnShared",    "ReturnStale",
      "ReportShared",  "ReportDirty",      "SharerDied",      "SharerDiedLast",
      "OwnerDied",     "RequesterDied",    "OwnerBack",       "FetchAhead",
      "Drop",          "Fetched",          "FetchedShared",   "NoCopy",
      "FetchFailed",   "FetchFailedShared"};
  static_assert(kNames.size() == std::size_t(DirEvent::kCount));
  return name(kNames, event);
}

std::string_view to_string(DirAction action) noexcept {
  static constexpr std::array<std::string_view, 45> kNames = {"None",          "WithdrawWrite",
                                                              "WithdrawAll",   "Hide",
                                                              "AddSharer",     "DropSharer",
                                                              "ClearSharers",  "OwnerToSharer",
                                                              "SetOwner",      "ClearOwner",
                                                              "LogTransfer",   "SendData",
                                                              "Remember",      "InvalidateOthers",
                                                              "ForwardShared", "ForwardExclusive",
                                                              "Tally",         "AnswerPending",
                                                              "RefusePending", "ServeLocal",
                                                              "Defer",         "Refuse",
                                                              "PutAck",        "Write",
                                                              "DeferFirst",    "Begin",
                                                              "Grant",         "ForwardHome",
                                                              "Recall",        "Merge",
                                                              "End",           "Take",
                                                              "AddSender",     "OwnerReports",
                                                              "Undo",          "Resume",
                                                              "Suspend",       "ForgetRequester",
                                                              "Soil",          "Clean",
                                                              "Discard",       "Here",
                                                              "Fetch",         "Load",
                                                              "Fail"};
  static_assert(kNames.size() == std::size_t(DirAction::kFail) + 1);
  return name(kNames, action);
}

std::string_view to_string(CacheState state) noexcept {
  static constexpr std::array<std::string_view, 17> kNames = {"Invalid",
                                                              "Shared",
                                                              "Dirty",
                                                              "Operated",
                                                              "InvalidToShared",
                                                              "InvalidToSharedData",
                                                              "InvalidToSharedGrant",
                                                              "InvalidToDirty",
                                                              "InvalidToDirtyData",
                                                              "InvalidToDirtyGrant",
                                                              "SharedToDirty",
                                                              "DirtyToInvalid",
                                                              "LeftToInvalid",
                                                              "WritingHome",
                                                              "InvalidToOperated",
                                                              "OperatedToInvalid",
                                                              "DirtyToShared"};
  static_assert(kNames.size() == std::size_t(CacheState::kCount));
  return name(kNames, state);
}

std::string_view to_string(CacheEvent event) noexcept {
  static constexpr std::array<std::string_view, 23> kNames = {
      "WantShared", "WantExclusive", "WantWritten",   "WantOperated",     "Evict",    "Data",     "OwnerData",
      "Grant",      "Invalidate",    "ForwardShared", "ForwardExclusive", "Held",     "TryHeld",  "Refused",
      "PutAck",     "Written",       "RecallShared",  "Recall",           "HomeBack", "HomeOpen", "FetchCopy",
      "FetchIdle",  "Failed"};
  static_assert(kNames.size() == std::size_t(CacheEvent::kCount));
  return name(kNames, event);
}

std::string_view to_string(CacheAction action) noexcept {
  static constexpr std::array<std::string_view, 31> kNames = {
      "None",        "AskShared",     "AskExclusive", "AskUpgrade",      "AskWrite",
      "Hide",        "WithdrawWrite", "WithdrawAll",  "ReturnShared",    "ReturnDirty",
      "ReleaseSlot", "AckInvalidate", "Refuse",       "SendToRequester", "WriteBack",
      "Transfer",    "Hold",          "Serve",        "ServeReads",      "RefuseTry",
      "FinishWrite", "TakeBackWrite", "AskOperated",  "ClearOperands",   "ReturnOperated",
      "BeginTenure", "ReportShared",  "ReportDirty",  "GiveCopy",        "TellNoCopy",
      "Fail"};
  static_assert(kNames.size() == std::size_t(CacheAction::kFail) + 1);
  return name(kNames, action);
}

std::string_view to_string(ElementState state) noexcept {
  static constexpr std::array<std::string_view, 9> kNames = {
      "Free", "Reading", "ReadingQueued", "Writing", "WritingQueued", "Passing", "Abandoned", "Away", "AwayQueued"};
  static_assert(kNames.size() == std::size_t(ElementState::kCount));
  return name(kNames, state);
}

std::string_view to_string(ElementEvent event) noexcept {
  static constexpr std::array<std::string_view, 19> kNames = {
      "Read",           "Write",        "TryRead",      "TryWrite",   "Excess",       "Release",    "ReleaseLast",
      "Withdraw",       "WithdrawLast", "Stranger",     "HolderDied", "HolderAway",   "HolderBack", "ReinstateRead",
      "ReinstateWrite", "TurnRead",     "TurnReadLast", "TurnWrite",  "TurnWriteLast"};
  static_assert(kNames.size() == std::size_t(ElementEvent::kCount));
  return name(kNames, event);
}

std::string_view to_string(ElementAction action) noexcept {
  static constexpr std::array<std::string_view, 13> kNames = {
      "None",  "Grant", "Queue", "Refuse",        "RefuseExcess", "RefuseAbandoned", "Drop",
      "Admit", "Turn",  "Mourn", "RefuseWaiting", "ForgetDeath",  "Reinstate"};
  static_assert(kNames.size() == std::size_t(ElementAction::kReinstate) + 1);
  return name(kNames, action);
}

std::string_view to_string(OpKind kind) noexcept {
  static constexpr std::array<std::string_view, 9> kNames = {
      "read", "write", "atomic", "operate", "write_away", "read_lock", "write_lock", "try_read_lock", "try_write_lock"};
  return name(kNames, kind);
}

std::string to_string(const Message& m) {
  std::string text(wire::to_string(m.kind));
  if (m.is_try) text += " (try)";
  if (m.requester != m.from) text += fmt::format(" for {}", m.requester);
  return text;
}

}  // namespace atoll::coherence
