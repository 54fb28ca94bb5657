// What a user would take instead of a buffer pool: a mapped file, and LMDB. Each in a process of its own, whose memory
// can be bounded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "atoll/detail/namespace.hpp"

namespace atoll::bench {

/// A group of processes whose memory, the pages of files that they map included, is bounded: a cgroup, of version 1 or
/// 2. It is gone when this object is.
///
/// Thread-safety: none.
class MemoryGroup {
 public:
  /// None where the user may not make one.
  [[nodiscard]] static std::optional<MemoryGroup> make();
  MemoryGroup(MemoryGroup&& other) noexcept : path_(std::move(other.path_)) { other.path_.clear(); }
  MemoryGroup& operator=(MemoryGroup&&) = delete;
  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;
  /// REQUIRES: all its processes have ended.
  ~MemoryGroup();
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  explicit MemoryGroup(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

struct RivalReads {
  std::string engine;       // "mmap" or "lmdb"
  std::string path;         // a file of make_page_file, or of make_lmdb
  std::uint64_t count = 0;  // of pages, or records
  double seconds = 1;
  std::string group;               // of a MemoryGroup; empty: not bounded
  std::uint64_t memory_bytes = 0;  // what its process may use more than it does as it begins
};

/// The records of a RecordFile, by key. Throws Error.
void make_lmdb(const std::string& path, std::uint64_t records);
/// Random reads per second, by one thread, each checked, in another process; the file is not in memory as it begins.
/// `results`: a file for what it says. Throws Error.
[[nodiscard]] double rival_reads_per_s(const RivalReads& reads, const std::string& results);
/// That process.
void run_rival_process();

}  // namespace atoll::bench
