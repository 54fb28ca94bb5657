// A cluster inside one process whose nodes have logs, die and come back. See local_cluster.hpp for the one without.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "atoll/atoll.hpp"
#include "base/log.hpp"
#include "cluster/membership.hpp"
#include "runtime/runtime.hpp"
#include "storage/faulty_disk.hpp"

namespace atoll::test {

/// A disk that outlives the node that uses it.
class BorrowedDisk final : public storage::Disk {
 public:
  explicit BorrowedDisk(storage::Disk& disk) : disk_(disk) {}
  [[nodiscard]] std::unique_ptr<storage::File> open(const std::string& name, storage::OpenMode mode) override {
    return disk_.open(name, mode);
  }
  [[nodiscard]] bool exists(const std::string& name) override { return disk_.exists(name); }
  [[nodiscard]] Status remove(const std::string& name) override { return disk_.remove(name); }
  [[nodiscard]] Status rename(const std::string& from, const std::string& to) override {
    return disk_.rename(from, to);
  }
  [[nodiscard]] Result<std::vector<std::string>> list() override { return disk_.list(); }
  [[nodiscard]] Status sync_directory() override { return disk_.sync_directory(); }
  [[nodiscard]] const std::string& path() const noexcept override { return disk_.path(); }
  [[nodiscard]] storage::BootId boot_id() noexcept override { return disk_.boot_id(); }
  void set_begun(bool begun) noexcept override { disk_.set_begun(begun); }
  [[nodiscard]] bool has_begun() noexcept override { return disk_.has_begun(); }

 private:
  storage::Disk& disk_;
};

/// What the nodes share instead of a master that takes dead nodes back.
class ReturningHub {
 public:
  explicit ReturningHub(NodeId count) : seats_(count), telling_(count), act_until_(count) {
    for (auto& until : act_until_) until = cluster::Membership::kForEver;
  }
  ~ReturningHub() {
    for (const Seat& seat : seats_) close(seat);
  }

  std::vector<cluster::Peer> exchange(NodeId self, const cluster::Offer& offer, cluster::Events events) {
    std::vector<std::pair<NodeId, cluster::Events>> told;
    std::vector<cluster::Peer> peers;
    std::uint32_t epoch = 1;
    {
      std::unique_lock lock(mutex_);
      Seat& seat = seats_[self];
      close(seat);
      seat.segment = ::dup(offer.segment.get());
      seat.address = offer.address;
      seat.events = std::move(events);
      seat.alive = true;
      seat.left = false;
      ++arrived_;
      changed_.notify_all();
      if (running_) {
        epoch = ++epoch_;
        for (NodeId node = 0; node < seats_.size(); ++node) {
          if (node != self && seats_[node].alive) told.emplace_back(node, seats_[node].events);
        }
      } else {
        changed_.wait(lock, [&] { return arrived_ >= seats_.size(); });
        running_ = true;
      }
      seat.epoch = epoch;
      for (NodeId node = 0; node < seats_.size(); ++node) peers.push_back(peer_of(node, node != self));
    }
    for (const auto& [node, other] : told) {
      std::unique_lock lock(mutex_);
      const cluster::Peer peer = peer_of(self, true);
      lock.unlock();
      const std::lock_guard one_at_a_time(telling_[node]);  // as by the one thread of a real membership
      other.on_return(peer, epoch);
    }
    return peers;
  }
  void leave(NodeId self) {
    std::unique_lock lock(mutex_);
    seats_[self].left = true;
    changed_.notify_all();
    changed_.wait(lock, [&] {
      if (!seats_[self].alive) return true;
      for (const Seat& seat : seats_) {
        if (seat.alive && !seat.left) return false;
      }
      return true;
    });
  }
  /// The process of the node is over: it may not act any more, and the others hear of it.
  void kill(NodeId node) {
    std::vector<cluster::Events> told;
    cluster::Events own;
    {
      const std::lock_guard lock(mutex_);
      seats_[node].alive = false;
      own = seats_[node].events;
      for (NodeId n = 0; n < seats_.size(); ++n) {
        if (n != node && seats_[n].alive) told.push_back(seats_[n].events);
      }
      changed_.notify_all();
    }
    act_until_[node] = 0;
    own.on_standing(cluster::Standing::kFenced, "the test has killed it");
    for (const auto& events : told) events.on_death(node, "killed by the test");
  }
  void revive(NodeId node) { act_until_[node] = cluster::Membership::kForEver; }
  const std::atomic<std::int64_t>& act_until(NodeId node) const { return act_until_[node]; }
  NodeId count() const { return NodeId(seats_.size()); }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, GlobalAddress, std::less<>> roots_;
  std::atomic<std::int64_t> lease_ns_{0};
  std::atomic<int> complaints_{0};  // of a node about another

