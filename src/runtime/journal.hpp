// What a node writes down so that its memory survives its process: the log, and checkpoints that keep it short. See
// docs/recovery.md.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "atoll/address.hpp"
#include "atoll/options.hpp"
#include "base/host.hpp"
#include "log/checkpoint.hpp"
#include "log/group_commit.hpp"
#include "log/log.hpp"
#include "log/reader.hpp"
#include "memory/allocator.hpp"
#include "storage/disk.hpp"

namespace atoll::runtime {

/// A line that this node may write, where its bytes are, and what it is to this node.
struct Place {
  GlobalAddress line;
  std::uint32_t bytes = 0;
  const std::byte* data = nullptr;
  std::uint32_t slot = 0;  // 1 + cache slot; 0 at the home
};

/// A line of another home that this node had written when its former process ended, and not given back.
struct OwnedLine {
  std::uint64_t tenure = 0;
  std::vector<std::byte> bytes;
};

/// A call of another node that this one has done, or of this node itself: number 0.
struct Caller {
  NodeId node = kNoNode;
  std::uint64_t number = 0;
  friend auto operator<=>(const Caller&, const Caller&) = default;
};

/// Calls that were done, and perhaps not answered, with what the answer was: of each node the last ones. Its threads
/// wait for one answer each, and answers arrive in the order in which they are sent, so that older ones have arrived.
///
/// Thread-safety: none.
class Answers {
 public:
  void note(const Caller& caller, std::uint64_t answer);
  template <typename F>
  void for_each(F f) const {
    for (const auto& [node, ring] : rings_) {
      for (std::size_t i = 0; i < ring.last.size(); ++i) {  // the oldest first
        const auto& [number, answer] = ring.last[(ring.oldest + i) % ring.last.size()];
        f(Caller{node, number}, answer);
      }
    }
  }

 private:
  struct Ring {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> last;  // number and answer
    std::size_t oldest = 0;                                     // where the next goes, once it is full
  };
  std::map<NodeId, Ring> rings_;
};

/// What a former process of this node has left.
struct Legacy {
  std::map<std::uint64_t, OwnedLine> owned;  // by address
  struct Region {
    GlobalAddress first;
    std::uint64_t bytes = 0;
    std::uint8_t larger = 0;
  };
  std::map<std::uint64_t, Region> regions;  // by address
  std::map<std::string, std::uint64_t> names;
  Answers answered;
  /// From now on the lines there have another size, or are those of the heap.
  void set_region(const Region& region);
  struct Peer {
    std::uint64_t memory_bytes = 0;
    std::uint64_t cache_slots = 0;
  };
  std::map<std::uint64_t, Peer> peers;  // all nodes of the cluster, by number
  std::vector<log::LineMeta> lines;     // of the home's lines, by number among those of the heap
  std::uint64_t records = 0;            // that were replayed
};

/// The log of one node, and for each line what the log knows of it.
///
/// Thread-safety: note_write by any thread that has the line's version; what says so by whoever holds the engine lock.
/// Invariants:
///   1. A byte of a line that this node may write changes only after the log has the change.
///   2. Of a line of another home the log has the whole from the first change in a tenure on.
///   3. A page of this node's memory that was changed since the last checkpoint took it is marked.
class Journal {
 public:
  using Writer = log::Log::Writer;
  /// The group commit has made something durable, or never will again. Called from its own thread.
  using OnDurable = std::function<void(const Status& status)>;
  /// A record of the engine's could not be appended, because the disk has failed. Called under the engine lock.
  using OnLost = std::function<void()>;

  /// Throws Error: `options.log_bytes` are too few for the cache.
  Journal(const Options& options, base::Host& host, std::unique_ptr<storage::Disk> disk, NodeId self,
          std::uint64_t memory_bytes, std::uint32_t slots);

