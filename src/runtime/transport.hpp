// How a node reaches its peers: what each of them brought, and the fabric between them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "atoll/detail/line.hpp"
#include "cluster/membership.hpp"
#include "fabric/fabric.hpp"
#include "memory/segment.hpp"
#include "metrics/counters.hpp"

namespace atoll::runtime {

/// What a node brought into the cluster.
struct Brought {
  std::uint64_t memory_bytes = 0;
  std::uint32_t cache_slots = 0;
};

/// A node's memory where this process can read it, with the records that say when it may. Null where it cannot.
struct HomeView {
  const std::byte* memory = nullptr;
  const detail::Line* lines = nullptr;
};

/// Thread-safety: `connect` and `make_fabric` once each, in this order, by the thread that joins; `free_bytes` by any.
class Transport {
 public:
  virtual ~Transport() = default;
  /// Shows this node's segment to the others and waits for theirs. What each brought, this node included. Throws Error.
  [[nodiscard]] virtual std::vector<Brought> connect(const memory::Segment& segment, cluster::Membership& membership,
                                                     cluster::Events events) = 0;
  /// Throws Error: a peer that cannot be reached. `is_dead`: which of them need not be reached any more.
  [[nodiscard]] virtual std::unique_ptr<fabric::Fabric> make_fabric(metrics::Counters& counters,
                                                                    fabric::Upcalls upcalls,
                                                                    const std::function<bool(NodeId)>& is_dead) = 0;
  /// What a node has said last; it may be less by now.
  [[nodiscard]] virtual std::uint64_t free_bytes(NodeId node) const noexcept = 0;
  /// What can be read of each node's memory without asking it; empty where nothing can. REQUIRES: connected. Stands as
  /// long as the transport does.
  [[nodiscard]] virtual std::span<const HomeView> views() const noexcept = 0;
  /// For the log: which it is and why it was chosen.
  [[nodiscard]] virtual std::string describe() const = 0;
};

/// As `options.transport` says. Processes of one host map each other's segments; over libfabric each writes into the
/// other's registered memory.
[[nodiscard]] std::unique_ptr<Transport> make_transport(const Options& options);

}  // namespace atoll::runtime
