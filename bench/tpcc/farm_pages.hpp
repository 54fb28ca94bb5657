// Huge pages for memory that is about to be used, made on the side.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace atoll::bench::tpcc {

/// A thread that has huge pages made where somebody wants them. The kernel may take long for that, above all where all
/// processors are busy (it waits for each of them), and who wants them may have locks.
///
/// Thread-safety: `want` from any thread.
class FarmPages {
 public:
  using Part = std::span<const std::byte>;

  explicit FarmPages(std::function<void(Part)> make) : make_(std::move(make)), thread_([this] { run(); }) {}
  ~FarmPages() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  FarmPages(const FarmPages&) = delete;
  FarmPages& operator=(const FarmPages&) = delete;

  void want(Part part) {
    {
      const std::lock_guard lock(mutex_);
      wanted_.push_back(part);
    }
    changed_.notify_one();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (!is_over_) {
      if (wanted_.empty()) {
        changed_.wait(lock);
        continue;
      }
      const Part part = wanted_.back();  // the latest is needed most
      wanted_.pop_back();
      lock.unlock();
      make_(part);
      lock.lock();
    }
  }

  const std::function<void(Part)> make_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Part> wanted_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace atoll::bench::tpcc