  /// The shortest log that a node with this cache can have.
  [[nodiscard]] static std::uint64_t least_log_bytes(const Options& options, std::uint32_t slots);
  /// Throws Error when the directory holds a log: nobody said that it is to be used.
  void refuse_old();
  /// About to be filled, by any thread.
  using PrepareMemory = std::function<void(std::span<std::byte>)>;
  /// Reads what the process before left into `memory` and `allocator`. Throws Error.
  [[nodiscard]] Legacy recover(std::span<std::byte> memory, const PrepareMemory& prepare, memory::Allocator& allocator);
  /// What was recovered becomes a checkpoint that needs no log, so that the new log can have the place of the old one.
  /// REQUIRES: `memory` and `allocator` are as recover() has left them. Throws Error.
  void keep(const Legacy& legacy, std::span<const std::byte> memory, const memory::Allocator& allocator);
  /// From here on it is written.
  void begin(std::uint32_t epoch, const Legacy& legacy, OnDurable on_durable, OnLost on_lost);
  /// No OnDurable any more when it returns. REQUIRES: nobody waits for the log.
  void end() noexcept { commit_.reset(); }
  /// The node ends in order: the disk has all that it has written. REQUIRES: nobody writes any more.
  [[nodiscard]] Status close();

  // ---- the write path ----

  [[nodiscard]] std::unique_ptr<Writer> make_writer() { return std::make_unique<Writer>(*log_); }
  /// Before `bytes` are stored at `at`. kStorageFull: there is no room now (has_room tells when). REQUIRES: the caller
  /// has the line's version and keeps it until they are stored.
  [[nodiscard]] Result<log::Sequence> note_write(Writer& writer, const Place& place, GlobalAddress at,
                                                 std::span<const std::byte> bytes) {
    return note_write_by<false>(writer, place, at, bytes);
  }
  /// The same, from what is kept for the engine: there is room. REQUIRES: the engine lock as well.
  [[nodiscard]] Result<log::Sequence> note_write_in_engine(const Place& place, GlobalAddress at,
                                                           std::span<const std::byte> bytes) {
    return note_write_by<true>(*engine_, place, at, bytes);
  }
  /// The same for a call of another node, which is done once. At home only.
  [[nodiscard]] Errc note_write_for(const Caller& caller, const Place& place, GlobalAddress at,
                                    std::span<const std::byte> bytes);
  /// Several such writes, of which the log has all or none.
  struct Change {
    Place place;
    GlobalAddress at;
    std::span<const std::byte> bytes;
  };
  [[nodiscard]] Result<log::Sequence> note_together(Writer& writer, std::span<const Change> changes);
  /// The most that log::part_bytes of what is written together may come to.
  [[nodiscard]] std::uint64_t most_together() const noexcept { return log_->max_payload(); }
  [[nodiscard]] bool has_room() const noexcept { return log_->has_room(); }
  /// Is there as much left of what is kept for the engine as one batch of messages can need, and the next checkpoint?
  [[nodiscard]] bool has_reserve() const noexcept { return log_->reserved_left() >= images_bytes_ + batch_bytes_; }
  [[nodiscard]] bool can_checkpoint() const noexcept { return log_->reserved_left() >= images_bytes_; }
  /// In mode process all that was appended is: who asks need not look at a word that all threads write.
  [[nodiscard]] bool is_durable(log::Sequence sequence) const noexcept {
    return is_power() ? log_->is_durable(sequence) : sequence != kNever;
  }
  void ask_for_sync() noexcept {
    if (commit_ != nullptr) commit_->request();
  }
  [[nodiscard]] bool is_power() const noexcept { return mode_ == LogMode::kPower; }
  /// kNever once a record of the engine's could not be appended.
  [[nodiscard]] log::Sequence last() const noexcept { return is_lost_ ? kNever : log_->last(); }
  /// Not ok: the disk has failed, and nothing can be promised any more.
  [[nodiscard]] Status health() const { return log_->health(); }

  // ---- the engine's records, under its lock ----

