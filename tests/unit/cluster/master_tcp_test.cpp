// A real Master that listens at TCP, with real memberships and with fake nodes that say they are on other hosts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <memory>

#include "cluster/door.hpp"
#include "cluster/master.hpp"
#include "cluster/membership.hpp"
#include "cluster/status_client.hpp"
#include "fake_peer.hpp"

namespace atoll::cluster {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr auto kLong = 30s;

Key test_key() {
  return Key::parse(std::string(64, 'a'), "test");
}

MasterConfig tcp_config(NodeId nodes) {
  MasterConfig config{nodes, "test"};
  config.listen = TcpAddress{"127.0.0.1", 0};
  config.key = test_key();
  config.lease = 500ms;
  return config;
}

Options small_options() {
  Options options;
  options.memory_bytes = (1 << 20) + 1;  // is rounded up: what is told is what the segment has
  options.cache_bytes = 64 << 10;
  options.join_timeout = kLong;
  return options;
}

/// Sets the environment of a node for the time of a connect.
std::unique_ptr<Membership> connect_as(const std::string& master, NodeId node, NodeId nodes, const char* key) {
  ::setenv("ATOLL_MASTER", master.c_str(), 1);
  ::setenv("ATOLL_NODE", std::to_string(node).c_str(), 1);
  ::setenv("ATOLL_NODES", std::to_string(nodes).c_str(), 1);
  if (key != nullptr) ::setenv("ATOLL_KEY", key, 1);
  struct Restore {
    ~Restore() {
      for (const char* name : {"ATOLL_MASTER", "ATOLL_NODE", "ATOLL_NODES", "ATOLL_KEY"}) ::unsetenv(name);
    }
  } restore;
  return Membership::connect(small_options());
}

/// A node with its segment, joined over TCP or over the master's unix socket.
struct RealNode {
  RealNode(const Master& master, NodeId id, NodeId nodes, bool over_tcp)
      : segment(memory::Segment::create(small_options(), nodes)),
        membership(connect_as(over_tcp ? master.tcp_address()->text() : master.socket_name(), id, nodes,
                              over_tcp ? test_key().reveal().c_str() : nullptr)) {}
  void exchange(Events events = {}) {
    peers = membership->exchange({segment.fd(), "fabric of " + std::to_string(membership->id())}, std::move(events));
  }
  memory::Segment segment;
  std::unique_ptr<Membership> membership;
  std::vector<Peer> peers;
};

/// All exchange at the same time; what the first error was, if any.
std::string exchange_all(std::vector<std::unique_ptr<RealNode>>& nodes) {
  std::vector<std::future<void>> all;
  for (auto& node : nodes) all.push_back(std::async(std::launch::async, [&node] { node->exchange(); }));
  std::string why;
  for (auto& each : all) {
    try {
      each.get();
    } catch (const Error& error) {
      if (why.empty()) why = error.what();
    }
  }
  return why;
}

/// A node of which the test says every word, over TCP.
class FakeNode : public FakePeer {
 public:
  explicit FakeNode(const Master& master)
      : FakePeer(connect_trusted(*master.tcp_address(), test_key(), Clock::now() + kLong)) {}
  Frame join(NodeId node) { return FakePeer::join(node, 4242); }
  void exchange(const std::string& host) {
    send({{"op", "exchange"},
          {"address", "far away"},
          {"memory", 7 << 20},
          {"cache", 65536},
          {"host", host},
          {"door", "door of " + host},
          {"token", "secret"}});
  }
  /// All entries until the roster.
  std::vector<Json> roster() {
    std::vector<Json> entries;
    while (true) {
      const Frame frame = next();
      if (frame.op() != "peers") {
        EXPECT_EQ(frame.op(), "roster") << frame.body;
        return entries;
      }
      for (const Json& entry : frame.body.at("peers")) entries.push_back(entry);
    }
  }
};

std::unique_ptr<RealNode> real(const Master& master, NodeId id, NodeId nodes, bool over_tcp = true) {
  return std::make_unique<RealNode>(master, id, nodes, over_tcp);
}

bool wait_over(const Master& master) {
  pollfd entry{master.over_fd(), POLLIN, 0};
  return ::poll(&entry, 1, 30'000) == 1;
}

TEST(MasterTcp, nodes_of_one_host_get_each_others_segments_by_their_doors) {
  Master master(tcp_config(3));
  std::vector<std::unique_ptr<RealNode>> nodes;
  for (NodeId k = 0; k < 3; ++k) nodes.push_back(real(master, k, 3, k != 1));  // one of them over the unix socket
  ASSERT_EQ(exchange_all(nodes), "");
  for (NodeId k = 0; k < 3; ++k) {
    nodes[k]->segment.memory()[0] = std::byte(100 + k);
    for (const Peer& peer : nodes[k]->peers) {
      EXPECT_EQ(peer.pid, ::getpid());
      EXPECT_EQ(peer.memory_bytes, 2u << 20);
      EXPECT_EQ(peer.cache_bytes, 64u << 10);
      EXPECT_EQ(peer.line_bytes, 512u);
      EXPECT_EQ(peer.segment.valid(), peer.id != k);
      if (peer.id == k) continue;
      EXPECT_EQ(peer.address, "fabric of " + std::to_string(peer.id));
      const auto mapped = memory::Segment::open(peer.segment);
      EXPECT_EQ(mapped.memory()[0], peer.id < k ? std::byte(100 + peer.id) : std::byte(0));
    }
  }
  EXPECT_TRUE(nodes[0]->membership->publish("root", GlobalAddress(4096)).ok());
  EXPECT_EQ(nodes[2]->membership->lookup("root", kLong).value(), GlobalAddress(4096));
  std::vector<std::future<void>> leaving;
  for (auto& node : nodes) {
    leaving.push_back(std::async(std::launch::async, [&node] {
      node->membership->leave();
      node->membership.reset();
    }));
  }
  for (auto& each : leaving) each.get();
  EXPECT_TRUE(wait_over(master));
  EXPECT_EQ(master.outcome().failure, "");
  EXPECT_TRUE(master.outcome().deaths.empty());
}

TEST(MasterTcp, a_peer_on_another_host_is_known_but_not_mapped) {
  Master master(tcp_config(3));
  auto here = real(master, 0, 3);
  FakeNode there(master), neighbour(master);
  const Frame joined = there.join(1);
  EXPECT_EQ(joined.body.at("doors"), true);
  EXPECT_EQ(joined.body.at("lease_ms"), 500);
  EXPECT_EQ(neighbour.join(2).op(), "joined");
  there.exchange("elsewhere");
  neighbour.exchange("elsewhere");
  auto exchanged = std::async(std::launch::async, [&] { here->exchange(); });
  // Doors are told to neighbours and to nobody else.
  const std::vector<Json> told = there.roster();
  ASSERT_EQ(told.size(), 2u);
  EXPECT_FALSE(told[0].contains("door"));
  EXPECT_FALSE(told[0].contains("token"));
  EXPECT_EQ(told[0].at("memory"), 2 << 20);
  EXPECT_EQ(told[0].at("address"), "fabric of 0");
  EXPECT_EQ(told[1].at("door"), "door of elsewhere");
  EXPECT_EQ(told[1].at("token"), "secret");
  (void)neighbour.roster();
  there.send({{"op", "ready"}});
  EXPECT_EQ(exchanged.wait_for(50ms), std::future_status::timeout);  // all wait for all
  neighbour.send({{"op", "ready"}});
  EXPECT_EQ(there.next().op(), "go");
  EXPECT_EQ(neighbour.next().op(), "go");
  activate({&there, &neighbour});
  exchanged.get();
  EXPECT_FALSE(here->peers[1].segment.valid());
  EXPECT_EQ(here->peers[1].memory_bytes, 7u << 20);
  EXPECT_EQ(here->peers[1].address, "far away");
  EXPECT_EQ(here->peers[1].pid, 4242);
}

TEST(MasterTcp, a_host_that_only_looks_the_same_is_another) {
  Master master(tcp_config(2));
  auto here = real(master, 0, 2);
  FakeNode twin(master);
  EXPECT_EQ(twin.join(1).op(), "joined");
  twin.exchange(host_identity());  // its door, though, is not here
  auto exchanged = std::async(std::launch::async, [&] { here->exchange(); });
  (void)twin.roster();
  twin.send({{"op", "ready"}});
  EXPECT_EQ(twin.next().op(), "go");
  activate({&twin});
  exchanged.get();
  EXPECT_FALSE(here->peers[1].segment.valid());
}

TEST(MasterTcp, without_the_right_key_nobody_joins) {
  Master master(tcp_config(1));
  const std::string address = master.tcp_address()->text();
  const auto fails = [&](const std::string& at, const char* key) -> std::string {
    try {
      (void)connect_as(at, 0, 1, key);
    } catch (const Error& error) {
      return error.what();
    }
    return "joined";
  };
  EXPECT_THAT(fails(address, nullptr), HasSubstr("wants the cluster key: set ATOLL_KEY_FILE"));
  EXPECT_THAT(fails(address, std::string(64, 'b').c_str()), HasSubstr("did not take our cluster key"));
  EXPECT_THAT(fails(address, "short"), HasSubstr("ATOLL_KEY is no cluster key"));
  EXPECT_THAT(fails("127.0.0.1:", std::string(64, 'a').c_str()), HasSubstr("ATOLL_MASTER=\"127.0.0.1:\": the port"));
  EXPECT_THAT(fails("127.0.0.1:0", std::string(64, 'a').c_str()), HasSubstr("port 0"));
  auto node = real(master, 0, 1);
  node->exchange();
}

TEST(MasterTcp, a_master_that_listens_needs_a_key) {
  MasterConfig config = tcp_config(1);
  config.key.reset();
  EXPECT_THROW(Master{std::move(config)}, Error);
}

TEST(MasterTcp, counters_come_with_reports) {
  Master master(tcp_config(2));
  std::vector<std::unique_ptr<RealNode>> nodes;
  for (NodeId k = 0; k < 2; ++k) nodes.push_back(real(master, k, 2, k == 0));
  ASSERT_EQ(exchange_all(nodes), "");
  for (NodeId k = 0; k < 2; ++k) nodes[k]->segment.header().counters.read_misses.add(42 + k);
  const auto shown = [&](NodeId k) {
    const Json status = query_status(master.socket_name(), kLong).value().at("nodes")[k];
    return status.contains("counters") ? status.at("counters").at("read_misses").get<std::uint64_t>() : 0;
  };
  for (NodeId k = 0; k < 2; ++k) {
    for (const auto end = Clock::now() + kLong; shown(k) != 42u + k && Clock::now() < end;)
      std::this_thread::sleep_for(10ms);
    EXPECT_EQ(shown(k), 42u + k);
  }
  const Json node = query_status(master.socket_name(), kLong).value().at("nodes")[1];
  EXPECT_LT(node.at("heard_ms").get<std::uint64_t>(), 60'000u);
}

TEST(MasterTcp, a_node_that_is_not_heard_any_more_is_told_as_a_death) {
  Master master(tcp_config(2));
  auto node = real(master, 0, 2);
  auto other = std::make_unique<FakeNode>(master);
  EXPECT_EQ(other->join(1).op(), "joined");
  other->exchange("elsewhere");
  std::promise<std::string> died;
  auto exchanged = std::async(std::launch::async, [&] {
    node->exchange({[&](NodeId who, const std::string& why) { died.set_value(std::to_string(who) + why); }, {}, {}});
  });
  (void)other->roster();
  other->send({{"op", "ready"}});
  EXPECT_EQ(other->next().op(), "go");
  activate({other.get()});
  exchanged.get();
  other.reset();
  const std::string why = "nothing was heard of it for 0.5 s (its connection ended)";
  EXPECT_EQ(died.get_future().get(), "1" + why);
  node->membership->leave();
  node->membership.reset();
  EXPECT_TRUE(wait_over(master));
  EXPECT_EQ(master.outcome().deaths, std::vector<std::string>{"node 1: " + why});
}

TEST(MasterTcp, a_loss_while_doors_are_open_fails_the_start_for_all) {
  Master master(tcp_config(2));
  auto node = real(master, 0, 2);
  auto other = std::make_unique<FakeNode>(master);
  EXPECT_EQ(other->join(1).op(), "joined");
  other->exchange("elsewhere");
  auto exchanged = std::async(std::launch::async, [&] { node->exchange(); });
  (void)other->roster();
  other.reset();
  try {
    exchanged.get();
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("node 1 ended before all nodes had joined: its connection ended"));
  }
  node->membership.reset();
  EXPECT_TRUE(wait_over(master));
  EXPECT_THAT(master.outcome().failure, HasSubstr("node 1 ended before"));
}

TEST(MasterTcp, what_no_correct_node_sends_costs_it_its_connection) {
  const std::vector<Json> wrong = {
      {{"op", "ready"}},
      {{"op", "exchange"}, {"address", "x"}},
      {{"op", "exchange"}, {"address", "\x01"}, {"memory", 1}, {"cache", 1}, {"host", ""}, {"door", ""}, {"token", ""}},
      {{"op", "exchange"}, {"address", ""}, {"memory", ~0ull}, {"cache", 1}, {"host", ""}, {"door", ""}, {"token", ""}},
      {{"op", "report"}}};
  for (const Json& body : wrong) {
    Master master(tcp_config(1));
    FakeNode node(master);
    EXPECT_EQ(node.join(0).op(), "joined");
    node.send(body);
    Frame frame = node.next();
    if (frame.op() == "start_failed") frame = node.next();
    EXPECT_EQ(frame.op(), "none") << body;
  }
  Master master(tcp_config(1));
  FakeNode node(master);
  EXPECT_EQ(node.join(0).op(), "joined");
  node.exchange("elsewhere");
  (void)node.roster();
  node.send({{"op", "ready"}});
  EXPECT_EQ(node.next().op(), "go");
  activate({&node});
  Json report = node.lease().report();
  report["counters"] = {{"hits", -1}};
  node.send(report);
  while (node.next().op() != "none") {
  }
}

TEST(MasterTcp, a_frame_without_its_seal_is_not_heard) {
  Master master(tcp_config(1));
  FakeNode node(master);
  const std::string bytes = encode_frame({{"op", "status"}}) + std::string(100, '\0');
  ASSERT_EQ(::send(node.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL), ssize_t(bytes.size()));
  EXPECT_EQ(node.next().op(), "none");
  FakeNode honest(master);
  EXPECT_EQ(honest.join(0).op(), "joined");
}

}  // namespace
}  // namespace atoll::cluster
