// The little that an inlined hit must know: a line's hot record, a thread's hazard slot, the table
// that leads from an address to the line. Not part of the API.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "atoll/address.hpp"

#if defined(__SANITIZE_THREAD__)
#define ATOLL_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ATOLL_TSAN 1
#endif
#endif

namespace atoll::detail {

/// What a thread of this node may do with a line right now, without asking anybody.
enum Access : std::uint8_t {
  kReadable = 1,  // the copy is valid and nothing of this node is queued before the reader
  kWritable = 2,  // and nobody else has one; implies kReadable
  kFenced = 4,    // this line keeps being taken away: readers fence, takers skip the barrier
};

/// The lock word of a line. Readers are counted, one writer, and a bit that sends the next locker and
/// the next unlocker into the slow path because somebody waits.
enum LockWord : std::uint32_t {
  kLockWriter = 0x8000'0000,
  kLockWaiters = 0x4000'0000,
  kLockReaders = 0x3fff'ffff,
};

/// One line as this node sees it, whoever its home is. 32 bytes, two to a hardware cache line.
///
/// Thread-safety: `access`, `referenced`, `lock`, `version` are atomics that every thread uses; all else
/// belongs to the engine lock, and `data` may be read by a thread whose hazard names the line and that
/// then saw kReadable (or that holds the line's lock).
/// Invariants:
///   1. access & kWritable implies access & kReadable.
///   2. A thread that uses `data` is named by a hazard slot or by the lock word; who clears access waits
///      for those before it lets the line go.
struct alignas(32) Line {
  std::atomic<std::uint8_t> access{0};
  std::atomic<std::uint8_t> referenced{0};
  std::uint8_t state = 0;  // coherence::CacheState; unused on the home, which has the directory
  std::uint8_t bias = 0;   // how often it was taken away of late; see Runtime::quiesce
  std::atomic<std::uint32_t> lock{0};
  std::byte* data = nullptr;
  std::atomic<std::uint32_t> version{0};  // odd while a write of more than 8 bytes is under way
  std::uint32_t cold = 0;                 // 1 + index of the record of waiting work, 0 when there is none
  std::uint32_t slot = 0;                 // 1 + cache slot, 0 when there is none (and on the home)
  std::uint8_t quiet = kUnused;           // what is known of threads that may still be in the line
  std::uint8_t reserved[3] = {};

  enum Quiet : std::uint8_t { kInUse, kReadOnly, kUnused };  // may be read and written; read; neither
};
static_assert(sizeof(Line) == 32);

/// A slab: a piece of a home's memory whose lines all have one size.
struct Slab {
  Line* lines = nullptr;         // of the slab's first line
  std::uint32_t line_shift = 0;  // log2 of the line's bytes
  std::uint32_t reserved = 0;
};

/// One home's memory, as seen from here.
struct Home {
  const Slab* slabs = nullptr;
  std::uint64_t bytes = 0;  // what the node brought; an offset at or beyond it is a bad address
};

inline constexpr unsigned kSlabShift = 20;  // 1 MiB

/// From an address to its line: homes[node].slabs[offset >> kSlabShift].lines[...].
struct LineTable {
  const Home* homes = nullptr;
  std::uint32_t nodes = 0;
};

/// Per-thread state that a hit touches. `hazard` is read by those who take lines away; all else is the
/// thread's own. The memo names the line used last and saves a sequential reader the table walk.
struct ThreadSlot {
  std::atomic<const Line*> hazard{nullptr};
  const void* owner = nullptr;  // the node that the memo and the registration belong to
  std::atomic<Line*> line{nullptr};  // memo; read by who looks for a line to evict
  std::atomic<std::uint64_t> hits{0};  // counted by this thread alone
  std::uint64_t base = 0;       // memo: address of the line's first byte
  std::uint64_t bytes = 0;      // memo: size of the line; 0 when there is no memo
};
extern constinit thread_local ThreadSlot t_slot __attribute__((tls_model("initial-exec")));

/// Names `line` in this thread's hazard slot, before its access byte is looked at.
///
/// A plain store and a compiler barrier: who takes a line away makes up for the missing fence with
/// membarrier(2). Under ThreadSanitizer, which does not know membarrier, it is an exchange.
inline void enter_hazard(ThreadSlot& slot, const Line* line) noexcept {
#ifdef ATOLL_TSAN
  slot.hazard.exchange(line, std::memory_order_seq_cst);
#else
  slot.hazard.store(line, std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

/// The same with a full fence, for lines that carry kFenced.
inline void enter_hazard_fenced(ThreadSlot& slot, const Line* line) noexcept {
  slot.hazard.exchange(line, std::memory_order_seq_cst);
}

inline void leave_hazard(ThreadSlot& slot) noexcept { slot.hazard.store(nullptr, std::memory_order_release); }

inline std::uint8_t load_access(const Line* line) noexcept {
#ifdef ATOLL_TSAN
  return line->access.load(std::memory_order_seq_cst);
#else
  return line->access.load(std::memory_order_acquire);
#endif
}

}  // namespace atoll::detail
