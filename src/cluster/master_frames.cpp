// What clients of the master ask for: one function for each kind of frame.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/log.hpp"
#include "cluster/door.hpp"
#include "cluster/master.hpp"
#include "cluster/stats_json.hpp"

namespace atoll::cluster {
namespace {

constexpr std::size_t kMaxWaiters = 65536;
constexpr std::size_t kMaxProgramBytes = 4096;
constexpr std::size_t kPeersInFrame = 24;  // with their addresses, whatever characters these have
static_assert(kPeersInFrame <= kMaxFrameFds &&
              kPeersInFrame * (2 * kMaxAddressBytes + 4 * kMaxDoorBytes + 200) < kMaxFrameBytes);
constexpr std::uint64_t kMaxMemoryBytes = GlobalAddress::kOffsetMask + 1;

}  // namespace

Json Master::reply(std::uint64_t id, Errc code) {
  return {{"op", "reply"}, {"id", id}, {"code", std::uint8_t(code)}};
}

Json Master::found_reply(std::uint64_t id, GlobalAddress address) {
  Json body = reply(id, Errc::kOk);
  body["address"] = address.bits();
  return body;
}

void Master::read_client(Client& client) {
  Frame frame;
  // Bounded, so that a client that never stops sending does not keep the others waiting; more than the socket of
  // a dead process can hold.
  for (int reads = 0;;) {
    if (client.gone || client.closing) return;
    switch (client.connection.next(frame)) {
      case Decoded::kFrame: on_frame(client, frame); continue;
      case Decoded::kBad: return drop(client, client.connection.why());
      case Decoded::kNeedMore: break;
    }
    if (reads++ == 16) return;  // only when all that was read is decoded: poll would not tell of it again
    switch (client.connection.receive()) {
      case Connection::Received::kSome: continue;
      case Connection::Received::kNothingYet: return;
      case Connection::Received::kEnded: return connection_ended(client);
    }
  }
}

void Master::on_frame(Client& client, Frame& frame) {
  const std::string& op = frame.op();
  client.idle_until = Clock::now() + kIdleLimit;
  if (op == "status") return on_status(client);
  if (op == "join") return on_join(client, frame);
  if (op == "return") return on_return(client, frame);
  if (client.node == kNoNode) return drop(client, fmt::format("it sent \"{}\" without having joined", clipped(op, 32)));
  if (op == "report") return on_report(client, frame);
  if (client.incarnation != members_[client.node].incarnation) {
    return refuse(client, fmt::format("another process has taken the place of node {}", client.node));
  }
  if (op == "exchange") return on_exchange(client, frame);
  if (op == "ready") return on_ready(client);
  if (op == "names") return on_names(client, frame);
  if (!running_ && !resuming_)
    return drop(client, fmt::format("it sent \"{}\" before all had joined", clipped(op, 32)));
  if (op == "publish") return on_publish(client, frame);
  if (op == "lookup") return on_lookup(client, frame);
  if (op == "leave") return on_leave(client);
  drop(client, fmt::format("it sent \"{}\", which the master does not know", clipped(op, 32)));
}

bool Master::speaks_our_version(Client& client, Fields& fields) {
  const std::uint64_t version = fields.number("version");
  if (!fields.ok() || version == kProtocolVersion) return true;  // what is missing is told by who asked for it
  refuse(client, fmt::format("it speaks version {} of the protocol, this master version {}; build the program "
                             "and the atoll command from the same sources",
                             version, kProtocolVersion));
  return false;
}

void Master::on_join(Client& client, const Frame& frame) {
  Fields fields(frame.body);
  if (!speaks_our_version(client, fields)) return;
  const std::uint64_t node = fields.number("node");
  const auto incarnation = std::uint32_t(fields.number("incarnation", UINT32_MAX));
  const std::uint64_t memory = fields.number("memory"), cache = fields.number("cache"), line = fields.number("line");
  const std::uint64_t pid = fields.number("pid", std::numeric_limits<int>::max());
  if (!fields.ok()) return drop(client, "it sent a \"join\" in which " + fields.why());
  if (incarnation == 0) return drop(client, "it sent a \"join\" in which \"incarnation\" is 0");
  if (const std::string why = refusal(client, node, line); !why.empty()) return refuse(client, why);
  Member& member = members_[node];
  if (running_) make_room_for_successor(member);
  member.state = State::kJoining;
  member.incarnation = client.incarnation = incarnation;
  member.pid = client.pid != 0 ? client.pid : int(pid);  // where the kernel knows it, its word counts
  member.memory = memory;
  member.cache = cache;
  member.line = line;
  member.client = &client;
  client.node = NodeId(node);
  client.name = fmt::format("node {} ({})", node, client.name);
  client.connection.send({{"op", "joined"},
                          {"nodes", config_.nodes},
                          {"term", lease_.term()},
                          {"lease_ms", std::uint64_t(config_.lease.count())},
                          {"grace_ms", std::uint64_t(config_.grace.count())},
                          {"doors", uses_doors()},
                          {"returns", config_.returns},
                          {"recoverable", config_.recoverable},
                          {"return", running_},
                          {"listens", config_.listen ? clipped(config_.listen->host, kMaxHostNameBytes) : ""}});
}

/// Why this join cannot be had; empty when it can.
std::string Master::refusal(const Client& client, std::uint64_t node, std::uint64_t line) {
  if (client.node != kNoNode) return fmt::format("it has joined already, as node {}", client.node);
  if (!failure_.empty()) return failure_;
  const bool again = running_ && config_.recoverable;
  if (resuming_ && !again)
    return "this master has the nodes of a cluster that ran before it; a new one needs a new master";
  if (lease_.memory().record) {
    return fmt::format("this master waits for the nodes of a cluster that ran before it; if that is over, remove {}",
                       record_->path());
  }
  if (node >= config_.nodes) {
    return fmt::format("there is no node {}: the cluster has {} (0 to {})", node, config_.nodes, config_.nodes - 1);
  }
  const Member& member = members_[node];
  if (again) {
    if (const std::string why = refusal_of_successor(NodeId(node)); !why.empty()) return why;
  } else if (member.state == State::kDead) {
    return fmt::format("node {} has already ended: {}", node, member.why);
  } else if (member.state != State::kStarting) {
    return fmt::format("node {} has joined already (process {})", node, member.pid);
  }
  for (std::size_t k = 0; k < members_.size(); ++k) {
    if (members_[k].line == 0 || members_[k].line == line) continue;
    return fmt::format("its lines have {} bytes, those of node {} have {}; all nodes need the same (ATOLL_LINE)", line,
                       k, members_[k].line);
  }
  return {};
}

void Master::on_exchange(Client& client, Frame& frame) {
  Member& member = members_[client.node];
  if (member.state != State::kJoining) return drop(client, "it sent \"exchange\" twice");
  if (frame.fds.size() != (uses_doors() ? 0 : 1)) return drop(client, "it sent \"exchange\" without one segment");
  Fields fields(frame.body);
  member.address = fields.printable("address", kMaxAddressBytes);
  if (uses_doors()) {
    member.memory = fields.number("memory", kMaxMemoryBytes);
    member.cache = fields.number("cache", kMaxMemoryBytes);
    member.host = fields.printable("host", kMaxHostBytes);
    member.door = fields.printable("door", kMaxDoorBytes);
    member.token = fields.printable("token", kMaxDoorBytes);
  }
  if (!fields.ok()) return drop(client, "it sent an \"exchange\" in which " + fields.why());
  if (!uses_doors()) {
    if (const std::string why = take_segment(member, std::move(frame.fds[0])); !why.empty()) return refuse(client, why);
  }
  if (const std::string why = refusal_of_memory(member); !why.empty()) return refuse(client, why);
  member.state = uses_doors() ? State::kOffered : State::kJoined;
  if (running_) return introduce_newcomer(client.node);
  if (all_are(member.state)) send_rosters();
}

/// Why the segment cannot be used; empty when it is the member's from here on.
std::string Master::take_segment(Member& member, base::Fd fd) {
  try {
    memory::Segment segment = memory::Segment::open(fd);
    const memory::SegmentLayout& layout = segment.layout();
    if (layout.line_bytes != member.line || layout.nodes != config_.nodes) {
      return fmt::format("its segment is for {} nodes and lines of {} bytes, not for {} and {}", layout.nodes,
                         layout.line_bytes, config_.nodes, member.line);
    }
    member.segment = std::move(segment);
  } catch (const Error& error) {
    return fmt::format("its segment cannot be used: {}", error.what());
  }
  member.memory = member.segment.memory_bytes();
  member.cache = member.segment.cache_bytes();
  member.fd = std::make_shared<const base::Fd>(std::move(fd));
  return {};
}

/// Whether all members are in this state, and there. One whose connection has ended since is about to be dead.
bool Master::all_are(State state) const {
  return std::all_of(members_.begin(), members_.end(),
                     [state](const Member& m) { return m.state == state && m.client != nullptr && !m.client->gone; });
}

/// What one member is told of another: where its door is only when both are on one host.
Json Master::peer_entry(NodeId node, const Member& to) const {
  const Member& member = members_[node];
  Json entry = {{"node", node},
                {"incarnation", member.incarnation},
                {"epoch", lease_.epoch().since[node]},
                {"pid", member.pid},
                {"address", member.address},
                {"memory", member.memory},
                {"cache", member.cache},
                {"line", member.line}};
  if (!uses_doors() || member.host != to.host) return entry;
  entry["door"] = member.door;
  entry["token"] = member.token;
  return entry;
}

/// Everyone gets what it may know of everyone.
void Master::send_rosters() {
  for (std::size_t k = 0; k < members_.size(); ++k) send_roster(NodeId(k));
  if (config_.recoverable) return;                    // who comes later needs them
  for (Member& member : members_) member.fd.reset();  // what is still to be sent keeps them
}

/// Of all others, or, once the cluster runs, of those who are in; many to a frame. "roster" says that it was all.
void Master::send_roster(NodeId to) {
  Client& client = *members_[to].client;
  Json peers = Json::array();
  std::vector<SharedFd> fds;
  const auto send = [&] {
    client.connection.send({{"op", "peers"}, {"peers", std::exchange(peers, Json::array())}}, std::exchange(fds, {}));
  };
  const Epoch& epoch = lease_.epoch();
  for (std::size_t k = 0; k < members_.size(); ++k) {
    if (k == to || (running_ && epoch.incarnations[k] == 0)) continue;
    peers.push_back(peer_entry(NodeId(k), members_[to]));
    if (!uses_doors()) fds.push_back(members_[k].fd);
    if (peers.size() == kPeersInFrame) send();
  }
  if (!peers.empty()) send();
  client.told = running_ ? epoch.number : 1;  // founders are all in the first
  client.connection.send({{"op", "roster"}, {"nodes", config_.nodes}});
}

/// It has the segments that it can get, and its own may be used. Doors stay open until everybody has come so far.
void Master::on_ready(Client& client) {
  Member& member = members_[client.node];
  const auto is_early = [](const Member& m) { return m.state == State::kStarting || m.state == State::kJoining; };
  const bool introduced = running_ || std::none_of(members_.begin(), members_.end(), is_early);
  if (member.state != State::kOffered || !introduced) return drop(client, "it sent \"ready\" too early, or twice");
  member.state = State::kJoined;
  if (running_) {
    client.connection.send({{"op", "go"}});
    return send_given_up(client);
  }
  if (all_are(State::kJoined)) send_all({{"op", "go"}}, kNoNode);
}

void Master::on_leave(Client& client) {
  Member& member = members_[client.node];
  if (member.state == State::kJoined) member.state = State::kLeft;
  check_all_left();
}

void Master::on_publish(Client& client, const Frame& frame) {
  Fields fields(frame.body);
  const std::uint64_t id = fields.number("id");
  const std::string name = fields.text("name", kMaxRootNameBytes);
  const GlobalAddress address(fields.number("address"));
  if (!fields.ok()) return drop(client, "it sent a \"publish\" in which " + fields.why());
  client.connection.send(reply(id, publish(name, address).code()));
}

/// And tells those who wait for it.
Status Master::publish(const std::string& name, GlobalAddress address) {
  const Status status = roots_.publish(name, address);
  if (!status.ok()) return status;
  const auto [first, last] = waiters_.equal_range(name);
  for (auto at = first; at != last; ++at) {
    at->second.client->connection.send(found_reply(at->second.id, address));
  }
  waiters_.erase(first, last);
  return status;
}

void Master::on_lookup(Client& client, const Frame& frame) {
  Fields fields(frame.body);
  const std::uint64_t id = fields.number("id");
  const std::string name = fields.text("name", kMaxRootNameBytes);
  const std::uint64_t timeout = fields.number("timeout_ms", std::numeric_limits<std::int64_t>::max());
  if (!fields.ok()) return drop(client, "it sent a \"lookup\" in which " + fields.why());
  if (const auto address = roots_.find(name)) {
    client.connection.send(found_reply(id, *address));
  } else if (timeout == 0) {
    client.connection.send(reply(id, Errc::kNotFound));
  } else if (waiters_.size() >= kMaxWaiters) {
    client.connection.send(reply(id, Errc::kOutOfMemory));
  } else {
    const auto deadline = Clock::now() + bounded_timeout(std::chrono::milliseconds(std::int64_t(timeout)));
    waiters_.emplace(name, Waiter{&client, id, deadline});
  }
}

// ---- status ----

/// One frame for the cluster and one per node: a thousand nodes do not fit one frame.
void Master::on_status(Client& client) {
  client.connection.send({{"op", "status"},
                          {"program", clipped(config_.program, kMaxProgramBytes)},
                          {"pid", ::getpid()},
                          {"started", started_},
                          {"epoch", lease_.epoch().number},
                          {"nodes", config_.nodes}});
  for (std::size_t k = 0; k < members_.size(); ++k) client.connection.send(describe(NodeId(k)));
}

Json Master::describe(NodeId node) const {
  const Member& member = members_[node];
  Json body = {{"op", "status_node"}, {"node", node}, {"pid", member.pid}, {"state", state_text(node)}};
  if (member.state == State::kDead) body["why"] = member.why;
  if (config_.recoverable) body["restarts"] = member.restarts;
  if (member.state == State::kStarting || member.line == 0) return body;
  body["memory"] = member.memory;
  body["cache"] = member.cache;
  body["line"] = member.line;
  // Of a node on this host they are read as they are now, of others as they were said last.
  if (member.segment.memory_bytes() != 0) {
    body["counters"] = counters_to_json(member.segment.header().counters.snapshot());
  } else if (member.counters) {
    body["counters"] = counters_to_json(*member.counters);
    const auto silent = Clock::now() - member.heard_at;
    body["heard_ms"] = std::chrono::duration_cast<std::chrono::milliseconds>(silent).count();
  }
  return body;
}

}  // namespace atoll::cluster
