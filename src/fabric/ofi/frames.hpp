// What goes over a libfabric endpoint beside lines: frames of messages, and notices. See docs/transports.md.
#pragma once

#include <cstdint>

#include "wire/message.hpp"

namespace atoll::fabric {

inline constexpr std::uint32_t kFrameBytes = 4096;  // at most; a whole number of messages
inline constexpr std::uint32_t kMaxFrame = kFrameBytes / sizeof(wire::Message);
inline constexpr std::uint32_t kOperandBytes =
    kFrameBytes - sizeof(wire::Message);             // behind the message that says whose
inline constexpr std::uint64_t kHello = UINT64_MAX;  // the argument of a message of no kind that is a greeting

/// The 32 bits that come with a line: which slot, and in the rest who sends it.
inline constexpr unsigned kNoticeSlotBits = 22;
inline constexpr std::uint32_t kNoticeSlots = 1u << kNoticeSlotBits;
inline constexpr NodeId kNoticeNodes = 1u << (32 - kNoticeSlotBits);

}  // namespace atoll::fabric
