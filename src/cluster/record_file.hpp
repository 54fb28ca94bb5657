// The small file in which a master leaves to its successor who is in.
#pragma once

#include <optional>
#include <string>

#include "base/fd.hpp"
#include "cluster/lease_master.hpp"

namespace atoll::cluster {

/// Thread-safety: none; the owner's lock.
/// Invariants:
///   1. While it is open no other process has it open: the lock (on FILE.lock) ends with the process, and so whoever
///      has it knows that the master before has ended.
///   2. The file is whole at any time, whenever the machine stops: it is replaced, never changed.
class RecordFile {
 public:
  /// Throws Error: another master has it, it cannot be made, or what is in it is no record for so many nodes.
  RecordFile(std::string path, NodeId nodes);

  /// What the predecessor left, if there was one that did not end properly.
  [[nodiscard]] const std::optional<LeaseRecord>& found() const noexcept { return found_; }
  /// Returns when it is on disk. Throws Error.
  void write(const LeaseRecord& record);
  /// The cluster is over: the next master founds a new one.
  void remove() noexcept;
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  void read(NodeId nodes);

  std::string path_;
  base::Fd lock_;
  std::optional<LeaseRecord> found_;
};

}  // namespace atoll::cluster
