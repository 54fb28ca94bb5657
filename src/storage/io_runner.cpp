#include "storage/io_runner.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace atoll::storage {

void IoRunner::transfer(IoKind kind, int handle, std::uint64_t offset, std::vector<iovec> parts, std::uint64_t enough,
                        Then then) {
  Step step;
  step.kind = kind;
  step.handle = handle;
  step.offset = offset;
  step.enough = enough;
  step.parts = std::move(parts);
  step.then = std::move(then);
  start(std::move(step));
}

void IoRunner::sync(int handle, Then then) {
  Step step;
  step.kind = IoKind::kSync;
  step.handle = handle;
  step.then = std::move(then);
  start(std::move(step));
}

void IoRunner::call(std::function<int()> work, Then then) {
  Step step;
  step.kind = IoKind::kCall;
  step.work = std::move(work);
  step.then = std::move(then);
  start(std::move(step));
}

void IoRunner::start(Step step) {
  if (free_.empty()) {
    free_.push_back(steps_.size());
    steps_.emplace_back();
  }
  const std::uint64_t id = free_.back();
  free_.pop_back();
  steps_[id] = std::move(step);
  waiting_.push_back(id);
  hand_on();
}

void IoRunner::hand_on() {
  for (; !waiting_.empty() && with_disk_ < io_.depth(); ++with_disk_) {
    const std::uint64_t id = waiting_.front();
    waiting_.pop_front();
    const Step& step = steps_[id];
    io_.queue({step.kind, step.handle, step.offset, step.parts, &step.work, id});
  }
}

void IoRunner::advance(Step& step, std::uint64_t bytes) {
  step.moved += bytes;
  step.offset += bytes;
  std::size_t done = 0;
  for (; done < step.parts.size() && step.parts[done].iov_len <= bytes; ++done) bytes -= step.parts[done].iov_len;
  step.parts.erase(step.parts.begin(), step.parts.begin() + std::ptrdiff_t(done));
  if (bytes == 0) return;
  step.parts.front().iov_base = static_cast<std::byte*>(step.parts.front().iov_base) + bytes;
  step.parts.front().iov_len -= bytes;
}

bool IoRunner::goes_on(Step& step, std::int64_t result, int& error) {
  if (result == -EINTR || result == -EAGAIN) {
    if (step.kind != IoKind::kSync && ++step.idle_tries < kMostIdleTries) return true;
  }
  if (result < 0) {
    error = int(-result);
    return false;
  }
  if (step.kind == IoKind::kSync || step.kind == IoKind::kCall) return false;
  if (step.moved + std::uint64_t(result) >= step.enough) {
    step.moved = step.enough;
    return false;
  }
  if (result == 0 && step.kind == IoKind::kRead) return false;  // the end of the file
  const std::uint64_t whole = std::uint64_t(result) / kSector * kSector;
  advance(step, whole);
  step.idle_tries = whole > 0 ? 0 : step.idle_tries + 1;
  if (step.idle_tries < kMostIdleTries) return true;
  error = EIO;
  return false;
}

void IoRunner::reap() {
  std::array<IoDone, 64> done;
  for (;;) {
    const std::size_t count = io_.reap(done);
    for (std::size_t k = 0; k < count; ++k) {
      --with_disk_;
      Step& step = steps_[done[k].id];
      int error = 0;
      if (goes_on(step, done[k].result, error)) {
        waiting_.push_front(done[k].id);
        continue;
      }
      const Then then = std::move(step.then);
      const std::uint64_t moved = step.moved;
      step = {};
      free_.push_back(done[k].id);
      then(error, moved);
    }
    hand_on();
    if (count < done.size()) return;
  }
}

}  // namespace atoll::storage
