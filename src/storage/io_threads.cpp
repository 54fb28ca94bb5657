// Requests of a page store by threads that call pread and pwrite, where io_uring is not to be had.
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <thread>
#include <vector>

#include "base/mutex.hpp"
#include "storage/system_io.hpp"

namespace atoll::storage {
namespace {

constexpr std::uint32_t kMostThreads = 8;

/// Thread-safety: see AsyncIo; lock_ guards what the threads share with the caller.
class ThreadIo final : public SystemIo {
 public:
  explicit ThreadIo(std::uint32_t depth) : SystemIo(depth) {
    for (std::uint32_t k = 0; k < std::min(depth, kMostThreads); ++k) {
      threads_.emplace_back([this] { work(); });
    }
  }

  ~ThreadIo() override { ThreadIo::end(); }

  void end() override {
    {
      const base::MutexLock lock(lock_);
      ends_ = true;
      asked_.clear();
    }
    changed_.notify_all();
    for (std::thread& one : threads_) one.join();
    threads_.clear();
  }

  [[nodiscard]] const char* name() const override { return "threads"; }
  void queue(const IoRequest& request) override { queued_.push_back(request); }

  void flush() override {
    if (queued_.empty()) return;
    {
      const base::MutexLock lock(lock_);
      asked_.insert(asked_.end(), queued_.begin(), queued_.end());
    }
    if (queued_.size() == 1) {
      changed_.notify_one();
    } else {
      changed_.notify_all();
    }
    queued_.clear();
  }

  std::size_t reap(std::span<IoDone> into) override {
    const base::MutexLock lock(lock_);
    const std::size_t count = std::min(into.size(), done_.size());
    std::copy_n(done_.begin(), count, into.begin());
    done_.erase(done_.begin(), done_.begin() + std::ptrdiff_t(count));
    return count;
  }

 private:
  [[nodiscard]] static std::int64_t carry_out(const IoRequest& request) {
    const int count = int(request.parts.size());
    std::int64_t result = 0;
    switch (request.kind) {
      case IoKind::kRead: result = ::preadv(request.handle, request.parts.data(), count, off_t(request.offset)); break;
      case IoKind::kWrite:
        result = ::pwritev(request.handle, request.parts.data(), count, off_t(request.offset));
        break;
      case IoKind::kSync: result = ::fdatasync(request.handle); break;
      case IoKind::kCall: return (*request.call)();
    }
    return result >= 0 ? result : -errno;
  }

  void work() {
    for (;;) {
      IoRequest request;
      {
        const base::MutexLock lock(lock_);
        while (asked_.empty() && !ends_) changed_.wait(lock_);
        if (ends_) return;
        request = asked_.front();
        asked_.pop_front();
      }
      const std::int64_t result = carry_out(request);
      {
        const base::MutexLock lock(lock_);
        done_.push_back({request.id, result});
      }
      wake();
    }
  }

  std::vector<IoRequest> queued_;  // and not flushed
  base::Mutex lock_;
  std::condition_variable_any changed_;
  std::deque<IoRequest> asked_ ATOLL_GUARDED_BY(lock_);
  std::deque<IoDone> done_ ATOLL_GUARDED_BY(lock_);
  bool ends_ ATOLL_GUARDED_BY(lock_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<AsyncIo> make_thread_io(std::uint32_t depth) {
  return std::make_unique<ThreadIo>(depth);
}

}  // namespace atoll::storage
