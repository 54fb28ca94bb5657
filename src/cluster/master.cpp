#include "cluster/master.hpp"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "base/check.hpp"
#include "base/log.hpp"
#include "cluster/stats_json.hpp"

namespace atoll::cluster {
namespace {

using namespace std::chrono_literals;

// A socket ends a moment before its process can be reaped; so long the launcher has to say why it ended.
constexpr auto kReasonGrace = 250ms;
constexpr auto kIdleLimit = 30s;    // for a client that has not joined
constexpr auto kClosingLimit = 5s;  // for a refused client to take its refusal
constexpr auto kStallRetry = 10ms;
constexpr auto kAcceptRetry = 100ms;
constexpr std::size_t kMaxGuests = 64;  // clients that are not nodes: `atoll status`, and nodes before they join
constexpr std::size_t kMaxWaiters = 65536;
constexpr std::size_t kMaxProgramBytes = 4096;
constexpr std::size_t kPeersInFrame = 24;  // with their addresses, whatever characters these have
static_assert(kPeersInFrame <= kMaxFrameFds && kPeersInFrame * (2 * kMaxAddressBytes + 128) < kMaxFrameBytes);

Json reply(std::uint64_t id, Errc code) {
  return {{"op", "reply"}, {"id", id}, {"code", std::uint8_t(code)}};
}

Json found_reply(std::uint64_t id, GlobalAddress address) {
  Json body = reply(id, Errc::kOk);
  body["address"] = address.bits();
  return body;
}

void ring(const base::Fd& wake) noexcept {
  const std::uint64_t one = 1;
  (void)!::write(wake.get(), &one, sizeof(one));  // full means that it rings already
}

}  // namespace

const char* Master::to_string(State state) noexcept {
  switch (state) {
    case State::kStarting: return "starting";
    case State::kJoining: return "starting";
    case State::kJoined: return "joined";
    case State::kLeft: return "left";
    case State::kDead: return "dead";
  }
  return "unknown";
}

Master::Master(MasterConfig config)
    : config_(std::move(config)),
      name_(make_socket_name()),
      started_(std::time(nullptr)),
      listener_(listen_abstract(name_)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (config_.nodes == 0 || config_.nodes > kMaxNodes) {
    throw Error(fmt::format("a cluster of {} nodes: give 1 to {}", config_.nodes, kMaxNodes));
  }
  if (!wake_.valid()) throw Error(fmt::format("cannot make an eventfd: {}", std::strerror(errno)));
  {
    const base::MutexLock lock(mutex_);
    members_.resize(config_.nodes);
  }
  thread_ = std::thread([this] { run(); });
}

Master::~Master() {
  {
    const base::MutexLock lock(mutex_);
    stopping_ = true;
  }
  ring(wake_);
  thread_.join();
}

Master::Exit Master::node_exited(NodeId node, const std::string& why) {
  const base::MutexLock lock(mutex_);
  ATOLL_CHECK(node < members_.size());
  Member& member = members_[node];
  // All that the process sent is in the socket by now. Its connection may stay open in a process that it forked,
  // so this reads what is there and does not wait for an end.
  if (member.client != nullptr && !member.client->gone) read_client(*member.client);
  Exit exit = Exit::kNeverJoined;
  if (running_) exit = all_left_ && member.state != State::kDead ? Exit::kLeft : Exit::kDied;
  member.dies_at.reset();
  end_member(node, why);
  if (member.client != nullptr) member.client->gone = true;
  ring(wake_);
  return exit;
}

// ---- the thread ----

void Master::run() {
  std::vector<pollfd> polls;
  std::vector<Client*> polled;
  while (true) {
    const int timeout = prepare_poll(polls, polled);
    if (timeout < -1) return;
    if (::poll(polls.data(), polls.size(), timeout) < 0 && errno != EINTR) {
      spdlog::error("the master cannot poll its connections: {}", std::strerror(errno));
      return give_up();
    }
    handle_poll(polls, polled);
  }
}

/// Fills in what to poll, and returns for how long; less than -1 to end.
int Master::prepare_poll(std::vector<pollfd>& polls, std::vector<Client*>& polled) {
  const base::MutexLock lock(mutex_);
  if (stopping_) return -2;
  remove_gone();
  const auto now = Clock::now();
  auto until = Clock::time_point::max();
  polls.assign({{wake_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}});
  if (accept_after_ > now) {
    polls[1].fd = -1;
    until = accept_after_;
  }
  polled.clear();
  for (const auto& client : clients_) {
    const Connection& connection = client->connection;
    const bool write = connection.wants_write() && !connection.stalled();
    polls.push_back({connection.fd(), short((client->closing ? 0 : POLLIN) | (write ? POLLOUT : 0)), 0});
    polled.push_back(client.get());
    if (connection.stalled()) until = std::min(until, now + kStallRetry);
    if (client->node == kNoNode || client->closing) until = std::min(until, client->idle_until);
  }
  for (const Member& member : members_) {
    if (member.dies_at) until = std::min(until, *member.dies_at);
  }
  for (const auto& [name, waiter] : waiters_) until = std::min(until, waiter.deadline);
  return until == Clock::time_point::max() ? -1 : poll_timeout(until);
}

void Master::handle_poll(const std::vector<pollfd>& polls, const std::vector<Client*>& polled) {
  const base::MutexLock lock(mutex_);
  std::uint64_t rung = 0;
  if (polls[0].revents != 0) (void)!::read(wake_.get(), &rung, sizeof(rung));
  // Clients are removed by this thread only, in prepare_poll, so the pointers still hold.
  for (std::size_t k = 0; k < polled.size(); ++k) {
    Client& client = *polled[k];
    if (client.gone) continue;
    const short events = polls[k + 2].revents;
    if (client.connection.wants_write()) (void)client.connection.flush();
    if (client.closing) {
      client.gone = (events & (POLLHUP | POLLERR)) != 0;
    } else if ((events & (POLLIN | POLLHUP | POLLERR)) != 0 || !client.connection.why().empty()) {
      read_client(client);
    }
  }
  on_clock();
  if (polls[1].revents != 0) accept_clients();
}

void Master::accept_clients() {
  while (true) {
    base::Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EAGAIN) return;
      // Out of descriptors: the listener stays readable, so look away for a while instead of spinning.
      spdlog::error("the master cannot accept a connection: {}; raise the limit on open files (ulimit -n)",
                    std::strerror(errno));
      accept_after_ = Clock::now() + kAcceptRetry;
      return;
    }
    ucred peer{};
    socklen_t bytes = sizeof(peer);
    if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0 || peer.uid != ::geteuid()) {
      spdlog::warn("turned away process {} of user {}: only this user's processes may join", peer.pid, peer.uid);
      continue;
    }
    const auto is_guest = [](const auto& c) { return c->node == kNoNode; };
    const auto guests = std::count_if(clients_.begin(), clients_.end(), is_guest);
    auto client = std::make_unique<Client>(std::move(socket));
    client->pid = peer.pid;
    client->idle_until = Clock::now() + kIdleLimit;
    clients_.push_back(std::move(client));
    // All nodes may knock at the same time, before any of them has said which one it is.
    if (std::size_t(guests) >= kMaxGuests + config_.nodes) refuse(*clients_.back(), "the master has too many guests");
  }
}

