// The coherence protocol of one node: what happens to a line when a thread wants it, a message
// arrives, a lock is released or its slot is needed.
#pragma once

#include <array>
#include <cstdint>

#include "coherence/env.hpp"
#include "coherence/types.hpp"

namespace atoll::coherence {

/// How often each (state, event) was gone through.
struct Coverage {
  std::array<std::array<std::uint64_t, DirTable::kEvents>, DirTable::kStates> directory{};
  std::array<std::array<std::uint64_t, CacheTable::kEvents>, CacheTable::kStates> cache{};
};

/// The tables that a protocol runs on. Tests pass mutated ones to show that the explorer notices.
struct Tables {
  DirTable directory = kDirTable;
  CacheTable cache = kCacheTable;
  Coverage* coverage = nullptr;  // the explorer's; none in production
};

/// Thread-safety: none; the caller holds the node's engine lock. All state is in the line, its directory
/// entry and its record of waiting work, so that a copy of those is a copy of everything.
/// Invariants:
///   1. A line's access byte never allows more than its state does, and nothing in a state that waits. It is raised
///      only for a thread that came for the line: a line that nobody here uses can be given away without a barrier.
///   2. The lock word's waiters bit is set whenever the end of a lock must be told to this class.
///   3. One request per line and node is under way; others of the node wait in the line's queue.
class Protocol {
 public:
  explicit Protocol(Env& env) noexcept : Protocol(env, kDefaultTables) {}
  Protocol(Env& env, const Tables& tables) noexcept : env_(env), tables_(tables) {}

  /// A thread's operation that was not a hit. Completed through Env::complete, perhaps at once.
  void submit(const LineRef& ref, Op& op);
  /// Takes back an operation that has not completed. False: it is not waiting (any more).
  bool cancel(const LineRef& ref, Op& op);
  /// Completes everything that waits at this node for the line with an error. REQUIRES: no request is under way.
  void give_up(const LineRef& ref, Errc why);
  /// A message for this node about the line.
  void receive(const LineRef& ref, const Message& message);
  /// A lock of this node was released and the word said that somebody waits; or the line has settled (Env::is_settled).
  void unlocked(const LineRef& ref);
  /// Gives the line back to its home. False when it is busy or locked.
  bool evict(const LineRef& ref);
  /// Asks for a copy that nobody waits for. False when there is nothing to do or no slot.
  bool read_ahead(const LineRef& ref);
  /// A line of this home: may a thread of it write right now, with nobody else in the way? If so, none takes the line's
  /// lock before wrote_for(). That is to be called either way.
  /// (Of a line that is as filed it is not asked whether; it would have to be soiled.)
  [[nodiscard]] bool may_write_for(const LineRef& ref) {
    return !is_filed(ref) && classify_write(ref) == DirEvent::kWriteHome;
  }
  void wrote_for(const LineRef& ref) { settle(ref); }
  /// Asks again for what waits and could not ask (a slot is free again).
  void pursue(const LineRef& ref);

  // ---- lines that have a file, at their home: stored.cpp

  /// The line will be wanted: fetches it if the home does not have it. False: there is nothing to do.
  bool fetch_home(const LineRef& ref);
  /// What Env::load began has ended.
  void loaded(const LineRef& ref, bool ok);
  /// From now on the line counts as filed, for its bytes, which no thread changes before it has come to this class, are
  /// about to be written to the file. False: a lock forbids it, or the line is not at rest at home. If the writing
  /// fails `soil` takes it back.
  bool file(const LineRef& ref);
  void soil(const LineRef& ref);
  /// The home's memory gives the line up. False: it is busy, locked, or not as its file has it.
  bool drop(const LineRef& ref);
  /// Is it as its file has it (or will have when what was begun is written)?
  [[nodiscard]] static bool is_filed(const LineRef& ref) noexcept { return (ref.directory->flags & kAsFiled) != 0; }

  // ---- logged clusters: deaths and returns, told for each line that they concern

  /// A line of this home: that node has died. Its copies, requests and answers are gone; what it owned is Orphaned.
  void peer_died(const LineRef& ref, NodeId node);
  /// A line of this home: that node has reported all that it has. What it was thought to own, and has not named, is
  /// here.
  void owner_back(const LineRef& ref, NodeId node);
  /// A line of another home, which has died: what it asked is forgotten, as it was by the home.
  void home_died(const LineRef& ref);
  /// That home is back: reports what is here of the line, and returns again what was not acknowledged.
  void home_back(const LineRef& ref);
  /// That home serves requests again: asks (again) for what is wanted here.
  void home_open(const LineRef& ref);
  /// This node is back. A line of its own, as its log has it. REQUIRES: a fresh line; its bytes are restored.
  void restore_home(const LineRef& ref, std::uint64_t transfers, NodeId owner);
  /// This node is back. A line of another home that it had written in that tenure. REQUIRES: a fresh line that has a
  /// slot (Env::take_slot) with its bytes. home_back() then returns it.
  void restore_returning(const LineRef& ref, std::uint64_t tenure);

