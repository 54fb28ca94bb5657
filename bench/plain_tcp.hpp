// What the kernel's TCP does by itself between two processes: blocking sockets, no Nagle.
#pragma once

#include <cstdint>

#include "base/fd.hpp"

namespace atoll::bench {

/// One end of a connection over 127.0.0.1. Throws Error when the other end is gone.
///
/// Thread-safety: none.
class PlainTcp {
 public:
  /// Listens; `accept` waits for the other.
  PlainTcp();
  explicit PlainTcp(std::uint16_t port);
  [[nodiscard]] std::uint16_t port() const;
  void accept();

  /// ns per round trip of a request of 64 bytes and an answer of `reply_bytes`, `in_flight` at a time.
  double ping(std::uint32_t trips, std::uint32_t reply_bytes, std::uint32_t in_flight);
  void serve(std::uint32_t trips, std::uint32_t reply_bytes, std::uint32_t in_flight);
  /// Bytes per second of writes of `piece_bytes`, as the receiver sees it.
  double receive_stream(std::uint32_t pieces, std::uint32_t piece_bytes);
  void send_stream(std::uint32_t pieces, std::uint32_t piece_bytes);

 private:
  void write_all(const void* data, std::size_t bytes) const;
  void read_all(void* data, std::size_t bytes) const;
  base::Fd listener_, socket_;
};

}  // namespace atoll::bench
