// The templates of Runtime: waiting, and writes that the log has first. Included by runtime.hpp alone.
#pragma once

#include "runtime/runtime.hpp"

namespace atoll::runtime {

template <typename Write>
Result<bool> Runtime::hit_logged(ThreadState& thread, GlobalAddress address, Write write) {
  detail::Line& line = *detail::find_line(lines_->table(), address.bits());
  while (true) {
    Errc code = Errc::kOk;
    const bool hit = detail::write_line(*thread.slot, line, address, [&](std::byte*) { code = write(line); });
    if (!hit || code == Errc::kOk) return hit;
    if (code != Errc::kStorageFull) return Status(code, "the log cannot be written any more", self_);
    if (const Status status = wait_for_log(thread); !status.ok()) return status;
  }
}

template <typename Done>
Status Runtime::wait(ThreadState& thread, NodeId on, Clock::time_point deadline, Done done) {
  if (done()) return {};
  base::Backoff backoff(host_, options_.spin_ns, options_.yield_us, thread.waiting);
  const Present waiter(waiters_);
  while (!done()) {
    // Now and then without a reason: lines that wait for a slot, messages that wait for room.
    const bool settled = durable_moved_.load(std::memory_order_relaxed);
    if ((settled || fabric_->maybe_pending() || backoff.looked() || are_pages_under_way()) && mutex_.try_lock()) {
      drives_.fetch_add(1, std::memory_order_relaxed);
      progress();
      mutex_.unlock();
      if (done()) return {};
    }
    const bool awake = backoff.pause();
    if (!backoff.looked()) continue;
    if (const Status status = why_to_give_up(on, backoff, deadline); !status.ok()) {
      return done() ? Status() : status;
    }
    if (awake) continue;
    const std::uint32_t ticket = thread.bell.load(std::memory_order_acquire);
    ATOLL_POINT();
    thread.sleeping.store(1, std::memory_order_seq_cst);
    {
      const Present sleeper(sleepers_);
      if (!done() || ATOLL_FAULT(slept_without_second_look))
        host_.wait(thread.bell, ticket, kSleepSlice_us, base::FutexScope::kProcess);
    }
    thread.sleeping.store(0, std::memory_order_seq_cst);
  }
  return {};
}

}  // namespace atoll::runtime