void Master::on_clock() {
  const auto now = Clock::now();
  for (std::size_t k = 0; k < members_.size(); ++k) {
    Member& member = members_[k];
    if (!member.dies_at || *member.dies_at > now) continue;
    member.dies_at.reset();
    end_member(NodeId(k), member.why);
  }
  for (auto at = waiters_.begin(); at != waiters_.end();) {
    const Waiter waiter = at->second;
    if (waiter.deadline > now) {
      ++at;
      continue;
    }
    at = waiters_.erase(at);
    waiter.client->connection.send(reply(waiter.id, Errc::kDeadline));
  }
  for (const auto& client : clients_) {
    if ((client->node == kNoNode || client->closing) && client->idle_until <= now) client->gone = true;
  }
}

void Master::remove_gone() {
  std::erase_if(clients_, [this](const std::unique_ptr<Client>& client) ATOLL_NO_THREAD_SAFETY_ANALYSIS {
    const bool refused = client->closing && !client->connection.wants_write();
    if (!client->gone && !refused) return false;
    std::erase_if(waiters_, [&](const auto& entry) { return entry.second.client == client.get(); });
    if (client->node != kNoNode && members_[client->node].client == client.get()) {
      members_[client->node].client = nullptr;
    }
    return true;
  });
}

/// Without its thread the master is no use to anyone: the nodes shall see it lost instead of waiting for it.
void Master::give_up() {
  const base::MutexLock lock(mutex_);
  for (const auto& client : clients_) client->gone = true;
  remove_gone();
}

// ---- frames ----

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
  if (client.node == kNoNode) return drop(client, fmt::format("it sent \"{}\" without having joined", clipped(op, 32)));
  if (op == "exchange") return on_exchange(client, frame);
  if (!running_) return drop(client, fmt::format("it sent \"{}\" before all had joined", clipped(op, 32)));
  if (op == "publish") return on_publish(client, frame);
  if (op == "lookup") return on_lookup(client, frame);
  if (op == "leave") return on_leave(client);
  drop(client, fmt::format("it sent \"{}\", which the master does not know", clipped(op, 32)));
}

