// The fabric between hosts: libfabric's reliable datagrams and one-sided writes.
#pragma once

#include <rdma/fi_rma.h>

#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/fd.hpp"
#include "fabric/fabric.hpp"
#include "fabric/ofi/address.hpp"
#include "fabric/ofi/buffers.hpp"
#include "fabric/ofi/endpoint.hpp"
#include "metrics/counters.hpp"

namespace atoll::fabric {

/// What a node says to its fabric when it starts.
struct OfiSetup {
  NodeId self = 0;
  std::uint32_t line_bytes = 0;
  std::uint32_t largest_line_bytes = 0;
  const std::byte* cache = nullptr;              // this node's cache slots
  std::span<std::byte> memory;                   // and its home memory,
  void* memory_descriptor = nullptr;             // as it is registered
  std::uint32_t cookie = 0;                      // as in this node's own address
  std::vector<std::optional<OfiAddress>> peers;  // by node; nothing for those that are not reached this way
};

/// GAM's three channels. *Control*: messages of 64 bytes go by inject when they are alone and as one frame when they
/// are many. *Data*: one-sided writes into the peer's registered memory. *Notice*: the answer to a request for one line
/// is not sent as a message: it is the 32 bits that come with the line (who sent it, and which slot), and the receiver
/// knows the rest.
///
/// One endpoint serves all threads and peers. Buffers are registered beforehand and shared by all peers. Only each
/// r-th operation to a peer asks for a completion; since those of one peer end in their order, it stands for all
/// before.
///
/// See Fabric for threads and invariants. In addition:
///   4. A frame that does not begin with this node's cookie, plus how many frames and notices its sender has sent it
///      before, is not taken: a stranger's is dropped; one that is ahead shows that something was lost on the way (a
///      connection that broke and was made again), and its sender is told apart as broken.
///   5. Lines are copied when they are handed over: the caller may change them at once. Not so large lines of the home
///      memory: their home leaves them as they are until the receiver has answered, as the protocol wants it.
class OfiFabric final : public Fabric {
 public:
  /// Throws Error.
  OfiFabric(Endpoint& endpoint, const OfiSetup& setup, Upcalls upcalls, metrics::Counters& counters);
  /// Ends the endpoint, which uses the buffers that end with this.
  ~OfiFabric() override;
  OfiFabric(const OfiFabric&) = delete;
  OfiFabric& operator=(const OfiFabric&) = delete;

  /// Says hello to all peers and waits for theirs. Throws Error that names who did not answer. `is_dead`: who need not.
  void meet(std::chrono::steady_clock::time_point deadline, const std::function<bool(NodeId)>& is_dead);

  void send(NodeId to, const wire::Message& message) override;
  void write_slot(NodeId to, std::uint32_t slot, std::span<const std::byte> line, bool one_of_many) override;
  void prefetch_slot(NodeId /*to*/, std::uint32_t /*slot*/, std::uint32_t /*bytes*/) noexcept override {}
  void write_home(NodeId to, std::uint64_t offset, std::span<const std::byte> line) override;
  [[nodiscard]] const std::byte* read_slot(NodeId from, std::uint32_t slot, std::uint32_t bytes) override;
  void flush() override;
  [[nodiscard]] bool poll(wire::Message& message, NodeId& from) override;
  [[nodiscard]] bool maybe_pending() const noexcept override;
  [[nodiscard]] bool has_backlog() const noexcept override { return false; }  // wait() comes back soon while there is
  [[nodiscard]] std::size_t queued(NodeId to) const noexcept override { return peers_[to].queue.size(); }
  void wait(std::uint32_t timeout_ms) noexcept override;
  void wake_self() noexcept override;
  void forget(NodeId peer) noexcept override;

  /// For who sleeps on more than this fabric: false means that there is something to do already.
  [[nodiscard]] bool begin_sleep() noexcept;
  void end_sleep() noexcept { sleeping_.store(false, std::memory_order_seq_cst); }
  /// Sleeps until an event, one on `also` included (-1: none), or the time is over. Between begin and end.
  void sleep_until_event(std::uint32_t timeout_ms, int also) noexcept;

 private:
  enum class What : std::uint8_t { kFrame, kWrite, kNotice };
  static constexpr std::size_t kMaxPlaces = 4;
  struct Outgoing {
    What what = What::kFrame;
    TxBuffer* buffer = nullptr;
    std::uint32_t bytes = 0;
    std::uint32_t notice = 0;                   // for kNotice
    std::size_t places = 0;                     // in the peer's memory, for what is no frame:
    std::array<fi_rma_iov, kMaxPlaces> into{};  // the bytes go there one after the other
  };
  struct Peer {
    fi_addr_t handle = FI_ADDR_UNSPEC;
    OfiAddress address;
    bool present = false;                                  // reached this way, and not gone
    bool failed = false;                                   // cannot be sent to; the node is told of it soon
    std::uint32_t frames_sent = 0, frames_credited = 0;    // how many of them it has said to have taken
    std::uint32_t frames_taken = 0, frames_confirmed = 0;  // from it, and how many of them it was told of
    std::uint32_t sent_count = 0;                          // frames and notices, to this peer
    std::uint32_t received_count = 0;                      // and from it
    bool met = false;
    bool touched = false;            // sent to since the last flush, or with a queue
    std::uint32_t staged_count = 0;  // messages that are not issued yet:
    wire::Message staged;            // the first of them,
    TxBuffer* frame = nullptr;       // or all, when there are several
    std::optional<Outgoing> line;    // a line whose message may follow
    std::uint32_t line_slot = 0;
    std::optional<Outgoing> run;  // lines of a stream, one after the other in one buffer
    std::deque<Outgoing> queue;   // what the provider could not take
    TxBuffer* oldest = nullptr;   // issued and perhaps still in use, in this order
    TxBuffer* newest = nullptr;
    std::uint32_t issued = 0;  // how many these are;
    std::uint32_t untold = 0;  // of these, since the last that asked for its completion,
    std::uint32_t untold_bytes = 0;
  };
  struct Arrived {
    RxBuffer* frame = nullptr;  // or a notice:
    std::uint32_t notice = 0;
  };

