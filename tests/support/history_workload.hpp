// Threads that use few words, locks and accounts as hard as they can, and note what they saw.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "atoll/atoll.hpp"
#include "base/random.hpp"
#include "support/history_log.hpp"

namespace atoll::test {

/// Clients that do something wrong on purpose. A checker that accepts their histories would prove nothing.
enum class Mistake : std::uint8_t {
  kNone,
  kSplitAdd,     // a fetch_add made of a read and a write
  kOldRead,      // a read answered with what was read some time ago
  kEarlyUnlock,  // the lock is given up before its holder is done
  kNoLocks,      // transfers without locks
};
inline Mistake mistake_of(std::string_view name) {
  if (name == "split_add") return Mistake::kSplitAdd;
  if (name == "old_read") return Mistake::kOldRead;
  if (name == "early_unlock") return Mistake::kEarlyUnlock;
  if (name == "no_locks") return Mistake::kNoLocks;
  if (name != "none") throw Error("no such mistake: " + std::string(name));
  return Mistake::kNone;
}

struct Workload {
  std::uint64_t seed = 1;
  std::chrono::nanoseconds duration = std::chrono::seconds(1);
  std::uint64_t at_least = 0;  // so many of each client, however long that takes
  bool writes_wait = false;    // the node's consistency is SC: a write that has returned is visible
  Mistake mistake = Mistake::kNone;
  std::chrono::microseconds pause{0};          // after each operation: a long history that is not a large one
  bool death_expected = false;                 // go on until something has failed, and for a while after that
  std::atomic<std::uint64_t>* done = nullptr;  // counts what the clients have done, if it is given
};

/// When a client stops.
///
/// Thread-safety: one thread.
class Until {
 public:
  explicit Until(const Workload& workload) : workload_(workload), end_(now_ns() + workload.duration.count()) {
    latest_ = end_ + kPatience;
    if (workload.death_expected) end_ = latest_;
  }
  [[nodiscard]] bool is_over() const {
    const std::int64_t now = now_ns();
    return now >= latest_ || (now >= end_ && (done_ >= workload_.at_least || has_failed_));
  }
  void count() {
    ++done_;
    if (workload_.done != nullptr) workload_.done->fetch_add(1, std::memory_order_relaxed);
  }
  void failed() {
    if (workload_.death_expected && !has_failed_) end_ = now_ns() + kAfterFailure;
    has_failed_ = true;
  }

 private:
  static constexpr std::int64_t kPatience = 60'000'000'000;
  static constexpr std::int64_t kAfterFailure = 800'000'000;
  const Workload& workload_;
  std::int64_t end_;
  std::int64_t latest_ = 0;
  std::uint64_t done_ = 0;
  bool has_failed_ = false;
};

/// What the threads work on: lines that all use, homes in turn, and a region to sweep through.
struct Field {
  std::vector<GlobalAddress> lines;
  GlobalAddress sweep;
  std::uint32_t sweep_lines = 0;
  std::uint32_t line_bytes = 0;
};
inline constexpr std::uint32_t kSweepLines = 192;  // three times the smallest cache

/// Keys of line n: two registers, a counter and the lock.
constexpr std::uint32_t key_of(std::size_t line, std::uint32_t word) {
  return std::uint32_t(line) * 4 + word;
}
inline constexpr std::uint32_t kRegisters = 2;
inline constexpr std::uint32_t kCounter = 2;
inline constexpr std::uint32_t kLock = 3;

/// One client of words and locks.
///
/// Every call is noted before it begins. One that returns an error stays pending, and its thread does not use that line
/// again: so each client adds a handful of pending operations at most.
///
/// Thread-safety: one thread.
class WordClient {
 public:
  WordClient(Node& node, const Field& field, const Workload& workload, OperationLog& log, std::uint64_t client)
      : node_(node),
        field_(field),
        workload_(workload),
        log_(log),
        until_(workload),
        random_(workload.seed * 1000 + client),
        unique_((client + 1) << 40),
        lost_(field.lines.size(), false),
        seen_(field.lines.size() * 4, 0) {}

  void run() {
    sweep(field_.sweep_lines);  // from the start on there is no room
    while (!until_.is_over() && !log_.full()) {
      const std::size_t line = random_.below(field_.lines.size());
      if (lost_[line]) {
        if (std::all_of(lost_.begin(), lost_.end(), [](bool lost) { return lost; })) return;
        continue;
      }
      step(line);
      until_.count();
      // On few processors a thread would do thousands of hits in a row, and nobody would meet anybody.
      if (random_.chance(0.1)) std::this_thread::yield();
      if (workload_.pause.count() > 0) std::this_thread::sleep_for(workload_.pause);
    }
  }

 private:
  using Word = global_ptr<std::uint64_t>;
  using OpKind = verify::OpKind;

