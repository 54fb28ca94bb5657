#include "memory/page_joiner.hpp"

#include <utility>

namespace atoll::memory {

namespace {
constexpr std::uint64_t kLongSleep_us = 60'000'000;
}

PageJoiner::~PageJoiner() {
  stopping_.store(true, std::memory_order_release);
  bell_.fetch_add(1, std::memory_order_release);
  host_.wake(bell_, base::FutexScope::kProcess);
  std::unique_ptr<base::Host::Thread> thread;
  {
    const base::MutexLock lock(mutex_);
    thread = std::move(thread_);
  }
  thread.reset();
}

void PageJoiner::want(const std::byte* begin, std::uint64_t bytes) {
  if (!host_.work_takes_time()) return make_(begin, bytes);
  {
    const base::MutexLock lock(mutex_);
    if (wanted_.size() >= kMostParts) return;
    wanted_.push_back({begin, bytes});
    if (!thread_) thread_ = host_.start([this] { run(); });
  }
  bell_.fetch_add(1, std::memory_order_release);
  host_.wake(bell_, base::FutexScope::kProcess);
}

void PageJoiner::run() {
  while (!stopping_.load(std::memory_order_acquire)) {
    const std::uint32_t ticket = bell_.load(std::memory_order_acquire);
    Part part;
    if (take(part)) {
      make_(part.begin, part.bytes);
    } else {
      host_.wait(bell_, ticket, kLongSleep_us, base::FutexScope::kProcess);
    }
  }
}

/// The latest first: it is what is about to be used.
bool PageJoiner::take(Part& part) {
  const base::MutexLock lock(mutex_);
  if (wanted_.empty()) return false;
  part = wanted_.back();
  wanted_.pop_back();
  return true;
}

}  // namespace atoll::memory
