// The world that the explorer walks: a few nodes, their lines, their threads and the messages between them,
// driven by the real protocol core.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "coherence/env.hpp"
#include "coherence/protocol.hpp"

namespace atoll::explorer {

inline constexpr unsigned kMaxNodes = 4;
inline constexpr unsigned kMaxLines = 2;
inline constexpr unsigned kMaxThreads = 2;

/// What threads do, as bits of a mask.
enum OpsMask : std::uint32_t {
  kOpsRead = 1,
  kOpsWrite = 2,
  kOpsAtomic = 4,
  kOpsLock = 8,
  kOpsTry = 16,
  kOpsEvict = 32,
  kOpsCancel = 64,                                    // a blocked operation is taken back
  kOpsAhead = 128,                                    // a copy is asked for that nobody waits for
  kOpsLeave = 256,                                    // a write is sent to the home
  kOpsOperate = 512,                                  // operands of one of two operators are combined
  kOpsAway = 1024,                                    // a write is for the home, or not done
  kOpsAll = 63 | kOpsLeave | kOpsOperate | kOpsAway,  // those that an application asks for
  kOpsLogged = 63 | kOpsCancel | kOpsAhead,           // those that there are in a logged cluster
};

struct WorldOptions {
  unsigned nodes = 2;
  unsigned lines = 1;
  unsigned threads = 1;
  std::uint32_t ops = kOpsAll;
  unsigned locks_held = kMaxLines;  // at most so many at once by one thread
  const coherence::Tables* tables = nullptr;
  bool logged = false;     // what is written is logged, and a node that has died comes back
  unsigned crashes = 0;    // so many deaths, one node at a time. REQUIRES: logged
  bool late_acks = false;  // what is sent when the log is durable is sent later
  bool power = false;      // what is logged becomes durable later, and a death takes with it what is not
  bool files = false;      // the lines have a file at their home. REQUIRES: not logged
  unsigned failures = 0;   // so many times a file cannot be read, or not be written
};

enum class StepKind : std::uint8_t {
  kDeliver,
  kOperation,
  kUnlock,
  kCancel,
  kEvict,
  kReadAhead,
  kWriteHome,
  kTell,
  kCrash,
  kLearn,      // the node notices that its peer has died
  kReturn,     // the node is back
  kSettle,     // what the node has logged so far is durable
  kFile,       // of the home, by `peer`: the line begins to be written to its file; that has ended well; it has failed
  kDrop,       // the home needs the room
  kFetchHome,  // the home expects that the line will be wanted
  kLoaded,     // the file was read (`peer` is 0), or could not be
};

/// One thing that may happen next. `node` acts; `peer` is the sender of what is delivered.
struct Step {
  StepKind kind = StepKind::kDeliver;
  std::uint8_t node = 0;
  std::uint8_t peer = 0;
  std::uint8_t thread = 0;
  std::uint8_t line = 0;
  coherence::OpKind op = coherence::OpKind::kRead;  // kOperate: by the operator number `peer`
  std::uint8_t ask = 0;  // the so manieth sharer is asked for its copy, should one be asked; 0: the file is nearer

  [[nodiscard]] std::uint16_t pack() const noexcept;
  [[nodiscard]] static Step unpack(std::uint16_t packed) noexcept;
};

/// An operation of a model thread: the thread's blocking one, or its asynchronous write of one line.
struct ModelOp : coherence::Op {
  ModelOp() noexcept : Op(coherence::OpKind::kRead) {}
  std::uint8_t index = 0;  // within its node
  std::uint8_t thread = 0;
  bool pending = false;
  bool performed = false;
};

/// What a slot holds of a line that is operated: nothing yet, operands, or such as the home has taken already.
enum class Operands : std::uint8_t { kNone, kEmpty, kSome, kTaken };

enum class Hold : std::uint8_t { kNone, kRead, kWrite };

struct ModelThread {
  ModelOp blocking;
  std::uint8_t blocking_line = 0;
  std::array<ModelOp, kMaxLines> writes;
  std::array<Hold, kMaxLines> held{};
  std::array<bool, kMaxLines> telling{};  // it has dropped the lock, and not told those who wait yet

