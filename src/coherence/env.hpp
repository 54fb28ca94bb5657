// What the coherence core asks of the world around it. The runtime, the explorer and the simulator each
// give their own; the core runs the same code in all of them.
#pragma once

#include "atoll/status.hpp"
#include "base/check.hpp"
#include "coherence/types.hpp"

namespace atoll::coherence {

/// Thread-safety: the core calls these from whoever called it, one at a time.
class Env {
 public:
  virtual ~Env() = default;
  [[nodiscard]] virtual NodeId self() const noexcept = 0;
  [[nodiscard]] virtual NodeId nodes() const noexcept = 0;

  /// The record of waiting work, made when there is none.
  virtual Cold& cold(const LineRef& ref) = 0;
  [[nodiscard]] virtual Cold* find_cold(const LineRef& ref) noexcept = 0;
  virtual void drop_cold(const LineRef& ref) noexcept = 0;

  /// Messages to one node arrive in the order sent; the core relies on that and on nothing else. In a logged cluster a
  /// message to a dead node is lost, what is for a line of a home that is back is dropped until home_back() of that
  /// line, and a request (GetShared, GetExclusive, Upgrade) until the home is open: home_open() makes the core ask
  /// again.
  virtual void send(const LineRef& ref, NodeId to, const Message& message) = 0;
  /// Writes the line into `to`'s slot, then sends.
  virtual void send_line(const LineRef& ref, NodeId to, std::uint32_t slot, const Message& message) = 0;
  /// Writes the line into its home's memory, then sends to the home.
  virtual void send_home(const LineRef& ref, const Message& message) = 0;

  /// Sends a write that the home is asked to do, with its bytes.
  virtual void send_write(const LineRef& ref, const Op& op, const Message& message) = 0;

  /// Returns when no thread of this node writes the line beyond what its access now allows, and what is read beyond it
  /// from now on is not believed.
  virtual void quiesce(const LineRef& ref) = 0;
  /// A cache slot for the line's data; false when there is none now (the line is pursued again later).
  [[nodiscard]] virtual bool take_slot(const LineRef& ref) = 0;
  virtual void release_slot(const LineRef& ref) noexcept = 0;
  /// Ownership is about to move: what recovery needs must be durable when this returns. In a logged cluster the entry's
  /// `transfers` is the new owner's tenure; kNoNode: the owner has left no trace, and the home's own tenure begins.
  virtual void log_transfer(const LineRef& ref, NodeId owner) = 0;

  /// Does a read, write or atomic on the line's data. The permission is there.
  virtual void perform(const LineRef& ref, Op& op) = 0;
  /// At the home: does the write that came with the message, which is the one that is being received.
  virtual void perform_for(const LineRef& ref, const Message& message) = 0;
  /// The slot becomes one without operands, of the operator that the line says.
  virtual void clear_operands(const LineRef& ref) = 0;
  /// At the home: combines the operands in the sender's slot, which it keeps as they are until it is answered, with the
  /// line's data.
  virtual void merge(const LineRef& ref, const Message& message) = 0;
  /// The operation is done (or a try refused); it is in no queue any more.
  virtual void complete(const LineRef& ref, Op& op, Errc result) = 0;

  // ---- lines that have a file, at their home (docs/files.md)

  /// Begins to read the line from its file into the home's memory; Protocol::loaded() ends that, later.
  virtual void load(const LineRef& /*ref*/) { base::check_failed("a line to load", __FILE__, __LINE__); }
  /// Which of the sharers to ask for its copy; kNoNode: the file is nearer. (The file always has the line then.)
  [[nodiscard]] virtual NodeId sharer_to_ask(const LineRef& /*ref*/) { return kNoNode; }
  /// The home's memory has the line's bytes from now on, or need not keep them.
  virtual void note_held(const LineRef& /*ref*/, bool /*held*/) {}

  // ---- logged clusters, of up to 64 nodes; where nothing is logged none of these is asked for more than the defaults

  /// Is what is written logged, so that a node that dies can come back? The same for all nodes, and for ever.
  [[nodiscard]] virtual bool is_logged() const noexcept { return false; }
  /// The tenure of a line of another home that has a slot here.
  virtual std::uint64_t& tenure(const LineRef& /*ref*/) { base::check_failed("a tenure", __FILE__, __LINE__); }
  /// At the home: fetches the line from the sender's slot (message.slot), which stays as it is until PutAck, into the
  /// home's memory, and logs an image of it, of the tenure message.tenure + 1.
  virtual void take_home(const LineRef& /*ref*/, const Message& /*message*/) {
    base::check_failed("a line to take home", __FILE__, __LINE__);
  }
  /// Sends when all that this node has logged so far is durable. Later messages may overtake it; a death of the
  /// receiver is the end of it.
  virtual void send_settled(const LineRef& ref, NodeId to, const Message& message) { send(ref, to, message); }
  /// Is all that this node has logged about the line durable? If not, Protocol::unlocked is called when it is.
  [[nodiscard]] virtual bool is_settled(const LineRef& /*ref*/) { return true; }

  /// A peer sent what cannot be; the message was dropped and nothing changed.
  virtual void fault(const LineRef& ref, const Message& message, const char* why) = 0;
  /// An invariant does not hold: a bug of ours.
  virtual void broken(const LineRef& ref, const char* what) = 0;
};

}  // namespace atoll::coherence
