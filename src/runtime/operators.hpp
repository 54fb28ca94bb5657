// The operators that a node knows, by number.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "atoll/operators.hpp"
#include "atoll/status.hpp"

namespace atoll::runtime {

/// What the engine must know of an operator, which sees values as words.
struct OperatorInfo {
  using AnyFunction = void (*)();
  using Combine = std::uint64_t (*)(AnyFunction function, std::uint64_t a, std::uint64_t b);

  std::uint8_t bytes = 0;  // of a value; 0: there is no such operator
  std::uint64_t identity = 0;
  Combine combine = nullptr;
  AnyFunction function = nullptr;

  /// Combines an operand with the value at `at`, as one step among all threads.
  void apply(std::byte* at, std::uint64_t operand) const noexcept;
  /// Makes a slot one that holds no operands.
  void clear(std::byte* slot, std::uint32_t line_bytes) const noexcept;
  /// Combines the operands of a slot with the values of a line. What nobody has combined with is left alone.
  void merge(std::byte* line, const std::byte* operands, std::uint32_t line_bytes) const noexcept;
};

/// Thread-safety: any thread. An operator is there for good once it was added.
/// Invariants:
///   1. A number stands for the same function on every node: those that are built in by their place, others by their
///      name. Two names that would have the same number cannot both be added.
class Operators {
 public:
  Operators() noexcept;
  /// The operator's number. kAlreadyExists when the name, or another that leads to the same number, is taken.
  Result<std::uint8_t> add(std::string_view name, const OperatorInfo& info);
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
