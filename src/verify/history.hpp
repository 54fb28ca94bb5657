// What clients saw: operations on shared objects with the times of call and return, and transactions. The checkers read
// these; tests record them. Each has a line of text, so that a history can be kept, cut and checked again.
#pragma once

#include "atoll/detail/namespace.hpp"

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace atoll::verify {

enum class Verdict : std::uint8_t {
  kAccepted,
  kRejected,
  kUnknown,  // the search was given up, or the history is not of the kind that can be judged
};
[[nodiscard]] const char* to_string(Verdict verdict) noexcept;

/// The return time of what never returned.
inline constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

enum class OpKind : std::uint8_t {
  kRead,
  kWrite,
  kExchange,
  kCompareExchange,
  kFetchAdd,
  kReadLock,
  kWriteLock,
  kTryReadLock,
  kTryWriteLock,
  kUnlockRead,
  kUnlockWrite,
};
inline constexpr int kOpKinds = int(OpKind::kUnlockWrite) + 1;
[[nodiscard]] const char* to_string(OpKind kind) noexcept;
/// Words and locks are different objects, also under one key.
[[nodiscard]] constexpr bool is_lock_kind(OpKind kind) noexcept {
  return kind >= OpKind::kReadLock;
}
[[nodiscard]] constexpr bool is_try_kind(OpKind kind) noexcept {
  return kind == OpKind::kTryReadLock || kind == OpKind::kTryWriteLock;
}

/// One call of one client, a thread of a process.
///
/// An operation that never returned, or returned an error, is *pending*: it may have taken effect at any time
/// after its call, may still do so, or never will. Its result is not known.
struct Operation {
  std::int64_t invoked = 0;         // nanoseconds of one clock for all clients
  std::int64_t responded = kNever;  // kNever: pending
  std::uint64_t argument = 0;       // the value written, put in by exchange or compare_exchange, or added
  std::uint64_t expected = 0;       // by compare_exchange
  std::uint64_t result = 0;         // the value found, of all but write and locks
  std::uint32_t key = 0;
  std::uint16_t process = 0;
  std::uint16_t thread = 0;
  OpKind kind = OpKind::kRead;
  bool refused = false;  // a try-lock's answer

  [[nodiscard]] constexpr bool pending() const noexcept { return responded == kNever; }
  [[nodiscard]] constexpr std::uint32_t client() const noexcept {
    return std::uint32_t(process) << 16 | std::uint32_t(thread);
  }
  friend bool operator==(const Operation&, const Operation&) = default;
};

/// Null when nothing is wrong with the operation itself; else what. For records from elsewhere.
[[nodiscard]] const char* what_is_wrong(const Operation& operation) noexcept;

/// "0.1 100 250 k3 compare_exchange 5 7 = 5": process.thread, call, return ("?" when pending), key, what, result.
[[nodiscard]] std::string to_string(const Operation& operation);
/// What was done, without who and when.
[[nodiscard]] std::string what(const Operation& operation);

/// A read or a write within a transaction.
struct Access {
  std::uint64_t key = 0;
  std::uint64_t value = 0;
  bool is_write = false;
  friend bool operator==(const Access&, const Access&) = default;
};

enum class Outcome : std::uint8_t {
  kCommitted,
  kAborted,
  kUnknown,  // its client died, or got an error: committed if somebody saw what it wrote
};
[[nodiscard]] const char* to_string(Outcome outcome) noexcept;

struct Transaction {
  std::int64_t invoked = 0;
  std::int64_t responded = kNever;
  std::vector<Access> accesses;  // in the order in which they were done
  std::uint16_t process = 0;
  std::uint16_t thread = 0;
  Outcome outcome = Outcome::kUnknown;
  friend bool operator==(const Transaction&, const Transaction&) = default;
};

[[nodiscard]] const char* what_is_wrong(const Transaction& transaction) noexcept;
/// "0.1 100 250 committed r3=5 w3=6".
[[nodiscard]] std::string to_string(const Transaction& transaction);

/// What was read from text; `error` names the first bad line and what is wrong with it, and is empty when all is well.
template <typename T>
struct Parsed {
  std::vector<T> all;
  std::string error;
};

/// One operation or transaction per line; empty lines and lines that begin with # are passed over.
[[nodiscard]] Parsed<Operation> parse_operations(std::string_view text);
[[nodiscard]] Parsed<Transaction> parse_transactions(std::string_view text);

/// For each lock that a client of `process` holds at the end (or may hold), a pending unlock at time `when`: the death
/// of the holder may free the lock, at any later time or never.
void release_by_death(std::vector<Operation>& history, std::uint16_t process, std::int64_t when);

}  // namespace atoll::verify
