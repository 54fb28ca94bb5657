// The master: the one process (`atoll run`, `atoll master`) that all nodes of a cluster are connected to. It introduces
// them to each other, keeps the named roots, tells of deaths, and answers `atoll status`. It is on no data path.
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

#include "atoll/stats.hpp"
#include "atoll/status.hpp"
#include "base/fd.hpp"
#include "base/mutex.hpp"
#include "cluster/control.hpp"
#include "cluster/gate.hpp"
#include "cluster/key.hpp"
#include "cluster/lease_master.hpp"
#include "cluster/record_file.hpp"
#include "cluster/roots.hpp"
#include "cluster/tcp.hpp"
#include "memory/segment.hpp"

namespace atoll::cluster {

struct MasterConfig {
  NodeId nodes = 1;
  std::string program;  // shown by `atoll status`
  /// Where to listen for nodes of other hosts, and what they must have; without, all nodes are on this host.
  std::optional<TcpAddress> listen = std::nullopt;
  std::optional<Key> key = std::nullopt;              // REQUIRES: there is one when there is an address to listen at
  std::chrono::milliseconds lease{kDefaultLease_ms};  // after so long a silent node is out
  std::chrono::milliseconds grace{kDefaultMasterGrace_ms};  // so long the cluster works on without a master
  /// Where it leaves to its successor who is in; without, a successor needs all nodes.
  std::optional<std::string> state_file = std::nullopt;
  bool returns = false;  // who ends it may start it again: nodes wait for that
  /// Another process may take the place of a node that died, while the others live on.
  bool recoverable = false;
};

/// Introduces the nodes of a cluster to each other and keeps what they have in common.
///
/// Segments reach the peers in one of two ways. A master that does not listen at TCP has all nodes on its host, and
/// passes their segments on as descriptors. One that does passes none, however a node has reached it: each node opens a
/// door (door.hpp), and the master tells peers of the same host, and nobody else, where it is. The nodes say "ready"
/// when they have what they can get, and the cluster runs when all are.
///
/// A recoverable cluster lets another process (a new incarnation) take a dead node's place. It joins and makes its
/// offer as the first one did, and is told of those who are in; the others are told of it (a "newcomer" frame with its
/// offer, before the epoch that has it), and it begins when all of them have reported that they have that epoch. When
/// all are dead, or the last of them died before its newcomers had begun, the cluster is founded anew when all nodes
/// are there again.
///
/// Thread-safety: every method may be called from any thread.
/// Invariants:
///   1. Nodes learn of each other only when all of them have made their offer; until the cluster runs any loss fails
///      the start for everyone, with the reason.
///   2. A process's state only moves forward: starting, joining, joined, left, dead. One death notice per process that
///   was
///      in. Once the cluster runs, dead is who is not in the lease's epoch any more, or ended before it was; a node
///      that is dead joins again as another process, where that is allowed, and nobody takes the place of one that is
///      in.
///   3. A node that said "leave" still serves its memory until all have: its end before that is a death.
///   4. Nothing that a client sends takes the master down; a malformed frame costs the client its connection.
///   5. The thread never blocks but in poll(2), and on the disk when an epoch begins.
///   6. Who comes by TCP is heard, and told anything, only after it has proven the key (gate.hpp); who comes by the
///      unix socket must be of the same user, as the kernel says.
///   7. A node is sent an epoch only behind the offers of all who are in it.
///   8. It is over when every node has left, or is dead and does not come back.
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
  /// Nobody will start this node again: when it is dead, that is for ever. REQUIRES: node < config.nodes.
  void give_up_on(NodeId node) ATOLL_EXCLUDES(mutex_);
  /// Where it listens for nodes of other hosts: with the port that the system chose. None when it does not.
  [[nodiscard]] const std::optional<TcpAddress>& tcp_address() const noexcept { return tcp_address_; }

  /// Readable when a node was declared out, whose process may still be there.
  [[nodiscard]] int loss_fd() const noexcept { return lost_.get(); }
  struct LostNode {
    NodeId node = kNoNode;
    std::string why;
  };
  [[nodiscard]] std::vector<LostNode> take_losses() ATOLL_EXCLUDES(mutex_);
  /// Readable when it is over: all nodes have left or are dead, or the start has failed; and they know it.
  [[nodiscard]] int over_fd() const noexcept { return over_.get(); }
  struct Outcome {
    std::string failure;              // why the start failed; empty when it did not
    std::vector<std::string> deaths;  // "node 3: its connection ended"
  };
  [[nodiscard]] Outcome outcome() ATOLL_EXCLUDES(mutex_);

 private:
  enum class State : std::uint8_t { kStarting, kJoining, kOffered, kJoined, kLeft, kDead };
  static constexpr auto kIdleLimit = std::chrono::seconds(30);  // for a client that has not joined