  [[nodiscard]] bool is_telling() const noexcept;
  [[nodiscard]] bool writes_pending() const noexcept;
  [[nodiscard]] unsigned locks_held() const noexcept;
};

/// What a node's log says of a line: of its own, the tenure, its owner and the bytes; of another home's, the bytes as
/// the node wrote them last, and in which tenure.
struct ModelLog {
  bool any = false;  // at the home always
  bool fresh = false;
  bool was_fresh = false;  // as ModelLine::was_fresh
  NodeId owner = kNoNode;
  std::uint64_t tenure = 0;
};

/// A line at one node. `fresh` says whether the bytes here (the home's memory, or the slot) are those of the
/// last write in coherence order: a write makes every other copy stale, a copy is as fresh as its source.
/// That is all that comparing values could tell, and no counter can wrap around and hide an old value.
struct ModelLine {
  coherence::Line line;
  coherence::DirEntry entry;
  coherence::Cold cold;
  coherence::LineRef ref;
  bool has_cold = false;
  bool fresh = false;
  Operands operands = Operands::kNone;
  std::uint8_t lingering = 0;  // access that threads may still be using: what was allowed since the last quiesce
  std::uint64_t tenure = 0;    // of the slot
  ModelLog log;
  ModelLog durable;        // what would be left of it
  bool unsettled = false;  // there is more in the log than that
  bool was_fresh = false;  // the same as `fresh`, should the writes be lost that are not durable yet
};

/// What stands in a line's file, and what is under way between it and the home's memory.
struct ModelFile {
  bool fresh = false;    // as ModelLine::fresh
  bool loading = false;  // the core has asked for it
  bool writing = false;  // what stood in memory when it was filed; it stays there until that has ended
  bool held = false;     // the core has said that the home's memory has the line's bytes
};

struct Packet {
  std::uint8_t line = 0;
  coherence::Message message;
};

/// All nodes at one instant.
///
/// What is modelled: a FIFO channel per ordered pair of nodes; data that is written to the receiver's slot (or
/// the home's memory) when it is sent, as through shared memory; threads that each have at most one blocking
/// operation and one asynchronous write per line under way. What is bounded, and nothing else is:
///   - a thread has one asynchronous write per line under way, not many;
///   - a thread that holds a lock waits only for lines above it (lock order; reads and writes wait for locks of
///     other nodes and so count), tries any, writes only under a write lock, and unlocks when its writes are done;
///   - slots never run out; a line's slot has always the same number;
///   - WorldOptions::crashes deaths, and one node is dead at a time. Its peers notice one by one, it comes back when
///   all
///     have, and dies again, or another does, at any point from there on;
///   - WorldOptions::locks_held, when it is less than the lines;
///   - WorldOptions::failures of files, of reading and writing together; a line is written once at a time, and not
///     dropped meanwhile. (That is the runtime's part of the bargain.)
/// A blocking write is an asynchronous one that its thread waits for; it adds no behaviour. A hit is modelled as
/// submit() in a state whose access byte allows it, and must then complete at once and leave nothing behind. A read by
/// the holder of a lock changes nothing; it is the invariant that a holder's copy is current.
///
/// Thread-safety: none.
/// Invariants: those listed with check().
class World final {
 public:
  explicit World(const WorldOptions& options);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  /// Everything idle: each line at its home alone.
  void reset();
  void encode(std::vector<std::uint8_t>& out) const;
  void decode(std::span<const std::uint8_t> bytes);

  /// The steps that may happen now, deliveries first, then unlocks.
  void enumerate(std::vector<Step>& out) const;
  /// Does one. False when it turned out that there is nothing to do (an eviction of what is in use).
  bool apply(const Step& step);
  /// Compares the state with every invariant. The first failure is kept in violation().
  void check();
  /// No message, no wish, no lock.
  [[nodiscard]] bool is_quiet() const noexcept;
  /// Is nothing under way: no message, no death that is not over, nothing that is logged and not durable?
  [[nodiscard]] bool at_rest() const noexcept;

  [[nodiscard]] bool violated() const noexcept { return !violation_.empty(); }
  [[nodiscard]] const std::string& violation() const noexcept { return violation_; }

  /// "node 1 -> node 0: GetExclusive line 0"; to be asked before the step is applied.
  [[nodiscard]] std::string describe(const Step& step) const;
  /// The state of every line at every node, in a few words.
  [[nodiscard]] std::string summary() const;

 private:
  class NodeEnv;
  friend class NodeEnv;
  struct Cursor;

  [[nodiscard]] ModelLine& at(unsigned node, unsigned line) noexcept { return lines_[node * options_.lines + line]; }
  [[nodiscard]] const ModelLine& at(unsigned node, unsigned line) const noexcept {
    return lines_[node * options_.lines + line];
  }
  [[nodiscard]] ModelThread& thread(unsigned node, unsigned index) noexcept {
    return threads_[node * options_.threads + index];
  }
  [[nodiscard]] const ModelThread& thread(unsigned node, unsigned index) const noexcept {
    return threads_[node * options_.threads + index];
  }
  [[nodiscard]] std::deque<Packet>& channel(unsigned from, unsigned to) noexcept {
    return channels_[from * options_.nodes + to];
  }
  [[nodiscard]] const std::deque<Packet>& channel(unsigned from, unsigned to) const noexcept {
    return channels_[from * options_.nodes + to];
  }
  [[nodiscard]] unsigned home_of(unsigned line) const noexcept { return line % options_.nodes; }
  [[nodiscard]] ModelOp& op_at(unsigned node, unsigned index) noexcept;
  void clear_line(unsigned node, unsigned line);
  void clear_thread(ModelThread& thread) noexcept;

