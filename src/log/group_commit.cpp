#include "log/group_commit.hpp"

#include <utility>

namespace atoll::log {
namespace {

constexpr std::uint64_t kLookAgainUs = 1'000'000;  // nobody relies on it

}  // namespace

GroupCommit::GroupCommit(Log& log, base::Host& host, OnDurable on_durable)
    : log_(log), host_(host), on_durable_(std::move(on_durable)), wanted_(log.durable()) {
  thread_ = host_.start([this] { run(); });
}

GroupCommit::~GroupCommit() {
  over_ = true;
  ++requests_;
  host_.wake(requests_, base::FutexScope::kProcess);
  thread_.reset();
}

void GroupCommit::request() noexcept {
  const Sequence last = log_.last();
  Sequence old = wanted_.load(std::memory_order_relaxed);
  while (old < last && !wanted_.compare_exchange_weak(old, last)) {
  }
  // Sequentially consistent, as in sleep(): one of the two sees the other.
  requests_.fetch_add(1);
  if (sleeping_.load() != 0) host_.wake(requests_, base::FutexScope::kProcess);
}

Status GroupCommit::wait(Sequence sequence) {
  while (true) {
    const std::uint32_t seen = rounds_.load();
    if (log_.is_durable(sequence)) return {};
    if (const Status status = log_.health(); !status.ok()) return status;
    request();
    ++waiting_;
    host_.wait(rounds_, seen, kLookAgainUs, base::FutexScope::kProcess);
    --waiting_;
  }
}

void GroupCommit::sleep() {
  const std::uint32_t seen = requests_.load();
  sleeping_.store(1);
  if (requests_.load() == seen && log_.durable() >= wanted_.load() && !over_.load()) {
    host_.wait(requests_, seen, kLookAgainUs, base::FutexScope::kProcess);
  }
  sleeping_.store(0);
}

void GroupCommit::run() {
  while (true) {
    if (log_.durable() >= wanted_.load()) {
      if (over_.load()) return;
      sleep();
      continue;
    }
    const Sequence before = log_.durable();
    const Status status = log_.sync();
    const Sequence durable = log_.durable();
    on_durable_(durable, status);
    rounds_.fetch_add(1);
    for (std::uint32_t k = waiting_.load(); k > 0; --k) host_.wake(rounds_, base::FutexScope::kProcess);
    if (!status.ok()) return;
    if (durable == before) host_.yield();  // an append is under way that was begun before
  }
}

}  // namespace atoll::log
