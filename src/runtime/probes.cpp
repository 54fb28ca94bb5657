// Do the peers hear this node? Where nothing is heard after something was sent, it asks; who does not answer is named
// to the master, which decides (docs/membership.md). A network may lose what two nodes send each other, and nothing
// else.
#include <algorithm>

#include "base/log.hpp"
#include "runtime/runtime.hpp"

namespace atoll::runtime {
namespace {

constexpr std::int64_t kLooksPerLease = 10;  // and nobody is asked more often
constexpr std::int64_t kProbeAfter = 5;      // a fifth of a lease without a word: ask
constexpr std::int64_t kComplainAfter = 2;   // half a lease: tell the master, which waits for one more
constexpr std::int64_t kSlowestLook_ns = 1'000'000'000;

}  // namespace

/// The service thread's, now and then. `looked_ns`: when it did so last.
void Runtime::look_at_peers(std::int64_t& looked_ns) {
  const std::int64_t lease = membership_->lease().count();
  if (lease == 0) return;
  const std::int64_t now = host_.coarse_ns();
  if (now - looked_ns < std::min(lease / kLooksPerLease, kSlowestLook_ns) || !mutex_.try_lock()) return;
  looked_ns = now;
  (void)progress();  // what has come counts
  if (refresh_right() && !is_over()) {
    for (NodeId peer = 0; peer < nodes_; ++peer) {
      if (peer != self_ && !is_dead(peer) && reach_[peer].unanswered_since != 0) look_at_peer(peer);
    }
    flush();
  }
  mutex_.unlock();
}

void Runtime::look_at_peer(NodeId peer) {
  const std::int64_t lease = membership_->lease().count();
  Reach& reach = reach_[peer];
  const std::int64_t silent = now_ns_ - reach.unanswered_since;
  if (silent < std::min(lease / kProbeAfter, kSlowestLook_ns)) return;
  if (now_ns_ - reach.probed_at >= std::min(lease / kLooksPerLease, kSlowestLook_ns)) {
    reach.probed_at = now_ns_;
    wire::Message probe;
    probe.kind = wire::Kind::kProbe;
    call_home(peer, probe);
  }
  if (silent < lease / kComplainAfter || reach.complained) return;
  reach.complained = membership_->set_reachable(peer, false);
  spdlog::warn("node {} does not answer node {}", peer, self_);
}

/// A node that reads no messages, because there is no room in its log for what they would make of it, is alive: it says
/// so unasked, and finds nobody silent.
void Runtime::tell_alive() {
  const std::int64_t lease = membership_->lease().count();
  if (lease == 0) return;
  for (Reach& reach : reach_) reach.unanswered_since = 0;
  if (now_ns_ - told_alive_ns_ < std::min(lease / kLooksPerLease, kSlowestLook_ns)) return;
  told_alive_ns_ = now_ns_;
  for (NodeId peer = 0; peer < nodes_; ++peer) {
    if (peer != self_ && !is_dead(peer)) handle_probe(peer);
  }
}

void Runtime::be_reconciled(NodeId peer) noexcept {
  reach_[peer].complained = false;
  (void)membership_->set_reachable(peer, true);
  spdlog::info("node {} answers node {} again", peer, self_);
}

void Runtime::handle_probe(NodeId from) {
  wire::Message answer;
  answer.kind = wire::Kind::kProbeAnswer;
  call_home(from, answer);
}

}  // namespace atoll::runtime
