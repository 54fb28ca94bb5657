// The allocator of one node's home memory: it hands out offsets and never touches the memory itself, for the
// bytes may be dirty in another node's cache. All that it knows is in private arrays beside the memory.
//
//   | page 0: never given out | span: equal slots of one class | run: one large block | free run | ...
//
// Small blocks (up to 32 KiB) are slots of spans, large ones are runs of pages of their own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <vector>

#include "atoll/status.hpp"

namespace atoll::memory {

/// An array of zeroes that costs no memory where it was never written: a node may bring terabytes.
template <typename T>
class ZeroedArray {
 public:
  static_assert(std::is_trivial_v<T>);
  explicit ZeroedArray(std::size_t count) : count_(count), data_(static_cast<T*>(std::calloc(count, sizeof(T)))) {
    if (data_ == nullptr) throw std::bad_alloc();
  }
  [[nodiscard]] T& operator[](std::size_t i) noexcept { return data_.get()[i]; }
  [[nodiscard]] const T& operator[](std::size_t i) const noexcept { return data_.get()[i]; }
  [[nodiscard]] std::span<std::byte> bytes() noexcept { return std::as_writable_bytes(std::span(data_.get(), count_)); }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
    return std::as_bytes(std::span<const T>(data_.get(), count_));
  }

 private:
  struct Free {
    void operator()(T* data) const noexcept { std::free(data); }
  };
  std::size_t count_;
  std::unique_ptr<T, Free> data_;
};

/// What is known of one page. Only the pages that begin (or, free runs, end) something say what it is.
struct PageInfo {
  enum class Kind : std::uint8_t { kNone, kReserved, kFree, kRun, kSpan, kSpanBody };

  std::uint32_t left;   // free run: subtree of lesser runs; span: the one before it in its class's list
  std::uint32_t right;  // free run: subtree of greater runs; span: the one after it
  std::uint32_t pages;  // free run (first and last page), run, span: its length; span body: pages back to the first
  std::uint16_t used;   // span: slots in use
  std::uint16_t high;   // span: slots from here on were not handed out since the span was made
  std::uint8_t hint;    // span: no word of the bitmap before this one has a free slot
  std::uint8_t size_class;
  Kind kind;
};

/// The pages that nothing uses, as maximal runs.
///
/// A treap over the runs, ordered by (length, first page), whose links lie in the PageInfo of each run's first
/// page: so neither taking nor giving pages needs the heap, and neither can fail half way.
///
/// Thread-safety: none; the caller serialises.
/// Invariants:
///   1. Two free runs never touch: neighbours are joined when pages are given back.
///   2. The first and the last page of a free run have kind kFree and its length; the pages between are kNone.
///   3. Page 0 is in no run, so 0 stands for "none" in every link.
class PagePool {
 public:
  explicit PagePool(std::uint32_t count);

  /// The first page of the best fitting run, cut to `pages`; 0 when no run is that long.
  [[nodiscard]] std::uint32_t take(std::uint32_t pages) noexcept;
  /// REQUIRES: the pages were taken, and are all kNone again.
  void give(std::uint32_t first, std::uint32_t pages) noexcept;

  [[nodiscard]] std::uint32_t count() const noexcept { return count_; }
  [[nodiscard]] std::uint32_t free_pages() const noexcept { return free_pages_; }
  [[nodiscard]] std::uint32_t largest_run() const noexcept;
  [[nodiscard]] PageInfo& operator[](std::uint32_t page) noexcept { return info_[page]; }
  [[nodiscard]] const PageInfo& operator[](std::uint32_t page) const noexcept { return info_[page]; }

 private:
  friend class AllocatorImage;
  [[nodiscard]] bool before(std::uint32_t a, std::uint32_t b) const noexcept;
  void insert_run(std::uint32_t first, std::uint32_t pages) noexcept;
  void remove_run(std::uint32_t first) noexcept;

  std::uint32_t count_;
  std::uint32_t free_pages_ = 0;
  std::uint32_t root_ = 0;
  ZeroedArray<PageInfo> info_;
};

/// The sizes that small blocks are rounded up to, and where slots of each size lie in a span.
///
/// A span is a sequence of groups. Below a line, a group is one line with as many slots as fit, and the tail is
/// skipped: no slot straddles lines. The classes are then line/n, down to multiples of 16: what lies between two
/// of them would take no less memory. From a line on, a group is one slot, a multiple of the line, and there are
/// four classes to each doubling (fewer where they would not be multiples of the line).
///
/// Thread-safety: immutable.
class SizeClasses {
 public:
  static constexpr std::uint32_t kGrain = 16;
  static constexpr std::uint32_t kMaxBytes = 32u << 10;
  static constexpr std::size_t kMaxClasses = 64;

  struct Class {
    std::uint32_t bytes;        // of a slot
    std::uint32_t group_bytes;  // the distance from group to group
    std::uint32_t per_group;    // slots in each
    std::uint32_t span_pages;   // of a span, when the pool has that many in a run

    [[nodiscard]] std::uint32_t slots(std::uint32_t pages) const noexcept {
      return pages * 4096 / group_bytes * per_group;
    }
    [[nodiscard]] std::uint32_t offset_of(std::uint32_t slot) const noexcept {
      return slot / per_group * group_bytes + slot % per_group * bytes;
    }
  };

