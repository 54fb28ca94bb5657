// The log of a node: what it has written and given away, so that it can be done again in its next life.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "atoll/options.hpp"
#include "atoll/status.hpp"
#include "base/mutex.hpp"
#include "log/record.hpp"
#include "storage/disk.hpp"

namespace atoll::log {

struct LogConfig {
  LogMode mode = LogMode::kProcess;    // not kOff
  std::uint64_t bytes = 256ull << 20;  // of the file
  std::uint32_t max_payload = 64 << 10;
  std::uint32_t block_bytes = 0;    // a multiple of 4096; 0: by the two above
  std::uint64_t reserve_bytes = 0;  // that only append_reserved() may use; 0: a quarter of all
  NodeId node = 0;
  Sequence after = 0;  // sequences of this life are higher: LoadedLog::highest() of what there was
  /// Nothing of earlier logs is needed any more: this one gets the space of the last of them, and the others are
  /// removed. REQUIRES: a checkpoint says so, durably if the mode is power.
  bool replaces = false;
  std::uint64_t after_generation = 0;  // that of this life is higher, whatever files there are
};

/// A log without a name: it is being made, of nothing or of one that it replaces.
inline constexpr const char* kNewLogName = "log-new";

/// "log.3" of generation 3; and the other way round, 0 for what is no log's name.
[[nodiscard]] std::string log_name(std::uint64_t generation);
[[nodiscard]] std::uint64_t generation_of(const std::string& name) noexcept;

/// A file of one size in blocks, mapped. Each thread that logs has a Writer, which fills a block of its own; blocks
/// that are not needed any more are filled again. See docs/formats.md for the bytes.
///
/// Thread-safety: a Writer is one thread's at a time; all else may be called by any thread at any time, but for
/// truncate_before(), seal() and discard_old(), which are one thread's at a time.
/// Invariants:
///   1. A record that append() has returned is in the file, whatever becomes of the process.
///   2. Sequences are taken one by one by appends that succeed: in mode power none is missing for good, but at the end.
///   3. Of two appends of which one happens before the other, that one has the lower sequence.
///   4. All records up to durable() survive what the mode promises.
///   5. A block is filled again only when the file says that its records are not needed.
///   6. After a sync has failed nothing is appended any more, and durable() stays.
class Log {
 public:
  class Writer;

  /// Makes the log of the next life. Those of earlier lives stay until discard_old(); in mode power they are synced, so
  /// that what was read from them is there as long as they are. Throws Error: the disk fails, or `bytes` are too few.
  [[nodiscard]] static std::unique_ptr<Log> open(storage::Disk& disk, const LogConfig& config);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  /// Never blocks. kStorageFull: there is no block left but the reserve; wait for the next checkpoint. kStorage: a sync
  /// has failed. REQUIRES: the payload has at most max_payload() bytes.
  [[nodiscard]] Result<Sequence> append(Writer& writer, const RecordHead& head, std::span<const std::byte> payload);
  /// For who cannot wait. There are reserved_left() bytes of blocks, LogConfig::reserve_bytes at least when it begins.
  [[nodiscard]] Result<Sequence> append_reserved(Writer& writer, const RecordHead& head,
                                                 std::span<const std::byte> payload);
  [[nodiscard]] std::uint64_t reserved_left() const noexcept { return free_bytes(); }
  /// Would append() find a block, if its writer needs a new one?
  [[nodiscard]] bool has_room() const noexcept { return free_count_.load(std::memory_order_relaxed) > reserve_; }

  /// The highest sequence that was given to anybody.
  [[nodiscard]] Sequence last() const noexcept { return next_.load(std::memory_order_acquire) - 1; }
  [[nodiscard]] Sequence durable() const noexcept {
    return mode_ == LogMode::kPower ? durable_.load(std::memory_order_acquire) : last();
  }
  [[nodiscard]] bool is_durable(Sequence sequence) const noexcept { return sequence <= durable(); }
  /// Makes durable what was complete when it was called. Mode power: a sync of the file, for GroupCommit's thread.
  /// When it returns, durable() may still be lower than last() was: appends of others were under way.
  [[nodiscard]] Status sync();
  /// The disk has all of it, in any mode, and the file says so. REQUIRES: nobody appends any more.
  [[nodiscard]] Status close();
  /// Has a sync failed? Which one.
  [[nodiscard]] Status health() const;

