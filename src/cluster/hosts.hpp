// The hosts that a cluster is started on, as `atoll run --hosts FILE` reads them.
//
//   file = lines of: host [slots=N] [env NAME=VALUE...]      # starts a comment
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "atoll/status.hpp"
#include "cluster/control.hpp"

namespace atoll::cluster {

struct Host {
  std::string name;  // as ssh takes it: "node3", "user@10.0.0.3"
  NodeId slots = 1;  // how many nodes run there
  std::map<std::string, std::string> environment;
};

inline constexpr std::size_t kMaxHostsBytes = 1 << 20;

/// The hosts in the order of the file; a host may stand there more than once. Throws Error that begins with
/// "file:line: ", also when there is no host, or the slots are more than kMaxNodes.
[[nodiscard]] std::vector<Host> parse_hosts(std::string_view text, const std::string& file);
/// The same for a file. Throws Error.
[[nodiscard]] std::vector<Host> read_hosts(const std::string& file);
/// Whether the launcher alone sets this variable: who a node is, where the master listens, and the key.
[[nodiscard]] bool is_launchers_own(std::string_view variable) noexcept;
/// All slots together.
[[nodiscard]] NodeId slots_of(const std::vector<Host>& hosts) noexcept;

}  // namespace atoll::cluster