  [[nodiscard]] Word word(std::size_t line, std::uint32_t index) const {
    // The registers side by side, the counter at the other end of the line.
    const std::int64_t offset = index == kCounter ? std::int64_t(field_.line_bytes) - 8 : std::int64_t(index) * 8;
    return Word(field_.lines[line] + offset);
  }
  void step(std::size_t line) {
    const std::uint64_t dice = random_.below(100);
    if (dice < 70) {
      access(line, true);
    } else if (dice < 82) {
      add(line);
    } else if (dice < 97) {
      lock(line);
    } else {
      sweep(24);
    }
  }
  /// Notes the end of a call; false when it failed.
  bool ended(std::size_t line, const Status& status, std::uint64_t result = 0) {
    if (status.ok()) {
      log_.returned(result);
      return true;
    }
    lost_[line] = true;
    until_.failed();
    return false;
  }

  void access(std::size_t line, bool may_change) {
    const auto index = std::uint32_t(random_.below(kRegisters));
    const std::uint32_t key = key_of(line, index);
    const Word at = word(line, index);
    const std::uint64_t dice = may_change ? random_.below(100) : 0;
    if (dice < 45) {
      log_.called(OpKind::kRead, key);
      const auto got = node_.read(at);
      const bool old = workload_.mistake == Mistake::kOldRead && random_.chance(0.2);
      if (ended(line, got.status(), old ? seen_[key] : got.value_or(0)) && !old) seen_[key] = *got;
    } else if (dice < 70) {
      const std::uint64_t value = ++unique_;
      log_.called(OpKind::kWrite, key, value);
      ended(line, write_through(at, value));
    } else if (dice < 82) {
      const std::uint64_t value = ++unique_;
      log_.called(OpKind::kExchange, key, value);
      const auto got = node_.exchange(at, value);
      if (ended(line, got.status(), got.value_or(0))) seen_[key] = value;
    } else {
      const std::uint64_t value = ++unique_;
      log_.called(OpKind::kCompareExchange, key, value, seen_[key]);
      const auto got = node_.compare_exchange(at, seen_[key], value);
      if (ended(line, got.status(), got.value_or(0))) seen_[key] = *got == seen_[key] ? value : *got;
    }
  }
  /// Returns when the write is visible to all: under PSO and TSO one that hits may still be in the processor.
  Status write_through(Word at, std::uint64_t value) {
    if (!workload_.writes_wait && random_.chance(0.3)) return node_.write(at, value, Consistency::kSc);
    const Status wrote = node_.write(at, value);
    return wrote.ok() && !workload_.writes_wait ? node_.fence() : wrote;
  }
  void add(std::size_t line) {
    const std::uint32_t key = key_of(line, kCounter);
    const Word at = word(line, kCounter);
    if (random_.chance(0.3)) {
      log_.called(OpKind::kRead, key);
      const auto got = node_.read(at);
      ended(line, got.status(), got.value_or(0));
      return;
    }
    const std::uint64_t amount = 1 + random_.below(3);
    log_.called(OpKind::kFetchAdd, key, amount);
    if (workload_.mistake == Mistake::kSplitAdd) {
      const auto got = node_.read(at);
      std::this_thread::yield();
      const Status wrote = got.ok() ? write_through(at, *got + amount) : got.status();
      ended(line, wrote, got.value_or(0));
      return;
    }
    const auto got = node_.fetch_add(at, amount);
    ended(line, got.status(), got.value_or(0));
  }
  void lock(std::size_t line) {
    const GlobalAddress at = field_.lines[line];
    const bool exclusive = random_.chance(0.5), attempt = random_.chance(0.4);
    const std::uint32_t key = key_of(line, kLock);
    log_.called(OpKind(int(OpKind::kReadLock) + (attempt ? 2 : 0) + (exclusive ? 1 : 0)), key);
    const Status got = attempt ? (exclusive ? node_.try_write_lock(at, 8) : node_.try_read_lock(at, 8))
                               : (exclusive ? node_.write_lock(at, 8) : node_.read_lock(at, 8));
    if (got.code() == Errc::kRefused) return log_.returned(0, true);
    if (!ended(line, got)) return;
    const bool early = workload_.mistake == Mistake::kEarlyUnlock;
    Status unlocked;
    if (early) unlocked = node_.unlock(at, 8);
    // A holder may do to the line what its lock is for; what it writes need not wait for anybody.
    for (std::uint64_t i = random_.below(3); i > 0 && !lost_[line] && !log_.full(); --i) access(line, exclusive);
    if (random_.chance(0.2)) std::this_thread::yield();
    log_.called(exclusive ? OpKind::kUnlockWrite : OpKind::kUnlockRead, key);
    ended(line, early ? unlocked : node_.unlock(at, 8));
  }
  /// Reads lines that nobody needs, so that those that are needed must leave the cache.
  void sweep(std::uint32_t number) {
    for (std::uint32_t i = 0, first = std::uint32_t(random_.below(field_.sweep_lines)); i < number; ++i) {
      const std::uint32_t line = (first + i * 5) % field_.sweep_lines;
      if (!node_.read<std::uint64_t>(field_.sweep + std::int64_t(line) * field_.line_bytes).ok()) return;
    }
  }

