// Nodes of a logged cluster die and come back: what the others do meanwhile, and what the one that comes back does
// itself. The rules of each line are the core's; here is who tells whom, and in which order (docs/recovery.md).
#include <algorithm>

#include "base/check.hpp"
#include "base/log.hpp"
#include "base/units.hpp"
#include "runtime/runtime.hpp"

namespace atoll::runtime {

using coherence::DirState;
using wire::Kind;

namespace {
constexpr std::chrono::milliseconds kJoinLook{1};  // whether this node has joined
constexpr std::size_t kOpenAt = 0;  // in Message::slots of a ReportEnd: 1 when its sender serves its memory already
}  // namespace

/// What the process before left in the log, if it is to be used.
Legacy Runtime::open_journal(std::unique_ptr<storage::Disk> disk) {
  const Clock::time_point began = host_.now();
  journal_ =
      std::make_unique<Journal>(options_, host_, std::move(disk), self_, segment_.memory_bytes(), slots_->size());
  if (!options_.recover) {
    journal_->refuse_old();
    return {};
  }
  const auto prepare = [this](std::span<std::byte> part) { segment_.join_pages(part.data(), part.size()); };
  Legacy legacy = journal_->recover({segment_.memory(), segment_.memory_bytes()}, prepare, *allocator_);
  recovered_ = true;
  recovering_ = nodes_ > 1;
  {
    base::MutexLock lock(mutex_);
    legacy.answered.for_each([this](const Caller& caller, std::uint64_t answer)
                                 ATOLL_NO_THREAD_SAFETY_ANALYSIS { answered_[caller] = answer; });
  }
  recovered_names_ = legacy.names;
  spdlog::warn("node {}: memory is back, by {} records, with {} lines of other nodes, after {} ms", self_,
               legacy.records, legacy.owned.size(),
               std::chrono::duration_cast<std::chrono::milliseconds>(host_.now() - began).count());
  return legacy;
}

/// The log of this process begins where that of the one before was, when what that one has left is in a checkpoint.
void Runtime::begin_journal(const Legacy& legacy) {
  if (recovered_) {
    for (NodeId node = 0; node < nodes_; ++node) journal_->set_peer(node, {memory_bytes_[node], cache_slots_[node]});
    journal_->keep(legacy, {segment_.memory(), segment_.memory_bytes()}, *allocator_);
  }
  base::MutexLock lock(mutex_);
  journal_->begin(
      epochs_[self_], legacy,
      [this](const Status& status) {
        if (!status.ok()) return lose_log(status);
        durable_moved_.store(true, std::memory_order_release);
        notify_all();
        if (joined_.load(std::memory_order_acquire) == Joined::kYes) fabric_->wake_self();
      },
      [this]() ATOLL_NO_THREAD_SAFETY_ANALYSIS { fall_silent(); });
  if (journal_->checkpoint().generation() != 0) counters_->checkpoints.add();
  // Not the epoch: a cluster that was started anew counts from 1 again, and others remember calls of this node.
  next_call_ = (journal_->log().generation() << 32) + 1;
  for (NodeId node = 0; node < nodes_; ++node) {
    journal_->note_peer(node, {memory_bytes_[node], cache_slots_[node]});
  }
  if (recovered_) restore(legacy);
}

/// A record that the engine needs is not in the log. What it is about to say of that is not sent; the thread that has
/// found the disk failing does the rest (lose_log).
void Runtime::fall_silent() {
  over_.store(Over::kLogLost, std::memory_order_release);
  for (NodeId node = 0; fabric_ != nullptr && node < nodes_; ++node) {
    if (node != self_) fabric_->forget(node);
  }
}

/// The disk of the log has failed. Nothing can be promised from here on, and what others have been told holds: for them
/// it is as if this node had crashed.
void Runtime::lose_log(const Status& why) {
  if (log_lost_.exchange(true)) return;
  spdlog::critical(
      "node {}: its log cannot be written any more: {}. What was acknowledged is there when it is started "
      "again with --recover on a disk that works",
      self_, why.to_string());
  end(Over::kLogLost);
  base::MutexLock lock(mutex_);
  if (!stopping_.load(std::memory_order_acquire)) membership_->abandon();
}

/// With whom this node has to do from the start. Those that are dead will come; where memory is recovered, all have to
/// say what they have of it.
void Runtime::begin_sessions(const std::vector<Brought>& brought) {
  base::MutexLock lock(mutex_);
  for (NodeId node = 0; node < nodes_; ++node) {
    epochs_[node] = std::max(brought[node].epoch, brought[self_].epoch);
    const bool known = !recovering_ || node == self_;
    sessions_[node] = {known, known, known};
    if (recovering_) {
      transport_->hide_view(node);
      close_element_home(node);
    }
    if (!brought[node].alive) dead_[node].store(true, std::memory_order_release);
  }
  is_open_ = !recovering_;
}

/// What the process before this one left is put where it belongs. Nobody can ask for any of it yet.
void Runtime::restore(const Legacy& legacy) {
  for (const auto& [bits, region] : legacy.regions) lines_->set_larger(region.first, region.bytes, region.larger);
  for (std::uint64_t i = 0; i < legacy.lines.size(); ++i) {
    const log::LineMeta& meta = legacy.lines[i];
    if (meta.tenure == 0) continue;
    const LineRef ref = lines_->ref(GlobalAddress::make(self_, i * options_.line_bytes));
    // Within a larger line only the first counts; the others were lines before.
    if (ref.address.offset() == i * options_.line_bytes) protocol_.restore_home(ref, meta.tenure, NodeId(meta.owner));
  }
  for (const auto& [bits, owned] : legacy.owned) {
    const LineRef ref = lines_->ref(GlobalAddress(bits));
    if (ref.bytes != owned.bytes.size() || !take_slot(ref)) {
      throw Error(
          fmt::format("the log has more lines of other nodes than the cache has room for: join with at least "
                      "the {} that this node had before",
                      base::format_bytes(options_.cache_bytes)));
    }
    std::memcpy(ref.hot.byte_at(ref.address), owned.bytes.data(), owned.bytes.size());
    protocol_.restore_returning(ref, owned.tenure);
    journal_->note_image({ref.address, ref.bytes, ref.hot.byte_at(ref.address), ref.line->slot});
  }
}

template <typename F>
void Runtime::for_each_copy_of(NodeId home, F f) {
  for (std::uint32_t slot = 0; slot < slots_->size(); ++slot) {
    const GlobalAddress address = slots_->occupant(slot);
    if (address && address.node() == home) f(lines_->ref(address));
  }
}

/// A peer is gone, for a while: what it shared it has no more, what it owned waits for it, and what it was asked for is
/// asked again when it is back.
void Runtime::mourn(NodeId dead) {
  sessions_[dead] = {false, false, false};
  std::erase_if(late_, [&](const Late& late) { return late.to == dead; });
  transport_->hide_view(dead);
  lines_->for_each_own([&](const LineRef& ref) ATOLL_NO_THREAD_SAFETY_ANALYSIS {
    if (ref.directory->state != DirState::kUnshared || ref.line->cold != 0) protocol_.peer_died(ref, dead);
  });
  for_each_copy_of(dead, [&](const LineRef& ref) ATOLL_REQUIRES(mutex_) { protocol_.home_died(ref); });
  if (self_ == 0 && !ATOLL_FAULT(log_arrival_kept)) {  // it has not reached the barrier that it was in
    barrier_reached_.resize(nodes_, 0);
    barrier_reached_[dead] = std::min(barrier_reached_[dead], barrier_released_.load(std::memory_order_relaxed));
  }
  flush();
}

/// A dead node will not come back: who waits for it need not any longer.
void Runtime::on_given_up(NodeId node, const std::string& why) {
  spdlog::error("node {} will not come back: {}", node, why);
  given_up_.store(true, std::memory_order_release);
  notify_all();
}

Presence Runtime::presence(NodeId node) const noexcept {
  if (node >= nodes_) return Presence::kGone;
  if (!is_dead(node)) return Presence::kHere;
  return journal_ != nullptr && !given_up_.load(std::memory_order_acquire) ? Presence::kAway : Presence::kGone;
}

/// A peer is back, as another process. It is told what this node has of its lines.
void Runtime::on_return(const cluster::Peer& peer, std::uint32_t epoch) {
  if (peer.id >= nodes_ || peer.id == self_) return;
  if (journal_ == nullptr) {
    spdlog::error("node {} is back, but this cluster has no log: it is not taken up", peer.id);
    return;
  }
  while (joined_.load(std::memory_order_acquire) == Joined::kNotYet) host_.sleep_for(kJoinLook);
  if (joined_.load(std::memory_order_acquire) == Joined::kFailed) return;
  try {
    const Brought brought = transport_->prepare(peer);
    if (brought.memory_bytes != memory_bytes_[peer.id] || brought.cache_slots != cache_slots_[peer.id]) {
      throw Error(fmt::format("it came with {} of memory, and had {} before", base::format_bytes(brought.memory_bytes),
                              base::format_bytes(memory_bytes_[peer.id])));
    }
  } catch (const std::exception& error) {
    spdlog::error("node {} is back, and cannot be reached: {}", peer.id, error.what());
    return;
  }
  {
    base::MutexLock lock(mutex_);
    transport_->readmit(peer.id);
    epochs_[peer.id] = std::max(epoch, epochs_[self_]);
    to_report_.push_back(peer.id);
    clean_up();
  }
  spdlog::info("node {} is back", peer.id);
  fabric_->wake_self();
}

/// What the peer's last life had here is cleaned up: from here on its messages count again, and it is told what is here
/// of its lines.
void Runtime::take_up(NodeId peer) {
  sessions_[peer] = {false, false, false};
  dead_[peer].store(false, std::memory_order_release);
  NodeId still = kNoNode;
  for (NodeId node = 0; node < nodes_; ++node) {
    if (is_dead(node)) still = node;
  }
  first_dead_.store(still, std::memory_order_release);
  reach_[peer] = {};
  report_to(peer);
}

/// Tells a peer, of which one or the other is new, what this node has of its lines; that ends with ReportEnd.
void Runtime::report_to(NodeId peer) {
  if (std::exchange(sessions_[peer].told, true)) return;  // it came back while this node did
  for_each_copy_of(peer, [&](const LineRef& ref) ATOLL_REQUIRES(mutex_) { protocol_.home_back(ref); });
  report_element_locks(peer);
  wire::Message end;
  end.kind = Kind::kReportEnd;
  end.argument = barrier_released_.load(std::memory_order_relaxed);
  end.slots[kOpenAt] = is_open_ ? 1 : 0;
  call_home(peer, end);
}

/// Receive ReportEnd: what the peer has not named it does not have. Receive Open: it serves its memory.
void Runtime::handle_report(const wire::Message& message, NodeId from) {
  if (journal_ == nullptr) return cut_off(from, "it reports lines, but there is no log");
  Session& session = sessions_[from];
  const bool ends = message.kind == Kind::kReportEnd;
  if (!ends && !session.reported) return cut_off(from, "it serves before it has reported");
  if (ends && session.reported) return cut_off(from, "it reports twice");
  if (ends) {
    session.reported = true;
    lines_->for_each_own([&](const LineRef& ref) ATOLL_NO_THREAD_SAFETY_ANALYSIS {
      if (ref.directory->state == DirState::kOrphaned && ref.directory->owner == from) protocol_.owner_back(ref, from);
    });
    element_locks_.node_returned(from);
  }
  const bool opens = !ends || message.slots[kOpenAt] == 1;
  // Node 0 believes everybody, the others nobody but node 0 when it knows: or each of them would have its own number,
  // where some have heard of one before who knew it died.
  const bool counts = self_ == 0 || (from == 0 && opens);
  if (counts && recovering_.load(std::memory_order_relaxed)) {
    const std::uint64_t released = std::max(message.argument, barrier_released_.load(std::memory_order_relaxed));
    barrier_released_.store(released, std::memory_order_release);
    barrier_round_ = released;
    if (self_ == 0) barrier_reached_.assign(nodes_, released);
  }
  if (opens) open_to(from);
  open_if_complete();
}

/// Everybody has told this node what they have of its lines: it knows its directory again, and serves. When node 0 does
/// too, it has told how many barriers there were, and the program of this node may begin.
void Runtime::open_if_complete() {
  if (!recovering_.load(std::memory_order_relaxed) || !told_) return;
  if (!is_open_) {
    for (NodeId node = 0; node < nodes_; ++node) {
      if (node != self_ && !sessions_[node].reported) return;
    }
    is_open_ = true;
    for (NodeId node = 0; node < nodes_; ++node) {
      if (node == self_) continue;
      wire::Message open;
      open.kind = Kind::kOpen;
      open.argument = barrier_released_.load(std::memory_order_relaxed);
      call_home(node, open);
    }
    resend_element_locks(self_);
  }
  if (!sessions_[0].open) return;
  recovering_.store(false, std::memory_order_release);
  notify_all();
}

/// A peer serves its memory again: it is asked for everything that this node still wants of it.
void Runtime::open_to(NodeId peer) {
  Session& session = sessions_[peer];
  if (session.open) return;
  session.open = true;
  transport_->show_view(peer);
  for_each_copy_of(peer, [&](const LineRef& ref) ATOLL_REQUIRES(mutex_) { protocol_.home_open(ref); });
  send_kept_frees(peer);
  for (const auto& [number, call] : calls_) {
    if (call->node == peer) send_call(number, *call);
  }
  resend_element_locks(peer);
  if (peer == 0 && barrier_round_ > barrier_released_.load(std::memory_order_relaxed) && !recovering_) {
    wire::Message arrive;
    arrive.kind = Kind::kBarrierArrive;
    arrive.argument = barrier_round_;
    call_home(0, arrive);
  }
  notify_all();
}

/// The rest of joining for a node that takes the place of one that died: it waits until all others have told it what
/// they have. Throws Error.
void Runtime::come_back() {
  {
    const Entry entry(*this);
    for (NodeId node = 0; node < nodes_; ++node) {
      if (node != self_ && !is_dead(node)) report_to(node);
    }
    told_ = true;
    open_if_complete();
    flush();
  }
  const auto deadline = host_.now() + options_.recovery_wait;
  const Status status =
      wait(threads_.current(), kNoNode, deadline, [this] { return !recovering_.load(std::memory_order_acquire); });
  if (!status.ok()) {
    throw Error(fmt::format("node {} has its memory back, but not all nodes have come to say what they have of it: {}",
                            self_, status.to_string()),
                status.code());
  }
}

/// The master may be another one than that which had them.
void Runtime::publish_again() {
  for (const auto& [name, bits] : recovered_names_) {
    const Status published = membership_->publish(name, GlobalAddress(bits));
    if (!published.ok() && published.code() != Errc::kAlreadyExists) {
      spdlog::error("the name {} could not be published again: {}", name, published.to_string());
    }
  }
}

}  // namespace atoll::runtime
