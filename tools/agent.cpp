// `atoll agent`: the end of `atoll run --hosts` on another host. Not for people.
#include <unistd.h>

#include "cluster/agent.hpp"
#include "commands.hpp"

namespace atoll::tools {

void add_agent(CLI::App& app) {
  CLI::App* agent = app.add_subcommand("agent", "Start a node as `atoll run --hosts` on another host says");
  agent->group("");  // not shown
  agent->callback([] {
    const int code = cluster::run_agent(STDIN_FILENO);
    if (code != 0) throw CLI::RuntimeError(code);
  });
}

}  // namespace atoll::tools
