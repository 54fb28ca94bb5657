// Erases what has expired and nobody asks for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kv/service.hpp"

namespace atoll::kv {

/// Walks over the map for ever, a little at a time.
///
/// Thread-safety: none.
class Sweeper {
 public:
  static constexpr std::size_t kPairs = 256;  // that are looked at in a tick, about
  static constexpr std::size_t kSteps = 64;   // parts of the table

  explicit Sweeper(Worker& worker) : worker_(worker) {}
  /// True: much of what was seen had expired, so that it is worth going on soon.
  bool tick();

 private:
  Worker& worker_;
  std::uint64_t cursor_ = 0;
  std::vector<std::string> expired_;
};

}  // namespace atoll::kv
