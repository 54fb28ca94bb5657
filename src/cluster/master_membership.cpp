#include "cluster/master_membership.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/boot_clock.hpp"
#include "base/log.hpp"
#include "cluster/lease_frames.hpp"
#include "cluster/stats_json.hpp"

namespace atoll::cluster {
namespace {

using namespace std::chrono_literals;

// How much longer than asked a node waits for the master's answer, before it takes the master for stuck.
constexpr auto kReplySlack = 10s;
constexpr int kStallRetry_ms = 10;

}  // namespace

// ---- requests ----

Result<GlobalAddress> MasterMembership::request(Json body, std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout + kReplySlack;
  const base::MutexLock lock(mutex_);
  if (!exchanged_) return {Errc::kClusterDown, "this node has not joined yet"};
  const std::uint64_t id = next_request_++;
  body["id"] = id;
  Request& request = requests_[id];
  request.body = std::move(body);
  if (connection_) {
    connection_->send(request.body);  // a failure is found, and told, by the reader
    if (connection_->wants_write() || !connection_->why().empty()) wake();
  }
  while (!request.answered && why_unanswered().ok() && Clock::now() < deadline) {
    (void)changed_.wait_until(mutex_, deadline);
  }
  const Request done = std::move(requests_.extract(id).mapped());
  if (!done.answered) {
    const Status why = why_unanswered();
    return why.ok() ? Status{Errc::kDeadline, "the master does not answer"} : why;
  }
  if (done.code != Errc::kOk) return membership_status(done.code);
  return done.address;
}

/// Why no answer will come; ok when one may.
Status MasterMembership::why_unanswered() const noexcept {
  if (keeper_->fenced()) return membership_status(Errc::kFenced);
  return lost_ ? membership_status(Errc::kClusterDown) : Status();
}

Status MasterMembership::publish(std::string_view name, GlobalAddress address) {
  if (const Status status = check_root_name(name); !status.ok()) return status;
  if (!address) return membership_status(Errc::kNullAddress);
  const Status status = request({{"op", "publish"}, {"name", name}, {"address", address.bits()}}, 0ms).status();
  if (!status.ok()) return status;
  const base::MutexLock lock(mutex_);
  (void)names_.publish(name, address);  // for a master that has forgotten it
  return status;
}

Result<GlobalAddress> MasterMembership::lookup(std::string_view name, std::chrono::milliseconds timeout) {
  if (const Status status = check_root_name(name); !status.ok()) return status;
  timeout = bounded_timeout(timeout);
  const auto wait_ms = std::uint64_t(timeout.count());
  const auto found = request({{"op", "lookup"}, {"name", name}, {"timeout_ms", wait_ms}}, timeout);
  if (!found.ok()) return found;
  if (!*found) return {Errc::kClusterDown, "the master answered a lookup without an address"};
  const base::MutexLock lock(mutex_);
  (void)names_.publish(name, *found);
  return found;
}

void MasterMembership::leave() noexcept {
  const base::MutexLock lock(mutex_);
  if (!exchanged_) return;
  leaving_ = true;
  if (connection_ && !lost_ && !all_left_) connection_->send({{"op", "leave"}});
  wake();
  // No deadline: others may compute for hours on this node's memory. The end of the master ends it.
  while (!all_left_ && why_unanswered().ok()) changed_.wait(mutex_);
}

void MasterMembership::abandon() noexcept {
  spdlog::critical("node {} ends itself: the others shall not wait for it", id_);
  spdlog::default_logger()->flush();
  std::abort();
}

bool MasterMembership::set_reachable(NodeId peer, bool reachable) {
  const base::MutexLock lock(mutex_);
  keeper_->set_reachable(peer, reachable);
  return true;
}

// ---- the reader ----

void MasterMembership::wake() noexcept {
  const std::uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof(one));  // full means that it rings already
}

void MasterMembership::read_loop() noexcept {
  std::vector<LeaseKeeper::Notice> notices;
  for (bool more = true; more;) {
    more = step(notices);
    for (const LeaseKeeper::Notice& notice : notices) tell(notice);
    notices.clear();
    if (more) wait_for_more();
  }
  bool tell = false;
  {
    const base::MutexLock lock(mutex_);
    tell = lost_ && !all_left_ && !stopping_;
  }
  if (tell && events_.on_master_lost) events_.on_master_lost();
}

