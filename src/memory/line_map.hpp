// From an address to its line: a sparse table per home, reserved once, touched only where it is used.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "atoll/detail/hit.hpp"
#include "atoll/detail/line.hpp"
#include "coherence/types.hpp"

namespace atoll::memory {

/// Thread-safety: `table` may be used by any thread; `ref` and what it makes belong to the engine lock.
/// Invariants:
///   1. A line of this node's own memory has data and a directory entry from its first `ref` on.
///   2. A line of another node has data if and only if it has a cache slot.
///   3. Lines of one size fill whole grains. The records of heap lines that a larger line covers are unused, but for
///      the first; the hot words of all of them are the line's.
class LineMap {
 public:
  /// What the map must know of each node, in the order of their ids.
  struct Extent {
    std::uint64_t memory_bytes = 0;
    std::uint64_t file_bytes = 0;  // the last part of it, closed until a file is opened there
  };
  /// What this node itself brings, in its segment.
  struct Own {
    std::byte* memory = nullptr;
    std::byte* directory = nullptr;
    detail::Line* lines = nullptr;
  };
  /// Throws Error when address space runs out.
  /// `fenced`: there is no membarrier(2), so every line is fenced from the start. `inlined_hits`: this
  /// node may have them, if it is the first of the process. `before_use`: is told of each part of
  /// the segment before its lines are used for the first time.
  LineMap(NodeId self, std::uint32_t line_bytes, const std::vector<Extent>& extents, const Own& own, bool fenced,
          bool inlined_hits, std::function<void(const std::byte*, std::uint64_t)> before_use = {});
  ~LineMap();
  LineMap(const LineMap&) = delete;
  LineMap& operator=(const LineMap&) = delete;

  [[nodiscard]] const detail::LineTable& table() const noexcept { return table_; }
  /// REQUIRES: `address` lies in some node's memory.
  [[nodiscard]] coherence::LineRef ref(GlobalAddress address);
  /// From now on the lines of these grains are 2^larger times as large as the heap's; `larger` may be marked closed.
  /// REQUIRES: whole grains of one node's memory; nobody but the home has any of their lines.
  void set_larger(GlobalAddress first, std::uint64_t bytes, std::uint8_t larger);
  /// The first lines of these grains have words of an array, one each; `zero` is where its first element would be. No
  /// words: no more; those that there were become 0. REQUIRES: whole grains of one node's memory; no thread may use any
  /// of their lines, or they have words already.
  void attach_words(GlobalAddress first, std::uint64_t bytes, std::span<detail::HotWord> words, std::uint64_t zero);
  [[nodiscard]] std::uint8_t larger_at(GlobalAddress address) const noexcept {
    return larger_[address.node()][address.offset() >> detail::kGrainShift];
  }
  /// A hint: the records of these lines are about to be changed. REQUIRES: all lie in one node's memory.
  void prefetch(GlobalAddress first, std::uint32_t count) const noexcept;
  [[nodiscard]] bool contains(GlobalAddress address, std::uint64_t bytes) const noexcept;
  /// Does the address lie where a node's files are? REQUIRES: in some node's memory.
  [[nodiscard]] bool is_file(GlobalAddress address) const noexcept {
    return address.offset() >= heap_bytes_[address.node()];
  }
  /// A line of this node's own memory: its offset if `ref` was ever asked for it or one near it, else that of the next
  /// part that may have such lines.
  [[nodiscard]] std::uint64_t next_used(GlobalAddress line) const noexcept {
    const std::uint64_t slab = line.offset() / kSlabBytes;
    return slab < open_.size() && open_[slab] ? line.offset() : (slab + 1) * kSlabBytes;
  }
  /// Every line of this node's own memory that `ref` was ever asked for, and those around it.
  template <typename F>
  void for_each_own(F&& f) {
    for (std::uint64_t slab = 0; slab < open_.size(); ++slab) {
      if (!open_[slab]) continue;
      const std::uint64_t end = std::min((slab + 1) * kSlabBytes, memory_bytes_[self_]);
      for (std::uint64_t at = slab * kSlabBytes; at < end;) {
        const coherence::LineRef line = ref(GlobalAddress::make(self_, at));
        at += line.bytes;
        f(line);
      }
    }
  }

 private:
  void reserve_hot_words(std::size_t nodes);
  void* reserve(std::uint64_t bytes, std::uint64_t wanted);
  void make_usable(void* at, std::uint64_t bytes);
  void open_slab(std::uint64_t slab);
  /// REQUIRES: `line` is the first address of a line.
  [[nodiscard]] detail::HotLine hot_line(GlobalAddress line, std::uint32_t bytes) const noexcept;

  static constexpr std::uint64_t kSlabBytes = 1 << 20;  // lines of one's own memory become usable so many at a time
  struct Reservation {
    void* at = nullptr;
    std::uint64_t bytes = 0;
  };
  NodeId self_;
  std::uint32_t line_bytes_;
  std::byte* memory_;
  bool fenced_;
  std::function<void(const std::byte*, std::uint64_t)> before_use_;
  coherence::DirEntry* directory_;
  std::vector<bool> open_;  // of each slab of this node's memory
  std::vector<Reservation> reservations_;
  std::vector<detail::Line*> homes_;
  std::vector<std::uint8_t*> larger_;  // see LineTable
  struct GrainWords {
    detail::ChunkWord first;  // of the first line there
    std::uint64_t count = 0;  // lines from that one on that have words
  };
  std::vector<std::vector<GrainWords>> chunk_words_;  // of each node and grain
  std::vector<std::uint64_t> memory_bytes_;
  std::vector<std::uint64_t> heap_bytes_;  // of each node: where its files begin
  detail::LineTable table_;
};

}  // namespace atoll::memory
