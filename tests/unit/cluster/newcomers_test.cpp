// Nodes that die and come back as other processes, while the others live: a real Master and real memberships.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <random>
#include <thread>

#include "base/boot_clock.hpp"
#include "cluster/master.hpp"
#include "cluster/membership.hpp"
#include "cluster/status_client.hpp"
#include "fake_peer.hpp"

namespace atoll::cluster {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr auto kLong = 60s;

Options small_options(std::uint64_t memory = 1 << 20) {
  Options options;
  options.memory_bytes = memory;
  options.cache_bytes = 64 << 10;
  options.join_timeout = kLong;
  return options;
}

/// Waits, with a generous bound, until it holds.
bool eventually(const std::function<bool()>& holds) {
  for (const auto end = Clock::now() + kLong; Clock::now() < end; std::this_thread::sleep_for(2ms)) {
    if (holds()) return true;
  }
  return false;
}

/// A process of a node, in this one.
class Process {
 public:
  Process(const std::string& master, NodeId id, NodeId nodes, const std::optional<Key>& key,
          std::uint64_t memory = 1 << 20)
      : segment_(memory::Segment::create(small_options(memory), nodes)) {
    ::setenv("ATOLL_MASTER", master.c_str(), 1);
    ::setenv("ATOLL_NODE", std::to_string(id).c_str(), 1);
    ::setenv("ATOLL_NODES", std::to_string(nodes).c_str(), 1);
    if (key) ::setenv("ATOLL_KEY", key->reveal().c_str(), 1);
    struct Restore {
      ~Restore() {
        for (const char* name : {"ATOLL_MASTER", "ATOLL_NODE", "ATOLL_NODES", "ATOLL_KEY"}) ::unsetenv(name);
      }
    } restore;
    membership = Membership::connect(small_options(memory));
  }
  void exchange() {
    Events events;
    events.on_death = [this](NodeId node, const std::string& why) {
      note("death " + std::to_string(node), why);
      const std::lock_guard lock(mutex_);
      sessions.erase(node);
    };
    events.on_given_up = [this](NodeId node, const std::string& why) { note("given up " + std::to_string(node), why); };
    events.on_return = [this](const Peer& peer, std::uint32_t epoch) {
      EXPECT_TRUE(peer.alive);
      EXPECT_EQ(peer.epoch, epoch);
      EXPECT_EQ(peer.address, "fabric of " + std::to_string(peer.id));
      look_at(peer);
      if (before_return) before_return();
      const std::lock_guard lock(mutex_);
      sessions[peer.id] = std::max(epoch, own_epoch);
      told_.push_back("return " + std::to_string(peer.id));
    };
    peers = membership->exchange({segment_.fd(), "fabric of " + std::to_string(membership->id())}, std::move(events));
    const std::lock_guard lock(mutex_);
    own_epoch = peers[membership->id()].epoch;
    for (const Peer& peer : peers) {
      if (peer.id == membership->id() || !peer.alive) continue;
      sessions.try_emplace(peer.id, std::max(peer.epoch, own_epoch));
      look_at(peer);
    }
  }
  [[nodiscard]] std::vector<std::string> told() {
    const std::lock_guard lock(mutex_);
    return told_;
  }
  /// 0: there is none.
  [[nodiscard]] std::uint32_t session(NodeId peer) {
    const std::lock_guard lock(mutex_);
    const auto found = sessions.find(peer);
    return found == sessions.end() ? 0 : found->second;
  }
  [[nodiscard]] bool may_act() const { return base::coarse_ns() < membership->act_until().load(); }

  bool peers_die = false;  // and close their doors, at any time
  std::function<void()> before_return;
  std::vector<Peer> peers;
  std::uint32_t own_epoch = 0;
  std::map<NodeId, std::uint32_t> sessions;

 private:
  void look_at(const Peer& peer) const {
    EXPECT_TRUE(peer.segment.valid() || peers_die);
    if (!peer.segment.valid()) return;
    EXPECT_EQ(memory::Segment::open(peer.segment).memory_bytes(), peer.memory_bytes);
  }
  void note(const std::string& what, const std::string& why) {
    EXPECT_NE(why, "");
    const std::lock_guard lock(mutex_);
    told_.push_back(what);
  }
  std::mutex mutex_;
  std::vector<std::string> told_;
  memory::Segment segment_;

