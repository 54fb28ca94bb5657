// Writes on a condition, which the home does for a node that has nothing of the line.
#include <bit>
#include <cstring>
#include <limits>

#include "runtime/bytes.hpp"
#include "runtime/runtime.hpp"

namespace atoll::runtime {

namespace {

constexpr const char* kNotTold = "a node died before the home said whether the write was done";

Status check_guarded(GlobalAddress guard, GlobalAddress address, std::uint64_t bytes, std::uint64_t line) noexcept {
  if (guard.offset() % 8 != 0) return {Errc::kInvalidArgument, "the guard must be aligned to its size"};
  if (bytes == 0 || bytes > wire::GuardedWrite::kMaxBytes)
    return {Errc::kInvalidArgument, "a guarded write has 1 to 16 bytes"};
  if (guard.bits() / line != address.bits() / line || address.bits() / line != (address.bits() + bytes - 1) / line)
    return {Errc::kInvalidArgument, "the guard and what is written must lie in one line"};
  if (address.bits() < guard.bits() + 8 && guard.bits() < address.bits() + bytes)
    return {Errc::kInvalidArgument, "what is written must not overlap the guard"};
  return {};
}

}  // namespace

/// Where there is nothing of the line here, the home is asked to do it. Where it cannot, the line is locked, and so
/// comes here.
Result<bool> Runtime::write_if(GlobalAddress guard, std::uint64_t expected, std::uint64_t desired,
                               GlobalAddress address, std::span<const std::byte> bytes) {
  if (const Status status = check_range(guard, 8); !status.ok()) return status;
  if (const Status status = check_range(address, bytes.size()); !status.ok()) return status;
  const std::uint64_t line_bytes = line_bytes_at(guard);
  if (const Status status = check_guarded(guard, address, bytes.size(), line_bytes); !status.ok()) return status;
  wire::GuardedWrite write{expected, desired, {}};
  std::memcpy(write.bytes.data(), bytes.data(), bytes.size());
  ThreadState& thread = threads_.current();
  if (const Status status = fence_writes(thread); !status.ok()) return status;

  if (!thread.held.empty() && lock_over(thread, guard) != nullptr)
    return {Errc::kWouldDeadlock, "this thread holds a lock on the line, and would have to wait for itself"};
  if (guard.node() != self_ && options_.write_at_home) {
    const Result<bool> done = journal_ == nullptr
                                  ? write_away(thread, guard, address, write, std::uint32_t(bytes.size()))
                                  : write_away_logged(guard, address, write, std::uint32_t(bytes.size()));
    if (done.ok() || done.status().code() != Errc::kRefused) return done;
  }
  if (const Status status = lock(guard, 8, LockMode::kWrite, false); !status.ok()) return status;
  detail::Line& line = *detail::find_line(lines_->table(), guard.bits());
  if (journal_ != nullptr) return write_if_locked(thread, line, guard, address, write, std::uint32_t(bytes.size()));
  const bool done = runtime::write_if(line, line.byte_at(guard), line.byte_at(address), write, bytes.size());
  // Neither can fail: there is nothing to wait for, and the line is here. An error would say that nothing was written.
  static_cast<void>(unlock(guard, 8));
  static_cast<void>(give_back(guard, 8));
  return done;
}

/// kRefused: the line is here, or on its way, or the home does not have it for itself.
Result<bool> Runtime::write_away(ThreadState& thread, GlobalAddress guard, GlobalAddress address,
                                 wire::GuardedWrite& write, std::uint32_t bytes) {
  const detail::Line& line = *detail::find_line(lines_->table(), guard.bits());
  const std::uint64_t guard_at = guard.bits() & (line_bytes_at(guard) - 1);
  const bool fits = guard_at / 8 <= wire::SmallWrite::kMaxGuard &&
                    guard.offset() / options_.line_bytes <= std::numeric_limits<std::uint32_t>::max();
  if (!fits || line.here.load(std::memory_order_relaxed)) return Status(Errc::kRefused, "the line is here");
  Task task(coherence::OpKind::kWriteAway, Action::kWriteIf, address, bytes, reinterpret_cast<std::byte*>(&write),
            &thread);
  task.operand = guard_at;
  if (const Status status = check_home(guard); !status.ok()) return status;
  const Status status = run(thread, task);
  if (status.ok()) return task.value != 0;
  if (status.code() == Errc::kRefused) return status;
  return Status(Errc::kInDoubt, kNotTold, status.node());
}

/// The same where there is a log: by a call that its home does once, however often it is asked.
Result<bool> Runtime::write_away_logged(GlobalAddress guard, GlobalAddress address, const wire::GuardedWrite& write,
                                        std::uint32_t bytes) {
  const detail::Line& line = *detail::find_line(lines_->table(), guard.bits());
  if (line.here.load(std::memory_order_relaxed)) return Status(Errc::kRefused, "the line is here");
  if (const Status status = check_home(guard); !status.ok()) return status;
  Call request;
  request.write = &write;
  const auto offset = std::uint32_t(address.bits() & (line_bytes_at(guard) - 1));
  const std::uint64_t place = wire::pack(wire::GuardedPlace{guard.offset() / 8, offset, bytes});
  if (const Status status = call(guard.node(), wire::Kind::kWriteIf, place, request); !status.ok()) {
    return Status(Errc::kInDoubt, kNotTold, status.node());
  }
  if (request.value == wire::kWriteIfRefused)
    return Status(Errc::kRefused, "the home does not have the line for itself");
  if (request.value == wire::kWriteIfFailed)
    return Status(Errc::kStorage, "the log of the line's home cannot be written", guard.node());
  return request.value == wire::kWriteIfDone;
}

/// Receive WriteIf: it is done if a thread of this node could do it right now. One that comes again, because this node
/// had died before its answer went out, is answered as it was then.
void Runtime::handle_write_if(const wire::Message& message, NodeId from) {
  if (journal_ == nullptr) return cut_off(from, "it asks for a logged write, and there is no log");
  const wire::GuardedPlace place = wire::guarded_place(message.argument);
  const GlobalAddress guard = GlobalAddress::make(self_, place.guard * 8);
  if (place.guard >= segment_.memory_bytes() / 8) return cut_off(from, "a guard beyond the home's memory");
  const std::uint64_t line_bytes = line_bytes_at(guard);
  const GlobalAddress at = GlobalAddress(guard.bits() & ~(line_bytes - 1)) + std::int64_t(place.offset);
  if (place.offset >= line_bytes || !check_guarded(guard, at, place.bytes, line_bytes).ok()) {
    return cut_off(from, "a guarded write that makes no sense");
  }
  const Caller caller{from, message.line};
  wire::Message reply;
  reply.kind = wire::Kind::kWriteIfReply;
  reply.line = message.line;
  reply.argument = wire::kWriteIfRefused;
  if (answered_.contains(caller)) {
    reply.argument = wire::kWriteIfDone;
  } else {
    const LineRef ref = lines_->ref(guard);
    // What lies between guard and bytes is logged with them; who asks gets the line where that is much.
    const std::uint64_t apart = guard < at ? std::uint64_t(at - guard) : std::uint64_t(guard - at);
    if (apart <= kMaxCallBytes && protocol_.may_write_for(ref)) {
      const auto write = std::bit_cast<wire::GuardedWrite>(message.slots);
      reply.argument = write_if_for(caller, guard, at, write, place.bytes);
    }
    protocol_.wrote_for(ref);
  }
  answer_call(from, reply);
}

}  // namespace atoll::runtime