  // Out.
  void touch(NodeId to);
  void wake_sleeper() noexcept;
  [[nodiscard]] wire::Message& open_message(Peer& peer) noexcept;
  void stage(NodeId to, const wire::Message& message);
  void issue_staged(Peer& peer, NodeId to);
  void issue_line(Peer& peer);
  void issue(Peer& peer, const Outgoing& out);
  [[nodiscard]] bool post(Peer& peer, const Outgoing& out);
  void drain(Peer& peer);
  void write(NodeId to, std::uint64_t at, std::span<const std::byte> bytes);
  [[nodiscard]] bool is_open(NodeId to) const noexcept { return peers_[to].present && !peers_[to].failed; }
  [[nodiscard]] TxBuffer* take_buffer(NodeId to, TxPool& pool) noexcept;
  void fail(NodeId peer, int error);
  [[nodiscard]] bool has_window(const Peer& peer) const noexcept {
    return peer.frames_sent - peer.frames_credited < window_;
  }
  [[nodiscard]] bool inject(Peer& peer, wire::Message& message) noexcept;
  void confirm_frames(Peer& peer) noexcept;
  void flush_out();
  [[nodiscard]] std::optional<Outgoing> in_place(NodeId to, std::uint64_t at, std::span<const std::byte> line);
  [[nodiscard]] bool stays(std::span<const std::byte> line) const noexcept;
  [[nodiscard]] std::optional<Outgoing> copied(NodeId to, std::uint64_t at, std::span<const std::byte> bytes,
                                               TxPool& pool);
  void gather(NodeId to, std::uint64_t at, std::span<const std::byte> line);
  void issue_run(Peer& peer);
  void send_operands(NodeId to, const wire::Message& message);
  [[nodiscard]] TxPool& pool_for(std::size_t bytes) noexcept;
  void release_until(TxBuffer& last) noexcept;
  void report_broken();
  [[nodiscard]] std::optional<std::uint32_t> notice_of(NodeId to, const wire::Message& message,
                                                       std::uint32_t slot) const noexcept;

  // In.
  void listen(RxBuffer& buffer);
  [[nodiscard]] bool read_queue();
  void admit(RxBuffer& buffer);
  void finish(RxBuffer& buffer, NodeId from);
  void admit_notice(std::uint32_t notice);
  [[nodiscard]] bool is_next_of(NodeId from, std::uint32_t number);
  void read_error();
  [[nodiscard]] bool take(wire::Message& message, NodeId& from);
  void take_operands(const RxBuffer& buffer, const wire::Message& header);
  [[nodiscard]] bool has_operands(const wire::Message& message) const;

  Endpoint& endpoint_;
  const NodeId self_;
  const std::uint32_t line_bytes_, largest_line_bytes_, cookie_;
  const std::size_t most_places_;  // that one write may reach
  const std::uint32_t window_;     // see frame_window
  const std::uint32_t receives_;
  const std::byte* const cache_;
  const std::span<std::byte> memory_;
  void* const memory_descriptor_;
  const Upcalls upcalls_;
  metrics::Counters& counters_;
  base::Fd wake_;
  TxPool small_, large_, elsewhere_;
  RegisteredPages rx_pages_;
  std::unique_ptr<RxBuffer[]> rx_;
  std::vector<RxBuffer*> deaf_;  // that the provider could not take yet
  std::vector<Peer> peers_;
  std::vector<NodeId> touched_;
  std::deque<Arrived> arrived_;
  RxBuffer* current_ = nullptr;                                         // whose messages are taken out
  std::uint32_t at_ = 0;                                                // the next of them
  std::unordered_map<std::uint64_t, std::vector<std::byte>> operands_;  // by sender and slot
  std::vector<std::uint64_t> merged_;                                   // of these, since the last flush
  std::uint64_t strangers_ = 0;                                         // frames without the cookie
  std::vector<std::pair<NodeId, int>> broken_;                          // who cannot be reached, and why; not told yet
  std::atomic<bool> stalled_{false};   // something waits that no event may tell of: sleep shortly
  std::atomic<bool> holds_{false};     // messages that were received and not polled yet
  std::atomic<bool> sleeping_{false};  // the service thread is about to sleep, or does
  std::atomic<std::int64_t> polled_at_ns_{0};
};

}  // namespace atoll::fabric