 public:
  std::unique_ptr<Membership> membership;  // last: its thread ends first
};

/// By the master's own socket, or over TCP with doors.
class Newcomers : public testing::TestWithParam<bool> {
 protected:
  void found(NodeId nodes, bool recoverable = true) {
    MasterConfig config{nodes, "test"};
    config.recoverable = recoverable;
    if (GetParam()) {
      key = Key::generate();
      config.listen = TcpAddress{"127.0.0.1", 0};
      config.key = key;
    }
    master = std::make_unique<Master>(std::move(config));
    count = nodes;
    processes.resize(nodes);
    for (NodeId k = 0; k < nodes; ++k) processes[k] = make(k);
    exchange_all();
  }
  std::unique_ptr<Process> make(NodeId id, std::uint64_t memory = 1 << 20) {
    const std::string name = GetParam() ? master->tcp_address()->text() : master->socket_name();
    return std::make_unique<Process>(name, id, count, key, memory);
  }
  void exchange_all() {
    std::vector<std::future<void>> all;
    for (auto& process : processes) all.push_back(std::async(std::launch::async, [&] { process->exchange(); }));
    for (auto& each : all) each.get();
  }
  void kill(NodeId id) {
    processes[id].reset();
    EXPECT_EQ(master->node_exited(id, "killed by signal 9 (SIGKILL)"), Master::Exit::kDied);
  }
  bool hears(NodeId id, const std::string& what, std::size_t times = 1) {
    return eventually([&] {
      const auto told = processes[id]->told();
      return std::size_t(std::count(told.begin(), told.end(), what)) == times;
    });
  }
  Json status(NodeId id) const {
    return query_status(master->socket_name(), std::chrono::milliseconds(kLong)).value().at("nodes")[id];
  }
  std::string refused(NodeId id, std::uint64_t memory = 1 << 20) {
    try {
      auto process = make(id, memory);
      process->exchange();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::kRefused);
      return error.what();
    }
    return "it was let in";
  }
  void leave_all() {
    std::vector<std::future<void>> all;
    for (auto& process : processes) {
      if (process) all.push_back(std::async(std::launch::async, [&] { process->membership->leave(); }));
    }
    for (auto& each : all) each.get();
  }

  NodeId count = 0;
  std::optional<Key> key;
  std::unique_ptr<Master> master;
  std::vector<std::unique_ptr<Process>> processes;
};
INSTANTIATE_TEST_SUITE_P(Ways, Newcomers, testing::Bool(),
                         [](const auto& way) { return std::string(way.param ? "tcp" : "unix"); });

TEST_P(Newcomers, take_the_place_of_a_dead_node_and_everyone_knows) {
  found(3);
  EXPECT_FALSE(processes[1]->membership->is_return());
  EXPECT_TRUE(processes[1]->membership->is_recoverable());
  EXPECT_TRUE(processes[0]->membership->publish("root", GlobalAddress(4096)).ok());
  for (int round = 1; round <= 3; ++round) {
    kill(1);
    EXPECT_TRUE(hears(0, "death 1", std::size_t(round)) && hears(2, "death 1", std::size_t(round)));
    EXPECT_EQ(status(1).at("state"), "away");
    processes[1] = make(1);
    EXPECT_TRUE(processes[1]->membership->is_return());
    EXPECT_EQ(status(1).at("state"), "joining");
    processes[1]->exchange();
    EXPECT_TRUE(processes[1]->may_act());
    // When it may act, the others have been told already.
    EXPECT_EQ(processes[0]->told().back(), "return 1");
    EXPECT_EQ(processes[2]->told().back(), "return 1");
    EXPECT_EQ(processes[1]->own_epoch, unsigned(2 * round + 1));  // out and in again
    for (const NodeId k : {NodeId(0), NodeId(2)}) {
      EXPECT_TRUE(processes[1]->peers[k].alive);
      EXPECT_EQ(processes[1]->peers[k].address, "fabric of " + std::to_string(k));
      EXPECT_EQ(processes[1]->session(k), processes[k]->session(1));
      EXPECT_EQ(processes[1]->session(k), unsigned(2 * round + 1));
    }
    EXPECT_EQ(processes[1]->membership->lookup("root", 0ms).value(), GlobalAddress(4096));
    EXPECT_EQ(status(1).at("state"), "joined");
    EXPECT_EQ(status(1).at("restarts"), round);
  }
  EXPECT_EQ(processes[0]->session(2), 1u);
  EXPECT_THAT(processes[0]->told(), ElementsAre("death 1", "return 1", "death 1", "return 1", "death 1", "return 1"));
  leave_all();
}