  void note_grant(GlobalAddress line, std::uint64_t tenure, NodeId owner);
  /// The home has taken the line back: its bytes as they are now.
  void note_taken(const Place& place, std::uint64_t tenure);
  void note_returned(GlobalAddress line, std::uint64_t tenure);
  void note_allocate(std::uint64_t offset, std::uint64_t bytes, bool in_grains, Caller caller);
  void note_free(std::uint64_t offset, Caller caller);
  void note_region(GlobalAddress first, std::uint64_t bytes, std::uint8_t larger);
  log::Sequence note_name(std::string_view name, GlobalAddress address);
  /// It was not published after all: what it was before, if anything.
  void take_back_name(std::string_view name, GlobalAddress before);
  [[nodiscard]] GlobalAddress find_name(std::string_view name) const;
  /// All of a line of another home, as it is: what was logged of it before is not needed any more.
  void note_image(const Place& place);
  void note_peer(NodeId node, const Legacy::Peer& peer);
  /// The same before there is a log, for the checkpoint.
  void set_peer(NodeId node, const Legacy::Peer& peer) { now_.peers[node] = peer; }

  /// The slot of the cache has another line from now on: what the log has of the one before says nothing of it, also
  /// where both have the same tenure.
  void begin_slot(std::uint32_t slot) noexcept {
    SlotMark& mark = slots_[slot];
    mark.tenure = mark.imaged = 0;
    mark.last.store(0, std::memory_order_relaxed);
    mark.returning = false;
  }
  /// The tenure of the line in a slot of the cache.
  [[nodiscard]] std::uint64_t& tenure(std::uint32_t slot) noexcept { return slots_[slot].tenure; }
  /// Does the log have the whole line in its present tenure?
  [[nodiscard]] bool has_image(std::uint32_t slot) const noexcept {
    return slots_[slot].imaged == slots_[slot].tenure && slots_[slot].tenure != 0;
  }
  /// The line is on its way home; false when that was known. And the end of that: was it?
  [[nodiscard]] bool begin_return(std::uint32_t slot) noexcept { return !std::exchange(slots_[slot].returning, true); }
  [[nodiscard]] bool end_return(std::uint32_t slot) noexcept { return std::exchange(slots_[slot].returning, false); }
  /// Is everything that the log has of the line durable?
  [[nodiscard]] bool is_settled(GlobalAddress line, std::uint32_t slot) const noexcept {
    return is_durable(last_of(line, slot).load(std::memory_order_relaxed));
  }

  // ---- checkpoints ----

  [[nodiscard]] bool wants_checkpoint() const noexcept;
  [[nodiscard]] log::Log& log() noexcept { return *log_; }
  [[nodiscard]] log::CheckpointWriter& checkpoint() noexcept { return *checkpoint_; }
  /// Takes the marks of the pages that were changed: their numbers.
  [[nodiscard]] std::vector<std::uint32_t> take_dirty_pages();
  void mark_dirty(std::uint64_t offset, std::uint64_t bytes) noexcept;
  [[nodiscard]] std::vector<std::byte> save_regions() const;
  [[nodiscard]] std::vector<std::byte> save_names() const;
  [[nodiscard]] std::vector<std::byte> save_peers() const;
  [[nodiscard]] std::vector<std::byte> save_answered() const;
  /// In mode power, all that was appended is durable when it returns.
  [[nodiscard]] Status sync();

  static constexpr log::Sequence kNever = ~log::Sequence{0};
  static constexpr std::uint32_t kPageBytes = 4096;
  static constexpr const char* kAllocatorBlob = "allocator";
  static constexpr const char* kRegionsBlob = "regions";
  static constexpr const char* kNamesBlob = "names";
  static constexpr const char* kPeersBlob = "peers";
  static constexpr const char* kAnsweredBlob = "answered";
  // Of a checkpoint that needs no log: lines of other nodes that this one owned, and the last log that went into it.
  static constexpr const char* kOwnedBlob = "owned";
  static constexpr const char* kLogBlob = "log";