void Master::on_join(Client& client, const Frame& frame) {
  Fields fields(frame.body);
  const std::uint64_t version = fields.number("version");
  if (fields.ok() && version != kProtocolVersion) {
    return refuse(client, fmt::format("it speaks version {} of the protocol, this master version {}; build the program "
                                      "and the atoll command from the same sources",
                                      version, kProtocolVersion));
  }
  const std::uint64_t node = fields.number("node");
  const std::uint64_t memory = fields.number("memory"), cache = fields.number("cache"), line = fields.number("line");
  (void)fields.number("pid", std::numeric_limits<int>::max());
  if (!fields.ok()) return drop(client, "it sent a \"join\" in which " + fields.why());
  if (const std::string why = refusal(client, node, line); !why.empty()) return refuse(client, why);
  Member& member = members_[node];
  member.state = State::kJoining;
  member.pid = client.pid;  // the kernel's word counts, not the node's
  member.memory = memory;
  member.cache = cache;
  member.line = line;
  member.client = &client;
  client.node = NodeId(node);
  client.connection.send({{"op", "joined"}, {"nodes", config_.nodes}, {"epoch", epoch_}});
}

/// Why this join cannot be had; empty when it can.
std::string Master::refusal(const Client& client, std::uint64_t node, std::uint64_t line) {
  if (client.node != kNoNode) return fmt::format("it has joined already, as node {}", client.node);
  if (!failure_.empty()) return failure_;
  if (node >= config_.nodes) {
    return fmt::format("there is no node {}: the cluster has {} (0 to {})", node, config_.nodes, config_.nodes - 1);
  }
  const Member& member = members_[node];
  if (member.state == State::kDead) return fmt::format("node {} has already ended: {}", node, member.why);
  if (member.state != State::kStarting) return fmt::format("node {} has joined already (process {})", node, member.pid);
  for (std::size_t k = 0; k < members_.size(); ++k) {
    if (members_[k].state == State::kStarting || members_[k].line == line) continue;
    return fmt::format("its lines have {} bytes, those of node {} have {}; all nodes need the same (ATOLL_LINE)", line,
                       k, members_[k].line);
  }
  return {};
}

void Master::on_exchange(Client& client, Frame& frame) {
  Member& member = members_[client.node];
  if (member.state != State::kJoining) return drop(client, "it sent \"exchange\" twice");
  if (frame.fds.size() != 1) return drop(client, "it sent \"exchange\" without one segment");
  Fields fields(frame.body);
  member.address = fields.text("address", kMaxAddressBytes);
  if (!fields.ok()) return drop(client, "it sent an \"exchange\" in which " + fields.why());
  try {
    memory::Segment segment = memory::Segment::open(frame.fds[0]);
    const memory::SegmentLayout& layout = segment.layout();
    if (layout.line_bytes != member.line || layout.nodes != config_.nodes) {
      return refuse(client, fmt::format("its segment is for {} nodes and lines of {} bytes, not for {} and {}",
                                        layout.nodes, layout.line_bytes, config_.nodes, member.line));
    }
    member.segment = std::move(segment);
  } catch (const Error& error) {
    return refuse(client, fmt::format("its segment cannot be used: {}", error.what()));
  }
  member.fd = std::make_shared<const base::Fd>(std::move(frame.fds[0]));
  member.state = State::kJoined;
  // One whose connection has ended since is about to be dead, and the start with it.
  const auto joined = [](const Member& m) {
    return m.state == State::kJoined && m.client != nullptr && !m.client->gone;
  };
  if (std::all_of(members_.begin(), members_.end(), joined)) send_rosters();
}

