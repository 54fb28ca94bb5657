// One side of a fabric over libfabric, in this process: over tcp, or over what ATOLL_TEST_PROVIDER and
// ATOLL_TEST_ADDRESS say.
#pragma once

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "fabric/ofi/ofi_fabric.hpp"
#include "memory/segment.hpp"

namespace atoll::test {

using fabric::Endpoint;
using fabric::OfiAddress;
using fabric::OfiChoice;
using fabric::OfiFabric;
using fabric::OfiSetup;
using fabric::Registered;
using fabric::Upcalls;
inline constexpr std::uint32_t kLine = 512;

inline std::string from_environment(const char* name, const char* fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : text;
}

inline OfiChoice choice() {
  return {from_environment("ATOLL_TEST_PROVIDER", "tcp"), from_environment("ATOLL_TEST_ADDRESS", "127.0.0.1")};
}

/// A segment, an endpoint, and the fabric between it and the others. `life`: how often the node was here before.
struct Side {
  explicit Side(NodeId id, std::uint32_t life = 0) : self(id), endpoint(choice()) {
    Options options;
    options.memory_bytes = 1 << 20;
    options.cache_bytes = 1024 * kLine;
    segment = memory::Segment::create(options, 2);
    const std::size_t bytes = std::size_t(segment.memory() + segment.memory_bytes() - segment.cache());
    registered = endpoint.register_memory({segment.cache(), bytes}, FI_REMOTE_WRITE | FI_WRITE, 77 + id + 100 * life);
    address.provider = fabric::provider_name(choice().provider);
    address.name = endpoint.name();
    address.cache_at = endpoint.remote_address(segment.cache(), segment.cache());
    address.memory_at = endpoint.remote_address(segment.cache(), segment.memory());
    address.key = ::fi_mr_key(registered.region.get());
    address.cookie = 0x1000u + id + 0x10000u * life;
    address.cache_bytes = segment.cache_bytes();
  }
  /// `others`: by node; nothing for this one, and for who is not there.
  void start(const std::vector<std::optional<OfiAddress>>& others) {
    OfiSetup setup;
    setup.self = self;
    setup.line_bytes = kLine;
    setup.largest_line_bytes = 1 << 20;
    setup.cache = segment.cache();
    setup.memory = {segment.memory(), segment.memory_bytes()};
    setup.memory_descriptor = registered.descriptor();
    setup.cookie = address.cookie;
    setup.peers = others;
    fabric = std::make_unique<OfiFabric>(endpoint, setup,
                                         Upcalls{[this](NodeId from, std::uint32_t slot) {
                                                   wire::Message answer;
                                                   answer.kind = wire::Kind::kData;
                                                   answer.count = 1;
                                                   answer.from = from;
                                                   answer.slots[0] = slot;
                                                   ++notices;
                                                   return answer;
                                                 },
                                                 [this](NodeId, const char* why) { broken = why; }},
                                         segment.header().counters);
  }
  NodeId self;
  Endpoint endpoint;
  memory::Segment segment;
  Registered registered;
  OfiAddress address;
  std::unique_ptr<OfiFabric> fabric;
  int notices = 0;
  std::string broken;
};

inline std::vector<std::byte> pattern(std::size_t bytes, unsigned seed) {
  std::vector<std::byte> all(bytes);
  for (std::size_t i = 0; i < bytes; ++i) all[i] = std::byte(i * 31 + seed + i / 256);
  return all;
}

}  // namespace atoll::test
