// Control connections that say what an input says: raw bytes, frames of any text, and frames that almost make sense.
//
//   script = steps of: what (1 byte) | its arguments
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>
#include <vector>

#include "cluster/control.hpp"
#include "fuzz.hpp"
#include "memory/segment.hpp"

namespace atoll::fuzz {

using cluster::Json;

inline std::string framed(std::string_view text) {
  std::string bytes;
  for (int k = 0; k < 4; ++k) bytes.push_back(char((text.size() >> (8 * k)) & 0xff));
  return bytes.append(text);
}

/// Writes the bytes as far as the socket takes them; descriptors go with the first.
inline void send_bytes(int socket, std::string_view bytes, const std::vector<int>& fds = {}) {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * 16)> control{};
  iovec piece{const_cast<char*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
    cmsghdr* const part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    std::memcpy(CMSG_DATA(part), fds.data(), sizeof(int) * fds.size());
  }
  (void)!::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/// Descriptors to send: segments that are sound, and things that are none. Made once; whoever gets one gets a copy.
class Descriptors {
 public:
  static int get(std::size_t which) {
    static const Descriptors all;
    return all.fds_[which % all.fds_.size()].get();
  }

 private:
  Descriptors() {
    Options options;
    options.memory_bytes = 1 << 20;
    options.cache_bytes = 64 * 512;
    for (const NodeId nodes : {NodeId(1), NodeId(2), NodeId(3)}) {
      segments_.push_back(memory::Segment::create(options, nodes));
      fds_.emplace_back(::dup(segments_.back().fd().get()));
    }
    fds_.push_back(damaged_copy(segments_[1], {}));  // sound, but it could shrink
    fds_.push_back(damaged_copy(segments_[1], std::string(64, '\xff')));
    fds_.emplace_back(::memfd_create("empty", MFD_CLOEXEC));
    fds_.emplace_back(::open("/dev/null", O_RDWR | O_CLOEXEC));
  }
  static base::Fd damaged_copy(const memory::Segment& segment, const std::string& damage) {
    base::Fd fd(::memfd_create("damaged", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    const memory::SegmentHeader& header = segment.header();
    std::string bytes(reinterpret_cast<const char*>(&header), 128);
    bytes.replace(8, damage.size(), damage);
    (void)!::ftruncate(fd.get(), off_t(header.total_bytes));
    (void)!::pwrite(fd.get(), bytes.data(), bytes.size(), 0);
    return fd;
  }

  std::vector<memory::Segment> segments_;
  std::vector<base::Fd> fds_;
};

/// One frame of a known kind, with small numbers for its fields. `from_master`: what a master sends, else what it gets.
inline Json plausible_frame(Input& input, bool from_master) {
  const unsigned which = input.byte(), a = input.byte(), b = input.byte();
  const Json node = a < 250 ? Json(a % 5) : Json(std::uint64_t{1} << (b % 64));
  const Json members = b % 2 == 0 ? Json{{0, 7, 1}, {1, 7, 1}} : Json::array();
  if (!from_master) {
    switch (which % 10) {
      case 0:
        return {{"op", "join"},
                {"node", node},
                {"incarnation", 7 + a / 128},
                {"pid", 1},
                {"memory", b},
                {"cache", b},
                {"line", 512},
                {"version", b == 0 ? cluster::kProtocolVersion : 1}};
      case 1:
        return {{"op", "exchange"},
                {"address", ""},
                {"memory", 1 << 20},
                {"cache", 65536},
                {"host", std::string(a % 2, 'h')},
                {"door", "atoll-door-0"},
                {"token", std::string(b, 't')}};
      case 2: return {{"op", "publish"}, {"id", b}, {"name", std::string(a % 4, 'n')}, {"address", b}};
      case 3: return {{"op", "lookup"}, {"id", b}, {"name", std::string(a % 4, 'n')}, {"timeout_ms", b % 4}};
      case 4: return {{"op", "leave"}};
      case 5: return {{"op", "status"}};
      case 6: return {{"op", "ready"}};
      case 7:
        return {{"op", "report"},           {"node", node},       {"incarnation", 7 + a / 128},
                {"previous_term", b / 128}, {"state", b / 8 % 5}, {"sent", a},
                {"epoch", b % 4},           {"members", members}, {"unreachable", {b % 3}}};
      case 8:
        return {{"op", "return"}, {"node", node},       {"incarnation", 7 + b / 128},
                {"pid", 1},       {"memory", b},        {"cache", b},
                {"line", 512},    {"left", b % 2 == 1}, {"version", cluster::kProtocolVersion},
                {"address", ""},  {"host", "h"},        {"door", "atoll-door-0"},
                {"token", "t"}};
      default: return {{"op", "names"}, {"names", {{std::string(a % 4, 'n'), b}}}};
    }
  }
  Json peer = {{"node", node},   {"incarnation", 7},  {"epoch", b % 4}, {"pid", b},
               {"address", "a"}, {"memory", 1 << 20}, {"cache", 65536}, {"line", 512}};
  if (b % 4 == 3) {
    peer["door"] = "atoll-door-0";
    peer["token"] = "t";
  }
  switch (which % 15) {
    case 0:
      return {{"op", "joined"},
              {"nodes", node},
              {"term", 1},
              {"lease_ms", b % 8 / 4 == 0 ? 315'360'000'000 : 500},
              {"grace_ms", 0},
              {"doors", b % 4 == 3},
              {"listens", "h"},
              {"recoverable", b / 8 % 2 == 1},
              {"return", b / 16 % 2 == 1}};
    case 1: return {{"op", "peers"}, {"peers", {peer, {{"node", b % 4}, {"pid", 1}}}}};
    case 2: return {{"op", "peers"}, {"peers", {peer}}};
    case 3: return {{"op", "roster"}, {"nodes", node}, {"epoch", b}};
    case 4: return {{"op", "death"}, {"node", node}, {"why", std::string(b, 'w')}, {"epoch", b}};
    case 5: return {{"op", "reply"}, {"id", node}, {"code", b % 20}, {"address", b}};
    case 6: return {{"op", a % 2 == 0 ? "all_left" : "refused"}, {"why", "x"}};
    case 7: return {{"op", "status"}, {"program", "p"}, {"pid", b}, {"started", b}, {"epoch", 1}, {"nodes", node}};
    case 8: return {{"op", "status_node"}, {"node", node}, {"pid", b}, {"state", "joined"}, {"line", 512}};
    case 9: return {{"op", "go"}};
    case 10:
      return {{"op", "answer"},   {"term", 1 + b / 128}, {"echo", 0},
              {"verdict", a % 3}, {"epoch", b % 8},      {"members", members}};
    case 11: return {{"op", "ending"}};
    case 12: return {{"op", "returned"}, {"term", b}};
    case 13: return {{"op", "newcomer"}, {"peer", peer}};
    default: return {{"op", "given_up"}, {"node", node}, {"why", std::string(b, 'w')}};
  }
}

/// The next thing to write to `socket`, which may also be to wait for the other side.
inline void play_step(Input& input, int socket, bool from_master) {
  switch (input.below(5)) {
    case 0: return send_bytes(socket, input.text(input.byte()));
    case 1: return send_bytes(socket, framed(input.text(input.byte())));
    case 2: return send_bytes(socket, framed(plausible_frame(input, from_master).dump()));
    case 3: {
      const std::size_t count = input.below(4), first = input.byte();
      std::vector<int> fds;
      for (std::size_t k = 0; k < count; ++k) fds.push_back(Descriptors::get(first + k));
      Json body = plausible_frame(input, from_master);
      body["fds"] = count;
      return send_bytes(socket, framed(body.dump()), fds);
    }
    default: {
      std::array<char, 4096> ignored;
      pollfd entry{socket, POLLIN, 0};
      if (::poll(&entry, 1, 5) > 0) (void)!::recv(socket, ignored.data(), ignored.size(), MSG_DONTWAIT);
      return;
    }
  }
}

}  // namespace atoll::fuzz
