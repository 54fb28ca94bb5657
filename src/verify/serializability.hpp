// Could these transactions have been run one after the other? Builds the graph of who must come before whom and looks
// for a cycle (Adya, "Weak consistency", 1999).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "verify/history.hpp"

namespace atoll::verify {

/// What is wrong, by Adya's names where there is one.
enum class Anomaly : std::uint8_t {
  kNone,
  kThinAir,   // a value was read that nobody wrote
  kInternal,  // a transaction did not see its own write
  kG0,        // a cycle of writes over writes: dirty writes
  kG1a,       // a read of what an aborted transaction wrote
  kG1b,       // a read of a value that its writer overwrote before it committed
  kG1c,       // a cycle of writes and reads of them
  kG2,        // a cycle with a read that missed a write: lost update, write skew
};
[[nodiscard]] const char* to_string(Anomaly anomaly) noexcept;

struct SerializabilityOptions {
  std::uint64_t initial = 0;  // the value of every key before the first write
  bool strict = true;         // who ended before another began must come before it
};

struct SerializabilityReport {
  Verdict verdict = Verdict::kAccepted;
  Anomaly anomaly = Anomaly::kNone;
  bool real_time = false;            // only the times of begin and end are against it
  std::vector<std::size_t> cycle{};  // the transactions concerned, as places in the history
  std::size_t counted = 0;           // transactions that took part: committed, or seen by such
  std::size_t blind_writes = 0;      // whose place among the versions is known only in part
  std::string explanation{};         // empty when accepted
};

/// REQUIRES of the history, or the verdict is kUnknown: no value is written twice to one key, and none is the initial
/// one.
///
/// The order of a key's versions is taken from transactions that read the key before they write it. A write without
/// a read (a blind one) is only known to come after the initial value; a history with many of them may be accepted
/// although it should not.
[[nodiscard]] SerializabilityReport check_serializable(std::span<const Transaction> history,
                                                       const SerializabilityOptions& options = {});

}  // namespace atoll::verify
