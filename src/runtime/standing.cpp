// What a node may do while its lease runs, while it does not know, and after it was declared out (docs/membership.md).
#include <utility>

#include "base/log.hpp"
#include "runtime/runtime.hpp"

namespace atoll::runtime {

using cluster::Standing;
using detail::Line;

namespace {
constexpr std::size_t kHiddenAtOnce = 1024;  // lines that one barrier serves
}

void Runtime::enter() {
  mutex_.lock();
  while (!refresh_right() && !is_over()) {
    mutex_.unlock();
    (void)wait(threads_.current(), kNoNode, Clock::time_point::max(), [this] { return may_act() || is_over(); });
    mutex_.lock();
  }
}

Status Runtime::why_over() const noexcept {
  switch (over_.load(std::memory_order_acquire)) {
    case Over::kNot: return {};
    case Over::kFenced: return {Errc::kFenced, "this node was declared out, and the others went on without it", self_};
    case Over::kMasterLost: return {Errc::kClusterDown, "the master is gone"};
    case Over::kLogLost: return {Errc::kStorage, "the log of this node cannot be written any more", self_};
  }
  return {};
}

void Runtime::on_standing(Standing standing, const std::string& why) {
  switch (standing) {
    case Standing::kActive: break;
    case Standing::kSuspended: {
      spdlog::warn("node {} suspends itself: {}", self_, why);
      base::MutexLock lock(mutex_);
      if (fabric_ != nullptr) hide_copies();  // else it has none yet
      return;
    }
    case Standing::kFenced: spdlog::error("node {} is fenced: {}", self_, why); return end(Over::kFenced);
  }
  notify_all();
  base::MutexLock lock(mutex_);
  if (fabric_ == nullptr) return;
  for (Reach& peer : reach_) peer.unanswered_since = 0;  // nothing was looked at: nobody is late
  clean_up();
  fabric_->wake_self();  // what came meanwhile has not been looked at
}

/// What dead nodes had here is taken from them. Others are told, so it is done within the lease.
void Runtime::clean_up() {
  if (!may_act() || is_over()) return;
  for (const NodeId dead : std::exchange(to_clean_, {})) {
    drop_locks_of(dead);
    if (journal_ != nullptr) mourn(dead);
  }
  for (const NodeId back : std::exchange(to_report_, {})) take_up(back);
  flush();
}

/// Nothing of this node gets out from here on, and every call says why.
void Runtime::end(Over why) {
  {
    base::MutexLock lock(mutex_);
    if (over_.load(std::memory_order_relaxed) != Over::kLogLost) over_.store(why, std::memory_order_release);
    if (fabric_ != nullptr) be_silent();
  }
  notify_all();
}

void Runtime::be_silent() {
  for (NodeId node = 0; node < nodes_; ++node) {
    if (node != self_) fabric_->forget(node);
  }
  hide_copies();
  hide_homes();
}

/// Copies of others' lines: they may be given to somebody else while this node does not know of it. Threads that ask
/// for them come to the engine, and wait there.
void Runtime::hide_copies() {
  std::vector<LineRef> lines;
  for (std::uint32_t slot = 0; slot < slots_->size(); ++slot) {
    const GlobalAddress address = slots_->occupant(slot);
    if (address) hide(lines_->ref(address), lines);
  }
  if (!lines.empty()) quiesce_all(lines);
}

/// A node that is out has nothing to do with its own memory either.
void Runtime::hide_homes() {
  std::vector<LineRef> lines;
  lines_->for_each_own([&](const LineRef& ref) ATOLL_NO_THREAD_SAFETY_ANALYSIS { hide(ref, lines); });
  if (!lines.empty()) quiesce_all(lines);
}

void Runtime::hide(const LineRef& ref, std::vector<LineRef>& lines) {
  if (ref.hot.access() == 0 && ref.line->use == Line::kUnused) return;
  ref.hot.set_access(0);
  lines.push_back(ref);
  if (lines.size() < kHiddenAtOnce) return;
  quiesce_all(lines);
  lines.clear();
}

}  // namespace atoll::runtime