 private:
  /// The last log that went into a checkpoint, and who wrote that checkpoint.
  struct Kept {
    std::uint64_t generation = 0;
    LogMode mode = LogMode::kOff;
    storage::BootId boot{};
  };
  struct SlotMark {
    std::uint64_t tenure = 0;
    std::uint64_t imaged = 0;  // the tenure in which the log has the whole line
    std::atomic<log::Sequence> last{0};
    bool returning = false;
  };
  void check_owner(NodeId node) const;
  [[nodiscard]] log::CheckpointShape shape() const noexcept {
    return {memory_bytes_, line_bytes_, self_, mode_ == LogMode::kPower};
  }
  void check_whole(bool has_checkpoint, log::Sequence from, const Kept& kept, const log::ReadReport& logs) const;
  void check_boot(const Kept& kept, const log::ReadReport& logs) const;
  void sync_logs();
  [[nodiscard]] Status write_recovered(const Legacy& legacy, std::span<const std::byte> memory);
  void load(log::CheckpointReader& checkpoint, Legacy& legacy, std::span<std::byte> memory,
            const PrepareMemory& prepare, memory::Allocator& allocator);
  void check_own(GlobalAddress address, std::uint64_t bytes, log::Sequence sequence) const;
  template <bool kReserved>
  Result<log::Sequence> note_write_by(Writer& writer, const Place& place, GlobalAddress at,
                                      std::span<const std::byte> bytes);
  [[nodiscard]] std::atomic<log::Sequence>& last_of(GlobalAddress line, std::uint32_t slot) const noexcept;
  static constexpr std::uint8_t kInGrains = 1;    // flag of an allocation: for a region
  static constexpr std::uint8_t kForAnother = 1;  // flag of a write: its last 16 bytes say for whose call
  log::Sequence append(const log::RecordHead& head, std::span<const std::byte> payload);
  template <bool kReserved>
  Status note_image_once(Writer& writer, const Place& place);
  void replay_write(const log::Part& write, log::Sequence sequence, Legacy& legacy, std::span<std::byte> memory);
  void replay(const log::Record& record, Legacy& legacy, std::span<std::byte> memory, memory::Allocator& allocator);

  const LogMode mode_;
  const NodeId self_;
  const std::uint32_t line_bytes_;
  const std::uint64_t memory_bytes_;
  const std::uint64_t log_bytes_;
  const std::uint32_t largest_line_;  // that this node can have, or more
  const std::uint64_t batch_bytes_;   // that the engine logs for one batch of messages, at most
  const std::uint64_t images_bytes_;  // that a checkpoint logs anew of other nodes' lines, at most; kept for it
  base::Host& host_;
  std::unique_ptr<storage::Disk> disk_;
  std::unique_ptr<log::Log> log_;
  std::unique_ptr<log::CheckpointWriter> checkpoint_;
  std::unique_ptr<Writer> engine_;            // of who holds the engine lock
  std::unique_ptr<log::GroupCommit> commit_;  // in mode power
  OnLost on_lost_;
  bool is_lost_ = false;  // under the engine lock
  const bool recover_after_reboot_;
  bool has_past_ = false;  // a log or a checkpoint was recovered
  LogMode past_mode_ = LogMode::kOff;
  bool replaces_ = false;         // and is in a checkpoint that needs no log
  std::uint64_t generation_ = 0;  // of the last log that a process before has had
  std::uint32_t epoch_ = 0;
  log::Sequence highest_ = 0;  // that a process before has used
  mutable std::vector<SlotMark> slots_;
  mutable memory::ZeroedArray<std::uint64_t> last_;  // of each of the heap's lines here; as atomics
  memory::ZeroedArray<std::uint64_t> dirty_;         // a bit a page; as atomics
  Legacy now_;  // regions, names, peers and answers, as the next checkpoint has them
};

}  // namespace atoll::runtime
