#include "kv/connection.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace atoll::kv {

bool Connection::receive(Counts& counts) {
  constexpr std::size_t kLeast = 4 << 10;
  Buffer& in = session.in();
  // Half of what is there again, so that a large request is not read in small pieces.
  char* const into = in.prepare(std::max({kLeast, in.size() / 2, in.room()}));
  const ssize_t got = ::recv(socket_.get(), into, in.room(), MSG_DONTWAIT);
  if (got > 0) {
    in.commit(std::size_t(got));
    counts.bytes_in += std::uint64_t(got);
    return true;
  }
  return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
}

bool Connection::send(Counts& counts) {
  Buffer& out = session.out();
  while (!out.empty()) {
    const ssize_t sent = ::send(socket_.get(), out.data(), out.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) continue;
      return errno == EAGAIN || errno == EWOULDBLOCK;
    }
    out.consume(std::size_t(sent));
    counts.bytes_out += std::uint64_t(sent);
  }
  return true;
}

}  // namespace atoll::kv
