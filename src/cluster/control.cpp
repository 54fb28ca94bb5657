#include "cluster/control.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <thread>

#include "base/check.hpp"

namespace atoll::cluster {
namespace {

constexpr std::size_t kHeaderBytes = 4;
constexpr std::size_t kMaxOutboundBytes = 16u << 20;
constexpr int kMaxNesting = 8;  // a status has objects in objects; copies of JSON and its text are made by recursion

std::uint32_t load_length(const char* at) noexcept {
  std::uint32_t value = 0;
  for (std::size_t k = 0; k < kHeaderBytes; ++k) value |= std::uint32_t(static_cast<unsigned char>(at[k])) << (8 * k);
  return value;
}

sockaddr_un abstract_address(const std::string& name, socklen_t& bytes) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // A colon would make it a TCP address for who finds it in ATOLL_MASTER.
  if (name.empty() || name.size() >= sizeof(address.sun_path) || name.find(':') != std::string::npos) {
    throw Error(fmt::format("\"{}\" is no socket name: 1 to {} bytes without a colon", clipped(name, 128),
                            sizeof(address.sun_path) - 1));
  }
  // A leading NUL makes it abstract: it lives as long as the socket and has no file.
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  bytes = socklen_t(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

/// Takes the descriptors out of a received message; they are ours to close from here on.
std::vector<base::Fd> received_fds(msghdr& message) {
  std::vector<base::Fd> fds;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t k = 0; k < count; ++k) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + k * sizeof(int), sizeof(int));
      fds.emplace_back(fd);
    }
  }
  return fds;
}

}  // namespace

std::string encode_frame(const Json& body) {
  const std::string text = body.dump(-1, ' ', false, Json::error_handler_t::replace);
  ATOLL_CHECK(text.size() <= kMaxFrameBytes);
  std::string bytes;
  bytes.reserve(kHeaderBytes + text.size());
  for (std::size_t k = 0; k < kHeaderBytes; ++k) bytes.push_back(char((text.size() >> (8 * k)) & 0xff));
  return bytes += text;
}

// ---- FrameDecoder ----

void FrameDecoder::feed(std::string_view bytes, std::vector<base::Fd> fds) {
  if (!why_.empty()) return;
  if (at_ > 0) {
    bytes_.erase(0, at_);
    at_ = 0;
  }
  bytes_.append(bytes);
  for (base::Fd& fd : fds) fds_.push_back(std::move(fd));
  if (fds_.size() > 2 * kMaxFrameFds) (void)bad("more file descriptors than frames may carry");
}

Decoded FrameDecoder::bad(std::string why) {
  why_ = std::move(why);
  bytes_.clear();
  at_ = 0;
  fds_.clear();
  return Decoded::kBad;
}

Decoded FrameDecoder::next(Frame& frame) {
  if (!why_.empty()) return Decoded::kBad;
  const std::size_t have = bytes_.size() - at_;
  if (have == 0 && !fds_.empty()) return bad("file descriptors that belong to no frame");
  if (have < kHeaderBytes) return Decoded::kNeedMore;
  const std::uint32_t length = load_length(bytes_.data() + at_);
  if (length < 2 || length > kMaxFrameBytes) {
    return bad(fmt::format("a frame of {} bytes (2 to {} are allowed)", length, kMaxFrameBytes));
  }
  const std::size_t frame_bytes = kHeaderBytes + length, tag_bytes = seal_ ? Seal::kTagBytes : 0;
  if (have < frame_bytes + tag_bytes) return Decoded::kNeedMore;
  const std::string_view whole(bytes_.data() + at_, frame_bytes);
  if (seal_ && !seal_->check_next(whole, std::string_view(bytes_.data() + at_ + frame_bytes, tag_bytes))) {
    return bad("a frame that was changed, moved or made up on its way: its tag is wrong");
  }
  at_ += frame_bytes + tag_bytes;
  return parse(whole.substr(kHeaderBytes), frame);
}

Decoded FrameDecoder::parse(std::string_view text, Frame& frame) {
  bool too_deep = false;
  const auto look = [&](int depth, Json::parse_event_t, const Json&) {
    too_deep = too_deep || depth > kMaxNesting;
    return !too_deep;
  };
  frame.body = Json::parse(text, look, false);
  frame.fds.clear();
  if (too_deep) return bad(fmt::format("a frame of JSON nested more than {} deep", kMaxNesting));
  if (frame.body.is_discarded()) return bad("a frame that is not JSON");
  if (!frame.body.is_object()) return bad("a frame that is not a JSON object");
  const auto op = frame.body.find("op");
  if (op == frame.body.end() || !op->is_string()) return bad("a frame without a text \"op\"");
  return take_fds(frame) ? Decoded::kFrame : Decoded::kBad;
}

