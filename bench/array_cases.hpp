// What the nodes of `atoll bench array` do, file by file.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string_view>
#include <vector>

#include "atoll/atoll.hpp"
#include "bench/harness.hpp"

namespace atoll::bench {

inline constexpr NodeId kCountingNodes = 4;  // that count together in apply_vs_lock and apply_vs_atomic

/// Two nodes with an array of which each has half. Node 0 measures while the main thread of node 1 sleeps in a barrier.
///
/// Thread-safety: none; every method but `measures` is called by both nodes alike.
class ArrayPair {
 public:
  static constexpr std::uint64_t kHalf = (32u << 20) / sizeof(std::uint64_t);
  static constexpr std::uint64_t kWords = 2 * kHalf;  // a power of two, for random places

  ArrayPair(Node& joined, const nlohmann::json& job);

  [[nodiscard]] bool measures() const noexcept { return node.id() == 0; }
  void together() { node.barrier().or_throw(); }
  /// Runs `work` on node 0 while node 1 sleeps in a barrier.
  template <typename Work>
  void alone(Work&& work) {
    together();
    if (measures()) work();
    together();
  }
  /// Writes i to every element i, by its home: no node has a copy of another's element after that.
  void make_cold();

  Node& node;
  const bool quick;
  const int repetitions;
  Array<std::uint64_t> array;
};

/// A case: what node 0 found; node 1 returns nothing that counts.
struct ArrayCase {
  std::string_view name;
  std::vector<Samples> (*run)(ArrayPair& pair);
};
[[nodiscard]] std::span<const ArrayCase> array_hit_cases();   // array_hits.cpp
[[nodiscard]] std::span<const ArrayCase> array_cold_cases();  // array_cold.cpp

/// Is there something like a.pin_read(i)? (array_hits.cpp)
[[nodiscard]] bool has_pins();

/// The cases of operators, on clusters of their own. (array_apply.cpp)
void run_apply_case(Node& node, const nlohmann::json& job);

}  // namespace atoll::bench
