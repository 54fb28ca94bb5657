// The control connection between a node (or a tool) and the master: frames of JSON over a stream socket.
//
//   frame = length (u32, little-endian, 2 to 64 KiB) | a JSON object with a string "op" | over TCP: its tag (seal.hpp)
//
// A frame that carries file descriptors says how many in "fds"; they travel (SCM_RIGHTS) with its first byte, over a
// unix socket only. docs/control-protocol.md lists the frames.
// Control traffic is start-up, names, deaths and status: rare, so JSON's cost does not matter and its
// readability does.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "atoll/status.hpp"
#include "base/fd.hpp"
#include "cluster/seal.hpp"

namespace atoll::cluster {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;
using SharedFd = std::shared_ptr<const base::Fd>;

inline constexpr std::uint32_t kProtocolVersion = 6;
inline constexpr std::size_t kMaxFrameBytes = 64 * 1024;
inline constexpr std::size_t kMaxFrameFds = 128;  // the kernel takes 253 in one message
inline constexpr NodeId kMaxNodes = 1024;
inline constexpr std::size_t kMaxWhyBytes = 1024;
inline constexpr std::size_t kMaxAddressBytes = 1024;
inline constexpr std::size_t kMaxHostNameBytes = 255;

struct Frame {
  Json body;  // an object with a string "op"
  std::vector<base::Fd> fds;

  /// REQUIRES: the frame came from a FrameDecoder.
  [[nodiscard]] const std::string& op() const { return body.at("op").get_ref<const std::string&>(); }
};

/// The bytes of a frame. Text that is not UTF-8 is repaired, not refused: it is only ever shown to people.
/// REQUIRES: the result fits kMaxFrameBytes; senders bound their strings.
[[nodiscard]] std::string encode_frame(const Json& body);

enum class Decoded : std::uint8_t { kFrame, kNeedMore, kBad };

/// Turns a stream of untrusted bytes into frames.
///
/// Thread-safety: none; one thread, or the owner's lock.
/// Invariants:
///   1. Never throws because of what the bytes say.
///   2. Once bad, for ever bad: after an error nothing in the stream can be trusted to be a frame's start.
///   3. Holds at most one frame and one read's worth of bytes, and twice kMaxFrameFds descriptors.
///   4. Once sealed, no byte of a frame is looked at, but for its length, before its tag was found right.
class FrameDecoder {
 public:
  /// From here on every frame has a tag.
  void seal(const Seal& seal) { seal_ = seal; }
  void feed(std::string_view bytes, std::vector<base::Fd> fds);
  [[nodiscard]] Decoded next(Frame& frame);
  /// Why the stream is bad; empty while it is not.
  [[nodiscard]] const std::string& why() const noexcept { return why_; }
  /// Whether the stream, if it ended now, would end inside a frame.
  [[nodiscard]] bool midway() const noexcept { return at_ < bytes_.size(); }

 private:
  Decoded bad(std::string why);
  Decoded parse(std::string_view text, Frame& frame);
  bool take_fds(Frame& frame);

  std::string bytes_;
  std::size_t at_ = 0;  // the first byte of bytes_ that is not yet decoded
  std::deque<base::Fd> fds_;
  std::optional<Seal> seal_;
  std::string why_;
};

/// Reads the fields of a frame, and remembers the first that is missing, mistyped or out of range.
///
/// Thread-safety: none.
class Fields {
 public:
  explicit Fields(const Json& body) : body_(body) {}
  std::uint64_t number(const char* key, std::uint64_t max = std::numeric_limits<std::uint64_t>::max());
  std::string text(const char* key, std::size_t max_bytes);
  /// A text of visible ASCII characters and blanks, which has about as many bytes in a frame.
  std::string printable(const char* key, std::size_t max_bytes);
  [[nodiscard]] bool ok() const noexcept { return why_.empty(); }
  [[nodiscard]] const std::string& why() const noexcept { return why_; }

 private:
  const Json& body_;
  std::string why_;
};

/// One end of a control connection: a non-blocking socket, a decoder, and what is still to be sent.
///
/// Thread-safety: none; one thread, or the owner's lock. `fd()` may be polled without it.
/// Invariants:
///   1. No call blocks.
///   2. Once broken, for ever broken; `why()` says why. What was received, or can be, is still given out.
///   3. What waits to be sent is bounded: a peer that does not read breaks its own connection.
class Connection {
 public:
  explicit Connection(base::Fd socket) noexcept : socket_(std::move(socket)) {}
  /// From here on every frame has a tag, in both directions. REQUIRES: no frame has been sent or received yet.
  void seal(const Seals& seals);

  [[nodiscard]] int fd() const noexcept { return socket_.get(); }
  /// Reads what is there, up to a frame's size.
  enum class Received : std::uint8_t { kSome, kNothingYet, kEnded };
  [[nodiscard]] Received receive();
  /// The next frame of what was received.
  [[nodiscard]] Decoded next(Frame& frame);
  /// Queues a frame and sends what the socket takes. False when the connection is broken.
  /// REQUIRES: a sealed connection is given no descriptors.
  bool send(Json body, std::vector<SharedFd> fds = {});
  /// Sends what the socket takes. False when the connection is broken.
  bool flush();
  [[nodiscard]] bool wants_write() const noexcept { return !outbound_.empty(); }
  /// The kernel holds too many descriptors in flight: polling for write would spin, so try again in a while.
  [[nodiscard]] bool stalled() const noexcept { return stalled_; }
  [[nodiscard]] const std::string& why() const noexcept { return why_; }

 private:
  struct Outgoing {
    std::string bytes;
    std::size_t sent = 0;
    std::vector<SharedFd> fds;
  };
  enum class Sent : std::uint8_t { kAll, kLater, kBroken };
  Sent send_some(Outgoing& frame);
  bool broken(std::string why);

  base::Fd socket_;
  FrameDecoder decoder_;
  std::deque<Outgoing> outbound_;
  std::size_t outbound_bytes_ = 0;
  bool stalled_ = false;
  bool peer_closed_ = false;  // a send has found that; what it sent before can still be received
  std::optional<Seal> seal_;  // of what is sent
  std::string why_;
};

/// "atoll-<uid>-<pid>-<random hex>": abstract, so that nothing is left behind however the master ends.
[[nodiscard]] std::string make_socket_name();
/// A listening socket of that name. Throws Error.
[[nodiscard]] base::Fd listen_abstract(const std::string& name);
/// A connection to whoever listens there; tries until the deadline while the listener is too busy. Throws Error.
[[nodiscard]] base::Fd connect_abstract(const std::string& name, Clock::time_point deadline);
/// Waits for the next frame. kDeadline when none came in time, kClusterDown when the connection is over; the
/// connection's why() says more.
[[nodiscard]] Status await_frame(Connection& connection, Frame& frame, Clock::time_point deadline);

/// Milliseconds from now for poll(2): rounded up, 0 when past, bounded so that it fits.
[[nodiscard]] int poll_timeout(Clock::time_point deadline) noexcept;
/// A time-out as a caller gave it, made safe to add to a time point.
[[nodiscard]] std::chrono::milliseconds bounded_timeout(std::chrono::milliseconds timeout) noexcept;
/// The first `max_bytes` of a text, so that a frame of it stays within bounds.
[[nodiscard]] std::string clipped(std::string_view text, std::size_t max_bytes = kMaxWhyBytes);

}  // namespace atoll::cluster
