// The folder that has the logs of a cluster's nodes, as the launcher keeps it.
//
//   DIR/cluster.json   what the cluster is: {"nodes", "line", "memory", "mode"}
//   DIR/node-K         the folder of node K, which is its own
//   DIR/node-K.begun   node K has had a log; the node writes it
//   DIR/lock           locked by the launcher that uses it
#pragma once

#include <cstdint>
#include <string>

#include "atoll/status.hpp"
#include "base/fd.hpp"

namespace atoll::cluster {

/// How nodes log, and where.
struct LogSpec {
  std::string mode;           // "process" or "power"
  std::string directory;      // of all of them
  std::uint64_t bytes = 0;    // of each node's log; 0: the node decides
  bool recover = false;       // go on from the logs that are there
  bool after_reboot = false;  // also from those of mode process that are older than the machine's start
};

/// What must be the same when a cluster goes on from its logs.
struct ClusterShape {
  NodeId nodes = 1;
  std::uint32_t line_bytes = 0;
  std::uint64_t memory_bytes = 0;  // of each node
  bool here = true;                // the nodes' folders are on this host
};

/// Thread-safety: none.
/// Invariants:
///   1. While it is open no other launcher has it open.
///   2. Logs are never mixed: a folder that has some is opened only to go on from them, by a cluster of the same shape.
class LogFolder {
 public:
  /// Makes it, or finds in it what must be there. Throws Error that says what to do.
  LogFolder(const LogSpec& spec, const ClusterShape& shape);
  /// An absolute path.
  [[nodiscard]] std::string of_node(NodeId node) const;

 private:
  void make(const LogSpec& spec, const ClusterShape& shape) const;
  void compare(const LogSpec& spec, const ClusterShape& shape) const;
  void write(const LogSpec& spec, const ClusterShape& shape) const;

  std::string path_;
  base::Fd lock_;
};

}  // namespace atoll::cluster
