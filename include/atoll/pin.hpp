// Pins: a chunk of an array as a plain span, for as long as the pin lives.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "atoll/node.hpp"

namespace atoll {

namespace detail {

/// A locked line of a chunk. Thread-safety: none; it is used and released by the thread that made it.
class PinnedLine {
 public:
  PinnedLine() noexcept = default;
  PinnedLine(Node& node, GlobalAddress address, std::uint64_t bytes, LockMode mode) noexcept
      : address_(address), bytes_(bytes) {
    const Result<std::byte*> got = node.pin(address, bytes, mode);
    status_ = got.status();
    if (!got.ok()) return;
    node_ = &node;
    data_ = *got;
  }
  explicit PinnedLine(Status why) noexcept : status_(why) {}
  PinnedLine(PinnedLine&& other) noexcept { *this = std::move(other); }
  PinnedLine& operator=(PinnedLine&& other) noexcept {
    if (this == &other) return *this;
    (void)release();
    node_ = std::exchange(other.node_, nullptr);
    address_ = other.address_;
    bytes_ = other.bytes_;
    data_ = std::exchange(other.data_, nullptr);
    status_ = other.status_;
    return *this;
  }
  ~PinnedLine() { (void)release(); }

  Status release() noexcept {
    if (node_ == nullptr) return {};
    data_ = nullptr;
    return std::exchange(node_, nullptr)->unlock(address_, bytes_);
  }
  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] Status status() const noexcept { return status_; }

 private:
  Node* node_ = nullptr;
  GlobalAddress address_;
  std::uint64_t bytes_ = 0;
  std::byte* data_ = nullptr;
  Status status_;
};

}  // namespace detail

/// A chunk that stays here as long as this lives: `span()` is all of its elements, as memory. T is const for reading:
/// others still read it then; a chunk pinned for writing is this node's alone. Whoever else wants it waits for the end
/// of the pin, so a thread that pins several chunks takes them in the order of their elements, as with locks.
///
/// Thread-safety: the pin belongs to the thread that made it; the span may be used by any thread while it lives.
/// Invariants:
///   1. If it could not be had, `status()` says why and `span()` is empty.
template <typename T>
class [[nodiscard]] Pin {
 public:
  Pin(detail::PinnedLine line, std::uint64_t first, std::uint64_t count) noexcept
      : line_(std::move(line)), first_(first), count_(line_.data() == nullptr ? 0 : count) {}

  [[nodiscard]] bool ok() const noexcept { return line_.status().ok(); }
  [[nodiscard]] Status status() const noexcept { return line_.status(); }
  [[nodiscard]] std::span<T> span() const noexcept { return {reinterpret_cast<T*>(line_.data()), count_}; }
  /// The numbers of its first element and of the one behind its last.
  [[nodiscard]] std::uint64_t first() const noexcept { return first_; }
  [[nodiscard]] std::uint64_t end() const noexcept { return first_ + count_; }
  /// Ends it before its time.
  Status release() noexcept {
    count_ = 0;
    return line_.release();
  }

 private:
  detail::PinnedLine line_;
  std::uint64_t first_;
  std::uint64_t count_;
};

/// Operands for a chunk, gathered by one thread: the span begins with the operator's identity everywhere, is combined
/// into by plain code, and goes to the array when the pin ends, element by element where something was changed. Nobody
/// waits for such a pin: the elements are the thread's own until then.
///
/// Thread-safety: belongs to the thread that made it.
template <typename T, typename Function>
class [[nodiscard]] OperatePin {
 public:
  OperatePin(Node& node, GlobalAddress address, std::uint64_t first, std::uint64_t count,
             const Operator<T, Function>& by, const T& identity, Status status)
      : node_(&node), address_(address), first_(first), by_(by), identity_(identity), status_(status) {
    if (status.ok()) operands_.assign(count, identity);
  }
  OperatePin(OperatePin&& other) noexcept = default;
  OperatePin& operator=(OperatePin&&) = delete;
  ~OperatePin() { (void)release(); }

  [[nodiscard]] bool ok() const noexcept { return status_.ok(); }
  [[nodiscard]] Status status() const noexcept { return status_; }
  [[nodiscard]] std::span<T> span() noexcept { return operands_; }
  [[nodiscard]] std::uint64_t first() const noexcept { return first_; }
  [[nodiscard]] std::uint64_t end() const noexcept { return first_ + operands_.size(); }
  /// Applies what was gathered. What the destructor does, with a status.
  Status release() noexcept {
    Status status;
    for (std::size_t k = 0; k < operands_.size(); ++k) {
      if (std::memcmp(&operands_[k], &identity_, sizeof(T)) == 0) continue;
      const global_ptr<T> at(address_ + std::int64_t(k * sizeof(T)));
      const Status one = node_->apply(at, by_, operands_[k], Consistency::kPso);
      if (status.ok()) status = one;
    }
    operands_.clear();
    return status;
  }

 private:
  Node* node_;
  GlobalAddress address_;
  std::uint64_t first_;
  Operator<T, Function> by_;
  T identity_;
  Status status_;
  std::vector<T> operands_;
};

}  // namespace atoll
