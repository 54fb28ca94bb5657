#include "bench/plain_tcp.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "bench/harness.hpp"

namespace atoll::bench {
namespace {

constexpr std::size_t kRequestBytes = 64;

[[noreturn]] void fail(const char* what) {
  throw Error(fmt::format("plain TCP: {}: {}", what, std::strerror(errno)));
}

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

void without_delay(const base::Fd& socket) {
  const int on = 1;
  if (::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0) fail("TCP_NODELAY");
}

}  // namespace

PlainTcp::PlainTcp() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const sockaddr_in address = loopback(0);
  if (!listener_.valid() ||
      ::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      ::listen(listener_.get(), 1) != 0) {
    fail("listen");
  }
}

PlainTcp::PlainTcp(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const sockaddr_in address = loopback(port);
  if (!socket_.valid() || ::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    fail("connect");
  }
  without_delay(socket_);
}

std::uint16_t PlainTcp::port() const {
  sockaddr_in address{};
  socklen_t bytes = sizeof(address);
  if (::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &bytes) != 0) fail("getsockname");
  return ntohs(address.sin_port);
}

void PlainTcp::accept() {
  socket_ = base::Fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket_.valid()) fail("accept");
  without_delay(socket_);
}

void PlainTcp::write_all(const void* data, std::size_t bytes) const {
  for (const char* at = static_cast<const char*>(data); bytes > 0;) {
    const ssize_t sent = ::send(socket_.get(), at, bytes, MSG_NOSIGNAL);
    if (sent <= 0) fail("send");
    at += sent;
    bytes -= std::size_t(sent);
  }
}

void PlainTcp::read_all(void* data, std::size_t bytes) const {
  for (char* at = static_cast<char*>(data); bytes > 0;) {
    const ssize_t got = ::recv(socket_.get(), at, bytes, 0);
    if (got <= 0) fail("recv");
    at += got;
    bytes -= std::size_t(got);
  }
}

double PlainTcp::ping(std::uint32_t trips, std::uint32_t reply_bytes, std::uint32_t in_flight) {
  std::vector<char> request(kRequestBytes * in_flight), reply(std::size_t(reply_bytes) * in_flight);
  return time_ns(trips, [&] {
    for (std::uint32_t done = 0; done < trips; done += in_flight) {
      write_all(request.data(), request.size());
      read_all(reply.data(), reply.size());
    }
  });
}

void PlainTcp::serve(std::uint32_t trips, std::uint32_t reply_bytes, std::uint32_t in_flight) {
  std::vector<char> request(kRequestBytes * in_flight), reply(std::size_t(reply_bytes) * in_flight);
  for (std::uint32_t done = 0; done < trips; done += in_flight) {
    read_all(request.data(), request.size());
    write_all(reply.data(), reply.size());
  }
}

double PlainTcp::receive_stream(std::uint32_t pieces, std::uint32_t piece_bytes) {
  std::vector<char> piece(piece_bytes);
  const Clock::time_point start = Clock::now();
  for (std::uint32_t i = 0; i < pieces; ++i) read_all(piece.data(), piece.size());
  return double(pieces) * piece_bytes / seconds_since(start);
}

void PlainTcp::send_stream(std::uint32_t pieces, std::uint32_t piece_bytes) {
  const std::vector<char> piece(piece_bytes);
  for (std::uint32_t i = 0; i < pieces; ++i) write_all(piece.data(), piece.size());
}

}  // namespace atoll::bench
