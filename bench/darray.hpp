// `atoll bench darray`: the micro benchmarks of DArray's paper (ICPP 2023: Figures 1, 12 to 15 and 18).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "bench/harness.hpp"

namespace atoll::bench {

/// How an element is accessed; docs/benchmarks.md says what each of them is.
enum class System : std::uint8_t { kNative, kAtoll, kPinned, kRefcount, kUncached, kLock, kAtomic };
enum class Access : std::uint8_t { kRead, kWrite, kOperate };
/// Which elements.
enum class Places : std::uint8_t {
  kInOrder,  // each thread all of the array, once, of which nothing is cached at first
  kUniform,  // at random
  kZipf,     // at random, few of them often
};

/// One measurement.
struct DarrayPoint {
  System system = System::kAtoll;
  Access access = Access::kRead;
  Places places = Places::kInOrder;
  NodeId nodes = 1;
  unsigned threads = 1;         // of each node
  bool alone = false;           // only node 0 accesses anything
  bool cache_holds_all = true;  // else a quarter of the array

  [[nodiscard]] bool operator==(const DarrayPoint&) const = default;
  /// Threads that access the array.
  [[nodiscard]] unsigned workers() const noexcept { return alone ? threads : threads * nodes; }
};
void to_json(nlohmann::json& out, const DarrayPoint& point);
void from_json(const nlohmann::json& in, DarrayPoint& point);

struct DarraySettings {
  Settings common;
  std::string figure = "all";  // or one of darray_figures
};

[[nodiscard]] std::vector<std::string> darray_figures();
/// Prints the tables; 0, or the exit code when something failed to run.
int run_darray(const DarraySettings& settings);
/// One node of it.
void run_darray_node();

}  // namespace atoll::bench
