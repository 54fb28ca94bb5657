// The master: the one process (the launcher) that all nodes of a cluster are connected to. It introduces them to
// each other, keeps the named roots, tells of deaths, and answers `atoll status`. It is on no data path.
#pragma once

#include <poll.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "atoll/status.hpp"
#include "base/fd.hpp"
#include "base/mutex.hpp"
#include "cluster/control.hpp"
#include "cluster/roots.hpp"
#include "memory/segment.hpp"

namespace atoll::cluster {

struct MasterConfig {
  NodeId nodes = 1;
  std::string program;  // shown by `atoll status`
};

/// Introduces the nodes of a cluster to each other and keeps what they have in common.
///
/// Thread-safety: every method may be called from any thread.
/// Invariants:
///   1. Nodes learn of each other only when all of them have brought a segment; until then any loss fails the
///      start for everyone, with the reason.
///   2. A node's state only moves forward: starting, joining, joined, left, dead. One death notice per node.
///   3. A node that said "leave" still serves its memory until all have: its end before that is a death.
///   4. Nothing that a client sends takes the master down; a malformed frame costs the client its connection.
///   5. The thread never blocks but in poll(2).
class Master {
 public:
  /// What a node was to the cluster when its process ended.
  enum class Exit : std::uint8_t { kNeverJoined, kLeft, kDied };

  /// Listens and starts the thread. Throws Error.
  explicit Master(MasterConfig config);
  /// Ends the thread and all connections; nodes that are still there see the master lost.
  ~Master();
  Master(const Master&) = delete;
  Master& operator=(const Master&) = delete;

  /// The abstract socket that nodes connect to (ATOLL_MASTER).
  [[nodiscard]] const std::string& socket_name() const noexcept { return name_; }
  /// The launcher knows how the process of a node ended: "killed by signal 9 (SIGKILL)", "exited with code 3".
  /// What the node sent before its end counts first. REQUIRES: node < config.nodes.
  Exit node_exited(NodeId node, const std::string& why) ATOLL_EXCLUDES(mutex_);

 private:
  enum class State : std::uint8_t { kStarting, kJoining, kJoined, kLeft, kDead };
  static const char* to_string(State state) noexcept;

  struct Client {
    explicit Client(base::Fd socket) noexcept : connection(std::move(socket)) {}
    Connection connection;
    NodeId node = kNoNode;  // who it joined as
    int pid = 0;            // as the kernel says
    bool closing = false;   // sends what is queued, then is closed
    bool gone = false;      // to be removed by the thread
    Clock::time_point idle_until;
  };
  struct Member {
    State state = State::kStarting;
    int pid = 0;
    std::uint64_t memory = 0, cache = 0, line = 0;
    SharedFd fd;
    std::string address;  // of its fabric, for its peers
    memory::Segment segment;
    std::string why;                           // of its death
    std::optional<Clock::time_point> dies_at;  // its connection ended; a better reason may come until then
    Client* client = nullptr;
  };
  struct Waiter {
    Client* client = nullptr;
    std::uint64_t id = 0;
    Clock::time_point deadline;
  };

  // The thread.
  void run();
  int prepare_poll(std::vector<pollfd>& polls, std::vector<Client*>& polled) ATOLL_EXCLUDES(mutex_);
  void handle_poll(const std::vector<pollfd>& polls, const std::vector<Client*>& polled) ATOLL_EXCLUDES(mutex_);
  void accept_clients() ATOLL_REQUIRES(mutex_);
  void on_clock() ATOLL_REQUIRES(mutex_);
  void remove_gone() ATOLL_REQUIRES(mutex_);
  void give_up() ATOLL_EXCLUDES(mutex_);

  // Frames.
  void read_client(Client& client) ATOLL_REQUIRES(mutex_);
  void on_frame(Client& client, Frame& frame) ATOLL_REQUIRES(mutex_);
  void on_join(Client& client, const Frame& frame) ATOLL_REQUIRES(mutex_);
  [[nodiscard]] std::string refusal(const Client& client, std::uint64_t node, std::uint64_t line)
      ATOLL_REQUIRES(mutex_);
  void on_exchange(Client& client, Frame& frame) ATOLL_REQUIRES(mutex_);
  void on_leave(Client& client) ATOLL_REQUIRES(mutex_);
  void on_publish(Client& client, const Frame& frame) ATOLL_REQUIRES(mutex_);
  void on_lookup(Client& client, const Frame& frame) ATOLL_REQUIRES(mutex_);
  void on_status(Client& client) ATOLL_REQUIRES(mutex_);

  // What happens to members.
  void send_rosters() ATOLL_REQUIRES(mutex_);
  void refuse(Client& client, const std::string& why) ATOLL_REQUIRES(mutex_);
  void drop(Client& client, const std::string& why) ATOLL_REQUIRES(mutex_);
  void connection_ended(Client& client) ATOLL_REQUIRES(mutex_);
  void end_member(NodeId node, const std::string& why) ATOLL_REQUIRES(mutex_);
  void fail_start(const std::string& why) ATOLL_REQUIRES(mutex_);
  void check_all_left() ATOLL_REQUIRES(mutex_);
  void send_all(const Json& body, NodeId except) ATOLL_REQUIRES(mutex_);
  [[nodiscard]] Json describe(NodeId node) const ATOLL_REQUIRES(mutex_);

  const MasterConfig config_;
  const std::string name_;
  const std::int64_t started_;  // seconds since 1970
  base::Fd listener_, wake_;

  base::Mutex mutex_;
  bool stopping_ ATOLL_GUARDED_BY(mutex_) = false;
  bool running_ ATOLL_GUARDED_BY(mutex_) = false;  // the rosters are out
  bool all_left_ ATOLL_GUARDED_BY(mutex_) = false;
  std::string failure_ ATOLL_GUARDED_BY(mutex_);  // why the start failed
  std::uint32_t epoch_ ATOLL_GUARDED_BY(mutex_) = 1;
  Clock::time_point accept_after_ ATOLL_GUARDED_BY(mutex_){};
  std::vector<Member> members_ ATOLL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Client>> clients_ ATOLL_GUARDED_BY(mutex_);
  RootTable roots_ ATOLL_GUARDED_BY(mutex_);
  std::multimap<std::string, Waiter, std::less<>> waiters_ ATOLL_GUARDED_BY(mutex_);

  std::thread thread_;
};

}  // namespace atoll::cluster
