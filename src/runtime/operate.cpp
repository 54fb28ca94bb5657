// Operands: how they are combined here, and how their homes take them.
#include <cstring>
#include <utility>

#include "base/check.hpp"
#include "runtime/bytes.hpp"
#include "runtime/runtime.hpp"

namespace atoll::runtime {

using detail::Line;

namespace {

/// Is this a place where a value of the operator can be?
Status check_place(const OperatorInfo& info, std::uint64_t at, std::uint64_t line_bytes) noexcept {
  if (!info.is_wide()) {
    if (at % info.bytes == 0) return {};
    return {Errc::kInvalidArgument, "an operand's address must be aligned to its size"};
  }
  if (at + info.bytes > line_bytes) return {Errc::kInvalidArgument, "a value that is combined must lie in one line"};
  if (at % info.bytes == 0) return {};
  return {Errc::kInvalidArgument, "a value that is combined must lie at a multiple of its size from its line's begin"};
}

}  // namespace

Result<std::uint8_t> Runtime::register_operator(std::string_view name, OperatorInfo info) {
  return operators_.add(name, std::move(info));
}

/// Combines an operand with the value at `at`, as one step among all threads of the node, and for all who read more
/// than a word. REQUIRES: a hazard or the engine lock keeps the line here.
///
/// A wide value is written as others write more than a word, under the line's version. That is not to be had at a home
/// whose line others operate on too; but nobody reads or writes that, so it is enough to exclude those who combine.
/// Which of the two it is does not change as long as somebody combines: the line is taken from all threads before.
void Runtime::combine(NodeId home, Line& line, const OperatorInfo& info, std::byte* at,
                      const std::byte* operand) noexcept {
  if (!info.is_wide()) {
    std::uint64_t word = 0;
    std::memcpy(&word, operand, info.bytes);
    info.apply(at, word);
  } else if (ATOLL_FAULT(wide_operand_torn)) {
    info.apply_wide(at, operand);
  } else if (home == self_ && line.operation.load(std::memory_order_relaxed) != 0) {
    operand_locks_.lock(line);
    info.apply_wide(at, operand);
    operand_locks_.unlock(line);
  } else {
    coherence::begin_write(line);
    info.apply_wide(at, operand);
    coherence::end_write(line);
  }
}

Status Runtime::apply(GlobalAddress address, std::uint8_t number, const std::byte* operand, std::size_t bytes,
                      Consistency consistency) {
  if (const Status status = check_range(address, bytes); !status.ok()) return status;
  const OperatorInfo* const info = operators_.find(number);
  if (info == nullptr) return {Errc::kNotFound, "no such operator is registered here"};
  if (info->bytes != bytes) return {Errc::kInvalidArgument, "the operator is for values of another size"};
  const std::uint64_t line_bytes = line_bytes_at(address);
  if (const Status status = check_place(*info, address.offset() & (line_bytes - 1), line_bytes); !status.ok()) {
    return status;
  }
  ThreadState& thread = threads_.current();
  if (consistency == Consistency::kDefault) consistency = options_.consistency;
  if (consistency != Consistency::kPso) {  // not before what this thread wrote with less order
    if (const Status status = fence_writes(thread); !status.ok()) return status;
  }
  Result<bool> hit = false;
  if (journal_ == nullptr) {
    Line& line = *detail::find_line(lines_->table(), address.bits());
    hit = detail::operate_line(*thread.slot, line, address, number,
                               [&](std::byte* at) { combine(address.node(), line, *info, at, operand); });
  } else {
    hit = hit_logged(thread, address,
                     [&](Line& line) { return combine_logged(thread, false, line, address, *info, operand); });
    if (!hit.ok()) return hit.status();
  }
  if (*hit) {
    count_write_hit(thread, address);
  } else {
    const Status status = write_missed(thread, address, operand, std::uint32_t(bytes), consistency, number);
    if (!status.ok()) return status;
  }
  if (consistency == Consistency::kSc) std::atomic_thread_fence(std::memory_order_seq_cst);
  if (consistency == Consistency::kPso) return {};
  return *hit ? settle(thread) : fence();
}

void Runtime::clear_operands(const LineRef& ref) {
  const OperatorInfo* const info = operators_.find(ref.line->operation.load(std::memory_order_relaxed));
  ATOLL_CHECK(info != nullptr);
  if (!ATOLL_FAULT(operands_not_cleared)) info->clear(ref.hot.byte_at(ref.address), ref.bytes);
}

void Runtime::merge(const LineRef& ref, const coherence::Message& message) {
  const OperatorInfo* const info = operators_.find(ref.line->operation.load(std::memory_order_relaxed));
  ATOLL_CHECK(info != nullptr);
  if (ATOLL_FAULT(operands_dropped)) return;
  if (info->is_wide() && !ATOLL_FAULT(wide_merge_not_alone)) {
    // Threads here may be combining theirs, and when the last operands are in the version says that the line is whole:
    // by then nobody may be at it any more.
    ref.hot.set_access(0);
    if (ref.line->use != Line::kUnused) quiesce(ref);
    ref.line->use = Line::kUnused;
  }
  const std::byte* const operands = fabric_->read_slot(message.from, message.slot, ref.bytes);
  if (operands == nullptr) return cut_off(message.from, "it sent other operands than it said");
  info->merge(ref.hot.byte_at(ref.address), operands, ref.bytes);
  counters_->merges.add();
}

}  // namespace atoll::runtime
