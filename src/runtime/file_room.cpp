// Room for pages: which of them go, and which are offered to nodes that have more of it.
#include <algorithm>

#include "coherence/lock_word.hpp"
#include "runtime/files.hpp"

namespace atoll::runtime {

using coherence::DirState;

namespace {
constexpr std::uint32_t kLooks = 64;     // pages that are looked at for one to let go
constexpr std::uint32_t kRounds = 8;     // of looking
constexpr std::uint32_t kTrickle = 256;  // evictions for one offer to a node that has not taken any of late
/// Pages that may go next are offered first: so many that a node which was asleep has its copy before they go. A page
/// that is gone by then is read from the disk for it, and counts as not taken. With few frames a part of them.
constexpr std::uint64_t kOfferedAhead = 64;
constexpr std::uint64_t kPartOfferedAhead = 4;
}  // namespace

/// Lets pages go until there is room for so many bytes more. False: none may go now; those that must be written first
/// are marked for that.
bool Files::make_room(std::uint64_t bytes) {
  if (resident_bytes_ + bytes <= budget_bytes_) return true;
  offer_some();
  for (std::uint32_t round = 0; round < kRounds;) {
    if (resident_bytes_ + bytes <= budget_bytes_) return true;
    touched_.clear();
    const std::uint64_t victim = queue_.choose([&](std::uint64_t frame) { return may_go(frame); }, kLooks);
    for (const std::uint64_t frame : touched_) queue_.touch(frame);
    if (victim == storage::TwoQueue::kNone) {
      if (touched_.empty()) break;
      ++round;
    } else if (!let_go(victim)) {
      ++round;
    }
  }
  return resident_bytes_ + bytes <= budget_bytes_;
}

/// Pages that threads can hit are hidden from them: the next use shows itself in the slow path. A page that was used
/// since it was hidden is kept for another round. (The same clock as Runtime::are_idle.)
bool Files::may_go(std::uint64_t number) {
  const Frame& frame = frames_[number];
  if ((frame.flags & (kReading | kWriting)) != 0 || frame.held == 0) return false;
  const Open& file = *find(offset_of(number));
  bool quiet = true, used = false, filed = true;
  for_each_line_of(file, number, [&](const LineRef& ref, std::uint8_t line) {
    if ((frame.held & line) == 0) return;
    const DirState state = ref.directory->state;
    if ((state != DirState::kUnshared && state != DirState::kShared) || ref.line->cold != 0 ||
        !coherence::lock_fits(ref.line->lock.load(std::memory_order_relaxed), true)) {
      quiet = false;
      return;
    }
    filed = filed && coherence::Protocol::is_filed(ref);
    if (ref.hot.access() == 0) return;
    used = true;
    ref.hot.set_access(0);
  });
  if (used) touched_.push_back(number);
  if (quiet && !used && !filed) marked_.push_back(number);
  return quiet && !used && filed;
}

bool Files::let_go(std::uint64_t number) {
  const Open& file = *find(offset_of(number));
  bool all = true;
  for_each_line_of(file, number, [&](const LineRef& ref, std::uint8_t line) {
    if ((frames_[number].held & line) == 0) return;
    const bool shared = ref.directory->state == DirState::kShared;
    if (!protocol_.drop(ref)) {
      all = false;
      return;
    }
    if (shared && (frames_[number].flags & kOffered) != 0) {
      for (NodeId node = 0; node < nodes_ && node < 64; ++node) {
        if ((ref.directory->sharers >> node & 1) != 0) credit_[node] += 2;
      }
    }
  });
  if (all) {
    ++evictions_;
    counters_.file_evictions.add();
  }
  return all;
}

/// The page's memory is not needed any more. Where lines of it are with other nodes to be written, who may just now be
/// putting them back into this very place, it is not given back: it will be once they are home.
void Files::leave(Open& file, std::uint64_t number) {
  queue_.remove(number, true);
  resident_bytes_ -= file.page_bytes;
  frames_[number].flags &= std::uint8_t(~kOffered);
  bool away = false;
  if (file.page_bytes != file.line_bytes) {
    for_each_line_of(file, number, [&](const LineRef& ref, std::uint8_t) {
      const DirState state = ref.directory->state;
      away = away || (state != DirState::kStored && state != DirState::kParked);
    });
  }
  if (!away) segment_.discard(offset_of(number), file.page_bytes);
}

/// The pages that may go next are offered to other nodes: what one of them takes is fetched from there when it is
/// wanted again, and not from the disk. Who does not take what it is offered is offered less.
void Files::offer_some() {
  if (nodes_ == 1) return;
  const std::uint64_t ahead = std::min(kOfferedAhead, budget_bytes_ / kBlockBytes / kPartOfferedAhead);
  std::vector<std::uint64_t> chosen;
  (void)queue_.choose(
      [&](std::uint64_t number) {
        const Frame& frame = frames_[number];
        if ((frame.flags & (kReading | kWriting | kOffered)) == 0 && frame.held != 0) chosen.push_back(number);
        return chosen.size() == ahead;
      },
      std::uint32_t(2 * ahead));
  for (const std::uint64_t number : chosen) {
    const Open& file = *find(offset_of(number));
    NodeId to = kNoNode;
    for (NodeId tried = 0; tried < nodes_ && to == kNoNode; ++tried) {
      next_offer_ = NodeId(next_offer_ + 1 == nodes_ ? 0 : next_offer_ + 1);
      const bool takes = credit_[next_offer_] > 0 || evictions_ % kTrickle == 0;
      if (next_offer_ != self_ && file.users[next_offer_] > 0 && !is_dead_(next_offer_) && takes) to = next_offer_;
    }
    if (to == kNoNode) return;
    frames_[number].flags |= kOffered;
    for_each_line_of(file, number, [&](const LineRef& ref, std::uint8_t line) {
      const bool alone = ref.directory->state == DirState::kUnshared && coherence::Protocol::is_filed(ref);
      if ((frames_[number].held & line) == 0 || !alone || ref.line->cold != 0) return;
      offer_(ref, to);
    });
    if (credit_[to] > 0) --credit_[to];
  }
}

}  // namespace atoll::runtime
