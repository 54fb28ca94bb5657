// The thread that syncs a log of mode power, for all who wait at once.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "atoll/status.hpp"
#include "base/host.hpp"
#include "log/log.hpp"

namespace atoll::log {

/// While one sync is under way requests gather, and the next sync is for all of them.
/// Thread-safety: every method may be called from any thread.
/// Invariants:
///   1. After request() durable() reaches what last() was, or the log has failed.
///   2. Nothing is synced that nobody asked for.
class GroupCommit {
 public:
  /// Called by its thread after each sync: with what is durable now, or with why nothing will be any more.
  using OnDurable = std::function<void(Sequence durable, Status status)>;

  GroupCommit(Log& log, base::Host& host, OnDurable on_durable);
  /// Does what was requested, and ends.
  ~GroupCommit();
  GroupCommit(const GroupCommit&) = delete;
  GroupCommit& operator=(const GroupCommit&) = delete;

  /// All that was appended so far, soon.
  void request() noexcept;
  /// Returns when `sequence` is durable. kStorage: it will not be.
  [[nodiscard]] Status wait(Sequence sequence);

 private:
  void run();
  void sleep();

  Log& log_;
  base::Host& host_;
  const OnDurable on_durable_;
  std::atomic<Sequence> wanted_{0};
  std::atomic<std::uint32_t> requests_{0};  // a word to sleep on: one more for each
  std::atomic<std::uint32_t> sleeping_{0};
  std::atomic<std::uint32_t> rounds_{0};  // the same for those who wait
  std::atomic<std::uint32_t> waiting_{0};
  std::atomic<bool> over_{false};
  std::unique_ptr<base::Host::Thread> thread_;
};

}  // namespace atoll::log
