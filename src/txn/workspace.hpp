// The memory of one attempt of a transaction.
#pragma once

#include "atoll/detail/namespace.hpp"

#include <cstddef>
#include <cstring>
#include <memory_resource>
#include <span>

namespace atoll::txn {

/// What an attempt keeps until it is over: rows as it has them, and the containers around them. It is given back as a
/// whole. A thread keeps one buffer for all of its attempts, so that small transactions do not allocate at all.
///
/// Thread-safety: none; it ends on the thread that made it.
class Workspace {
 public:
  Workspace();
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  [[nodiscard]] std::pmr::memory_resource* memory() noexcept { return &memory_; }
  /// Aligned as words are; their values are what they happen to be.
  [[nodiscard]] std::span<std::byte> bytes(std::size_t count) {
    return {static_cast<std::byte*>(memory_.allocate(count, alignof(std::uint64_t))), count};
  }
  [[nodiscard]] std::span<std::byte> copy(std::span<const std::byte> from) {
    const std::span<std::byte> to = bytes(from.size());
    if (!from.empty()) std::memcpy(to.data(), from.data(), from.size());
    return to;
  }

 private:
  struct Buffer;
  static thread_local Buffer buffer;

  const bool has_buffer_;  // or another of this thread has it
  std::pmr::monotonic_buffer_resource memory_;
};

}  // namespace atoll::txn