  struct Client {
    Client(base::Fd socket, std::string who) noexcept : connection(std::move(socket)), name(std::move(who)) {}
    Connection connection;
    std::string name;               // for the log
    NodeId node = kNoNode;          // who it joined as
    std::uint32_t incarnation = 0;  // which process
    bool far = false;               // it came by TCP: the end of its connection says nothing of its process
    int pid = 0;                    // as the kernel says; 0 when it is not of this host
    bool closing = false;           // sends what is queued, then is closed
    bool gone = false;              // to be removed by the thread
    /// The epoch whose members it has the offers of; none: it came back, and has not said which one it has.
    std::optional<std::uint32_t> told = 0;
    Clock::time_point idle_until;
  };
  struct Member {
    State state = State::kStarting;
    std::uint32_t incarnation = 0;
    int pid = 0;
    std::uint64_t memory = 0, cache = 0, line = 0;
    SharedFd fd;
    std::string address;  // of its fabric, for its peers
    std::string host;     // the identity of its host: members that have the same are told
    std::string door, token;
    memory::Segment segment;
    std::optional<Stats> counters;             // of its last report
    Clock::time_point heard_at{};              // when that came
    std::string why;                           // of its death
    std::optional<Clock::time_point> dies_at;  // its connection ended; a better reason may come until then
    Client* client = nullptr;
    std::uint32_t restarts = 0;  // how often another process took its place
    std::uint64_t brought = 0;   // the memory of the process before it
    bool given_up = false, told_given_up = false;
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
  void admit(base::Fd socket, std::string name, int pid, const Seals* seals) ATOLL_REQUIRES(mutex_);
  void on_clock() ATOLL_REQUIRES(mutex_);
  void remove_gone() ATOLL_REQUIRES(mutex_);
  void give_up() ATOLL_EXCLUDES(mutex_);

  // Frames.
  static Json reply(std::uint64_t id, Errc code);
  static Json found_reply(std::uint64_t id, GlobalAddress address);
  void read_client(Client& client) ATOLL_REQUIRES(mutex_);
  void on_frame(Client& client, Frame& frame) ATOLL_REQUIRES(mutex_);
  void on_join(Client& client, const Frame& frame) ATOLL_REQUIRES(mutex_);
  [[nodiscard]] std::string refusal(const Client& client, std::uint64_t node, std::uint64_t line)
      ATOLL_REQUIRES(mutex_);
  void on_exchange(Client& client, Frame& frame) ATOLL_REQUIRES(mutex_);
  [[nodiscard]] std::string take_segment(Member& member, base::Fd fd) ATOLL_REQUIRES(mutex_);
  void on_ready(Client& client) ATOLL_REQUIRES(mutex_);
  void on_leave(Client& client) ATOLL_REQUIRES(mutex_);
  void on_publish(Client& client, const Frame& frame) ATOLL_REQUIRES(mutex_);
  void on_lookup(Client& client, const Frame& frame) ATOLL_REQUIRES(mutex_);
  void on_status(Client& client) ATOLL_REQUIRES(mutex_);
  [[nodiscard]] bool speaks_our_version(Client& client, Fields& fields) ATOLL_REQUIRES(mutex_);
  [[nodiscard]] Status publish(const std::string& name, GlobalAddress address) ATOLL_REQUIRES(mutex_);

  // master_leases.cpp
  [[nodiscard]] Term make_term() const ATOLL_REQUIRES(mutex_);
  void on_report(Client& client, const Frame& frame) ATOLL_REQUIRES(mutex_);
  void begin() ATOLL_REQUIRES(mutex_);
  [[nodiscard]] bool save_record() ATOLL_REQUIRES(mutex_);
  void tell_epoch(NodeId except) ATOLL_REQUIRES(mutex_);
  void on_outdated_report(Client& client, const Report& report) ATOLL_REQUIRES(mutex_);
  [[nodiscard]] std::string reason_of(const Loss& loss) const ATOLL_REQUIRES(mutex_);
  void declare(const std::vector<Loss>& losses) ATOLL_REQUIRES(mutex_);
  void look_at_leases() ATOLL_REQUIRES(mutex_);
  void forget_record() ATOLL_REQUIRES(mutex_);
  [[nodiscard]] Clock::time_point next_look_at_leases() const ATOLL_REQUIRES(mutex_);
  void on_return(Client& client, const Frame& frame) ATOLL_REQUIRES(mutex_);
  [[nodiscard]] std::string refusal_to_return(const Client& client, NodeId node, std::uint32_t incarnation) const
      ATOLL_REQUIRES(mutex_);
  void on_names(Client& client, const Frame& frame) ATOLL_REQUIRES(mutex_);

