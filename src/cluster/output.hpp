// The output of many processes as one: every line with the number of the node that wrote it.
#pragma once

#include <string>
#include <string_view>

#include "atoll/status.hpp"

namespace atoll::cluster {

/// "[3] ", or "[ 3] " when ids have two digits; coloured for a terminal.
[[nodiscard]] std::string line_prefix(NodeId node, NodeId nodes, bool colour);
/// Whether what is written there should be coloured: a terminal, and NO_COLOR is not set.
[[nodiscard]] bool wants_colour(int fd) noexcept;

/// Passes one stream on, a line at a time, each behind the prefix.
///
/// Thread-safety: none.
/// Invariants:
///   1. Only whole lines are written, so those of different nodes do not mix. A line beyond kMaxLineBytes is cut
///      into several.
///   2. A write that fails is not tried again: the stream is read to its end, so that its writer does not block.
class LineWriter {
 public:
  static constexpr std::size_t kMaxLineBytes = 64 * 1024;

  LineWriter(std::string prefix, int to) : prefix_(std::move(prefix)), to_(to) {}
  void feed(std::string_view bytes);
  /// Writes what is left without an end of line.
  void finish();

 private:
  void write_out();

  std::string prefix_;
  int to_;
  std::string line_;     // the line so far, not yet ended
  std::string pending_;  // whole lines with prefixes, to be written at once
  bool failed_ = false;
};

/// Writes all of it, however often that takes. False when the descriptor does not take it.
bool write_all(int fd, std::string_view bytes) noexcept;

}  // namespace atoll::cluster
