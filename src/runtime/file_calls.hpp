// What is done with files as a whole: open, close, resize, flush, unlink, by threads of their node and for others. What
// is done with their bytes is done as with any memory. See docs/files.md.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "atoll/file.hpp"
#include "base/host.hpp"
#include "base/mutex.hpp"
#include "runtime/file_call.hpp"
#include "runtime/files.hpp"
#include "wire/message.hpp"

namespace atoll::runtime {

class Runtime;

/// The files of a node, and those of others that it has open.
///
/// A node that wants something done elsewhere writes what it wants into its own memory and sends the address; a thread
/// of the file's node reads it there, does it, and sends the answer. So a path needs no place in a message, and whoever
/// does it may wait.
///
/// Thread-safety: the public methods by any thread, but for those that say otherwise.
class FileCalls {
 public:
  explicit FileCalls(Runtime& node) noexcept : node_(node) {}

  Result<FileInfo> open(std::string_view path, const FileOptions& options);
  Status close(const FileInfo& info);
  /// FileRequest::kFlush, kResize or kAsk.
  Result<FileInfo> call(const FileInfo& info, std::uint32_t what, std::uint64_t offset, std::uint64_t bytes);
  Status unlink(std::string_view path, NodeId node);

  /// Starts the threads that serve others and watch the disk; where this node may open files.
  void start();
  void stop();
  /// Everybody has left: what is still open is written and closed.
  void close_all();

  // Under the engine lock:
  void handle_call(const wire::Message& message);
  void handle_reply(const wire::Message& message, NodeId from);

 private:
  void watch_disk();
  void serve();
  void answer_call(const wire::Message& message);
  Result<FileInfo> call_home_of(NodeId node, const FileRequest& request);
  Result<FileInfo> send_call(NodeId node, const FileRequest& request, GlobalAddress place);
  [[nodiscard]] FileAnswer do_call(const FileRequest& request, NodeId from);
  [[nodiscard]] FileInfo info_of(const Files::Open& file) const noexcept;
  Result<FileInfo> open_here(const std::string& path, const FileOptions& options, NodeId user);
  Status come_home(ThreadState& thread, std::span<const GlobalAddress> lines, bool alone);
  Status bring_home(std::uint64_t first, std::uint64_t from, std::uint64_t to, bool all);
  Status flush_here(std::uint64_t first, std::uint64_t offset, std::uint64_t bytes);
  Status close_here(std::uint64_t first, NodeId user);
  Status empty_file(std::uint64_t first, std::uint64_t from, std::uint64_t to);
  Status resize_here(std::uint64_t first, std::uint64_t bytes);

  Runtime& node_;
  // Under the engine lock:
  std::deque<wire::Message> calls_;              // of other nodes, not begun
  std::map<std::uint64_t, FileWait*> waits_;     // of this node, by number
  std::map<std::uint64_t, std::uint32_t> open_;  // files of other nodes: address, how often they are open here
  std::atomic<std::uint32_t> bell_{0};           // there are calls
  std::unique_ptr<base::Host::Thread> disk_watcher_;
  std::unique_ptr<base::Host::Thread> server_;
};

}  // namespace atoll::runtime
