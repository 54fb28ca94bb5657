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
};

/// What a hit looks at, and all that it looks at: where the line's bytes are, and what may be done with them, in one
/// word. Eight bytes a line, so that the words of a cache of 64 MiB fit a second-level cache.
///
/// The place is kept as the distance from the line's global address to its bytes, so that a global address plus the
/// word's upper bits is a pointer. A line that keeps being taken away is *fenced*: its access stands in other bits,
/// those who use it issue a fence, and who takes it away needs no membarrier. Thread-safety: loaded by any thread;
/// changed under the engine lock. Invariants:
///   1. kWritable implies kReadable; never plain and fenced bits at once.
///   2. Lines and their bytes are aligned to 64, which leaves six bits. Distance 0 is "no bytes": no pointer equals a
///      global address, whose node stands where no user's pointer has bits and whose first page is never given out.
class HotWord {
 public:
  enum Bits : std::uint64_t {
    kPlain = kReadable | kWritable,  // bits 0 and 1
    kFencedShift = 2,                // bits 2 and 3: the same for a fenced line
    kFencedMode = 16,
    kBits = 63,
  };

  [[nodiscard]] std::uint64_t load() const noexcept { return word_.load(kLoadOrder); }
  /// The byte at a global address. REQUIRES: `word` is that of its line.
  [[nodiscard]] static std::byte* byte_at(std::uint64_t word, std::uint64_t address) noexcept {
    return reinterpret_cast<std::byte*>((word & ~std::uint64_t(kBits)) + address);
  }
  [[nodiscard]] static std::uint8_t access_of(std::uint64_t word) noexcept {
    return std::uint8_t((word | (word >> kFencedShift)) & kPlain);
  }
  [[nodiscard]] std::byte* byte_at(GlobalAddress address) const noexcept { return byte_at(load(), address.bits()); }
  [[nodiscard]] bool has_bytes() const noexcept { return (load() & ~std::uint64_t(kBits)) != 0; }
  [[nodiscard]] std::uint8_t access() const noexcept { return access_of(word_.load(std::memory_order_seq_cst)); }
  [[nodiscard]] bool fenced() const noexcept { return (load() & kFencedMode) != 0; }

  /// The bytes of the line at `address` are at `data`. REQUIRES: no access is granted.
  void set_bytes(GlobalAddress address, const std::byte* data) noexcept {
    change(reinterpret_cast<std::uint64_t>(data) - address.bits(), 0, fenced());
  }
  void set_access(std::uint8_t access) noexcept { change(load() & ~std::uint64_t(kBits), access, fenced()); }
  /// REQUIRES: no access is granted, and no thread is inside the line or a barrier follows before any is.
  void set_fenced(bool fenced) noexcept { change(load() & ~std::uint64_t(kBits), access(), fenced); }

 private:
#ifdef ATOLL_TSAN
  static constexpr auto kLoadOrder = std::memory_order_seq_cst;  // see enter_hazard
#else
  static constexpr auto kLoadOrder = std::memory_order_acquire;
#endif
  void change(std::uint64_t distance, std::uint8_t access, bool fenced) noexcept {
    const std::uint64_t before = word_.load(std::memory_order_relaxed);
    const std::uint64_t after =
        distance | (fenced ? kFencedMode | std::uint64_t(access) << kFencedShift : std::uint64_t(access));
    if (after != before) word_.store(after, std::memory_order_seq_cst);  // it costs as much as a fence
  }

  std::atomic<std::uint64_t> word_{0};
};
static_assert(sizeof(HotWord) == 8);

/// The lock word of a line. Readers are counted, one writer, and a bit that sends the next locker and
/// the next unlocker into the slow path because somebody waits.
enum LockWord : std::uint32_t {
  kLockWriter = 0x8000'0000,
  kLockWaiters = 0x4000'0000,
  kLockReaders = 0x3fff'ffff,
};