bool FrameDecoder::take_fds(Frame& frame) {
  if (!frame.body.contains("fds")) return true;
  Fields fields(frame.body);
  const std::uint64_t count = fields.number("fds", kMaxFrameFds);
  if (!fields.ok()) {
    (void)bad(fields.why());
    return false;
  }
  if (count > fds_.size()) {
    (void)bad(fmt::format("a frame that names {} file descriptors but brought {}", count, fds_.size()));
    return false;
  }
  for (std::uint64_t k = 0; k < count; ++k) {
    frame.fds.push_back(std::move(fds_.front()));
    fds_.pop_front();
  }
  return true;
}

// ---- Fields ----

std::uint64_t Fields::number(const char* key, std::uint64_t max) {
  const auto at = body_.find(key);
  if (at == body_.end() || !at->is_number_unsigned()) {
    if (ok()) why_ = fmt::format("\"{}\" is {}", key, at == body_.end() ? "missing" : "not a whole number");
    return 0;
  }
  const auto value = at->get<std::uint64_t>();
  if (value <= max) return value;
  if (ok()) why_ = fmt::format("\"{}\" is {}, more than {}", key, value, max);
  return 0;
}

std::string Fields::text(const char* key, std::size_t max_bytes) {
  const auto at = body_.find(key);
  if (at == body_.end() || !at->is_string()) {
    if (ok()) why_ = fmt::format("\"{}\" is {}", key, at == body_.end() ? "missing" : "not a text");
    return {};
  }
  const auto& value = at->get_ref<const std::string&>();
  if (value.size() <= max_bytes) return value;
  if (ok()) why_ = fmt::format("\"{}\" has {} bytes, more than {}", key, value.size(), max_bytes);
  return {};
}

std::string Fields::printable(const char* key, std::size_t max_bytes) {
  std::string value = text(key, max_bytes);
  const bool good = std::all_of(value.begin(), value.end(), [](char c) { return c >= ' ' && c <= '~'; });
  if (good) return value;
  if (ok()) why_ = fmt::format("\"{}\" has characters that are not printable", key);
  return {};
}

// ---- Connection ----

void Connection::seal(const Seals& seals) {
  decoder_.seal(seals.in);
  seal_ = seals.out;
}

bool Connection::broken(std::string why) {
  if (why_.empty()) why_ = std::move(why);
  outbound_.clear();
  outbound_bytes_ = 0;
  return false;
}

Connection::Received Connection::receive() {
  const auto ended = [this](std::string why) {
    (void)broken(std::move(why));
    return Received::kEnded;
  };
  if (!why_.empty() && !peer_closed_) return Received::kEnded;  // what one sent before it closed still counts
  std::array<char, kMaxFrameBytes> buffer;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMaxFrameFds)> control;
  iovec piece{buffer.data(), buffer.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t got = ::recvmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0) {
    if (why_.empty() && (errno == EAGAIN || errno == EINTR)) return Received::kNothingYet;
    return ended(errno == ECONNRESET ? "its connection ended" : fmt::format("recvmsg: {}", std::strerror(errno)));
  }
  std::vector<base::Fd> fds = received_fds(message);
  if (got == 0) return ended(decoder_.midway() ? "its connection ended within a frame" : "its connection ended");
  if ((message.msg_flags & MSG_CTRUNC) != 0) {
    return ended("not all file descriptors of a frame could be received; raise the limit on open files (ulimit -n)");
  }
  decoder_.feed(std::string_view(buffer.data(), std::size_t(got)), std::move(fds));
  return Received::kSome;
}

Decoded Connection::next(Frame& frame) {
  const Decoded decoded = decoder_.next(frame);
  if (decoded == Decoded::kBad) (void)broken("it sent " + decoder_.why());
  return decoded;
}

bool Connection::send(Json body, std::vector<SharedFd> fds) {
  if (!why_.empty()) return false;
  ATOLL_CHECK(fds.size() <= kMaxFrameFds);
  if (!fds.empty()) body["fds"] = fds.size();
  ATOLL_CHECK(!seal_ || fds.empty());
  std::string bytes = encode_frame(body);
  if (seal_) {
    const Seal::Tag tag = seal_->next(bytes);
    bytes.append(tag.data(), tag.size());
  }
  outbound_.push_back({std::move(bytes), 0, std::move(fds)});
  outbound_bytes_ += outbound_.back().bytes.size();
  if (outbound_bytes_ > kMaxOutboundBytes) return broken("it does not read what it is sent");
  return flush();
}

bool Connection::flush() {
  if (!why_.empty()) return false;
  stalled_ = false;
  while (!outbound_.empty()) {
    switch (send_some(outbound_.front())) {
      case Sent::kAll:
        outbound_bytes_ -= outbound_.front().bytes.size();
        outbound_.pop_front();
        break;
      case Sent::kLater: return true;
      case Sent::kBroken: return false;
    }
  }
  return true;
}

