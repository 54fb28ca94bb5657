// What engines without coherent memory have between their nodes, on one machine: each brings memory that all map, so
// that a one-sided read or write is a load or a store; and rings of messages, written one-sidedly into the receiver's
// memory, with a place in the asker's memory for each answer.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "atoll/node.hpp"
#include "base/backoff.hpp"
#include "base/host.hpp"
#include "memory/segment.hpp"

namespace atoll::bench::tpcc {

struct PeersOptions {
  std::string name = "peers";             // another one for each engine of a cluster
  std::uint64_t memory_bytes = 64 << 20;  // that this node brings, without rings. Only what is used is taken
  unsigned threads = 8;                   // of a node, at the same time. The same on all nodes
  std::uint32_t ring_bytes = 64 << 10;    // for messages of one thread to one node: a power of two. The same on all
  std::uint32_t answer_bytes = 4 << 10;   // the largest answer. The same on all
  std::chrono::milliseconds deadline = std::chrono::seconds(60);  // of a wait for an answer, or for room
};

/// Who has asked, and so where the answer goes: kept, it can be answered later, by any thread of the node asked.
struct Call {
  NodeId asker = 0;
  std::uint16_t thread = 0;  // of the asker
  std::uint32_t number = 0;  // 0: no answer is wanted
};

/// What a node does with messages.
class PeerHandler {
 public:
  virtual ~PeerHandler() = default;
  /// Those of one thread come in their order and one at a time, those of several at the same time: on whichever thread
  /// of the node looks. It must neither wait nor send; it may answer, at once or later (Peers::answer).
  virtual void handle(const Call& call, std::span<const std::byte> message) noexcept = 0;
};

/// This node's side of the connections to all others.
///
/// A thread composes a message in the receiver's memory (`compose`) and hands it over (`post`, `ask`); it may have one
/// question at a time to each node, and to several nodes at once (`await`). Who waits serves what comes in meanwhile,
/// so that no two wait for each other; who works long should `poll`. When no thread of a node has polled for a while
/// a thread of its own takes over: a node is served also when its workers are done.
///
/// Thread-safety: every method may be called from any thread; a thread has a place of its own from its first message
/// to its end.
/// Invariants:
///   1. A thread's messages to a node are handled in the order in which they were handed over.
///   2. No wait is for ever: it ends with kNodeDied when the other node is gone, with kDeadline when the time is over.
///      After that the thread is told the same when it turns to that node again.
///   3. There is always room for an answer, so that who answers never waits.
/// Nobody sends to a node whose Peers is destroyed: there is a barrier before.
class Peers {
 public:
  /// All nodes together. Throws Error.
  Peers(Node& node, const PeersOptions& options);
  ~Peers();
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  /// All nodes together: from now on messages are handled. Throws Error.
  void start(PeerHandler& handler);

  [[nodiscard]] NodeId id() const noexcept { return self_; }
  [[nodiscard]] NodeId count() const noexcept { return count_; }
  /// The memory that a node brings, as this process sees it; zeros at first.
  [[nodiscard]] std::span<std::byte> memory(NodeId node) const noexcept { return maps_[node].memory; }
  /// Has huge pages made for a part of this node's own memory that is about to be used. A hint.
  void join_pages(std::span<const std::byte> part) noexcept;

  /// The calling thread's place among `threads`, for what an engine keeps for each. kOutOfMemory: all are taken.
  [[nodiscard]] Result<unsigned> thread() noexcept;
  [[nodiscard]] unsigned threads() const noexcept { return options_.threads; }
  [[nodiscard]] std::uint32_t largest_message() const noexcept { return options_.ring_bytes / 2 - kLine; }

  // `thread` is always the caller's own.

  /// Room for a message, which stands there aligned to 8; waits for it. REQUIRES: to != id(), bytes <=
  /// largest_message().
  [[nodiscard]] Result<std::span<std::byte>> compose(unsigned thread, NodeId to, std::uint32_t bytes) noexcept;
  /// Hands over the first so many bytes of what was composed.
  void post(unsigned thread, NodeId to, std::uint32_t bytes) noexcept { hand_over(thread, to, bytes, 0); }
  void ask(unsigned thread, NodeId to, std::uint32_t bytes) noexcept;
  /// The answer, which is there until the next question to that node.
  [[nodiscard]] Result<std::span<const std::byte>> await(unsigned thread, NodeId from) noexcept;
  /// Is it there already? (It must be awaited all the same.)
  [[nodiscard]] bool has_answer(unsigned thread, NodeId from) const noexcept;

  /// Where the answer is written, and that so many bytes of it have been.
  [[nodiscard]] std::span<std::byte> room_for_answer(const Call& call) const noexcept;
  void answer(const Call& call, std::uint32_t bytes) noexcept;

