// Huge pages for memory that is about to be used, made on the side.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/host.hpp"
#include "base/mutex.hpp"

namespace atoll::memory {

/// A thread that has huge pages made where somebody wants them. The kernel may take milliseconds for one, and much
/// longer where all processors are busy, for it waits for each of them; who wants them has the engine lock. Until they
/// are there the memory works as well, with small pages.
///
/// The thread begins with the first wish. In a world whose time stands still while threads work (the simulator) there
/// is none: `want` does it at once. Thread-safety: `want` from any thread.
class PageJoiner {
 public:
  using Make = std::function<void(const std::byte* begin, std::uint64_t bytes)>;

  /// `make` is called by one thread at a time.
  PageJoiner(base::Host& host, Make make) : host_(host), make_(std::move(make)) {}
  /// Waits for the part that is being made, not for those that are wanted.
  ~PageJoiner();
  PageJoiner(const PageJoiner&) = delete;
  PageJoiner& operator=(const PageJoiner&) = delete;

  void want(const std::byte* begin, std::uint64_t bytes) ATOLL_EXCLUDES(mutex_);

 private:
  struct Part {
    const std::byte* begin = nullptr;
    std::uint64_t bytes = 0;
  };
  static constexpr std::size_t kMostParts = 4096;  // more are not made: they are in use before their turn comes

  void run() ATOLL_EXCLUDES(mutex_);
  [[nodiscard]] bool take(Part& part) ATOLL_EXCLUDES(mutex_);

  base::Host& host_;
  const Make make_;
  base::Mutex mutex_;
  std::vector<Part> wanted_ ATOLL_GUARDED_BY(mutex_);
  std::unique_ptr<base::Host::Thread> thread_ ATOLL_GUARDED_BY(mutex_);
  std::atomic<std::uint32_t> bell_{0};  // futex
  std::atomic<bool> stopping_{false};
};

}  // namespace atoll::memory