void MasterMembership::tell(const LeaseKeeper::Notice& notice) {
  using Kind = LeaseKeeper::Notice::Kind;
  switch (notice.kind) {
    case Kind::kStanding:
      if (events_.on_standing) events_.on_standing(notice.standing, notice.why);
      return;
    case Kind::kDeath:
      if (events_.on_death) events_.on_death(notice.node, notice.why);
      return;
    case Kind::kGivenUp:
      if (events_.on_given_up) events_.on_given_up(notice.node, notice.why);
      return;
    case Kind::kReturn: return tell_return(notice);
  }
}

/// The segment of one on this host is fetched first, by this thread, which keeps the lease too: it does not wait long.
void MasterMembership::tell_return(const LeaseKeeper::Notice& notice) {
  Arrival arrival;
  {
    const base::MutexLock lock(mutex_);
    const auto found = arrivals_.find({notice.node, notice.incarnation});
    if (found == arrivals_.end()) {
      return lose(fmt::format("it let node {} in without saying where it is", notice.node));
    }
    arrival = std::move(found->second);
    const auto is_old = [&](const auto& entry) { return entry.first.first == notice.node; };
    std::erase_if(arrivals_,
                  [&](const auto& entry) { return is_old(entry) && entry.second.peer.epoch <= notice.epoch; });
  }
  try {
    open_door(arrival, soon());
  } catch (const Error& error) {
    spdlog::warn("node {}: {}", id_, error.what());  // as if it were on another host
  }
  arrival.peer.epoch = notice.epoch;
  spdlog::info("node {}: node {} is back, in epoch {}", id_, notice.node, notice.epoch);
  if (events_.on_return) events_.on_return(arrival.peer, notice.epoch);
}

/// Does what there is to do, and takes out what there is to tell. False when there will be no more.
bool MasterMembership::step(std::vector<LeaseKeeper::Notice>& notices) {
  const base::MutexLock lock(mutex_);
  if (stopping_) return false;
  if (found_) adopt_connection();
  send_report();  // before anything is read: of what comes now nobody has been told yet
  if (connection_) read_some();
  keep_lease();
  show_right();
  notices = keeper_->take_notices();
  epoch_.store(std::max(1U, keeper_->lease().epoch().number), std::memory_order_release);
  if (!notices.empty()) changed_.notify_all();
  return !lost_ && !stopping_;
}

void MasterMembership::wait_for_more() {
  pollfd polls[] = {{-1, POLLIN, 0}, {wake_.get(), POLLIN, 0}};
  auto until = Clock::now();
  {
    const base::MutexLock lock(mutex_);
    const LeaseTime left = keeper_->next_look() - base::boot_ns();
    until += std::clamp<std::chrono::nanoseconds>(std::chrono::nanoseconds(left), 0ns, 1h);
    if (connection_) {
      polls[0].fd = connection_->fd();
      if (connection_->stalled()) {
        until = std::min(until, Clock::now() + std::chrono::milliseconds(kStallRetry_ms));
      } else if (connection_->wants_write()) {
        polls[0].events |= POLLOUT;
      }
    }
  }
  // One that cannot be waited for is looked at now and then.
  if (::poll(polls, 2, poll_timeout(until)) < 0 && errno != EINTR) ::poll(nullptr, 0, kStallRetry_ms);
  std::uint64_t rung = 0;
  if (polls[1].revents != 0) (void)!::read(wake_.get(), &rung, sizeof(rung));
}

void MasterMembership::keep_lease() {
  const LeaseTime now = base::boot_ns();
  keeper_->on_clock(now);
  if (keeper_->is_hopeless(now)) lose("it has not been heard for too long");
}

/// On the clock that the rest of the node asks. Taken anew each time, for that one stands still in a machine that
/// sleeps.
void MasterMembership::show_right() {
  const LeaseTime until = keeper_->lease().act_until();
  LeaseTime shown = kLongAgo;  // from which nothing can be taken off
  if (until != kLongAgo) shown = base::coarse_ns() + (until - base::boot_ns()) - base::kCoarseTick_ns;
  act_until_.store(shown, std::memory_order_release);
}

