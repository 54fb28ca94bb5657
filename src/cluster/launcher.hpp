// Runs a program as the nodes of a cluster, on this host or on others: what `atoll run` does, for benches and tests
// too.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "atoll/options.hpp"
#include "atoll/status.hpp"
#include "cluster/agent.hpp"
#include "cluster/lease.hpp"
#include "cluster/log_folder.hpp"

namespace atoll::cluster {

struct LaunchSpec {
  std::vector<std::string> argv;
  NodeId nodes = 1;
  Options options;                        // of every node, through the ATOLL_* environment
  bool prefix_output = true;              // "[k] " before every line; else the nodes write to our stdout and stderr
  bool keep_going = false;                // the death of one does not end the others
  std::chrono::milliseconds grace{3000};  // from the first death to SIGTERM for the others
  std::chrono::milliseconds lease{kDefaultLease_ms};  // after so long a node that is hung or cut off is out
  /// From a signal that is passed on to SIGKILL for who still runs; none: the nodes may take as long as they want.
  std::optional<std::chrono::milliseconds> stop_within;
  std::map<std::string, std::string> environment;  // added for every node; may override what comes from `options`
  /// Where to start the nodes; none: all on this host.
  std::optional<Remote> remote = std::nullopt;
  std::optional<LogSpec> log = std::nullopt;  // none: nothing is logged
  /// So often each node is started again when a signal has killed it or it was declared out. REQUIRES: a log.
  unsigned restarts = 0;
};

/// A node on another host ends as its agent (agent.hpp) says. Its standard input is empty; on this host node 0 has
/// ours.
///
/// A node that is started again is another process in the same place: it has what the first one had, and
/// ATOLL_RECOVER=on. One that ended by itself, whatever its code, is not; then, and when it was started again often
/// enough, the others learn that it does not come back. What is left of a node that was declared out is killed first.
///
/// Runs until all nodes have ended. Returns the exit code of the first that failed (128 + signal for a signal, 1
/// for one that joined and exited with 0 without leaving), 0 when none did, 127 when there is no such program and
/// 126 when it cannot be executed. Throws Error when the cluster cannot be set up.
///
/// While it runs SIGINT, SIGTERM and SIGHUP of the calling thread are blocked and passed on to the nodes.
/// REQUIRES: other threads of this process, if any, block these signals.
int launch(const LaunchSpec& spec);

}  // namespace atoll::cluster
