// Global addresses: where a byte lives in the memory of all nodes.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "atoll/status.hpp"

namespace atoll {

/// 64 bits: kind (8) | node (16) | offset (40). The value 0 is null; no allocation starts at offset 0.
///
/// The node stands right above the offset, so that an address, shifted, is an index into one table for the lines of all
/// nodes; see docs/architecture.md, "The hit path".
class GlobalAddress {
 public:
  static constexpr unsigned kOffsetBits = 40;  // a terabyte per node
  static constexpr unsigned kNodeShift = kOffsetBits;
  static constexpr unsigned kKindShift = 56;
  static constexpr std::uint64_t kOffsetMask = (std::uint64_t{1} << kOffsetBits) - 1;
  enum class Kind : std::uint8_t { kMemory = 0, kFile = 1 };

  constexpr GlobalAddress() noexcept = default;
  constexpr explicit GlobalAddress(std::uint64_t bits) noexcept : bits_(bits) {}
  static constexpr GlobalAddress make(NodeId node, std::uint64_t offset, Kind kind = Kind::kMemory) noexcept {
    return GlobalAddress((std::uint64_t(kind) << kKindShift) | (std::uint64_t{node} << kNodeShift) |
                         (offset & kOffsetMask));
  }

  [[nodiscard]] constexpr std::uint64_t bits() const noexcept { return bits_; }
  [[nodiscard]] constexpr NodeId node() const noexcept { return NodeId(bits_ >> kNodeShift); }
  [[nodiscard]] constexpr Kind kind() const noexcept { return Kind(bits_ >> kKindShift); }
  [[nodiscard]] constexpr std::uint64_t offset() const noexcept { return bits_ & kOffsetMask; }
  constexpr explicit operator bool() const noexcept { return bits_ != 0; }

  constexpr GlobalAddress& operator+=(std::int64_t bytes) noexcept {
    bits_ += std::uint64_t(bytes);
    return *this;
  }
  friend constexpr GlobalAddress operator+(GlobalAddress a, std::int64_t bytes) noexcept { return a += bytes; }
  friend constexpr GlobalAddress operator-(GlobalAddress a, std::int64_t bytes) noexcept { return a += -bytes; }
  friend constexpr std::int64_t operator-(GlobalAddress a, GlobalAddress b) noexcept {
    return std::int64_t(a.bits_ - b.bits_);
  }
  friend constexpr auto operator<=>(GlobalAddress, GlobalAddress) noexcept = default;

  /// "2:0x1a40" (node and offset), "null", or "2:file:0x10".
  [[nodiscard]] std::string to_string() const;

 private:
  std::uint64_t bits_ = 0;
};

/// A typed global address. It can be stored in global memory itself and sent anywhere.
template <typename T>
class global_ptr {
 public:
  using element_type = T;
  constexpr global_ptr() noexcept = default;
  constexpr global_ptr(std::nullptr_t) noexcept {}
  constexpr explicit global_ptr(GlobalAddress address) noexcept : address_(address) {}

  [[nodiscard]] constexpr GlobalAddress address() const noexcept { return address_; }
  [[nodiscard]] constexpr NodeId node() const noexcept { return address_.node(); }
  constexpr explicit operator bool() const noexcept { return bool(address_); }

  friend constexpr global_ptr operator+(global_ptr p, std::int64_t n) noexcept {
    return global_ptr(p.address_ + n * std::int64_t(sizeof(T)));
  }
  friend constexpr global_ptr operator-(global_ptr p, std::int64_t n) noexcept { return p + -n; }
  friend constexpr std::int64_t operator-(global_ptr a, global_ptr b) noexcept {
    return (a.address_ - b.address_) / std::int64_t(sizeof(T));
  }
  constexpr global_ptr& operator+=(std::int64_t n) noexcept { return *this = *this + n; }
  constexpr global_ptr& operator++() noexcept { return *this += 1; }
  friend constexpr auto operator<=>(global_ptr, global_ptr) noexcept = default;

 private:
  GlobalAddress address_;
};

}  // namespace atoll

template <>
struct std::hash<atoll::GlobalAddress> {
  std::size_t operator()(atoll::GlobalAddress a) const noexcept { return std::hash<std::uint64_t>{}(a.bits()); }
};
