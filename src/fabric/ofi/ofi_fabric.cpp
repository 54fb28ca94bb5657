// What goes out.
#include "fabric/ofi/ofi_fabric.hpp"

#include <fmt/format.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

#include "base/check.hpp"
#include "base/log.hpp"
#include "base/racy_copy.hpp"
#include "fabric/ofi/frames.hpp"

namespace atoll::fabric {
namespace {

using Clock = std::chrono::steady_clock;
using wire::Kind;
using wire::Message;

constexpr std::uint32_t kLargeBytes = 64 * 1024;  // lines beyond it go in parts
constexpr std::uint32_t kSmallBuffers = 256, kLargeBuffers = 16, kReceives = 256;
constexpr std::uint32_t kMostIssued = 128;  // operations to a peer that are under way; more wait in its queue
constexpr std::uint32_t kWorthNoCopy = 16 * 1024;
constexpr std::uint32_t kTellBytes = 32 * 1024;  // or so many bytes
constexpr std::uint32_t kTellEvery = 8;          // operations to a peer for one completion
constexpr std::chrono::milliseconds kQuietEnd{10}, kLongestEnd{500};

}  // namespace

OfiFabric::OfiFabric(Endpoint& endpoint, const OfiSetup& setup, Upcalls upcalls, metrics::Counters& counters)
    : endpoint_(endpoint),
      self_(setup.self),
      line_bytes_(setup.line_bytes),
      largest_line_bytes_(setup.largest_line_bytes),
      cookie_(setup.cookie),
      most_places_(std::min<std::size_t>(kMaxPlaces, endpoint.info().tx_attr->rma_iov_limit)),
      window_(frame_window(setup.peers.size())),
      receives_(std::uint32_t(std::max<std::size_t>(
          kReceives, setup.peers.size() * (frame_window(setup.peers.size()) + kCreditsUnderWay)))),
      cache_(setup.cache),
      memory_(setup.memory),
      memory_descriptor_(setup.memory_descriptor),
      upcalls_(std::move(upcalls)),
      counters_(counters),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      small_(endpoint, kFrameBytes, std::max<std::uint32_t>(kSmallBuffers, 2 * kTellEvery * setup.peers.size())),
      large_(endpoint, kLargeBytes, kLargeBuffers),
      elsewhere_(endpoint, 0, kLargeBuffers),
      rx_pages_(endpoint, std::size_t(receives_) * kFrameBytes, FI_RECV),
      rx_(std::make_unique<RxBuffer[]>(receives_)),
      peers_(setup.peers.size()) {
  if (!wake_.valid()) throw Error(fmt::format("cannot make an eventfd: {}", std::strerror(errno)));
  touched_.reserve(peers_.size());
  for (NodeId node = 0; node < peers_.size(); ++node) {
    if (setup.peers[node] && node != self_) present(node, introduce(node, *setup.peers[node]));
  }
  for (std::uint32_t i = 0; i < receives_; ++i) {
    rx_[i].data = rx_pages_.data() + std::size_t(i) * kFrameBytes;
    rx_[i].descriptor = rx_pages_.descriptor();
    listen(rx_[i]);
  }
}

/// libfabric 1.17 does not survive the end of an endpoint over verbs whose last operations are still acknowledged: they
/// are given a moment.
OfiFabric::~OfiFabric() {
  const Clock::time_point end = Clock::now() + kLongestEnd;
  for (Clock::time_point quiet_since = Clock::now(); Clock::now() < end;) {
    if (read_queue()) quiet_since = Clock::now();
    if (Clock::now() - quiet_since > kQuietEnd) break;
    std::this_thread::yield();
  }
  endpoint_.stop();
}

// ---- out ----

void OfiFabric::touch(NodeId to) {
  if (peers_[to].touched) return;
  peers_[to].touched = true;
  touched_.push_back(to);
}

wire::Message& OfiFabric::open_message(Peer& peer) noexcept {
  if (peer.frame == nullptr) return peer.staged;
  return reinterpret_cast<Message*>(peer.frame->data)[peer.staged_count - 1];
}

/// The first message waits by itself: most are alone, and go without a buffer.
void OfiFabric::stage(NodeId to, const Message& message) {
  Peer& peer = peers_[to];
  touch(to);
  if (peer.staged_count > 0 && wire::continues(open_message(peer), message, line_bytes_)) {
    Message& open = open_message(peer);
    open.slots[open.count++] = message.slots[0];
    return;
  }
  if (peer.staged_count == kMaxFrame) issue_staged(peer, to);
  if (peer.staged_count == 0) {
    peer.staged = message;
    peer.staged_count = 1;
    return;
  }
  if (peer.frame == nullptr) {
    peer.frame = take_buffer(to, small_);
    if (peer.frame == nullptr) return;
    std::memcpy(peer.frame->data, &peer.staged, sizeof(Message));
  }
  reinterpret_cast<Message*>(peer.frame->data)[peer.staged_count++] = message;
}

void OfiFabric::send(NodeId to, const Message& message) {
  Peer& peer = peers_[to];
  if (!is_open(to)) return;
  if (peer.line) {
    if (const auto notice = notice_of(to, message, peer.line_slot)) {
      peer.line->what = What::kNotice;
      peer.line->notice = *notice;
      issue_staged(peer, to);
      issue_line(peer);
      return touch(to);
    }
    issue_line(peer);
  }
  if (brings_lines(message)) send_lines(to, message);
  stage(to, message);
}

/// 32 bits from which the receiver can tell this message: the answer to its request for one line.
std::optional<std::uint32_t> OfiFabric::notice_of(NodeId to, const Message& message,
                                                  std::uint32_t slot) const noexcept {
  const bool answers =
      message.kind == Kind::kOwnerData || (message.kind == Kind::kData && GlobalAddress(message.line).node() == self_);
  const bool plain = message.count == 1 && message.requester == to && message.slots[0] == slot &&
                     message.argument == 0 && (message.flags & ((1u << wire::kLargerShift) - 1)) == 0;
  if (!answers || !plain || slot >= kNoticeSlots || self_ >= kNoticeNodes) return {};
  if (message.kind == Kind::kOwnerData && GlobalAddress(message.line).node() == self_) return {};
  return std::uint32_t(self_) << kNoticeSlotBits | slot;
}

TxPool& OfiFabric::pool_for(std::size_t bytes) noexcept {
  return bytes <= small_.buffer_bytes() ? small_ : large_;
}

/// Without a buffer the peer cannot be sent to: what is left out now would be missed later.
TxBuffer* OfiFabric::take_buffer(NodeId to, TxPool& pool) noexcept {
  TxBuffer* const buffer = pool.take(to);
  if (buffer == nullptr) fail(to, FI_ENOMEM);
  return buffer;
}

void OfiFabric::fail(NodeId node, int error) {
  if (!is_open(node)) return;
  peers_[node].failed = true;
  broken_.emplace_back(node, error);
}

std::optional<OfiFabric::Outgoing> OfiFabric::copied(NodeId to, std::uint64_t at, std::span<const std::byte> bytes,
                                                     TxPool& pool) {
  TxBuffer* const buffer = take_buffer(to, pool);
  if (buffer == nullptr) return {};
  base::racy_copy(buffer->data, bytes.data(), bytes.size());
  Outgoing out{What::kWrite, buffer, std::uint32_t(bytes.size()), 0, 1, {}};
  out.into[0] = {at, bytes.size(), peers_[to].address.key};
  return out;
}

/// Is it so large that a copy would cost more than it is worth, and stays as it is without one?
bool OfiFabric::stays(std::span<const std::byte> line) const noexcept {
  return line.size() >= kWorthNoCopy && line.data() >= memory_.data() &&
         line.data() + line.size() <= memory_.data() + memory_.size();
}

std::optional<OfiFabric::Outgoing> OfiFabric::in_place(NodeId to, std::uint64_t at, std::span<const std::byte> line) {
  TxBuffer* const record = take_buffer(to, elsewhere_);
  if (record == nullptr) return {};
  record->data = const_cast<std::byte*>(line.data());  // an iovec's is not const, whoever reads it
  record->descriptor = memory_descriptor_;
  Outgoing out{What::kWrite, record, std::uint32_t(line.size()), 0, 1, {}};
  out.into[0] = {at, line.size(), peers_[to].address.key};
  return out;
}

/// Staged messages stay where they are: data may pass them, as it does in shared memory.
void OfiFabric::write(NodeId to, std::uint64_t at, std::span<const std::byte> bytes) {
  for (; !bytes.empty(); at += kLargeBytes) {
    const auto part = bytes.first(std::min<std::size_t>(bytes.size(), kLargeBytes));
    const auto out = copied(to, at, part, pool_for(part.size()));
    if (!out) return;
    issue(peers_[to], *out);
    bytes = bytes.subspan(part.size());
  }
}

/// Puts a line of a stream behind those before it: one operation takes many of them to their places.
void OfiFabric::gather(NodeId to, std::uint64_t at, std::span<const std::byte> line) {
  Peer& peer = peers_[to];
  if (peer.run) {
    Outgoing& run = *peer.run;
    fi_rma_iov& last = run.into[run.places - 1];
    const bool follows = last.addr + last.len == at;
    if (run.bytes + line.size() <= run.buffer->room && (follows || run.places < most_places_)) {
      base::racy_copy(run.buffer->data + run.bytes, line.data(), line.size());
      run.bytes += std::uint32_t(line.size());
      if (follows) {
        last.len += line.size();
      } else {
        run.into[run.places++] = {at, line.size(), peer.address.key};
      }
      return;
    }
    issue_run(peer);
  }
  peer.run = copied(to, at, line, large_);
}

void OfiFabric::issue_run(Peer& peer) {
  if (!peer.run) return;
  const Outgoing run = *peer.run;
  peer.run.reset();
  issue(peer, run);
}

void OfiFabric::write_slot(NodeId to, std::uint32_t slot, std::span<const std::byte> line, bool one_of_many) {
  Peer& peer = peers_[to];
  if (!is_open(to)) return;
  touch(to);
  if (peer.line) issue_line(peer);
  const std::uint64_t at = peer.address.cache_at + std::uint64_t(slot) * line_bytes_;
  if (stays(line)) {
    peer.line = in_place(to, at, line);
    peer.line_slot = slot;
    return;
  }
  if (one_of_many && line.size() < kLargeBytes) return gather(to, at, line);
  const std::size_t first = line.size() <= kLargeBytes ? 0 : (line.size() - 1) / kLargeBytes * kLargeBytes;
  write(to, at, line.first(first));
  // The last part, or all, may bring the message with it.
  const auto last = line.subspan(first);
  peer.line = copied(to, at + first, last, pool_for(last.size()));
  peer.line_slot = slot;
}

void OfiFabric::write_home(NodeId to, std::uint64_t offset, std::span<const std::byte> line) {
  if (!is_open(to)) return;
  touch(to);
  write(to, peers_[to].address.memory_at + offset, line);
}

/// A home takes operands, or a line that is returned, out of the sender's slot. It cannot reach it here, so they go
/// before the message. What is staged goes before them, but for a message that this one joins: the lines of a run go
/// one after the other, and then the message that brings them all.
void OfiFabric::send_lines(NodeId to, const Message& message) {
  Peer& peer = peers_[to];
  const bool joins = peer.staged_count > 0 && wire::continues(open_message(peer), message, line_bytes_);
  if (!joins) issue_staged(peer, to);
  const std::uint32_t bytes = line_bytes_ << wire::larger(message);
  for (std::uint8_t i = 0; i < message.count; ++i) {
    const std::byte* const from = cache_ + std::uint64_t(message.slots[i]) * line_bytes_;
    for (std::uint32_t at = 0; at < bytes; at += kLineFrameBytes) {
      Message header;
      header.from = self_;
      header.line = at;
      header.argument = bytes;
      header.slots[0] = message.slots[i];
      const std::uint32_t part = std::min(bytes - at, kLineFrameBytes);
      TxBuffer* const buffer = take_buffer(to, small_);
      if (buffer == nullptr) return;
      std::memcpy(buffer->data, &header, sizeof(header));
      base::racy_copy(buffer->data + sizeof(header), from + at, part);
      issue(peer, {What::kFrame, buffer, std::uint32_t(sizeof(header)) + part, 0, 0, {}});
    }
  }
  touch(to);
}

void OfiFabric::issue_staged(Peer& peer, NodeId to) {
  if (peer.staged_count == 0) return;
  issue_run(peer);  // the messages may speak of it
  const std::uint32_t count = std::exchange(peer.staged_count, 0);
  if (count == 1 && peer.queue.empty() && has_window(peer) && inject(peer, peer.staged)) {
    ++peer.frames_sent;
    return;
  }
  if (peer.frame == nullptr) {
    peer.frame = take_buffer(to, small_);
    if (peer.frame == nullptr) return;
    std::memcpy(peer.frame->data, &peer.staged, sizeof(Message));
  }
  issue(peer, {What::kFrame, std::exchange(peer.frame, nullptr), count * std::uint32_t(sizeof(Message)), 0, 0, {}});
}

void OfiFabric::issue_line(Peer& peer) {
  const Outgoing out = *peer.line;
  peer.line.reset();
  issue(peer, out);
}

/// A frame of one message, by itself. False when the provider cannot take it now.
bool OfiFabric::inject(Peer& peer, Message& message) noexcept {
  message.sequence = peer.next_sent;
  if (::fi_inject(endpoint_.ep(), &message, sizeof(message), peer.handle) != 0) return false;
  ++peer.next_sent;
  return true;
}

/// Tells a peer how many of its frames were taken, when it is time. Such a frame waits behind no other: if it did, two
/// nodes could wait for each other.
void OfiFabric::confirm_frames(Peer& peer) noexcept {
  if (!peer.present || peer.frames_taken - peer.frames_confirmed < window_ / 2) return;
  Message credit;
  credit.from = self_;
  credit.argument = kCredit;
  credit.line = peer.frames_taken;
  if (inject(peer, credit)) peer.frames_confirmed = peer.frames_taken;
}

void OfiFabric::issue(Peer& peer, const Outgoing& out) {
  if (!peer.queue.empty() || !post(peer, out)) peer.queue.push_back(out);
}

/// False when the provider cannot take it now.
bool OfiFabric::post(Peer& peer, const Outgoing& out) {
  TxBuffer& buffer = *out.buffer;
  if (peer.issued.count >= kMostIssued || (out.what == What::kFrame && !has_window(peer))) return false;
  if (out.what == What::kFrame) reinterpret_cast<Message*>(buffer.data)->sequence = peer.next_sent;
  const bool tells = peer.untold + 1 >= kTellEvery || peer.untold_bytes + out.bytes >= kTellBytes;
  const std::uint64_t flags = tells ? FI_COMPLETION : 0;
  iovec piece{buffer.data, out.bytes};
  ssize_t result = 0;
  if (out.what == What::kFrame) {
    const fi_msg message{&piece, &buffer.descriptor, 1, peer.handle, &buffer.context, 0};
    result = ::fi_sendmsg(endpoint_.ep(), &message, flags);
  } else {
    const fi_msg_rma message{&piece,     &buffer.descriptor, 1,         peer.handle, out.into.data(),
                             out.places, &buffer.context,    out.notice};
    result = ::fi_writemsg(endpoint_.ep(), &message, flags | (out.what == What::kNotice ? FI_REMOTE_CQ_DATA : 0));
  }
  if (result == -FI_EAGAIN) return false;
  if (result != 0) {
    fail(buffer.peer, int(-result));
    TxPool::give_back(buffer);
    return true;
  }
  if (out.what == What::kFrame) ++peer.frames_sent;
  if (out.what != What::kWrite) ++peer.next_sent;
  peer.untold = tells ? 0 : peer.untold + 1;
  peer.untold_bytes = tells ? 0 : peer.untold_bytes + out.bytes;
  buffer.in_flight = true;
  peer.issued.append(buffer);
  return true;
}

void OfiFabric::Issued::append(TxBuffer& buffer) noexcept {
  buffer.next = nullptr;
  (newest == nullptr ? oldest : newest->next) = &buffer;
  newest = &buffer;
  ++count;
}

void OfiFabric::drain(Peer& peer) {
  while (!peer.queue.empty() && post(peer, peer.queue.front())) peer.queue.pop_front();
}

void OfiFabric::flush() {
  report_broken();
  flush_out();
}

void OfiFabric::flush_out() {
  for (const std::uint64_t key : fetched_) lines_.erase(key);
  fetched_.clear();
  std::size_t kept = 0;
  for (const NodeId to : touched_) {
    Peer& peer = peers_[to];
    confirm_frames(peer);
    if (peer.line) issue_line(peer);
    issue_run(peer);
    issue_staged(peer, to);
    drain(peer);
    peer.touched = peer.present && (!peer.queue.empty() || peer.frames_taken - peer.frames_confirmed >= window_ / 2);
    if (peer.touched) touched_[kept++] = to;
  }
  touched_.resize(kept);
  stalled_.store(kept != 0 || !deaf_.empty(), std::memory_order_seq_cst);
  holds_.store(current_ != nullptr || !arrived_.empty() || !broken_.empty(), std::memory_order_seq_cst);
  if (stalled_ || holds_) wake_sleeper();
}

/// What was left over while the service thread was on its way to sleep must not wait for it to wake up by itself.
void OfiFabric::wake_sleeper() noexcept {
  if (sleeping_.load(std::memory_order_seq_cst)) wake_self();
}

/// All that was issued to the peer up to this one is done with.
void OfiFabric::release_until(TxBuffer& last) noexcept {
  if (!last.in_flight) return;  // one after it has said so already
  Issued& issued = last.of_last_life ? peers_[last.peer].last_life : peers_[last.peer].issued;
  while (issued.oldest != nullptr) {
    TxBuffer& buffer = *issued.oldest;
    --issued.count;
    buffer.in_flight = false;
    issued.oldest = buffer.next;
    if (issued.oldest == nullptr) issued.newest = nullptr;
    TxPool::give_back(buffer);
    if (&buffer == &last) return;
  }
  ATOLL_CHECK(!"a buffer that is in flight was issued to its peer");
}

/// Not from within a send: the node drops the peer, and sends to others.
void OfiFabric::report_broken() {
  for (const auto& [node, error] : std::exchange(broken_, {})) {
    if (peers_[node].present) upcalls_.on_broken(node, ofi_library().strerror(error));
  }
}

}  // namespace atoll::fabric
