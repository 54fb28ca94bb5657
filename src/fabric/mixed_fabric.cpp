#include "fabric/mixed_fabric.hpp"

namespace atoll::fabric {

/// Shared memory first: to look there costs nanoseconds.
bool MixedFabric::poll(wire::Message& message, NodeId& from) {
  if (near_in_row_ < kNearInRow && shm_->poll(message, from)) {
    ++near_in_row_;
    return true;
  }
  near_in_row_ = 0;
  return ofi_->poll(message, from) || shm_->poll(message, from);
}

void MixedFabric::wait(std::uint32_t timeout_ms) noexcept {
  const bool near_quiet = shm_->begin_sleep();
  if (ofi_->begin_sleep() && near_quiet) {
    ofi_->sleep_until_event(timeout_ms, bell_.socket.get());
    bell_.silence();
  }
  ofi_->end_sleep();
  shm_->end_sleep();
}

}  // namespace atoll::fabric
