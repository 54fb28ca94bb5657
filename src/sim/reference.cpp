#include "sim/reference.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace atoll::sim {

std::byte pattern(std::uint64_t stamp, std::uint64_t position) noexcept {
  if (stamp == 0) return std::byte{0};
  std::uint64_t mixed = stamp * 0x9e3779b97f4a7c15 + position / 8 * 0xbf58476d1ce4e5b9;
  mixed ^= mixed >> 29;
  return std::byte(mixed >> position % 8 * 8);
}

void Cell::end_write(std::uint64_t stamp, Tick now) noexcept {
  for (Write& write : writes_) {
    if (write.stamp == stamp) write.end = std::min(write.end, now);
  }
}

bool Cell::looks_like(const Write& write, std::span<const std::byte> found) const noexcept {
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i] != pattern(write.stamp, position_ + i)) return false;
  }
  return true;
}

/// Did `first` take effect before `second`, whatever the points? Writes of one thread to one place keep their order.
bool Cell::surely_before(const Write& first, const Write& second) noexcept {
  const bool in_order = first.thread == second.thread && first.thread != kNobody && first.stamp < second.stamp;
  return first.end < second.begin || in_order;
}

/// Is there a later write that had surely taken effect when a read of this thread began? A thread's own writes have, as
/// far as it can see.
bool Cell::is_overwritten(const Write& write, std::uint32_t thread, Tick begin) const noexcept {
  if (write.gone < begin) return true;
  return std::any_of(writes_.begin(), writes_.end(), [&](const Write& later) {
    const bool happened = later.end < begin || (later.thread == thread && later.begin < begin);
    return happened && surely_before(write, later);
  });
}

const Cell::Write* Cell::find(std::span<const std::byte> found, std::uint32_t thread, Tick begin) const noexcept {
  const auto legal = [&](const Write& write) {
    return looks_like(write, found) && !is_overwritten(write, thread, begin);
  };
  const auto seen = std::find_if(writes_.begin(), writes_.end(), legal);
  return seen == writes_.end() ? nullptr : &*seen;
}

void Cell::learn(std::span<const std::byte> found, const Write& seen, Tick begin, Tick end) noexcept {
  const bool clear =
      std::count_if(writes_.begin(), writes_.end(), [&](const Write& write) { return looks_like(write, found); }) == 1;
  if (!clear) return;
  Write& write = writes_[std::size_t(&seen - writes_.data())];
  write.end = std::min(write.end, end);
  for (Write& other : writes_) {
    if (other.stamp == write.stamp || other.end >= begin) continue;
    write.begin = std::max(write.begin, other.begin);
    other.gone = std::min(other.gone, end);
  }
}

std::string Cell::complain(std::span<const std::byte> found, std::uint32_t thread, Tick begin, Tick end) const {
  std::string text = fmt::format(
      "thread {} read {} bytes at {} between ticks {} and {}: {:02x}", thread, bytes_, address_.to_string(), begin, end,
      fmt::join(reinterpret_cast<const unsigned char*>(found.data()),
                reinterpret_cast<const unsigned char*>(found.data()) + std::min<std::size_t>(found.size(), 16), " "));
  text += "\nno write that may be there has these bytes. Those that may:\n";
  for (const Write& write : writes_) {
    text += fmt::format("  stamp {} by thread {}, begun at {}, {}{}\n", write.stamp, write.thread, write.begin,
                        write.end == kNever ? "not known to be done" : fmt::format("done by {}", write.end),
                        looks_like(write, found) ? "  <- these bytes, but overwritten before the read began" : "");
  }
  return text;
}

std::string Cell::explain(std::span<const std::byte> found, std::uint64_t stamps) const {
  // As few writes as can be, each for as long as it goes on.
  std::string text = "what was read:";
  for (std::size_t at = 0; at < found.size();) {
    std::size_t longest = 0;
    std::uint64_t whose = 0;
    for (std::uint64_t stamp = 0; stamp <= stamps; ++stamp) {
      std::size_t length = 0;
      while (at + length < found.size() && found[at + length] == pattern(stamp, position_ + at + length)) ++length;
      if (length > longest) {
        longest = length;
        whose = stamp;
      }
    }
    text +=
        longest == 0 ? fmt::format(" [{}] nobody's", at) : fmt::format(" [{}..{}) stamp {}", at, at + longest, whose);
    at += std::max<std::size_t>(longest, 1);
  }
  return text + "\n";
}

void Cell::prune(Tick oldest) {
  std::vector<Write> kept;
  for (const Write& write : writes_) {
    const bool gone = write.gone < oldest || std::any_of(writes_.begin(), writes_.end(), [&](const Write& later) {
                        return later.end < oldest && surely_before(write, later);
                      });
    if (!gone) kept.push_back(write);
  }
  writes_.swap(kept);
}

}  // namespace atoll::sim
