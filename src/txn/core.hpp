// What a Database is made of: its tables, and who holds locks.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "txn/table.hpp"

namespace atoll::txn {

/// Who the transactions of this and of other nodes are.
///
/// Each process of a node has a number, its life, and writes it to a word of global memory before its first
/// transaction. A lock whose holder is of another life than its node's word says was left by a process that is over:
/// what it wanted to do there was not done, for a commit frees the locks of what it changes in the same step. So it is
/// nobody's.
///
/// Thread-safety: any thread.
class Owners {
 public:
  /// Throws Error.
  explicit Owners(Node& node);
  /// No other of any node is the same.
  [[nodiscard]] Id next() noexcept;
  /// Those that follow are younger than this one.
  void note(Id other) noexcept;
  /// Was this left by a process that is over? kNodeDied: by one of a node that nobody will take over, so that it stays.
  [[nodiscard]] Result<bool> is_over(Id holder) const noexcept;

 private:
  Node& node_;
  global_ptr<std::uint64_t> lives_;  // of each node, each in a line of its own
  std::uint64_t life_;
};

/// What a transaction that begins again has met.
enum class Conflict : std::uint8_t { kNone, kLocked, kChanged };

/// Thread-safety: any thread.
class Database::Core {
 public:
  Core(Node& node, DatabaseOptions options);

  const TableData& table(std::string_view name, const Schema& schema, const TableOptions& options,
                         std::chrono::milliseconds patience);
  Status transact(const Database& database, const std::function<Status(Txn&)>& function);

  [[nodiscard]] Node& node() const noexcept { return node_; }
  [[nodiscard]] Owners& owners() noexcept { return owners_; }
  [[nodiscard]] const DatabaseOptions& options() const noexcept { return options_; }
  void pause(std::chrono::nanoseconds time) const;

  struct Counts {
    std::atomic<std::uint64_t> commits{0}, aborts{0}, lock_conflicts{0}, read_conflicts{0}, locks_cleared{0};
  };
  Counts counts;

 private:
  std::unique_ptr<TableData> open(const std::string& name, const Schema& schema, const TableOptions& options,
                                  std::chrono::milliseconds patience);
  [[nodiscard]] std::chrono::nanoseconds backoff(unsigned attempt);

  Node& node_;
  const DatabaseOptions options_;
  Owners owners_;
  std::atomic<std::uint64_t> random_;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<TableData>, std::less<>> tables_;  // by name; none ever goes
};

}  // namespace atoll::txn
