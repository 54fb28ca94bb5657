// What an access costs where every access takes a reference, as DArray's do (ICPP 2023, Figures 4 to 6). A baseline.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "atoll/status.hpp"

namespace atoll::bench {

/// What a directory entry lets a thread do to its chunk.
enum class ChunkState : std::uint8_t { kInvalid, kShared, kDirty, kOperated };

/// The entry of one chunk. On a cache line of its own, so that threads in different chunks do not meet.
///
/// Thread-safety: all methods may be called by any thread.
/// Invariant: while the count is above 0 nobody may take the chunk away: who wants to sets the delay flag, changes the
/// state, and waits until the count is 0.
struct alignas(64) ChunkEntry {
  /// Takes a reference for a chunk in one of the states that `allows` takes. The order of the paper: the flag, the
  /// count, the state; what is not allowed gives the reference back and waits.
  template <typename Allows>
  void acquire(Allows&& allows) noexcept {
    while (delayed.load(std::memory_order_acquire)) [[unlikely]] __builtin_ia32_pause();
    references.fetch_add(1, std::memory_order_acquire);
    while (!allows(state.load(std::memory_order_acquire))) [[unlikely]] {
        references.fetch_sub(1, std::memory_order_release);
        __builtin_ia32_pause();
        references.fetch_add(1, std::memory_order_acquire);
      }
  }
  void release() noexcept { references.fetch_sub(1, std::memory_order_release); }

  std::atomic<bool> delayed{false};
  std::atomic<ChunkState> state{ChunkState::kDirty};
  std::atomic<std::uint32_t> references{0};
  std::uint64_t* data = nullptr;
};

inline bool is_readable(ChunkState state) noexcept {
  return state == ChunkState::kShared || state == ChunkState::kDirty;
}
inline bool is_writable(ChunkState state) noexcept {
  return state == ChunkState::kDirty;
}

/// The entries of an array of words: one per 512, DArray's default.
class ChunkEntries {
 public:
  static constexpr std::uint64_t kChunk = 512;
  explicit ChunkEntries(std::uint64_t words) : entries_((words + kChunk - 1) / kChunk) {}
  [[nodiscard]] ChunkEntry& of(std::uint64_t i) noexcept { return entries_[i / kChunk]; }

 private:
  std::vector<ChunkEntry> entries_;
};

/// Words of ordinary memory behind such entries, all of them here for ever: what a hit costs, and nothing but hits.
class RefcountArray {
 public:
  /// Word i holds i.
  explicit RefcountArray(std::uint64_t words);

  [[nodiscard]] std::uint64_t get(std::uint64_t i) noexcept {
    ChunkEntry& entry = entries_.of(i);
    entry.acquire(is_readable);
    const std::uint64_t value = std::atomic_ref(entry.data[i % ChunkEntries::kChunk]).load(std::memory_order_relaxed);
    entry.release();
    return value;
  }

 private:
  std::vector<std::uint64_t> words_;
  ChunkEntries entries_;
};

/// The loops of native.hpp over it.
[[nodiscard]] std::uint64_t refcount_sum(RefcountArray& array, std::uint64_t words);
/// REQUIRES: `words` is a power of two.
[[nodiscard]] std::uint64_t refcount_random_sum(RefcountArray& array, std::uint64_t words, std::uint64_t count,
                                                std::uint64_t seed);

}  // namespace atoll::bench
