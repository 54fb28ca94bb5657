#include "cluster/door.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/log.hpp"
#include "cluster/key.hpp"

namespace atoll::cluster {
namespace {

/// The number that the kernel knows a namespace of this process by; 0 when it does not say.
ino_t namespace_number(const char* which) {
  struct stat info {};
  return ::stat(fmt::format("/proc/self/ns/{}", which).c_str(), &info) == 0 ? info.st_ino : 0;
}

bool is_same_user(int socket) noexcept {
  ucred peer{};
  socklen_t bytes = sizeof(peer);
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.uid == ::geteuid();
}

}  // namespace

std::string host_identity() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  const ino_t network = namespace_number("net"), user = namespace_number("user");
  const auto is_plain = [](char c) { return std::isxdigit(static_cast<unsigned char>(c)) != 0 || c == '-'; };
  if (!std::getline(file, boot) || boot.empty() || boot.size() > 64 || network == 0 || user == 0 ||
      !std::all_of(boot.begin(), boot.end(), is_plain)) {
    return "unknown-" + random_hex(16);
  }
  return fmt::format("{}/{}/{}/{}", boot, network, user, ::geteuid());
}

Door::Door(const base::Fd& segment)
    : segment_(segment),
      name_("atoll-door-" + random_hex(16)),  // not as a master's, or `atoll status` would ask it
      token_(random_hex(16)),
      listener_(listen_abstract(name_)),
      stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!stop_.valid()) throw Error(fmt::format("cannot make an eventfd: {}", std::strerror(errno)));
  thread_ = std::thread([this] { serve(); });
}

Door::~Door() {
  const std::uint64_t one = 1;
  (void)!::write(stop_.get(), &one, sizeof(one));
  thread_.join();
}

void Door::serve() noexcept {
  while (true) {
    pollfd polls[] = {{stop_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    if (::poll(polls, 2, -1) < 0 && errno != EINTR) return;
    if (polls[0].revents != 0) return;
    if (polls[1].revents == 0) continue;
    base::Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    // Out of descriptors, perhaps for a moment: the listener stays readable, so look away instead of spinning.
    if (!socket.valid() && errno != EAGAIN) (void)::poll(polls, 1, 50);
    try {
      if (socket.valid()) serve_one(std::move(socket));
    } catch (const std::exception& error) {
      spdlog::warn("a peer could not be given the segment: {}", error.what());
    }
  }
}

void Door::serve_one(base::Fd socket) {
  if (!is_same_user(socket.get())) {
    spdlog::warn("turned away a process of another user that wants the segment of this node");
    return;
  }
  Connection connection(std::move(socket));
  Frame frame;
  if (!await_frame(connection, frame, Clock::now() + kServeTime).ok()) return;
  Fields fields(frame.body);
  const std::string token = fields.text("token", kMaxDoorBytes);
  if (!fields.ok() || frame.op() != "fetch" || !same_secret(token, token_)) {
    spdlog::warn("turned away a process that wants the segment of this node without the right token");
    return;
  }
  base::Fd copy(::fcntl(segment_.get(), F_DUPFD_CLOEXEC, 3));
  if (!copy.valid()) throw Error(fmt::format("cannot duplicate a descriptor: {}", std::strerror(errno)));
  connection.send({{"op", "segment"}}, {std::make_shared<const base::Fd>(std::move(copy))});
  // What the kernel did not take at once is sent while the peer waits for it; its end is the sign that it has it.
  (void)await_frame(connection, frame, Clock::now() + kServeTime);
}

base::Fd fetch_segment(const std::string& door, const std::string& token, Clock::time_point deadline) {
  base::Fd socket;
  try {
    socket = connect_abstract(door, deadline);
  } catch (const Error& error) {
    if (error.code() == Errc::kDeadline) throw;
    throw Error("its door is not on this host, or has gone", Errc::kNotFound);
  }
  if (!is_same_user(socket.get())) throw Error("its door is another user's", Errc::kRefused);
  Connection connection(std::move(socket));
  connection.send({{"op", "fetch"}, {"token", token}});
  Frame frame;
  const Status status = await_frame(connection, frame, deadline);
  if (!status.ok()) {
    throw Error(fmt::format("its door gives no segment: {}", connection.why().empty() ? "in time" : connection.why()),
                status.code());
  }
  if (frame.op() != "segment" || frame.fds.size() != 1) throw Error("its door gives no segment", Errc::kRefused);
  return std::move(frame.fds[0]);
}

}  // namespace atoll::cluster
