#include "cluster/output.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/log.hpp"

namespace atoll::cluster {

std::string line_prefix(NodeId node, NodeId nodes, bool colour) {
  const auto width = fmt::formatted_size("{}", nodes - 1);
  const std::string plain = fmt::format("[{:>{}}] ", node, width);
  if (!colour) return plain;
  static constexpr std::array<int, 6> kColours = {36, 33, 32, 35, 34, 31};
  return fmt::format("\x1b[{}m{}\x1b[0m", kColours[node % kColours.size()], plain);
}

bool wants_colour(int fd) noexcept {
  return ::isatty(fd) == 1 && std::getenv("NO_COLOR") == nullptr;
}

void LineWriter::feed(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::size_t room = kMaxLineBytes - line_.size();
    const std::size_t take = std::min(end == std::string_view::npos ? bytes.size() : end, room);
    line_.append(bytes.substr(0, take));
    const bool ended = take == end;
    bytes.remove_prefix(take + (ended ? 1 : 0));
    if (!ended && line_.size() < kMaxLineBytes) break;
    pending_.append(prefix_).append(line_).push_back('\n');
    line_.clear();
  }
  write_out();
}

void LineWriter::finish() {
  if (!line_.empty()) pending_.append(prefix_).append(line_).push_back('\n');
  line_.clear();
  write_out();
}

void LineWriter::write_out() {
  if (!pending_.empty() && !failed_ && !write_all(to_, pending_)) {
    failed_ = true;
    spdlog::error("cannot pass output on: {}", std::strerror(errno));
  }
  pending_.clear();
}

bool write_all(int fd, std::string_view bytes) noexcept {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(std::size_t(written));
      continue;
    }
    if (errno == EAGAIN) {  // somebody made our terminal non-blocking
      pollfd entry{fd, POLLOUT, 0};
      (void)::poll(&entry, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace atoll::cluster
