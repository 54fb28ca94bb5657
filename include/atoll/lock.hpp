// Locks as objects: GlobalMutex and GlobalSharedMutex fit std::unique_lock, std::shared_lock,
// std::scoped_lock and std::lock; ReadGuard and WriteGuard hold a range for a scope.
#pragma once

#include <cstdint>

#include "atoll/node.hpp"

namespace atoll {

/// A range of global memory as a lockable of the standard: lock, try_lock, lock_shared and so on.
///
/// Thread-safety: as std::shared_mutex. Not copyable by accident: it is a view of a node and a range.
/// lock() throws Error when the lock cannot be had (a node died), as the standard's mutexes do.
class GlobalMutex {
 public:
  GlobalMutex(Node& node, GlobalAddress address, std::uint64_t bytes) noexcept
      : node_(&node), address_(address), bytes_(bytes) {}
  template <typename T>
  GlobalMutex(Node& node, global_ptr<T> p, std::uint64_t count = 1) noexcept
      : GlobalMutex(node, p.address(), count * sizeof(T)) {}

  void lock() { node_->write_lock(address_, bytes_).or_throw(); }
  [[nodiscard]] bool try_lock() { return tried(node_->try_write_lock(address_, bytes_)); }
  void unlock() { node_->unlock(address_, bytes_).or_throw(); }
  void lock_shared() { node_->read_lock(address_, bytes_).or_throw(); }
  [[nodiscard]] bool try_lock_shared() { return tried(node_->try_read_lock(address_, bytes_)); }
  void unlock_shared() { unlock(); }

 private:
  static bool tried(Status status) {
    if (status.code() != Errc::kRefused) status.or_throw();
    return status.ok();
  }

  Node* node_;
  GlobalAddress address_;
  std::uint64_t bytes_;
};

/// Holds a range from construction to the end of the scope. `status()` says whether it was had.
template <LockMode Mode>
class [[nodiscard]] RangeGuard {
 public:
  RangeGuard(Node& node, GlobalAddress address, std::uint64_t bytes) noexcept
      : node_(&node),
        address_(address),
        bytes_(bytes),
        status_(Mode == LockMode::kWrite ? node.write_lock(address, bytes) : node.read_lock(address, bytes)) {}
  template <typename T>
  RangeGuard(Node& node, global_ptr<T> p, std::uint64_t count = 1) noexcept
      : RangeGuard(node, p.address(), count * sizeof(T)) {}
  ~RangeGuard() {
    if (status_.ok()) (void)node_->unlock(address_, bytes_);
  }
  RangeGuard(const RangeGuard&) = delete;
  RangeGuard& operator=(const RangeGuard&) = delete;

  [[nodiscard]] Status status() const noexcept { return status_; }

 private:
  Node* node_;
  GlobalAddress address_;
  std::uint64_t bytes_;
  Status status_;
};
using ReadGuard = RangeGuard<LockMode::kRead>;
using WriteGuard = RangeGuard<LockMode::kWrite>;

}  // namespace atoll
