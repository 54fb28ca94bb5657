// Where threads of a node note what they do, so that a kill -9 takes nothing back that was noted.
//
// A log is an array of slots in a file mapped into memory (or in plain memory, for tests within a process). A slot is
// filled before the call and again after its return. The kernel keeps the mapped pages when the process dies.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "atoll/status.hpp"
#include "base/fd.hpp"
#include "verify/history.hpp"

namespace atoll::test {

enum class Stage : std::uint32_t { kEmpty, kCalled, kReturned };

struct OperationSlot {
  std::atomic<Stage> stage{Stage::kEmpty};
  verify::Operation operation{};
};

inline constexpr std::size_t kMaxAccesses = 16;

struct TransactionSlot {
  std::atomic<Stage> stage{Stage::kEmpty};
  std::atomic<std::uint32_t> accesses{0};
  std::int64_t invoked = 0;
  std::int64_t responded = 0;
  std::uint16_t process = 0;
  std::uint16_t thread = 0;
  verify::Outcome outcome = verify::Outcome::kUnknown;
  std::array<verify::Access, kMaxAccesses> access{};
};

/// One clock for all processes of a host.
inline std::int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

/// One thread's log of operations.
///
/// Thread-safety: one thread. Others may read the slots when it is done or dead.
/// Invariants: 1. A slot is kCalled before the call begins, and kReturned only when it is complete.
class OperationLog {
 public:
  OperationLog(std::span<OperationSlot> slots, std::uint16_t process, std::uint16_t thread)
      : slots_(slots), process_(process), thread_(thread) {}

  [[nodiscard]] bool full() const { return used_ + 4 > slots_.size(); }  // room for an unlock and what comes before it
  /// Notes a call that is about to be made. What is returned is to be completed with `returned`, or stays pending.
  verify::Operation& called(verify::OpKind kind, std::uint32_t key, std::uint64_t argument = 0,
                            std::uint64_t expected = 0) {
    OperationSlot& slot = slots_[used_++];
    slot.operation.kind = kind;
    slot.operation.key = key;
    slot.operation.argument = argument;
    slot.operation.expected = expected;
    slot.operation.process = process_;
    slot.operation.thread = thread_;
    slot.operation.responded = verify::kNever;
    slot.operation.invoked = now_ns();
    // A full fence: else the processor might do the call's load before it has looked at the clock. The other way round
    // needs none, for the look at the clock waits for the loads before it.
    slot.stage.store(Stage::kCalled, std::memory_order_seq_cst);
    return slot.operation;
  }
  /// The last call has returned with this.
  void returned(std::uint64_t result = 0, bool refused = false) {
    OperationSlot& slot = slots_[used_ - 1];
    slot.operation.responded = now_ns();
    slot.operation.result = result;
    slot.operation.refused = refused;
    slot.stage.store(Stage::kReturned, std::memory_order_release);
  }
  [[nodiscard]] std::size_t used() const { return used_; }

 private:
  std::span<OperationSlot> slots_;
  std::size_t used_ = 0;
  std::uint16_t process_;
  std::uint16_t thread_;
};

/// One thread's log of transactions; the same for whole transactions.
class TransactionLog {
 public:
  TransactionLog(std::span<TransactionSlot> slots, std::uint16_t process, std::uint16_t thread)
      : slots_(slots), process_(process), thread_(thread) {}

  [[nodiscard]] bool full() const { return used_ == slots_.size(); }
  void begin() {
    TransactionSlot& slot = slots_[used_++];
    slot.process = process_;
    slot.thread = thread_;
    slot.invoked = now_ns();
    slot.stage.store(Stage::kCalled, std::memory_order_seq_cst);
  }
  /// A read is noted after it was done, a write before.
  void note(std::uint64_t key, std::uint64_t value, bool is_write) {
    TransactionSlot& slot = slots_[used_ - 1];
    const std::uint32_t number = slot.accesses.load(std::memory_order_relaxed);
    slot.access.at(number) = {key, value, is_write};
    slot.accesses.store(number + 1, std::memory_order_release);
  }
  void end(verify::Outcome outcome) {
    TransactionSlot& slot = slots_[used_ - 1];
    slot.responded = now_ns();
    slot.outcome = outcome;
    slot.stage.store(Stage::kReturned, std::memory_order_release);
  }
  [[nodiscard]] std::size_t used() const { return used_; }

 private:
  std::span<TransactionSlot> slots_;
  std::size_t used_ = 0;
  std::uint16_t process_;
  std::uint16_t thread_;
};

/// A file of slots in memory.
template <typename Slot>
class SlotFile {
 public:
  SlotFile(const std::string& path, std::size_t number) : bytes_(number * sizeof(Slot)) {
    const base::Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (file.get() < 0 || ::ftruncate(file.get(), off_t(bytes_)) != 0) throw Error("cannot make " + path);
    memory_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (memory_ == MAP_FAILED) throw Error("cannot map " + path);
  }
  ~SlotFile() { ::munmap(memory_, bytes_); }
  SlotFile(const SlotFile&) = delete;
  SlotFile& operator=(const SlotFile&) = delete;
  /// A fresh file is all zeros, which is what an empty slot is.
  [[nodiscard]] std::span<Slot> slots() const { return {static_cast<Slot*>(memory_), bytes_ / sizeof(Slot)}; }

 private:
  std::size_t bytes_;
  void* memory_ = nullptr;
};

/// What a slot says; what has not returned is pending, whatever else stands there. False for an empty slot.
inline bool append(std::vector<verify::Operation>& history, const OperationSlot& slot) {
  const Stage stage = slot.stage.load(std::memory_order_acquire);
  if (stage == Stage::kEmpty) return false;
  verify::Operation operation = slot.operation;
  if (stage != Stage::kReturned) {
    operation.responded = verify::kNever;
    operation.result = 0;
    operation.refused = false;
  }
  if (const char* wrong = verify::what_is_wrong(operation); wrong != nullptr) throw Error(wrong);
  history.push_back(operation);
  return true;
}
inline bool append(std::vector<verify::Transaction>& history, const TransactionSlot& slot) {
  const Stage stage = slot.stage.load(std::memory_order_acquire);
  if (stage == Stage::kEmpty) return false;
  verify::Transaction transaction;
  transaction.invoked = slot.invoked;
  transaction.process = slot.process;
  transaction.thread = slot.thread;
  if (stage == Stage::kReturned) {
    transaction.responded = slot.responded;
    transaction.outcome = slot.outcome;
  }
  const std::uint32_t number = slot.accesses.load(std::memory_order_acquire);
  if (number > kMaxAccesses) throw Error("a transaction with more accesses than a slot has");
  transaction.accesses.assign(slot.access.begin(), slot.access.begin() + number);
  if (const char* wrong = verify::what_is_wrong(transaction); wrong != nullptr) throw Error(wrong);
  history.push_back(std::move(transaction));
  return true;
}

/// All files of a directory whose names begin so, merged.
template <typename Slot, typename Record>
std::vector<Record> load(const std::string& directory, const std::string& prefix) {
  std::vector<Record> history;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().filename().string().rfind(prefix, 0) != 0) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    alignas(Slot) std::array<char, sizeof(Slot)> bytes;
    while (file.read(bytes.data(), sizeof(Slot))) {
      if (!append(history, *reinterpret_cast<const Slot*>(bytes.data()))) break;  // they are filled in order
    }
  }
  return history;
}
static_assert(std::is_trivially_destructible_v<OperationSlot> && std::is_trivially_destructible_v<TransactionSlot>);

}  // namespace atoll::test
