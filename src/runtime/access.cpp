// Reads, writes and atomics beyond the inlined hit.
#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "runtime/bytes.hpp"
#include "runtime/runtime.hpp"

namespace atoll::runtime {

using coherence::OpKind;
using detail::kReadable;
using detail::kWritable;
using detail::Line;

namespace {

constexpr std::uint32_t kHitsToCalm = 64;      // fenced hits that make up for a sixteenth of a line's bad name
constexpr std::uint8_t kLivesOfUsedAgain = 8;  // looks for something to evict that a line survives which proved useful
constexpr std::uint32_t kWritesPerLook = 8;    // asynchronous writes between two looks for messages
constexpr std::uint32_t kWritesGathered = 8;   // small writes that go out together, at most
constexpr std::uint32_t kVisitNs = 64;         // what a read in place costs more than a hit
constexpr std::uint32_t kMinVisits = 8, kMaxVisits = 250;
constexpr std::uint32_t kWritesPerFetch = 4;  // so many writes at the home cost what it costs to fetch the line,
constexpr std::uint32_t kWaitedPerFetch = 2;  // or so many that their thread waits for
constexpr std::uint32_t kLeastAhead = 4;      // lines, however large they are
constexpr std::size_t kMaxTasks = 32;         // lines of one call that are asked for together

constexpr const char* kReadLocked =
    "this thread holds a read lock on the line, and would have to wait for itself: take a write lock";

/// What a code that the engine completes an operation with means for the caller.
const char* explain(Errc code) noexcept {
  if (code == Errc::kStorage) return "the page could not be read: the log of the file's node says why";
  return code == Errc::kCacheFull ? "every cache slot is held by a lock: unlock some, or join with a larger cache" : "";
}

/// A line that was hidden from the hit path, to see whether it is still used: it is. The first use of a line that was
/// fetched ahead says nothing of the kind.
void found_here(Line& line) noexcept {
  const std::uint8_t lives = (line.lives & Line::kFetchedAhead) != 0 ? 0 : kLivesOfUsedAgain;
  line.lives = std::uint8_t((line.lives & Line::kDemand) | lives);
}

/// One line's part of a range.
struct Piece {
  GlobalAddress address;
  std::uint32_t bytes;
};
Piece next_piece(const detail::LineTable& table, GlobalAddress address, std::uint64_t left) noexcept {
  const std::uint64_t line_bytes = std::uint64_t{1} << detail::line_shift_at(table, address.bits());
  const std::uint64_t to_end = line_bytes - (address.offset() & (line_bytes - 1));
  return {address, std::uint32_t(std::min(left, to_end))};
}

bool read_hit(const detail::LineTable& table, detail::ThreadSlot& slot, const Piece& piece, std::byte* into) noexcept {
  const Line& line = *detail::find_line(table, piece.address.bits());
  const bool word = is_one_word(piece.address.bits(), piece.bytes);
  bool whole = word;
  const auto copy = [&](const std::byte* data) {
    if (word) {
      copy_word(into, data, piece.bytes);
    } else {
      whole = copy_out(line, data, into, piece.bytes);
    }
  };
  while (detail::read_line(slot, line, piece.address, copy)) {
    if (whole) return true;
    ATOLL_GIVE_WAY();  // to the writer
  }
  return false;
}

bool write_hit(const detail::LineTable& table, detail::ThreadSlot& slot, const Piece& piece,
               const std::byte* from) noexcept {
  Line& line = *detail::find_line(table, piece.address.bits());
  return detail::write_line(slot, line, piece.address,
                            [&](std::byte* data) { write_bytes(line, data, from, piece.address, piece.bytes); });
}

}  // namespace

Status Runtime::check_range(GlobalAddress address, std::uint64_t bytes) const noexcept {
  if (!address) return {Errc::kNullAddress, "the address is null"};
  // The first page of a node's memory is never given out, so that no null pointer plus a little is an address.
  if (address.offset() < memory::Allocator::kReservedBytes || !lines_->contains(address, bytes)) {
    return {Errc::kBadAddress, "no node has memory at this address, or the range leaves it", address.node()};
  }
  return {};
}

/// Is there anybody who could be asked for this line?
Status Runtime::check_home(GlobalAddress address) const noexcept {
  if (is_over()) return why_over();
  if (is_dead(address.node()) && journal_ == nullptr) {  // in a logged cluster it will be back
    return {Errc::kNodeDied, "the home of the address is gone", address.node()};
  }
  if ((lines_->larger_at(address) & detail::kLargerClosed) == 0) return {};
  if (lines_->is_file(address)) {
    return {Errc::kBadAddress, "no file is open here: each node opens the file itself", address.node()};
  }
  return {Errc::kBadAddress, "the array that had this memory is being freed, or not made yet", address.node()};
}

/// Waits for tasks that were submitted; takes back those that will not end.
Status Runtime::finish(ThreadState& thread, std::span<Task* const> tasks) {
  const NodeId home = tasks.empty() ? kNoNode : tasks[0]->address.node();
  const Status waited = wait(thread, home, Clock::time_point::max(), [&] {
    return std::all_of(tasks.begin(), tasks.end(),
                       [](const Task* task) { return task->done.load(std::memory_order_acquire); });
  });
  Status status = waited;
  if (!waited.ok()) {
    const Entry entry(*this);
    bool all_done = true;
    for (Task* task : tasks) {
      if (!task->done.load(std::memory_order_acquire) && protocol_.cancel(lines_->ref(task->address), *task)) {
        all_done = false;
      }
    }
    flush();
    if (all_done) status = {};
  }
  for (const Task* task : tasks) {
    if (status.ok() && task->result != Errc::kOk) status = {task->result, explain(task->result), task->address.node()};
  }
  return status;
}

Status Runtime::run(ThreadState& thread, Task& task) {
  if (const Status status = check_home(task.address); !status.ok()) return status;
  if (task.kind == OpKind::kAtomic) {
    if (const Status status = need_room(thread); !status.ok()) return status;
  }
  {
    const Entry entry(*this);
    const LineRef ref = lines_->ref(task.address);
    if (task.kind == OpKind::kAtomic) {
      if (would_wait_for_itself(thread, ref)) return {Errc::kWouldDeadlock, kReadLocked};
      if ((coherence::Protocol::permission(ref) & kWritable) == 0) counters_->atomic_misses.add();
    }
    protocol_.submit(ref, task);
    flush();
  }
  Task* tasks[] = {&task};
  return finish(thread, tasks);
}

/// A lock of the thread that covers the line of this address, or nullptr. (All that cover one line have one mode.)
const HeldLock* Runtime::lock_over(const ThreadState& thread, GlobalAddress address) const noexcept {
  const auto found = std::find_if(thread.held.begin(), thread.held.end(), [&](const HeldLock& held) {
    const std::uint64_t mask = line_bytes_at(held.address) - 1;
    return (held.address.bits() & ~mask) <= address.bits() &&
           address.bits() <= ((held.address.bits() + held.bytes - 1) | mask);
  });
  return found == thread.held.end() ? nullptr : &*found;
}

/// Must the thread not ask for permission to write? Its own read lock of the line would be in the way: another node
/// that does the same would hold back its request for ever, and it the other's.
bool Runtime::would_wait_for_itself(const ThreadState& thread, const LineRef& ref) const noexcept {
  if (thread.held.empty() || (coherence::Protocol::permission(ref) & kWritable) != 0) return false;
  const HeldLock* const held = lock_over(thread, ref.address);
  return held != nullptr && held->mode == LockMode::kRead;
}

/// Asks for a line that nobody waits for yet. False: it is here, or asked for.
bool Runtime::fetch_ahead(GlobalAddress line) {
  if ((lines_->larger_at(line) & detail::kLargerClosed) != 0) return false;
  const LineRef ref = lines_->ref(line);
  if (!slots_->has_run(ref.larger) || !protocol_.read_ahead(ref)) return false;
  ref.line->lives = std::uint8_t((ref.line->lives & Line::kDemand) | Line::kFetchedAhead | 1);  // not before its use
  counters_->read_ahead_lines.add();
  return true;
}

/// A thread whose slow reads follow each other is read ahead for, by a window that doubles while it goes on. It has
/// read from `at` to before `end`.
void Runtime::read_ahead(ThreadState& thread, GlobalAddress at, GlobalAddress end) {
  const std::uint32_t shift = detail::line_shift_at(lines_->table(), at.bits());
  const unsigned larger = shift - lines_->table().line_shift;
  const NodeId home = at.node();
  thread.strides.note(at.bits() >> shift, (end.bits() - 1) >> shift);
  // Of a small cache it takes a small part: what is fetched in vain throws out what is used.
  const std::uint32_t lines =
      std::max(std::min(options_.read_ahead_lines, kLeastAhead), options_.read_ahead_lines >> larger);
  const std::uint32_t most = std::min(lines, slots_->size() / 32 >> larger);
  const Strides::Wish wish = thread.strides.wish(most);
  const std::uint32_t free = slots_->free_count() >> larger;
  const std::uint32_t count = std::min(wish.count, free > wire::kMaxRun ? free - wire::kMaxRun : 0);
  if (count == 0) return;
  // Not the page that is never given out: the first line of node 0 has the null address.
  const std::uint64_t given = GlobalAddress::make(home, memory::Allocator::kReservedBytes).bits();
  const std::uint64_t begin = (given + (std::uint64_t{1} << shift) - 1) >> shift;
  const std::uint64_t beyond = (GlobalAddress::make(home, 0).bits() + memory_bytes_[home]) >> shift;
  for (std::uint32_t i = 0; i < count; ++i) {
    // The lowest first: lines that follow each other join one message.
    const std::uint32_t k = wish.stride > 0 ? i : count - 1 - i;
    const std::uint64_t line = wish.first + std::uint64_t(wish.stride) * k;
    if (line >= begin && line < beyond) (void)fetch_ahead(GlobalAddress(line << shift));
  }
  thread.strides.asked(count, most);
}

/// Looks whether the line of this address can be read at its home right now: that process can be reached, has the
/// bytes, and nobody there is writing them. And this node has nothing of the line, not even a write that waits: it
/// would not be seen there.
std::optional<Runtime::Glimpse> Runtime::look_home(GlobalAddress address) const noexcept {
  if (views_.empty() || address.node() == self_ || is_dead(address.node())) return {};
  const HomeView::Places view = views_[address.node()].look();
  if (view.memory == nullptr) return {};
  const Line* const record = detail::find_line(lines_->table(), address.bits());
  if ((lines_->larger_at(address) & detail::kLargerClosed) != 0) return {};
  if (record->here.load(std::memory_order_acquire) && !ATOLL_FAULT(in_place_beside_queue)) return {};
  const Line& line = view.lines[record - lines_->table().lines[address.node()]];
  const std::uint32_t lock = line.lock.load(std::memory_order_acquire);
  const std::uint32_t version = line.version.load(std::memory_order_acquire);
  const bool locked = (lock & detail::kLockWriter) != 0 && !ATOLL_FAULT(in_place_under_lock);
  if (locked || !coherence::is_whole(version)) return {};
  return Glimpse{line, view.memory + address.offset(), lock, version};
}

/// A line that is not here is read where it lives: no message, no wait, and no copy that has to be found again when
/// somebody writes. The home's version says that the bytes were there all the while, whole; its lock word, that no
/// writer of the home held the lock. False: ask for the line.
///
/// A whole line costs the same here and there, so it is never fetched. A smaller part costs much more than a hit: the
/// line is fetched when that has been paid as often as it makes up the price of fetching, which the thread has learned
/// (so it pays about twice what would have been right, at worst); or when the thread reads on where it left off, which
/// read_ahead serves better.
bool Runtime::read_in_place(ThreadState& thread, GlobalAddress address, std::byte* into, std::uint32_t bytes) noexcept {
  if (views_.empty() || address.node() == self_) return false;
  Line& record = *detail::find_line(lines_->table(), address.bits());
  const std::uint8_t visits = record.visits.load(std::memory_order_relaxed);
  const std::uint32_t shift = detail::line_shift_at(lines_->table(), address.bits());
  const bool part = bytes != 1u << shift;
  const std::uint64_t line = address.bits() >> shift;
  if (part) {
    if (visits >= thread.visits_per_fetch || thread.strides.goes_on_with(line)) return false;
  }
  const std::optional<Glimpse> home = look_home(address);
  if (!home) return false;
  ATOLL_POINT();
  if (is_one_word(address.bits(), bytes)) {
    copy_word(into, home->bytes, bytes);
  } else {
    copy_bytes(into, home->bytes, bytes);
  }
  ATOLL_POINT();
  std::atomic_thread_fence(std::memory_order_acquire);
  const bool same = home->line.version.load(std::memory_order_relaxed) == home->version &&
                    ((home->line.lock.load(std::memory_order_relaxed) ^ home->lock) & detail::kLockWrites) == 0;
  if (!same && !ATOLL_FAULT(in_place_not_compared)) return false;
  if (part) {
    // No atomic instruction: it would wait for what was read, and hold up the reads that follow.
    record.visits.store(std::uint8_t(visits + 1), std::memory_order_relaxed);
    thread.strides.note(line, line);
  }
  thread.reads_in_place.store(thread.reads_in_place.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return true;
}

Status Runtime::read(GlobalAddress address, std::byte* into, std::uint64_t bytes) {
  if (const Status status = check_range(address, bytes); !status.ok()) return status;
  ThreadState& thread = threads_.current();
  while (bytes > 0) {
    const Piece piece = next_piece(lines_->table(), address, bytes);
    std::uint64_t taken = piece.bytes;
    if (read_hit(lines_->table(), *thread.slot, piece, into)) {
      detail::count_hits(*thread.slot, 1);
    } else if (!read_in_place(thread, address, into, piece.bytes)) {
      if (const Status status = read_missed(thread, address, into, bytes, &taken); !status.ok()) return status;
    }
    address += std::int64_t(taken);
    into += taken;
    bytes -= taken;
  }
  return {};
}

/// Reads the next lines of a range under the engine lock: those that are here at once, for the rest one request each,
/// all under way together. `taken`: how many bytes it has read.
Status Runtime::read_missed(ThreadState& thread, GlobalAddress address, std::byte* into, std::uint64_t bytes,
                            std::uint64_t* taken) {
  const NodeId home = address.node();
  if (const Status status = check_home(address); !status.ok()) return status;
  // A read under a lock goes ahead of what is queued, but not of the thread's own writes.
  if (!thread.held.empty()) {
    if (const Status status = fence_writes(thread); !status.ok()) return status;
  }
  // Task is not movable (it is linked into queues), so the room for a batch of them is raw.
  alignas(Task) std::byte room[kMaxTasks * sizeof(Task)];
  std::array<Task*, kMaxTasks> tasks;
  std::size_t count = 0;
  GlobalAddress at = address;
  const GlobalAddress end = address + std::int64_t(bytes);
  {
    const Entry entry(*this);
    if (fabric_->maybe_pending()) progress();
    while (at < end && count < kMaxTasks) {
      const Piece piece = next_piece(lines_->table(), at, std::uint64_t(end - at));
      if (at != address && piece.bytes == line_bytes_at(at) && look_home(at)) break;
      const LineRef ref = lines_->ref(at);
      Task* task = new (room + count * sizeof(Task))
          Task(OpKind::kRead, Action::kCopyOut, at, piece.bytes, into + (at - address), &thread);
      const bool here = (coherence::Protocol::permission(ref) & kReadable) != 0;
      if (here) {
        detail::count_hits(*thread.slot, 1);  // hidden from the hit path, but here
        found_here(*ref.line);
      } else {
        counters_->read_misses.add();
      }
      if (here && ref.line->cold == 0) {
        perform(ref, *task);
        coherence::Protocol::publish_access(ref);
      } else {
        task->under_lock = lock_over(thread, at) != nullptr;
        tasks[count++] = task;
        protocol_.submit(ref, *task);
      }
      at += piece.bytes;
    }
    if (home != self_ && options_.read_ahead_lines > 0) read_ahead(thread, address, at);
    if (home == self_ && lines_->is_file(address)) read_file_ahead(thread, address, at);
    flush();
  }
  *taken = std::uint64_t(at - address);
  if (count == 0) return {};
  const Clock::time_point asked_at = host_.now();
  const Status status = finish(thread, {tasks.data(), count});
  if (status.ok()) learn_price(thread, host_.now() - asked_at);
  return status;
}

/// How long it took to fetch a line, as a number of reads in place.
void Runtime::learn_price(ThreadState& thread, Clock::duration time) noexcept {
  const auto visits = std::uint64_t(std::chrono::nanoseconds(time).count()) / kVisitNs;
  const auto price = std::uint32_t(std::clamp<std::uint64_t>(visits, kMinVisits, kMaxVisits));
  thread.visits_per_fetch = (7 * thread.visits_per_fetch + price + 4) / 8;
}

/// A write that hits beyond the inlined path: a large one, or one that fences. Every so often a fenced line is asked
/// whether it still has to.
void Runtime::count_write_hit(ThreadState& thread, GlobalAddress address) {
  detail::count_hits(*thread.slot, 1);
  const Line& line = *detail::find_line(lines_->table(), address.bits());
  if (!line.fenced.load(std::memory_order_relaxed) || ++thread.fenced_hits % kHitsToCalm != 0) return;
  const Entry entry(*this);
  calm(lines_->ref(address));
}

/// Is a write that misses better sent to the home, which does it there, than the line fetched for it? A small message
/// each way against a line each way, now or later; but every further write costs as much again (and a thread that waits
/// for each, as long as for the line). As with reads in place, the line is fetched when so much was spent on it; or at
/// once when the thread writes on where it left off. What was spent does not count when threads of the home use the
/// line as well: they would have taken it back. And a line that other nodes have is not to be written at the home.
bool Runtime::is_worth_leaving(ThreadState& thread, const LineRef& ref, GlobalAddress address, std::uint32_t bytes,
                               Consistency consistency) {
  const std::uint32_t shift = detail::line_shift_at(lines_->table(), address.bits());
  const std::uint64_t lines_on = (address.bits() >> shift) - (thread.last_missed_write >> shift);
  thread.last_missed_write = address.bits();
  // With a log: one that was done and not answered, because its home had died, would be done twice.
  if (!options_.write_at_home || journal_ != nullptr) return false;
  if (ref.is_home() || bytes > wire::SmallWrite::kMaxBytes) return false;
  if (ref.state() != coherence::CacheState::kInvalid || ref.line->cold != 0) return false;
  if (lines_on + 1 <= 2 || (ref.line->lives & Line::kContested) != 0) return false;
  if (address.offset() / options_.line_bytes > std::numeric_limits<std::uint32_t>::max())
    return false;  // no room in Written
  const std::uint32_t price = thread.visits_per_fetch;
  const std::uint32_t spent = ref.line->visits.load(std::memory_order_relaxed);
  if (spent >= price) return false;
  const std::uint32_t cost = price / (consistency == Consistency::kPso ? kWritesPerFetch : kWaitedPerFetch);
  ref.line->visits.store(std::uint8_t(std::min(spent + cost, kMaxVisits)), std::memory_order_relaxed);
  return true;
}

/// May the small write that was sent last wait for company? A few may, as long as the home has an answer to give to
/// this node: when that comes, everything is flushed. So no write waits longer than it takes this node to see it.
bool Runtime::is_held_back(NodeId home) const noexcept {
  return gathered_ > 0 && gathered_ < kWritesGathered && gathered_for_ == home && answers_due_[home] > gathered_;
}

/// A write that misses: copied, queued, and done in the background. So is an operand, if there is an `operation`.
Status Runtime::write_missed(ThreadState& thread, GlobalAddress address, const std::byte* from, std::uint32_t bytes,
                             Consistency consistency, std::uint8_t operation) {
  if (const Status status = check_home(address); !status.ok()) return status;
  if (const Status status = need_room(thread); !status.ok()) return status;
  while (true) {
    {
      const Entry entry(*this);
      // Not for every answer: several at a time are cheaper.
      if (thread.pending_writes.load(std::memory_order_relaxed) % kWritesPerLook == 0 && fabric_->maybe_pending()) {
        drives_.fetch_add(1, std::memory_order_relaxed);
        progress();
      }
      const LineRef ref = lines_->ref(address);
      if (would_wait_for_itself(thread, ref)) return {Errc::kWouldDeadlock, kReadLocked};
      if (Task* task = writes_->take(); task != nullptr) {
        // Operands that are combined elsewhere could be taken twice where nodes come back: a logged line comes here.
        task->kind = operation == 0 || journal_ != nullptr ? OpKind::kWrite : OpKind::kOperate;
        task->action = operation == 0 ? Action::kCopyIn : Action::kOperate;
        task->operation = operation;
        task->address = address;
        task->bytes = bytes;
        task->thread = &thread;
        task->may_leave = operation == 0 && is_worth_leaving(thread, ref, address, bytes, consistency);
        std::memcpy(task->buffer, from, bytes);
        thread.pending_writes.fetch_add(1, std::memory_order_relaxed);
        if (coherence::Protocol::allows(ref, *task)) {
          detail::count_hits(*thread.slot, 1);
          found_here(*ref.line);
        } else {
          counters_->write_misses.add();
        }
        const std::uint32_t gathered = gathered_;
        protocol_.submit(ref, *task);
        if (gathered_ == gathered || !is_held_back(ref.home())) flush();
        return {};
      }
    }
    const Present waiter(room_waiters_);
    const Status status = wait(thread, kNoNode, Clock::time_point::max(), [&] { return writes_->has_room(); });
    if (!status.ok()) return status;
  }
}

Status Runtime::write(GlobalAddress address, const std::byte* from, std::uint64_t bytes, Consistency consistency) {
  if (const Status status = check_range(address, bytes); !status.ok()) return status;
  ThreadState& thread = threads_.current();
  if (consistency == Consistency::kDefault) consistency = options_.consistency;
  if (consistency != Consistency::kPso) {  // not before what this thread wrote with less order
    if (const Status status = fence_writes(thread); !status.ok()) return status;
  }
  bool missed = false;
  while (bytes > 0) {
    Piece piece = next_piece(lines_->table(), address, bytes);
    bool hit = false;
    if (journal_ == nullptr) {
      hit = write_hit(lines_->table(), *thread.slot, piece, from);
    } else {
      const Result<bool> done = hit_logged(thread, address, [&](Line& line) {
        return write_logged(thread, false, line, piece.address, from, piece.bytes);
      });
      if (!done.ok()) return done.status();
      hit = *done;
    }
    if (hit) {
      count_write_hit(thread, piece.address);
    } else {
      missed = true;
      piece.bytes = std::min(piece.bytes, writes_->room_bytes());
      if (const Status status = write_missed(thread, address, from, piece.bytes, consistency); !status.ok())
        return status;
    }
    address += piece.bytes;
    from += piece.bytes;
    bytes -= piece.bytes;
  }
  if (consistency == Consistency::kSc) std::atomic_thread_fence(std::memory_order_seq_cst);
  if (consistency == Consistency::kPso) return {};
  return missed && !ATOLL_FAULT(tso_does_not_wait) ? fence() : settle(thread);
}

Status Runtime::fence() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  ThreadState& thread = threads_.current();
  const Status status = fence_writes(thread);
  return status.ok() ? settle(thread) : status;
}

/// The fence without the processor's own, for those who go on with an atomic instruction.
Status Runtime::fence_writes(ThreadState& thread) {
  if (thread.pending_writes.load(std::memory_order_acquire) != 0 && !ATOLL_FAULT(fence_does_not_wait)) {
    const Status status = wait(thread, kNoNode, Clock::time_point::max(),
                               [&] { return thread.pending_writes.load(std::memory_order_acquire) == 0; });
    if (!status.ok()) {
      abandon_writes(thread, status.code());
      thread.write_error.store(0, std::memory_order_relaxed);
      return status;
    }
  }
  const auto error = Errc(thread.write_error.exchange(0, std::memory_order_relaxed));
  if (error == Errc::kOk) return {};
  return {error, "an asynchronous write of this thread failed", first_dead_.load(std::memory_order_relaxed)};
}

/// Writes that cannot be done any more, because a node that they need is gone.
void Runtime::abandon_writes(ThreadState& thread, Errc why) {
  if (ATOLL_FAULT(write_of_the_dead_leaks)) return;
  const Entry entry(*this);
  std::vector<Task*> stuck;
  writes_->for_each_of(thread, [&](Task& task) { stuck.push_back(&task); });
  for (Task* task : stuck) {
    const LineRef ref = lines_->ref(task->address);
    if (protocol_.cancel(ref, *task)) complete(ref, *task, why);
  }
  flush();
}

/// A thread that works does its node's part for the others now and then. That is sooner than the service thread can,
/// which must be woken and get a processor; as long as threads look so often, it stays asleep and nobody wakes it.
void Runtime::look_in_passing(ThreadState& thread) {
  constexpr std::uint32_t kPasses = 4;
  if (++thread.passes % kPasses != 0) return;
  drives_.fetch_add(1, std::memory_order_relaxed);
  if (!fabric_->maybe_pending() || !mutex_.try_lock()) return;
  progress();
  mutex_.unlock();
}

Result<std::uint64_t> Runtime::rmw(GlobalAddress address, std::size_t bytes, Action what, std::uint64_t operand,
                                   std::uint64_t expected, Settle settled) {
  if (const Status status = check_range(address, bytes); !status.ok()) return status;
  if (address.offset() % bytes != 0) return {Errc::kInvalidArgument, "an atomic must be aligned to its size"};
  ThreadState& thread = threads_.current();
  if (const Status status = ATOLL_FAULT(atomic_before_writes) ? Status() : fence_writes(thread); !status.ok()) {
    return status;
  }
  // One of many that are a larger step. Others come by themselves: who counts on a line that is wanted elsewhere too
  // gets more done if it keeps the line for a while.
  if (settled == Settle::kLater) look_in_passing(thread);
  Task task(OpKind::kAtomic, what, address, std::uint32_t(bytes), nullptr, &thread);
  task.operand = operand;
  task.expected = expected;
  Result<bool> hit = false;
  if (journal_ == nullptr) {
    const Line& line = *detail::find_line(lines_->table(), address.bits());
    hit = detail::write_line(*thread.slot, line, address,
                             [&](std::byte* data) { task.value = read_modify_write(data, task); });
  } else {
    hit = hit_logged(thread, address, [&](Line& line) { return rmw_logged(thread, false, line, task); });
  }
  if (!hit.ok()) return hit.status();
  if (!*hit) {
    const Status status = run(thread, task);
    if (!status.ok()) return status;
  }
  if (settled == Settle::kLater) return task.value;
  if (const Status status = settle(thread); !status.ok()) return status;
  return task.value;
}

Status Runtime::register_atomic(std::string_view name, AtomicFunction function) {
  if (name.empty() || !function) return {Errc::kInvalidArgument, "give a name and a function"};
  const Entry entry(*this);
  const bool added = functions_.try_emplace(std::string(name), std::move(function)).second;
  return added ? Status() : Status(Errc::kAlreadyExists, "a function of this name is registered");
}

Status Runtime::atomic(GlobalAddress address, std::uint32_t bytes, std::string_view name,
                       std::span<const std::byte> args) {
  if (const Status status = check_range(address, bytes); !status.ok()) return status;
  const std::uint64_t line = line_bytes_at(address);
  if (bytes == 0 || bytes > kMaxCallBytes || (address.offset() & (line - 1)) + bytes > line) {
    return {Errc::kInvalidArgument, "the range of an atomic must lie within one line, and have 4096 bytes at most"};
  }
  if (const Status status = fence(); !status.ok()) return status;
  ThreadState& thread = threads_.current();
  Task task(OpKind::kAtomic, Action::kCall, address, bytes, nullptr, &thread);
  task.arguments = args;
  {
    const Entry entry(*this);
    const auto found = functions_.find(name);
    if (found == functions_.end()) return {Errc::kNotFound, "no function of this name is registered here"};
    task.function = &found->second;  // entries of a map stay where they are, and none is ever removed
  }
  const Status status = run(thread, task);
  return status.ok() ? settle(thread) : status;
}

Status Runtime::zero(GlobalAddress address, std::uint64_t bytes) {
  static constexpr std::array<std::byte, 4096> kZeros{};
  while (bytes > 0) {
    const std::uint64_t piece = std::min<std::uint64_t>(bytes, kZeros.size());
    if (const Status status = write(address, kZeros.data(), piece, Consistency::kPso); !status.ok()) return status;
    address += std::int64_t(piece);
    bytes -= piece;
  }
  return fence();
}

}  // namespace atoll::runtime
