// Protocols with one mistake each. An explorer that finds nothing wrong with them would prove nothing.
#pragma once

#include <span>
#include <string_view>

#include "coherence/protocol.hpp"
#include "explorer/explorer.hpp"

namespace atoll::explorer {

/// One realistic mistake in one of the tables.
struct Mutant {
  std::string_view name;
  std::string_view mistake;
  unsigned nodes;    // the smallest world in which it shows
  unsigned threads;  // per node
  void (*apply)(coherence::Tables& tables);
  unsigned crashes = 0;  // of a logged world; 0: nothing is logged
  bool power = false;
  bool files = false;     // lines have a file
  unsigned failures = 0;  // of which

  /// The world in which it is found, within a bearable number of states.
  [[nodiscard]] ExploreOptions world() const;
};

[[nodiscard]] std::span<const Mutant> mutants() noexcept;
/// Null when there is none of that name.
[[nodiscard]] const Mutant* find_mutant(std::string_view name) noexcept;

}  // namespace atoll::explorer
