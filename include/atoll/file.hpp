// atoll::File: a file of one node as a part of the global memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "atoll/address.hpp"
#include "atoll/status.hpp"

namespace atoll {

class Node;

/// How a file is opened. Who opens it while somebody else has it open gets it as that one did.
struct FileOptions {
  NodeId node = kNoNode;            // whose file it is; kNoNode: of the node that opens it
  bool create = false;              // make it when it is not there
  bool exclusive = false;           // with create: an error when it is there
  bool read_only = false;           // what is written all the same is lost, and said so in the node's log
  bool direct = true;               // around the system's page cache, where the file system can
  bool whole_pages = true;          // after a crash each page is as it was before or after it was written
  std::uint32_t page_bytes = 4096;  // a power of two from 512 to 64 KiB: the unit of coherence, and of reading
  std::uint64_t reserve_bytes = 0;  // how long it may get while it is open; 0: twice its length, 64 MiB at least
};

/// What is known of an open file.
struct FileInfo {
  GlobalAddress address;       // of its first byte
  std::uint64_t bytes = 0;     // its length
  std::uint64_t reserved = 0;  // how long it may get
  std::uint32_t page_bytes = 0;
  bool read_only = false;
};

/// A file of some node, open at this one: its bytes are global memory from `address()` on, to be read, written, locked
/// and pinned like any other. What is written reaches the file in the background, when memory is short, and with
/// `flush`; nothing else is promised to be there after a crash.
///
/// Every node that uses the address opens the file itself. (docs/files.md)
///
/// Thread-safety: any thread may use it; none while it is closed. Invariants:
///   1. Nothing is read or written beyond the length through this class.
class [[nodiscard]] File {
 public:
  File() noexcept = default;
  File(Node& node, NodeId home, const FileInfo& info) noexcept : node_(&node), home_(home), info_(info) {}
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  /// Closes it; an error is logged.
  ~File();

  [[nodiscard]] bool is_open() const noexcept { return node_ != nullptr; }
  [[nodiscard]] GlobalAddress address() const noexcept { return info_.address; }
  [[nodiscard]] NodeId home() const noexcept { return home_; }
  /// The length as this object knows it: `refresh` asks, for other nodes may have changed it.
  [[nodiscard]] std::uint64_t bytes() const noexcept { return info_.bytes; }
  [[nodiscard]] std::uint64_t reserved_bytes() const noexcept { return info_.reserved; }
  [[nodiscard]] std::uint32_t page_bytes() const noexcept { return info_.page_bytes; }
  Status refresh() noexcept;

  /// All of `into`, or an error.
  Status read(std::uint64_t offset, std::span<std::byte> into) const noexcept;
  Status write(std::uint64_t offset, std::span<const std::byte> from) noexcept;
  /// Waits until all that was written there before, by any node, is on the disk.
  Status flush() noexcept { return flush(0, info_.bytes); }
  Status flush(std::uint64_t offset, std::uint64_t bytes) noexcept;
  /// Makes the file longer, by zeros, or shorter. Nobody may use what is cut off meanwhile.
  Status resize(std::uint64_t bytes) noexcept;
  /// Gives back what this node has of it. The last who closes it writes all that was changed, and waits for it.
  Status close() noexcept;

 private:
  Node* node_ = nullptr;
  NodeId home_ = kNoNode;
  FileInfo info_;
};

}  // namespace atoll
