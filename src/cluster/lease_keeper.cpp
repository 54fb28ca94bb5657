#include "cluster/lease_keeper.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace atoll::cluster {

bool LeaseKeeper::connected(Term term, LeaseTime now) noexcept {
  if (!lease_.connected(term)) return false;
  report_at_ = now;
  return true;
}

std::optional<Report> LeaseKeeper::due_report(LeaseTime now) {
  if (!report_at_ || now < *report_at_) return std::nullopt;
  if (lease_.state() == LeaseState::kJoining) {
    report_at_ = now + retry_;  // others report at the same time: what was asked for is there in a moment
    retry_ = std::min(2 * retry_, times_.report_every);
  } else {
    report_at_ = now + times_.report_every;
  }
  Report report = lease_.report(now, {unreachable_.begin(), unreachable_.end()});
  settle(now);
  return report;
}

void LeaseKeeper::on_answer(const Answer& answer, LeaseTime now) {
  const Epoch before = lease_.epoch();
  lease_.on_answer(answer, now);
  if (lease_.epoch().number != before.number) {
    retry_ = kFirstRetry;
    if (report_at_) report_at_ = now;  // a newcomer may wait to hear that this node has the epoch
  }
  if (!fenced()) tell_changes(before);  // one that is out knows nothing of the others any more
  settle(now);
}

void LeaseKeeper::tell_changes(const Epoch& before) {
  using Kind = Notice::Kind;
  const Epoch& after = lease_.epoch();
  for (std::size_t k = 0; k < before.incarnations.size(); ++k) {
    const auto node = NodeId(k);
    const std::uint32_t was = before.incarnations[k], is = after.incarnations[k];
    if (was == is || node == lease_.node()) continue;
    if (was != 0) {
      const auto reason = reasons_.find(node);
      const std::string why = reason == reasons_.end() ? "the master declared it out" : reason->second;
      notices_.push_back({Kind::kDeath, told_, node, was, 0, why});
      unreachable_.erase(node);
    }
    if (is == 0) continue;
    notices_.push_back({Kind::kReturn, told_, node, is, after.since[k]});
    reasons_.erase(node);  // those of the process before it
  }
  for (const auto& [node, why] : given_up_) tell_given_up(node);
}

void LeaseKeeper::note_given_up(NodeId node, std::string why) {
  given_up_.try_emplace(node, std::move(why));
  tell_given_up(node);
}

/// Once, and when it is dead.
void LeaseKeeper::tell_given_up(NodeId node) {
  const Epoch& epoch = lease_.epoch();
  if (node >= epoch.incarnations.size() || epoch.incarnations[node] != 0) return;
  if (told_given_up_.insert(node).second) {
    notices_.push_back({Notice::Kind::kGivenUp, told_, node, 0, 0, given_up_.at(node)});
  }
}

void LeaseKeeper::master_ended(LeaseTime now) {
  lease_.master_ended(lease_.memory().obeyed, now);
  settle(now);
}

void LeaseKeeper::on_clock(LeaseTime now) {
  lease_.on_clock(now);
  settle(now);
}

/// Shows what came of a step.
void LeaseKeeper::settle(LeaseTime now) {
  Standing standing = told_;
  std::string why;
  switch (lease_.state()) {
    case LeaseState::kCount:
    case LeaseState::kJoining: return;
    case LeaseState::kActive:
    case LeaseState::kOrphaned: standing = Standing::kActive; break;
    case LeaseState::kSuspended:
      standing = Standing::kSuspended;
      why = fmt::format("no answer of the master for {:.1f} s", double(times_.node_lease) / 1e9);
      break;
    case LeaseState::kFenced: {
      standing = Standing::kFenced;
      const auto reason = reasons_.find(lease_.node());
      why = reason == reasons_.end() ? "the master declared it out" : reason->second;
      break;
    }
  }
  if (lease_.state() != LeaseState::kSuspended) {
    suspended_since_.reset();
  } else if (!suspended_since_) {
    suspended_since_ = now;
  }
  if (standing == told_) return;
  told_ = standing;
  notices_.push_back({Notice::Kind::kStanding, standing, kNoNode, 0, 0, std::move(why)});
}

LeaseTime LeaseKeeper::next_look() const noexcept {
  LeaseTime next = report_at_.value_or(std::numeric_limits<LeaseTime>::max());
  if (lease_.act_until() != kLongAgo) next = std::min(next, lease_.act_until());
  if (suspended_since_) next = std::min(next, *suspended_since_ + times_.orphan);
  return next;
}

bool LeaseKeeper::is_hopeless(LeaseTime now) const noexcept {
  return suspended_since_ && now - *suspended_since_ >= times_.orphan;
}

}  // namespace atoll::cluster
