// What a page store stands on: reads, writes and syncs that end later, and a few short calls that do not. Three disks
// are behind it: io_uring, threads, and a simulated one (simulated_io.hpp).
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "atoll/detail/namespace.hpp"

namespace atoll::storage {

enum class IoKind : std::uint8_t {
  kRead,
  kWrite,
  kSync,  // the file's data and its length
  kCall,  // some work that waits for the disk by itself
};

struct IoRequest {
  IoKind kind = IoKind::kRead;
  int handle = -1;
  std::uint64_t offset = 0;
  std::span<const iovec> parts;                // they and what they name stay until it is done
  const std::function<int()>* call = nullptr;  // the same; another thread may run it
  std::uint64_t id = 0;
};

struct IoDone {
  std::uint64_t id = 0;
  std::int64_t result = 0;  // bytes, what the call returned, or -errno
};

struct IoOpen {
  bool create = false;
  bool exclusive = false;
  bool read_only = false;
  bool direct = false;
};

/// Thread-safety: one caller at a time, but for read_now(), write_now(), sync_now(), length() and block_bytes(), which
/// a kCall may use at the same time. Invariants: a request ends once, in any order, and may move less than it was asked
/// for.
class AsyncIo {
 public:
  AsyncIo() = default;
  virtual ~AsyncIo() = default;
  AsyncIo(const AsyncIo&) = delete;
  AsyncIo& operator=(const AsyncIo&) = delete;

  [[nodiscard]] virtual const char* name() const = 0;
  [[nodiscard]] virtual std::uint32_t depth() const = 0;
  /// REQUIRES: fewer than depth() were asked for and not reaped.
  virtual void queue(const IoRequest& request) = 0;
  virtual void flush() = 0;
  virtual std::size_t reap(std::span<IoDone> into) = 0;
  /// Waits until the system uses no memory of requests any more; none of them will be reaped. Only close() comes after
  /// it.
  virtual void end() = 0;
  /// Readable when reap() has something, until calm(); -1: there is none.
  [[nodiscard]] virtual int wake_fd() const = 0;
  virtual void wake() = 0;
  virtual void calm() = 0;

  // ---- short calls: 0 or what is asked for, or -errno ----

  [[nodiscard]] virtual int open(const std::string& path, const IoOpen& how) = 0;  // a handle
  virtual void close(int handle) = 0;
  /// Nobody else has it locked as long as it is open. -EWOULDBLOCK: somebody has, and does not end soon.
  [[nodiscard]] virtual int lock(int handle) = 0;
  virtual void unlock(int handle) = 0;
  [[nodiscard]] virtual std::int64_t length(int handle) = 0;
  /// What the file system gives or does not give at once.
  [[nodiscard]] virtual std::uint64_t block_bytes(int handle) = 0;
  [[nodiscard]] virtual int truncate(int handle, std::uint64_t bytes) = 0;
  [[nodiscard]] virtual int sync_now(int handle) = 0;
  /// All of it, or up to the end of the file: how much it was.
  [[nodiscard]] virtual std::int64_t read_now(int handle, std::uint64_t offset, std::span<std::byte> into) = 0;
  /// All of it.
  [[nodiscard]] virtual int write_now(int handle, std::uint64_t offset, std::span<const std::byte> from) = 0;
  [[nodiscard]] virtual int remove(const std::string& path) = 0;
  /// Of the file of this name: that it is there, or is not, is durable.
  [[nodiscard]] virtual int sync_folder(const std::string& path) = 0;
};

/// Null where the system forbids it; `error` says why.
[[nodiscard]] std::unique_ptr<AsyncIo> make_uring_io(std::uint32_t depth, int& error);
/// Throws Error.
[[nodiscard]] std::unique_ptr<AsyncIo> make_thread_io(std::uint32_t depth);

class PageStore;
/// The store over any of them.
[[nodiscard]] std::unique_ptr<PageStore> make_page_store(std::shared_ptr<AsyncIo> io);

}  // namespace atoll::storage
