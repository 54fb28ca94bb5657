#include "kv/server.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <thread>

namespace atoll::kv {
namespace {

struct FreeAddresses {
  void operator()(addrinfo* list) const noexcept { ::freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

/// Throws Error when it is none.
Addresses parse_address(const std::string& address, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
  addrinfo* found = nullptr;
  const std::string numeric = address == "localhost" ? "127.0.0.1" : address;
  if (::getaddrinfo(numeric.c_str(), std::to_string(port).c_str(), &hints, &found) != 0 || found == nullptr) {
    throw Error(fmt::format("\"{}\" is no address: give one such as 127.0.0.1 or ::1", address));
  }
  return Addresses(found);
}

}  // namespace

bool is_loopback(const std::string& address) {
  const Addresses found = parse_address(address, 0);
  if (found->ai_family == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, found->ai_addr, sizeof(in));
    return (ntohl(in.sin_addr.s_addr) >> 24) == 127;
  }
  sockaddr_in6 in6{};
  std::memcpy(&in6, found->ai_addr, sizeof(in6));
  return IN6_IS_ADDR_LOOPBACK(&in6.sin6_addr);
}

base::Fd listen_at(const std::string& address, std::uint16_t port) {
  constexpr int kBacklog = 511;
  const Addresses found = parse_address(address, port);
  base::Fd socket(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) throw Error(fmt::format("cannot make a socket: {}", std::strerror(errno)));
  const int on = 1;
  (void)::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (::bind(socket.get(), found->ai_addr, found->ai_addrlen) != 0 || ::listen(socket.get(), kBacklog) != 0) {
    const int error = errno;
    throw Error(fmt::format("cannot listen on {}:{}: {}{}", address, port, std::strerror(error),
                            error == EADDRINUSE ? "; give another --port" : ""));
  }
  return socket;
}

std::size_t raise_file_limit(std::size_t clients) {
  constexpr rlim_t kOthers = 128;  // of Atoll, and the standard streams
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return clients;
  const rlim_t wanted = rlim_t(clients) + kOthers;
  if (limit.rlim_cur >= wanted) return clients;
  limit.rlim_cur = limit.rlim_max == RLIM_INFINITY ? wanted : std::min<rlim_t>(wanted, limit.rlim_max);
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return clients;
  return limit.rlim_cur > kOthers ? std::size_t(limit.rlim_cur - kOthers) : 1;
}

Server::Server(Service& service, base::Fd listener, unsigned threads, bool sweeps) : listener_(std::move(listener)) {
  std::vector<EventLoop*> all;
  for (unsigned i = 0; i < std::max(threads, 1u); ++i) {
    loops_.push_back(std::make_unique<EventLoop>(service));
    all.push_back(loops_.back().get());
  }
  loops_.front()->listen(listener_.get(), all);
  if (sweeps) loops_.front()->sweep();
}

void Server::run() {
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < loops_.size(); ++i) threads.emplace_back([this, i] { loops_[i]->run(); });
  loops_.front()->run();
  for (std::thread& thread : threads) thread.join();
}

void Server::stop() noexcept {
  for (const auto& loop : loops_) loop->stop();
}

}  // namespace atoll::kv
