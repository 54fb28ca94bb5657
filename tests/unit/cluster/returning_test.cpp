// Nodes whose master ends, is started again, or is out of reach for a while.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <filesystem>
#include <future>
#include <memory>
#include <mutex>

#include "base/boot_clock.hpp"
#include "cluster/master.hpp"
#include "cluster/membership.hpp"

namespace atoll::cluster {
namespace {

using namespace std::chrono_literals;

constexpr auto kLong = 30s;

Options small_options() {
  Options options;
  options.memory_bytes = 1 << 20;
  options.cache_bytes = 64 << 10;
  options.join_timeout = kLong;
  return options;
}

/// What a membership has told, and a place to wait for it.
class Told {
 public:
  Events events() {
    return {
        [this](NodeId node, const std::string&) { note("death " + std::to_string(node)); },
        [this] { note("master lost"); },
        [this](Standing standing, const std::string&) {
          note(standing == Standing::kActive ? "active" : standing == Standing::kSuspended ? "suspended" : "fenced");
        }};
  }
  bool hears(const std::string& what) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kLong, [&] { return std::find(all_.begin(), all_.end(), what) != all_.end(); });
  }
  bool heard(const std::string& what) {
    const std::lock_guard lock(mutex_);
    return std::find(all_.begin(), all_.end(), what) != all_.end();
  }

 private:
  void note(std::string what) {
    const std::lock_guard lock(mutex_);
    all_.push_back(std::move(what));
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> all_;
};

class Returning : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "atoll-returning-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder = pattern;
  }
  void TearDown() override {
    for (auto& node : nodes) node.reset();
    master.reset();
    std::filesystem::remove_all(folder);
  }

  void start_master(bool state, bool returns = true) {
    MasterConfig config{2, "test"};
    config.listen = TcpAddress{"127.0.0.1", port};
    config.key = key;
    config.lease = 1000ms;
    config.grace = 2000ms;
    config.returns = returns;
    if (state) config.state_file = folder + "/state";
    master = std::make_unique<Master>(std::move(config));
    port = master->tcp_address()->port;
  }
  void join() {
    ::setenv("ATOLL_KEY", key.reveal().c_str(), 1);
    ::setenv("ATOLL_MASTER", master->tcp_address()->text().c_str(), 1);
    ::setenv("ATOLL_NODES", "2", 1);
    for (const std::size_t k : {0u, 1u}) {
      ::setenv("ATOLL_NODE", std::to_string(k).c_str(), 1);
      nodes[k] = Membership::connect(small_options());
      segments[k] = memory::Segment::create(small_options(), 2);
    }
    for (const char* name : {"ATOLL_MASTER", "ATOLL_NODE", "ATOLL_NODES", "ATOLL_KEY"}) ::unsetenv(name);
    auto other = std::async(std::launch::async, [&] {
      (void)nodes[1]->exchange({segments[1].fd(), {}}, told[1].events());
    });
    (void)nodes[0]->exchange({segments[0].fd(), {}}, told[0].events());
    other.get();
  }
  void leave() {
    auto other = std::async(std::launch::async, [&] { nodes[1]->leave(); });
    nodes[0]->leave();
    other.get();
  }
  bool may_act(std::size_t node) const { return base::coarse_ns() < nodes[node]->act_until().load(); }

  const Key key = Key::generate();
  std::string folder;
  std::uint16_t port = 0;
  std::unique_ptr<Master> master;
  std::unique_ptr<Membership> nodes[2];
  memory::Segment segments[2];
  Told told[2];
};

TEST_F(Returning, nodes_come_back_to_a_master_that_was_started_again_and_bring_the_names) {
  for (const bool state : {true, false}) {
    SCOPED_TRACE(state);
    start_master(state);
    join();
    EXPECT_TRUE(nodes[0]->publish("root", GlobalAddress(4096)).ok());
    master.reset();
    auto asked = std::async(std::launch::async, [&] { return nodes[1]->lookup("root", kLong); });
    std::this_thread::sleep_for(1200ms);  // longer than a lease
    EXPECT_TRUE(may_act(0) && may_act(1));
    start_master(state);
    EXPECT_EQ(asked.get().value(), GlobalAddress(4096));
    EXPECT_TRUE(nodes[1]->publish("second", GlobalAddress(64)).ok());
    EXPECT_EQ(nodes[0]->lookup("second", kLong).value(), GlobalAddress(64));
    std::this_thread::sleep_for(2s);  // and are renewed from then on
    EXPECT_TRUE(may_act(0) && may_act(1));
    for (Told& each : told) EXPECT_FALSE(each.heard("suspended") || each.heard("death 0") || each.heard("death 1"));
    leave();
    EXPECT_FALSE(std::filesystem::exists(folder + "/state"));
    for (auto& node : nodes) node.reset();
    master.reset();
    port = 0;
  }
}

TEST_F(Returning, who_does_not_come_back_is_out_if_there_is_a_record) {
  start_master(true);
  join();
  master.reset();
  nodes[1].reset();
  start_master(true);
  EXPECT_TRUE(told[0].hears("death 1"));
  EXPECT_TRUE(may_act(0));
  EXPECT_EQ(nodes[0]->epoch(), 2u);
  nodes[0]->leave();
}

TEST_F(Returning, a_cluster_whose_master_never_comes_back_ends) {
  start_master(false);
  join();
  auto asked = std::async(std::launch::async, [&] { return nodes[1]->lookup("root", kLong); });
  auto left = std::async(std::launch::async, [&] { nodes[0]->leave(); });
  master.reset();
  EXPECT_TRUE(told[0].hears("suspended"));
  EXPECT_FALSE(may_act(0));
  EXPECT_TRUE(told[0].hears("master lost"));
  EXPECT_TRUE(told[1].hears("master lost"));
  EXPECT_EQ(asked.get().status().code(), Errc::kClusterDown);
  left.get();
}

TEST_F(Returning, the_end_of_a_master_that_nobody_starts_again_is_known_at_once) {
  start_master(false, false);
  join();
  master.reset();
  EXPECT_TRUE(told[0].hears("master lost"));
  EXPECT_TRUE(told[1].hears("master lost"));
}

TEST_F(Returning, a_node_that_is_declared_out_is_fenced_and_others_go_on) {
  start_master(true);
  join();
  (void)master->node_exited(1, "said to have ended");
  EXPECT_TRUE(told[1].hears("fenced"));
  EXPECT_TRUE(told[0].hears("death 1"));
  EXPECT_FALSE(may_act(1));
  EXPECT_TRUE(may_act(0));
  EXPECT_EQ(nodes[1]->publish("x", GlobalAddress(64)).code(), Errc::kFenced);
  EXPECT_EQ(nodes[1]->lookup("x", kLong).status().code(), Errc::kFenced);
  nodes[1]->leave();  // returns
}

TEST_F(Returning, a_record_that_nobody_comes_back_for_is_forgotten) {
  start_master(true);
  join();
  master.reset();
  for (auto& node : nodes) node.reset();
  ASSERT_TRUE(std::filesystem::exists(folder + "/state"));
  start_master(true);
  try {
    join();
    FAIL() << "let in while the old ones may still act";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("waits for the nodes of a cluster that ran before it"));
  }
  for (const auto end = Clock::now() + kLong; std::filesystem::exists(folder + "/state") && Clock::now() < end;) {
    std::this_thread::sleep_for(50ms);
  }
  join();
  EXPECT_TRUE(may_act(0) && may_act(1));
  leave();
}

}  // namespace
}  // namespace atoll::cluster
