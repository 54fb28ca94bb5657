// Who is in: the master's part of leases, and nodes that come back to a master that was started anew.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>

#include "base/boot_clock.hpp"
#include "base/log.hpp"
#include "cluster/door.hpp"
#include "cluster/lease_frames.hpp"
#include "cluster/master.hpp"
#include "cluster/stats_json.hpp"

namespace atoll::cluster {
namespace {

using namespace std::chrono_literals;

constexpr auto kSayAwaited = 5s;
constexpr std::size_t kMaxNames = 256;  // in a frame

}  // namespace

/// Larger than that of any master before: by the clock, and by the record where there is one.
Term Master::make_term() const {
  std::uint32_t random = 0;
  fill_random({reinterpret_cast<std::uint8_t*>(&random), sizeof(random)});
  constexpr unsigned kRandomBits = 20;
  const Term by_clock = Term(started_) << kRandomBits | random >> (32 - kRandomBits);
  return record_ && record_->found() ? std::max(by_clock, record_->found()->term + 1) : by_clock;
}

void Master::on_report(Client& client, const Frame& frame) {
  std::string why;
  const auto report = report_of(frame.body, config_.nodes, why);
  if (!report) return drop(client, "it sent a \"report\" in which " + why);
  if (report->node != client.node || report->incarnation != client.incarnation) {
    return drop(client, "it reports in another's name");
  }
  Member& member = members_[client.node];
  if (client.incarnation != member.incarnation) return on_outdated_report(client, *report);
  if (!is_introduced(member)) return drop(client, "it sent a \"report\" before it knew the others");
  if (frame.body.contains("counters")) {
    member.counters = counters_from_json(frame.body.at("counters"));
    if (!member.counters) return drop(client, "it sent a \"report\" whose counters make no sense");
    member.heard_at = Clock::now();
  }
  if (all_left_) return;
  const std::uint32_t before = lease_.epoch().number;
  const Answer answer = lease_.on_report(*report, base::boot_ns());
  if (!save_record()) return;  // nobody is told what is not on disk
  if (!client.told) client.told = report->epoch.number;
  tell(client, answer);
  if (lease_.established() && !running_) begin();
  if (lease_.epoch().number != before) tell_epoch(client.node);
}

/// Of a process whose place another has taken: it shall find itself out.
void Master::on_outdated_report(Client& client, const Report& report) {
  if (report.epoch.number == 0) return drop(client, "it reports as a node that is another process");
  const Answer answer = lease_.on_report(report, base::boot_ns());
  if (save_record()) client.connection.send(to_json(answer));
}

/// The cluster runs: it was founded, or this master took it over.
void Master::begin() {
  running_ = true;
  if (!resuming_) return;
  spdlog::info("took the cluster over in epoch {}", lease_.epoch().number);
  for (std::size_t k = 0; k < members_.size(); ++k) {
    if (members_[k].state != State::kStarting || lease_.epoch().incarnations[k] != 0) continue;
    members_[k].state = State::kDead;
    members_[k].why = "it was declared out before this master began";
  }
  check_all_left();
}

/// False when the disk does not take it: then nothing may be said, and the nodes stop when their leases end.
bool Master::save_record() {
  if (!record_ || !lease_.established() || lease_.record() == saved_) return true;
  try {
    record_->write(lease_.record());
    saved_ = lease_.record();
    return true;
  } catch (const Error& error) {
    const auto now = Clock::now();
    if (now >= complain_after_) spdlog::error("no lease is renewed: {}", error.what());
    complain_after_ = now + kSayAwaited;
    return false;
  }
}

void Master::tell_epoch(NodeId except) {
  for (std::size_t k = 0; k < members_.size(); ++k) {
    Client* client = members_[k].client;
    if (k == except || client == nullptr || client->gone || !is_introduced(members_[k])) continue;
    if (client->told) tell(*client, lease_.notice());  // else its first report brings it
  }
}

std::string Master::reason_of(const Loss& loss) const {
  const std::string& said = members_[loss.node].why;
  switch (loss.reason) {
    case LossReason::kEnded: return said.empty() ? "its process has ended" : said;
    case LossReason::kSilent: {
      const double seconds = double(config_.lease.count()) / 1000;
      return fmt::format("nothing was heard of it for {:.1f} s{}", seconds, said.empty() ? "" : " (" + said + ")");
    }
    case LossReason::kSuspended: return "it reports, but hears no answer";
    case LossReason::kUnreachable: return "it and others do not reach each other";
  }
  return said;
}

/// Everyone learns of it: first why, then the epoch, which alone counts.
void Master::declare(const std::vector<Loss>& losses) {
  for (const Loss& loss : losses) {
    Member& member = members_[loss.node];
    member.why = clipped(reason_of(loss));
    member.state = State::kDead;
    member.fd.reset();
    untold_.push_back(loss.node);
    if (loss.reason != LossReason::kEnded) {
      losses_.push_back({loss.node, member.why});
      const std::uint64_t one = 1;
      (void)!::write(lost_.get(), &one, sizeof(one));
    }
    spdlog::info("node {} is dead: {}", loss.node, member.why);
  }
  if (untold_.empty() || !save_record()) return;
  for (const NodeId node : std::exchange(untold_, {})) {
    send_all({{"op", "death"}, {"node", node}, {"why", members_[node].why}, {"epoch", lease_.epoch().number}}, kNoNode);
  }
  tell_epoch(kNoNode);
  tell_given_up();
  check_all_left();
}

/// After all that has come was read: what lies unread may renew a lease.
void Master::look_at_leases() {
  const LeaseTime now = base::boot_ns();
  // We were stopped ourselves, or starved: reports may still be on their way to us.
  if (now - looked_at_ > 2 * times_.report_every) lease_.slept(now);
  looked_at_ = now;
  if (lease_.memory().record && !resuming_ && now - began_at_ >= times_.orphan) forget_record();
  if (running_ && !all_left_) declare(lease_.on_clock(now));
  if (running_ || !resuming_ || Clock::now() < complain_after_) return;
  complain_after_ = Clock::now() + kSayAwaited;
  spdlog::info("waiting for nodes {} to come back", fmt::join(lease_.awaited(), ", "));
}

/// Nobody has come back in the time for which nodes work on without a master: whoever is left of that cluster has
/// stopped, and will find itself out.
void Master::forget_record() {
  spdlog::warn("no node of the cluster in {} has come back: it is over", record_->path());
  record_->remove();
  lease_ = LeaseMaster(lease_.term() + 1, config_.nodes, times_, base::boot_ns());
}

Clock::time_point Master::next_look_at_leases() const {
  LeaseTime next = base::boot_ns() + times_.report_every;
  for (std::size_t k = 0; k < members_.size(); ++k) {
    if (lease_.epoch().incarnations[k] != 0) next = std::min(next, lease_.memory().members[k].until);
  }
  return Clock::now() + std::chrono::nanoseconds(std::max<LeaseTime>(next - base::boot_ns(), 0));
}

// ---- nodes that come back ----

/// A node whose connection ended: this master's, or that of a master before it.
void Master::on_return(Client& client, const Frame& frame) {
  Fields fields(frame.body);
  if (!speaks_our_version(client, fields)) return;
  const std::uint64_t node = fields.number("node", config_.nodes - 1U);
  const auto incarnation = std::uint32_t(fields.number("incarnation", UINT32_MAX));
  const auto pid = int(fields.number("pid", std::numeric_limits<int>::max()));
  const std::uint64_t memory = fields.number("memory"), cache = fields.number("cache"), line = fields.number("line");
  const auto left = frame.body.find("left");
  const std::string address = fields.printable("address", kMaxAddressBytes);
  const std::string host = fields.printable("host", kMaxHostBytes);
  const std::string door = fields.printable("door", kMaxDoorBytes), token = fields.printable("token", kMaxDoorBytes);
  if (!fields.ok()) return drop(client, "it sent a \"return\" in which " + fields.why());
  if (const std::string why = refusal_to_return(client, NodeId(node), incarnation); !why.empty()) {
    return refuse(client, why);
  }
  Member& member = members_[node];
  if (member.client != nullptr && member.client != &client) {
    member.client->node = kNoNode;  // what it was is what this one is
    member.client->gone = true;
  }
  if (member.state == State::kStarting) {
    resuming_ = true;
    member.state = State::kJoined;
    member.incarnation = incarnation;
    member.pid = pid;
    member.memory = memory;
    member.cache = cache;
    member.line = line;
    member.address = address;
    member.host = host;
    member.door = door;
    member.token = token;
  }
  member.why.clear();
  member.dies_at.reset();
  member.client = &client;
  client.node = NodeId(node);
  client.incarnation = incarnation;
  client.name = fmt::format("node {} ({})", node, client.name);
  spdlog::info("{} is back", client.name);
  client.told.reset();
  client.connection.send({{"op", "returned"}, {"term", lease_.term()}});
  send_given_up(client);
  if (left != frame.body.end() && left->is_boolean() && left->get<bool>()) on_leave(client);
  if (all_left_) client.connection.send({{"op", "all_left"}});
}

std::string Master::refusal_to_return(const Client& client, NodeId node, std::uint32_t incarnation) const {
  const Member& member = members_[node];
  if (client.node != kNoNode) return fmt::format("it has joined already, as node {}", client.node);
  if (!failure_.empty()) return failure_;
  if (running_ || resuming_) {
    if (member.state == State::kStarting && !running_) return {};
    if (member.state == State::kStarting && lease_.epoch().has(node, incarnation)) return {};
    return member.incarnation == incarnation ? "" : fmt::format("node {} is another process, or is gone", node);
  }
  const auto fresh = [](const Member& m) { return m.state != State::kStarting; };
  if (std::none_of(members_.begin(), members_.end(), fresh)) return {};
  return "this master starts another cluster";
}

/// What a node knows of the names: a master that was started anew knows none.
void Master::on_names(Client& client, const Frame& frame) {
  const auto names = frame.body.find("names");
  if (names == frame.body.end() || !names->is_array() || names->size() > kMaxNames) {
    return drop(client, "it sent \"names\" that are no list of them");
  }
  for (const Json& entry : *names) {
    const bool sound = entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_number_unsigned();
    if (!sound || !check_root_name(entry[0].get<std::string>()).ok()) {
      return drop(client, "it sent \"names\" with something that is no name");
    }
    (void)publish(entry[0].get<std::string>(), GlobalAddress(entry[1].get<std::uint64_t>()));
  }
}

}  // namespace atoll::cluster
