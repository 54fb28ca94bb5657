// What the nodes of `atoll bench array` do, file by file.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "atoll/atoll.hpp"
#include "bench/harness.hpp"
#include "bench/two_nodes.hpp"

namespace atoll::bench {

inline constexpr NodeId kCountingNodes = 4;  // that count together in apply_vs_lock and apply_vs_atomic

/// Two nodes with an array of which each has half.
class ArrayPair : public TwoNodes {
 public:
  static constexpr std::uint64_t kHalf = (32u << 20) / sizeof(std::uint64_t);
  static constexpr std::uint64_t kWords = 2 * kHalf;  // a power of two, for random places

  ArrayPair(Node& joined, const nlohmann::json& job);
  /// Writes i to every element i, by its home: no node has a copy of another's element after that.
  void make_cold();

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

/// The cases of operators, on clusters of their own. (array_apply.cpp)
void run_apply_case(Node& node, const nlohmann::json& job);

}  // namespace atoll::bench
