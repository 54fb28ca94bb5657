// A node of a cluster that has a master: its connection to it, and what it learns through it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <optional>
#include <thread>

#include "base/mutex.hpp"
#include "cluster/control.hpp"
#include "cluster/membership.hpp"
#include "memory/segment.hpp"

namespace atoll::cluster {

/// A node that talks to a master: requests from any thread, answers and notices through a thread of its own.
///
/// Thread-safety: every method may be called from any thread; from a callback, neither leave nor the destructor.
/// Invariants:
///   1. Until `exchange` returns only the thread that joins uses the connection; from then on, the mutex guards it.
///   2. A waiting call ends with the master's answer, its own deadline, or the loss of the master.
///   3. Callbacks run without the mutex, on the reader thread, in the order of the master's notices.
class MasterMembership final : public Membership {
 public:
  MasterMembership(const Options& options, Connection master, NodeId id, NodeId count);
  ~MasterMembership() override;

  std::vector<Peer> exchange(const Offer& offer, Events events) override;
  [[nodiscard]] NodeId id() const noexcept override { return id_; }
  [[nodiscard]] NodeId count() const noexcept override { return count_; }
  [[nodiscard]] std::uint32_t epoch() const noexcept override { return epoch_.load(std::memory_order_acquire); }
  Status publish(std::string_view name, GlobalAddress address) override;
  [[nodiscard]] bool spans_hosts() const noexcept override { return uses_doors_; }
  [[nodiscard]] std::string local_address() const override { return local_address_; }
  Result<GlobalAddress> lookup(std::string_view name, std::chrono::milliseconds timeout) override;
  void leave() noexcept override;

 private:
  struct Answer {
    Errc code = Errc::kOk;
    GlobalAddress address;
  };
  struct Notice {
    NodeId node = kNoNode;  // kNoNode: the master is lost
    std::string why;
  };

  struct DoorPlate {
    std::string name, token;  // empty where there is no door
  };
  /// What the master told of the others.
  struct Roster {
    std::vector<Peer> peers;
    std::vector<bool> named;
    std::vector<DoorPlate> doors;
  };

  void find_local_address();
  Frame await_start(Clock::time_point deadline, const char* what) ATOLL_REQUIRES(mutex_);
  Roster await_roster(Clock::time_point deadline) ATOLL_REQUIRES(mutex_);
  void take_peers(Frame& frame, Roster& roster) const;
  void open_doors(Roster& roster, Clock::time_point deadline) const;
  void take_epoch(const Frame& frame);
  void beat() ATOLL_REQUIRES(mutex_);
  Result<GlobalAddress> request(Json body, std::chrono::milliseconds timeout) ATOLL_EXCLUDES(mutex_);
  void read_loop() noexcept;
  bool read_some(std::vector<Notice>& notices) ATOLL_EXCLUDES(mutex_);
  bool on_frame(const Frame& frame, std::vector<Notice>& notices) ATOLL_REQUIRES(mutex_);
  void lost(const std::string& why, std::vector<Notice>& notices) ATOLL_REQUIRES(mutex_);
  void wake() noexcept;

  const NodeId id_, count_;
  const std::chrono::milliseconds join_timeout_;
  std::atomic<std::uint32_t> epoch_{1};
  base::Fd wake_;
  // Set before the reader starts:
  Events events_;
  bool uses_doors_ = false;
  std::string local_address_;
  std::chrono::milliseconds heartbeat_{0};  // 0: none are wanted
  memory::Segment own_;  // a mapping of its own, whose counters outlive the node's; empty without heartbeats

  base::Mutex mutex_;
  std::condition_variable_any changed_;
  Connection connection_ ATOLL_GUARDED_BY(mutex_);
  std::uint64_t next_request_ ATOLL_GUARDED_BY(mutex_) = 1;
  std::map<std::uint64_t, std::optional<Answer>> requests_ ATOLL_GUARDED_BY(mutex_);  // those that wait
  bool exchanged_ ATOLL_GUARDED_BY(mutex_) = false;
  bool all_left_ ATOLL_GUARDED_BY(mutex_) = false;
  bool lost_ ATOLL_GUARDED_BY(mutex_) = false;
  bool stopping_ ATOLL_GUARDED_BY(mutex_) = false;
  Clock::time_point next_beat_ ATOLL_GUARDED_BY(mutex_){};
  int poll_fd_ = -1;  // the connection's, which never changes
  std::thread reader_;
};

/// The master that the environment names, at a TCP address or on this host. Throws Error.
[[nodiscard]] Connection connect_master(const std::string& master, Clock::time_point deadline);
/// What a code means when the master's answer carries it. Status holds static strings only.
[[nodiscard]] Status membership_status(Errc code) noexcept;
void describe_self(Peer& self, const memory::Segment& segment);

}  // namespace atoll::cluster
