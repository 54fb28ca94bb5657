// `atoll bench buffer`: files and the buffer pool, against the bare disk, mmap, LMDB, and a paper's experiments.
#pragma once

#include <string>
#include <vector>

#include "bench/harness.hpp"

namespace atoll::bench {

struct BufferSettings {
  Settings common;
  std::string directory;  // where the files are put meanwhile; empty: the system's directory for temporary files
};

[[nodiscard]] std::vector<std::string> buffer_cases();
/// Prints the table; 0, or the exit code when something failed to run.
int run_buffer(const BufferSettings& settings);
/// One node of it.
void run_buffer_node();

}  // namespace atoll::bench