 private:
  struct Seat {
    int segment = -1;
    std::string address;
    cluster::Events events;
    bool alive = false, left = false;
    std::uint32_t epoch = 1;
  };
  static void close(const Seat& seat) {
    if (seat.segment >= 0) ::close(seat.segment);
  }
  cluster::Peer peer_of(NodeId node, bool with_segment) const {
    cluster::Peer peer;
    peer.id = node;
    peer.alive = seats_[node].alive;
    peer.address = seats_[node].address;
    peer.epoch = seats_[node].epoch;
    if (with_segment && peer.alive) peer.segment = base::Fd(::dup(seats_[node].segment));
    return peer;
  }

  std::vector<Seat> seats_;
  std::vector<std::mutex> telling_;  // per node that is told
  std::vector<std::atomic<std::int64_t>> act_until_;
  std::size_t arrived_ = 0;
  bool running_ = false;
  std::uint32_t epoch_ = 1;
};

class ReturningMembership final : public cluster::Membership {
 public:
  ReturningMembership(std::shared_ptr<ReturningHub> hub, NodeId self) : hub_(std::move(hub)), self_(self) {}
  std::vector<cluster::Peer> exchange(const cluster::Offer& offer, cluster::Events events) override {
    return hub_->exchange(self_, offer, std::move(events));
  }
  NodeId id() const noexcept override { return self_; }
  NodeId count() const noexcept override { return hub_->count(); }
  std::uint32_t epoch() const noexcept override { return 1; }
  bool is_recoverable() const noexcept override { return true; }
  const std::atomic<std::int64_t>& act_until() const noexcept override { return hub_->act_until(self_); }
  std::chrono::nanoseconds lease() const noexcept override { return std::chrono::nanoseconds(hub_->lease_ns_); }
  bool set_reachable(NodeId, bool reachable) override {
    if (!reachable) ++hub_->complaints_;
    return true;
  }
  Status publish(std::string_view name, GlobalAddress address) override {
    const std::lock_guard lock(hub_->mutex_);
    const auto [at, added] = hub_->roots_.try_emplace(std::string(name), address);
    if (!added && at->second != address) return {Errc::kAlreadyExists, "another address has this name"};
    hub_->changed_.notify_all();
    return {};
  }
  Result<GlobalAddress> lookup(std::string_view name, std::chrono::milliseconds timeout) override {
    std::unique_lock lock(hub_->mutex_);
    const auto there = [&] { return hub_->roots_.find(name) != hub_->roots_.end(); };
    if (!hub_->changed_.wait_for(lock, timeout, there)) return {Errc::kDeadline, "not published"};
    return hub_->roots_.find(name)->second;
  }
  void leave() noexcept override { hub_->leave(self_); }

 private:
  std::shared_ptr<ReturningHub> hub_;
  NodeId self_;
};

/// N nodes with logs on disks in memory. What is done on a node is done in a thread that was never another node's.
class LoggedCluster {
 public:
  explicit LoggedCluster(NodeId count, LogMode mode = LogMode::kProcess, Options options = small_options())
      : options_(std::move(options)), nodes_(count) {
    base::init_logging();
    options_.log = mode;
    for (NodeId id = 0; id < count; ++id) disks_.push_back(std::make_unique<storage::FaultyDisk>(id));
    begin();
  }
  ~LoggedCluster() { end(); }
  LoggedCluster(const LoggedCluster&) = delete;
  LoggedCluster& operator=(const LoggedCluster&) = delete;

