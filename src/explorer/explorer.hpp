// Walks every state that the protocol core can reach, and looks at each.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "coherence/protocol.hpp"
#include "explorer/world.hpp"

namespace atoll::explorer {

struct ExploreProgress {
  std::uint64_t states = 0;
  std::uint64_t transitions = 0;
  std::uint64_t open = 0;  // found, not yet gone on from
  unsigned depth = 0;
};

struct ExploreOptions {
  unsigned nodes = 2;
  unsigned lines = 1;
  unsigned threads = 1;
  std::uint32_t ops = kOpsAll;
  unsigned locks_held = kMaxLines;
  std::uint64_t max_states = 100'000'000;
  const coherence::Tables* tables = nullptr;  // null: those of production
  bool logged = false;                        // and the rest as in WorldOptions
  unsigned crashes = 0;
  bool late_acks = false;
  bool power = false;
  bool files = false;
  unsigned failures = 0;
  std::function<void(const ExploreProgress&)> progress{};  // called every so many states
};

struct ExploreResult {
  std::uint64_t states = 0;
  std::uint64_t transitions = 0;
  unsigned depth = 0;
  bool complete = false;                 // every reachable state was seen
  std::optional<std::string> violation;  // the shortest message chart that leads to it
  std::string violated;                  // the invariant alone
  coherence::Coverage coverage;          // how often each (state, event) was used

  /// "Dirty + PutDirtyStale" of each row that was not used, and of each 'never' row that was.
  [[nodiscard]] std::vector<std::string> unused_rows(const coherence::Tables& tables) const;
  [[nodiscard]] std::vector<std::string> never_rows_used(const coherence::Tables& tables) const;
};

/// REQUIRES: 2 <= nodes <= kMaxNodes, 1 <= lines <= kMaxLines, 1 <= threads <= kMaxThreads.
[[nodiscard]] ExploreResult explore(const ExploreOptions& options);

}  // namespace atoll::explorer
