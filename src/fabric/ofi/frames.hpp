// What goes over a libfabric endpoint beside lines: frames of messages, and notices. See docs/transports.md.
#pragma once

#include <cstdint>

#include "wire/message.hpp"

namespace atoll::fabric {

inline constexpr std::uint32_t kFrameBytes = 4096;  // at most; a whole number of messages
inline constexpr std::uint32_t kMaxFrame = kFrameBytes / sizeof(wire::Message);
inline constexpr std::uint32_t kLineFrameBytes =
    kFrameBytes - sizeof(wire::Message);                  // behind the message that says whose
inline constexpr std::uint64_t kHello = UINT64_MAX;       // the argument of a message of no kind that is a greeting
inline constexpr std::uint64_t kCredit = UINT64_MAX - 1;  // of one that says how many frames were taken (`line`)

/// Frames to one peer that it has not said to have taken, in a cluster of so many nodes. So each peer always has a
/// receive posted for each frame: a frame that had to wait for one would be overtaken by notices, which need none.
[[nodiscard]] constexpr std::uint32_t frame_window(std::size_t nodes) noexcept {
  const std::size_t share = 1024 / (nodes == 0 ? 1 : nodes);
  return std::uint32_t(share < 4 ? 4 : share > 32 ? 32 : share);
}
inline constexpr std::uint32_t kCreditsUnderWay = 4;  // frames with credits come on top of the window

/// The number of the first frame from one node to another: of the cookies that each has told the other. A node that
/// comes back has a new one, so that what is left of its last life has other numbers, to it and from it.
[[nodiscard]] constexpr std::uint32_t first_number(std::uint32_t senders_cookie,
                                                   std::uint32_t receivers_cookie) noexcept {
  return receivers_cookie + senders_cookie * 0x9e3779b1u;
}

/// The 32 bits that come with a line: which slot, and in the rest who sends it.
inline constexpr unsigned kNoticeSlotBits = 22;
inline constexpr std::uint32_t kNoticeSlots = 1u << kNoticeSlotBits;
inline constexpr NodeId kNoticeNodes = 1u << (32 - kNoticeSlotBits);

}  // namespace atoll::fabric
