// What runs: finds the clusters of this user on this host, and asks their masters.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/control.hpp"

namespace atoll::cluster {

struct FoundCluster {
  std::string socket;  // the master's abstract socket
  int pid = 0;         // of the master: the `atoll run` process
};

/// The clusters that a /proc/net/unix shows for a user, by pid.
[[nodiscard]] std::vector<FoundCluster> clusters_in(std::string_view proc_net_unix, unsigned uid);
/// The clusters of this user that run now. Throws Error when /proc cannot be read.
[[nodiscard]] std::vector<FoundCluster> find_clusters();

/// {program, pid, started, epoch, nodes: [{node, pid, state, why?, memory, cache, line, counters, heard_ms?}]}; the
/// counters are heard_ms old when they came with a report. kClusterDown when the master is gone, kDeadline when it
/// does not answer in time.
[[nodiscard]] Result<Json> query_status(const std::string& socket, std::chrono::milliseconds timeout);

}  // namespace atoll::cluster
