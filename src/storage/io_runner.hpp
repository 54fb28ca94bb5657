// Requests to the end: what a disk has done half is continued, and what is too much at once waits.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "storage/async_io.hpp"

namespace atoll::storage {

/// Thread-safety: none; the caller serialises all calls.
/// Invariants: no more than the disk's depth are with it; the others wait in the order in which they came.
class IoRunner {
 public:
  /// 0 or an errno, and how many bytes were moved.
  using Then = std::function<void(int error, std::uint64_t moved)>;

  explicit IoRunner(AsyncIo& io) : io_(io) {}

  /// Up to `enough` bytes, or to the end of the file. REQUIRES: offset and addresses are multiples of kSector.
  void transfer(IoKind kind, int handle, std::uint64_t offset, std::vector<iovec> parts, std::uint64_t enough,
                Then then);
  void sync(int handle, Then then);
  void call(std::function<int()> work, Then then);
  /// Ends what has ended; what comes next of it is asked for at once.
  void reap();
  void flush() { io_.flush(); }
  [[nodiscard]] bool is_idle() const { return with_disk_ == 0 && waiting_.empty(); }

 private:
  static constexpr std::uint64_t kSector = 512;  // direct I/O goes on at a multiple of it
  static constexpr int kMostIdleTries = 64;      // that have moved nothing

  struct Step {
    IoKind kind = IoKind::kRead;
    int handle = -1;
    int idle_tries = 0;
    std::uint64_t offset = 0;
    std::uint64_t moved = 0;
    std::uint64_t enough = 0;
    std::vector<iovec> parts;  // what is left of them
    std::function<int()> work;
    Then then;
  };

  void start(Step step);
  void hand_on();
  /// True: it goes on.
  [[nodiscard]] bool goes_on(Step& step, std::int64_t result, int& error);
  static void advance(Step& step, std::uint64_t bytes);

  AsyncIo& io_;
  std::deque<Step> steps_;  // by id; they stay where they are
  std::vector<std::uint64_t> free_;
  std::deque<std::uint64_t> waiting_;
  std::uint32_t with_disk_ = 0;
};

}  // namespace atoll::storage