TEST_P(Newcomers, wait_until_the_others_have_taken_them_in) {
  found(2);
  std::promise<void> go;
  processes[0]->before_return = [&] { go.get_future().wait(); };
  kill(1);
  processes[1] = make(1);
  auto joining = std::async(std::launch::async, [&] { processes[1]->exchange(); });
  EXPECT_EQ(joining.wait_for(500ms), std::future_status::timeout);
  EXPECT_EQ(status(1).at("state"), "joining");
  go.set_value();
  joining.get();
  leave_all();
}

TEST_P(Newcomers, may_die_before_the_others_have_taken_them_in) {
  found(3);
  std::promise<void> go;
  processes[0]->before_return = [&, first = true]() mutable {
    if (std::exchange(first, false)) go.get_future().wait();
  };
  kill(1);
  {
    FakePeer fake = GetParam() ? FakePeer(connect_trusted(*master->tcp_address(), *key, Clock::now() + kLong))
                               : FakePeer(Connection(connect_abstract(master->socket_name(), Clock::now() + kLong)));
    EXPECT_EQ(fake.join(1, 4242).op(), "joined");
  }
  EXPECT_TRUE(eventually([&] { return status(1).at("state") == "away"; }));  // it never made its offer
  processes[1] = make(1);
  auto joining = std::async(std::launch::async, [&] { EXPECT_THROW(processes[1]->exchange(), Error); });
  EXPECT_TRUE(hears(2, "return 1"));
  (void)master->node_exited(1, "killed by signal 9 (SIGKILL)");  // and its connection is closed
  joining.get();
  go.set_value();
  EXPECT_TRUE(hears(0, "death 1", 2) && hears(2, "death 1", 2));
  processes[1] = make(1);
  processes[1]->exchange();
  for (const NodeId k : {NodeId(0), NodeId(2)}) {
    EXPECT_THAT(processes[k]->told(), ElementsAre("death 1", "return 1", "death 1", "return 1"));
    EXPECT_EQ(processes[1]->session(k), processes[k]->session(1));
  }
  leave_all();
}

TEST_P(Newcomers, of_several_nodes_come_at_once) {
  found(4);
  for (const NodeId k : {NodeId(1), NodeId(2), NodeId(3)}) kill(k);
  EXPECT_TRUE(hears(0, "death 1") && hears(0, "death 2") && hears(0, "death 3"));
  processes[1] = make(1);
  processes[1]->exchange();  // it does not need those who are away
  EXPECT_FALSE(processes[1]->peers[2].alive);
  EXPECT_FALSE(processes[1]->peers[3].alive);
  processes[2] = make(2);
  processes[3] = make(3);
  auto other = std::async(std::launch::async, [&] { processes[2]->exchange(); });
  processes[3]->exchange();
  other.get();
  for (NodeId a = 0; a < 4; ++a) {
    for (NodeId b = 0; b < 4; ++b) {
      if (a == b) continue;
      EXPECT_TRUE(eventually([&] { return processes[a]->session(b) == processes[b]->session(a); })) << a << " " << b;
      EXPECT_NE(processes[a]->session(b), 0u);
    }
  }
  EXPECT_THAT(processes[1]->told(), testing::UnorderedElementsAre("return 2", "return 3"));
  leave_all();
}

TEST_P(Newcomers, found_the_cluster_anew_when_all_are_dead) {
  found(3);
  EXPECT_TRUE(processes[0]->membership->publish("root", GlobalAddress(4096)).ok());
  for (NodeId k = 0; k < 3; ++k) kill(k);
  for (NodeId k = 0; k < 3; ++k) EXPECT_EQ(status(k).at("state"), "away");
  for (NodeId k = 0; k < 3; ++k) processes[k] = make(k);
  exchange_all();
  for (NodeId k = 0; k < 3; ++k) {
    EXPECT_TRUE(processes[k]->membership->is_return());
    EXPECT_GT(processes[k]->own_epoch, 3u);
    EXPECT_EQ(processes[k]->own_epoch, processes[0]->own_epoch);
    for (NodeId other = 0; other < 3; ++other) EXPECT_TRUE(processes[k]->peers[other].alive);
    EXPECT_EQ(processes[k]->membership->lookup("root", 0ms).value(), GlobalAddress(4096));
    EXPECT_TRUE(processes[k]->told().empty());
  }
  leave_all();
}

