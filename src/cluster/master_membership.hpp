// A node of a cluster that has a master: its connection to it, and what it learns through it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <optional>
#include <thread>

#include "base/mutex.hpp"
#include "cluster/control.hpp"
#include "cluster/door.hpp"
#include "cluster/key.hpp"
#include "cluster/lease_keeper.hpp"
#include "cluster/membership.hpp"
#include "cluster/roots.hpp"
#include "cluster/tcp.hpp"
#include "memory/segment.hpp"

namespace atoll::cluster {

/// Where the master is, and what it takes to be let in there.
struct MasterPlace {
  std::string name;               // as ATOLL_MASTER has it
  std::optional<TcpAddress> tcp;  // none: an abstract socket of this host
  std::optional<Key> key;         // where there is an address
};
/// Throws Error: what ATOLL_MASTER says makes no sense, or there is no key.
[[nodiscard]] MasterPlace find_master(const std::string& name);
/// Throws Error.
[[nodiscard]] Connection connect_master(const MasterPlace& place, Clock::time_point deadline);

/// A node that talks to a master: requests from any thread, answers and notices through a thread of its own, which also
/// keeps the node's lease. A connection over TCP that ends is made again, by one more thread as long as that takes:
/// the master may have been started anew, or the network may have failed for a moment.
///
/// Thread-safety: every method may be called from any thread; from a callback, neither leave nor the destructor.
/// Invariants:
///   1. Until `exchange` returns only the thread that joins uses the connection; from then on, the mutex guards it.
///   2. A waiting call ends with the master's answer, its own deadline, this node's fencing or the loss of the master.
///   3. Callbacks run without the mutex, on the reader thread, in the order of what happened.
///   4. While there is no connection there is one thread that looks for the master, or the master is lost for ever.
///   5. A report says that this node has an epoch only when the callbacks about that epoch have returned: what a
///   newcomer
///      waits for is that the others have taken it in.
class MasterMembership final : public Membership {
 public:
  MasterMembership(const Options& options, MasterPlace place, NodeId id, NodeId count);
  ~MasterMembership() override;

  std::vector<Peer> exchange(const Offer& offer, Events events) override;
  [[nodiscard]] NodeId id() const noexcept override { return id_; }
  [[nodiscard]] NodeId count() const noexcept override { return count_; }
  [[nodiscard]] std::uint32_t epoch() const noexcept override { return epoch_.load(std::memory_order_acquire); }
  [[nodiscard]] bool is_return() const noexcept override { return is_return_; }
  [[nodiscard]] bool is_recoverable() const noexcept override { return recoverable_; }
  [[nodiscard]] const std::atomic<std::int64_t>& act_until() const noexcept override { return act_until_; }
  [[nodiscard]] std::chrono::nanoseconds lease() const noexcept override { return lease_; }
  [[nodiscard]] bool set_reachable(NodeId peer, bool reachable) override ATOLL_EXCLUDES(mutex_);
  [[nodiscard]] bool spans_hosts() const noexcept override { return uses_doors_; }
  [[nodiscard]] std::string local_address() const override { return local_address_; }
  Status publish(std::string_view name, GlobalAddress address) override;
  Result<GlobalAddress> lookup(std::string_view name, std::chrono::milliseconds timeout) override;
  void leave() noexcept override;
  void abandon() noexcept override;

 private:
  struct Request {
    Json body;  // asked again when the master comes back
    bool answered = false;
    Errc code = Errc::kOk;
    GlobalAddress address;
  };
  struct DoorPlate {
    std::string name, token;  // empty where there is no door
  };
  /// What the master told of another node's process.
  struct Arrival {
    Peer peer;
    DoorPlate door;
  };
  using Arrivals = std::map<std::pair<NodeId, std::uint32_t>, Arrival>;  // by node and incarnation

  // joining.cpp
  [[nodiscard]] Json introduction(const char* op) const;
  void take_joined(const Frame& frame) ATOLL_REQUIRES(mutex_);
  void find_local_address() ATOLL_REQUIRES(mutex_);
  Frame await_start(Clock::time_point deadline, const char* what) ATOLL_REQUIRES(mutex_);
  void fail_unless(const Status& status) const ATOLL_REQUIRES(mutex_);
  [[noreturn]] void fail_to_start(const Frame& frame) const;
  void send_offer(const Offer& offer, const memory::Segment& own) ATOLL_REQUIRES(mutex_);
  void await_roster(Clock::time_point deadline) ATOLL_REQUIRES(mutex_);
  void await_lease(Clock::time_point deadline) ATOLL_REQUIRES(mutex_);
  void take_peers(Frame& frame) ATOLL_REQUIRES(mutex_);
  [[nodiscard]] std::string take_arrival(const Json& entry, base::Fd segment) ATOLL_REQUIRES(mutex_);
  void open_doors(Clock::time_point deadline) ATOLL_REQUIRES(mutex_);
  void open_door(Arrival& arrival, Clock::time_point deadline) const;
  [[nodiscard]] std::vector<Peer> gather_peers() ATOLL_REQUIRES(mutex_);
  [[nodiscard]] Clock::time_point soon() const noexcept { return Clock::now() + lease_ / 4; }

