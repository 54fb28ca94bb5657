// Of cluster.cpp and lives.cpp: one life of a node.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <set>

#include "runtime/runtime.hpp"
#include "sim/cluster.hpp"

namespace atoll::sim {

struct Cluster::Life {
  NodeId node = 0;
  std::uint32_t number = 0;  // from 0
  std::uint32_t epoch = 1;
  NodeId group = 0;  // of its fibers
  std::unique_ptr<Node> instance;
  runtime::Runtime* runtime = nullptr;
  std::atomic<std::int64_t> act_until{cluster::Membership::kForEver};
  bool is_frozen = false;     // it stands still, and will go on
  std::uint32_t bodies = 0;   // that are at work
  bool is_in = false;         // it has met the others
  bool is_up = false;         // it has joined
  bool is_over = false;       // it has crashed
  bool is_joining = false;    // a fiber stands in its constructor
  bool is_told = false;       // a fiber is at work on the news
  std::uint32_t at_disk = 0;  // fibers that wait for its disk while it joins, perhaps with its engine locked
  std::uint32_t calls = 0;    // fibers that are inside its Runtime, to tell it something
  std::deque<News> news;      // that it is not told yet
  std::set<Life*> not_heard;  // who has not heard of it yet
};

/// Names and leaving; there is no master.
class Cluster::SimMembership final : public cluster::Membership {
 public:
  SimMembership(Cluster& cluster, const Life& life) noexcept : cluster_(cluster), life_(life), self_(life.node) {}
  ~SimMembership() override {
    while (life_.calls != 0) cluster_.machine_.sleep_ns(2'000);  // as a real one waits for its thread
    if (life_.is_in || !cluster_.is_logged()) cluster_.network_.detach(self_, life_.number);
  }
  std::vector<cluster::Peer> exchange(const cluster::Offer& /*offer*/, cluster::Events /*events*/) override {
    return {};
  }
  [[nodiscard]] NodeId id() const noexcept override { return self_; }
  [[nodiscard]] NodeId count() const noexcept override { return cluster_.options_.nodes; }
  [[nodiscard]] std::uint32_t epoch() const noexcept override { return life_.epoch; }
  [[nodiscard]] const std::atomic<std::int64_t>& act_until() const noexcept override { return life_.act_until; }
  Status publish(std::string_view name, GlobalAddress address) override {
    const auto [at, added] = cluster_.roots_.try_emplace(std::string(name), address);
    return added || at->second == address ? Status() : Status(Errc::kAlreadyExists, "the name is taken");
  }
  Result<GlobalAddress> lookup(std::string_view name, std::chrono::milliseconds timeout) override {
    const auto deadline = cluster_.machine_.now() + timeout;
    while (true) {
      if (const auto found = cluster_.roots_.find(name); found != cluster_.roots_.end()) return found->second;
      if (cluster_.machine_.now() >= deadline) return {Errc::kDeadline, "nobody has published this name in time"};
      cluster_.machine_.sleep_for(std::chrono::microseconds(20));
    }
  }
  [[nodiscard]] bool is_recoverable() const noexcept override { return cluster_.is_logged(); }
  [[nodiscard]] bool is_return() const noexcept override { return life_.number > 0; }
  void leave() noexcept override {
    if (life_.is_over) return;
    ++cluster_.left_;
    while (cluster_.left_ < cluster_.options_.nodes) cluster_.machine_.sleep_for(std::chrono::microseconds(20));
  }

 private:
  Cluster& cluster_;
  const Life& life_;
  NodeId self_;
};

}  // namespace atoll::sim