TEST_P(Newcomers, found_the_cluster_anew_when_the_last_member_dies_beside_them) {
  found(2);
  std::promise<void> blocked, go;
  processes[0]->before_return = [&] {
    blocked.set_value();
    go.get_future().wait();
  };
  kill(1);
  processes[1] = make(1);
  auto joining = std::async(std::launch::async, [&] { processes[1]->exchange(); });
  blocked.get_future().wait();  // node 1 is in, and node 0 has not said so
  EXPECT_EQ(master->node_exited(0, "killed by signal 9 (SIGKILL)"), Master::Exit::kDied);
  go.set_value();
  processes[0].reset();
  processes[0] = make(0);
  processes[0]->exchange();
  joining.get();
  EXPECT_EQ(processes[0]->own_epoch, processes[1]->own_epoch);
  EXPECT_EQ(processes[0]->session(1), processes[1]->session(0));
  EXPECT_TRUE(processes[1]->peers[0].alive);
  leave_all();
}

TEST_P(Newcomers, are_waited_for_by_those_who_leave_unless_they_are_given_up) {
  found(3);
  kill(1);
  auto zero = std::async(std::launch::async, [&] { processes[0]->membership->leave(); });
  auto two = std::async(std::launch::async, [&] { processes[2]->membership->leave(); });
  EXPECT_EQ(zero.wait_for(300ms), std::future_status::timeout);
  processes[1] = make(1);
  processes[1]->exchange();
  kill(1);
  master->give_up_on(1);
  zero.get();
  two.get();
  EXPECT_TRUE(hears(0, "given up 1"));
  EXPECT_THAT(processes[0]->told(), ElementsAre("death 1", "return 1", "death 1", "given up 1"));
  EXPECT_EQ(status(1).at("state"), "dead");
  EXPECT_THAT(master->outcome().deaths, ElementsAre("node 1: killed by signal 9 (SIGKILL)"));
}

TEST_P(Newcomers, learn_who_was_given_up) {
  found(3);
  kill(1);
  master->give_up_on(1);
  EXPECT_TRUE(hears(0, "given up 1"));
  EXPECT_THAT(refused(1), HasSubstr("node 1 was given up: killed by signal 9"));
  kill(2);
  processes[2] = make(2);
  processes[2]->exchange();
  EXPECT_FALSE(processes[2]->peers[1].alive);
  EXPECT_TRUE(hears(2, "given up 1"));
  leave_all();
}

TEST_P(Newcomers, are_refused_with_a_reason) {
  found(2);
  EXPECT_THAT(refused(1), HasSubstr("node 1 is still in (process "));
  kill(1);
  EXPECT_THAT(refused(1, 2 << 20), HasSubstr("it brings 2 MiB of memory, the process before it brought 1 MiB"));
  EXPECT_TRUE(eventually([&] { return status(1).at("state") == "away"; }));
  processes[1] = make(1);
  processes[1]->exchange();
  leave_all();
  EXPECT_THAT(refused(1), HasSubstr("the cluster is over"));
}

TEST_P(Newcomers, are_refused_where_dead_nodes_stay_dead) {
  found(2, false);
  EXPECT_FALSE(processes[0]->membership->is_recoverable());
  kill(1);
  EXPECT_THAT(refused(1), HasSubstr("node 1 has already ended: killed by signal 9"));
  leave_all();
}

TEST_P(Newcomers, are_not_disturbed_by_the_process_before_them) {
  MasterConfig config{2, "test"};
  config.recoverable = true;
  config.lease = 500ms;
  Master lonely(std::move(config));
  // Two nodes of which the second falls silent, without an end of its connection.
  FakePeer one(Connection(connect_abstract(lonely.socket_name(), Clock::now() + kLong)));
  FakePeer two(Connection(connect_abstract(lonely.socket_name(), Clock::now() + kLong)));
  const auto exchange = [](FakePeer& peer, NodeId node, std::uint32_t incarnation) {
    EXPECT_EQ(peer.join(node, ::getpid(), 512, kProtocolVersion, incarnation).op(), "joined");
    const auto segment = memory::Segment::create(small_options(), 2);
    peer.send({{"op", "exchange"}, {"address", ""}}, {std::make_shared<const base::Fd>(::dup(segment.fd().get()))});
  };
  exchange(one, 0, 70);
  exchange(two, 1, 71);
  for (FakePeer* peer : {&one, &two}) {
    EXPECT_EQ(peer->next().op(), "peers");
    EXPECT_EQ(peer->next().op(), "roster");
  }
  activate({&one, &two});
  const auto say = [&one] {
    one.send(one.lease().report());
    return one.next(50ms).op();
  };
  std::string heard = "none";
  EXPECT_TRUE(eventually([&] { return (heard = say()) != "none"; }));
  EXPECT_EQ(heard, "death");
  FakePeer next(Connection(connect_abstract(lonely.socket_name(), Clock::now() + kLong)));
  exchange(next, 1, 72);
  EXPECT_EQ(next.next().op(), "peers");
  EXPECT_EQ(next.next().op(), "roster");
  // It is let in, and begins when the other one has said that it has the epoch.
  heard = "none";
  EXPECT_TRUE(eventually([&] {
    if (const std::string op = say(); heard == "none") heard = op;
    activate({&next}, 1);
    return next.lease().state() == LeaseState::kActive;
  }));
  EXPECT_EQ(heard, "newcomer");
  // The old one wakes up: it is out, and what else it says does not count.
  two.send(two.lease().report());
  EXPECT_TRUE(eventually([&] {
    (void)two.next(10ms);
    return two.lease().state() == LeaseState::kFenced;
  }));
  two.send({{"op", "leave"}});
  EXPECT_EQ(two.next().op(), "refused");
  EXPECT_EQ(query_status(lonely.socket_name(), std::chrono::milliseconds(kLong)).value().at("nodes")[1].at("state"),
            "joined");
  one.send({{"op", "leave"}});
  EXPECT_EQ(say(), "none");  // node 1 has not left, whatever the one before it said
}

