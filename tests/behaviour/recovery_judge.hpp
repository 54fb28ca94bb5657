// Compares what nodes have in global memory with what their clients were told.
#pragma once

#include <string>
#include <vector>

#include "behaviour/recovery_load.hpp"

namespace atoll::test {

struct Verdict {
  std::uint64_t acknowledged = 0;   // operations, since the beginning
  std::vector<std::string> losses;  // what should be and is not, or the other way round
  std::vector<std::string> errors;  // calls of Atoll that failed
};

struct Judged {
  std::string directory;
  std::string load;  // bank, ycsb, grow, tpcc
  unsigned nodes = 0;
  unsigned threads = 0;  // of a node
};

/// REQUIRES: all nodes have dumped what they read, and rest.
[[nodiscard]] Verdict judge(const Judged& what);

}  // namespace atoll::test
