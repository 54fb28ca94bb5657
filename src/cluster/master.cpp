#include "cluster/master.hpp"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <span>

#include "base/boot_clock.hpp"
#include "base/check.hpp"
#include "base/log.hpp"

namespace atoll::cluster {
namespace {

using namespace std::chrono_literals;

// A socket ends a moment before its process can be reaped; so long the launcher has to say why it ended.
constexpr auto kReasonGrace = 250ms;
constexpr auto kClosingLimit = 5s;  // for a refused client to take its refusal
constexpr auto kStallRetry = 10ms;
constexpr auto kAcceptRetry = 100ms;
constexpr auto kFarewell = 2s;          // for nodes to close their connections when it is over
constexpr std::size_t kMaxGuests = 64;  // clients that are not nodes: `atoll status`, and nodes before they join

void ring(const base::Fd& wake) noexcept {
  const std::uint64_t one = 1;
  (void)!::write(wake.get(), &one, sizeof(one));  // full means that it rings already
}

}  // namespace

Master::Master(MasterConfig config)
    : config_(std::move(config)),
      name_(make_socket_name()),
      started_(std::time(nullptr)),
      listener_(listen_abstract(name_)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      over_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      lost_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      times_(LeaseTimes::of_ms(config_.lease.count(), config_.grace.count())),
      record_(config_.state_file ? std::optional<RecordFile>(std::in_place, *config_.state_file, config_.nodes)
                                 : std::nullopt),
      lease_(make_term(), config_.nodes, times_, base::boot_ns(), record_ ? record_->found() : std::nullopt),
      began_at_(base::boot_ns()) {
  if (config_.lease.count() < kShortestLease_ms) {
    throw Error(fmt::format("a lease of {} ms: give {} or more", config_.lease.count(), kShortestLease_ms));
  }
  if (config_.nodes == 0 || config_.nodes > kMaxNodes) {
    throw Error(fmt::format("a cluster of {} nodes: give 1 to {}", config_.nodes, kMaxNodes));
  }
  if (!wake_.valid() || !over_.valid() || !lost_.valid()) {
    throw Error(fmt::format("cannot make an eventfd: {}", std::strerror(errno)));
  }
  {
    const base::MutexLock lock(mutex_);
    members_.resize(config_.nodes);
    if (config_.listen) {
      if (!config_.key) throw Error("a master that listens at TCP needs the cluster key; `atoll key` makes one");
      gate_.emplace(*config_.listen, *config_.key);
      tcp_address_ = gate_->address();
    }
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
  const base::MutexLock lock(mutex_);
  if (running_ && !all_left_) send_all({{"op", "ending"}}, kNoNode);  // its word counts: nobody need find out
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
  std::erase_if(losses_, [node](const LostNode& lost) { return lost.node == node; });  // they were of that process
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
  check_over(until);
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
  if ((running_ || resuming_ || lease_.memory().record) && !all_left_) until = std::min(until, next_look_at_leases());
  if (gate_) gate_->prepare(polls, until);  // behind the clients: it alone knows how many it has
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
  if (!gate_) return;
  const auto at_gate = std::span(polls).subspan(2 + polled.size());
  for (Gate::Admitted& admitted : gate_->handle(at_gate, Clock::now())) {
    admit(std::move(admitted.socket), std::move(admitted.peer), 0, &admitted.seals);
  }
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
    admit(std::move(socket), fmt::format("process {}", peer.pid), peer.pid, nullptr);
  }
}

/// A guest from here on: it may ask for the status, or join.
void Master::admit(base::Fd socket, std::string name, int pid, const Seals* seals) {
  const auto is_guest = [](const auto& c) { return c->node == kNoNode; };
  const auto guests = std::count_if(clients_.begin(), clients_.end(), is_guest);
  clients_.push_back(std::make_unique<Client>(std::move(socket), std::move(name)));
  Client& client = *clients_.back();
  if (seals != nullptr) client.connection.seal(*seals);
  client.far = seals != nullptr;
  client.pid = pid;
  client.idle_until = Clock::now() + kIdleLimit;
  // All nodes may knock at the same time, before any of them has said which one it is.
  if (std::size_t(guests) >= kMaxGuests + config_.nodes) refuse(client, "the master has too many guests");
}

void Master::on_clock() {
  look_at_leases();
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

// ---- what happens to members ----

/// For what the client may not do; it learns why and can tell its user.
void Master::refuse(Client& client, const std::string& why) {
  spdlog::warn("refused {}: {}", client.name, why);
  client.connection.send({{"op", "refused"}, {"why", clipped(why)}});
  client.closing = true;
  client.idle_until = Clock::now() + kClosingLimit;
  turned_away(client, why);
}

/// For what no correct client sends.
void Master::drop(Client& client, const std::string& why) {
  spdlog::warn("closed the connection of {}: {}", client.name, why);
  client.gone = true;
  turned_away(client, why);
}

/// A node that is not heard any more is not stopped by that: once the cluster runs, it is out when its lease is.
void Master::turned_away(const Client& client, const std::string& why) {
  if (client.node == kNoNode || members_[client.node].client != &client) return;
  if ((!running_ && !resuming_) || never_acted(client.node)) return end_member(client.node, clipped(why));
  members_[client.node].why = clipped(why);
}

/// The end of a socket of this host is the end of a process; that of a TCP connection may be the network's doing.
void Master::connection_ended(Client& client) {
  client.gone = true;
  if (client.node == kNoNode) return;
  Member& member = members_[client.node];
  if (all_left_) return;
  if (member.state == State::kDead || member.client != &client) return note_end(client);
  member.why = client.connection.why();
  // One that never acted joins over one connection: without it, it never will.
  const bool ended = !client.far || (!running_ && !resuming_) || never_acted(client.node);
  if (ended) member.dies_at = Clock::now() + kReasonGrace;
}

/// The process of a node has ended, for certain; or, until the cluster runs, the node is of no use.
void Master::end_member(NodeId node, const std::string& why) {
  Member& member = members_[node];
  member.dies_at.reset();
  if (all_left_) return;
  if (member.state == State::kDead) {
    if (running_) declare(lease_.node_ended(node, member.incarnation, base::boot_ns()));  // declared out before
    return;
  }
  if (!running_ && !resuming_) {
    const State was = std::exchange(member.state, State::kDead);
    member.why = why.empty() ? "it closed its connection" : clipped(why);
    const char* when = was == State::kStarting ? "exited before it joined" : "ended before all nodes had joined";
    return fail_start(fmt::format("node {} {}: {}", node, when, member.why));
  }
  member.why = clipped(why);
  declare(lease_.node_ended(node, member.incarnation, base::boot_ns()));
  if (running_ && member.state != State::kDead) end_newcomer(node);
}

void Master::fail_start(const std::string& why) {
  if (!failure_.empty()) return;  // the others end because of the first
  failure_ = why;
  spdlog::info("the cluster does not start: {}", why);
  send_all({{"op", "start_failed"}, {"why", clipped(why)}}, kNoNode);
}

void Master::check_all_left() {
  const auto done = [this](const Member& m) ATOLL_NO_THREAD_SAFETY_ANALYSIS {
    return m.state == State::kLeft || (m.state == State::kDead && !may_come_back(m));
  };
  if (!running_ || all_left_ || !std::all_of(members_.begin(), members_.end(), done)) return;
  all_left_ = true;
  if (record_) record_->remove();
  send_all({{"op", "all_left"}}, kNoNode);
}

/// Rings when it is over and all nodes have closed their connections, or had the time to. To close ours while they
/// still send would cost them what they have not read yet.
void Master::check_over(Clock::time_point& until) {
  if (!all_left_ && failure_.empty()) return;
  const auto now = Clock::now();
  if (!over_by_) over_by_ = now + kFarewell;
  const auto connected = [](const Member& m) { return m.client != nullptr; };
  const bool alone = std::none_of(members_.begin(), members_.end(), connected);
  if (alone || *over_by_ <= now) return ring(over_);
  until = std::min(until, *over_by_);
}

std::vector<Master::LostNode> Master::take_losses() {
  const base::MutexLock lock(mutex_);
  std::uint64_t rung = 0;
  (void)!::read(lost_.get(), &rung, sizeof(rung));
  return std::exchange(losses_, {});
}

Master::Outcome Master::outcome() {
  const base::MutexLock lock(mutex_);
  Outcome outcome{failure_, {}};
  for (std::size_t k = 0; k < members_.size() && failure_.empty(); ++k) {
    if (members_[k].state == State::kDead) outcome.deaths.push_back(fmt::format("node {}: {}", k, members_[k].why));
  }
  return outcome;
}

void Master::send_all(const Json& body, NodeId except) {
  for (std::size_t k = 0; k < members_.size(); ++k) {
    Client* client = members_[k].client;
    if (k == except || client == nullptr || client->gone) continue;
    if (!running_ || is_introduced(members_[k])) client->connection.send(body);
  }
}

}  // namespace atoll::cluster
