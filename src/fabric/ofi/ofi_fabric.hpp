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

/// A peer's new process that the endpoint knows already, and the fabric does not.
struct Introduced {
  OfiAddress address;
  fi_addr_t handle = FI_ADDR_UNSPEC;
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
///   4. A frame that does not begin with the number that both cookies give (`first_number`), plus how many frames and
///      notices its sender has sent before, is not taken: a stranger's, or one of a peer's last life, is dropped; one
///      that is ahead shows that something was lost on the way (a connection that broke and was made again), and its
///      sender is told apart as broken. A notice has no number. It is taken only of a peer whose greeting has come,
///      and what the last life of a peer has sent is taken out, and dropped, before the next one is greeted.
///   5. Lines are copied when they are handed over: the caller may change them at once. Not so large lines of the home
///      memory: their home leaves them as they are until the receiver has answered, as the protocol wants it.
///   6. A completion of what was sent to a peer's last life releases its own buffer, and those sent before it, and
///      says nothing of the peer. Those that nothing was said of are taken back when the peer comes back once more.
class OfiFabric final : public Fabric {
 public:
  /// Throws Error.
  OfiFabric(Endpoint& endpoint, const OfiSetup& setup, Upcalls upcalls, metrics::Counters& counters);
  /// Ends the endpoint, which uses the buffers that end with this.
  ~OfiFabric() override;
  OfiFabric(const OfiFabric&) = delete;
  OfiFabric& operator=(const OfiFabric&) = delete;

  /// Says hello to all peers and waits for theirs. Throws Error that names who did not answer. `is_dead`: who need not.
  /// Peers that have met their others already, and were told of this node, greet it when they readmit it.
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
  /// A peer's new process becomes known to the endpoint. By any thread. Throws Error.
  [[nodiscard]] Introduced introduce(NodeId peer, const OfiAddress& address);
  /// It is not wanted after all. By any thread.
  void withdraw(const Introduced& introduced) noexcept { endpoint_.remove_peer(introduced.handle); }
  /// A peer that is gone, or never was reached this way, is reached there: it is greeted, and all that is counted
  /// between the two begins anew. Under the engine lock. REQUIRES: the new process sends nothing before this is done.
  void readmit(NodeId peer, const Introduced& introduced) noexcept;

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
  /// What was issued to a peer and is perhaps still in use, in this order.
  struct Issued {
    TxBuffer* oldest = nullptr;
    TxBuffer* newest = nullptr;
    std::uint32_t count = 0;
    void append(TxBuffer& buffer) noexcept;
  };
  struct Peer {
    fi_addr_t handle = FI_ADDR_UNSPEC;
    OfiAddress address;
    bool present = false;                                  // reached this way, and not gone
    bool failed = false;                                   // cannot be sent to; the node is told of it soon
    std::uint32_t frames_sent = 0, frames_credited = 0;    // how many of them it has said to have taken
    std::uint32_t frames_taken = 0, frames_confirmed = 0;  // from it, and how many of them it was told of
    std::uint32_t next_sent = 0;                           // the number of the next frame or notice to this peer,
    std::uint32_t next_received = 0;                       // and from it
    bool met = false;
    bool touched = false;            // sent to since the last flush, or with a queue
    std::uint32_t staged_count = 0;  // messages that are not issued yet:
    wire::Message staged;            // the first of them,
    TxBuffer* frame = nullptr;       // or all, when there are several
    std::optional<Outgoing> line;    // a line whose message may follow
    std::uint32_t line_slot = 0;
    std::optional<Outgoing> run;  // lines of a stream, one after the other in one buffer
    std::deque<Outgoing> queue;   // what the provider could not take
    Issued issued;
    Issued last_life;          // the same of its last process, which is gone
    std::uint32_t untold = 0;  // of those issued, since the last that asked for its completion,
    std::uint32_t untold_bytes = 0;
  };
  struct Arrived {
    RxBuffer* frame = nullptr;  // or a notice:
    std::uint32_t notice = 0;
  };

  // Peers.
  void present(NodeId node, const Introduced& introduced);
  void greet(NodeId node);
  void drop_arrived(NodeId from);

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
  void send_lines(NodeId to, const wire::Message& message);
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
  void take_line(const RxBuffer& buffer, const wire::Message& header);
  [[nodiscard]] bool has_lines(const wire::Message& message) const;

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
  RxBuffer* current_ = nullptr;  // whose messages are taken out
  std::uint32_t at_ = 0;         // the next of them
  // Lines that came before the message that brings them, by sender and slot. Those that nobody fetches stay until the
  // slot's next line comes or the sender is gone, so they are no more than its cache.
  std::unordered_map<std::uint64_t, std::vector<std::byte>> lines_;
  std::vector<std::uint64_t> fetched_;          // of these, since the last flush
  std::uint64_t strangers_ = 0;                 // frames without the cookie
  std::vector<std::pair<NodeId, int>> broken_;  // who cannot be reached, and why; not told yet
  std::atomic<bool> stalled_{false};            // something waits that no event may tell of: sleep shortly
  std::atomic<bool> holds_{false};              // messages that were received and not polled yet
  std::atomic<bool> sleeping_{false};           // the service thread is about to sleep, or does
  std::atomic<std::int64_t> polled_at_ns_{0};
};

}  // namespace atoll::fabric
