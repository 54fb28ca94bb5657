// How a node reaches its peers: what each of them brought, and the fabric between them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "atoll/detail/line.hpp"
#include "cluster/membership.hpp"
#include "fabric/fabric.hpp"
#include "memory/segment.hpp"
#include "metrics/counters.hpp"

namespace atoll::runtime {

/// What a node brought into the cluster.
struct Brought {
  std::uint64_t memory_bytes = 0;
  std::uint32_t cache_slots = 0;
  std::uint64_t file_bytes = 0;  // the last part of the memory
  bool alive = true;             // as in cluster::Peer, of which connect tells
  std::uint32_t epoch = 1;       // the same
};

/// A node's memory where this process can read it, with the records that say when it may. A node that dies and comes
/// back brings a new segment, laid out as its last one was: one pointer tells both places.
///
/// Thread-safety: `look` by any thread at any time, the rest by one thread at a time.
class HomeView {
 public:
  struct Places {
    const std::byte* memory = nullptr;  // null while the node is not to be read
    const detail::Line* lines = nullptr;
  };
  /// Both places of one life of the node. They stay readable when the view is hidden or shows a later life: who has
  /// looked may go on, and finds what was there when it looked.
  [[nodiscard]] Places look() const noexcept {
    const std::byte* const memory = memory_.load(std::memory_order_acquire);
    if (memory == nullptr) return {};
    return {memory, reinterpret_cast<const detail::Line*>(memory - lines_before_)};
  }
  /// REQUIRES: the distance between the two is what it was the first time.
  void show(const memory::Segment& segment) noexcept {
    const std::ptrdiff_t before = segment.memory() - reinterpret_cast<const std::byte*>(segment.lines());
    if (lines_before_ != before) lines_before_ = before;  // nobody can have looked yet
    memory_.store(segment.memory(), std::memory_order_release);
  }
  void hide() noexcept { memory_.store(nullptr, std::memory_order_seq_cst); }

 private:
  std::atomic<const std::byte*> memory_{nullptr};
  std::ptrdiff_t lines_before_ = 0;  // how far before the memory the records begin
};

/// Thread-safety: `connect` and `make_fabric` once each, in this order, by the thread that joins; `free_bytes` and what
/// `views` gives by any. The others say so themselves.
///
/// A node that dies is forgotten by the fabric and its view is hidden. When it is back as a new process, `prepare` and
/// `readmit` make this node reach that one, and its view is shown again when it has recovered. Nothing of the former
/// life comes through: neither what it has sent nor what was sent to it.
class Transport {
 public:
  virtual ~Transport() = default;
  /// Shows this node's segment to the others and waits for theirs. What each brought, this node included; of a node
  /// that is dead at this time, what the membership knows of its last life, or nothing ({0, 0}). Throws Error.
  [[nodiscard]] virtual std::vector<Brought> connect(const memory::Segment& segment, cluster::Membership& membership,
                                                     cluster::Events events) = 0;
  /// Throws Error: a peer that cannot be reached. `is_dead`: which of them need not be reached any more. The fabric
  /// must not outlive the transport. Who was dead when this node joined is as if it were forgotten.
  [[nodiscard]] virtual std::unique_ptr<fabric::Fabric> make_fabric(metrics::Counters& counters,
                                                                    fabric::Upcalls upcalls,
                                                                    const std::function<bool(NodeId)>& is_dead) = 0;

  /// A node that died is back: finds its new process, maps its segment or takes its address. The slow part of its
  /// return, without the engine lock; one at a time. What it brought, which must be what it brought in its last life,
  /// if that is known. Throws Error: nothing has changed then. REQUIRES: make_fabric has returned; the engine has
  /// forgotten the peer, or does so before `readmit`.
  [[nodiscard]] virtual Brought prepare(const cluster::Peer& peer) = 0;
  /// The quick part, under the engine lock: from here on the fabric reaches the new process, and takes in what it
  /// sends. The peer must send nothing before (the membership sees to it). Its view stays hidden. REQUIRES: prepared.
  virtual void readmit(NodeId peer) noexcept = 0;
  /// Under the engine lock. Reads in place of the node's memory stop (those that have begun end by themselves), or may
  /// begin (nothing happens where the node's memory cannot be read).
  virtual void hide_view(NodeId node) noexcept = 0;
  virtual void show_view(NodeId node) noexcept = 0;

  /// What a node has said last; it may be less by now.
  [[nodiscard]] virtual std::uint64_t free_bytes(NodeId node) const noexcept = 0;
  /// What can be read of each node's memory without asking it; empty where nothing ever can. REQUIRES: connected.
  /// Stands as long as the transport does. At first all are shown that can be.
  [[nodiscard]] virtual std::span<const HomeView> views() const noexcept = 0;
  /// For the log: which it is and why it was chosen.
  [[nodiscard]] virtual std::string describe() const = 0;
};

/// As `options.transport` says. Processes of one host map each other's segments; over libfabric each writes into the
/// other's registered memory.
[[nodiscard]] std::unique_ptr<Transport> make_transport(const Options& options);

}  // namespace atoll::runtime
