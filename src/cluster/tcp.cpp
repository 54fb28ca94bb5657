#include "cluster/tcp.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <thread>

#include "cluster/handshake.hpp"

namespace atoll::cluster {
namespace {

using namespace std::chrono_literals;

constexpr auto kRetryAfter = 50ms;
constexpr auto kOneAddress =
    3s;                        // for one of several addresses of a name, so that a dead one does not take all the time
constexpr int kMaxProofs = 3;  // a master that is flooded drops connections too, so ask again before giving up

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

/// Empty with an EAI_ error when the name has no address, or none can be found now.
AddressList resolve(const TcpAddress& address, int flags, int& error) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  error = ::getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  return {error == 0 ? found : nullptr, &::freeaddrinfo};
}

[[noreturn]] void no_such_host(const TcpAddress& address, int error) {
  throw Error(fmt::format("there is no host \"{}\": {}", address.host, ::gai_strerror(error)), Errc::kClusterDown);
}

/// A socket that looks for a listener at a port of this host may be given that very port, and then finds itself.
bool is_connected_to_itself(int socket) noexcept {
  sockaddr_storage own{}, other{};
  socklen_t own_bytes = sizeof(own), other_bytes = sizeof(other);
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &own_bytes) != 0 ||
      ::getpeername(socket, reinterpret_cast<sockaddr*>(&other), &other_bytes) != 0) {
    return false;
  }
  return own_bytes == other_bytes && std::memcmp(&own, &other, own_bytes) == 0;
}

/// A connected socket, or none with errno.
base::Fd connect_one(const addrinfo& to, Clock::time_point deadline) {
  base::Fd socket(::socket(to.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return {};
  if (::connect(socket.get(), to.ai_addr, to.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return {};
    pollfd entry{socket.get(), POLLOUT, 0};
    int ready = 0;
    do {
      ready = ::poll(&entry, 1, poll_timeout(deadline));
    } while (ready < 0 && errno == EINTR);
    int error = ETIMEDOUT;
    socklen_t bytes = sizeof(error);
    if (ready > 0) (void)::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &bytes);
    errno = error;
    if (error != 0) return {};
  }
  if (!is_connected_to_itself(socket.get())) return socket;
  errno = ECONNREFUSED;
  return {};
}

base::Fd connect_tcp(const TcpAddress& address, Clock::time_point deadline) {
  int last = ECONNREFUSED;
  while (true) {
    int error = 0;
    const AddressList list = resolve(address, 0, error);
    if (list == nullptr && (error != EAI_AGAIN || Clock::now() >= deadline)) no_such_host(address, error);
    for (const addrinfo* each = list.get(); each != nullptr; each = each->ai_next) {
      base::Fd socket = connect_one(*each, std::min(deadline, Clock::now() + kOneAddress));
      if (socket.valid()) {
        set_tcp_options(socket.get());
        return socket;
      }
      last = errno;
    }
    if (Clock::now() >= deadline) break;
    std::this_thread::sleep_for(kRetryAfter);
  }
  throw Error(fmt::format("no master answers at {}: {}. Does `atoll master` run there, and is it reachable from here?",
                          address.text(), std::strerror(last)),
              Errc::kClusterDown);
}

bool wait_for(int socket, short events, Clock::time_point deadline) {
  pollfd entry{socket, events, 0};
  while (true) {
    const int ready = ::poll(&entry, 1, poll_timeout(deadline));
    if (ready > 0) return true;
    if (ready == 0 && Clock::now() >= deadline) return false;
    if (ready < 0 && errno != EINTR) return false;
  }
}

/// Sends what the handshake has to say. False when the connection has ended.
bool send_output(int socket, Handshake& handshake, Clock::time_point deadline) {
  const std::string bytes = handshake.take_output();
  for (std::size_t sent = 0; sent < bytes.size();) {
    const ssize_t done = ::send(socket, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (done > 0) sent += std::size_t(done);
    const bool later = done < 0 && (errno == EAGAIN || errno == EINTR);
    if (done < 0 && (!later || !wait_for(socket, POLLOUT, deadline))) return false;
  }
  return true;
}

enum class Shaken : std::uint8_t { kTrusted, kRefused, kEndedBeforeProof, kEndedAfterProof, kTooLate };

/// Runs the node's end of the handshake to its end.
Shaken shake_hands(int socket, Handshake& handshake, Clock::time_point deadline) {
  while (true) {
    (void)send_output(socket, handshake, deadline);  // a connection that has ended shows below
    if (handshake.trusted()) return Shaken::kTrusted;
    if (handshake.refused()) return Shaken::kRefused;
    if (!wait_for(socket, POLLIN, deadline)) return Shaken::kTooLate;
    std::array<char, kHelloBytes> bytes;
    const ssize_t got = ::recv(socket, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got > 0) {
      handshake.feed({bytes.data(), std::size_t(got)});
      continue;
    }
    const bool before = handshake.state() == TrustState::kAwaitChallenge;
    handshake.end();
    return before ? Shaken::kEndedBeforeProof : Shaken::kEndedAfterProof;
  }
}

}  // namespace

std::string TcpAddress::text() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

bool is_tcp_address(std::string_view text) noexcept {
  return text.find(':') != std::string_view::npos;
}

TcpAddress parse_tcp_address(std::string_view text, std::string_view what) {
  const auto bad = [&](std::string_view why) {
    return Error(fmt::format("{}=\"{}\": {}; give host:port, for example 10.0.0.1:7470, or [fd00::1]:7470", what,
                             clipped(text, kMaxHostNameBytes), why));
  };
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) throw bad("there is no port");
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  if (host.starts_with('[')) {
    if (!host.ends_with(']')) throw bad("the bracket is not closed before the port");
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    throw bad("an IPv6 address stands in brackets");
  }
  if (host.empty()) throw bad("there is no host");
  if (host.size() > kMaxHostNameBytes) throw bad("the name of the host is too long");
  if (host.find_first_of("[] \t\n/@") != std::string_view::npos) throw bad("that is no name of a host");
  TcpAddress address{std::string(host), 0};
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (error != std::errc{} || end != port.data() + port.size()) throw bad("the port is no number up to 65535");
  return address;
}

TcpAddress address_of(const sockaddr_storage& address) noexcept {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    (void)::inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
    return {text.data(), ntohs(v6.sin6_port)};
  }
  const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
  (void)::inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
  return {text.data(), ntohs(v4.sin_port)};
}

