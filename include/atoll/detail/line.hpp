// The little that an inlined hit must know: a line's hot record, a thread's hazard slot, the table
// that leads from an address to the line. Not part of the API.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "atoll/address.hpp"
#include "atoll/detail/lab.hpp"

#if defined(__SANITIZE_THREAD__)
#define ATOLL_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ATOLL_TSAN 1
#endif
#endif

namespace atoll::detail {

// Accesses to what several threads use: ordinary loads and stores on x86. Under ThreadSanitizer, which does not know
// membarrier(2), they are in one order with everything.
#ifdef ATOLL_TSAN
inline constexpr int kLoadOrder = __ATOMIC_SEQ_CST;
#else
inline constexpr int kLoadOrder = __ATOMIC_ACQUIRE;
#endif
template <typename T>
inline T load_shared(const T& at) noexcept {
  return __atomic_load_n(&at, kLoadOrder);
}
template <typename T>
inline void store_shared(T& at, T value) noexcept {
  __atomic_store_n(&at, value, __ATOMIC_RELEASE);
}

/// What a thread of this node may do with a line right now, without asking anybody.
enum Access : std::uint8_t {
  kReadable = 1,  // the copy is valid and nothing of this node is queued before the reader
  kWritable = 2,  // and nobody else has one; implies kReadable
  kOperable = 4,  // operands of the line's operator may be combined, and nothing else be done
};

/// The lock word of a line. Readers are counted, one writer, and a bit that sends the next locker and
/// the next unlocker into the slow path because somebody waits. The writer's bit is the lowest of a count that goes on
/// when a writer comes and when it goes: who reads the bytes from another process (see Runtime::read_in_place) sees by
/// it whether one was there meanwhile. (The count begins anew after 262,144 writers: too many for one look.)
enum LockWord : std::uint32_t {
  kLockReaders = 0x0fff,
  kLockWaiters = 0x1000,
  kLockWriter = 0x2000,
  kLockHeld = kLockReaders | kLockWriter,
  kLockWrites = ~(kLockReaders | kLockWaiters),  // the whole count
};

/// A line as this node sees it, whoever its home is.
///
/// Thread-safety: the atomics are read by every thread; all is changed under the engine lock, but for `lock`, `version`
/// and `visits`, which threads change themselves. Invariants:
///   1. A thread that writes a line's data is named by a hazard slot or by the lock word; who lowers the access waits
///      for those before it lets the line go. Nobody waits for readers: they are told, and look when they are done.
///   2. Lines and their bytes are aligned to 64. Distance 0 is "no bytes": where bytes would stand at the very address
///      that they have among all nodes', they are not used (LineMap and Runtime::take_slot check it).
///   3. At the home, which keeps its records where its peers can see them: the version is odd as long as another node
///      owns the line, from before that node is told until after the bytes are back.
struct alignas(32) Line {
  std::atomic<std::uint32_t> lock{0};
  std::atomic<std::uint32_t> version{0};   // odd while a write of more than 8 bytes is under way, or an owner has it
  std::uint32_t cold = 0;                  // 1 + index of the record of waiting work, 0 when there is none
  std::uint32_t slot = 0;                  // 1 + cache slot, 0 when there is none (and on the home)
  std::atomic<std::uint64_t> distance{0};  // what to add to a global address for a pointer to its byte
  std::atomic<std::uint8_t> access{0};     // Access
  std::atomic<bool> fenced{false};         // those who write fence, and who takes it away needs no barrier
  std::uint8_t state = 0;                  // coherence::CacheState; unused on the home, which has the directory
  std::uint8_t bias : 6 = 0;               // how often it was taken away of late; see Runtime::quiesce
  std::uint8_t use : 2 = 0;                // Use: what threads may be doing: what was granted since the last quiesce
  std::uint8_t lives = 0;                  // how often eviction passes it by, and bits; see Runtime::evict_some
  std::atomic<std::uint8_t> visits{0};     // what was spent on it at its home since it was last here; a guess
  std::atomic<bool> here{false};           // it has a slot, or something of this node waits for it
  std::atomic<std::uint8_t> operation{0};  // the operator, as long as it is operated or asked for that

  enum Lives : std::uint8_t {
    kLives = 31,          // the number
    kWanted = 32,         // others asked for it when this node had it
    kContested = 64,      // to write, and not the home; or when it wrote: the next write asks for the line
    kFetchedAhead = 128,  // nobody has come for it yet
    kDemand = int(kWanted) | kContested  // what is known of others
  };
  enum Use : std::uint8_t { kUnused, kRead, kWritten };  // in the order of what it takes to end it

