// What clients may cost a server.
#pragma once

#include <chrono>
#include <cstddef>

#include "atoll/hash_map.hpp"

namespace atoll::kv {

/// Before a value stand up to nine bytes: see value.hpp.
inline constexpr std::size_t kMaxStringBytes = HashMap::kMaxValueBytes - 9;

/// Of one who has not given the password yet.
inline constexpr std::size_t kStrangerArguments = 10, kStrangerBytes = 16 << 10;

struct Limits {
  std::size_t clients = 10'000;
  std::size_t arguments = 65'536;  // of one request
  std::size_t argument_bytes = HashMap::kMaxValueBytes;
  std::size_t request_bytes = 16u << 20;       // of one request, and of what MULTI queues
  std::size_t output_pause_bytes = 1u << 20;   // while so much waits to be taken, no more of the client's requests run
  std::size_t output_limit_bytes = 64u << 20;  // a client whom more waits for is cut
  std::size_t buffer_bytes = 1u << 30;         // of all clients of a node; beyond, who has most of it is cut
  std::chrono::seconds stalled{60};            // so is one that has taken nothing for so long
  std::chrono::seconds idle{0};                // and one that has asked nothing for so long; 0: never
};

}  // namespace atoll::kv