  /// Records with lower sequences are not needed: blocks that have no others are free. Mode power: syncs.
  /// REQUIRES: there is a checkpoint from which recovery begins at `sequence`, and durable.
  [[nodiscard]] Status truncate_before(Sequence sequence);
  /// Writers leave their blocks, idle ones at once and the others at their next append, so that a later
  /// truncate_before() may free them.
  void seal();
  /// Removes the logs of earlier lives that this one has not replaced. REQUIRES: as for truncate_before(), with a
  /// sequence of this life.
  [[nodiscard]] Status discard_old();

  [[nodiscard]] LogMode mode() const noexcept { return mode_; }
  [[nodiscard]] std::uint64_t generation() const noexcept { return generation_; }
  /// The first sequence of this life.
  [[nodiscard]] Sequence first() const noexcept { return first_; }
  [[nodiscard]] std::uint32_t max_payload() const noexcept;
  /// In whole blocks.
  [[nodiscard]] std::uint64_t used_bytes() const noexcept;
  [[nodiscard]] std::uint64_t free_bytes() const noexcept;

 private:
  struct Block {
    bool taken = false;
    bool left = false;      // by its writer, so that nothing is added
    Sequence last = 0;      // the highest in it, once it was left
    bool was_used = false;  // at any time
  };
  using Put = void (*)(std::byte* at, std::uint32_t seed, const RecordHead& head, Sequence sequence,
                       std::span<const std::byte> payload) noexcept;

  Log(storage::Disk& disk, const LogConfig& config);
  [[nodiscard]] bool take_over(const std::vector<std::uint64_t>& generations);
  void create(std::uint64_t bytes, bool replaces);
  [[nodiscard]] Result<Sequence> append(Writer& writer, const RecordHead& head, std::span<const std::byte> payload,
                                        bool reserved);
  [[nodiscard]] Status next_block(Writer& writer, bool reserved) ATOLL_EXCLUDES(mutex_);
  void take_block(Writer& writer, std::uint32_t index) ATOLL_REQUIRES(mutex_);
  void leave_block(Writer& writer) ATOLL_REQUIRES(mutex_);
  void fail(Status status) ATOLL_EXCLUDES(mutex_);
  [[nodiscard]] Sequence complete() const ATOLL_EXCLUDES(mutex_);
  void write_truncation(Sequence sequence);
  [[nodiscard]] std::byte* block_at(std::uint32_t index) const noexcept;

  storage::Disk& disk_;
  const LogMode mode_;
  const NodeId node_;
  const std::uint32_t block_bytes_;
  const Sequence first_;
  std::uint32_t blocks_count_ = 0;
  std::uint32_t reserve_ = 0;  // blocks
  std::uint64_t generation_ = 0;
  std::unique_ptr<storage::File> file_;
  std::span<std::byte> map_;
  Put put_ = nullptr;
  bool has_barrier_ = false;
  unsigned truncations_ = 0;
  Sequence truncated_before_ = 0;

  alignas(64) std::atomic<Sequence> next_;
  alignas(64) std::atomic<Sequence> durable_;
  std::atomic<std::uint32_t> free_count_{0};

  mutable base::Mutex mutex_;
  std::vector<Block> blocks_ ATOLL_GUARDED_BY(mutex_);
  std::vector<std::uint32_t> free_ ATOLL_GUARDED_BY(mutex_);
  std::vector<Writer*> writers_ ATOLL_GUARDED_BY(mutex_);
  std::uint64_t stamp_ ATOLL_GUARDED_BY(mutex_) = 0;
  Status failed_ ATOLL_GUARDED_BY(mutex_);
};

/// A thread's place in the log. To be made and destroyed while the log is there.
class alignas(64) Log::Writer {
 public:
  explicit Writer(Log& log);
  ~Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

 private:
  friend class Log;
  static constexpr Sequence kIdle = ~Sequence{0};
  enum Leave : std::uint32_t {
    kStay,
    kLeave,  // at the next append
    kGone,   // the block is not this writer's any more
  };

  // Of the thread alone.
  std::byte* at_ = nullptr;
  std::byte* end_ = nullptr;
  std::uint32_t seed_ = 0;

  std::atomic<std::uint32_t> leave_{kStay};
  std::atomic<Sequence> last_;                // the last that it was given, or a lower one
  std::atomic<Sequence> in_progress_{kIdle};  // an append is under way, with this sequence or a higher one
  bool has_block_ = false;                    // the log's lock, as the next
  std::uint32_t block_ = 0;
  Log& log_;
};

}  // namespace atoll::log
