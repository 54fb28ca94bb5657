#include "cluster/lease.hpp"

namespace atoll::cluster {

std::string_view to_string(LeaseState state) noexcept {
  switch (state) {
    case LeaseState::kJoining: return "Joining";
    case LeaseState::kActive: return "Active";
    case LeaseState::kOrphaned: return "Orphaned";
    case LeaseState::kSuspended: return "Suspended";
    case LeaseState::kFenced: return "Fenced";
    case LeaseState::kCount: break;
  }
  return "unknown";
}

std::string_view to_string(LeaseEvent event) noexcept {
  switch (event) {
    case LeaseEvent::kRenewed: return "Renewed";
    case LeaseEvent::kHeld: return "Held";
    case LeaseEvent::kRanOut: return "RanOut";
    case LeaseEvent::kMasterEnded: return "MasterEnded";
    case LeaseEvent::kDeclaredOut: return "DeclaredOut";
    case LeaseEvent::kCount: break;
  }
  return "unknown";
}

std::string_view to_string(LeaseAction action) noexcept {
  switch (action) {
    case LeaseAction::kNone: return "-";
    case LeaseAction::kRenew: return "renew";
    case LeaseAction::kExtend: return "extend";
    case LeaseAction::kStop: return "stop";
  }
  return "unknown";
}

std::string_view to_string(LossReason reason) noexcept {
  switch (reason) {
    case LossReason::kSilent: return "its lease ran out: it is dead, hung or cut off";
    case LossReason::kEnded: return "its process has ended";
    case LossReason::kSuspended: return "it hears nothing of the master";
    case LossReason::kUnreachable: return "it and another node cannot reach each other";
  }
  return "unknown";
}

}  // namespace atoll::cluster