  /// Caches of 64 lines and logs of a few megabytes.
  static Options small_options() {
    Options options;
    options.memory_bytes = 2 << 20;
    options.cache_bytes = 64 * 512;
    options.outstanding_writes = 16;
    options.log_bytes = 8 << 20;
    options.death_grace = std::chrono::milliseconds(200);
    options.read_in_place = false;
    return options;
  }

  Node& operator[](NodeId id) { return *nodes_[id]; }
  storage::FaultyDisk& disk(NodeId id = 0) { return *disks_[id]; }
  Options& options() { return options_; }
  ReturningHub& hub() { return *hub_; }
  /// From the next crash_all() on; 0: none, and nobody complains of anybody.
  void set_lease(std::chrono::nanoseconds lease) { lease_ns_ = lease.count(); }

  /// One process ends; in mode power its machine, and `seed` says what of its disk was lost. The others go on.
  void crash(NodeId id, std::uint64_t seed = 0) {
    stop(id, seed);
    nodes_[id].reset();
  }
  /// The first half of it: what the program has of the node is still there, and of no use.
  void stop(NodeId id, std::uint64_t seed = 0) {
    hub_->kill(id);
    end_disk(id, seed);
  }
  void restart(NodeId id) {
    hub_->revive(id);
    options_.recover = true;
    nodes_[id] = make(id);
  }
  void restart(const std::vector<NodeId>& ids) {
    for (const NodeId id : ids) hub_->revive(id);
    options_.recover = true;
    in_parallel(ids, [&](NodeId id) { nodes_[id] = make(id); });
  }
  /// All processes end, and are there again. The master is another one too.
  void crash_all(std::uint64_t seed = 0) {
    for (NodeId id = 0; id < nodes_.size(); ++id) hub_->kill(id);
    for (NodeId id = 0; id < nodes_.size(); ++id) end_disk(id, seed);
    for (auto& node : nodes_) node.reset();
    options_.recover = true;
    begin();
  }
  void end() {
    in_parallel(all(), [&](NodeId id) { nodes_[id].reset(); });
  }
  std::unique_ptr<Node> make(NodeId id) {
    return std::make_unique<Node>(std::make_unique<runtime::Runtime>(
        options_, std::make_unique<ReturningMembership>(hub_, id), runtime::make_transport(options_),
        base::Host::real(), std::make_unique<BorrowedDisk>(*disks_[id])));
  }

  template <typename F>
  void on(NodeId id, F f) {
    std::thread([&] { f(*nodes_[id]); }).join();
  }
  template <typename F>
  void on_all(F f) {
    in_parallel(all(), [&](NodeId id) { f(*nodes_[id]); });
  }

 private:
  void begin() {
    hub_ = std::make_shared<ReturningHub>(NodeId(nodes_.size()));
    hub_->lease_ns_ = lease_ns_;
    in_parallel(all(), [&](NodeId id) { nodes_[id] = make(id); });
  }
  void end_disk(NodeId id, std::uint64_t seed) {
    if (options_.log == LogMode::kPower) {
      disks_[id]->crash_power(seed);
    } else {
      disks_[id]->crash_process();
    }
  }
  std::vector<NodeId> all() const {
    std::vector<NodeId> ids;
    for (NodeId id = 0; id < nodes_.size(); ++id) ids.push_back(id);
    return ids;
  }
  static void in_parallel(const std::vector<NodeId>& ids, const std::function<void(NodeId)>& f) {
    std::vector<std::thread> threads;
    for (const NodeId id : ids) threads.emplace_back([&f, id] { f(id); });
    for (auto& thread : threads) thread.join();
  }

  Options options_;
  std::int64_t lease_ns_ = 0;
  std::vector<std::unique_ptr<storage::FaultyDisk>> disks_;
  std::shared_ptr<ReturningHub> hub_;
  std::vector<std::unique_ptr<Node>> nodes_;
};

}  // namespace atoll::test
