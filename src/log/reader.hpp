// Reading a log, after a crash or for people. Nothing in the file is trusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "atoll/options.hpp"
#include "atoll/status.hpp"
#include "log/record.hpp"
#include "storage/disk.hpp"

namespace atoll::log {

struct ReadOptions {
  /// Behind the first sequence that is missing nothing counts. Not said: so it is for files of mode power.
  std::optional<bool> cut_at_gap{};
  Sequence from = 0;  // earlier records are not needed: what the checkpoint says
};

struct ReadReport {
  std::uint64_t files = 0;
  std::uint64_t blocks = 0;     // in use
  std::uint64_t records = 0;    // that count
  std::uint64_t bytes = 0;      // of those, with their headers
  std::uint64_t torn = 0;       // records that were begun and not ended
  std::uint64_t truncated = 0;  // records that are not needed any more
  std::uint64_t dropped = 0;    // records behind a gap
  Sequence first = 0;           // the lowest that a record of the files may have
  Sequence needless = 0;        // those below were said not to be needed
  Sequence gap = 0;             // the first that is missing, where something was dropped behind it
  NodeId node = 0;              // of the last file, as the next
  std::uint64_t generation = 0;
  LogMode mode = LogMode::kOff;
  storage::BootId boot{};
  bool is_closed = false;  // the node has ended in order, and the disk has all of it
};

/// The records of a log, or of the logs of several lives, in the order of their sequences.
/// Thread-safety: it does not change.
class LoadedLog {
 public:
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
  /// The payload is there as long as the LoadedLog is. REQUIRES: k < size().
  [[nodiscard]] Record operator[](std::size_t k) const noexcept;
  [[nodiscard]] const ReadReport& report() const noexcept { return report_; }
  /// The highest sequence of all records, those that do not count too: LogConfig::after of the next life.
  [[nodiscard]] Sequence highest() const noexcept { return highest_; }

 private:
  friend class LogReader;
  struct Entry {
    Sequence sequence;
    const std::byte* at;
  };

  std::vector<Entry> entries_;
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  ReadReport report_;
  Sequence highest_ = 0;
};

/// One file. kStorage: it cannot be read, or is no log.
[[nodiscard]] Result<LoadedLog> read_log(storage::File& file, const ReadOptions& options);
/// Those of all lives that are there; none is no error.
[[nodiscard]] Result<LoadedLog> read_logs(storage::Disk& disk, const ReadOptions& options);

/// Does this file begin as a log does?
[[nodiscard]] bool looks_like_log(storage::File& file);

}  // namespace atoll::log
