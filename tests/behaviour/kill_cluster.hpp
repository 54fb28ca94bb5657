// A cluster of recovery_node processes that somebody kills: starting it, ending parts or all of it, waiting for it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "behaviour/recovery_load.hpp"

namespace atoll::test {

struct KillSettings {
  std::string atoll, program;   // the command and recovery_node
  std::string directory;        // of board, journals, dumps and the launcher's output; it must be there
  std::string log = "process";  // process, power; off: nothing may be killed
  std::string log_directory;
  std::string load = "bank";
  unsigned nodes = 4, threads = 2;
  std::string memory = "16M", cache = "256K", log_bytes = "16M";
  std::string transport = "auto";
  std::uint64_t seed = 1;
  std::chrono::seconds patience{120};               // tells a hang from slowness
  std::chrono::milliseconds recovery_wait{60'000};  // after which nodes get errors
};

/// Thread-safety: none.
/// Invariant: the launcher, and with it the nodes, end when this process does.
class KillCluster {
 public:
  explicit KillCluster(const KillSettings& settings);
  ~KillCluster();
  KillCluster(const KillCluster&) = delete;
  KillCluster& operator=(const KillCluster&) = delete;

  [[nodiscard]] const KillSettings& settings() const noexcept { return settings_; }

  /// Starts the launcher; with `recover` it goes on from the logs. Returns when every node serves. Throws Error.
  void start(bool recover);
  /// kill -9 for a node, unless its present process was killed already and there is no other yet. Whether it was.
  bool kill_node(unsigned node);
  /// kill -9 for the launcher, which takes all nodes along; returns when all are gone.
  void kill_all();
  /// Until each node serves; how long it took.
  std::chrono::milliseconds await_serving();
  /// All workers rest, and all nodes have written down what they read. Throws Error when one does not.
  void rest_and_dump();
  void work() { board_.phase.fetch_add(1); }
  /// Lets the nodes leave, and the launcher end.
  void finish();
  /// Calls of Atoll that failed in any node.
  [[nodiscard]] unsigned errors() const;
  /// They were to be expected.
  void forgive();
  /// The last lines that launcher and nodes have said.
  [[nodiscard]] std::string said() const;

 private:
  template <typename Done>
  void await(const char* what, Done done);
  [[nodiscard]] bool is_serving(unsigned node) const;
  void check_launcher();
  void end_launcher(int signal);

  const KillSettings settings_;
  Board& board_;
  pid_t launcher_ = -1;
  std::vector<std::uint32_t> killed_;  // of each node: the process that was killed last
};

}  // namespace atoll::test
