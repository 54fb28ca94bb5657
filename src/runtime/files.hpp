// Files whose bytes are lines of this node's memory: which of their pages are in memory, which must be read or written,
// and which go when there is no room. See docs/files.md.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "atoll/file.hpp"
#include "base/host.hpp"
#include "coherence/protocol.hpp"
#include "memory/allocator.hpp"
#include "memory/line_map.hpp"
#include "memory/segment.hpp"
#include "metrics/counters.hpp"
#include "runtime/task.hpp"
#include "storage/page_store.hpp"
#include "storage/two_queue.hpp"

namespace atoll::runtime {

/// Waits for all that was changed in a part of a file to be in the file. Lives as long as who waits for it.
struct FlushJob {
  std::uint64_t first = 0;  // of the file: where its lines begin in the node's memory
  std::deque<std::uint64_t> left;
  std::uint32_t under_way = 0;
  bool syncing = false;
  Status status;
  std::atomic<bool> done{false};
  ThreadState* thread = nullptr;
};

/// The files that this node has open, and the frames of memory that their pages stand in.
///
/// A page is what is read and written at once: a line, or, where lines are smaller than the system's pages, several. It
/// has its own place in the node's segment, so an address leads to its bytes as it does on the heap; what a frame is,
/// is that the place has memory behind it. The coherence core decides who may use a line and when it must be here, and
/// asks for it by `load`; this class decides which pages go when memory is short: 2Q, which learns what was used by
/// hiding pages from the hit path that it is about to let go.
///
/// Thread-safety: the engine lock guards all of it, but for `is_busy`, which any thread may ask, and `wake_fd`.
/// Invariants:
///   1. Pages that are in memory, or on their way there, take no more than the budget; but for lines that come home
///      from other nodes, which are let in, and let others go.
///   2. A page whose lines changed since it was last written is written before its memory is given back.
///   3. A page is in one read or one write at a time.
class Files {
 public:
  struct Setup {
    NodeId self = 0;
    NodeId nodes = 1;
    std::uint64_t budget_bytes = 0;
    const memory::Segment* segment = nullptr;
    memory::LineMap* lines = nullptr;
    coherence::Protocol* protocol = nullptr;
    metrics::Counters* counters = nullptr;
    base::Host* host = nullptr;
    std::atomic<bool>* busy = nullptr;  // is there something to do? Set by this class, read by any thread
    std::function<void(const coherence::LineRef&, NodeId)> offer;  // tells a node that it may take a copy
    std::function<bool(NodeId)> is_dead;
  };
  struct Open {
    storage::FileNumber number = 0;
    std::string path;
    std::uint64_t first = 0;     // in the node's memory
    std::uint64_t reserved = 0;  // from there on, whole grains
    std::uint64_t bytes = 0;     // the file's length
    std::uint32_t line_bytes = 0;
    std::uint32_t page_bytes = 0;
    bool read_only = false;
    bool failing = false;              // the last write failed, and was logged
    std::vector<std::uint32_t> users;  // per node: how often it has it open
    std::uint32_t writes_under_way = 0;
  };

  Files(Setup setup, std::unique_ptr<storage::PageStore> store);

  // ---- file_table.cpp: open files ----
  /// The file, opened by one more user. `fresh`: it was not open before; its lines have the heap's size yet.
  [[nodiscard]] Result<Open*> open(const std::string& path, const FileOptions& options, NodeId user, bool* fresh);
  [[nodiscard]] Open* find(std::uint64_t offset) noexcept;
  /// REQUIRES: nobody has it open, and all its lines are stored.
  Status close(Open& file);
  Status resize(Open& file, std::uint64_t bytes);
  Status unlink(const std::string& path);
  [[nodiscard]] std::map<std::uint64_t, Open>& all() noexcept { return open_; }

