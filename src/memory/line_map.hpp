// From an address to its line: a sparse table per home, reserved once, touched only where it is used.
#pragma once

#include <cstdint>
#include <vector>

#include "atoll/detail/hit.hpp"
#include "atoll/detail/line.hpp"
#include "coherence/types.hpp"

namespace atoll::memory {

/// Thread-safety: `table` may be used by any thread; `ref` and what it makes belong to the engine lock.
/// Invariants:
///   1. A line of this node's own memory has data and a directory entry from its first `ref` on.
///   2. A line of another node has data if and only if it has a cache slot.
class LineMap {
 public:
  /// What the map must know of each node, in the order of their ids.
  struct Extent {
    std::uint64_t memory_bytes = 0;
  };
  /// `memory` and `directory` are this node's own, in its segment. Throws Error when address space runs out.
  LineMap(NodeId self, std::uint32_t line_bytes, const std::vector<Extent>& extents, std::byte* memory,
          std::byte* directory);
  ~LineMap();
  LineMap(const LineMap&) = delete;
  LineMap& operator=(const LineMap&) = delete;

  /// Without membarrier(2) every line must carry kFenced from the start.
  void set_fenced(bool fenced) noexcept { initial_access_ = fenced ? detail::kFenced : 0; }
  [[nodiscard]] const detail::LineTable& table() const noexcept { return table_; }
  /// REQUIRES: `address` lies in some node's memory.
  [[nodiscard]] coherence::LineRef ref(GlobalAddress address);
  [[nodiscard]] bool contains(GlobalAddress address, std::uint64_t bytes) const noexcept;

 private:
  void open_slab(std::uint64_t slab);

  struct Reservation {
    void* at = nullptr;
    std::uint64_t bytes = 0;
  };
  NodeId self_;
  std::uint32_t line_bytes_;
  std::byte* memory_;
  coherence::DirEntry* directory_;
  std::vector<Reservation> reservations_;
  std::vector<std::vector<detail::Slab>> slabs_;
  std::vector<detail::Home> homes_;
  detail::LineTable table_;
  std::uint8_t initial_access_ = 0;
};

}  // namespace atoll::memory
