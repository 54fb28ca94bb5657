// The two nodes that most micro cases run on: node 0 measures, node 1 is the home of what it reads.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "atoll/atoll.hpp"
#include "bench/bare.hpp"
#include "bench/harness.hpp"
#include "bench/two_nodes.hpp"

namespace atoll::bench {

inline constexpr std::uint64_t kNearWords = (32u << 20) / sizeof(std::uint64_t);
inline constexpr std::uint64_t kFarWords = (64u << 20) / sizeof(std::uint64_t);
inline constexpr std::uint64_t kPieceWords = 4096 / sizeof(std::uint64_t);

/// `count` words of global memory; word i holds i whenever a case begins.
struct Area {
  global_ptr<std::uint64_t> first;
  std::uint64_t count = 0;

  [[nodiscard]] Area part(std::uint64_t words) const { return {first, words}; }
};

/// Thread-safety: none; every method but `measures` and `repeat`'s callback is called by both nodes alike.
class Pair : public TwoNodes {
 public:
  Pair(Node& joined, const nlohmann::json& job);

  /// Runs `once` as often as the command line says.
  template <typename Once>
  void repeat(Once&& once) {
    for (int i = 0; i < repetitions; ++i) {
      if (measures()) progress.step(i + 1, repetitions);
      once();
    }
  }
  /// Writes i to every word i of `area`, by its home: no other node has a copy of it after that.
  void make_cold(const Area& area);
  /// The time of a bare round trip between the two nodes, in ns.
  [[nodiscard]] double bare_round_trip(BareLines lines = BareLines::kHot);

  Area near;    // homed on node 0
  Area cached;  // homed on node 1; for cases that work on node 0's copies
  Area cold;    // homed on node 1; for cases that work on lines that node 0 does not have
  Area word;    // a line of its own, homed on node 1, that both nodes want at once
  Area notes;   // a line of its own, homed on node 1, for what they tell each other
  Progress progress;

 private:
  Area share(const char* name, NodeId home, std::uint64_t words);
  Bare bare_;
};

/// A case: what node 0 found; node 1 returns nothing that counts.
struct PairCase {
  std::string_view name;
  std::vector<Samples> (*run)(Pair& pair);
};
[[nodiscard]] std::span<const PairCase> hit_cases();   // micro_hits.cpp
[[nodiscard]] std::span<const PairCase> miss_cases();  // micro_misses.cpp

}  // namespace atoll::bench
