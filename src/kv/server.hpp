// The key-value server of one node: a socket, and threads that serve its clients.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/fd.hpp"
#include "kv/event_loop.hpp"

namespace atoll::kv {

/// Whether only this machine can reach the address.
[[nodiscard]] bool is_loopback(const std::string& address);
/// A socket that listens at a numeric address ("localhost" is 127.0.0.1). Throws Error.
[[nodiscard]] base::Fd listen_at(const std::string& address, std::uint16_t port);
/// Lets this process have so many clients at once, or as many as it may; returns how many.
[[nodiscard]] std::size_t raise_file_limit(std::size_t clients);

/// Thread-safety: `stop` may be called from any thread and from signal handlers, the rest by one thread.
class Server {
 public:
  /// `sweeps`: erases what has expired; one node of the cluster shall. Throws Error.
  Server(Service& service, base::Fd listener, unsigned threads, bool sweeps);
  /// Until `stop`.
  void run();
  void stop() noexcept;

 private:
  base::Fd listener_;
  std::vector<std::unique_ptr<EventLoop>> loops_;
};

}  // namespace atoll::kv