/// When it is time to. What the node counts goes with it, where the master cannot see it.
void MasterMembership::send_report() {
  if (!connection_) return;
  const auto report = keeper_->due_report(base::boot_ns());
  if (!report) return;
  Json body = to_json(*report);
  if (own_.memory_bytes() != 0) body["counters"] = counters_to_json(own_.header().counters.snapshot());
  connection_->send(std::move(body));
}

/// Reads and handles what has come.
void MasterMembership::read_some() {
  (void)connection_->flush();  // if it is broken, the loop below finds out after the last frame
  Frame frame;
  while (true) {
    switch (connection_->next(frame)) {
      case Decoded::kFrame:
        if (const std::string why = on_frame(frame); !why.empty()) return lose(why);
        continue;
      case Decoded::kBad: return lose(connection_->why());
      case Decoded::kNeedMore: break;
    }
    switch (connection_->receive()) {
      case Connection::Received::kSome: continue;
      case Connection::Received::kNothingYet: return;
      case Connection::Received::kEnded: return disconnect(connection_->why());
    }
  }
}

std::string MasterMembership::on_frame(Frame& frame) {
  const std::string& op = frame.op();
  if (op == "answer") return on_answer(frame);
  if (op == "newcomer") return on_newcomer(frame);
  Fields fields(frame.body);
  if (op == "reply") {
    on_reply(fields, frame);
  } else if (op == "death" || op == "given_up") {
    const auto node = NodeId(fields.number("node", count_ - 1U));
    std::string why = fields.text("why", kMaxFrameBytes);
    if (fields.ok() && op == "given_up")
      keeper_->note_given_up(node, std::move(why));
    else if (fields.ok())
      keeper_->note_reason(node, std::move(why));  // the answer behind it has the epoch
  } else if (op == "all_left") {
    all_left_ = true;
  } else if (op == "ending") {
    keeper_->master_ended(base::boot_ns());
  } else {
    return fmt::format("it sent \"{}\", which a node does not know", clipped(op, 32));
  }
  changed_.notify_all();
  return fields.ok() ? "" : fmt::format("it sent a \"{}\" in which {}", op, fields.why());
}

void MasterMembership::on_reply(Fields& fields, const Frame& frame) {
  const std::uint64_t id = fields.number("id");
  const auto code = Errc(fields.number("code", std::uint8_t(Errc::kFenced)));
  const GlobalAddress address(frame.body.contains("address") ? fields.number("address") : 0);
  const auto waiting = requests_.find(id);  // it may have given up
  if (!fields.ok() || waiting == requests_.end()) return;
  waiting->second.answered = true;
  waiting->second.code = code;
  waiting->second.address = address;
}

/// A process that is about to be let in: the answer behind it has the epoch.
std::string MasterMembership::on_newcomer(Frame& frame) {
  const auto entry = frame.body.find("peer");
  if (entry == frame.body.end() || frame.fds.size() != (uses_doors_ ? 0 : 1)) {
    return "it sent a \"newcomer\" without one peer and its segment";
  }
  const std::string why = take_arrival(*entry, uses_doors_ ? base::Fd() : std::move(frame.fds[0]));
  return why.empty() ? "" : "it sent a \"newcomer\" in which " + why;
}

std::string MasterMembership::on_answer(const Frame& frame) {
  std::string why;
  const auto answer = answer_of(frame.body, count_, why);
  if (!answer) return "it sent an \"answer\" in which " + why;
  keeper_->on_answer(*answer, base::boot_ns());
  return {};
}

/// The connection is over. A master that may still be there, or come back, is looked for.
void MasterMembership::disconnect(const std::string& why) {
  if (all_left_ || !place_.tcp) return lose(why);
  spdlog::warn("node {}: the connection to the master ended: {}; looking for it", id_, why);
  connection_.reset();
  keeper_->disconnected();
  if (finder_.joinable()) finder_.join();  // it has found the connection that just ended
  finder_ = std::thread([this] { look_for_master(); });
}

void MasterMembership::lose(const std::string& why) {
  if (lost_) return;
  lost_ = true;
  changed_.notify_all();
  if (!all_left_) spdlog::error("node {} lost the master: {}", id_, why);  // else its end is the proper end
}

}  // namespace atoll::cluster
