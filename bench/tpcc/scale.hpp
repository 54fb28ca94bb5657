// How large TPC-C's tables are (clause 1.2.1), and whose warehouses are whose.
#pragma once

#include <cstdint>

#include "atoll/address.hpp"

namespace atoll::bench::tpcc {

inline constexpr std::uint32_t kMaxLines = 15;        // of an order
inline constexpr std::uint32_t kMinLines = 5;         //
inline constexpr std::uint32_t kLastNames = 1000;     // that there are
inline constexpr std::uint32_t kMostNamesakes = 127;  // customers of a district with one last name

/// Rows of one warehouse; all of the specification's unless a test wants fewer.
struct Scale {
  std::uint32_t districts = 10;
  std::uint32_t customers = 3000;   // of a district; each has one order to begin with
  std::uint32_t undelivered = 900;  // of these orders, the last ones
  std::uint32_t items = 100'000;    // of all warehouses together; each has a stock of each

  /// What runs in seconds.
  [[nodiscard]] static constexpr Scale small() noexcept { return {10, 120, 36, 1000}; }
  /// The customers of a district share so many last names.
  [[nodiscard]] constexpr std::uint32_t names() const noexcept {
    return customers < kLastNames ? customers : kLastNames;
  }
  /// Orders of a district that were delivered before anything runs.
  [[nodiscard]] constexpr std::uint32_t delivered() const noexcept { return customers - undelivered; }
  friend bool operator==(const Scale&, const Scale&) = default;
};

/// Warehouses 1 to `warehouses`, dealt to nodes in runs as equal as can be.
/// REQUIRES: nodes <= warehouses.
struct Homes {
  std::uint32_t warehouses = 1;
  NodeId nodes = 1;

  [[nodiscard]] constexpr NodeId of(std::uint32_t warehouse) const noexcept {
    return NodeId(std::uint64_t{warehouse - 1} * nodes / warehouses);
  }
  /// The first warehouse of a node; that of `nodes` is one behind the last.
  [[nodiscard]] constexpr std::uint32_t first(NodeId node) const noexcept {
    return std::uint32_t((std::uint64_t{node} * warehouses + nodes - 1) / nodes) + 1;
  }
  [[nodiscard]] constexpr std::uint32_t count(NodeId node) const noexcept {
    return first(NodeId(node + 1)) - first(node);
  }
};

}  // namespace atoll::bench::tpcc
