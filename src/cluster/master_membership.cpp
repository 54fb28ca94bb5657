#include "cluster/master_membership.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/log.hpp"
#include "cluster/roots.hpp"
#include "cluster/stats_json.hpp"

namespace atoll::cluster {
namespace {

using namespace std::chrono_literals;

// How much longer than asked a node waits for the master's answer, before it takes the master for stuck.
constexpr auto kReplySlack = 10s;

}  // namespace

// ---- requests ----

Result<GlobalAddress> MasterMembership::request(Json body, std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout + kReplySlack;
  const base::MutexLock lock(mutex_);
  if (!exchanged_) return {Errc::kClusterDown, "this node has not joined yet"};
  if (lost_) return membership_status(Errc::kClusterDown);
  const std::uint64_t id = next_request_++;
  body["id"] = id;
  requests_.emplace(id, std::nullopt);
  connection_.send(std::move(body));  // a failure is found, and told, by the reader
  if (connection_.wants_write() || !connection_.why().empty()) wake();
  while (!requests_.at(id) && !lost_ && Clock::now() < deadline) (void)changed_.wait_until(mutex_, deadline);
  const std::optional<Answer> answer = requests_.at(id);
  requests_.erase(id);
  if (!answer)
    return lost_ ? membership_status(Errc::kClusterDown) : Status{Errc::kDeadline, "the master does not answer"};
  if (answer->code != Errc::kOk) return membership_status(answer->code);
  return answer->address;
}

Status MasterMembership::publish(std::string_view name, GlobalAddress address) {
  if (const Status status = check_root_name(name); !status.ok()) return status;
  if (!address) return membership_status(Errc::kNullAddress);
  return request({{"op", "publish"}, {"name", name}, {"address", address.bits()}}, 0ms).status();
}

Result<GlobalAddress> MasterMembership::lookup(std::string_view name, std::chrono::milliseconds timeout) {
  if (const Status status = check_root_name(name); !status.ok()) return status;
  timeout = bounded_timeout(timeout);
  const auto wait_ms = std::uint64_t(timeout.count());
  const auto found = request({{"op", "lookup"}, {"name", name}, {"timeout_ms", wait_ms}}, timeout);
  if (found.ok() && !*found) return {Errc::kClusterDown, "the master answered a lookup without an address"};
  return found;
}

void MasterMembership::leave() noexcept {
  const base::MutexLock lock(mutex_);
  if (!exchanged_) return;
  if (!lost_ && !all_left_) connection_.send({{"op", "leave"}});
  wake();
  // No deadline: others may compute for hours on this node's memory. The end of the master ends it.
  while (!all_left_ && !lost_) changed_.wait(mutex_);
}

// ---- the reader ----

void MasterMembership::read_loop() noexcept {
  std::vector<Notice> notices;
  while (true) {
    const bool more = read_some(notices);
    for (const Notice& notice : notices) {
      if (notice.node != kNoNode) {
        if (events_.on_death) events_.on_death(notice.node, notice.why);
      } else if (events_.on_master_lost) {
        events_.on_master_lost();
      }
    }
    notices.clear();
    if (!more) return;
    pollfd polls[] = {{poll_fd_, POLLIN, 0}, {wake_.get(), POLLIN, 0}};
    int timeout = -1;
    {
      const base::MutexLock lock(mutex_);
      beat();
      if (heartbeat_.count() > 0) timeout = poll_timeout(next_beat_);
      if (connection_.stalled()) {
        timeout = timeout < 0 ? 10 : std::min(timeout, 10);
      } else if (connection_.wants_write()) {
        polls[0].events |= POLLOUT;
      }
    }
    // Cannot be waited for any more: cut it, so that the next read finds the master lost.
    if (::poll(polls, 2, timeout) < 0 && errno != EINTR) (void)::shutdown(poll_fd_, SHUT_RDWR);
    std::uint64_t rung = 0;
    if (polls[1].revents != 0) (void)!::read(wake_.get(), &rung, sizeof(rung));
  }
}

/// Says that this node lives, when it is time to.
void MasterMembership::beat() {
  const auto now = Clock::now();
  if (heartbeat_.count() == 0 || now < next_beat_) return;
  next_beat_ = now + heartbeat_;
  connection_.send({{"op", "heartbeat"}, {"counters", counters_to_json(own_.header().counters.snapshot())}});
}

/// Reads and handles what has come. False when nothing more will come, or nobody wants it.
bool MasterMembership::read_some(std::vector<Notice>& notices) {
  const base::MutexLock lock(mutex_);
  (void)connection_.flush();  // if it is broken, the loop below finds out after the last frame
  Frame frame;
  while (!stopping_) {
    switch (connection_.next(frame)) {
      case Decoded::kFrame:
        if (!on_frame(frame, notices)) return false;
        continue;
      case Decoded::kBad: lost(connection_.why(), notices); return false;
      case Decoded::kNeedMore: break;
    }
    switch (connection_.receive()) {
      case Connection::Received::kSome: continue;
      case Connection::Received::kNothingYet: return true;
      case Connection::Received::kEnded: lost(connection_.why(), notices); return false;
    }
  }
  return false;
}

/// False when the master makes no sense and is given up.
bool MasterMembership::on_frame(const Frame& frame, std::vector<Notice>& notices) {
  const std::string& op = frame.op();
  Fields fields(frame.body);
  if (op == "reply") {
    const std::uint64_t id = fields.number("id");
    const auto code = Errc(fields.number("code", std::uint8_t(Errc::kAlreadyExists)));
    const GlobalAddress address(frame.body.contains("address") ? fields.number("address") : 0);
    const auto waiting = requests_.find(id);  // it may have given up
    if (fields.ok() && waiting != requests_.end()) waiting->second = Answer{code, address};
  } else if (op == "death") {
    const auto node = NodeId(fields.number("node", count_ - 1u));
    const auto epoch = std::uint32_t(fields.number("epoch", UINT32_MAX));
    std::string why = fields.text("why", kMaxFrameBytes);
    if (fields.ok()) {
      epoch_.store(epoch, std::memory_order_release);
      notices.push_back({node, std::move(why)});
    }
  } else if (op == "all_left") {
    all_left_ = true;
  } else {
    lost(fmt::format("it sent \"{}\", which a node does not know", clipped(op, 32)), notices);
    return false;
  }
  if (!fields.ok()) {
    lost(fmt::format("it sent a \"{}\" in which {}", op, fields.why()), notices);
    return false;
  }
  changed_.notify_all();
  return true;
}

void MasterMembership::lost(const std::string& why, std::vector<Notice>& notices) {
  lost_ = true;
  changed_.notify_all();
  if (all_left_) return;  // its end is the proper end
  spdlog::error("node {} lost the master: {}", id_, why);
  notices.push_back({kNoNode, why});
}

}  // namespace atoll::cluster
