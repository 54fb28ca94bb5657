// Control connections between hosts: addresses, sockets, and the way through the handshake for who connects.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/fd.hpp"
#include "cluster/control.hpp"
#include "cluster/key.hpp"

namespace atoll::cluster {

struct TcpAddress {
  std::string host;  // a name, an IPv4 or an IPv6 address
  std::uint16_t port = 0;

  /// "host:port", "[v6]:port".
  [[nodiscard]] std::string text() const;
};

/// Whether ATOLL_MASTER means a TCP address: it has a colon, which names of abstract sockets never have.
[[nodiscard]] bool is_tcp_address(std::string_view text) noexcept;
/// "host:port" or "[v6]:port". `what` is where the text stands, for the Error.
[[nodiscard]] TcpAddress parse_tcp_address(std::string_view text, std::string_view what);

struct TcpListener {
  base::Fd socket;
  TcpAddress address;  // as the system says: with the port that it chose where 0 was asked for
};
/// Listens at exactly this address. Throws Error.
[[nodiscard]] TcpListener listen_tcp(const TcpAddress& address);

/// What every control connection over TCP has: small frames at once, and an end when the other side is silent for long.
void set_tcp_options(int socket) noexcept;
[[nodiscard]] TcpAddress address_of(const sockaddr_storage& address) noexcept;

/// Does the host of this address answer that nobody listens there? False also when it does not answer in time.
[[nodiscard]] bool is_refused(const TcpAddress& address, Clock::time_point deadline);

/// A connection to a master that has proven the key, sealed. Tries all addresses that the name has, again and again
/// until the deadline: the master may come up later. Throws Error: kClusterDown when nobody listens, kRefused when the
/// keys are not the same or no master listens there.
[[nodiscard]] Connection connect_trusted(const TcpAddress& address, const Key& key, Clock::time_point deadline);

}  // namespace atoll::cluster
