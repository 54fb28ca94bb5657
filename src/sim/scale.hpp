// Questions of scale, answered in virtual time: what many nodes do together when a message, a byte and a hit cost so
// much.
#pragma once

#include <cstdint>
#include <string_view>

#include "sim/cluster.hpp"

namespace atoll::sim {

enum class ScaleCase : std::uint8_t {
  kPrivate,  // GAM, Figure 10: half of the accesses write, no line is shared
  kShared,   // GAM, Figure 10: half of the accesses go to lines that all nodes share
  kRead,     // DArray, Figure 13: each node reads the whole array, one element after the other
  kWrite,    // each node writes it
  kAdd,      // each node adds to each element, atomically
};
inline constexpr ScaleCase kScaleCases[] = {ScaleCase::kPrivate, ScaleCase::kShared, ScaleCase::kRead,
                                            ScaleCase::kWrite, ScaleCase::kAdd};
[[nodiscard]] std::string_view to_string(ScaleCase what) noexcept;

struct ScaleOptions {
  NodeId nodes = 2;
  std::uint64_t seed = 1;
  std::uint32_t latency_ns = 1'000;
  double gbps = 100;
  std::uint32_t message_cpu_ns = 150;  // to work on one message
  double hit_ns = 1;                   // an access that finds its line
  std::uint32_t ops = 20'000;          // of each node: kPrivate, kShared
  bool from_the_beginning = false;     // all nodes begin with the same element, not each with its own part
  std::uint32_t lines = 256;           // that each node brings of the array: kRead, kWrite, kAdd
};

struct ScaleResult {
  std::uint64_t operations = 0;
  double mops = 0;  // millions of operations per second of virtual time, of all nodes together
  double median_us = 0;
  double p99_us = 0;
  double messages_per_op = 0;
};

/// One thread per node. Throws Failure.
[[nodiscard]] ScaleResult run_scale(ScaleCase what, const ScaleOptions& options);

}  // namespace atoll::sim
