// A master that answers `atoll status` with anything: anybody may listen at a socket that is named like a master's.
#include "cluster/status_client.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <thread>

#include "cluster/stats_json.hpp"

namespace atoll::cluster {
namespace {

using namespace std::chrono_literals;

/// What the client makes of these frames, after which the connection ends.
Result<Json> answered(const std::vector<Json>& frames) {
  const std::string name = make_socket_name();
  const base::Fd listener = listen_abstract(name);
  std::thread master([&] {
    pollfd entry{listener.get(), POLLIN, 0};
    ASSERT_EQ(::poll(&entry, 1, 30'000), 1);
    Connection connection(base::Fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)));
    Frame request;
    EXPECT_TRUE(await_frame(connection, request, Clock::now() + 30s).ok());
    EXPECT_EQ(request.op(), "status");
    for (const Json& frame : frames) (void)connection.send(frame);
  });
  auto answer = query_status(name, 30s);
  master.join();
  return answer;
}

Json cluster_of(unsigned nodes) {
  return {{"op", "status"}, {"program", "p"}, {"pid", 1}, {"started", 1}, {"epoch", 1}, {"nodes", nodes}};
}

Json node() {
  return {{"op", "status_node"}, {"node", 0}, {"pid", 1}, {"state", "joined"}};
}

Json changed(Json body, const char* key, Json value) {
  body[key] = std::move(value);
  return body;
}

TEST(StatusClient, takes_what_a_master_says) {
  const auto none = answered({cluster_of(0)});
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none->at("nodes"), Json::array());
  Json counted = changed(node(), "line", 512);
  counted["counters"] = Stats{};
  counted["counters"]["sent_by_kind"] = Json::object();
  const auto two = answered({cluster_of(2), node(), counted});
  ASSERT_TRUE(two.ok());
  EXPECT_EQ(two->at("nodes").size(), 2u);
  EXPECT_EQ(two->at("nodes")[1].at("counters").at("hits"), 0);
}

TEST(StatusClient, refuses_what_it_could_not_print) {
  const std::vector<std::vector<Json>> cases = {
      {},               // ends without a word
      {cluster_of(1)},  // a node too few
      {cluster_of(kMaxNodes + 1)},
      {changed(cluster_of(0), "program", 7)},
      {changed(cluster_of(0), "pid", "x")},
      {changed(cluster_of(0), "started", -1)},
      {cluster_of(1), cluster_of(1)},
      {cluster_of(1), changed(node(), "node", Json::object())},
      {cluster_of(1), changed(node(), "pid", 1ull << 40)},
      {cluster_of(1), changed(node(), "state", nullptr)},
      {cluster_of(1), changed(node(), "why", 3)},
      {cluster_of(1), changed(node(), "counters", 3)},
      {cluster_of(1), changed(changed(node(), "line", 512), "counters", Json::object())},
      {cluster_of(1), changed(changed(node(), "line", 512), "counters", {{"hits", 1e99}})},
      {cluster_of(1), changed(node(), "counters", Stats{})},  // without the line's bytes
  };
  for (std::size_t k = 0; k < cases.size(); ++k) {
    EXPECT_EQ(answered(cases[k]).status().code(), Errc::kClusterDown) << "case " << k;
  }
  EXPECT_EQ(answered({{{"op", "refused"}, {"why", "too many guests"}}}).status().code(), Errc::kRefused);
}

}  // namespace
}  // namespace atoll::cluster