  // master_newcomers.cpp
  [[nodiscard]] bool may_come_back(const Member& member) const noexcept ATOLL_REQUIRES(mutex_);
  [[nodiscard]] bool is_introduced(const Member& member) const noexcept ATOLL_REQUIRES(mutex_);
  [[nodiscard]] bool never_acted(NodeId node) const noexcept ATOLL_REQUIRES(mutex_);
  [[nodiscard]] std::string refusal_of_successor(NodeId node) const ATOLL_REQUIRES(mutex_);
  void make_room_for_successor(Member& member) ATOLL_REQUIRES(mutex_);
  [[nodiscard]] std::string refusal_of_memory(const Member& member) const ATOLL_REQUIRES(mutex_);
  void introduce_newcomer(NodeId node) ATOLL_REQUIRES(mutex_);
  void tell(Client& client, const Answer& answer) ATOLL_REQUIRES(mutex_);
  void send_given_up(Client& client) ATOLL_REQUIRES(mutex_);
  void tell_given_up() ATOLL_REQUIRES(mutex_);
  void end_newcomer(NodeId node) ATOLL_REQUIRES(mutex_);
  void note_end(const Client& client) ATOLL_REQUIRES(mutex_);
  [[nodiscard]] const char* state_text(NodeId node) const ATOLL_REQUIRES(mutex_);

  // What happens to members.
  [[nodiscard]] bool uses_doors() const noexcept { return config_.listen.has_value(); }
  [[nodiscard]] bool all_are(State state) const ATOLL_REQUIRES(mutex_);
  void send_rosters() ATOLL_REQUIRES(mutex_);
  void send_roster(NodeId to) ATOLL_REQUIRES(mutex_);
  [[nodiscard]] Json peer_entry(NodeId node, const Member& to) const ATOLL_REQUIRES(mutex_);
  void refuse(Client& client, const std::string& why) ATOLL_REQUIRES(mutex_);
  void drop(Client& client, const std::string& why) ATOLL_REQUIRES(mutex_);
  void turned_away(const Client& client, const std::string& why) ATOLL_REQUIRES(mutex_);
  void connection_ended(Client& client) ATOLL_REQUIRES(mutex_);
  void end_member(NodeId node, const std::string& why) ATOLL_REQUIRES(mutex_);
  void fail_start(const std::string& why) ATOLL_REQUIRES(mutex_);
  void check_all_left() ATOLL_REQUIRES(mutex_);
  void check_over(Clock::time_point& until) ATOLL_REQUIRES(mutex_);
  void send_all(const Json& body, NodeId except) ATOLL_REQUIRES(mutex_);
  [[nodiscard]] Json describe(NodeId node) const ATOLL_REQUIRES(mutex_);

  const MasterConfig config_;
  const std::string name_;
  const std::int64_t started_;  // seconds since 1970
  base::Fd listener_, wake_, over_, lost_;
  std::optional<TcpAddress> tcp_address_;  // set before the thread starts

  base::Mutex mutex_;
  std::optional<Gate> gate_ ATOLL_GUARDED_BY(mutex_);
  bool stopping_ ATOLL_GUARDED_BY(mutex_) = false;
  bool running_ ATOLL_GUARDED_BY(mutex_) = false;  // the rosters are out
  bool all_left_ ATOLL_GUARDED_BY(mutex_) = false;
  std::string failure_ ATOLL_GUARDED_BY(mutex_);                       // why the start failed
  std::optional<Clock::time_point> over_by_ ATOLL_GUARDED_BY(mutex_);  // when nobody is waited for any more
  const LeaseTimes times_;
  std::optional<RecordFile> record_ ATOLL_GUARDED_BY(mutex_);
  LeaseMaster lease_ ATOLL_GUARDED_BY(mutex_);
  LeaseRecord saved_ ATOLL_GUARDED_BY(mutex_);             // what is on disk
  std::vector<LostNode> losses_ ATOLL_GUARDED_BY(mutex_);  // for take_losses
  std::vector<NodeId> untold_ ATOLL_GUARDED_BY(mutex_);    // dead, but nobody knows yet
  const LeaseTime began_at_;
  LeaseTime looked_at_ ATOLL_GUARDED_BY(mutex_) = 0;
  bool resuming_ ATOLL_GUARDED_BY(mutex_) = false;  // the cluster is older than this master
  Clock::time_point complain_after_ ATOLL_GUARDED_BY(mutex_){};
  Clock::time_point accept_after_ ATOLL_GUARDED_BY(mutex_){};
  std::vector<Member> members_ ATOLL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Client>> clients_ ATOLL_GUARDED_BY(mutex_);
  RootTable roots_ ATOLL_GUARDED_BY(mutex_);
  std::multimap<std::string, Waiter, std::less<>> waiters_ ATOLL_GUARDED_BY(mutex_);

  std::thread thread_;
};

}  // namespace atoll::cluster
