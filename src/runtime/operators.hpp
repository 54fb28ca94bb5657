// The operators that a node knows, by number.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "atoll/operators.hpp"
#include "atoll/status.hpp"

namespace atoll::runtime {

/// What the engine must know of an operator, which sees values as words, or as bytes where they are no words: then they
/// are wide.
struct OperatorInfo {
  using AnyFunction = void (*)();
  using Combine = std::uint64_t (*)(AnyFunction function, std::uint64_t a, std::uint64_t b);
  using CombineWide = void (*)(AnyFunction function, std::byte* value, const std::byte* operand);

  std::uint16_t bytes = 0;  // of a value; 0: there is no such operator
  std::uint64_t identity = 0;
  Combine combine = nullptr;
  AnyFunction function = nullptr;
  CombineWide combine_wide = nullptr;
  std::vector<std::byte> wide_identity = {};

  [[nodiscard]] bool is_wide() const noexcept { return combine_wide != nullptr; }
  /// Combines an operand with the word at `at`, as one step among all threads.
  void apply(std::byte* at, std::uint64_t operand) const noexcept;
  /// The same with a wide value, piece by piece. REQUIRES: nobody else changes it meanwhile.
  void apply_wide(std::byte* at, const std::byte* operand) const noexcept;
  /// Makes a slot one that holds no operands. Values lie at multiples of their size, as many as fit; what is left
  /// behind the last one is nobody's.
  void clear(std::byte* slot, std::uint32_t line_bytes) const noexcept;
  /// Combines the operands of a slot with the values of a line. What nobody has combined with is left alone. REQUIRES:
  /// if they are wide, nobody else changes the line meanwhile.
  void merge(std::byte* line, const std::byte* operands, std::uint32_t line_bytes) const noexcept;

 private:
  void merge_wide(std::byte* line, const std::byte* operands, std::uint32_t line_bytes) const noexcept;
};

/// Locks for lines of this node that others operate on too. Their version says all the while that bytes are missing,
/// so that those who combine wide values here cannot exclude each other by it. Lines share a few locks, for they are
/// held no longer than the operator's function takes.
///
/// Thread-safety: any thread.
class OperandLocks {
 public:
  void lock(const detail::Line& line) noexcept {
    std::atomic<bool>& taken = of(line).taken;
    while (taken.exchange(true, std::memory_order_acquire)) ATOLL_GIVE_WAY();
  }
  void unlock(const detail::Line& line) noexcept { of(line).taken.store(false, std::memory_order_release); }

 private:
  struct alignas(64) Lock {
    std::atomic<bool> taken{false};
  };
  [[nodiscard]] Lock& of(const detail::Line& line) noexcept {
    return locks_[reinterpret_cast<std::uintptr_t>(&line) / sizeof(line) % locks_.size()];
  }
  std::array<Lock, 64> locks_;
};

/// Thread-safety: any thread. An operator is there for good once it was added.
/// Invariants:
///   1. A number stands for the same function on every node: those that are built in by their place, others by their
///      name. Two names that would have the same number cannot both be added.
class Operators {
 public:
  Operators() noexcept;
  /// The operator's number. kAlreadyExists when the name, or another that leads to the same number, is taken.
  Result<std::uint8_t> add(std::string_view name, OperatorInfo info);
  /// nullptr when nobody has added it.
  [[nodiscard]] const OperatorInfo* find(std::uint64_t number) const noexcept;

 private:
  struct Entry {
    std::atomic<std::uint8_t> state{0};  // 0: free; 1: being added; 2: there
    OperatorInfo info;
  };
  std::array<Entry, 256> entries_;
};

}  // namespace atoll::runtime