/// The rest of a line as this node sees it, whoever its home is.
///
/// Thread-safety: `lock` and `version` are atomics that every thread uses; all else belongs to the engine lock.
/// Invariants:
///   1. A thread that uses a line's data is named by a hazard slot or by the lock word; who lowers the access waits for
///      those before it lets the line go.
struct alignas(32) Line {
  std::atomic<std::uint32_t> lock{0};
  std::atomic<std::uint32_t> version{0};  // odd while a write of more than 8 bytes is under way
  std::uint32_t cold = 0;                 // 1 + index of the record of waiting work, 0 when there is none
  std::uint32_t slot = 0;                 // 1 + cache slot, 0 when there is none (and on the home)
  std::uint8_t state = 0;                 // coherence::CacheState; unused on the home, which has the directory
  std::uint8_t bias = 0;                  // how often it was taken away of late; see Runtime::quiesce
  std::uint8_t quiet = kUnused;           // what is known of threads that may still be in the line
  std::uint8_t lives = 0;                 // how often eviction passes it by; see Runtime::evict_some

  enum Lives : std::uint8_t { kFetchedAhead = 128 };         // a bit: nobody has come for it yet
  enum Quiet : std::uint8_t { kInUse, kReadOnly, kUnused };  // may be read and written; read; neither
};
static_assert(sizeof(Line) == 32);

/// One home's memory, as seen from here: a word for each of its lines.
struct Home {
  std::uint64_t words = 0;       // where the word of address 0 would be; an integer, because nothing is there
  std::uint64_t end = 0;         // the first address beyond what the node brought; 0 when there is no such node
  std::uint64_t line_shift = 0;  // log2 of the line's bytes
  std::uint64_t lines = 0;       // the same for the records

  [[nodiscard]] HotWord* word_of(std::uint64_t address) const noexcept {
    return reinterpret_cast<HotWord*>(words + (address >> line_shift) * sizeof(HotWord));
  }
  [[nodiscard]] Line* line_of(std::uint64_t address) const noexcept {
    return reinterpret_cast<Line*>(lines + (address >> line_shift) * sizeof(Line));
  }
};

/// From an address to its line, by two indexed loads: homes[node], then words[address >> line_shift].
struct LineTable {
  Home* homes = nullptr;        // one for each of the 65536 values of a node id; most are never touched
  std::uint64_t line_mask = 0;  // the line's bytes - 1
};

/// The homes as the inlined hit path sees them: those of the process's node, at a fixed place.
///
/// Where a process has several nodes (tests), this belongs to the first of them; threads of the others go through the
/// slow path for everything.
extern Home g_homes[65536];

/// Per-thread state that a hit touches. `hazard` is read by those who take lines away, and what a node's end resets is
/// atomic; all else is the thread's own. The memo names the line used last and saves a sequential reader the table
/// walk.
struct ThreadSlot {
  std::atomic<const HotWord*> hazard{nullptr};
  std::atomic<const HotWord*> word{nullptr};  // memo; read by who looks for a line to evict
  std::atomic<std::uint64_t> base{kNoBase};   // memo: address of the line's first byte
  std::uint64_t key = 0;                      // ~line_mask | 7: an address & key is the base if aligned and in the line
  std::atomic<std::uint64_t> guard{
      kClosed};            // bits that must not be in an address: 7, or all where g_homes is not ours
  std::uint64_t hits = 0;  // counted by this thread, read by others as a guess

  static constexpr std::uint64_t kNoBase = ~std::uint64_t{0};
  static constexpr std::uint64_t kClosed = ~std::uint64_t{0};
};
extern constinit thread_local ThreadSlot t_slot __attribute__((tls_model("initial-exec")));

/// Names a line in this thread's hazard slot, before its word is looked at.
///
/// A plain store and a compiler barrier: who takes a line away makes up for the missing fence with
/// membarrier(2). Under ThreadSanitizer, which does not know membarrier, it is an exchange.
inline void enter_hazard(ThreadSlot& slot, const HotWord* line) noexcept {
#ifdef ATOLL_TSAN
  slot.hazard.exchange(line, std::memory_order_seq_cst);
#else
  slot.hazard.store(line, std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

/// The same with a full fence, for fenced lines.
inline void enter_hazard_fenced(ThreadSlot& slot, const HotWord* line) noexcept {
  slot.hazard.exchange(line, std::memory_order_seq_cst);
}

inline void leave_hazard(ThreadSlot& slot) noexcept {
  slot.hazard.store(nullptr, std::memory_order_release);
}

}  // namespace atoll::detail
