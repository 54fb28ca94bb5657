// Files that are read and written by pages, many at a time and without waiting: what memory that reaches files stands
// on.
//
// There are two: files of the system (io_uring, or threads), and a faulty one in memory (faulty_page_store.hpp) for
// tests and for the simulator. docs/formats.md says what is on the disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "atoll/status.hpp"

namespace atoll::storage {

using FileNumber = std::uint32_t;  // of an open file, reused after close

/// Offsets and addresses of pages are multiples of it.
inline constexpr std::uint64_t kPageAlignment = 4096;
inline constexpr std::uint32_t kLeastPageBytes = 4096;
inline constexpr std::uint32_t kMostPageBytes = 1 << 20;
/// What the file beside a file of whole pages is called: FILE.atoll-pages. The two belong together.
inline constexpr const char* kCompanionSuffix = ".atoll-pages";

/// How a file of pages is opened.
struct PageFileOptions {
  bool create = false;              // make it when it is missing
  bool exclusive = false;           // with create: an error when it is there
  bool read_only = false;           // nothing is written, and no companion is made
  bool direct = true;               // around the system's page cache where the file system can, else through it
  bool whole = true;                // pages overwritten in place are whole after a crash: each is written twice
  std::uint32_t page_bytes = 4096;  // unit of read and write, a power of two, 4096 to 1 MiB
};

/// Bytes that become part of a file. Whole pages; the offset is a multiple of page_bytes, the address of 4096.
struct PageImage {
  std::uint64_t offset = 0;
  std::span<const std::byte> bytes;
};

/// The end of the read, write or sync with this tag.
struct PageDone {
  std::uint64_t tag = 0;
  Status status;
};

/// Open files of pages.
/// Thread-safety: none; the caller serialises all calls. None waits for the disk, but for open(), resize(), close() and
/// unlink(), which make short system calls that do (a folder or a file is synced).
/// Invariants:
///   1. Each tag ends once. What is asked for wrongly ends with kInvalidArgument, and nothing is written.
///   2. After a crash, of the process or of the machine, each page of a `whole` file is as it was before or after the
///      write that was under way, once open() has returned.
///   3. What a sync() covers that ended well is so after a crash of the machine; what a write() covers that ended well
///   is
///      so after a crash of the process.
///   4. A failure ends what it concerns. Where it may have torn pages of a `whole` file, or a sync has failed and
///   nobody
///      knows what is on the disk, the next write or sync first puts all in its place again that no sync has covered,
///      from the companion; only if that fails too, it ends with the same failure, and so on until the disk works.
class PageStore {
 public:
  PageStore() = default;
  virtual ~PageStore() = default;
  PageStore(const PageStore&) = delete;
  PageStore& operator=(const PageStore&) = delete;

  /// What a crash has left half done is finished before this returns. A `whole` file is this store's alone while it is
  /// open. Errors: kNotFound, kAlreadyExists (it is there, or somebody else has it open), kInvalidArgument, kStorage,
  /// kStorageFull; each says what to do.
  [[nodiscard]] virtual Result<FileNumber> open(const std::string& path, const PageFileOptions& options) = 0;
  /// The companion is removed, for all is in its place; after a sync() with no write behind it without waiting for the
  /// disk. The file is closed also where this fails. REQUIRES: nothing is under way for it.
  [[nodiscard]] virtual Status close(FileNumber file) = 0;
  /// The file's length.
  [[nodiscard]] virtual std::uint64_t bytes(FileNumber file) const = 0;
  /// What is new is zeros, and takes no space on the disk before it is written. Durable with the next sync().
  /// kInvalidArgument where it gets shorter while a write of it is under way.
  [[nodiscard]] virtual Status resize(FileNumber file, std::uint64_t bytes) = 0;
  /// Removes a file, and its companion if it has one. REQUIRES: it is not open.
  [[nodiscard]] virtual Status unlink(const std::string& path) = 0;

  /// Whole pages; `into` begins at a multiple of 4096. Bytes beyond the end are zero.
  virtual void read(FileNumber file, std::uint64_t offset, std::span<std::byte> into, std::uint64_t tag) = 0;
  /// The bytes stay as they are until it is done. Nothing is written beyond the end: the last page is cut off there,
  /// and a page that begins there is an error. So is one that a write under way has.
  virtual void write(FileNumber file, std::vector<PageImage> images, std::uint64_t tag) = 0;
  /// What was written, and reaped, before is durable.
  virtual void sync(FileNumber file, std::uint64_t tag) = 0;
  /// Hands what was asked for to the system: one call for many.
  virtual void flush() = 0;
  /// What is done; does not wait. Hands on to the system what becomes possible by it.
  virtual std::size_t reap(std::span<PageDone> into) = 0;
  /// Tags that were asked for and not reaped.
  [[nodiscard]] virtual std::uint32_t under_way() const = 0;
  /// Readable when something may be reaped, until calm(): an eventfd. -1: the store has none.
  [[nodiscard]] virtual int wake_fd() const = 0;
  /// Before reap(), by who waits for `wake_fd`; any thread may call it. Who looks without waiting saves the call.
  virtual void calm() = 0;
};

/// io_uring, or threads with pread and pwrite where the system forbids io_uring, as containers often do. At most
/// `depth` requests are with the system, more wait inside. Throws Error only if neither works.
[[nodiscard]] std::unique_ptr<PageStore> make_page_store(std::uint32_t depth = 256);

}  // namespace atoll::storage