  Node& node_;
  const Field& field_;
  const Workload& workload_;
  OperationLog& log_;
  Until until_;
  base::Random random_;
  std::uint64_t unique_;
  std::vector<bool> lost_;           // lines that a call has failed on
  std::vector<std::uint64_t> seen_;  // of each key, what this client saw last: what compare_exchange expects
};

/// A word of an account: a balance, which may be below zero, and a number that makes the value unique.
inline std::int64_t balance_of(std::uint64_t value) {
  return std::int16_t(value >> 48);
}
inline std::uint64_t account_value(std::int64_t balance, std::uint64_t unique) {
  return std::uint64_t(std::uint16_t(balance)) << 48 | unique;
}

/// One client who moves money between accounts, a line each, under locks of all lines concerned: two-phase locking.
///
/// Thread-safety: one thread.
class AccountClient {
 public:
  AccountClient(Node& node, const Field& field, const Workload& workload, TransactionLog& log, std::uint64_t client)
      : node_(node),
        field_(field),
        workload_(workload),
        log_(log),
        until_(workload),
        random_(workload.seed * 1000 + client),
        unique_((client + 1) << 32) {
    for (std::size_t i = 0; i < field.lines.size(); ++i) usable_.push_back(i);
  }

  void run() {
    while (!until_.is_over() && !log_.full() && usable_.size() >= 3) {
      transact();
      until_.count();
    }
  }
  /// Whether a look at all accounts under their locks ever showed that money was made or lost.
  [[nodiscard]] int wrong_totals() const { return wrong_totals_; }

 private:
  void transact() {
    const bool audit = random_.chance(0.2);
    std::vector<std::size_t> accounts = usable_;
    if (!audit || random_.chance(0.5)) {
      std::shuffle(accounts.begin(), accounts.end(), random_);
      accounts.resize(2 + random_.below(2));
    }
    // Locks are taken in the order of addresses, or two might wait for each other.
    std::sort(accounts.begin(), accounts.end(),
              [&](std::size_t a, std::size_t b) { return field_.lines[a] < field_.lines[b]; });
    log_.begin();
    std::size_t locked = 0;
    Status status;
    for (; workload_.mistake != Mistake::kNoLocks && locked < accounts.size(); ++locked) {
      const GlobalAddress at = field_.lines[accounts[locked]];
      status = audit ? node_.read_lock(at, 8) : node_.write_lock(at, 8);
      if (!status.ok()) break;
    }
    if (!status.ok()) give_up(accounts[locked]);
    bool wrote = false;
    if (status.ok()) status = audit ? look(accounts) : move(accounts, wrote);
    for (std::size_t i = 0; i < locked; ++i) {
      const Status unlocked = node_.unlock(field_.lines[accounts[i]], 8);
      if (status.ok()) status = unlocked;
      if (!unlocked.ok()) give_up(accounts[i]);
    }
    if (workload_.mistake == Mistake::kNoLocks && status.ok()) status = node_.fence();
    log_.end(status.ok() ? verify::Outcome::kCommitted : wrote ? verify::Outcome::kUnknown : verify::Outcome::kAborted);
  }
  Result<std::uint64_t> read(std::size_t account) {
    const auto got = node_.read(global_ptr<std::uint64_t>(field_.lines[account]));
    if (got.ok()) {
      log_.note(account, *got, false);
    } else {
      give_up(account);
    }
    return got;
  }
  Status look(const std::vector<std::size_t>& accounts) {
    std::int64_t total = 0;
    for (const std::size_t account : accounts) {
      const auto got = read(account);
      if (!got.ok()) return got.status();
      total += balance_of(*got);
    }
    wrong_totals_ += accounts.size() == field_.lines.size() && total != 0;
    return {};
  }
  Status move(const std::vector<std::size_t>& accounts, bool& wrote) {
    std::int64_t left = 0;  // what was taken and not yet given
    for (std::size_t i = 0; i < accounts.size(); ++i) {
      const auto got = read(accounts[i]);
      if (!got.ok()) return got.status();
      if (workload_.mistake == Mistake::kNoLocks) std::this_thread::yield();
      const std::int64_t amount = i + 1 < accounts.size() ? std::int64_t(random_.below(21)) - 10 : -left;
      left += amount;
      const std::uint64_t value = account_value(balance_of(*got) + amount, ++unique_);
      log_.note(accounts[i], value, true);
      wrote = true;
      const Status status = node_.write(global_ptr<std::uint64_t>(field_.lines[accounts[i]]), value);
      if (!status.ok()) return status;
    }
    return {};
  }
  void give_up(std::size_t account) {
    std::erase(usable_, account);
    until_.failed();
  }

  Node& node_;
  const Field& field_;
  const Workload& workload_;
  TransactionLog& log_;
  Until until_;
  base::Random random_;
  std::uint64_t unique_;
  std::vector<std::size_t> usable_;  // accounts that no call has failed on
  int wrong_totals_ = 0;
};

}  // namespace atoll::test
