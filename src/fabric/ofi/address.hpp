// Where a node's libfabric endpoint is and what peers need to write into its memory, as text for the roster.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "atoll/status.hpp"

namespace atoll::fabric {

/// What peers must know. Told only to nodes that have joined: who knows it can write into the node's memory.
struct OfiAddress {
  std::string provider;         // as libfabric names it: "tcp;ofi_rxm"
  std::vector<std::byte> name;  // the endpoint's, in the provider's form
  std::uint64_t cache_at = 0;   // where the cache slots begin, as the provider counts
  std::uint64_t memory_at = 0;  // and the home memory
  std::uint64_t key = 0;        // of the registered memory
  std::uint32_t cookie = 0;     // opens every message to this node
  std::uint64_t memory_bytes = 0, file_bytes = 0, cache_bytes = 0;  // what the node brings
  std::uint32_t line_bytes = 0;
  std::string bell;  // how peers on the same host wake it
  friend bool operator==(const OfiAddress&, const OfiAddress&) = default;
};

inline constexpr std::size_t kMaxProviderBytes = 64;
inline constexpr std::size_t kMaxEndpointNameBytes = 256;

/// The ways to one node, the best first, as printable characters without quotes or backslashes.
[[nodiscard]] std::string to_text(std::span<const OfiAddress> addresses);
/// Trusts nothing. kInvalidArgument when these are not addresses.
[[nodiscard]] Result<std::vector<OfiAddress>> parse_ofi_addresses(std::string_view text);

}  // namespace atoll::fabric
