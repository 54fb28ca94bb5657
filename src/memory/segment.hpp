// A node's segment: the memory that it shares with its peers, as one memfd that they map.
//
//   | header, counters, doorbell | receive rings, one per peer | directory | lines | cache slots | home memory | files
//   |
//
// Files are a part of the home memory, its last: lines whose bytes need not be there, because a file has them. That
// part may be much larger than the machine's memory; what of it is there is decided by who reads and writes the files.
//
// The header says where each part begins. A peer maps the whole, and trusts none of the numbers before `Segment::open`
// has checked them against the size of the file; from then on it uses its own copy of them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "atoll/detail/line.hpp"
#include "atoll/options.hpp"
#include "atoll/status.hpp"
#include "base/fd.hpp"
#include "metrics/counters.hpp"

namespace atoll::memory {

inline constexpr std::uint64_t kSegmentMagic = 0x41746f6c6c534731;  // "AtollSG1"

/// How a segment is divided.
struct SegmentLayout {
  std::uint64_t magic = kSegmentMagic;
  std::uint32_t version = 3;
  std::uint32_t line_bytes = 0;
  std::uint32_t nodes = 0;
  std::uint32_t ring_slots = 0;
  std::uint64_t total_bytes = 0;
  std::uint64_t rings_offset = 0;
  std::uint64_t directory_offset = 0;
  std::uint64_t lines_offset = 0;
  std::uint64_t cache_offset = 0;
  std::uint64_t cache_bytes = 0;
  std::uint64_t memory_offset = 0;
  std::uint64_t memory_bytes = 0;  // with the files
  std::uint64_t file_bytes = 0;    // their part of it
  friend bool operator==(const SegmentLayout&, const SegmentLayout&) = default;
};

struct SegmentHeader : SegmentLayout {
  alignas(64) std::atomic<std::uint32_t> doorbell{0};  // futex: bumped to wake the service thread
  std::atomic<std::uint32_t> asleep{0};                // 1 while the service thread wants to be woken
  alignas(64) metrics::Counters counters;
};

/// A mapped segment, one's own or a peer's.
///
/// Thread-safety: none, but for what the header and the parts themselves allow.
/// Invariants:
///   1. All parts lie inside the mapping, whatever its owner does to the header or the file afterwards.
class Segment {
 public:
  Segment() = default;
  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;
  ~Segment();

  /// Makes and maps the segment that this node brings. Throws Error (out of memory, limits) with what to do.
  static Segment create(const Options& options, NodeId nodes);
  /// Maps a peer's segment and checks its header. Throws Error when it is not one.
  static Segment open(const base::Fd& fd);

  [[nodiscard]] SegmentHeader& header() const noexcept { return *reinterpret_cast<SegmentHeader*>(base_); }
  /// As it was checked. (The owner can write to `header` at any time.)
  [[nodiscard]] const SegmentLayout& layout() const noexcept { return layout_; }
  [[nodiscard]] std::byte* rings() const noexcept { return base_ + layout_.rings_offset; }
  [[nodiscard]] std::byte* directory() const noexcept { return base_ + layout_.directory_offset; }
  /// The home's own records of its lines, which say when a peer may read them in place.
  [[nodiscard]] detail::Line* lines() const noexcept {
    return reinterpret_cast<detail::Line*>(base_ + layout_.lines_offset);
  }
  [[nodiscard]] std::byte* cache() const noexcept { return base_ + layout_.cache_offset; }
  [[nodiscard]] std::byte* memory() const noexcept { return base_ + layout_.memory_offset; }
  [[nodiscard]] std::uint64_t cache_bytes() const noexcept { return layout_.cache_bytes; }
  [[nodiscard]] std::uint64_t memory_bytes() const noexcept { return layout_.memory_bytes; }
  /// Where files begin in the memory, and how much of it is for them.
  [[nodiscard]] std::uint64_t heap_bytes() const noexcept { return layout_.memory_bytes - layout_.file_bytes; }
  [[nodiscard]] std::uint64_t file_bytes() const noexcept { return layout_.file_bytes; }
  /// Gives back the memory behind a part of the files: it reads as zeros. REQUIRES: whole pages of 4096 bytes.
  void discard(std::uint64_t offset, std::uint64_t bytes) const noexcept;
  /// Is all of it made of huge pages, from a pool that the system has set aside?
  [[nodiscard]] bool huge() const noexcept { return huge_; }
  /// Are at least the cache slots?
  [[nodiscard]] bool huge_cache() const noexcept { return huge_ || huge_cache_; }
  [[nodiscard]] const base::Fd& fd() const noexcept { return fd_; }
  /// Asks the kernel for a huge page under each part of the cache slots, which threads use at random. Best effort.
  void join_cache_pages() noexcept;
  /// The same for a part of this node's memory, or of its records, that is about to be used. May be called from any
  /// thread.
  void join_pages(const std::byte* begin, std::uint64_t bytes) noexcept;
  /// Faults the cache slots in, so that no miss pays for it. Best effort.
  void populate_cache() const noexcept;

 private:
  [[nodiscard]] bool map(int fd, std::uint64_t bytes, int extra_flags) noexcept;
  [[nodiscard]] bool make(std::uint64_t bytes, bool huge) noexcept;

  base::Fd fd_;
  std::byte* base_ = nullptr;
  std::uint64_t bytes_ = 0;
  bool huge_ = false;
  bool huge_cache_ = false;
  bool can_join_ = true;             // until the kernel refuses; as an atomic
  std::vector<std::uint8_t> asked_;  // of each part as large as a huge page: was the kernel asked? As atomics
  SegmentLayout layout_;
};

}  // namespace atoll::memory
