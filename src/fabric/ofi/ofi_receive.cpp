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

std::int64_t now_ns() noexcept {
  return Clock::now().time_since_epoch().count();
}

std::uint64_t operand_key(NodeId from, std::uint32_t slot) noexcept {
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
  std::array<fi_cq_data_entry, 16> entries;
  const ssize_t count = ::fi_cq_read(endpoint_.cq(), entries.data(), entries.size());
  if (count == -FI_EAVAIL) {
    read_error();
    return true;
  }
  if (count <= 0) return false;
  for (ssize_t i = 0; i < count; ++i) {
    const fi_cq_data_entry& entry = entries[std::size_t(i)];
    if ((entry.flags & FI_REMOTE_CQ_DATA) != 0) {  // frames carry none
      arrived_.push_back({nullptr, std::uint32_t(entry.data)});
      continue;
    }
    auto* const tracked = static_cast<Tracked*>(entry.op_context);
    if (tracked->outgoing) {
      release_until(static_cast<TxBuffer&>(*tracked));
    } else {
      auto& buffer = static_cast<RxBuffer&>(*tracked);
      buffer.bytes = std::uint32_t(entry.len);
      if (!take_hello(buffer)) arrived_.push_back({&buffer, 0});
    }
  }
  if (!deaf_.empty()) {
    for (RxBuffer* const buffer : std::exchange(deaf_, {})) listen(*buffer);
  }
  return true;
}

/// Greetings are taken as they come, before what came before them: who still meets its peers works on nothing yet.
bool OfiFabric::take_hello(RxBuffer& buffer) {
  Message hello;
  if (buffer.bytes != sizeof(hello)) return false;
  std::memcpy(&hello, buffer.data, sizeof(hello));
  if (hello.kind != Kind::kNone || hello.argument != kHello || hello.sequence != cookie_) return false;
  if (hello.from < peers_.size()) peers_[hello.from].met = true;
  listen(buffer);
  return true;
}

void OfiFabric::read_error() {
  fi_cq_err_entry error{};
  if (::fi_cq_readerr(endpoint_.cq(), &error, 0) <= 0 || error.op_context == nullptr) return;
  auto* const tracked = static_cast<Tracked*>(error.op_context);
  if (!tracked->outgoing) return listen(static_cast<RxBuffer&>(*tracked));
  auto& buffer = static_cast<TxBuffer&>(*tracked);
  broken_.emplace_back(buffer.peer, error.err);
  release_until(buffer);
}

bool OfiFabric::poll(Message& message, NodeId& from) {
  if (!broken_.empty()) report_broken();
  do {
    if (take(message, from)) return true;
  } while (read_queue());
  return false;
}

bool OfiFabric::take(Message& message, NodeId& from) {
  while (current_ != nullptr || !arrived_.empty()) {
    if (current_ == nullptr) {
      if (arrived_.front().frame == nullptr) {
        const std::uint32_t notice = arrived_.front().notice;
        arrived_.pop_front();
        from = NodeId(notice >> kNoticeSlotBits);
        if (from >= peers_.size() || !peers_[from].present) continue;
        message = upcalls_.answer_in(from, notice & (kNoticeSlots - 1));
        return true;
      }
      if (!open_frame()) continue;
    }
    std::memcpy(&message, current_->data + at_, sizeof(Message));
    at_ += sizeof(Message);
    const bool known = message.sequence == cookie_ && message.from < peers_.size() && peers_[message.from].present;
    from = message.from;
    if (at_ == current_->bytes) listen(*std::exchange(current_, nullptr));
    if (!known) continue;
    // Without what it speaks of it makes no sense, and its sender is told apart by that.
    if (message.kind == Kind::kPutOperated && !has_operands(message)) message.kind = Kind::kNone;
    message.sequence = 0;
    return true;
  }
  return false;
}

/// The next frame. False when it has no messages: it was operands, or nothing that we know.
bool OfiFabric::open_frame() {
  RxBuffer& buffer = *arrived_.front().frame;
  arrived_.pop_front();
  Message header;
  if (buffer.bytes >= sizeof(header)) std::memcpy(&header, buffer.data, sizeof(header));
  const bool known = buffer.bytes >= sizeof(header) && buffer.bytes <= kFrameBytes && header.sequence == cookie_ &&
                     header.from < peers_.size() && peers_[header.from].present;
  if (!known) {
    if (strangers_++ == 0) spdlog::warn("something that is no message of this cluster came to the fabric's endpoint");
  } else if (header.kind == Kind::kNone) {
    current_ = &buffer;
    take_operands(header);
    current_ = nullptr;
  } else if (buffer.bytes % sizeof(Message) == 0) {
    current_ = &buffer;
    at_ = 0;
    return true;
  }
  listen(buffer);
  return false;
}

void OfiFabric::take_operands(const Message& header) {
  const std::uint64_t part = current_->bytes - sizeof(header);
  const bool fits = header.argument >= line_bytes_ && header.argument <= largest_line_bytes_ &&
                    header.line <= header.argument && part <= header.argument - header.line;
  if (!fits) return;
  std::vector<std::byte>& into = operands_[operand_key(header.from, header.slots[0])];
  if (header.line == 0) into.clear();
  if (into.size() != header.line) return;  // what follows will be found missing
  into.insert(into.end(), current_->data + sizeof(header), current_->data + current_->bytes);
}

bool OfiFabric::has_operands(const Message& message) const {
  if (message.count > wire::kMaxRun) return false;
  const std::size_t bytes = std::size_t(line_bytes_) << wire::larger(message);
  for (std::uint8_t i = 0; i < message.count; ++i) {
    const auto found = operands_.find(operand_key(message.from, message.slots[i]));
    if (found == operands_.end() || found->second.size() != bytes) return false;
  }
  return true;
}

const std::byte* OfiFabric::read_slot(NodeId from, std::uint32_t slot) {
  merged_.push_back(operand_key(from, slot));
  return operands_.at(operand_key(from, slot)).data();
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
