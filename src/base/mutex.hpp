// A mutex that clang's thread-safety analysis understands.
#pragma once

#include "atoll/detail/lab.hpp"
#include "atoll/detail/namespace.hpp"

#include <mutex>

#if defined(__clang__)
#define ATOLL_TSA(x) __attribute__((x))
#else
#define ATOLL_TSA(x)
#endif

#define ATOLL_GUARDED_BY(x) ATOLL_TSA(guarded_by(x))
#define ATOLL_REQUIRES(...) ATOLL_TSA(requires_capability(__VA_ARGS__))
#define ATOLL_EXCLUDES(...) ATOLL_TSA(locks_excluded(__VA_ARGS__))
#define ATOLL_NO_THREAD_SAFETY_ANALYSIS ATOLL_TSA(no_thread_safety_analysis)

namespace atoll::base {

class ATOLL_TSA(capability("mutex")) Mutex {
 public:
#ifdef ATOLL_LAB  // who holds it may be a fiber of the same thread, which must get the chance to go on
  void lock() ATOLL_TSA(acquire_capability()) ATOLL_NO_THREAD_SAFETY_ANALYSIS {
    while (!mutex_.try_lock()) ATOLL_GIVE_WAY();
  }
#else
  void lock() ATOLL_TSA(acquire_capability()) {
    mutex_.lock();
  }
#endif
  void unlock() ATOLL_TSA(release_capability()) {
    mutex_.unlock();
  }
  bool try_lock() ATOLL_TSA(try_acquire_capability(true)) {
    return mutex_.try_lock();
  }

 private:
  std::mutex mutex_;
};

class ATOLL_TSA(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ATOLL_TSA(acquire_capability(mutex)) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() ATOLL_TSA(release_capability()) { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace atoll::base
