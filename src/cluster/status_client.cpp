#include "cluster/status_client.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <sstream>

#include "cluster/stats_json.hpp"

namespace atoll::cluster {
namespace {

/// The cluster that a line of /proc/net/unix is about, if any: "Num RefCount Protocol Flags Type St Inode Path".
std::optional<FoundCluster> cluster_of(const std::string& line, const std::string& prefix) {
  std::istringstream words(line);
  const std::vector<std::string> fields{std::istream_iterator<std::string>(words), {}};
  // Accepted connections carry the same name; only the listener has this flag (__SO_ACCEPTCON).
  if (fields.size() != 8 || fields[3] != "00010000" || !fields[7].starts_with(prefix)) return std::nullopt;
  FoundCluster found;
  found.socket = fields[7].substr(1);
  const char* begin = fields[7].data() + prefix.size();
  const char* end = fields[7].data() + fields[7].size();
  const auto [stop, error] = std::from_chars(begin, end, found.pid);
  if (error != std::errc{} || stop == end || *stop != '-' || found.pid <= 0) return std::nullopt;
  return found;
}

/// Is this what a master says of a cluster? It may be anybody: abstract sockets are open to all users.
bool is_status(const Json& body) {
  Fields fields(body);
  (void)fields.text("program", kMaxFrameBytes);
  (void)fields.number("pid", std::numeric_limits<int>::max());
  (void)fields.number("started", std::numeric_limits<std::int64_t>::max());
  (void)fields.number("nodes", kMaxNodes);
  return fields.ok();
}

/// Is this what a master says of one node?
bool is_node_status(const Json& body) {
  Fields fields(body);
  (void)fields.number("node", kMaxNodes);
  (void)fields.number("pid", std::numeric_limits<int>::max());
  (void)fields.text("state", kMaxFrameBytes);
  if (body.contains("why")) (void)fields.text("why", kMaxFrameBytes);
  if (body.contains("restarts")) (void)fields.number("restarts", UINT32_MAX);
  if (!body.contains("counters")) return fields.ok();
  (void)fields.number("line", std::numeric_limits<std::uint32_t>::max());
  return fields.ok() && counters_from_json(body.at("counters")).has_value();
}

}  // namespace

std::vector<FoundCluster> clusters_in(std::string_view proc_net_unix, unsigned uid) {
  const std::string prefix = fmt::format("@atoll-{}-", uid);
  std::vector<FoundCluster> clusters;
  std::istringstream lines{std::string(proc_net_unix)};
  for (std::string line; std::getline(lines, line);) {
    if (auto found = cluster_of(line, prefix)) clusters.push_back(std::move(*found));
  }
  std::sort(clusters.begin(), clusters.end(), [](const auto& a, const auto& b) { return a.pid < b.pid; });
  return clusters;
}

std::vector<FoundCluster> find_clusters() {
  std::ifstream file("/proc/net/unix");
  if (!file) throw Error("cannot read /proc/net/unix, where running clusters are found");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return clusters_in(text, ::geteuid());
}

Result<Json> query_status(const std::string& socket, std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + bounded_timeout(timeout);
  std::optional<Connection> connection;
  try {
    connection.emplace(connect_abstract(socket, deadline));
  } catch (const Error& error) {
    return {error.code(), "the master cannot be reached"};
  }
  connection->send({{"op", "status"}});
  Frame frame;
  if (const Status status = await_frame(*connection, frame, deadline); !status.ok()) return status;
  if (frame.op() != "status") return {Errc::kRefused, "the master does not answer this client"};
  if (!is_status(frame.body)) return {Errc::kClusterDown, "the master's answer makes no sense"};
  const auto nodes = frame.body.at("nodes").get<std::uint64_t>();
  Json answer = std::move(frame.body);
  answer.erase("op");
  answer["nodes"] = Json::array();
  for (std::uint64_t k = 0; k < nodes; ++k) {
    if (const Status status = await_frame(*connection, frame, deadline); !status.ok()) return status;
    if (frame.op() != "status_node" || !is_node_status(frame.body))
      return {Errc::kClusterDown, "the master's answer makes no sense"};
    frame.body.erase("op");
    answer["nodes"].push_back(std::move(frame.body));
  }
  return answer;
}

}  // namespace atoll::cluster
