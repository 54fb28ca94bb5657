// One node's tables of the FaRM-like engine, and what the home of rows does for others' transactions.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "bench/tpcc/farm_table.hpp"
#include "bench/tpcc/peers.hpp"
#include "memory/page_joiner.hpp"

namespace atoll::bench::tpcc {

struct FarmOptions {
  std::uint64_t memory_bytes = 64 << 20;  // of this node, for rows and indexes
  unsigned threads = 8;                   // of a node, at the same time
};

// What transactions tell homes. A message begins with its kind, in 8 bytes; items follow.
enum class FarmMessage : std::uint64_t { kLock, kPut, kUnlock };
enum class FarmAnswer : std::uint8_t { kLocked, kMetLock, kMetChange, kNoRoom };  // to kLock: all locks or none

/// Of kLock: a bucket to be locked if its version is still this one, or room in a bucket that an item before has
/// locked, or both. Of kUnlock: a bucket.
struct FarmLockItem {
  std::uint64_t bucket = 0;  // from the beginning of the home's memory
  std::uint64_t version = 0;
  std::uint16_t table = 0;
  bool takes_lock = false;
  std::uint8_t rooms = 0;  // unused slots that must be there: one more for each row to be inserted
  std::uint8_t slot = 0;   // of which
  std::uint8_t unused[3] = {};
};
enum class FarmPut : std::uint8_t { kNothing, kUpdate, kInsert, kErase };
/// Of kPut. The key follows if it is inserted, and the row if it is not erased, each rounded up to 8 bytes.
struct FarmPutItem {
  std::uint64_t bucket = 0;  // the first of the chain
  std::uint64_t found = 0;   // the one that has the key, unless it is inserted
  std::uint16_t table = 0;
  FarmPut what = FarmPut::kNothing;
  std::uint8_t slot = 0;
  bool unlocks = false;  // the last one of its bucket
  std::uint8_t unused[3] = {};
};
static_assert(sizeof(FarmLockItem) == 24 && sizeof(FarmPutItem) == 24);

/// A node's memory is tables from its beginning on, the same on each node, and buckets that chains grow by from its end
/// down.
///
/// Thread-safety: `add_table` at set-up, by all nodes alike; all others from any thread.
/// Invariants:
///   1. A bucket's rows change only while it is locked, and its version is higher when it is unlocked.
///   2. Chains only grow: a reader who follows one while it changes reads buckets, if not the right rows.
///   3. Only the home makes its chains longer, when a bucket is locked: a put cannot fail.
class FarmStore final : public PeerHandler {
 public:
  struct Table {
    FarmShape shape;
    std::uint64_t begin = 0;  // in each node's memory
    std::uint64_t buckets = 0;
  };
  static constexpr std::size_t kMostTables = 64;

  /// All nodes together. Throws Error.
  FarmStore(Node& node, const FarmOptions& options);

  /// `rows`: that a node is expected to have. Throws Error.
  [[nodiscard]] std::uint16_t add_table(const FarmShape& shape, std::uint64_t rows);
  [[nodiscard]] const Table& table(std::uint16_t number) const noexcept { return tables_[number]; }
  [[nodiscard]] Peers& peers() noexcept { return peers_; }
  [[nodiscard]] std::byte* memory(NodeId home) const noexcept { return memories_[home]; }
  [[nodiscard]] std::uint64_t memory_bytes() const noexcept;

  // Of this node's own buckets; for transactions of this node, and for those of others when they say so.
  [[nodiscard]] FarmAnswer lock(std::span<const FarmLockItem> items) noexcept;
  void unlock(const FarmLockItem& item) noexcept;
  void put(const FarmPutItem& item, const std::byte* key, const std::byte* row) noexcept;

  void handle(const Call& call, std::span<const std::byte> message) noexcept override;

 private:
  static constexpr std::uint64_t kExtent = 2 << 20;  // of a huge page

  [[nodiscard]] static FarmAnswer lock_one(FarmBucket& bucket, std::uint64_t version) noexcept;
  [[nodiscard]] bool make_room(const FarmLockItem& item) noexcept;
  void begin_to_use(FarmBucket& bucket, const FarmShape& shape) noexcept;
  void want_pages(std::uint64_t offset, bool upwards) noexcept;
  [[nodiscard]] FarmBucket* new_bucket(const FarmShape& shape) noexcept;
  void put_all(std::span<const std::byte> message) noexcept;
  [[nodiscard]] FarmBucket& bucket(std::uint64_t offset) noexcept { return FarmBucket::at(mine_ + offset); }

  Peers peers_;
  std::vector<std::byte*> memories_;  // by node
  std::byte* const mine_;
  const std::uint64_t bytes_;
  std::vector<std::uint8_t> joined_;  // by extent: have huge pages been wanted for it? As atomics
  std::vector<Table> tables_;
  std::uint64_t tables_end_;
  std::atomic<std::uint64_t> used_bytes_{0};    // of tables
  std::atomic<std::uint64_t> chains_bytes_{0};  // from the end of the memory down
  memory::PageJoiner pages_;
};

}  // namespace atoll::bench::tpcc
