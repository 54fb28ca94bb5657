// The objects that histories are compared with, as they behave when nobody else is there.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "verify/history.hpp"

namespace atoll::verify {

/// A word of memory: a register and a counter in one.
struct WordModel {
  using State = std::uint64_t;

  static constexpr const char* kName = "word";
  /// Does the operation, if its answer can be given in this state; else changes nothing and returns false. What a
  /// pending operation answered is not known, so any answer will do.
  static bool apply(const Operation& operation, State& state);
  /// A completed operation that changes nothing and takes nothing from others: where it fits it can be put at once.
  static bool is_free(const Operation& operation);
  static std::uint64_t hash(const State& state);
  static std::string describe(const State& state);
  /// Takes out pending operations that nobody can have noticed. REQUIRES: all operations are of one word.
  static void prune(std::vector<Operation>& operations);
  /// Takes those of [begin, end) out that can go: if the whole has an order, so has what is left. `operations` must
  /// be in order of their calls.
  static std::vector<Operation> without(const std::vector<Operation>& operations, std::size_t begin, std::size_t end);
};

/// A lock with one writer or many readers. A try may be refused at any time (docs/memory-model.md).
struct LockModel {
  static constexpr std::uint32_t kNobody = 0xffff'ffff;
  struct State {
    std::uint32_t writer = kNobody;
    std::vector<std::uint32_t> readers{};  // sorted; a client as often as it holds
  };

  static constexpr const char* kName = "lock";
  static bool apply(const Operation& operation, State& state);
  /// Refusals.
  static bool is_free(const Operation& operation);
  static std::uint64_t hash(const State& state);
  static std::string describe(const State& state);
  static void prune(std::vector<Operation>& operations);
  static std::vector<Operation> without(const std::vector<Operation>& operations, std::size_t begin, std::size_t end);
};

}  // namespace atoll::verify
