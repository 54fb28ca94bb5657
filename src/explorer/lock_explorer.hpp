// Walks every state that the locks of elements can reach in a small cluster, and looks at each.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "explorer/lock_world.hpp"

namespace atoll::explorer {

struct LockExploreOptions {
  LockWorldOptions world;
  std::uint64_t max_states = 100'000'000;
};

struct LockExploreResult {
  std::uint64_t states = 0;
  std::uint64_t transitions = 0;
  unsigned depth = 0;
  bool complete = false;                 // every reachable state was seen
  std::optional<std::string> violation;  // the shortest way that leads to it
  std::string violated;                  // the invariant alone
  coherence::ElementLocks::Coverage coverage{};

  /// "Reading + Withdraw" of each row that was not used.
  [[nodiscard]] std::vector<std::string> unused_rows(const coherence::ElementTable& table) const;
};

/// REQUIRES: 2 <= nodes <= kMaxLockNodes, 1 <= elements <= kMaxElements, 1 <= threads <= kMaxLockThreads.
[[nodiscard]] LockExploreResult explore_locks(const LockExploreOptions& options);

/// One realistic mistake in the table of element locks, or around it.
struct LockMutant {
  std::string_view name;
  std::string_view mistake;
  unsigned threads;  // per node, in the smallest world in which it shows
  void (*apply)(coherence::ElementTable& table);
  std::uint8_t ops = kLockOpsAll;  // with which it shows
  LockSlip slip = LockSlip::kNone;
};
/// Makes the mistake. The table is the world's from then on.
void make_mistake(const LockMutant& mutant, coherence::ElementTable& table, LockWorldOptions& world);
[[nodiscard]] std::span<const LockMutant> lock_mutants() noexcept;
/// Null when there is none of that name.
[[nodiscard]] const LockMutant* find_lock_mutant(std::string_view name) noexcept;

}  // namespace atoll::explorer