  [[nodiscard]] std::byte* byte_at(GlobalAddress address) const noexcept {
    return reinterpret_cast<std::byte*>(distance.load(std::memory_order_relaxed) + address.bits());
  }
};
static_assert(sizeof(Line) == 32 && std::atomic<std::uint32_t>::is_always_lock_free);

/// All that an inlined hit looks at: the line's distance if it may be used so, else 0. There is one for reads and one
/// for writes of every 512 bytes, so that those of a cache of 64 MiB fit a second-level cache. A larger line has
/// several, all alike. A smaller line has none, and its accesses take the slow path.
using HotWord = std::uint64_t;
inline constexpr unsigned kHotShift = 9;
/// Where the arrays of hot words stand, so that a hit need not load it: in the middle of what a process has for its
/// own, far from where the system puts things; room for 2048 nodes in each. A process has one pair of them, its first
/// node's.
#ifdef ATOLL_TSAN  // which keeps most addresses for itself: room for 12 nodes, in what it leaves to programs
inline constexpr std::uint64_t kHotReadsAt = 0x0010'0000'0000;
inline constexpr std::uint64_t kHotWritesAt = 0x0040'0000'0000;
#else
inline constexpr std::uint64_t kHotReadsAt = 0x2000'0000'0000;
inline constexpr std::uint64_t kHotWritesAt = 0x4000'0000'0000;
#endif

/// A word that an array keeps for a chunk, beside the line's own: where element 0 of the array would be if all of it
/// stood as the chunk does; 0 when the chunk may not be read. The words of an array are next to each other whatever
/// nodes its parts are on, and few, so a random read finds its chunk's by one shift in a cache that is near.
struct ChunkWord {
  HotWord* word = nullptr;
  std::uint64_t zero = 0;  // the global address that element 0 would have
};

/// A line together with its hot words: what threads may do with it.
///
/// Thread-safety: `access`, `fenced` by any thread; changed under the engine lock. Invariants:
///   1. Writable implies readable. A read word is the distance if and only if the line is readable, a write word if and
///      only if it is writable and not fenced. The word of an array's chunk goes with the read words.
class HotLine {
 public:
  HotLine() noexcept = default;
  HotLine(Line& line, HotWord* reads, HotWord* writes, std::uint32_t words, ChunkWord chunk = {}) noexcept
      : line_(&line), reads_(reads), writes_(writes), words_(words), chunk_(chunk) {}

  [[nodiscard]] std::uint8_t access() const noexcept { return line_->access.load(std::memory_order_seq_cst); }
  [[nodiscard]] bool fenced() const noexcept { return line_->fenced.load(std::memory_order_relaxed); }
  [[nodiscard]] bool has_bytes() const noexcept { return line_->distance.load(std::memory_order_relaxed) != 0; }
  [[nodiscard]] std::byte* byte_at(GlobalAddress address) const noexcept { return line_->byte_at(address); }

  /// The bytes of the line at `address` are at `data`. REQUIRES: no access is granted.
  void set_bytes(GlobalAddress address, const std::byte* data) const noexcept {
    line_->distance.store(reinterpret_cast<std::uint64_t>(data) - address.bits(), std::memory_order_relaxed);
  }
  void set_access(std::uint8_t access) const noexcept {
    const std::uint8_t before = line_->access.load(std::memory_order_relaxed);
    if (before == access) return;
    // Those beyond the inlined path look at this one. What is granted may become visible late; what is taken may not.
    line_->access.store(access, (before & ~access) != 0 ? std::memory_order_seq_cst : std::memory_order_release);
    publish(access, fenced());
  }
  /// REQUIRES: to fence a line: it is not writable, and nobody is still writing it.
  void set_fenced(bool fenced) const noexcept {
    line_->fenced.store(fenced, std::memory_order_relaxed);
    publish(line_->access.load(std::memory_order_relaxed), fenced);
  }

 private:
  void publish(std::uint8_t access, bool fenced) const noexcept {
    const std::uint64_t distance = line_->distance.load(std::memory_order_relaxed);
    const std::uint64_t read = (access & kReadable) != 0 ? distance : 0;
    const std::uint64_t write = (access & kWritable) != 0 && !fenced ? distance : 0;
    for (std::uint32_t i = 0; i < words_; ++i) {
      if (reads_[i] != read) __atomic_store_n(&reads_[i], read, __ATOMIC_RELEASE);
      if (writes_[i] != write) __atomic_store_n(&writes_[i], write, __ATOMIC_RELEASE);
    }
    if (chunk_.word != nullptr) __atomic_store_n(chunk_.word, read == 0 ? 0 : read + chunk_.zero, __ATOMIC_RELEASE);
  }