  // ---- files.cpp: pages ----
  void load(const coherence::LineRef& ref);
  void note_held(const coherence::LineRef& ref, bool held);
  [[nodiscard]] NodeId sharer_to_ask(const coherence::LineRef& ref);
  /// A sharer died that was asked for a copy: from the file, then.
  void forget_peer(NodeId node);
  void forget_copy(const coherence::LineRef& ref, NodeId node);
  /// Goes on with what can go on. Calls the core, which may call this class. `all`: what was asked of the disk goes out
  /// now; else what nobody waits for may wait for more of its kind.
  void work(bool all);
  /// Begins to write what was changed between two places of a file. `work` ends it.
  void begin_flush(FlushJob& job, std::uint64_t from, std::uint64_t to);
  /// Who waits for the job has given up.
  void abandon(FlushJob& job);
  [[nodiscard]] bool is_busy() const noexcept { return busy_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool has_unsent() const noexcept { return has_unsent_.load(std::memory_order_relaxed); }
  [[nodiscard]] int wake_fd() const noexcept { return store_->wake_fd(); }
  void calm() noexcept { store_->calm(); }
  /// Every line of a page that lies between two places of a file.
  template <typename F>
  void for_each_line(const Open& file, std::uint64_t from, std::uint64_t to, F&& f) {
    for (std::uint64_t at = file.first + from / file.page_bytes * file.page_bytes; at < file.first + to;) {
      const GlobalAddress line = GlobalAddress::make(self_, at);
      if (const std::uint64_t next = lines_.next_used(line); next != at) {
        at = next;
        continue;
      }
      f(lines_.ref(line));
      at += file.line_bytes;
    }
  }

 private:
  using LineRef = coherence::LineRef;
  static constexpr std::uint64_t kBlockBytes = storage::kLeastPageBytes;  // frames are numbered by these
  enum Flags : std::uint8_t { kReading = 1, kWriting = 2, kAwaited = 4, kOffered = 8 };
  struct Frame {
    std::uint8_t held;     // lines of the page whose bytes are here: bits
    std::uint8_t loading;  // lines that the core waits for
    std::uint8_t flags;
  };
  struct FreeBytes {
    void operator()(std::byte* bytes) const noexcept { std::free(bytes); }
  };
  using Buffer = std::unique_ptr<std::byte, FreeBytes>;
  struct Operation {
    enum class What : std::uint8_t { kRead, kPatch, kWrite, kSync };  // kPatch: a read before a part is overwritten
    What what = What::kRead;
    std::uint64_t file = 0;  // Open::first
    std::vector<std::uint64_t> frames;
    Buffer buffer;  // none: the page is read into its place
    FlushJob* job = nullptr;
    Status status;
    bool ended = false;
  };

  [[nodiscard]] std::uint64_t frame_of(const Open& file, std::uint64_t offset) const noexcept {
    return (offset - heap_bytes_ - (offset - file.first) % file.page_bytes) / kBlockBytes;
  }
  [[nodiscard]] std::uint64_t offset_of(std::uint64_t frame) const noexcept {
    return heap_bytes_ + frame * kBlockBytes;
  }
  template <typename F>
  void for_each_line_of(const Open& file, std::uint64_t frame, F&& f);
  [[nodiscard]] static Buffer make_buffer(std::uint64_t bytes);
  [[nodiscard]] std::uint32_t take_operation(Operation operation);

  // files.cpp
  [[nodiscard]] bool finish_done();
  [[nodiscard]] bool is_unsent_awaited();
  void end_read(Operation& operation);
  void fail_read(Open& file, std::uint64_t frame, const char* why);
  [[nodiscard]] bool is_hopeless(const Open& file);
  [[nodiscard]] bool begin_awaited();
  void begin_read(Open& file, std::uint64_t frame);
  void fetch_rest(Open& file, std::uint64_t frame);
  // file_room.cpp
  [[nodiscard]] bool make_room(std::uint64_t bytes);
  [[nodiscard]] bool may_go(std::uint64_t frame);
  [[nodiscard]] bool let_go(std::uint64_t frame);
  void leave(Open& file, std::uint64_t frame);
  void offer_some();
  // file_writing.cpp
  std::uint32_t write_back(Open& file, std::span<const std::uint64_t> frames, FlushJob* job);
  void begin_patch(Open& file, std::uint64_t frame, FlushJob* job);
  void end_patch(Operation& operation);
  void end_write(Operation& operation);
  void write_marked();
  [[nodiscard]] bool is_changed(const Open& file, std::uint64_t frame);
  [[nodiscard]] bool advance_jobs();
  [[nodiscard]] bool advance(FlushJob& job);
  void write_some(FlushJob& job, Open& file);

  const NodeId self_, nodes_;
  const std::uint64_t budget_bytes_;
  const std::uint64_t heap_bytes_;
  const memory::Segment& segment_;
  memory::LineMap& lines_;
  coherence::Protocol& protocol_;
  metrics::Counters& counters_;
  base::Host& host_;
  std::atomic<bool>& busy_;
  std::function<void(const LineRef&, NodeId)> offer_;
  std::function<bool(NodeId)> is_dead_;
  std::unique_ptr<storage::PageStore> store_;
  memory::ZeroedArray<Frame> frames_;
  storage::TwoQueue queue_;
  std::map<std::uint64_t, Open> open_;           // by `first`
  std::map<std::uint64_t, std::uint64_t> free_;  // parts of the file space: first and bytes
  std::uint64_t resident_bytes_ = 0;
  std::deque<std::uint64_t> awaited_;   // frames to be read, once there is room
  std::int64_t blocked_since_ns_ = 0;   // no room for the first of them since then; 0: there is
  std::vector<std::uint64_t> touched_;  // scratch of make_room
  std::vector<std::uint64_t> marked_;   // frames in the way that must be written first
  std::vector<Operation> operations_;   // by tag
  std::vector<std::uint32_t> free_operations_;
  std::deque<std::uint32_t> ended_;  // reads that needed no disk
  std::vector<FlushJob*> jobs_;
  std::vector<std::uint32_t> credit_;      // per node: how many pages it may be offered
  std::map<std::uint64_t, NodeId> asked_;  // lines that were asked of a sharer, by address
  std::uint64_t evictions_ = 0;
  NodeId next_offer_ = 0;
  std::uint32_t under_way_ = 0;        // operations
  std::vector<std::uint64_t> unsent_;  // frames whose reads the system was not told of yet
  std::atomic<bool> has_unsent_{false};
  bool send_now_ = false;  // the system was not told of something else yet
  bool working_ = false;
};

template <typename F>
void Files::for_each_line_of(const Open& file, std::uint64_t frame, F&& f) {
  const std::uint64_t first = offset_of(frame);
  const std::uint32_t count = file.page_bytes / file.line_bytes;
  for (std::uint32_t i = 0; i < count; ++i) {
    f(lines_.ref(GlobalAddress::make(self_, first + std::uint64_t(i) * file.line_bytes)), std::uint8_t(1u << i));
  }
}

}  // namespace atoll::runtime
