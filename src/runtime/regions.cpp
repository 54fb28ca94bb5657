// Regions: memory whose lines have another size than the heap's. See docs/arrays.md, "Chunks".
//
// Every node must know how large a line is before it asks for one, and nobody may have a line of the old size when the
// first of the new size is asked for. So all nodes change a region together, in three steps with a barrier after each:
// all close it and give back what they have of it; its home, which waits until it has everything back, opens it with
// the new size; then the others open it. A node asks for nothing in a closed region, so no node is asked for a line
// that it does not know.
#include <algorithm>
#include <bit>

#include "coherence/lock_word.hpp"
#include "runtime/runtime.hpp"

namespace atoll::runtime {

using detail::Line;

namespace {

constexpr std::chrono::seconds kMostPatience{10};       // for others to give back, or to answer
constexpr std::chrono::milliseconds kOnTheWay{5};       // for what they have sent already
constexpr std::chrono::microseconds kBetweenLooks{50};  // at what is still here
constexpr std::uint32_t kLeastLines = 16;               // that the smallest cache of all nodes must have room for

Status check_region(GlobalAddress first, std::uint64_t bytes) noexcept {
  if (first.offset() % detail::kGrainBytes != 0 || bytes % detail::kGrainBytes != 0 || bytes == 0) {
    return {Errc::kInvalidArgument, "a region is made of whole grains of 64 KiB"};
  }
  return {};
}

}  // namespace

std::uint32_t Runtime::largest_line_bytes() const noexcept {
  std::uint64_t most =
      std::min<std::uint64_t>(detail::kGrainBytes, options_.line_bytes << memory::CacheSlots::kMaxOrder);
  for (const std::uint32_t slots : cache_slots_) {
    most = std::min<std::uint64_t>(most, std::uint64_t(slots) * options_.line_bytes / kLeastLines);
  }
  return std::max(options_.line_bytes, std::uint32_t(std::bit_floor(most)));
}

Result<GlobalAddress> Runtime::allocate_region(std::uint64_t bytes) {
  const std::uint64_t whole = (bytes + detail::kGrainBytes - 1) / detail::kGrainBytes * detail::kGrainBytes;
  if (bytes == 0 || whole < bytes) return {Errc::kInvalidArgument, "a region needs at least one byte"};
  if (const Status status = need_room(threads_.current()); !status.ok()) return status;
  GlobalAddress first;
  bool fresh = false;
  {
    const Entry entry(*this);
    const auto block = allocator_->allocate_aligned(whole, detail::kGrainBytes);
    if (!block.ok()) return block.status();
    if (journal_ != nullptr) {
      journal_->note_allocate(block->offset, whole, true, {});
      threads_.current().note_logged(journal_->last());
    }
    counters_->allocations.add();
    counters_->memory_free_bytes.set(allocator_->free_bytes());
    first = GlobalAddress::make(self_, block->offset);
    fresh = block->fresh;
  }
  if (!fresh) {
    if (const Status status = zero(first, whole); !status.ok()) return status;
  }
  return first;
}

void Runtime::change_region(GlobalAddress first, std::uint64_t bytes, std::uint8_t larger) {
  lines_->set_larger(first, bytes, larger);
  if (journal_ == nullptr) return;
  journal_->note_region(first, bytes, larger);
  threads_.current().note_logged(journal_->last());
}

/// Gives back what can be given back of a region right now. How many lines of it are still here, or waited for.
std::uint32_t Runtime::empty_region(GlobalAddress first, std::uint64_t bytes) {
  std::vector<LineRef> idle;
  std::uint32_t left = 0;
  for (std::uint32_t slot = 0; slot < slots_->size(); ++slot) {
    const GlobalAddress address = slots_->occupant(slot);
    if (!address || address.node() != first.node() || std::uint64_t(address - first) >= bytes) continue;
    const LineRef ref = lines_->ref(address);
    const bool locked = !coherence::lock_fits(ref.line->lock.load(std::memory_order_relaxed), true);
    ++left;
    if (locked || ref.line->cold != 0 || !coherence::Protocol::is_quiet(ref)) continue;
    ref.hot.set_access(0);
    idle.push_back(ref);
  }
  std::sort(idle.begin(), idle.end(), [](const LineRef& a, const LineRef& b) { return a.address < b.address; });
  if (!idle.empty()) quiesce_all(idle);
  for (const LineRef& ref : idle) {
    ref.line->use = Line::kUnused;
    ref.line->lives = 0;
    if (protocol_.evict(ref) && ref.line->slot == 0) --left;
  }
  flush();
  if (left > 0) return left;
  // Writes that were sent to the home, and what waits for a slot, have none.
  for (std::uint64_t at = 0; at < bytes; at += line_bytes_at(first)) {
    const Line& line = *detail::find_line(lines_->table(), first.bits() + at);
    if (line.here.load(std::memory_order_relaxed)) ++left;
  }
  return left;
}

Status Runtime::close_region(GlobalAddress first, std::uint64_t bytes) {
  if (const Status status = check_region(first, bytes); !status.ok()) return status;
  if (const Status status = check_range(first, bytes); !status.ok()) return status;
  ThreadState& thread = threads_.current();
  {
    const Entry entry(*this);
    change_region(first, bytes, std::uint8_t(lines_->larger_at(first) | detail::kLargerClosed));
  }
  if (first.node() == self_ || ATOLL_FAULT(region_not_emptied)) return {};
  const Clock::time_point deadline = host_.now() + kMostPatience;
  while (true) {
    {
      const Entry entry(*this);
      if (empty_region(first, bytes) == 0) return {};
    }
    if (is_over()) return why_over();
    if (is_dead(first.node())) return {Errc::kNodeDied, "the home of the region is gone", first.node()};
    if (host_.now() >= deadline) {
      return {Errc::kDeadline, "lines of the region are still in use: unlock and unpin them", first.node()};
    }
    (void)wait(thread, kNoNode, host_.now() + kBetweenLooks, [] { return false; });
  }
}

/// At the home: has nobody else any line of it, and nothing of it is under way? `listed`: lines that some node is said
/// to share.
bool Runtime::is_all_here(GlobalAddress first, std::uint64_t bytes, std::vector<GlobalAddress>& listed) {
  listed.clear();
  bool all = true;
  for (std::uint64_t at = 0; at < bytes;) {
    const LineRef ref = lines_->ref(first + std::int64_t(at));
    const bool quiet = ref.line->cold == 0 && coherence::is_idle(ref.line->lock.load(std::memory_order_relaxed));
    all = all && quiet && ref.directory->state == coherence::DirState::kUnshared;
    if (quiet && ref.directory->state == coherence::DirState::kShared) listed.push_back(ref.address);
    at += ref.bytes;
  }
  return all;
}

/// The directory may list who has nothing any more: a sharer too many, or, beyond 64 nodes, one of a group. Asking them
/// all is what makes it sure, as for a write; and what they have sent before is then here as well.
Status Runtime::take_back(ThreadState& thread, std::span<const GlobalAddress> lines) {
  for (const GlobalAddress line : lines) {
    Task task(coherence::OpKind::kAtomic, Action::kNone, line, 0, nullptr, &thread);
    {
      const Entry entry(*this);
      protocol_.submit(lines_->ref(line), task);
      flush();
    }
    Task* const tasks[] = {&task};
    if (const Status status = finish(thread, tasks); !status.ok()) return status;
  }
  return {};
}

Status Runtime::open_region(GlobalAddress first, std::uint64_t bytes, std::uint32_t line_bytes) {
  if (const Status status = check_region(first, bytes); !status.ok()) return status;
  if (const Status status = check_range(first, bytes); !status.ok()) return status;
  if (!std::has_single_bit(line_bytes) || line_bytes < options_.line_bytes || line_bytes > largest_line_bytes()) {
    return {Errc::kInvalidArgument, "lines of a region are a power of two of those of the heap, within the limits"};
  }
  const auto larger = std::uint8_t(std::countr_zero(line_bytes / options_.line_bytes));
  ThreadState& thread = threads_.current();
  const Clock::time_point start = host_.now();
  std::vector<GlobalAddress> listed;
  while (true) {
    {
      const Entry entry(*this);
      if (first.node() != self_) {
        change_region(first, bytes, larger);
        return {};
      }
      if (is_all_here(first, bytes, listed)) {
        take_from_threads(first, bytes);
        change_region(first, bytes, larger);
        return {};
      }
    }
    if (host_.now() >= start + kMostPatience) {
      return {Errc::kDeadline, "other nodes have not given back all lines of the region", self_};
    }
    // What was given back is on its way; what is listed after that is listed by mistake.
    if (host_.now() >= start + kOnTheWay) {
      if (const Status status = take_back(thread, listed); !status.ok()) return status;
    }
    (void)wait(thread, kNoNode, host_.now() + kBetweenLooks, [] { return false; });
  }
}

/// False: this node's hits are not inlined, and it has no words.
bool Runtime::attach_words(GlobalAddress first, std::uint64_t bytes, std::span<detail::HotWord> words,
                           std::uint64_t zero) {
  if (lines_->table().reads == nullptr) return false;
  const Entry entry(*this);
  lines_->attach_words(first, bytes, words, zero);
  return true;
}

/// At the home: what threads here may do with the lines ends, for their words are about to be another line's.
void Runtime::take_from_threads(GlobalAddress first, std::uint64_t bytes) {
  std::vector<LineRef> used;
  for (std::uint64_t at = 0; at < bytes;) {
    const LineRef ref = lines_->ref(first + std::int64_t(at));
    if (ref.line->use != Line::kUnused || ref.hot.access() != 0) {
      ref.hot.set_access(0);
      used.push_back(ref);
    }
    at += ref.bytes;
  }
  if (!used.empty()) quiesce_all(used);
  for (const LineRef& ref : used) ref.line->use = Line::kUnused;
}

}  // namespace atoll::runtime
