// Files that keep a node's data while it is not running. There are two disks: a directory of the system, and a faulty
// one in memory (faulty_disk.hpp) for tests and for the simulator.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "atoll/status.hpp"
#include "base/host.hpp"

namespace atoll::storage {

struct Extent {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;  // 0: there is none
};

/// An open file.
/// Thread-safety: calls of several threads are in order if they concern different bytes; sync() covers what was
/// complete when it was called. Invariants:
///   1. What was written, by write() or through the map, survives the end of the process; the end of the machine only
///      if a sync() began after it and succeeded.
///   2. After a sync() that failed nobody knows what is on the disk, and asking again does not tell: the system forgets
///      which pages it could not write. Whoever cannot live with that must stop.
///   3. What is mapped has its space on the disk: a store never finds the disk full.
class File {
 public:
  File() = default;
  virtual ~File() = default;
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  /// All of `into`; kStorage when the file ends before.
  [[nodiscard]] virtual Status read(std::uint64_t offset, std::span<std::byte> into) = 0;
  /// All of `from`; the file grows when it has to. What it skips is a hole, which reads as zeros.
  [[nodiscard]] virtual Status write(std::uint64_t offset, std::span<const std::byte> from) = 0;
  [[nodiscard]] virtual Status sync() = 0;
  /// Makes it so long, with space on the disk for each byte. REQUIRES: it is not mapped.
  [[nodiscard]] virtual Status resize(std::uint64_t bytes) = 0;
  /// Makes it so long at least. What is new is a hole, which takes no space on the disk before it is written.
  /// REQUIRES: it is not mapped.
  [[nodiscard]] virtual Status extend(std::uint64_t bytes) = 0;
  [[nodiscard]] virtual Result<std::uint64_t> size() = 0;
  /// The whole file as memory, shared with everyone who reads it, until the File is destroyed. The same each time.
  /// REQUIRES: resize() has made it, so that it has no holes.
  [[nodiscard]] virtual Result<std::span<std::byte>> map() = 0;
  /// These bytes of the map will be written soon: many pages are had more cheaply together than one by one. Where
  /// `is_fresh` says that nobody has written there since resize(), more cheaply still: the first store to a page of an
  /// allocated file may cost a journal's transaction each.
  virtual void prepare(std::uint64_t offset, std::uint64_t bytes, bool is_fresh) noexcept = 0;
  /// The first run of bytes at `from` or behind it that is no hole. (Some file systems have no holes.)
  [[nodiscard]] virtual Result<Extent> next_extent(std::uint64_t from) = 0;
  /// These will be read soon.
  virtual void read_ahead(std::uint64_t offset, std::uint64_t bytes) noexcept = 0;
};

enum class OpenMode : std::uint8_t {
  kRead,    // it must be there
  kWrite,   // it must be there
  kCreate,  // it is made if it is not there
};

/// Which start of the machine it is: another one each time. Zeros: nobody knows.
using BootId = std::array<std::uint64_t, 2>;

/// A directory of files, none of which is a directory.
/// Thread-safety: as the system's; nobody removes what another opens.
class Disk {
 public:
  Disk() = default;
  virtual ~Disk() = default;
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;

  /// Throws Error.
  [[nodiscard]] virtual std::unique_ptr<File> open(const std::string& name, OpenMode mode) = 0;
  [[nodiscard]] virtual bool exists(const std::string& name) = 0;
  [[nodiscard]] virtual Status remove(const std::string& name) = 0;
  /// What is called `to` is replaced, in one step.
  [[nodiscard]] virtual Status rename(const std::string& from, const std::string& to) = 0;
  /// The names of all files, in order.
  [[nodiscard]] virtual Result<std::vector<std::string>> list() = 0;
  /// Files that were made, renamed and removed before are so after a power cut too.
  [[nodiscard]] virtual Status sync_directory() = 0;
  /// For messages.
  [[nodiscard]] virtual const std::string& path() const noexcept = 0;

  /// Of the machine, as it runs now: what was written before it started was perhaps not written to the end.
  [[nodiscard]] virtual BootId boot_id() noexcept = 0;
  /// Notes beside the directory, not in it, whether a log began here: so that who empties the directory is found out.
  /// Where nothing can be written beside it, nothing is noted.
  virtual void set_begun(bool begun) noexcept = 0;
  [[nodiscard]] virtual bool has_begun() noexcept = 0;
};

/// The file in which open_disk() leaves who uses the directory.
inline constexpr const char* kLockName = "lock";

/// A directory of the system, which is made if it is not there, for this process alone. Throws Error: it cannot be made
/// or written to, or another process has it and does not end within `patience`.
[[nodiscard]] std::unique_ptr<Disk> open_disk(const std::string& path, std::chrono::milliseconds patience = {},
                                              base::Host& host = base::Host::real());

/// One file of the system, for reading, whoever has its directory. Throws Error.
[[nodiscard]] std::unique_ptr<File> open_file(const std::string& path);

}  // namespace atoll::storage
