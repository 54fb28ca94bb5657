// The pool of asynchronous writes.
#include "runtime/task.hpp"

namespace atoll::runtime {

/// Most writes are small: were their rooms powers of two apart, all would want the same few places of the processor's
/// cache.
static constexpr std::uint32_t kApart = 64;

WritePool::WritePool(std::uint32_t count, std::uint32_t room_bytes)
    : room_bytes_(room_bytes),
      payload_(std::make_unique_for_overwrite<std::byte[]>(std::size_t(count) * (room_bytes + kApart))) {
  for (std::uint32_t i = 0; i < count; ++i) {
    tasks_.push_back(std::make_unique<Task>(coherence::OpKind::kWrite, Action::kCopyIn, GlobalAddress(), 0,
                                            payload_.get() + std::size_t(i) * (room_bytes + kApart), nullptr));
    free_.push_back(tasks_.back().get());
  }
  free_count_.store(count, std::memory_order_relaxed);
}

Task* WritePool::take() noexcept {
  if (free_.empty()) return nullptr;
  Task* task = free_.back();
  free_.pop_back();
  task->asynchronous = true;
  free_count_.store(std::uint32_t(free_.size()), std::memory_order_relaxed);
  return task;
}

void WritePool::give_back(Task& task) noexcept {
  task.asynchronous = false;
  free_.push_back(&task);
  free_count_.store(std::uint32_t(free_.size()), std::memory_order_relaxed);
}

}  // namespace atoll::runtime
