// A node on another host: ssh starts an agent there, the agent starts the program, and the program does not outlive the
// connection. What the launcher tells the agent comes through its standard input, so that neither the key nor anything
// else shows on a command line; it is frames as control.hpp has them:
//
//   start   directory, program (the words of its command line), environment (an object of texts); once, at first
//   signal  signal: passed on to the program
//
// The end of the input ends the program. The program writes to the agent's own standard output and error; the agent
// ends as the program did, with 128 + signal for a signal.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "atoll/status.hpp"
#include "cluster/control.hpp"
#include "cluster/hosts.hpp"
#include "cluster/key.hpp"
#include "cluster/tcp.hpp"

namespace atoll::cluster {

struct StartRequest {
  std::string directory;  // where to start it: an absolute path
  std::vector<std::string> program;
  std::map<std::string, std::string> environment;  // added to the agent's own
  friend bool operator==(const StartRequest&, const StartRequest&) = default;
};

/// The bytes for an agent. `encode_start` throws Error when the request is too large for a frame.
[[nodiscard]] std::string encode_start(const StartRequest& request);
[[nodiscard]] std::string encode_signal(int signal);
/// What a frame asks to start. Throws Error when it is no sound start request.
[[nodiscard]] StartRequest decode_start(const Frame& frame);

/// How to reach other hosts, and how they reach us.
struct Remote {
  std::vector<Host> hosts;                                        // nodes are numbered through their slots
  std::vector<std::string> ssh = {"ssh", "-o", "BatchMode=yes"};  // the host and a command are put behind it
  std::string atoll;                                              // the path of this command there
  TcpAddress listen;                                              // where the master listens for the nodes
  Key key;                                                        // that they prove to it
};

/// The command line that starts an agent on a host.
[[nodiscard]] std::vector<std::string> agent_command(const Remote& remote, const Host& host);
/// This process's variables that nodes on other hosts get too: Atoll's and libfabric's, but neither key nor place.
[[nodiscard]] std::map<std::string, std::string> variables_for_others();
/// The address of this host that a connection to `host` comes from. Throws Error.
[[nodiscard]] std::string address_towards(const std::string& host);

inline constexpr std::chrono::milliseconds kStartRequestWithin{30'000};

/// What `atoll agent` does: reads from `in` until the program that it started has ended. Returns the exit code; 1 when
/// what it was told makes no sense, 126 and 127 when the program cannot be started.
int run_agent(int in);

}  // namespace atoll::cluster
