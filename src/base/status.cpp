#include "atoll/status.hpp"

#include <fmt/format.h>

#include "atoll/address.hpp"

namespace atoll {

const char* to_string(Errc code) noexcept {
  switch (code) {
    case Errc::kOk: return "ok";
    case Errc::kInvalidArgument: return "invalid argument";
    case Errc::kNullAddress: return "null address";
    case Errc::kBadAddress: return "bad address";
    case Errc::kNotAllocated: return "not allocated";
    case Errc::kOutOfMemory: return "out of memory";
    case Errc::kCacheFull: return "cache full";
    case Errc::kNotHeld: return "lock not held";
    case Errc::kWouldDeadlock: return "would deadlock";
    case Errc::kRefused: return "refused";
    case Errc::kDeadline: return "deadline passed";
    case Errc::kNodeDied: return "node died";
    case Errc::kInDoubt: return "in doubt";
    case Errc::kClusterDown: return "cluster down";
    case Errc::kNotFound: return "not found";
    case Errc::kAlreadyExists: return "already exists";
    case Errc::kFenced: return "fenced";
    case Errc::kStorage: return "storage failed";
    case Errc::kStorageFull: return "storage full";
  }
  return "unknown error";
}

std::string Status::to_string() const {
  std::string text = atoll::to_string(code_);
  if (node_ != kNoNode) text += fmt::format(" (node {})", node_);
  if (what_[0] != '\0') text += fmt::format(": {}", what_);
  return text;
}

void Status::or_throw() const {
  if (!ok()) throw Error(*this);
}

std::string GlobalAddress::to_string() const {
  if (bits_ == 0) return "null";
  return fmt::format("{}:{}{:#x}", node(), kind() == Kind::kFile ? "file:" : "", offset());
}

}  // namespace atoll
