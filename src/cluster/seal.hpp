// What makes the frames of a control connection over TCP unforgeable: a keyed hash behind each of them.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "cluster/key.hpp"

namespace atoll::cluster {

/// The two ends of a control connection.
enum class Role : std::uint8_t { kNode, kMaster };

/// The tags of the frames that one end sends on one connection, in their order.
///
///   tag = BLAKE2b-256, keyed with the session's key, over: who sends (1 byte) | running number (u64, LE) | the frame
///
/// Thread-safety: none; one thread, or the owner's lock.
/// Invariants:
///   1. A number is used once: a frame that was left out, sent again, moved, changed or turned back has another tag.
class Seal {
 public:
  static constexpr std::size_t kTagBytes = 32;
  using Tag = std::array<char, kTagBytes>;

  Seal(const Key& session, Role sender) noexcept : session_(session), sender_(sender) {}
  /// The tag of the frame that comes next.
  [[nodiscard]] Tag next(std::string_view frame) noexcept;
  /// Whether this is the tag of the frame that comes next, in constant time. Counts it in either case.
  [[nodiscard]] bool check_next(std::string_view frame, std::string_view tag) noexcept;

 private:
  Key session_;
  Role sender_;
  std::uint64_t number_ = 0;
};

/// Of one end of a connection.
struct Seals {
  Seals(const Key& session, Role self) noexcept
      : out(session, self), in(session, self == Role::kNode ? Role::kMaster : Role::kNode) {}
  Seal out, in;
};

}  // namespace atoll::cluster
