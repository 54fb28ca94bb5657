// What a call of the data path answers: a code, the node concerned, and a sentence for the reader.
//
// Set-up (join) throws atoll::Error; everything after it returns Status or Result and never throws.
#pragma once

#include "atoll/detail/namespace.hpp"

#include <cstdint>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace atoll {

using NodeId = std::uint16_t;
inline constexpr NodeId kNoNode = 0xffff;

enum class Errc : std::uint8_t {
  kOk,
  kInvalidArgument,  // the call makes no sense as written
  kNullAddress,      // address 0
  kBadAddress,       // no such node, or beyond the memory that the node brought
  kNotAllocated,     // free of an address that no allocation starts at
  kOutOfMemory,      // no node can give that much
  kCacheFull,        // every cache slot is held by a lock
  kNotHeld,          // unlock of what this thread did not lock
  kWouldDeadlock,    // this thread already holds a lock that excludes the one asked for
  kRefused,          // a try-lock that somebody else's lock excludes
  kDeadline,         // the time given was over
  kNodeDied,         // a node that the call needed is gone
  kInDoubt,          // a node died before it could say whether it has done what it was asked for
  kClusterDown,      // the cluster is being taken down
  kNotFound,         // no such name
  kAlreadyExists,    // the name is taken
  kFenced,           // this node was declared out: the others went on without it
  kStorage,          // the disk failed, or what it holds is damaged
  kStorageFull,      // no space on the disk, or in the log
};

[[nodiscard]] const char* to_string(Errc code) noexcept;

/// The result of an operation. Small, trivially copyable; `what()` is a static string.
class [[nodiscard]] Status {
 public:
  constexpr Status() noexcept = default;
  constexpr Status(Errc code, const char* what = "", NodeId node = kNoNode) noexcept
      : what_(what), node_(node), code_(code) {}

  [[nodiscard]] constexpr bool ok() const noexcept { return code_ == Errc::kOk; }
  constexpr explicit operator bool() const noexcept { return ok(); }
  [[nodiscard]] constexpr Errc code() const noexcept { return code_; }
  /// The node that the error is about, or kNoNode.
  [[nodiscard]] constexpr NodeId node() const noexcept { return node_; }
  [[nodiscard]] constexpr const char* what() const noexcept { return what_; }
  /// One line for a log: code, node, and what to do.
  [[nodiscard]] std::string to_string() const;
  /// Throws Error when this is not ok.
  void or_throw() const;

 private:
  const char* what_ = "";
  NodeId node_ = kNoNode;
  Errc code_ = Errc::kOk;
};

/// Thrown by set-up, and by `value()` and `or_throw()` on an error.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& what, Errc code = Errc::kInvalidArgument) : std::runtime_error(what), code_(code) {}
  explicit Error(const Status& status) : std::runtime_error(status.to_string()), code_(status.code()) {}
  [[nodiscard]] Errc code() const noexcept { return code_; }

 private:
  Errc code_;
};

/// A value or the Status that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  static_assert(std::is_trivially_copyable_v<T> || std::is_nothrow_move_constructible_v<T>);
  constexpr Result(T value) noexcept : value_(std::move(value)) {}
  /// The value is made in its place: large ones are not moved.
  template <typename... Args>
  constexpr explicit Result(std::in_place_t, Args&&... args) noexcept : value_(std::forward<Args>(args)...) {}
  constexpr Result(Status status) noexcept : status_(status) {}
  constexpr Result(Errc code, const char* what = "", NodeId node = kNoNode) noexcept : status_(code, what, node) {}

  [[nodiscard]] constexpr bool ok() const noexcept { return status_.ok(); }
  constexpr explicit operator bool() const noexcept { return ok(); }
  [[nodiscard]] constexpr Status status() const noexcept { return status_; }
  /// The value; throws Error when there is none.
  [[nodiscard]] const T& value() const& {
    if (!ok()) [[unlikely]]
      status_.or_throw();
    return value_;
  }
  [[nodiscard]] T value() && {
    if (!ok()) [[unlikely]]
      status_.or_throw();
    return std::move(value_);
  }
  /// REQUIRES: ok().
  [[nodiscard]] constexpr const T& operator*() const noexcept { return value_; }
  [[nodiscard]] constexpr const T* operator->() const noexcept { return &value_; }
  [[nodiscard]] constexpr T value_or(T other) const noexcept { return ok() ? value_ : other; }

 private:
  T value_{};
  Status status_{};
};

}  // namespace atoll