TEST_P(Newcomers, and_deaths_in_any_order) {
  constexpr NodeId kNodes = 4;
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  found(kNodes);
  for (auto& process : processes) process->peers_die = true;
  std::vector<std::future<bool>> joining(kNodes);
  const auto begin = [&](NodeId id) {
    processes[id] = make(id);
    processes[id]->peers_die = true;
    joining[id] = std::async(std::launch::async, [process = processes[id].get()] {
      try {
        process->exchange();
        return true;
      } catch (const Error&) {
        return false;  // it was killed before it began
      }
    });
  };
  for (int step = 0; step < 150; ++step) {
    const auto id = NodeId(random() % kNodes);
    if (processes[id] == nullptr) {
      begin(id);
    } else {
      (void)master->node_exited(id, "killed by signal 9 (SIGKILL)");
      if (joining[id].valid()) (void)joining[id].get();
      processes[id].reset();
    }
    if (random() % 4 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(random() % 8));
  }
  for (NodeId id = 0; id < kNodes; ++id) {
    if (processes[id] == nullptr) begin(id);
  }
  for (auto& each : joining) {
    EXPECT_TRUE(!each.valid() || each.get());
  }
  for (NodeId a = 0; a < kNodes; ++a) {
    for (NodeId b = 0; b < kNodes; ++b) {
      if (a == b) continue;
      EXPECT_TRUE(eventually([&] {
        return processes[a]->session(b) != 0 && processes[a]->session(b) == processes[b]->session(a);
      })) << a
          << " and " << b;
      // Deaths and returns of a node take turns, and the last is a return, unless it was there from the beginning.
      bool there = processes[a]->peers[b].alive;
      for (const std::string& what : processes[a]->told()) {
        EXPECT_TRUE(what != "death " + std::to_string(b) || std::exchange(there, false));
        EXPECT_TRUE(what != "return " + std::to_string(b) || !std::exchange(there, true));
      }
      EXPECT_TRUE(there);
    }
  }
  leave_all();
}

TEST_P(Newcomers, come_to_a_master_that_was_started_anew) {
  if (!GetParam()) GTEST_SKIP() << "nobody comes back to a master on the same host";
  std::string folder = (std::filesystem::temp_directory_path() / "atoll-newcomers-XXXXXX").string();
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  key = Key::generate();
  count = 3;
  processes.resize(3);
  std::uint16_t port = 0;
  const auto start = [&] {
    MasterConfig config{3, "test"};
    config.recoverable = config.returns = true;
    config.listen = TcpAddress{"127.0.0.1", port};
    config.key = key;
    config.lease = 1000ms;
    config.grace = 3000ms;
    config.state_file = folder + "/state";
    master = std::make_unique<Master>(std::move(config));
    port = master->tcp_address()->port;
  };
  start();
  for (NodeId k = 0; k < 3; ++k) processes[k] = make(k);
  exchange_all();
  EXPECT_TRUE(processes[0]->membership->publish("root", GlobalAddress(4096)).ok());
  master.reset();
  processes[1].reset();
  start();
  EXPECT_TRUE(hears(0, "death 1") && hears(2, "death 1"));  // its lease, and the time without a master
  processes[1] = make(1);
  processes[1]->exchange();
  for (const NodeId k : {NodeId(0), NodeId(2)}) {
    EXPECT_TRUE(hears(k, "return 1"));
    EXPECT_EQ(processes[1]->session(k), processes[k]->session(1));
  }
  EXPECT_EQ(processes[1]->membership->lookup("root", 0ms).value(), GlobalAddress(4096));
  leave_all();
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace atoll::cluster