  Line* line_ = nullptr;
  HotWord* reads_ = nullptr;
  HotWord* writes_ = nullptr;
  std::uint32_t words_ = 0;
  ChunkWord chunk_;
};

/// From an address to its line. The hot words of all nodes stand in two arrays that the address, shifted, is an index
/// into; they are reserved once, and what no node has memory for reads as 0. Lines stand in an array for each home.
struct LineTable {
  HotWord* reads = nullptr;                     // nullptr: there are none, for this is not the process's first node,
  HotWord* writes = nullptr;                    // or its lines are too small
  Line* const* lines = nullptr;                 // of each node
  const std::uint64_t* bytes = nullptr;         // how much memory each node brought
  const std::uint8_t* const* larger = nullptr;  // of each node: how lines are there, for each grain of its memory
  std::uint64_t nodes = 0;
  std::uint32_t line_shift = 0;  // log2 of the bytes of a line of the heap
};

/// Memory may have lines of another size than the heap's, 2^n times larger, in whole grains of it (see
/// Runtime::open_region). Such a line uses the record of the first line of the heap that would stand in its place.
inline constexpr unsigned kGrainShift = 16;
inline constexpr std::uint32_t kGrainBytes = 1u << kGrainShift;
enum Larger : std::uint8_t {
  kLargerMask = 0x0f,    // n
  kLargerClosed = 0x80,  // on its way from one size to another: nobody has a line of it, and nobody asks for one
};

/// Per-thread state that a hit touches. Where a process has several nodes (tests), the inlined hits are those of the
/// first; threads of the others have limits of 0 and go through the slow path for everything.
///
/// Thread-safety: `hazard` is read by those who take lines away, who also set `told`; a node's end resets the limits
/// and `part_count`; all else is the thread's own.
struct ThreadSlot {
  std::uint64_t read_limit = 0;   // an eighth of the first address beyond all memory
  std::uint64_t write_limit = 0;  // the same for writes; 0 where all of them must fence
  std::uint32_t told = 1;         // some line was taken away since this was last reset, which the slow path does; or
                                  // the thread is not known to a node yet, or was another node's of late
  std::uint64_t hits = 0;         // counted by this thread, read by others as a guess
  std::uint64_t hazard = 0;       // an address in the line that the thread is writing right now
  // The elements of an array that this thread read last: see read_memo.
  std::uint64_t memo_first = 0;
  std::uint64_t memo_count = 0;
  const std::byte* memo_bytes = nullptr;
  std::uint64_t memo_next = 0;  // the element behind the one that was read last, if that was not among them
  // The part of an array that this thread wrote last: see write_part.
  std::uint64_t part_first = 0;
  std::uint64_t part_count = 0;
  std::uint64_t part_address = 0;
};
extern constinit thread_local ThreadSlot t_slot __attribute__((tls_model("initial-exec")));

/// Names a line in this thread's hazard slot, before it is made sure that the line may be written.
///
/// A plain store and a compiler barrier: who takes a line away makes up for the missing fence with membarrier(2). Under
/// ThreadSanitizer, which does not know membarrier, it is an exchange.
inline void enter_hazard(ThreadSlot& slot, std::uint64_t address) noexcept {
#if defined(ATOLL_LAB)
  if (!ATOLL_FAULT(hazard_not_entered)) lab::store_hazard(slot.hazard, address);
#elif defined(ATOLL_TSAN)
  __atomic_exchange_n(&slot.hazard, address, __ATOMIC_SEQ_CST);
#else
  __atomic_store_n(&slot.hazard, address, __ATOMIC_RELAXED);
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

/// The same with a full fence, for fenced lines.
inline void enter_hazard_fenced(ThreadSlot& slot, std::uint64_t address) noexcept {
  __atomic_exchange_n(&slot.hazard, address, __ATOMIC_SEQ_CST);
}

inline void leave_hazard(ThreadSlot& slot) noexcept {
#ifdef ATOLL_LAB
  lab::leave_hazard(slot.hazard);
#endif
  store_shared(slot.hazard, std::uint64_t{0});
}

}  // namespace atoll::detail
