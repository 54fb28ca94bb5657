// Bringing lines here before they are needed, without waiting for them.
#include <algorithm>
#include <bit>

#include "runtime/file_calls.hpp"
#include "runtime/runtime.hpp"

namespace atoll::runtime {

namespace {
constexpr std::uint64_t kPieceLines = 32;  // that are asked for before others may use the engine
}

Status Runtime::prefetch(GlobalAddress address, std::uint64_t bytes, LockMode mode) {
  if (const Status status = check_range(address, bytes); !status.ok()) return status;
  if (bytes == 0) return {};
  if (const Status status = check_home(address); !status.ok()) return status;
  const std::uint64_t line = line_bytes_at(address);  // a range of lines of several sizes is fetched in part
  const std::uint64_t first = address.bits() & ~(line - 1);
  const std::uint64_t end = address.bits() + bytes;
  if (address.node() == self_ && lines_->is_file(address)) {
    prefetch_file(first, end, line);
  } else if (mode == LockMode::kWrite) {
    if (!are_writable(first, end, line)) prefetch_to_write(first, end, line);
  } else if (address.node() != self_ && !are_here(first, end, line)) {
    prefetch_to_read(first, end, line);
  }
  return {};
}

/// Pages of this node's own files begin to be read. No more than a part of what there is room for: they would throw
/// each other out.
void Runtime::prefetch_file(std::uint64_t at, std::uint64_t end, std::uint64_t line) {
  std::uint64_t left = options_.file_memory_bytes / 4;
  const Entry entry(*this);
  for (; at < end && left >= line; at += line) {
    if (protocol_.fetch_home(lines_->ref(GlobalAddress(at)))) left -= line;
  }
  flush();
}

/// As read_ahead, for pages of this node's own files: they are read from the disk before somebody waits for them. (2Q
/// sees to it that a scan does not throw out what is used again.)
void Runtime::read_file_ahead(ThreadState& thread, GlobalAddress at, GlobalAddress end) {
  const std::uint32_t shift = detail::line_shift_at(lines_->table(), at.bits());
  thread.strides.note(at.bits() >> shift, (end.bits() - 1) >> shift);
  const auto most =
      std::uint32_t(std::min<std::uint64_t>(options_.read_ahead_lines, options_.file_memory_bytes / 16 >> shift));
  const Strides::Wish wish = thread.strides.wish(most);
  if (wish.count == 0) return;
  const Files::Open* const file = files_->find(at.offset());
  if (file == nullptr) return;
  const std::uint64_t begin = GlobalAddress::make(self_, file->first).bits();
  for (std::uint32_t i = 0; i < wish.count; ++i) {
    const std::uint64_t line = (wish.first + std::uint64_t(wish.stride) * i) << shift;
    if (line - begin < file->bytes && protocol_.fetch_home(lines_->ref(GlobalAddress(line)))) {
      counters_->read_ahead_lines.add();
    }
  }
  thread.strides.asked(wish.count, most);
}

/// Without the engine's lock, so that a hint costs little where there is nothing to do.
bool Runtime::are_here(std::uint64_t at, std::uint64_t end, std::uint64_t line) const noexcept {
  for (; at < end; at += line) {
    if (!detail::find_line(lines_->table(), at)->here.load(std::memory_order_relaxed)) return false;
  }
  return true;
}

bool Runtime::are_writable(std::uint64_t at, std::uint64_t end, std::uint64_t line) const noexcept {
  for (; at < end; at += line) {
    const std::uint8_t access = detail::find_line(lines_->table(), at)->access.load(std::memory_order_relaxed);
    if ((access & detail::kWritable) == 0) return false;
  }
  return true;
}

void Runtime::prefetch_to_read(std::uint64_t at, std::uint64_t end, std::uint64_t line) {
  const auto order = unsigned(std::countr_zero(line / options_.line_bytes));
  std::uint32_t left = slots_->size() / 2 >> order;
  bool room = true;
  while (at < end && left > 0 && room) {  // a piece at a time: others want the engine too
    const Entry entry(*this);
    const std::uint64_t until = std::min(at + kPieceLines * line, end);
    for (; at < until && left > 0 && room; at += line) {
      if (slots_->free_count() >> order <= wire::kMaxRun) room = evict_some(kPieceLines, order, true) > 0;
      if (slots_->free_count() >> order > wire::kMaxRun && fetch_ahead(GlobalAddress(at))) --left;
    }
    flush();
    if (fabric_->maybe_pending()) progress();
  }
}

/// An asynchronous write that writes nothing: it is done when the line may be written. The thread's next fence waits
/// for it, and so does a lock, for all that were asked for together.
void Runtime::prefetch_to_write(std::uint64_t at, std::uint64_t end, std::uint64_t line) {
  ThreadState& thread = threads_.current();
  const std::uint64_t most = std::uint64_t(slots_->size() / 2) * options_.line_bytes;
  const Entry entry(*this);
  for (end = std::min(end, at + most); at < end; at += line) {
    const LineRef ref = lines_->ref(GlobalAddress(at));
    if ((coherence::Protocol::permission(ref) & detail::kWritable) != 0) continue;
    if (would_wait_for_itself(thread, ref)) continue;
    Task* const task = writes_->take();
    if (task == nullptr) break;  // enough is under way
    task->kind = coherence::OpKind::kWrite;
    task->action = Action::kNone;
    task->operation = 0;
    task->address = GlobalAddress(at);
    task->bytes = 0;
    task->thread = &thread;
    task->may_leave = false;
    thread.pending_writes.fetch_add(1, std::memory_order_relaxed);
    counters_->write_misses.add();
    protocol_.submit(ref, *task);
  }
  flush();
}

}  // namespace atoll::runtime
