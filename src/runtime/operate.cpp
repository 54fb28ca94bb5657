// Operands: how they are combined here, and how their homes take them.
#include "base/check.hpp"
#include "runtime/runtime.hpp"

namespace atoll::runtime {

using detail::Line;

Result<std::uint8_t> Runtime::register_operator(std::string_view name, const OperatorInfo& info) {
  return operators_.add(name, info);
}

Status Runtime::apply(GlobalAddress address, std::uint8_t number, std::size_t bytes, std::uint64_t operand,
                      Consistency consistency) {
  if (const Status status = check_range(address, bytes); !status.ok()) return status;
  const OperatorInfo* const info = operators_.find(number);
  if (info == nullptr) return {Errc::kNotFound, "no such operator is registered here"};
  if (info->bytes != bytes) return {Errc::kInvalidArgument, "the operator is for values of another size"};
  if (address.offset() % bytes != 0)
    return {Errc::kInvalidArgument, "an operand's address must be aligned to its size"};
  ThreadState& thread = threads_.current();
  if (consistency == Consistency::kDefault) consistency = options_.consistency;
  if (consistency != Consistency::kPso) {  // not before what this thread wrote with less order
    if (const Status status = fence_writes(thread); !status.ok()) return status;
  }
  const Line& line = *detail::find_line(lines_->table(), address.bits());
  const bool hit =
      detail::operate_line(*thread.slot, line, address, number, [&](std::byte* at) { info->apply(at, operand); });
  if (hit) {
    count_write_hit(thread, address);
  } else {
    const auto* const from = reinterpret_cast<const std::byte*>(&operand);
    const Status status = write_missed(thread, address, from, std::uint32_t(bytes), consistency, number);
    if (!status.ok()) return status;
  }
  if (consistency == Consistency::kSc) std::atomic_thread_fence(std::memory_order_seq_cst);
  return !hit && consistency != Consistency::kPso ? fence() : Status();
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
  info->merge(ref.hot.byte_at(ref.address), fabric_->read_slot(message.from, message.slot), ref.bytes);
  counters_->merges.add();
}

}  // namespace atoll::runtime
