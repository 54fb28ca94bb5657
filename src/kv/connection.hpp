// A session and its socket.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/fd.hpp"
#include "kv/session.hpp"

namespace atoll::kv {

/// Thread-safety: none; it belongs to its event loop.
class Connection {
 public:
  Connection(Worker& worker, base::Fd socket, std::chrono::steady_clock::time_point now)
      : session(worker), last_request(now), last_sent(now), socket_(std::move(socket)) {}

  [[nodiscard]] int socket() const noexcept { return socket_.get(); }
  /// Reads what there is, up to what fits. False: the client has gone.
  bool receive(Counts& counts);
  /// Sends what it takes. False: the client has gone.
  bool send(Counts& counts);

  Session session;
  std::chrono::steady_clock::time_point last_request, last_sent;
  std::uint32_t interest = 0;  // what epoll is asked for
  Session::Progress progress = Session::Progress::kIdle;
  std::size_t held = 0;  // bytes that the service was told of
  bool listed = false;   // in the loop's `ready_` or `waiting_`
  bool gone = false;     // is to be closed at the end of the round

 private:
  base::Fd socket_;
};

}  // namespace atoll::kv