  /// Handles what has come, if anything; true if there was something. Costs next to nothing if not.
  bool poll(unsigned thread) noexcept {
    std::atomic<std::uint64_t>& polls = ports_[thread].polls;
    polls.store(polls.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return has_mail() && drain_all();
  }
  /// kNodeDied: a node is gone, and it may be in vain to try anything again.
  [[nodiscard]] Status all_here() const noexcept;

 private:
  static constexpr std::uint32_t kLine = 64;
  static constexpr std::uint32_t kSkip = UINT32_MAX;  // as a size: the rest of the ring is not used
  struct Bell;                                        // at the beginning of a node's memory
  struct Announced;                                   // what nodes tell each other at first
  struct MessageHead {
    std::uint32_t bytes = 0;
    std::uint32_t number = 0;  // of the call
  };
  struct AnswerHead {
    std::atomic<std::uint32_t> number{0};  // of the call that it answers
    std::uint32_t bytes = 0;
  };
  /// A node's memory, mapped.
  struct Map {
    memory::Segment segment;
    std::byte* base = nullptr;
    std::span<std::byte> memory;  // the engine's
  };
  /// What a thread knows of its connection to a node.
  struct Line {
    std::uint64_t sent = 0;  // bytes of the ring
    std::uint64_t seen = 0;  // of which have been handled, when it was last looked at
    std::uint32_t number = 0;
    std::uint32_t composed = 0;  // bytes, of them unused at the end of the ring:
    std::uint32_t skipped = 0;
    Status broken;
  };
  struct alignas(kLine) Port {
    std::atomic<std::uint64_t> polls{0};  // so that the service thread sees that somebody does
    base::Backoff::Learned learned;
    std::vector<Line> lines;  // by node
  };
  struct Places;  // of threads
  struct Leases;  // that a thread has

  // Where things are in a node's memory: heads and tails of its rings, 8 bytes each, those of one sender together.
  [[nodiscard]] std::atomic<std::uint64_t>& tail(NodeId receiver, NodeId sender, unsigned thread) const noexcept;
  [[nodiscard]] std::atomic<std::uint64_t>& head(NodeId receiver, NodeId sender, unsigned thread) const noexcept;
  [[nodiscard]] std::byte* ring(NodeId receiver, NodeId sender, unsigned thread) const noexcept;
  [[nodiscard]] AnswerHead& answer_head(NodeId asker, unsigned thread, NodeId asked) const noexcept;
  [[nodiscard]] Bell& bell(NodeId node) const noexcept;
  [[nodiscard]] std::uint64_t counters_bytes() const noexcept;  // the tails of one sender, or the heads

  void lay_out();
  void connect();
  [[nodiscard]] memory::Segment open_peer(NodeId peer, const Announced& announced) const;
  void hand_over(unsigned thread, NodeId to, std::uint32_t bytes, std::uint32_t number) noexcept;
  void wake(NodeId node) noexcept;
  [[nodiscard]] Status why_to_give_up(const base::Backoff& backoff, NodeId on) const noexcept;
  template <typename Done>
  [[nodiscard]] Status wait(unsigned thread, NodeId on, Done done) noexcept;
  template <typename Done>
  void sleep(std::uint64_t most_us, Done done) noexcept;
  [[nodiscard]] bool has_mail() const noexcept;
  bool drain_all() noexcept;
  bool drain(NodeId from, unsigned thread) noexcept;
  void serve_forever() noexcept;
  void serve_alone(std::uint64_t polls_seen) noexcept;
  [[nodiscard]] std::uint64_t all_polls() const noexcept;

  Node& node_;
  const PeersOptions options_;
  const NodeId self_, count_;
  std::uint64_t rings_at_ = 0, answers_at_ = 0, memory_at_ = 0;  // in a node's memory
  std::uint32_t answer_stride_ = 0;
  std::vector<Map> maps_;  // by node
  std::vector<Port> ports_;
  std::vector<std::atomic<std::uint32_t>> draining_;  // by ring: does a thread handle its messages?
  std::shared_ptr<Places> places_;
  PeerHandler* handler_ = nullptr;
  std::atomic<std::uint32_t> stopping_{0};
  std::unique_ptr<base::Host::Thread> service_;
};

inline std::uint64_t Peers::counters_bytes() const noexcept {
  return (options_.threads * sizeof(std::uint64_t) + kLine - 1) / kLine * kLine;
}

inline std::atomic<std::uint64_t>& Peers::tail(NodeId receiver, NodeId sender, unsigned thread) const noexcept {
  std::byte* const at = maps_[receiver].base + 2 * kLine + counters_bytes() * sender;
  return reinterpret_cast<std::atomic<std::uint64_t>*>(at)[thread];
}

inline std::atomic<std::uint64_t>& Peers::head(NodeId receiver, NodeId sender, unsigned thread) const noexcept {
  std::byte* const at = maps_[receiver].base + 2 * kLine + counters_bytes() * (std::uint64_t{count_} + sender);
  return reinterpret_cast<std::atomic<std::uint64_t>*>(at)[thread];
}

/// Looks at a line or two for each other node, which stay in the processor's cache while nothing comes.
inline bool Peers::has_mail() const noexcept {
  for (NodeId from = 0; from < count_; ++from) {
    if (from == self_) continue;
    const std::atomic<std::uint64_t>* const tails = &tail(self_, from, 0);
    const std::atomic<std::uint64_t>* const heads = &head(self_, from, 0);
    for (unsigned thread = 0; thread < options_.threads; ++thread) {
      if (tails[thread].load(std::memory_order_relaxed) != heads[thread].load(std::memory_order_relaxed)) return true;
    }
  }
  return false;
}

}  // namespace atoll::bench::tpcc
