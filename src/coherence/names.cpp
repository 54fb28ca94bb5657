// Names of states, events and actions, as the documents and the message charts print them.
#include <fmt/format.h>

#include <array>

#include "coherence/types.hpp"

namespace atoll::coherence {
namespace {

template <typename Enum, std::size_t N>
std::string_view name(const std::array<std::string_view, N>& names, Enum value) noexcept {
  return std::size_t(value) < N ? names[std::size_t(value)] : std::string_view("?");
}

}  // namespace

std::string_view to_string(DirState state) noexcept {
  static constexpr std::array<std::string_view, 8> kNames = {"Unshared",         "Shared",         "Dirty",
                                                             "SharedToUnshared", "SharedToDirty",  "DirtyToShared",
                                                             "DirtyToDirty",     "DirtyToUnshared"};
  static_assert(kNames.size() == std::size_t(DirState::kCount));
  return name(kNames, state);
}

std::string_view to_string(DirEvent event) noexcept {
  static constexpr std::array<std::string_view, 21> kNames = {
      "GetShared", "GetExclusive", "Upgrade",       "UpgradeSole",    "LocalShared", "LocalExclusive",
      "Blocked",   "TryBlocked",   "WriteHome",     "WriteElsewhere", "PutShared",   "PutSharedLast",
      "PutDirty",  "PutDirtyLast", "PutDirtyStale", "Answer",         "AllGone",     "SomeRefused",
      "WriteBack", "Transfer",     "OwnerRefused"};
  static_assert(kNames.size() == std::size_t(DirEvent::kCount));
  return name(kNames, event);
}

std::string_view to_string(DirAction action) noexcept {
  static constexpr std::array<std::string_view, 24> kNames = {
      "None",      "WithdrawWrite",    "WithdrawAll",   "Hide",
      "AddSharer", "DropSharer",       "ClearSharers",  "OwnerToSharer",
      "SetOwner",  "ClearOwner",       "LogTransfer",   "SendData",
      "Remember",  "InvalidateOthers", "ForwardShared", "ForwardExclusive",
      "Tally",     "AnswerPending",    "RefusePending", "ServeLocal",
      "Defer",     "Refuse",           "PutAck",        "Write"};
  static_assert(kNames.size() == std::size_t(DirAction::kWrite) + 1);
  return name(kNames, action);
}

std::string_view to_string(CacheState state) noexcept {
  static constexpr std::array<std::string_view, 13> kNames = {"Invalid",
                                                              "Shared",
                                                              "Dirty",
                                                              "InvalidToShared",
                                                              "InvalidToSharedData",
                                                              "InvalidToSharedGrant",
                                                              "InvalidToDirty",
                                                              "InvalidToDirtyData",
                                                              "InvalidToDirtyGrant",
                                                              "SharedToDirty",
                                                              "DirtyToInvalid",
                                                              "LeftToInvalid",
                                                              "WritingHome"};
  static_assert(kNames.size() == std::size_t(CacheState::kCount));
  return name(kNames, state);
}

std::string_view to_string(CacheEvent event) noexcept {
  static constexpr std::array<std::string_view, 15> kNames = {
      "WantShared",    "WantExclusive",    "WantWritten", "Evict",   "Data",    "OwnerData", "Grant",  "Invalidate",
      "ForwardShared", "ForwardExclusive", "Held",        "TryHeld", "Refused", "PutAck",    "Written"};
  static_assert(kNames.size() == std::size_t(CacheEvent::kCount));
  return name(kNames, event);
}

std::string_view to_string(CacheAction action) noexcept {
  static constexpr std::array<std::string_view, 22> kNames = {
      "None",          "AskShared",       "AskExclusive", "AskUpgrade",   "AskWrite",    "Hide",
      "WithdrawWrite", "WithdrawAll",     "ReturnShared", "ReturnDirty",  "ReleaseSlot", "AckInvalidate",
      "Refuse",        "SendToRequester", "WriteBack",    "Transfer",     "Hold",        "Serve",
      "ServeReads",    "RefuseTry",       "FinishWrite",  "TakeBackWrite"};
  static_assert(kNames.size() == std::size_t(CacheAction::kTakeBackWrite) + 1);
  return name(kNames, action);
}

std::string_view to_string(OpKind kind) noexcept {
  static constexpr std::array<std::string_view, 7> kNames = {
      "read", "write", "atomic", "read_lock", "write_lock", "try_read_lock", "try_write_lock"};
  return name(kNames, kind);
}

std::string to_string(const Message& m) {
  std::string text(wire::to_string(m.kind));
  if (m.is_try) text += " (try)";
  if (m.requester != m.from) text += fmt::format(" for {}", m.requester);
  return text;
}

}  // namespace atoll::coherence
