// A cluster inside one process, for tests: real nodes over real shared memory, no launcher.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "atoll/atoll.hpp"
#include "base/log.hpp"
#include "cluster/membership.hpp"
#include "runtime/runtime.hpp"

namespace atoll::test {

/// What the nodes of one LocalCluster share instead of a master.
class Hub {
 public:
  explicit Hub(NodeId count) : segments_(count), addresses_(count), events_(count), act_until_(count) {
    for (auto& until : act_until_) until = cluster::Membership::kForEver;
  }

  std::vector<cluster::Peer> exchange(NodeId self, const cluster::Offer& offer, cluster::Events events) {
    std::unique_lock lock(mutex_);
    segments_[self] = ::dup(offer.segment.get());
    addresses_[self] = offer.address;
    events_[self] = std::move(events);
    ++arrived_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return arrived_ == segments_.size(); });
    std::vector<cluster::Peer> peers(segments_.size());
    for (NodeId node = 0; node < segments_.size(); ++node) {
      peers[node].id = node;
      peers[node].address = addresses_[node];
      if (node != self) peers[node].segment = base::Fd(::dup(segments_[node]));
    }
    return peers;
  }
  void leave(NodeId self) {
    std::unique_lock lock(mutex_);
    if (!gone_[self]) ++left_;
    gone_[self] = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return left_ >= segments_.size(); });
  }
  /// Tells every other node that this one is gone.
  void kill(NodeId node) {
    std::vector<cluster::Events> told;
    {
      std::lock_guard lock(mutex_);
      if (!gone_[node]) ++left_;
      gone_[node] = true;
      for (NodeId n = 0; n < events_.size(); ++n) {
        if (n != node) told.push_back(events_[n]);
      }
      changed_.notify_all();
    }
    for (const auto& events : told) events.on_death(node, "killed by the test");
  }
  /// The node's right to act ends, as if its lease had; or it has one again; or it is out for ever.
  void set_standing(NodeId node, cluster::Standing standing) {
    act_until_[node] = standing == cluster::Standing::kActive ? cluster::Membership::kForEver : 0;
    cluster::Events told;
    {
      std::lock_guard lock(mutex_);
      told = events_[node];
    }
    told.on_standing(standing, "the test wants it");
  }
  const std::atomic<std::int64_t>& act_until(NodeId node) const { return act_until_[node]; }
  ~Hub() {
    for (const int fd : segments_) ::close(fd);
  }
  NodeId count() const { return NodeId(segments_.size()); }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, GlobalAddress, std::less<>> roots_;

 private:
  std::vector<int> segments_;
  std::vector<std::string> addresses_;
  std::vector<cluster::Events> events_;
  std::vector<std::atomic<std::int64_t>> act_until_;
  std::map<NodeId, bool> gone_;
  std::size_t arrived_ = 0;
  std::size_t left_ = 0;
};

class LocalMembership final : public cluster::Membership {
 public:
  LocalMembership(std::shared_ptr<Hub> hub, NodeId self) : hub_(std::move(hub)), self_(self) {}
  std::vector<cluster::Peer> exchange(const cluster::Offer& offer, cluster::Events events) override {
    return hub_->exchange(self_, offer, std::move(events));
  }
  NodeId id() const noexcept override { return self_; }
  NodeId count() const noexcept override { return hub_->count(); }
  std::uint32_t epoch() const noexcept override { return 1; }
  const std::atomic<std::int64_t>& act_until() const noexcept override { return hub_->act_until(self_); }
  Status publish(std::string_view name, GlobalAddress address) override {
    std::lock_guard lock(hub_->mutex_);
    hub_->roots_[std::string(name)] = address;
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
  std::shared_ptr<Hub> hub_;
  NodeId self_;
};

/// N nodes in this process. Destroyed together, as programs leave together.
class LocalCluster {
 public:
  explicit LocalCluster(NodeId count, const Options& options = small_options()) : hub_(std::make_shared<Hub>(count)) {
    base::init_logging();
    nodes_.resize(count);
    in_parallel([&](NodeId id) {
      nodes_[id] = std::make_unique<Node>(
          std::make_unique<runtime::Runtime>(options, std::make_unique<LocalMembership>(hub_, id)));
    });
  }
  ~LocalCluster() {
    in_parallel([&](NodeId id) { nodes_[id].reset(); });
  }
  /// A small machine: a few megabytes, a cache of 64 lines unless said otherwise.
  static Options small_options() {
    Options options;
    options.memory_bytes = 4 << 20;
    options.cache_bytes = 64 * 512;
    options.death_grace = std::chrono::milliseconds(200);
    options.read_in_place = false;  // reads go through the protocol, which most tests are about
    return options;
  }

  Node& operator[](NodeId id) { return *nodes_[id]; }
  Hub& hub() { return *hub_; }
  NodeId count() const { return NodeId(nodes_.size()); }
  /// Runs `f(id)` on a thread per node and waits for all.
  void in_parallel(const std::function<void(NodeId)>& f) {
    std::vector<std::thread> threads;
    for (NodeId id = 0; id < nodes_.size(); ++id) threads.emplace_back([&f, id] { f(id); });
    for (auto& thread : threads) thread.join();
  }

 private:
  std::shared_ptr<Hub> hub_;
  std::vector<std::unique_ptr<Node>> nodes_;
};

}  // namespace atoll::test
