// A real Master in this process, with fake nodes over real sockets, and real memberships where they fit.
#include "cluster/master.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <memory>

#include "cluster/membership.hpp"
#include "cluster/status_client.hpp"
#include "fake_peer.hpp"

namespace atoll::cluster {
namespace {

using namespace std::chrono_literals;

constexpr auto kLong = 30s;

Options small_options() {
  Options options;
  options.memory_bytes = 1 << 20;
  options.cache_bytes = 64 << 10;
  return options;
}

/// A node as the master sees it: a connection and a segment, with everything under the test's control.
class FakeNode : public FakePeer {
 public:
  explicit FakeNode(const Master& master)
      : FakePeer(Connection(connect_abstract(master.socket_name(), Clock::now() + kLong))) {}
  std::string join(NodeId node, std::uint32_t line = 512, std::uint32_t version = kProtocolVersion) {
    const Frame frame = FakePeer::join(node, ::getpid(), line, version);
    return frame.op() == "refused" ? frame.body.at("why").get<std::string>() : frame.op();
  }
  void exchange(NodeId nodes) {
    segment_ = memory::Segment::create(small_options(), nodes);
    send({{"op", "exchange"}, {"address", ""}}, {std::make_shared<const base::Fd>(::dup(segment_.fd().get()))});
  }
  /// Everything until the roster; how many segments came.
  std::size_t roster() {
    std::size_t fds = 0;
    while (true) {
      Frame frame = next();
      if (frame.op() == "roster") return fds;
      EXPECT_EQ(frame.op(), "peers") << frame.body;
      if (frame.op() != "peers") return 0;
      for (const base::Fd& fd : frame.fds) (void)memory::Segment::open(fd);
      fds += frame.fds.size();
    }
  }
  memory::Segment& segment() { return segment_; }

