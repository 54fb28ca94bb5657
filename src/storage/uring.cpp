// Requests of a page store through io_uring.
#include <liburing.h>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <vector>

#include "base/check.hpp"
#include "base/mutex.hpp"
#include "storage/system_io.hpp"

namespace atoll::storage {
namespace {

/// Thread-safety: see AsyncIo; threads that run calls touch only what called_lock_ guards.
class UringIo final : public SystemIo {
 public:
  explicit UringIo(std::uint32_t depth) : SystemIo(depth) {}

  /// 0 or -errno.
  [[nodiscard]] int begin() {
    const int made = ::io_uring_queue_init(depth(), &ring_, IORING_SETUP_CLAMP);
    if (made < 0) return made;
    has_ring_ = true;
    if (*ring_.sq.kring_entries < depth()) return -E2BIG;
    return ::io_uring_register_eventfd(&ring_, wake_fd());
  }

  ~UringIo() override { UringIo::end(); }

  void end() override {
    for (std::thread& one : callers_) one.join();
    callers_.clear();
    if (!has_ring_) return;
    io_uring_cqe* cqe = nullptr;
    while (in_ring_ > ::io_uring_sq_ready(&ring_)) {  // what is not submitted yet the system does not know of
      const int got = ::io_uring_wait_cqe(&ring_, &cqe);
      if (got == -EINTR) continue;
      if (got != 0) break;
      ::io_uring_cqe_seen(&ring_, cqe);
      --in_ring_;
    }
    ::io_uring_queue_exit(&ring_);
    has_ring_ = false;
  }

  [[nodiscard]] const char* name() const override { return "io_uring"; }

  void queue(const IoRequest& request) override {
    if (request.kind == IoKind::kCall) return start_call(request);
    io_uring_sqe* const sqe = ::io_uring_get_sqe(&ring_);
    ATOLL_CHECK(sqe != nullptr);  // no more than depth() are under way, and so many fit
    switch (request.kind) {
      case IoKind::kRead:
        ::io_uring_prep_readv(sqe, request.handle, request.parts.data(), unsigned(request.parts.size()),
                              request.offset);
        break;
      case IoKind::kWrite:
        ::io_uring_prep_writev(sqe, request.handle, request.parts.data(), unsigned(request.parts.size()),
                               request.offset);
        break;
      case IoKind::kSync: ::io_uring_prep_fsync(sqe, request.handle, IORING_FSYNC_DATASYNC); break;
      case IoKind::kCall: break;
    }
    ::io_uring_sqe_set_data64(sqe, request.id);
    ++in_ring_;
  }

  void flush() override {
    while (::io_uring_sq_ready(&ring_) > 0) {
      const int submitted = ::io_uring_submit(&ring_);
      if (submitted > 0 || submitted == -EINTR) continue;
      wake();  // the system is short of something: reap() tries again
      return;
    }
  }

  std::size_t reap(std::span<IoDone> into) override {
    std::size_t count = 0;
    io_uring_cqe* cqe = nullptr;
    while (count < into.size() && ::io_uring_peek_cqe(&ring_, &cqe) == 0) {
      into[count++] = {::io_uring_cqe_get_data64(cqe), cqe->res};
      ::io_uring_cqe_seen(&ring_, cqe);
      --in_ring_;
    }
    const base::MutexLock lock(called_lock_);
    while (count < into.size() && !called_.empty()) {
      into[count++] = called_.back();
      called_.pop_back();
    }
    return count;
  }

 private:
  /// Rare: it is for what follows a failure.
  void start_call(const IoRequest& request) {
    callers_.emplace_back([this, call = request.call, id = request.id] {
      const int result = (*call)();
      const base::MutexLock lock(called_lock_);
      called_.push_back({id, result});
      wake();
    });
  }

  io_uring ring_{};
  bool has_ring_ = false;
  std::uint32_t in_ring_ = 0;
  std::vector<std::thread> callers_;
  base::Mutex called_lock_;
  std::vector<IoDone> called_ ATOLL_GUARDED_BY(called_lock_);
};

}  // namespace

std::unique_ptr<AsyncIo> make_uring_io(std::uint32_t depth, int& error) {
  auto io = std::make_unique<UringIo>(depth);
  error = -io->begin();
  if (error != 0) return nullptr;
  return io;
}

}  // namespace atoll::storage
