// A node's membership: how it joins, whom it joins with, and what it learns of them afterwards.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "atoll/address.hpp"
#include "atoll/options.hpp"
#include "atoll/status.hpp"
#include "base/fd.hpp"

namespace atoll::cluster {

/// What a node shows its peers, so that they can reach it.
struct Offer {
  const base::Fd& segment;  // for those on the same host
  std::string address;      // printable text, up to kMaxAddressBytes: where its fabric listens, if it does
};

struct Peer {
  NodeId id = 0;
  int pid = 0;          // on its own host
  base::Fd segment;     // the peer's memfd; invalid for this node itself, and for a peer on another host
  std::string address;  // as it offered it
  // What it brought, as its segment has it: known of this node itself and of peers on other hosts too.
  std::uint64_t memory_bytes = 0;
  std::uint64_t cache_bytes = 0;
  std::uint32_t line_bytes = 0;
  /// False: its process has ended, or was declared out, and no other has taken its place yet; `id` is all that is
  /// known. It comes through Events::on_return. Only where dead nodes may come back.
  bool alive = true;
  /// The epoch in which its present process was let in. Of two peers each knows both, this node's own from its entry in
  /// what `exchange` returns; the larger of them is a number that they both have for what is between them, and that
  /// neither has had with a process before.
  std::uint32_t epoch = 1;
};

/// Whether this node may touch memory and send (docs/membership.md).
enum class Standing : std::uint8_t {
  kActive,
  kSuspended,  // it does not know whether it is still in, and waits to be told
  kFenced,     // the others went on without it; for ever
};

/// What the rest of the node wants to know. Called from the membership's own thread, in the order of what happened.
///
/// Where dead nodes may come back: between two `on_return` of a node there is an `on_death`, and between two `on_death`
/// an `on_return`. A process that died again before this node heard of it is never told of. A newcomer may act when
/// every other node that is in has returned from `on_return` (or had it from `exchange`), and not before.
struct Events {
  std::function<void(NodeId node, const std::string& why)> on_death;
  std::function<void()> on_master_lost;
  std::function<void(Standing standing, const std::string& why)> on_standing;
  /// Another process has taken the place of `peer.id`, which was dead; it was let in in this epoch, which is
  /// `peer.epoch`.
  std::function<void(const Peer& peer, std::uint32_t epoch)> on_return{};
  /// A dead node will not come back: nobody starts it again. After its `on_death`; only where dead nodes may come back.
  std::function<void(NodeId node, const std::string& why)> on_given_up{};
};

/// Thread-safety: every method may be called from any thread.
class Membership {
 public:
  virtual ~Membership() = default;

  /// Joins the cluster named by the environment (ATOLL_MASTER; which node: cluster/environment.hpp), or, when
  /// ATOLL_MASTER is not set, makes a cluster of one. A master at a TCP address (host:port) wants the cluster key
  /// (ATOLL_KEY_FILE or ATOLL_KEY); one on this host is named by its abstract socket. Two steps, because a segment's
  /// layout depends on the number of nodes: `connect` knows id and count, `exchange` trades offers and waits for
  /// everyone. Both throw Error: no such master, refused and why, not all came before `options.join_timeout`.
  static std::unique_ptr<Membership> connect(const Options& options);
  /// In a cluster that runs already (`is_return`) it returns the peers that are in now, and waits for as long as it
  /// takes that all of them know of this node.
  /// REQUIRES: the offered segment is a memory::Segment's; its counters are read from then on, for `atoll status`.
  virtual std::vector<Peer> exchange(const Offer& offer, Events events) = 0;

  [[nodiscard]] virtual NodeId id() const noexcept = 0;
  [[nodiscard]] virtual NodeId count() const noexcept = 0;
  /// Counts the changes of who is in.
  [[nodiscard]] virtual std::uint32_t epoch() const noexcept = 0;
  /// This process takes the place of one that died, in a cluster that runs. Known from `connect` on.
  [[nodiscard]] virtual bool is_return() const noexcept { return false; }
  /// Dead nodes may come back. Without it, dead is for ever. Known from `connect` on.
  [[nodiscard]] virtual bool is_recoverable() const noexcept { return false; }
  /// Until when this node may touch memory and send, on base::Host::coarse_ns; it is asked before every such thing.
  /// `on_standing` tells of it too, but later.
  [[nodiscard]] virtual const std::atomic<std::int64_t>& act_until() const noexcept { return kActForEver; }
  /// How long a lease lasts; 0: there are none.
  [[nodiscard]] virtual std::chrono::nanoseconds lease() const noexcept { return std::chrono::nanoseconds(0); }
  /// A peer that others may reach cannot be reached from this node, or can be again. True: if it goes on, the master
  /// will decide which of the two has to go, and `on_death` will tell. False: there is nobody to decide.
  [[nodiscard]] virtual bool set_reachable(NodeId /*peer*/, bool /*reachable*/) { return false; }
  /// May some of the nodes be on other hosts?
  [[nodiscard]] virtual bool spans_hosts() const noexcept { return false; }
  /// The address of this host that reaches the master.
  [[nodiscard]] virtual std::string local_address() const { return "127.0.0.1"; }

  /// This process is of no more use to the cluster, which is to treat it as one that died. By one whose nodes are other
  /// processes this one is ended, by a signal, so that whoever starts nodes again does it. Returns where there are
  /// none.
  virtual void abandon() noexcept {}

  virtual Status publish(std::string_view name, GlobalAddress address) = 0;
  virtual Result<GlobalAddress> lookup(std::string_view name, std::chrono::milliseconds timeout) = 0;
  /// Says that this node is done, and returns when every other node is done too, or dead for ever.
  virtual void leave() noexcept = 0;

  static constexpr std::int64_t kForEver = std::numeric_limits<std::int64_t>::max();

 private:
  static inline const std::atomic<std::int64_t> kActForEver{kForEver};
};

}  // namespace atoll::cluster