  // master_membership.cpp
  Result<GlobalAddress> request(Json body, std::chrono::milliseconds timeout) ATOLL_EXCLUDES(mutex_);
  [[nodiscard]] Status why_unanswered() const noexcept ATOLL_REQUIRES(mutex_);
  void read_loop() noexcept;
  [[nodiscard]] bool step(std::vector<LeaseKeeper::Notice>& notices) ATOLL_EXCLUDES(mutex_);
  void tell(const LeaseKeeper::Notice& notice) ATOLL_EXCLUDES(mutex_);
  void tell_return(const LeaseKeeper::Notice& notice) ATOLL_EXCLUDES(mutex_);
  void read_some() ATOLL_REQUIRES(mutex_);
  void keep_lease() ATOLL_REQUIRES(mutex_);
  void send_report() ATOLL_REQUIRES(mutex_);
  void show_right() ATOLL_REQUIRES(mutex_);
  void wait_for_more() ATOLL_EXCLUDES(mutex_);
  /// Nothing when the frame makes sense, else why not.
  [[nodiscard]] std::string on_frame(Frame& frame) ATOLL_REQUIRES(mutex_);
  [[nodiscard]] std::string on_newcomer(Frame& frame) ATOLL_REQUIRES(mutex_);
  void on_reply(Fields& fields, const Frame& frame) ATOLL_REQUIRES(mutex_);
  [[nodiscard]] std::string on_answer(const Frame& frame) ATOLL_REQUIRES(mutex_);
  void disconnect(const std::string& why) ATOLL_REQUIRES(mutex_);
  void lose(const std::string& why) ATOLL_REQUIRES(mutex_);
  void wake() noexcept;

  // returning.cpp
  void look_for_master() noexcept ATOLL_EXCLUDES(mutex_);
  [[nodiscard]] bool try_return(std::string& why) ATOLL_EXCLUDES(mutex_);
  void note_end_of_master() ATOLL_EXCLUDES(mutex_);
  void adopt_connection() ATOLL_REQUIRES(mutex_);
  void tell_names() ATOLL_REQUIRES(mutex_);

  const MasterPlace place_;
  const NodeId id_, count_;
  const std::uint32_t incarnation_;
  const std::uint64_t memory_bytes_, cache_bytes_;
  const std::uint32_t line_bytes_;
  const std::chrono::milliseconds join_timeout_;
  std::atomic<std::uint32_t> epoch_{1};
  std::atomic<std::int64_t> act_until_{kLongAgo};
  base::Fd wake_;
  // Set before the reader starts:
  Events events_;
  std::chrono::nanoseconds lease_{0};
  bool uses_doors_ = false;
  bool master_returns_ = false;  // whoever started it may start it again
  bool recoverable_ = false, is_return_ = false;
  base::Fd segment_;          // for the door
  std::optional<Door> door_;  // for those who come later, where nodes may; else until all have started
  Json offer_;                // what the master was told of this node, where it may have to be told again
  std::string local_address_;
  memory::Segment own_;  // a mapping of its own, whose counters outlive the node's; empty when they are not sent

  base::Mutex mutex_;
  std::condition_variable_any changed_;
  std::optional<Connection> connection_ ATOLL_GUARDED_BY(mutex_);
  std::optional<LeaseKeeper> keeper_ ATOLL_GUARDED_BY(mutex_);  // there from the end of the constructor on
  Term term_ ATOLL_GUARDED_BY(mutex_) = kNoTerm;
  std::uint64_t next_request_ ATOLL_GUARDED_BY(mutex_) = 1;
  std::map<std::uint64_t, Request> requests_ ATOLL_GUARDED_BY(mutex_);  // those that wait
  Arrivals arrivals_ ATOLL_GUARDED_BY(mutex_);                          // until they are told of
  RootTable names_ ATOLL_GUARDED_BY(mutex_);                            // what this node has published or looked up
  bool exchanged_ ATOLL_GUARDED_BY(mutex_) = false;
  bool leaving_ ATOLL_GUARDED_BY(mutex_) = false;
  bool all_left_ ATOLL_GUARDED_BY(mutex_) = false;
  bool lost_ ATOLL_GUARDED_BY(mutex_) = false;  // for ever
  bool stopping_ ATOLL_GUARDED_BY(mutex_) = false;
  std::optional<Connection> found_ ATOLL_GUARDED_BY(mutex_);  // the master again, for the reader to take
  Term found_term_ ATOLL_GUARDED_BY(mutex_) = kNoTerm;
  std::thread reader_;
  std::thread finder_;  // started and joined by the reader; by the destructor after it
};

/// What a code means when the master's answer carries it. Status holds static strings only.
[[nodiscard]] Status membership_status(Errc code) noexcept;
void describe_self(Peer& self, const memory::Segment& segment);

}  // namespace atoll::cluster