 private:
  memory::Segment segment_;
};

/// A cluster whose nodes have all joined.
std::vector<std::unique_ptr<FakeNode>> start(const Master& master, NodeId nodes) {
  std::vector<std::unique_ptr<FakeNode>> result;
  for (NodeId k = 0; k < nodes; ++k) {
    result.push_back(std::make_unique<FakeNode>(master));
    EXPECT_EQ(result.back()->join(k), "joined");
  }
  for (auto& node : result) node->exchange(nodes);
  for (auto& node : result) EXPECT_EQ(node->roster(), nodes - 1u);
  std::vector<FakePeer*> all;
  for (auto& node : result) all.push_back(node.get());
  activate(all);
  return result;
}

Json status_of(const Master& master) {
  return query_status(master.socket_name(), kLong).value();
}

TEST(Master, introduces_the_nodes_to_each_other) {
  Master master({3, "test"});
  auto nodes = start(master, 3);
}

TEST(Master, a_cluster_of_one_and_a_big_one) {
  Master one({1, "test"});
  auto node = start(one, 1);
  Master big({150, "test"});  // more than the descriptors of one frame
  auto nodes = start(big, 150);
}

TEST(Master, refuses_with_a_reason) {
  Master master({2, "test"});
  FakeNode first(master);
  EXPECT_EQ(first.join(0), "joined");
  const auto refused = [&](NodeId node, std::uint32_t line, std::uint32_t version) {
    FakeNode fake(master);
    const std::string why = fake.join(node, line, version);
    EXPECT_EQ(fake.next().op(), "none");  // and the connection is closed
    return why;
  };
  EXPECT_NE(refused(1, 512, 99).find("version 99"), std::string::npos);
  EXPECT_NE(refused(2, 512, kProtocolVersion).find("no node 2"), std::string::npos);
  EXPECT_NE(refused(0, 512, kProtocolVersion).find("node 0 has joined already"), std::string::npos);
  EXPECT_NE(refused(1, 256, kProtocolVersion).find("256"), std::string::npos);
  // None of that keeps the right one out.
  FakeNode second(master);
  EXPECT_EQ(second.join(1), "joined");
  EXPECT_NE(second.join(1).find("joined already"), std::string::npos);
}

TEST(Master, refuses_what_is_no_segment) {
  Master master({2, "test"});
  FakeNode node(master), other(master), wrong(master);
  EXPECT_EQ(node.join(0), "joined");
  EXPECT_EQ(other.join(1), "joined");
  const auto file = std::make_shared<const base::Fd>(::memfd_create("empty", MFD_CLOEXEC));
  node.send({{"op", "exchange"}, {"address", ""}}, {file});
  EXPECT_EQ(node.next().op(), "refused");
  const Frame told = other.next();
  EXPECT_EQ(told.op(), "start_failed");
  EXPECT_NE(told.body.at("why").get<std::string>().find("node 0 ended before all"), std::string::npos);
}

TEST(Master, survives_garbage) {
  Master master({1, "test"});
  const std::vector<std::string> garbage = {
      std::string(4, '\xff'),
      std::string(100, '\0'),
      encode_frame({{"op", "join"}}),
      encode_frame({{"op", "join"}, {"version", kProtocolVersion}, {"node", "zero"}}),
      encode_frame({{"op", "publish"}, {"name", "x"}}),
      encode_frame({{"op", "leave"}}),
      encode_frame({{"op", "exchange"}, {"address", ""}}),
      encode_frame({{"op", "nonsense"}})};
  for (const std::string& bytes : garbage) {
    FakeNode fake(master);
    ASSERT_EQ(::write(fake.fd(), bytes.data(), bytes.size()), ssize_t(bytes.size()));
    EXPECT_EQ(fake.next().op(), "none");
  }
  auto nodes = start(master, 1);
  for (const Json& body :
       {Json{{"op", "publish"}, {"id", 1}}, Json{{"op", "exchange"}, {"address", ""}}, Json{{"op", "exchange"}}}) {
    Master another({1, "test"});
    auto node = start(another, 1);
    node[0]->send(body);
    EXPECT_EQ(node[0]->next().op(), "none");
  }
}

TEST(Master, a_death_is_told_once_with_the_reason_of_the_launcher) {
  Master master({3, "test"});
  auto nodes = start(master, 3);
  nodes[1].reset();
  EXPECT_EQ(master.node_exited(1, "killed by signal 9 (SIGKILL)"), Master::Exit::kDied);
  for (const std::size_t k : {0u, 2u}) {
    const Frame frame = nodes[k]->next();
    EXPECT_EQ(frame.op(), "death");
    EXPECT_EQ(frame.body.at("node"), 1);
    EXPECT_EQ(frame.body.at("why"), "killed by signal 9 (SIGKILL)");
    EXPECT_EQ(frame.body.at("epoch"), 2);
    EXPECT_EQ(nodes[k]->next(600ms).op(), "none");  // no second notice
  }
}

TEST(Master, a_connection_that_ends_is_a_death_without_a_launcher_too) {
  Master master({2, "test"});
  auto nodes = start(master, 2);
  nodes[0].reset();
  const Frame frame = nodes[1]->next();
  EXPECT_EQ(frame.op(), "death");
  EXPECT_EQ(frame.body.at("why"), "its connection ended");
  EXPECT_EQ(master.node_exited(0, "exited with code 3"), Master::Exit::kDied);
  EXPECT_EQ(nodes[1]->next(100ms).op(), "none");
}

TEST(Master, an_exit_before_the_join_fails_the_others) {
  Master master({3, "test"});
  FakeNode zero(master), two(master);
  EXPECT_EQ(zero.join(0), "joined");
  zero.exchange(3);
  EXPECT_EQ(master.node_exited(1, "exited with code 3"), Master::Exit::kNeverJoined);
  const Frame frame = zero.next();
  EXPECT_EQ(frame.op(), "start_failed");
  EXPECT_EQ(frame.body.at("why"), "node 1 exited before it joined: exited with code 3");
  EXPECT_EQ(two.join(2), "node 1 exited before it joined: exited with code 3");
}

TEST(Master, all_left_when_everyone_has_left_or_is_dead) {
  Master master({3, "test"});
  auto nodes = start(master, 3);
  nodes[0]->send({{"op", "leave"}});
  nodes[1]->send({{"op", "leave"}});
  EXPECT_EQ(nodes[0]->next(100ms).op(), "none");
  EXPECT_EQ(master.node_exited(2, "exited with code 1"), Master::Exit::kDied);
  for (const std::size_t k : {0u, 1u}) {
    EXPECT_EQ(nodes[k]->next().op(), "death");
    EXPECT_EQ(nodes[k]->next().op(), "all_left");
  }
  EXPECT_EQ(master.node_exited(0, "exited with code 0"), Master::Exit::kLeft);
}

TEST(Master, a_node_that_ends_while_others_need_its_memory_is_dead_though_it_said_leave) {
  Master master({2, "test"});
  auto nodes = start(master, 2);
  nodes[0]->send({{"op", "leave"}});
  EXPECT_EQ(master.node_exited(0, "killed by signal 9 (SIGKILL)"), Master::Exit::kDied);
  EXPECT_EQ(nodes[1]->next().op(), "death");
}

TEST(Master, what_a_node_sent_before_its_exit_counts) {
  for (int round = 0; round < 50; ++round) {
    Master master({1, "test"});
    auto nodes = start(master, 1);
    nodes[0]->send({{"op", "leave"}});
    nodes[0].reset();
    EXPECT_EQ(master.node_exited(0, "exited with code 0 without leaving"), Master::Exit::kLeft);
  }
}

TEST(Master, roots_are_published_once_and_looked_up) {
  Master master({2, "test"});
  auto nodes = start(master, 2);
  const auto publish = [&](std::string name, std::uint64_t address) {
    nodes[0]->send({{"op", "publish"}, {"id", 7}, {"name", std::move(name)}, {"address", address}});
    const Frame frame = nodes[0]->next();
    EXPECT_EQ(frame.op(), "reply");
    EXPECT_EQ(frame.body.at("id"), 7);
    return Errc(frame.body.at("code").get<int>());
  };
  const std::uint64_t far = 0xffff'ffff'ffff'0000;
  EXPECT_EQ(publish("a", far), Errc::kOk);
  EXPECT_EQ(publish("a", far), Errc::kOk);
  EXPECT_EQ(publish("a", 65), Errc::kAlreadyExists);
  EXPECT_EQ(publish("", 64), Errc::kInvalidArgument);
  EXPECT_EQ(publish("null", 0), Errc::kNullAddress);
  EXPECT_EQ(publish(std::string(255, 'n'), 64), Errc::kOk);

  nodes[1]->send({{"op", "lookup"}, {"id", 1}, {"name", "a"}, {"timeout_ms", 0}});
  EXPECT_EQ(nodes[1]->next().body, (Json{{"op", "reply"}, {"id", 1}, {"code", 0}, {"address", far}}));
  nodes[1]->send({{"op", "lookup"}, {"id", 2}, {"name", "b"}, {"timeout_ms", 0}});
  EXPECT_EQ(Errc(nodes[1]->next().body.at("code").get<int>()), Errc::kNotFound);
  nodes[1]->send({{"op", "lookup"}, {"id", 3}, {"name", "b"}, {"timeout_ms", 50}});
  EXPECT_EQ(Errc(nodes[1]->next().body.at("code").get<int>()), Errc::kDeadline);
  nodes[1]->send({{"op", "lookup"}, {"id", 4}, {"name", "b"}, {"timeout_ms", 60000}});
  EXPECT_EQ(nodes[1]->next(50ms).op(), "none");
  EXPECT_EQ(publish("b", 128), Errc::kOk);
  EXPECT_EQ(nodes[1]->next().body.at("address"), 128);
}

TEST(Master, a_client_that_waits_and_goes_does_no_harm) {
  Master master({2, "test"});
  auto nodes = start(master, 2);
  nodes[1]->send({{"op", "lookup"}, {"id", 4}, {"name", "b"}, {"timeout_ms", 60000}});
  nodes[1].reset();
  EXPECT_EQ(nodes[0]->next().op(), "death");
  nodes[0]->send({{"op", "publish"}, {"id", 1}, {"name", "b"}, {"address", 64}});
  EXPECT_EQ(nodes[0]->next().op(), "reply");
}

TEST(RootTable, is_bounded) {
  RootTable roots;
  for (std::size_t k = 0; k < kMaxRoots; ++k) {
    ASSERT_TRUE(roots.publish(std::to_string(k), GlobalAddress(64 + k)).ok());
  }
  EXPECT_EQ(roots.publish("more", GlobalAddress(1)).code(), Errc::kOutOfMemory);
  EXPECT_TRUE(roots.publish("7", GlobalAddress(71)).ok());
  EXPECT_EQ(roots.publish("\xff", GlobalAddress(1)).code(), Errc::kInvalidArgument);
}

TEST(Master, status_reads_states_and_counters) {
  Master master({2, "a program"});
  EXPECT_EQ(status_of(master).at("nodes")[0].at("state"), "starting");
  auto nodes = start(master, 2);
  nodes[1]->segment().header().counters.read_misses.add(42);
  Json status = status_of(master);
  EXPECT_EQ(status.at("program"), "a program");
  EXPECT_EQ(status.at("pid"), ::getpid());
  EXPECT_GT(status.at("started").get<std::int64_t>(), 1'600'000'000);
  ASSERT_EQ(status.at("nodes").size(), 2u);
  EXPECT_EQ(status.at("nodes")[1].at("state"), "joined");
  EXPECT_EQ(status.at("nodes")[1].at("pid"), ::getpid());
  EXPECT_EQ(status.at("nodes")[1].at("counters").at("read_misses"), 42);
  EXPECT_EQ(status.at("nodes")[0].at("counters").at("read_misses"), 0);
  nodes[0]->send({{"op", "leave"}});
  (void)master.node_exited(1, "exited with code 3");
  EXPECT_EQ(nodes[0]->next().op(), "death");
  EXPECT_EQ(nodes[0]->next().op(), "all_left");
  status = status_of(master);
  EXPECT_EQ(status.at("nodes")[0].at("state"), "left");
  EXPECT_EQ(status.at("nodes")[1].at("state"), "dead");
  EXPECT_EQ(status.at("nodes")[1].at("why"), "exited with code 3");
}

TEST(Master, is_found_while_it_runs) {
  std::string name;
  const auto found = [&] {
    for (const FoundCluster& cluster : find_clusters()) {
      if (cluster.socket == name) return cluster.pid == ::getpid();
    }
    return false;
  };
  {
    Master master({1, "test"});
    name = master.socket_name();
    EXPECT_TRUE(found());
  }
  EXPECT_FALSE(found());
  EXPECT_EQ(query_status(name, kLong).status().code(), Errc::kClusterDown);
}

// ---- Membership ----

/// Sets the environment of a node for the time of a connect; the tests join one node after the other.
std::unique_ptr<Membership> connect_as(const std::string& master, const std::string& node, const std::string& nodes,
                                       std::chrono::milliseconds timeout = kLong) {
  ::setenv("ATOLL_MASTER", master.c_str(), 1);
  ::setenv("ATOLL_NODE", node.c_str(), 1);
  ::setenv("ATOLL_NODES", nodes.c_str(), 1);
  struct Restore {
    ~Restore() {
      for (const char* name : {"ATOLL_MASTER", "ATOLL_NODE", "ATOLL_NODES"}) ::unsetenv(name);
    }
  } restore;
  Options options = small_options();
  options.join_timeout = timeout;
  return Membership::connect(options);
}

/// Two memberships that have exchanged their segments.
struct Couple {
  explicit Couple(const Master& master, Events events = {}) {
    for (int k = 0; k < 2; ++k) nodes[k] = connect_as(master.socket_name(), std::to_string(k), "2");
    const auto segment = memory::Segment::create(small_options(), 2);
    auto other = std::async(std::launch::async, [&] { return nodes[1]->exchange({segment.fd(), "over there"}, {}); });
    peers = nodes[0]->exchange({segment.fd(), {}}, std::move(events));
    (void)other.get();
  }
  std::unique_ptr<Membership> nodes[2];
  std::vector<Peer> peers;
};

TEST(Membership, joins_publishes_and_leaves) {
  Master master({2, "test"});
  Couple couple(master);
  Membership &zero = *couple.nodes[0], &one = *couple.nodes[1];
  ASSERT_EQ(couple.peers.size(), 2u);
  EXPECT_FALSE(couple.peers[0].segment.valid());
  EXPECT_TRUE(couple.peers[1].segment.valid());
  EXPECT_EQ(couple.peers[1].pid, ::getpid());
  EXPECT_EQ(couple.peers[1].address, "over there");
  EXPECT_EQ(zero.id(), 0);
  EXPECT_EQ(one.id(), 1);
  EXPECT_EQ(one.count(), 2);
  EXPECT_EQ(zero.epoch(), 1u);
  auto waiting = std::async(std::launch::async, [&] { return one.lookup("root", kLong); });
  EXPECT_EQ(one.lookup("root", 0ms).status().code(), Errc::kNotFound);
  EXPECT_EQ(one.lookup("root", 30ms).status().code(), Errc::kDeadline);
  EXPECT_TRUE(zero.publish("root", GlobalAddress(4096)).ok());
  EXPECT_EQ(waiting.get().value(), GlobalAddress(4096));
  EXPECT_EQ(one.publish("root", GlobalAddress(1)).code(), Errc::kAlreadyExists);
  EXPECT_EQ(one.publish(std::string(256, 'x'), GlobalAddress(1)).code(), Errc::kInvalidArgument);
  EXPECT_EQ(one.publish("\xff", GlobalAddress(1)).code(), Errc::kInvalidArgument);
  auto left = std::async(std::launch::async, [&] { zero.leave(); });
  EXPECT_EQ(left.wait_for(50ms), std::future_status::timeout);
  one.leave();
  left.get();
}

TEST(Membership, learns_of_a_death) {
  Master master({2, "test"});
  std::promise<std::string> died;
  std::atomic<int> lost{0};
  Couple couple(
      master,
      {[&](NodeId node, const std::string& why) { died.set_value(std::to_string(node) + why); }, [&] { ++lost; }, {}});
  (void)master.node_exited(1, "killed by signal 9 (SIGKILL)");
  EXPECT_EQ(died.get_future().get(), "1killed by signal 9 (SIGKILL)");
  EXPECT_EQ(couple.nodes[0]->epoch(), 2u);
  couple.nodes[0]->leave();  // returns: the other is dead
  EXPECT_EQ(lost, 0);
}

TEST(Membership, a_lost_master_ends_every_wait) {
  auto master = std::make_unique<Master>(MasterConfig{2, "test"});
  std::promise<void> lost;
  Couple couple(*master, {{}, [&] { lost.set_value(); }, {}});
  auto waiting = std::async(std::launch::async, [&] { return couple.nodes[1]->lookup("root", 10min); });
  auto leaving = std::async(std::launch::async, [&] { couple.nodes[0]->leave(); });
  EXPECT_EQ(waiting.wait_for(50ms), std::future_status::timeout);
  master.reset();
  EXPECT_EQ(waiting.get().status().code(), Errc::kClusterDown);
  leaving.get();
  lost.get_future().get();
  EXPECT_EQ(couple.nodes[1]->publish("x", GlobalAddress(64)).code(), Errc::kClusterDown);
  couple.nodes[1]->leave();
}

TEST(Membership, the_start_fails_with_a_clear_error) {
  Master master({2, "test"});
  auto node = connect_as(master.socket_name(), "0", "2");
  const auto segment = memory::Segment::create(small_options(), 2);
  auto joining = std::async(std::launch::async, [&] { return node->exchange({segment.fd(), {}}, {}); });
  EXPECT_EQ(joining.wait_for(50ms), std::future_status::timeout);
  (void)master.node_exited(1, "exited with code 3");
  try {
    (void)joining.get();
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("node 1 exited before it joined: exited with code 3"), std::string::npos);
  }
}

TEST(Membership, joining_is_bounded) {
  Master master({2, "test"});
  auto node = connect_as(master.socket_name(), "0", "2", 50ms);
  const auto segment = memory::Segment::create(small_options(), 2);
  try {
    (void)node->exchange({segment.fd(), {}}, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::kDeadline);
  }
}

TEST(Membership, bad_environment_is_named) {
  Master master({2, "test"});
  const auto fails = [&](const std::string& name, const std::string& node, const std::string& nodes) -> std::string {
    try {
      (void)connect_as(name, node, nodes);
    } catch (const Error& error) {
      return error.what();
    }
    return "joined";
  };
  const std::string& name = master.socket_name();
  EXPECT_NE(fails(name, "x", "2").find("ATOLL_NODE=\"x\""), std::string::npos);
  EXPECT_NE(fails(name, "2", "2").find("node 2 of 2"), std::string::npos);
  EXPECT_NE(fails(name, "", "2").find("ATOLL_NODE=\"\""), std::string::npos);
  EXPECT_NE(fails(name, "0", "9999").find("ATOLL_NODES=\"9999\""), std::string::npos);
  EXPECT_NE(fails(name, "-1", "2").find("ATOLL_NODE=\"-1\""), std::string::npos);
  EXPECT_NE(fails("", "0", "2").find("ATOLL_MASTER"), std::string::npos);
  EXPECT_NE(fails("atoll-nobody", "0", "2").find("no master listens at \"atoll-nobody\""), std::string::npos);
  EXPECT_NE(fails(name, "0", "3").find("started as one of 3, but the master has 2"), std::string::npos);
}

TEST(Membership, a_cluster_of_one_needs_no_master) {
  ::unsetenv("ATOLL_MASTER");
  auto node = Membership::connect(small_options());
  const auto segment = memory::Segment::create(small_options(), 1);
  EXPECT_EQ(node->exchange({segment.fd(), {}}, {}).size(), 1u);
  EXPECT_EQ(node->count(), 1);
  EXPECT_EQ(node->lookup("a", 0ms).status().code(), Errc::kNotFound);
  EXPECT_EQ(node->lookup("a", 10ms).status().code(), Errc::kDeadline);
  auto waiting = std::async(std::launch::async, [&] { return node->lookup("a", kLong); });
  EXPECT_TRUE(node->publish("a", GlobalAddress(64)).ok());
  EXPECT_EQ(node->publish("a", GlobalAddress(65)).code(), Errc::kAlreadyExists);
  EXPECT_EQ(waiting.get().value(), GlobalAddress(64));
  node->leave();
}

}  // namespace
}  // namespace atoll::cluster
