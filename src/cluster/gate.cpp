#include "cluster/gate.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/log.hpp"

namespace atoll::cluster {
namespace {

using namespace std::chrono_literals;

constexpr auto kLineEvery = 1s;
constexpr auto kAcceptRetry = 100ms;

}  // namespace

void RefusalLog::note(std::string_view peer, std::string_view why, Clock::time_point now) {
  tick(now);
  if (now < next_line_) {
    ++held_back_;
    last_ = fmt::format("{}: {}", peer, why);
    return;
  }
  spdlog::warn("refused {}: {}", peer, why);
  next_line_ = now + kLineEvery;
}

void RefusalLog::tick(Clock::time_point now) {
  if (held_back_ == 0 || now < next_line_) return;
  spdlog::warn("refused {} more, the last of them {}", held_back_, last_);
  held_back_ = 0;
  next_line_ = now + kLineEvery;
}

std::optional<Clock::time_point> RefusalLog::due() const noexcept {
  return held_back_ == 0 ? std::nullopt : std::optional(next_line_);
}

void Gate::prepare(std::vector<pollfd>& polls, Clock::time_point& until) const {
  const bool paused = accept_after_ > Clock::now();
  polls.push_back({paused ? -1 : listener_.socket.get(), POLLIN, 0});
  if (paused) until = std::min(until, accept_after_);
  for (const HalfOpen& client : half_open_) polls.push_back({client.socket.get(), POLLIN, 0});
  if (!half_open_.empty()) until = std::min(until, half_open_.front().deadline);
  if (const auto due = refusals_.due()) until = std::min(until, *due);
}

std::vector<Gate::Admitted> Gate::handle(std::span<const pollfd> polls, Clock::time_point now) {
  std::vector<Admitted> admitted;
  std::size_t k = 0;
  for (auto at = half_open_.begin(); at != half_open_.end();) {
    if (polls[++k].revents != 0) hear(*at);
    const bool late = !at->handshake.trusted() && at->deadline <= now;
    if (at->handshake.trusted()) {
      admitted.push_back({std::move(at->socket), at->handshake.seals(), std::move(at->peer)});
    } else if (at->handshake.refused()) {
      refusals_.note(at->peer, at->handshake.why(), now);
    } else if (late) {
      refusals_.note(at->peer, "it did not prove the cluster key in time", now);
    } else {
      ++at;
      continue;
    }
    at = half_open_.erase(at);
  }
  if (polls[0].revents != 0) accept_some(now);
  refusals_.tick(now);
  return admitted;
}

/// Reads what the client has sent, and answers. What it says beyond a message's size is never held.
void Gate::hear(HalfOpen& client) {
  std::array<char, kHelloBytes + 1> bytes;
  const ssize_t got = ::recv(client.socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) return client.handshake.end();
  client.handshake.feed({bytes.data(), std::size_t(got)});
  const std::string answer = client.handshake.take_output();
  if (answer.empty()) return;
  // A fresh socket has room for that; one that has none has a client that plays with us.
  if (::send(client.socket.get(), answer.data(), answer.size(), MSG_DONTWAIT | MSG_NOSIGNAL) !=
      ssize_t(answer.size())) {
    client.handshake.end();
  }
}

void Gate::accept_some(Clock::time_point now) {
  for (std::size_t k = 0; k < kAcceptAtOnce; ++k) {
    sockaddr_storage from{};
    socklen_t bytes = sizeof(from);
    base::Fd socket(
        ::accept4(listener_.socket.get(), reinterpret_cast<sockaddr*>(&from), &bytes, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EAGAIN) return;
      // Out of descriptors: the listener stays readable, so look away for a while instead of spinning.
      refusals_.note("a connection", fmt::format("{}; raise the limit on open files (ulimit -n)", std::strerror(errno)),
                     now);
      accept_after_ = now + kAcceptRetry;
      return;
    }
    set_tcp_options(socket.get());
    if (half_open_.size() == kMaxHalfOpen) {
      refusals_.note(half_open_.front().peer, "too many have not proven the cluster key, and it is the oldest", now);
      half_open_.pop_front();
    }
    half_open_.emplace_back(std::move(socket), key_, address_of(from).text(), now + kProofTime);
  }
}

}  // namespace atoll::cluster