/// Everyone gets everyone's segment, many to a frame; "roster" says that it was all.
void Master::send_rosters() {
  running_ = true;
  for (std::size_t to = 0; to < members_.size(); ++to) {
    Json peers = Json::array();
    std::vector<SharedFd> fds;
    const auto send = [&]() ATOLL_NO_THREAD_SAFETY_ANALYSIS {
      members_[to].client->connection.send({{"op", "peers"}, {"peers", std::exchange(peers, Json::array())}},
                                           std::exchange(fds, {}));
    };
    for (std::size_t k = 0; k < members_.size(); ++k) {
      if (k == to) continue;
      peers.push_back({{"node", k}, {"pid", members_[k].pid}, {"address", members_[k].address}});
      fds.push_back(members_[k].fd);
      if (fds.size() == kPeersInFrame) send();
    }
    if (!fds.empty()) send();
    members_[to].client->connection.send({{"op", "roster"}, {"nodes", config_.nodes}, {"epoch", epoch_}});
  }
  for (Member& member : members_) member.fd.reset();  // what is still to be sent keeps them
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
  const Status status = roots_.publish(name, address);
  client.connection.send(reply(id, status.code()));
  if (!status.ok()) return;
  const auto [first, last] = waiters_.equal_range(name);
  for (auto at = first; at != last; ++at) {
    at->second.client->connection.send(found_reply(at->second.id, address));
  }
  waiters_.erase(first, last);
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

// ---- what happens to members ----

/// For what the client may not do; it learns why and can tell its user.
void Master::refuse(Client& client, const std::string& why) {
  spdlog::warn("refused process {}: {}", client.pid, why);
  client.connection.send({{"op", "refused"}, {"why", clipped(why)}});
  client.closing = true;
  client.idle_until = Clock::now() + kClosingLimit;
  if (client.node != kNoNode) end_member(client.node, clipped(why));
}

/// For what no correct client sends.
void Master::drop(Client& client, const std::string& why) {
  spdlog::warn("closed the connection of process {}: {}", client.pid, why);
  client.gone = true;
  if (client.node != kNoNode) end_member(client.node, clipped(why));
}

void Master::connection_ended(Client& client) {
  client.gone = true;
  if (client.node == kNoNode) return;
  Member& member = members_[client.node];
  if (member.state == State::kDead || all_left_) return;
  member.why = client.connection.why();
  member.dies_at = Clock::now() + kReasonGrace;
}

void Master::end_member(NodeId node, const std::string& why) {
  Member& member = members_[node];
  member.dies_at.reset();
  if (member.state == State::kDead || all_left_) return;
  const State was = std::exchange(member.state, State::kDead);
  member.why = clipped(why);
  if (!running_) {
    const char* when = was == State::kStarting ? "exited before it joined" : "ended before all nodes had joined";
    return fail_start(fmt::format("node {} {}: {}", node, when, member.why));
  }
  ++epoch_;
  spdlog::info("node {} is dead: {}", node, member.why);
  send_all({{"op", "death"}, {"node", node}, {"why", member.why}, {"epoch", epoch_}}, node);
  check_all_left();
}

void Master::fail_start(const std::string& why) {
  if (!failure_.empty()) return;  // the others end because of the first
  failure_ = why;
  spdlog::info("the cluster does not start: {}", why);
  send_all({{"op", "start_failed"}, {"why", clipped(why)}}, kNoNode);
}

void Master::check_all_left() {
  const auto done = [](const Member& m) { return m.state == State::kLeft || m.state == State::kDead; };
  if (!running_ || all_left_ || !std::all_of(members_.begin(), members_.end(), done)) return;
  all_left_ = true;
  send_all({{"op", "all_left"}}, kNoNode);
}

void Master::send_all(const Json& body, NodeId except) {
  for (std::size_t k = 0; k < members_.size(); ++k) {
    Client* client = members_[k].client;
    if (k != except && client != nullptr && !client->gone) client->connection.send(body);
  }
}

// ---- status ----

/// One frame for the cluster and one per node: a thousand nodes do not fit one frame.
void Master::on_status(Client& client) {
  client.connection.send({{"op", "status"},
                          {"program", clipped(config_.program, kMaxProgramBytes)},
                          {"pid", ::getpid()},
                          {"started", started_},
                          {"epoch", epoch_},
                          {"nodes", config_.nodes}});
  for (std::size_t k = 0; k < members_.size(); ++k) client.connection.send(describe(NodeId(k)));
}

Json Master::describe(NodeId node) const {
  const Member& member = members_[node];
  Json body = {{"op", "status_node"}, {"node", node}, {"pid", member.pid}, {"state", to_string(member.state)}};
  if (member.state == State::kDead) body["why"] = member.why;
  if (member.state == State::kStarting || member.line == 0) return body;
  body["memory"] = member.memory;
  body["cache"] = member.cache;
  body["line"] = member.line;
  if (member.segment.memory_bytes() == 0) return body;  // it has not brought its segment yet
  const Stats stats = member.segment.header().counters.snapshot();
  body["counters"] = stats;
  Json& kinds = body["counters"]["sent_by_kind"] = Json::object();
  for (std::size_t k = 0; k < stats.sent_by_kind.size(); ++k) {
    const std::string name(message_kind_name(std::uint8_t(k)));
    if (!name.empty()) kinds[name] = stats.sent_by_kind[k];
  }
  return body;
}

}  // namespace atoll::cluster
