// A FaultyDisk as page stores see it: requests that take their time, end in any order, and do half of what they should.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "storage/async_io.hpp"
#include "storage/faulty_page_store.hpp"

namespace atoll::storage {

/// Thread-safety: none. Deterministic.
/// Invariants: a request has its effect when it is done, all at once, or a part of it in a crash.
class SimulatedIo final : public AsyncIo {
 public:
  SimulatedIo(FaultyDisk& disk, std::uint64_t seed, std::function<std::int64_t()> clock, std::uint32_t depth)
      : disk_(disk), random_(seed), clock_(std::move(clock)), depth_(depth) {}

  void set_faults(const PageFaults& faults) { faults_ = faults; }
  void fail_next(std::uint32_t n, int error);
  void fail_next(Operation kind, std::uint32_t n, int error);
  /// Each request under way is done, or not, or a part of it; all handles are closed.
  void crash(bool power);
  [[nodiscard]] std::int64_t next_due() const;
  [[nodiscard]] std::uint64_t requests() const { return requests_; }

  [[nodiscard]] const char* name() const override { return "a simulated disk"; }
  [[nodiscard]] std::uint32_t depth() const override { return depth_; }
  void queue(const IoRequest& request) override;
  void flush() override {}
  std::size_t reap(std::span<IoDone> into) override;
  void end() override { under_way_.clear(); }
  [[nodiscard]] int wake_fd() const override { return -1; }
  void wake() override { woken_ = true; }
  void calm() override { woken_ = false; }

  [[nodiscard]] int open(const std::string& path, const IoOpen& how) override;
  void close(int handle) override;
  [[nodiscard]] int lock(int handle) override;
  void unlock(int handle) override;
  [[nodiscard]] std::int64_t length(int handle) override;
  [[nodiscard]] std::uint64_t block_bytes(int) override { return 4096; }
  [[nodiscard]] int truncate(int handle, std::uint64_t bytes) override;
  [[nodiscard]] int sync_now(int handle) override;
  [[nodiscard]] std::int64_t read_now(int handle, std::uint64_t offset, std::span<std::byte> into) override;
  [[nodiscard]] int write_now(int handle, std::uint64_t offset, std::span<const std::byte> from) override;
  [[nodiscard]] int remove(const std::string& path) override;
  [[nodiscard]] int sync_folder(const std::string& path) override;

 private:
  struct Handle {
    std::unique_ptr<File> file;  // null: the handle is free
    std::string name;
    bool locked = false;
    bool read_only = false;
  };
  struct UnderWay {
    IoRequest request;
    std::int64_t due = 0;
    std::uint64_t order = 0;  // among those of the same time
  };

  [[nodiscard]] std::int64_t now() const { return clock_ ? clock_() : 0; }
  [[nodiscard]] Handle& at(int handle);
  /// 0, or the errno that it fails with.
  [[nodiscard]] int planned_failure(IoKind kind);
  [[nodiscard]] std::int64_t carry_out(const IoRequest& request);
  [[nodiscard]] std::int64_t read(const IoRequest& request, std::uint64_t most);
  [[nodiscard]] std::int64_t write(const IoRequest& request, std::uint64_t most);
  /// 0 to `bytes`, a multiple of a sector if it is less.
  [[nodiscard]] std::uint64_t some_of(std::uint64_t bytes);

  FaultyDisk& disk_;
  base::Random random_;
  const std::function<std::int64_t()> clock_;
  const std::uint32_t depth_;
  PageFaults faults_;
  std::uint32_t failing_[4] = {};  // by Operation kRead, kWrite, kSync; then any
  int errors_[4] = {};
  std::vector<Handle> handles_;
  std::vector<UnderWay> under_way_;
  std::uint64_t requests_ = 0;
  bool woken_ = false;
};

}  // namespace atoll::storage
