// The short calls of the system's files, which io_uring and threads share.
#pragma once

#include <memory>
#include <string>

#include "base/fd.hpp"
#include "storage/async_io.hpp"

namespace atoll::storage {

/// Thread-safety: see AsyncIo. A handle is a file descriptor.
class SystemIo : public AsyncIo {
 public:
  /// Throws Error.
  explicit SystemIo(std::uint32_t depth);

  [[nodiscard]] std::uint32_t depth() const override { return depth_; }
  [[nodiscard]] int wake_fd() const override { return wake_.get(); }
  void wake() override;
  void calm() override;

  [[nodiscard]] int open(const std::string& path, const IoOpen& how) override;
  void close(int handle) override;
  [[nodiscard]] int lock(int handle) override;
  void unlock(int handle) override;
  [[nodiscard]] std::int64_t length(int handle) override;
  [[nodiscard]] std::uint64_t block_bytes(int handle) override;
  [[nodiscard]] int truncate(int handle, std::uint64_t bytes) override;
  [[nodiscard]] int sync_now(int handle) override;
  [[nodiscard]] std::int64_t read_now(int handle, std::uint64_t offset, std::span<std::byte> into) override;
  [[nodiscard]] int write_now(int handle, std::uint64_t offset, std::span<const std::byte> from) override;
  [[nodiscard]] int remove(const std::string& path) override;
  [[nodiscard]] int sync_folder(const std::string& path) override;

 private:
  const std::uint32_t depth_;
  base::Fd wake_;
};

}  // namespace atoll::storage
