// The page store in memory that fails when it is told to, takes its time, and forgets as real ones do in a crash.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "storage/faulty_disk.hpp"
#include "storage/page_store.hpp"

namespace atoll::storage {

class SimulatedIo;

/// What may happen to each request that a store makes of its disk: reads, writes and syncs, those of the double write
/// among them.
struct PageFaults {
  double failure = 0;            // how probable it is that a request fails with EIO; a write has written some sectors
  double short_transfer = 0;     // or that it moves less than it was asked for, up to the end of some sector
  std::int64_t least_nanos = 0;  // how long it takes; between the two, so that requests end in any order
  std::int64_t most_nanos = 0;
};

/// The same logic as the real one, double write included, over a FaultyDisk. Deterministic: the same calls, seeds and
/// times give the same bytes and the same order.
/// Thread-safety: see PageStore.
/// Invariants:
///   1. A sector (512 bytes) is whole.  2. What was synced stays.
///   3. Requests that are done at the same time end in an order that the seed decides.
class FaultyPageStore final : public PageStore {
 public:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

  /// `clock` gives nanoseconds that do not go back; without it a request is done when it is next looked for. The disk
  /// may be had by others too; without one the store brings its own.
  explicit FaultyPageStore(std::uint64_t seed, std::function<std::int64_t()> clock = {}, std::uint32_t depth = 256,
                           std::shared_ptr<FaultyDisk> disk = nullptr);
  ~FaultyPageStore() override;

  // ---- what goes wrong ----

  void set_faults(const PageFaults& faults);
  /// The next `n` requests fail so.
  void fail_next(std::uint32_t n, int error);
  /// The same for those of one kind: kRead, kWrite or kSync.
  void fail_next(Operation kind, std::uint32_t n, int error);
  /// All files together may have so many bytes on the disk, holes not counted; what needs more fails with kStorageFull.
  void set_capacity(std::uint64_t bytes);
  /// Ends what is under way at any point of it, and closes all files: no tag from before will be reaped. Without
  /// `power`, what was done stays; with it each sector that was not synced is lost or not.
  void crash(bool power);

  // ---- virtual time ----

  /// When something may be reaped or go on: call reap() then. kNever: nothing is under way.
  [[nodiscard]] std::int64_t next_due() const;
  /// Requests made of the disk until now: where a crash may be put.
  [[nodiscard]] std::uint64_t requests() const;
  [[nodiscard]] FaultyDisk& disk() { return *disk_; }

  [[nodiscard]] Result<FileNumber> open(const std::string& path, const PageFileOptions& options) override;
  [[nodiscard]] Status close(FileNumber file) override;
  [[nodiscard]] std::uint64_t bytes(FileNumber file) const override;
  [[nodiscard]] Status resize(FileNumber file, std::uint64_t bytes) override;
  [[nodiscard]] Status unlink(const std::string& path) override;
  void read(FileNumber file, std::uint64_t offset, std::span<std::byte> into, std::uint64_t tag) override;
  void write(FileNumber file, std::vector<PageImage> images, std::uint64_t tag) override;
  void sync(FileNumber file, std::uint64_t tag) override;
  void flush() override;
  std::size_t reap(std::span<PageDone> into) override;
  [[nodiscard]] std::uint32_t under_way() const override;
  /// -1: who uses it asks next_due().
  [[nodiscard]] int wake_fd() const override { return -1; }
  void calm() override {}

 private:
  const std::shared_ptr<FaultyDisk> disk_;
  const std::unique_ptr<SimulatedIo> io_;
  std::unique_ptr<PageStore> pages_;  // a new one after each crash
};

}  // namespace atoll::storage
