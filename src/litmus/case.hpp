// A litmus test: a shape, what is put around its accesses, and where its variables and threads are.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "atoll/options.hpp"
#include "litmus/shape.hpp"

namespace atoll::litmus {

/// What stands around the accesses of the shape.
enum class Variant : std::uint8_t {
  kPlain,
  kFence,   // a fence between each two accesses of a thread
  kLock,    // each access under a lock of its variable's line
  kMutex,   // each thread under one lock that all of them take, of a line of its own
  kGuard,   // the first thread under a lock of the line of x; the others access plainly
  kAtomic,  // writes are exchanges
};
inline constexpr Variant kVariants[] = {Variant::kPlain, Variant::kFence, Variant::kLock,
                                        Variant::kMutex, Variant::kGuard, Variant::kAtomic};

/// Where the variables and the threads are. Each thread has a node of its own, but in kOneNode.
enum class Layout : std::uint8_t {
  kOneLine,   // x and y in one line
  kOneHome,   // in two lines of one node's memory
  kTwoHomes,  // in the memory of two nodes
  kOneNode,   // in two lines of any nodes; all threads belong to one node
};
inline constexpr Layout kLayouts[] = {Layout::kOneLine, Layout::kOneHome, Layout::kTwoHomes, Layout::kOneNode};

inline constexpr Consistency kModes[] = {Consistency::kPso, Consistency::kTso, Consistency::kSc};

[[nodiscard]] std::string_view to_string(Variant variant);
[[nodiscard]] std::string_view to_string(Layout layout);
[[nodiscard]] std::string_view to_string(Consistency mode);

/// The threads' instructions.
using Program = std::vector<std::vector<Instruction>>;

/// One test. ("Test" itself is a name that googletest's macros bring along.)
struct Case {
  const Shape* shape = nullptr;
  Variant variant = Variant::kPlain;
  Layout layout = Layout::kTwoHomes;

  [[nodiscard]] Program program() const;
  [[nodiscard]] std::string name() const;  // "SB plain two-homes"
  bool operator==(const Case&) const = default;
};

/// All that `atoll litmus` runs. Not every combination: the layouts that differ only in where a miss goes are run plain
/// and with fences; one variable is in one line whatever the layout.
[[nodiscard]] const std::vector<Case>& all_cases();

/// Mutexes and atomics wait for the same things in every mode; they are run under the weakest.
[[nodiscard]] bool is_run_under(const Case& test, Consistency mode);

/// Must the interesting outcome be seen, for the run to prove anything? docs/litmus.md has the list and the reasons.
[[nodiscard]] bool must_be_seen(const Case& test, Consistency mode);

}  // namespace atoll::litmus
