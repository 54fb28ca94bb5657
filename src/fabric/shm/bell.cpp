#include "fabric/shm/bell.hpp"

#include <fmt/format.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "atoll/status.hpp"

namespace atoll::fabric {
namespace {

base::Fd bell_socket() {
  base::Fd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) throw Error(fmt::format("cannot make a socket: {}", std::strerror(errno)));
  return socket;
}

sockaddr_un bell_address(const std::string& name, socklen_t& bytes) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.empty() || name.size() > kMaxBellNameBytes) throw Error("a bell's name has 1 to 64 characters");
  std::memcpy(address.sun_path + 1, name.data(), name.size());  // a leading NUL: in no file system
  bytes = socklen_t(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

}  // namespace

Bell::Bell() : socket(bell_socket()) {
  std::array<std::uint64_t, 2> random{};
  if (::getrandom(random.data(), sizeof(random), 0) != ssize_t(sizeof(random))) {
    throw Error(fmt::format("cannot name a bell: getrandom: {}", std::strerror(errno)));
  }
  name = fmt::format("atoll-bell-{:016x}{:016x}", random[0], random[1]);
  socklen_t bytes = 0;
  const sockaddr_un address = bell_address(name, bytes);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), bytes) != 0) {
    throw Error(fmt::format("cannot hang up a bell: {}", std::strerror(errno)));
  }
}

void Bell::silence() const noexcept {
  std::array<char, 8> ring{};
  // Not for ever: whoever finds the name can ring.
  for (int rings = 0; rings < 64 && ::recv(socket.get(), ring.data(), ring.size(), MSG_DONTWAIT) > 0; ++rings) continue;
}

base::Fd reach_bell(const std::string& name) {
  base::Fd socket = bell_socket();
  socklen_t bytes = 0;
  const sockaddr_un address = bell_address(name, bytes);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), bytes) != 0) {
    if (errno == ECONNREFUSED) return {};
    throw Error(fmt::format("cannot reach a peer's bell on this host: {}", std::strerror(errno)));
  }
  return socket;
}

bool ring_bell(int bell) noexcept {
  const char one = 1;
  return ::send(bell, &one, 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1 || (errno != ECONNREFUSED && errno != ENOTCONN);
}

}  // namespace atoll::fabric