void set_tcp_options(int socket) noexcept {
  const auto set = [socket](int level, int option, int value) {
    (void)::setsockopt(socket, level, option, &value, sizeof(value));
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);  // a host that vanished without a word is noticed after 10 + 3 * 5 seconds,
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 20'000);  // and so is one that takes nothing any more
}

TcpListener listen_tcp(const TcpAddress& address) {
  int error = 0;
  const AddressList list = resolve(address, AI_PASSIVE, error);
  if (list == nullptr) no_such_host(address, error);
  base::Fd socket(::socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  if (socket.valid()) (void)::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  // [::] is all addresses of IPv6 and nothing else: what was not named is not opened.
  if (list->ai_family == AF_INET6) (void)::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
  sockaddr_storage bound{};
  socklen_t bytes = sizeof(bound);
  if (!socket.valid() || ::bind(socket.get(), list->ai_addr, list->ai_addrlen) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&bound), &bytes) != 0) {
    throw Error(fmt::format("cannot listen at {}: {}", address.text(), std::strerror(errno)));
  }
  return {std::move(socket), address_of(bound)};
}

bool is_refused(const TcpAddress& address, Clock::time_point deadline) {
  int error = 0;
  const AddressList list = resolve(address, 0, error);
  if (list == nullptr) return false;
  for (const addrinfo* each = list.get(); each != nullptr; each = each->ai_next) {
    const base::Fd socket = connect_one(*each, deadline);
    if (socket.valid() || errno != ECONNREFUSED) return false;
  }
  return true;
}

Connection connect_trusted(const TcpAddress& address, const Key& key, Clock::time_point deadline) {
  for (int proofs = 0;;) {
    base::Fd socket = connect_tcp(address, deadline);
    Handshake handshake(Role::kNode, key, make_nonce());
    const Shaken shaken = shake_hands(socket.get(), handshake, deadline);
    const bool again =
        shaken == Shaken::kEndedBeforeProof || (shaken == Shaken::kEndedAfterProof && ++proofs < kMaxProofs);
    if (shaken == Shaken::kTrusted) {
      Connection connection(std::move(socket));
      connection.seal(handshake.seals());
      return connection;
    }
    if (shaken == Shaken::kTooLate) {
      throw Error(fmt::format("the master at {} did not finish the handshake in time", address.text()),
                  Errc::kDeadline);
    }
    if (!again || Clock::now() >= deadline) {
      throw Error(fmt::format("cannot join at {}: {}", address.text(), handshake.why()), Errc::kRefused);
    }
    std::this_thread::sleep_for(kRetryAfter);
  }
}

}  // namespace atoll::cluster
