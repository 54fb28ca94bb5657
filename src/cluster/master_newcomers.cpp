// Processes that take the place of nodes that died, in a cluster that runs.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/boot_clock.hpp"
#include "base/check.hpp"
#include "base/log.hpp"
#include "base/units.hpp"
#include "cluster/lease_frames.hpp"
#include "cluster/master.hpp"

namespace atoll::cluster {

/// REQUIRES: it is dead.
bool Master::may_come_back(const Member& member) const noexcept {
  return config_.recoverable && !member.given_up;
}

/// Whether it knows of the others, and may be told of what happens.
bool Master::is_introduced(const Member& member) const noexcept {
  return member.state == State::kJoined || member.state == State::kLeft || member.state == State::kDead;
}

/// Whether its present process is known never to have had a lease: it joins, and will not go on without its connection.
bool Master::never_acted(NodeId node) const noexcept {
  if (!running_) return false;
  return !lease_.epoch().has(node, members_[node].incarnation) || lease_.is_newcomer(node);
}

/// Why nobody can take this node's place now; empty when one can.
std::string Master::refusal_of_successor(NodeId node) const {
  const Member& member = members_[node];
  if (all_left_) return "the cluster is over: all nodes have left";
  if (member.state != State::kDead) {
    return fmt::format("node {} is still in (process {}); it is out {:.1f} s after it was heard for the last time",
                       node, member.pid, double(config_.lease.count()) / 1000);
  }
  if (member.given_up) return fmt::format("node {} was given up: {}", node, member.why);
  for (std::size_t k = 0; k < members_.size(); ++k) {
    if (members_[k].state != State::kStarting || lease_.epoch().incarnations[k] == 0) continue;
    return fmt::format("node {} has not come back to this master yet, which does not know where it is; try again", k);
  }
  return {};
}

/// What was the process before is forgotten, but for what its successor must bring too.
void Master::make_room_for_successor(Member& member) {
  if (member.client != nullptr) member.client->name += ", which has a successor";
  Member next;
  next.restarts = member.restarts + 1;
  next.brought = member.brought != 0 ? member.brought : member.memory;  // not of one that was refused for it
  member = std::move(next);
}

/// A node's memory is as large as it was: addresses in it are known to others.
std::string Master::refusal_of_memory(const Member& member) const {
  if (member.brought == 0 || member.brought == member.memory) return {};
  return fmt::format("it brings {} of memory, the process before it brought {}; give it the same (ATOLL_MEMORY)",
                     base::format_bytes(member.memory), base::format_bytes(member.brought));
}

/// It learns who is in; the others learn of it when it is let in.
void Master::introduce_newcomer(NodeId node) {
  Client& client = *members_[node].client;
  spdlog::info("{} takes the place of node {}, which died", client.name, node);
  send_roster(node);
  if (!uses_doors()) send_given_up(client);
}

/// An epoch, behind the offers of those in it whom this client has not heard of. A master that took over may not know
/// where one of them is: nothing is said until that one has come back, or is out.
void Master::tell(Client& client, const Answer& answer) {
  const Epoch& epoch = lease_.epoch();
  const auto is_new = [&](std::size_t k) {
    return k != client.node && epoch.incarnations[k] != 0 && epoch.since[k] > client.told;
  };
  for (std::size_t k = 0; k < members_.size(); ++k) {
    if (is_new(k) && members_[k].incarnation != epoch.incarnations[k]) return;
  }
  for (std::size_t k = 0; k < members_.size(); ++k) {
    if (!is_new(k)) continue;
    std::vector<SharedFd> fds;
    if (!uses_doors()) fds.push_back(members_[k].fd);
    client.connection.send({{"op", "newcomer"}, {"peer", peer_entry(NodeId(k), members_[client.node])}},
                           std::move(fds));
  }
  client.told = std::max(client.told.value_or(0), epoch.number);
  client.connection.send(to_json(answer));
}

// ---- nodes that do not come back ----

void Master::give_up_on(NodeId node) {
  const base::MutexLock lock(mutex_);
  ATOLL_CHECK(node < members_.size());
  members_[node].given_up = true;
  tell_given_up();
  check_all_left();
  const std::uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof(one));
}

/// Those who have just come learn who does not.
void Master::send_given_up(Client& client) {
  for (std::size_t k = 0; k < members_.size(); ++k) {
    if (!members_[k].told_given_up) continue;
    client.connection.send({{"op", "given_up"}, {"node", k}, {"why", members_[k].why}});
  }
}

/// Behind the death itself.
void Master::tell_given_up() {
  if (!config_.recoverable || !running_ || !untold_.empty()) return;
  for (std::size_t k = 0; k < members_.size(); ++k) {
    Member& member = members_[k];
    if (!member.given_up || member.told_given_up || member.state != State::kDead) continue;
    member.told_given_up = true;
    send_all({{"op", "given_up"}, {"node", k}, {"why", member.why}}, kNoNode);
  }
}

/// It ended before it was let in: nobody has heard of it.
void Master::end_newcomer(NodeId node) {
  Member& member = members_[node];
  if (lease_.epoch().has(node, member.incarnation)) return;
  spdlog::info("node {} ended before it was in again: {}", node, member.why);
  member.state = State::kDead;
  member.fd.reset();
  tell_given_up();
  check_all_left();
}

/// The process of a client that was out before, or had a successor: where the kernel says so, it has ended.
void Master::note_end(const Client& client) {
  if (!client.far && running_) declare(lease_.node_ended(client.node, client.incarnation, base::boot_ns()));
}

const char* Master::state_text(NodeId node) const {
  const Member& member = members_[node];
  const bool again = member.restarts > 0;
  switch (member.state) {
    case State::kStarting: return "starting";
    case State::kJoining:
    case State::kOffered: return again ? "joining" : "starting";
    case State::kJoined: return again && never_acted(node) ? "joining" : "joined";
    case State::kLeft: return "left";
    case State::kDead: return may_come_back(member) ? "away" : "dead";
  }
  return "unknown";
}

}  // namespace atoll::cluster
