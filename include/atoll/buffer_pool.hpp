// atoll::BufferPool: pages of files of any node, fixed in memory while they are used.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "atoll/file.hpp"
#include "atoll/lock.hpp"
#include "atoll/node.hpp"

namespace atoll {

/// A page: which of the pool's files, and its number there.
struct PageId {
  std::uint32_t file = 0;
  std::uint64_t page = 0;
  friend constexpr bool operator==(const PageId&, const PageId&) = default;
};

/// A page that stays where it is as long as this lives.
///
/// Thread-safety: the fix belongs to the thread that made it; its bytes may be used by any thread while it lives.
/// Invariants:
///   1. If the page could not be had, `status()` says why, and there are no bytes.
template <typename Byte>
class [[nodiscard]] FixedPage {
 public:
  FixedPage(Node& node, GlobalAddress address, std::uint32_t bytes, std::byte* data) noexcept
      : node_(&node), address_(address), bytes_(bytes), data_(data) {}
  explicit FixedPage(Status why) noexcept : status_(why) {}
  FixedPage(FixedPage&& other) noexcept
      : node_(std::exchange(other.node_, nullptr)),
        address_(other.address_),
        bytes_(other.bytes_),
        data_(std::exchange(other.data_, nullptr)),
        status_(other.status_) {}
  FixedPage& operator=(FixedPage&& other) noexcept {
    if (this == &other) return *this;
    (void)unfix();
    node_ = std::exchange(other.node_, nullptr);
    address_ = other.address_;
    bytes_ = other.bytes_;
    data_ = std::exchange(other.data_, nullptr);
    status_ = other.status_;
    return *this;
  }
  FixedPage(const FixedPage&) = delete;
  FixedPage& operator=(const FixedPage&) = delete;
  ~FixedPage() { (void)unfix(); }

  [[nodiscard]] bool ok() const noexcept { return data_ != nullptr; }
  [[nodiscard]] Status status() const noexcept { return status_; }
  /// All bytes of the page.
  [[nodiscard]] std::span<Byte> bytes() const noexcept { return {data_, ok() ? bytes_ : 0}; }
  /// Ends it before its time.
  Status unfix() noexcept {
    data_ = nullptr;
    return node_ == nullptr ? Status() : std::exchange(node_, nullptr)->unlock(address_, bytes_);
  }

 private:
  Node* node_ = nullptr;
  GlobalAddress address_;
  std::uint32_t bytes_ = 0;
  Byte* data_ = nullptr;
  Status status_;
};
using SharedPage = FixedPage<const std::byte>;
using ExclusivePage = FixedPage<std::byte>;

/// The pages of any number of files on any nodes, as one pool of all nodes' memory. A page is read into the memory of
/// its file's node; when that has no room for it any more other nodes keep it; and only when none has is it left to the
/// disk (docs/buffer-pool.md). Every node makes its own BufferPool, with the same files in the same order.
///
/// Thread-safety: any thread may fix, unfix, read and prefetch pages; files are added by one thread before. Invariants:
///   1. A page that is fixed is in memory, where it is; fixed shared by any number of threads of all nodes, or
///   exclusive
///      by one.
///   2. A thread that fixes several pages takes them in one order, as with locks; it cannot fix one twice, but shared.
class BufferPool {
 public:
  /// Pages of so many bytes, a power of two from 512 to 64 KiB, and no less than a line (`atoll run --line`).
  explicit BufferPool(Node& node, std::uint32_t page_bytes = 4096) noexcept : node_(&node), page_bytes_(page_bytes) {}

  /// Opens a file and gives it the next number. What `options` says of pages does not count.
  Result<std::uint32_t> add_file(std::string_view path, FileOptions options = {}) noexcept;
  [[nodiscard]] std::uint32_t page_bytes() const noexcept { return page_bytes_; }
  [[nodiscard]] std::uint32_t files() const noexcept { return std::uint32_t(files_.size()); }
  /// How many pages the file has; the last one may be a part of one.
  [[nodiscard]] std::uint64_t pages(std::uint32_t file) const noexcept {
    return file < files_.size() ? (files_[file].bytes() + page_bytes_ - 1) / page_bytes_ : 0;
  }
  [[nodiscard]] File& file(std::uint32_t number) noexcept { return files_[number]; }
  /// Makes the file so many pages long; new ones are zeros.
  Status resize(std::uint32_t file, std::uint64_t pages) noexcept;

  SharedPage fix_shared(PageId page) noexcept { return fix<const std::byte>(page, LockMode::kRead); }
  ExclusivePage fix_exclusive(PageId page) noexcept { return fix<std::byte>(page, LockMode::kWrite); }
  /// kRefused at once when somebody else's fix is in the way. (A page that is not in memory is fetched.)
  SharedPage try_fix_shared(PageId page) noexcept { return try_fix<const std::byte>(page, LockMode::kRead); }
  ExclusivePage try_fix_exclusive(PageId page) noexcept { return try_fix<std::byte>(page, LockMode::kWrite); }

