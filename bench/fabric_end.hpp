// One end of a transport between two nodes, used as a node's engine does, without the engine: node 0 asks and measures,
// node 1 answers. For `atoll bench fabric` and `atoll doctor`.
#pragma once

#include <cstdint>
#include <memory>

#include "atoll/options.hpp"
#include "base/backoff.hpp"
#include "cluster/membership.hpp"
#include "fabric/fabric.hpp"
#include "memory/segment.hpp"
#include "runtime/transport.hpp"

namespace atoll::bench {

/// Thread-safety: none. Throws Error when a peer breaks the connection.
class FabricEnd {
 public:
  /// What node 0 wants of node 1 next, in the argument of a Free message; how much of it in the line.
  enum class Task : std::uint64_t { kAnswer, kEcho, kTcpPing, kTcpPingMany, kTcpStream4k, kTcpStream64k, kEnd };
  static constexpr std::uint32_t kReplyBytes = 512;
  static constexpr std::uint32_t kRun = wire::kMaxRun;  // lines that a stream asks for at once

  /// Joins the cluster that started this process. Throws Error.
  explicit FabricEnd(const Options& options);
  ~FabricEnd() { membership_->leave(); }
  FabricEnd(const FabricEnd&) = delete;
  FabricEnd& operator=(const FabricEnd&) = delete;

  [[nodiscard]] NodeId id() const { return membership_->id(); }
  void tell(Task task, std::uint64_t amount);
  /// The next message; waits as a node's threads do.
  wire::Message next();

  // Node 0.
  /// ns per message there and back, `in_flight` at a time.
  double ping(std::uint32_t trips, std::uint32_t in_flight);
  /// ns per request for one line of 512 bytes.
  double ask(std::uint32_t trips, std::uint32_t in_flight);
  /// Bytes per second of lines of this size, asked for in runs.
  double stream(std::uint32_t runs, std::uint32_t bytes);

  // Node 1: does so many of what node 0 asks for.
  void echo(std::uint32_t messages);
  void answer(std::uint32_t requests);

 private:
  void request(std::uint32_t bytes, std::uint32_t slot, std::uint8_t count);
  static wire::Message data(const wire::Message& asked, std::uint8_t i, std::uint32_t bytes);

  std::unique_ptr<cluster::Membership> membership_;
  memory::Segment segment_;
  std::unique_ptr<runtime::Transport> transport_;
  std::unique_ptr<fabric::Fabric> fabric_;
  base::Backoff::Learned learned_;
  std::uint32_t lines_ = 0;  // of the run that is being answered
};

}  // namespace atoll::bench