Connection::Sent Connection::send_some(Outgoing& frame) {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMaxFrameFds)> control{};
  while (frame.sent < frame.bytes.size()) {
    iovec piece{frame.bytes.data() + frame.sent, frame.bytes.size() - frame.sent};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    if (!frame.fds.empty()) {
      message.msg_control = control.data();
      message.msg_controllen = CMSG_SPACE(sizeof(int) * frame.fds.size());
      cmsghdr* part = CMSG_FIRSTHDR(&message);
      part->cmsg_level = SOL_SOCKET;
      part->cmsg_type = SCM_RIGHTS;
      part->cmsg_len = CMSG_LEN(sizeof(int) * frame.fds.size());
      for (std::size_t k = 0; k < frame.fds.size(); ++k) {
        const int fd = frame.fds[k]->get();
        std::memcpy(CMSG_DATA(part) + k * sizeof(int), &fd, sizeof(int));
      }
    }
    const ssize_t sent = ::sendmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) continue;
      stalled_ = errno == ETOOMANYREFS;
      if (errno == EAGAIN || stalled_) return Sent::kLater;
      peer_closed_ = errno == EPIPE || errno == ECONNRESET;
      (void)broken(peer_closed_ ? "its connection ended" : fmt::format("sendmsg: {}", std::strerror(errno)));
      return Sent::kBroken;
    }
    frame.sent += std::size_t(sent);
    frame.fds.clear();  // they went with the first byte
  }
  return Sent::kAll;
}

// ---- sockets and waiting ----

std::string make_socket_name() {
  std::uint64_t random = 0;
  if (::getrandom(&random, sizeof(random), 0) != ssize_t(sizeof(random))) {
    throw Error(fmt::format("cannot name the master's socket: getrandom: {}", std::strerror(errno)));
  }
  return fmt::format("atoll-{}-{}-{:016x}", ::geteuid(), ::getpid(), random);
}

base::Fd listen_abstract(const std::string& name) {
  socklen_t bytes = 0;
  const sockaddr_un address = abstract_address(name, bytes);
  base::Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid() || ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), bytes) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0) {
    throw Error(fmt::format("cannot listen at the abstract socket \"{}\": {}", name, std::strerror(errno)));
  }
  return socket;
}

base::Fd connect_abstract(const std::string& name, Clock::time_point deadline) {
  socklen_t bytes = 0;
  const sockaddr_un address = abstract_address(name, bytes);
  base::Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) throw Error(fmt::format("cannot make a socket: {}", std::strerror(errno)));
  while (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), bytes) != 0) {
    // A full queue of the listener answers EAGAIN, and there is nothing to poll for.
    if ((errno == EAGAIN || errno == EINTR) && Clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      continue;
    }
    if (errno == ECONNREFUSED) {
      throw Error(fmt::format("no master listens at \"{}\"; has `atoll run` ended?", name), Errc::kClusterDown);
    }
    throw Error(fmt::format("cannot reach \"{}\": {}", name, std::strerror(errno)),
                errno == EAGAIN ? Errc::kDeadline : Errc::kClusterDown);
  }
  return socket;
}

Status await_frame(Connection& connection, Frame& frame, Clock::time_point deadline) {
  while (true) {
    switch (connection.next(frame)) {
      case Decoded::kFrame: return {};
      case Decoded::kBad: return {Errc::kClusterDown, "the connection carries something that is not the protocol"};
      case Decoded::kNeedMore: break;
    }
    const auto events = short(POLLIN | (connection.wants_write() && !connection.stalled() ? POLLOUT : 0));
    pollfd entry{connection.fd(), events, 0};
    // A stalled send is tried again by the clock, as no event tells when the kernel has room.
    const auto soon = Clock::now() + std::chrono::milliseconds(10);
    const auto until = connection.stalled() ? std::min(deadline, soon) : deadline;
    const int ready = ::poll(&entry, 1, poll_timeout(until));
    if (ready < 0 && errno != EINTR) return {Errc::kClusterDown, "poll failed on the connection to the master"};
    if (ready == 0 && Clock::now() >= deadline) return {Errc::kDeadline, "no answer of the master in time"};
    (void)connection.flush();  // what was received before a broken send must still be read
    if ((entry.revents & (POLLIN | POLLHUP | POLLERR)) != 0 && connection.receive() == Connection::Received::kEnded) {
      return {Errc::kClusterDown, "the connection to the master ended"};
    }
  }
}

int poll_timeout(Clock::time_point deadline) noexcept {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return int(std::clamp<std::int64_t>(left, 0, 3'600'000));
}

std::chrono::milliseconds bounded_timeout(std::chrono::milliseconds timeout) noexcept {
  return std::clamp<std::chrono::milliseconds>(timeout, std::chrono::milliseconds(0), std::chrono::hours(24 * 365));
}

std::string clipped(std::string_view text, std::size_t max_bytes) {
  return std::string(text.substr(0, max_bytes));
}

}  // namespace atoll::cluster