  /// The access that the line's state gives to threads of this node.
  [[nodiscard]] static std::uint8_t permission(const LineRef& ref) noexcept;
  /// Is that enough for the operation?
  [[nodiscard]] static bool allows(const LineRef& ref, const Op& op) noexcept;
  [[nodiscard]] static bool is_quiet(const LineRef& ref) noexcept;
  /// Lets threads of this node hit the line as far as its state allows.
  static void publish_access(const LineRef& ref) noexcept;

 private:
  static const Tables kDefaultTables;
  struct Outcome {  // what a step asks to be done after the state is set
    bool serve = false;
    bool refuse_try = false;
    bool write_done = false;
    bool write_refused = false;
  };

  // protocol.cpp: the queues of this node's threads
  void submit_try(const LineRef& ref, Op& op);
  void submit_away(const LineRef& ref, Op& op);
  [[nodiscard]] bool can_leave(const LineRef& ref) const noexcept;
  void leave(const LineRef& ref, Op& op);
  void serve(const LineRef& ref, bool granted);
  void refuse_trying(const LineRef& ref);
  void end_write_away(const LineRef& ref, bool done);
  void after(const LineRef& ref, const Outcome& outcome);
  void settle(const LineRef& ref);
  void pursue_operated(const LineRef& ref, const Cold& cold);
  [[nodiscard]] std::uint8_t wanted(const LineRef& ref, const Cold& cold) const noexcept;
  [[nodiscard]] bool others_wait(const LineRef& ref, const Cold& cold) const noexcept;
  [[nodiscard]] bool must_settle(const LineRef& ref, const Op& op);
  void publish(const LineRef& ref);
  void lower_access(const LineRef& ref, std::uint8_t keep, bool wait);

  // directory.cpp: the home's side
  void receive_at_home(const LineRef& ref, const Message& message);
  [[nodiscard]] DirEvent classify(const LineRef& ref, const Message& message, bool replayed, const char** why);
  [[nodiscard]] DirEvent classify_request(const LineRef& ref, const Message& message, bool replayed);
  [[nodiscard]] DirEvent classify_write(const LineRef& ref);
  [[nodiscard]] DirEvent classify_answer(const LineRef& ref, const Message& message, const char** why);
  [[nodiscard]] DirEvent classify_return(const LineRef& ref, const Message& message, const char** why);
  Outcome step(const LineRef& ref, DirEvent event, const Message& message);
  void act(const LineRef& ref, DirAction action, DirState before, const Message& message, Outcome& outcome);
  void remember(DirEntry& entry, const Message& message) const noexcept;
  void tally(const LineRef& ref, const Message& message);
  void refuse(const LineRef& ref, NodeId who, std::uint32_t slot, Outcome& outcome);
  void begin_operated(const LineRef& ref, const Message& message, NodeId subject);
  void invalidate_others(const LineRef& ref);
  void answer_pending(const LineRef& ref, DirState before, Outcome& outcome);
  void run_queue(const LineRef& ref);
  void set_state(const LineRef& ref, DirState state);
  [[nodiscard]] std::uint64_t tenure_for(const DirEntry& entry, NodeId node) const noexcept;
  [[nodiscard]] bool exact() const noexcept { return env_.nodes() <= 64; }
  [[nodiscard]] std::uint64_t bit(NodeId node) const noexcept { return std::uint64_t{1} << (node % 64); }
  [[nodiscard]] std::uint32_t count_others(const DirEntry& entry, NodeId but) const noexcept;

  // stored.cpp: what lines that have a file add to both sides
  void act_stored(const LineRef& ref, DirAction action);
  void fail_waiting(const LineRef& ref);
  [[nodiscard]] bool is_kept_for_home(const LineRef& ref) const noexcept;

  // recovery.cpp: what logged clusters add to both sides
  void act_logged(const LineRef& ref, DirAction action, DirState before, const Message& message, Outcome& outcome);
  void take(const LineRef& ref, const Message& message);
  void resume(const LineRef& ref, DirState before);
  [[nodiscard]] bool settles(const LineRef& ref);
  void happen(const LineRef& ref, DirEvent event, NodeId node);
  void happen(const LineRef& ref, CacheEvent event, const Message& message);

  // cache.cpp: the requester's side
  void receive_at_cache(const LineRef& ref, const Message& message);
  [[nodiscard]] CacheEvent classify_at_cache(const LineRef& ref, const Message& message, const char** why);
  Outcome step(const LineRef& ref, CacheEvent event, const Message& message);
  void act(const LineRef& ref, CacheAction action, const Message& message, Outcome& outcome);
  void return_line(const LineRef& ref, Kind kind, const Message& message);
  void answer_held(const LineRef& ref, Cold& cold);
  void set_state(const LineRef& ref, CacheState state);

  Env& env_;
  const Tables& tables_;
};

}  // namespace atoll::coherence
