// A disk in memory that fails when it is told to, and forgets as a real one may when the power is cut.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.hpp"
#include "base/random.hpp"
#include "storage/disk.hpp"

namespace atoll::storage {

/// What a disk can be asked for; opening, looking and mapping are not counted, for they leave nothing behind.
enum class Operation : std::uint8_t { kRead, kWrite, kSync, kResize, kRemove, kRename, kSyncDirectory };
inline constexpr std::size_t kOperations = 7;  // extending is a resize

/// Deterministic: the same calls and seeds give the same bytes.
/// Thread-safety: every method may be called from any thread. Stores through a map may race with a sync, as they may
/// with a real disk; whoever wants to be sure that the sync has them makes them before.
/// Invariants:
///   1. A sector (512 bytes) is whole: it has its old or its new bytes, never some of each.
///   2. What was synced stays.
///   3. A crash ends the life of all files that are open: they fail from then on, and what is stored through their maps
///      is lost. Open them again.
class FaultyDisk final : public Disk {
 public:
  static constexpr std::size_t kSector = 512;

  explicit FaultyDisk(std::uint64_t seed = 0) : random_(seed) {}

  // ---- what goes wrong ----

  /// The n-th operation from now on fails (1: the next), and so do the `count - 1` behind it. A write that fails has
  /// written some of its sectors. 0: none does.
  void fail_operation(std::uint64_t n, std::uint64_t count = 1);
  /// All from the n-th on, as when the process has ended there.
  void fail_from(std::uint64_t n) { fail_operation(n, UINT64_MAX); }
  /// The next operation of this kind fails.
  void fail_next(Operation kind);
  /// The files together may have so many bytes, without the holes at their ends; what needs more fails with
  /// kStorageFull.
  void set_capacity(std::uint64_t bytes);
  /// How much of that they take now.
  [[nodiscard]] std::uint64_t allocated_bytes() const;
  /// Called before each operation, without any lock: to count, to be slow, to stop a thread there.
  void set_hook(std::function<void(Operation)> hook);

  // ---- the end of a process or of the machine ----

  /// All that was written stays.
  void crash_process();
  /// Each sector that was changed since the last sync of its file, and each change of the directory since the last
  /// sync_directory, is there or not.
  void crash_power(std::uint64_t seed);
  /// What the system may do at any time: some of what was not synced gets to the disk.
  void write_back(std::uint64_t seed);

  /// What the system may do when a sync of this file fails: what was not synced is taken for synced, so that no later
  /// sync writes it. (Not what is stored through maps.)
  void forget_changes(const std::string& name);

  // ---- what was done ----

  [[nodiscard]] std::uint64_t operations() const;
  [[nodiscard]] std::uint64_t count(Operation kind) const;

  [[nodiscard]] std::unique_ptr<File> open(const std::string& name, OpenMode mode) override;
  [[nodiscard]] bool exists(const std::string& name) override;
  [[nodiscard]] Status remove(const std::string& name) override;
  [[nodiscard]] Status rename(const std::string& from, const std::string& to) override;
  [[nodiscard]] Result<std::vector<std::string>> list() override;
  [[nodiscard]] Status sync_directory() override;
  [[nodiscard]] const std::string& path() const noexcept override { return path_; }
  /// Another one after each crash_power().
  [[nodiscard]] BootId boot_id() noexcept override;
  void set_begun(bool begun) noexcept override;
  [[nodiscard]] bool has_begun() noexcept override;

 private:
  friend class FaultyFile;
  using Bytes = std::vector<std::byte>;
  struct Inode {
    std::shared_ptr<Bytes> now = std::make_shared<Bytes>();  // what processes see
    Bytes synced;                                            // what the disk has for sure
    std::uint64_t allocated = 0;                             // what is behind these bytes takes no space
    std::set<std::uint64_t> changed;                         // pages that are perhaps not the same in both
    std::uint64_t shortest = UINT64_MAX;                     // since it was synced: what was behind it is zeros now
    bool mapped = false;                                     // nobody knows what has changed
  };
  using Names = std::map<std::string, std::shared_ptr<Inode>>;
  /// A change of the directory: `to` becomes `inode`, or nothing; and `from`, if it is not empty, nothing.
  struct Change {
    std::string from;
    std::string to;
    std::shared_ptr<Inode> inode;
  };

  /// Counts the operation and says whether it fails.
  [[nodiscard]] bool begin(Operation kind);
  [[nodiscard]] Status write(Inode& inode, const std::string& name, std::uint64_t offset,
                             std::span<const std::byte> from, bool fails) ATOLL_REQUIRES(mutex_);
  static void resize(Inode& inode, std::uint64_t bytes);
  static void mark(Inode& inode, std::uint64_t begin, std::uint64_t end);
  static void sync(Inode& inode);
  [[nodiscard]] bool fits(const Inode& inode, std::uint64_t bytes) const ATOLL_REQUIRES(mutex_);
  [[nodiscard]] std::vector<std::shared_ptr<Inode>> inodes() const ATOLL_REQUIRES(mutex_);
  void write_back(base::Random& random) ATOLL_REQUIRES(mutex_);
  void begin_life() ATOLL_REQUIRES(mutex_);
  static void apply(Names& names, const Change& change);

  const std::string path_ = "(in memory)";
  mutable base::Mutex mutex_;
  base::Random random_ ATOLL_GUARDED_BY(mutex_);
  std::function<void(Operation)> hook_ ATOLL_GUARDED_BY(mutex_);
  Names names_ ATOLL_GUARDED_BY(mutex_);
  Names synced_names_ ATOLL_GUARDED_BY(mutex_);
  std::vector<Change> changes_ ATOLL_GUARDED_BY(mutex_);  // from the one to the other
  std::uint64_t life_ ATOLL_GUARDED_BY(mutex_) = 0;
  std::uint64_t boots_ ATOLL_GUARDED_BY(mutex_) = 1;
  bool begun_ ATOLL_GUARDED_BY(mutex_) = false;
  std::uint64_t capacity_ ATOLL_GUARDED_BY(mutex_) = UINT64_MAX;
  std::uint64_t operations_ ATOLL_GUARDED_BY(mutex_) = 0;
  std::uint64_t counts_[kOperations] ATOLL_GUARDED_BY(mutex_) = {};
  std::uint64_t first_failure_ ATOLL_GUARDED_BY(mutex_) = 0;  // number of the operation; 0: none
  std::uint64_t failures_left_ ATOLL_GUARDED_BY(mutex_) = 0;
  bool fail_next_[kOperations] ATOLL_GUARDED_BY(mutex_) = {};
};

}  // namespace atoll::storage
