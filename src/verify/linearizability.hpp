// Is there an order of these operations, one after the other, that explains every answer and puts each somewhere
// between its call and its return? (Herlihy and Wing; the search is Wing and Gong's with Lowe's memory.)
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "verify/history.hpp"

namespace atoll::verify {

struct LinearizabilityOptions {
  std::uint64_t initial = 0;             // the value of every word at first; locks are free
  std::uint64_t max_states = 4'000'000;  // per key; beyond them the verdict is kUnknown
  bool explain = true;                   // on rejection, look for the smallest part that is wrong
};

struct LinearizabilityReport {
  Verdict verdict = Verdict::kAccepted;
  std::uint64_t states = 0;  // visited by the search, all keys
  std::size_t keys = 0;
  std::size_t operations = 0;
  std::vector<Operation> window{};  // when rejected: the operations of one key that have no order
  std::string explanation{};        // empty when accepted; made for reading
};

/// Linearizability is local: a history has an order if the operations on each object have one. So each key is
/// checked on its own, and within a key words apart from locks.
[[nodiscard]] LinearizabilityReport check_linearizable(std::span<const Operation> history,
                                                       const LinearizabilityOptions& options = {});

}  // namespace atoll::verify