  void enumerate_thread(unsigned node, unsigned index, std::vector<Step>& out) const;
  void deliver(unsigned from, unsigned to);
  void operate(const Step& step);
  void unlock(const Step& step);
  void tell(const Step& step);
  void fail(std::string what);

  // world_recovery.cpp: logs, deaths and returns
  [[nodiscard]] bool is_alive(unsigned node) const noexcept { return (dead_ >> node & 1U) == 0; }
  [[nodiscard]] bool is_open(unsigned node) const noexcept { return is_alive(node) && awaits_[node] == 0; }
  [[nodiscard]] bool is_lost(unsigned from, unsigned to, wire::Kind kind) const noexcept;
  void log_write(unsigned node, unsigned line);
  void log_owner(unsigned node, unsigned line, NodeId owner);
  void take_home(unsigned node, unsigned line, const coherence::Message& message);
  void hear(unsigned from, unsigned to, wire::Kind kind);
  void open(unsigned node);
  void crash(unsigned node);
  void lose(unsigned node, unsigned line);
  void learn(unsigned node, unsigned peer);
  void come_back(unsigned node);
  void settle(unsigned node);
  void enumerate_recovery(std::vector<Step>& out) const;

  // world_files.cpp: lines that have a file
  void load(unsigned node, unsigned line);
  [[nodiscard]] NodeId sharer_to_ask(unsigned line) const noexcept;
  void note_held(unsigned node, unsigned line, bool held);
  [[nodiscard]] bool is_absent(unsigned line) const noexcept;
  bool write_file(const Step& step);
  void end_load(const Step& step);
  void enumerate_ends(std::vector<Step>& out) const;
  void enumerate_files(std::vector<Step>& out) const;
  void add_choices(std::vector<Step>& out) const;
  void check_file(unsigned line);
  void encode_files(std::vector<std::uint8_t>& out) const;
  void decode_files(Cursor& in);

  [[nodiscard]] bool lacks_operands(unsigned line) const noexcept;
  [[nodiscard]] bool may_read(unsigned node, unsigned line) const noexcept;
  [[nodiscard]] bool data_under_way(unsigned node, unsigned line) const noexcept;
  [[nodiscard]] bool put_ack_under_way(unsigned node, unsigned line) const noexcept;
  [[nodiscard]] bool return_under_way(unsigned node, unsigned line) const noexcept;
  void check_copies(unsigned line);
  void check_directory(unsigned line);
  void check_known(unsigned node, unsigned line);
  void check_access(unsigned node, unsigned line);
  void check_locks(unsigned line);
  void check_network();

  void gather_tenures(std::vector<std::uint64_t>& out) const;
  void encode_recovery(std::vector<std::uint8_t>& out) const;
  void decode_recovery(Cursor& in);
  void encode_line(unsigned node, unsigned line, std::vector<std::uint8_t>& out) const;
  void encode_thread(const ModelThread& thread, std::vector<std::uint8_t>& out) const;
  void decode_line(unsigned node, unsigned line, Cursor& in);
  void decode_thread(ModelThread& thread, Cursor& in);

  WorldOptions options_;
  std::vector<std::unique_ptr<NodeEnv>> envs_;
  std::vector<coherence::Protocol> protocols_;
  std::deque<ModelLine> lines_;  // neither moves nor copies: they hold atomics
  std::deque<ModelThread> threads_;
  std::vector<std::deque<Packet>> channels_;
  std::array<NodeId, kMaxLines> logged_{};  // in this step: the new owner whose transfer stands in the log
  // Logged worlds. Of sets of nodes, bit n is node n.
  std::vector<std::deque<Packet>> late_;             // per channel: what is sent when its sender's log is durable
  std::uint8_t dead_ = 0;                            // at most one
  unsigned crashes_left_ = 0;                        //
  std::array<std::uint8_t, kMaxNodes> unnoticed_{};  // per node: the dead that it does not know of
  std::array<std::uint8_t, kMaxNodes> awaits_{};  // per node: whose reports it waits for; closed until there are none
  std::array<std::uint8_t, kMaxNodes> opened_{};  // per node: the homes that it may ask
  std::array<NodeId, kMaxLines> tentative_{};     // whose writes of the line are not durable yet
  mutable std::vector<std::uint64_t> tenures_;    // while a state becomes bytes
  // Lines with files.
  std::array<ModelFile, kMaxLines> files_{};  //
  unsigned failures_left_ = 0;                //
  std::uint8_t ask_ = 0;                      // in this step, as Step::ask
  std::string violation_;
};

/// Bytes that are read one after the other.
struct World::Cursor {
  const std::uint8_t* at;
  std::uint8_t next() noexcept { return *at++; }
  coherence::Message message() noexcept;
  std::uint64_t tenure() noexcept { return std::uint64_t{2} * next(); }
};

}  // namespace atoll::explorer
