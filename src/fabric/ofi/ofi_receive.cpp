// What comes in, and sleeping until it does.
#include <poll.h>
#include <rdma/fi_errno.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/log.hpp"
#include "fabric/ofi/frames.hpp"
#include "fabric/ofi/ofi_fabric.hpp"

namespace atoll::fabric {
namespace {

using Clock = std::chrono::steady_clock;
using wire::Kind;
using wire::Message;

constexpr std::int64_t kPollEvery_ns = 500;
constexpr int kStalledWait_ms = 1;
constexpr std::uint32_t kMostLost = 1 << 16;  // frames that a broken connection can have swallowed
constexpr int kMostRounds = 8;

std::int64_t now_ns() noexcept {
  return Clock::now().time_since_epoch().count();
}

std::uint64_t line_key(NodeId from, std::uint32_t slot) noexcept {
  return std::uint64_t(from) << 32 | slot;
}

}  // namespace

void OfiFabric::listen(RxBuffer& buffer) {
  const ssize_t result =
      ::fi_recv(endpoint_.ep(), buffer.data, kFrameBytes, buffer.descriptor, FI_ADDR_UNSPEC, &buffer.context);
  if (result != 0) deaf_.push_back(&buffer);
}

/// Takes what the provider has. False when it is nothing.
bool OfiFabric::read_queue() {
  polled_at_ns_.store(now_ns(), std::memory_order_relaxed);
  if (!deaf_.empty()) {
    for (RxBuffer* const buffer : std::exchange(deaf_, {})) listen(*buffer);
  }
  std::array<fi_cq_data_entry, 16> entries;
  const ssize_t count = ::fi_cq_read(endpoint_.cq(), entries.data(), entries.size());
  if (count == -FI_EAVAIL) {
    read_error();
    return true;
  }
  if (count <= 0) return false;
  for (ssize_t i = 0; i < count; ++i) {
    const fi_cq_data_entry& entry = entries[std::size_t(i)];
    // A write that brings data needs the memory's key. A send that does is a stranger's, and goes the way of frames.
    if ((entry.flags & FI_REMOTE_CQ_DATA) != 0 && (entry.flags & FI_REMOTE_WRITE) != 0) {
      admit_notice(std::uint32_t(entry.data));
      continue;
    }
    if (entry.op_context == nullptr) continue;
    auto* const tracked = static_cast<Tracked*>(entry.op_context);
    if (tracked->outgoing) {
      release_until(static_cast<TxBuffer&>(*tracked));
    } else {
      auto& buffer = static_cast<RxBuffer&>(*tracked);
      buffer.bytes = std::uint32_t(entry.len);
      admit(buffer);
    }
  }
  return true;
}

void OfiFabric::read_error() {
  fi_cq_err_entry error{};
  if (::fi_cq_readerr(endpoint_.cq(), &error, 0) <= 0 || error.op_context == nullptr) return;
  auto* const tracked = static_cast<Tracked*>(error.op_context);
  if (!tracked->outgoing) return listen(static_cast<RxBuffer&>(*tracked));
  auto& buffer = static_cast<TxBuffer&>(*tracked);
  if (!buffer.in_flight) return;
  if (!buffer.of_last_life) fail(buffer.peer, error.err);
  release_until(buffer);
}

// ---- who may come in ----

/// Is this the number that the sender's next frame must have? One that is a little ahead is the sender's too: what is
/// between was lost.
bool OfiFabric::is_next_of(NodeId from, std::uint32_t number) {
  if (from >= peers_.size() || !peers_[from].present) return false;
  Peer& peer = peers_[from];
  const std::uint32_t ahead = number - peer.next_received;
  if (ahead == 0) {
    ++peer.next_received;
    return true;
  }
  if (ahead < kMostLost && peer.met) fail(from, FI_ECONNRESET);
  return false;
}

void OfiFabric::admit_notice(std::uint32_t notice) {
  const auto from = NodeId(notice >> kNoticeSlotBits);
  if (from >= peers_.size() || !peers_[from].present || !peers_[from].met) return;
  ++peers_[from].next_received;
  arrived_.push_back({nullptr, notice});
}

/// Messages wait for `take`. Greetings and lines that come along are taken at once: who still meets its peers works on
/// nothing yet.
void OfiFabric::admit(RxBuffer& buffer) {
  Message header;
  const bool fits = buffer.bytes >= sizeof(header) && buffer.bytes <= kFrameBytes;
  if (fits) std::memcpy(&header, buffer.data, sizeof(header));
  if (!fits || !is_next_of(header.from, header.sequence)) {
    // What is left of a peer that is gone is nothing to speak of.
    const bool is_left_over = fits && header.from < peers_.size() && !peers_[header.from].present &&
                              peers_[header.from].handle != FI_ADDR_UNSPEC;
    if (!is_left_over && strangers_++ == 0) {
      spdlog::warn("something that is no message of this cluster came to the fabric's endpoint");
    }
    return listen(buffer);
  }
  if (header.kind != Kind::kNone && buffer.bytes % sizeof(Message) == 0) {
    arrived_.push_back({&buffer, 0});
    return;
  }
  if (header.kind == Kind::kNone && header.argument == kCredit) {
    Peer& peer = peers_[header.from];
    const auto credited = std::uint32_t(header.line);
    if (credited - peer.frames_credited <= peer.frames_sent - peer.frames_credited) peer.frames_credited = credited;
    if (!peer.queue.empty()) touch(header.from);
    return listen(buffer);
  }
  if (header.kind == Kind::kNone && header.argument == kHello) {
    peers_[header.from].met = true;
  } else if (header.kind == Kind::kNone) {
    take_line(buffer, header);
  }
  finish(buffer, header.from);
}

/// The frame was taken: the buffer listens for the next, and the sender is told of it in time.
void OfiFabric::finish(RxBuffer& buffer, NodeId from) {
  listen(buffer);
  Peer& peer = peers_[from];
  if (++peer.frames_taken - peer.frames_confirmed >= window_ / 2) touch(from);
}

void OfiFabric::take_line(const RxBuffer& buffer, const Message& header) {
  const std::uint64_t part = buffer.bytes - sizeof(header);
  const std::uint64_t end = std::uint64_t(header.slots[0]) * line_bytes_ + header.argument;
  const bool fits = part > 0 && header.argument >= line_bytes_ && header.argument <= largest_line_bytes_ &&
                    header.line <= header.argument && part <= header.argument - header.line &&
                    end <= peers_[header.from].address.cache_bytes;
  if (!fits) return;
  std::vector<std::byte>& into = lines_[line_key(header.from, header.slots[0])];
  if (header.line == 0) into.clear();
  if (into.size() != header.line) return;  // what follows will be found missing
  into.insert(into.end(), buffer.data + sizeof(header), buffer.data + buffer.bytes);
}

// ---- taking it out ----

bool OfiFabric::poll(Message& message, NodeId& from) {
  if (!broken_.empty()) report_broken();
  // Not for ever: the engine is locked, and strangers may send as fast as we drop.
  for (int rounds = 0; rounds < kMostRounds; ++rounds) {
    if (take(message, from)) return true;
    if (!read_queue()) return false;
  }
  return take(message, from);
}

bool OfiFabric::take(Message& message, NodeId& from) {
  while (current_ != nullptr || !arrived_.empty()) {
    if (current_ == nullptr) {
      const Arrived next = arrived_.front();
      arrived_.pop_front();
      if (next.frame == nullptr) {
        from = NodeId(next.notice >> kNoticeSlotBits);
        if (!peers_[from].present) continue;
        message = upcalls_.answer_in(from, next.notice & (kNoticeSlots - 1));
        return true;
      }
      current_ = next.frame;
      at_ = 0;
    }
    std::memcpy(&message, current_->data + at_, sizeof(Message));
    at_ += sizeof(Message);
    Message first;
    std::memcpy(&first, current_->data, sizeof(first));
    from = first.from;  // of all of them: a message that says another is judged for it
    if (at_ == current_->bytes) finish(*std::exchange(current_, nullptr), from);
    if (!peers_[from].present) continue;
    // Without what it speaks of it makes no sense, and its sender is told apart by that.
    if (brings_lines(message) && !has_lines(message)) message.kind = Kind::kNone;
    message.sequence = 0;
    return true;
  }
  return false;
}

bool OfiFabric::has_lines(const Message& message) const {
  if (message.count > wire::kMaxRun) return false;
  const std::size_t bytes = std::size_t(line_bytes_) << wire::larger(message);
  for (std::uint8_t i = 0; i < message.count; ++i) {
    const auto found = lines_.find(line_key(message.from, message.slots[i]));
    if (found == lines_.end() || found->second.size() != bytes) return false;
  }
  return true;
}

const std::byte* OfiFabric::read_slot(NodeId from, std::uint32_t slot, std::uint32_t bytes) {
  const auto found = lines_.find(line_key(from, slot));
  if (found == lines_.end() || found->second.size() != bytes) return nullptr;
  fetched_.push_back(found->first);
  return found->second.data();
}

bool OfiFabric::maybe_pending() const noexcept {
  // The provider moves only when it is asked, and being asked costs it a look at the kernel.
  return holds_.load(std::memory_order_relaxed) ||
         now_ns() - polled_at_ns_.load(std::memory_order_relaxed) >= kPollEvery_ns;
}

bool OfiFabric::begin_sleep() noexcept {
  sleeping_.store(true, std::memory_order_seq_cst);
  return !holds_.load(std::memory_order_seq_cst) && endpoint_.may_sleep();
}

void OfiFabric::sleep_until_event(std::uint32_t timeout_ms, int also) noexcept {
  const bool stalled = stalled_.load(std::memory_order_seq_cst);
  const int limit = stalled ? std::min<int>(kStalledWait_ms, int(timeout_ms)) : int(timeout_ms);
  pollfd polls[] = {{wake_.get(), POLLIN, 0}, {endpoint_.wait_fd(), POLLIN, 0}, {also, POLLIN, 0}};
  counters_.sleeps.add();
  (void)::poll(polls, 3, limit);
  std::uint64_t rung = 0;
  if (polls[0].revents != 0) (void)!::read(wake_.get(), &rung, sizeof(rung));
}

void OfiFabric::wait(std::uint32_t timeout_ms) noexcept {
  if (begin_sleep()) sleep_until_event(timeout_ms, -1);
  end_sleep();
}

void OfiFabric::wake_self() noexcept {
  const std::uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof(one));
}

}  // namespace atoll::fabric
