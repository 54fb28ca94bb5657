// Writes of a logged cluster: the log has each before the memory does. See docs/recovery.md.
//
// Every write of a logged line takes the line's version, so that the log has the writes of a line in the order in which
// they were done, whichever threads did them.
#include <array>
#include <cstring>

#include "base/check.hpp"
#include "runtime/bytes.hpp"
#include "runtime/runtime.hpp"

namespace atoll::runtime {

using detail::Line;

namespace {
constexpr std::chrono::milliseconds kFullPause{10};
}

Place Runtime::place_of(const Line& line, GlobalAddress address) const noexcept {
  const std::uint64_t bytes = line_bytes_at(address);
  const GlobalAddress first(address.bits() & ~(bytes - 1));
  return {first, std::uint32_t(bytes), line.byte_at(first), address.node() == self_ ? 0 : line.slot};
}

Journal::Writer& Runtime::writer_of(ThreadState& thread) {
  if (thread.log == nullptr) thread.log = journal_->make_writer();
  return *thread.log;
}

/// REQUIRES: a hazard or the engine lock keeps the line here, and its version is taken.
Errc Runtime::log_and_store(ThreadState& thread, bool in_engine, Line& line, GlobalAddress at, const std::byte* from,
                            std::uint32_t bytes) {
  const Place place = place_of(line, at);
  const Result<log::Sequence> logged = in_engine ? journal_->note_write_in_engine(place, at, {from, bytes})
                                                 : journal_->note_write(writer_of(thread), place, at, {from, bytes});
  if (!logged.ok()) return logged.status().code();
  ATOLL_POINT();
  std::byte* const into = line.byte_at(at);
  if (is_one_word(at.bits(), bytes)) {
    copy_word(into, from, bytes);
  } else {
    copy_bytes(into, from, bytes);
  }
  thread.note_logged(*logged);
  return Errc::kOk;
}

Errc Runtime::write_logged(ThreadState& thread, bool in_engine, Line& line, GlobalAddress at, const std::byte* from,
                           std::uint32_t bytes) {
  coherence::begin_write(line);
  const Errc code = log_and_store(thread, in_engine, line, at, from, bytes);
  coherence::end_write(line);
  return code;
}

/// A change of up to kMaxCallBytes that depends on what is there: `change` makes it on a copy, aligned as the original
/// is. False from it: nothing is to be written.
template <typename Change>
Errc Runtime::change_logged(ThreadState& thread, bool in_engine, Line& line, GlobalAddress at, std::uint32_t bytes,
                            Change change) {
  alignas(64) std::array<std::byte, 64 + kMaxCallBytes> room;
  std::byte* const copy = room.data() + at.offset() % 64;
  coherence::begin_write(line);
  base::racy_copy(copy, line.byte_at(at), bytes);
  const Errc code = change(copy) ? log_and_store(thread, in_engine, line, at, copy, bytes) : Errc::kOk;
  coherence::end_write(line);
  return code;
}

Errc Runtime::rmw_logged(ThreadState& thread, bool in_engine, Line& line, Task& task) {
  return change_logged(thread, in_engine, line, task.address, task.bytes, [&](std::byte* copy) {
    std::uint64_t before = 0;
    std::memcpy(&before, copy, task.bytes);
    task.value = read_modify_write(copy, task);
    return std::memcmp(&before, copy, task.bytes) != 0;
  });
}

Errc Runtime::combine_logged(ThreadState& thread, bool in_engine, Line& line, GlobalAddress at,
                             const OperatorInfo& info, const std::byte* operand) {
  return change_logged(thread, in_engine, line, at, std::uint32_t(info.bytes), [&](std::byte* copy) {
    if (info.is_wide()) {
      info.apply_wide(copy, operand);
    } else {
      std::uint64_t word = 0;
      std::memcpy(&word, operand, info.bytes);
      info.apply(copy, word);
    }
    return true;
  });
}

/// The function works on a copy: one that throws changes nothing. No hit gets in while its result is stored: who reads
/// words does not look at the version.
Errc Runtime::call_logged(const LineRef& ref, Task& task) {
  Line& line = *ref.line;
  if (!ATOLL_FAULT(function_not_alone)) {
    ref.hot.set_access(0);
    quiesce(ref);
  }
  return change_logged(*task.thread, true, line, task.address, task.bytes, [&](std::byte* copy) {
    task.code_from_function = call_function(*task.function, {copy, task.bytes}, task.arguments);
    return task.code_from_function == Errc::kOk;
  });
}

/// What the engine does for a thread that waited for the line.
void Runtime::perform_logged(const LineRef& ref, Task& task) {
  Errc code = Errc::kOk;
  switch (task.action) {
    case Action::kNone:
    case Action::kWriteIf:
    case Action::kCopyOut: break;
    case Action::kCopyIn:
      code = write_logged(*task.thread, true, *ref.line, task.address, task.buffer, task.bytes);
      break;
    case Action::kOperate:
      code = combine_logged(*task.thread, true, *ref.line, task.address, *operators_.find(task.operation), task.buffer);
      break;
    case Action::kAdd:
    case Action::kExchange:
    case Action::kCompareExchange: code = rmw_logged(*task.thread, true, *ref.line, task); break;
    case Action::kCall: code = call_logged(ref, task); break;
  }
  if (code == Errc::kOk) return;
  if (task.asynchronous) {
    task.thread->write_error.store(std::uint8_t(code), std::memory_order_relaxed);
  } else {
    task.code_from_function = code;
  }
}

/// The guard and the bytes in one record, with what lies between them: after a crash both are there, or neither. `note`
/// logs it. Who reads without a look at the version sees the guard change before and after the bytes, as without a log.
template <typename Note>
Errc Runtime::write_if_noted(Line& line, GlobalAddress guard, GlobalAddress at, const wire::GuardedWrite& write,
                             std::uint32_t bytes, bool* done, Note note) {
  const GlobalAddress first = std::min(guard, at);
  const auto size = std::uint64_t(std::max(guard + 8, at + std::int64_t(bytes)) - first);
  std::array<std::byte, kMaxCallBytes> room;
  std::vector<std::byte> more(size > room.size() ? size : 0);  // they are far apart in a large line
  const std::span<std::byte> copy(more.empty() ? room.data() : more.data(), size);
  Errc code = Errc::kOk;
  coherence::begin_write(line);
  auto& word = *reinterpret_cast<std::uint64_t*>(line.byte_at(guard));
  *done = detail::load_shared(word) == write.expected;
  if (*done) {
    base::racy_copy(copy.data(), line.byte_at(first), size);
    std::memcpy(copy.data() + (guard - first), &write.desired, sizeof(write.desired));
    std::memcpy(copy.data() + (at - first), write.bytes.data(), bytes);
    code = note(place_of(line, first), first, copy);
  }
  if (*done && code == Errc::kOk) {
    ATOLL_POINT();
    detail::store_shared(word, ~write.expected);
    finish_guarded(word, line.byte_at(at), write, bytes);
  }
  coherence::end_write(line);
  return code;
}

/// REQUIRES: the thread has locked the line to write.
Errc Runtime::write_if_logged(ThreadState& thread, Line& line, GlobalAddress guard, GlobalAddress at,
                              const wire::GuardedWrite& write, std::uint32_t bytes, bool* done) {
  // The lock keeps the line here. The hazard is for checkpoints, which wait for writes that are logged and not stored.
  detail::enter_hazard_fenced(*thread.slot, guard.bits());
  const Errc code = write_if_noted(line, guard, at, write, bytes, done,
                                   [&](const Place& place, GlobalAddress first, std::span<const std::byte> all) {
                                     const Result<log::Sequence> logged =
                                         journal_->note_write(writer_of(thread), place, first, all);
                                     if (logged.ok()) thread.note_logged(*logged);
                                     return logged.status().code();
                                   });
  detail::leave_hazard(*thread.slot);
  return code;
}

/// The same for another node, by the home. Whose it was stands in the record too, so that it is done once. What
/// WriteIfReply says. REQUIRES: Protocol::may_write_for.
std::uint64_t Runtime::write_if_for(const Caller& caller, GlobalAddress guard, GlobalAddress at,
                                    const wire::GuardedWrite& write, std::uint32_t bytes) {
  bool done = false;
  const Errc code = write_if_noted(*lines_->ref(guard).line, guard, at, write, bytes, &done,
                                   [&](const Place& place, GlobalAddress first, std::span<const std::byte> all) {
                                     return journal_->note_write_for(caller, place, first, all);
                                   });
  if (code != Errc::kOk) return wire::kWriteIfFailed;
  return done ? wire::kWriteIfDone : wire::kWriteIfNotDone;
}

/// The rest of write_if for a line that this thread has locked.
Result<bool> Runtime::write_if_locked(ThreadState& thread, Line& line, GlobalAddress guard, GlobalAddress at,
                                      const wire::GuardedWrite& write, std::uint32_t bytes) {
  bool done = false;
  Errc code = Errc::kStorageFull;
  Status status;
  while (code == Errc::kStorageFull && status.ok()) {
    code = write_if_logged(thread, line, guard, at, write, bytes, &done);
    if (code == Errc::kStorageFull) status = wait_for_log(thread);
  }
  const Status unlocked = unlock(guard, 8);
  static_cast<void>(give_back(guard, 8));
  if (!status.ok()) return status;
  if (code != Errc::kOk) return Status(code, "the log cannot be written", self_);
  if (!unlocked.ok()) return unlocked;
  return done;
}

/// What a thread wrote through a pin: nobody has seen it yet, and before somebody does the log has it. It cannot be
/// taken back, so that a log that is full is waited for, however long it is; the line stays locked.
Status Runtime::log_pinned(ThreadState& thread, GlobalAddress address, std::uint64_t bytes) {
  Line& line = *detail::find_line(lines_->table(), address.bits());
  while (true) {
    coherence::begin_write(line);
    const Result<log::Sequence> logged = journal_->note_write(writer_of(thread), place_of(line, address), address,
                                                              {line.byte_at(address), std::size_t(bytes)});
    coherence::end_write(line);
    if (logged.ok()) {
      thread.note_logged(*logged);
      return {};
    }
    if (logged.status().code() != Errc::kStorageFull) return logged.status();
    const Status status = wait_for_log(thread);
    if (!status.ok() && status.code() != Errc::kStorageFull) return status;
    if (!status.ok()) host_.sleep_for(kFullPause);
  }
}

/// The log is full: a checkpoint will make room. REQUIRES: no lock is held but those of lines.
Status Runtime::wait_for_log(ThreadState& thread) {
  counters_->log_waits.add();
  const Present waiter(room_waiters_);
  wake_checkpointer();
  const Clock::time_point deadline = host_.now() + options_.recovery_wait;
  const Status status = wait(thread, kNoNode, deadline,
                             [&] { return journal_->has_room() || !journal_->health().ok() || checkpoint_failed_; });
  if (!status.ok() && status.code() != Errc::kDeadline) return status;
  if (const Status health = journal_->health(); !health.ok()) return health;
  if (journal_->has_room()) return {};
  return {Errc::kStorageFull, "the log is full and no checkpoint can be made; is the disk of --log-dir full?", self_};
}

/// In mode power, what the thread has written is on the disk when this returns.
Status Runtime::settle(ThreadState& thread) {
  if (journal_ == nullptr || ATOLL_FAULT(log_sync_not_awaited)) return {};
  const log::Sequence sequence = thread.logged.load(std::memory_order_relaxed);
  if (!journal_->is_durable(sequence)) {
    journal_->ask_for_sync();
    const Status status = wait(thread, kNoNode, Clock::time_point::max(),
                               [&] { return journal_->is_durable(sequence) || !journal_->health().ok(); });
    if (!status.ok()) return status;
  }
  return journal_->is_durable(sequence) ? Status() : journal_->health();
}

// ---- what the core asks of a logged node ----

void Runtime::log_transfer(const LineRef& ref, NodeId owner) {
  if (journal_ != nullptr) journal_->note_grant(ref.address, ref.directory->transfers, owner);
}

std::uint64_t& Runtime::tenure(const LineRef& ref) {
  ATOLL_CHECK(journal_ != nullptr && !ref.is_home() && ref.line->slot != 0);
  return journal_->tenure(ref.line->slot - 1);
}

/// The home takes the bytes from the slot of who returns the line: one that died half way has torn nothing here.
void Runtime::take_home(const LineRef& ref, const coherence::Message& message) {
  const std::byte* const bytes = fabric_->read_slot(message.from, message.slot, ref.bytes);
  if (bytes == nullptr) return cut_off(message.from, "it sent another line than it said");
  base::racy_copy(ref.hot.byte_at(ref.address), bytes, ref.bytes);
  if (ATOLL_FAULT(log_line_not_taken)) return;
  journal_->note_taken({ref.address, ref.bytes, ref.hot.byte_at(ref.address), 0}, message.tenure);
}

void Runtime::send_settled(const LineRef& ref, NodeId to, const coherence::Message& message) {
  const log::Sequence last = journal_->last();
  if (journal_->is_durable(last) || ATOLL_FAULT(log_return_acked_early)) return send(ref, to, message);
  late_.push_back({to, make_message(ref, message), last});
  journal_->ask_for_sync();
}

bool Runtime::is_settled(const LineRef& ref) {
  if (journal_ == nullptr || !journal_->is_power() || ATOLL_FAULT(log_shown_unsettled)) return true;
  if (journal_->is_settled(ref.address, ref.is_home() ? 0 : ref.line->slot)) return true;
  if (unsettled_.empty() || unsettled_.back() != ref.address) unsettled_.push_back(ref.address);
  journal_->ask_for_sync();
  return false;
}

/// Something has become durable: what waited for it goes on.
void Runtime::go_on_settled() {
  while (!late_.empty() && journal_->is_durable(late_.front().sequence)) {
    Late late = late_.front();
    late_.pop_front();
    call_home(late.to, late.message);
  }
  std::vector<GlobalAddress> lines;
  lines.swap(unsettled_);
  for (const GlobalAddress line : lines) protocol_.unlocked(lines_->ref(line));
}

}  // namespace atoll::runtime