  /// Runs `use(bytes)` without fixing the page, where it is in memory and nobody changes it: nothing is written that
  /// other threads read, so any number of them may do it at once. `use` may see bytes that are being changed; then its
  /// result is thrown away and it is run again, at last on the fixed page. So it must only read, and believe nothing
  /// that leads out of the page. The status is that of the fix, if there was one.
  template <typename Use>
  Status read(PageId page, Use&& use) noexcept;

  /// Begins to bring pages into memory that will be wanted.
  Status prefetch(PageId first, std::uint64_t count) noexcept;
  /// Runs `use(page, bytes)` for one page after the other, each fixed shared, and reads ahead.
  template <typename Use>
  Status scan(std::uint32_t file, std::uint64_t first, std::uint64_t count, Use&& use) noexcept;

  /// Waits until all pages of the file, or of all, that were changed before are on the disk.
  Status flush(std::uint32_t file) noexcept;
  Status flush() noexcept;

 private:
  static constexpr std::uint64_t kAhead = 32;  // pages, of a scan
  static constexpr int kTries = 4;

  [[nodiscard]] Status check(PageId page) const noexcept {
    if (page.file >= files_.size()) return {Errc::kInvalidArgument, "the pool has no such file"};
    if (page.page < pages(page.file)) return {};
    return {Errc::kInvalidArgument, "the file has no such page: resize it first", files_[page.file].home()};
  }
  [[nodiscard]] GlobalAddress address_of(PageId page) const noexcept {
    return files_[page.file].address() + std::int64_t(page.page * page_bytes_);
  }
  template <typename Byte>
  FixedPage<Byte> fix(PageId page, LockMode mode) noexcept {
    if (const Status status = check(page); !status.ok()) [[unlikely]]
      return FixedPage<Byte>(status);
    const GlobalAddress at = address_of(page);
    const Result<std::byte*> data = node_->pin(at, page_bytes_, mode);
    if (!data.ok()) [[unlikely]]
      return FixedPage<Byte>(data.status());
    return FixedPage<Byte>(*node_, at, page_bytes_, *data);
  }
  template <typename Byte>
  FixedPage<Byte> try_fix(PageId page, LockMode mode) noexcept;
  [[nodiscard]] static bool changes(std::uint32_t before, std::uint32_t after) noexcept {
    return ((before ^ after) & detail::kLockWrites) != 0 || (after & detail::kLockWriter) != 0;
  }

  Node* node_;
  std::uint32_t page_bytes_;
  std::vector<File> files_;
};

// ---- implementation ----

template <typename Byte>
FixedPage<Byte> BufferPool::try_fix(PageId page, LockMode mode) noexcept {
  if (const Status status = check(page); !status.ok()) return FixedPage<Byte>(status);
  const GlobalAddress at = address_of(page);
  const bool shared = mode == LockMode::kRead;
  const Status locked = shared ? node_->try_read_lock(at, page_bytes_) : node_->try_write_lock(at, page_bytes_);
  if (!locked.ok()) return FixedPage<Byte>(locked);
  return FixedPage<Byte>(*node_, at, page_bytes_, node_->locked_bytes(at));
}

template <typename Use>
Status BufferPool::read(PageId page, Use&& use) noexcept {
  if (const Status status = check(page); !status.ok()) [[unlikely]]
    return status;
  const GlobalAddress at = address_of(page);
  detail::ThreadSlot& slot = detail::t_slot;
  if (detail::word_index<1>(slot.read_limit, at.bits()) != detail::kNoWord) [[likely]] {
    const detail::Line& line = *detail::find_line(*node_->table_, at.bits());
    for (int i = 0; i < kTries; ++i) {
      const std::uint32_t lock = line.lock.load(std::memory_order_acquire);
      const std::uint32_t version = line.version.load(std::memory_order_acquire);
      if ((lock & detail::kLockWriter) != 0 || (version & 1) != 0) continue;
      const bool read = detail::read_line(
          slot, line, at, [&](const std::byte* data) { use(std::span<const std::byte>(data, page_bytes_)); });
      const bool same = line.version.load(std::memory_order_relaxed) == version &&
                        !changes(lock, line.lock.load(std::memory_order_relaxed));
      if (read && same) return {};
      if (!read) break;
    }
  }
  const SharedPage fixed = fix_shared(page);
  if (fixed.ok()) use(fixed.bytes());
  return fixed.status();
}

template <typename Use>
Status BufferPool::scan(std::uint32_t file, std::uint64_t first, std::uint64_t count, Use&& use) noexcept {
  for (std::uint64_t i = 0; i < count; ++i) {
    if (i % (kAhead / 2) == 0) {
      const std::uint64_t from = i == 0 ? 0 : i + kAhead / 2;
      const std::uint64_t ahead = std::min(i == 0 ? kAhead : kAhead / 2, count - std::min(count, from));
      if (ahead > 0) (void)prefetch({file, first + from}, ahead);
    }
    const SharedPage page = fix_shared({file, first + i});
    if (!page.ok()) return page.status();
    use(first + i, page.bytes());
  }
  return {};
}

}  // namespace atoll