  /// `span_pages`: what a span should have at most, unless a single slot needs more.
  SizeClasses(std::uint32_t line_bytes, std::uint32_t span_pages);

  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  [[nodiscard]] const Class& operator[](std::size_t i) const noexcept { return classes_[i]; }
  /// REQUIRES: 1 <= bytes <= kMaxBytes.
  [[nodiscard]] std::uint8_t index_for(std::uint64_t bytes) const noexcept {
    return by_grain_[(bytes + kGrain - 1) / kGrain];
  }

 private:
  void add(std::uint32_t bytes, std::uint32_t group_bytes, std::uint32_t per_group, std::uint32_t span_pages);

  std::size_t count_ = 0;
  std::array<Class, kMaxClasses> classes_{};
  std::array<std::uint8_t, kMaxBytes / kGrain + 1> by_grain_{};
};

/// Hands out [0, memory_bytes) of one node's home memory.
///
/// Every operation takes O(log n) in the number of free runs (for a large block, plus one bit per page to tell
/// whether it is fresh), and none uses the heap: they cannot fail but for want of memory to hand out. The
/// arrays take about 1.3 % of the memory, of which only what is in use becomes resident.
///
/// Thread-safety: none; the caller holds the engine lock.
/// Invariants:
///   1. Live blocks do not overlap, and none touches the first 4 KiB.
///   2. A block is aligned to the largest power of two that divides its usable size, within 16 and 4096.
///   3. A block of up to a line lies in one line. A block of a line or more begins a line and fills whole lines,
///      so it shares none with a neighbour.
///   4. When nothing is allocated, all pages but the first are one free run.
///   5. A bit of a slot's bitmap is set if and only if the slot is live; the bits of pages outside spans are zero.
class Allocator {
 public:
  static constexpr std::uint64_t kPageBytes = 4096;
  static constexpr std::uint64_t kReservedBytes = kPageBytes;

  struct Block {
    std::uint64_t offset = 0;
    bool fresh = false;  // these bytes were never handed out before, so they are still zero
  };

  /// Throws Error when line_bytes is no power of two from 64 to 4096, or memory_bytes beyond 16 TiB. What
  /// exceeds a multiple of 4 KiB is not used.
  Allocator(std::uint64_t memory_bytes, std::uint32_t line_bytes);

  /// At least `bytes` bytes. kInvalidArgument for 0, kOutOfMemory when there is no place for them.
  Result<Block> allocate(std::uint64_t bytes) noexcept;
  /// The same for a block that begins at a multiple of `alignment`. REQUIRES: a power of two from a page on; `bytes`
  /// more than SizeClasses::kMaxBytes.
  Result<Block> allocate_aligned(std::uint64_t bytes, std::uint64_t alignment) noexcept;
  /// kNotAllocated, and no effect, unless a live block begins at `offset`.
  Status free(std::uint64_t offset) noexcept;
  /// The usable bytes of the live block that begins at `offset`, else kNotAllocated.
  [[nodiscard]] Result<std::uint64_t> size_of(std::uint64_t offset) const noexcept;

  /// Free pages and free slots. What is neither free nor used is lost to the tails of lines and spans.
  [[nodiscard]] std::uint64_t free_bytes() const noexcept;
  /// The usable bytes of all live blocks.
  [[nodiscard]] std::uint64_t used_bytes() const noexcept { return used_bytes_; }
  /// The greatest size that allocate would grant now, as it would any lesser one; 0 when none.
  [[nodiscard]] std::uint64_t largest_free_bytes() const noexcept;

  /// All that it knows, for a checkpoint: what it would do next follows from it. About as large as its arrays where
  /// they were ever used.
  [[nodiscard]] std::vector<std::byte> save() const;
  /// Knows what another of the same memory and lines knew when it was saved. kInvalidArgument, and no effect, when the
  /// bytes are no such thing.
  Status load(std::span<const std::byte> saved);

 private:
  friend class AllocatorImage;
  /// A live block: the first page of its run or span, and its slot in a span. Head 0: no block.
  struct Located {
    std::uint32_t head = 0;
    std::uint32_t slot = 0;
  };
  // A page of 16-byte slots, the smallest, needs 256 bits; the bitmap of a span begins with its first page's.
  static constexpr std::uint32_t kWordsPerPage = kPageBytes / SizeClasses::kGrain / 64;

  [[nodiscard]] Located locate(std::uint64_t offset) const noexcept;
  Result<Block> allocate_run(std::uint64_t bytes, std::uint64_t alignment) noexcept;
  [[nodiscard]] Block allocate_slot(std::uint32_t head) noexcept;
  void free_slot(std::uint32_t head, std::uint32_t slot) noexcept;
  /// A span of the class, in its list; 0 when no free run can hold a slot.
  [[nodiscard]] std::uint32_t make_span(std::uint8_t size_class) noexcept;
  void release_span(std::uint32_t head) noexcept;
  void link(std::uint32_t head) noexcept;
  void unlink(std::uint32_t head) noexcept;
  [[nodiscard]] bool any_touched(std::uint32_t first, std::uint32_t pages) const noexcept;
  void touch(std::uint32_t first, std::uint32_t pages) noexcept;

  PagePool pool_;
  SizeClasses classes_;
  ZeroedArray<std::uint64_t> slot_bits_;  // kWordsPerPage for each page; set: the slot is live
  ZeroedArray<std::uint64_t> touched_;    // a bit a page: handed out by a run or span that has since been freed
  std::array<std::uint32_t, SizeClasses::kMaxClasses> partial_{};  // per class: spans that have a free slot
  std::uint64_t used_bytes_ = 0;
  std::uint64_t free_slot_bytes_ = 0;
};

}  // namespace atoll::memory
