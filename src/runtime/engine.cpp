// The engine: what the coherence core asks of the node, and how messages are worked off.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/check.hpp"
#include "base/log.hpp"
#include "coherence/lock_word.hpp"
#include "runtime/bytes.hpp"
#include "runtime/file_calls.hpp"
#include "runtime/runtime.hpp"

namespace atoll::runtime {

using coherence::Cold;
using coherence::Message;
using coherence::Protocol;
using detail::kReadable;
using detail::Line;
using wire::Kind;

namespace {

constexpr std::uint8_t kBiasStep = 4;              // for each time that a line is taken away;
constexpr std::uint8_t kBiasLimit = 16;            // from here on it is fenced
constexpr std::uint32_t kMostPrefetched = 1024;    // bytes of a line that is about to be sent
constexpr std::size_t kMostUnread = 1 << 16;       // messages for a peer, beyond its ring and a few for each cache line
constexpr std::chrono::microseconds kStandBy{50};  // how long the service thread leaves the node to threads that wait:
constexpr std::chrono::microseconds kLongStandBy{800};     // twice as long each time, as long as there are some
constexpr std::chrono::microseconds kDrivenStandBy{200};   // the same, for threads that do not wait
constexpr std::chrono::microseconds kSuspendedLook{1000};  // how often it looks whether the node may act again
constexpr std::chrono::microseconds kOften{10};            // threads that look for messages so often need no help

/// Does a message of this kind take a permission from threads of the node that receives it?
bool takes_away(Kind kind) noexcept {
  return kind == Kind::kInvalidate || kind == Kind::kForwardShared || kind == Kind::kForwardExclusive ||
         kind == Kind::kGetShared || kind == Kind::kGetExclusive || kind == Kind::kUpgrade ||
         kind == Kind::kGetOperated;
}

}  // namespace

std::uint64_t read_modify_write(std::byte* at, const Task& task) noexcept {
  const auto apply = [&]<typename Word>(Word) -> std::uint64_t {
    auto* word = reinterpret_cast<Word*>(at);
    switch (task.action) {
      case Action::kAdd: return __atomic_fetch_add(word, Word(task.operand), __ATOMIC_SEQ_CST);
      case Action::kExchange: return __atomic_exchange_n(word, Word(task.operand), __ATOMIC_SEQ_CST);
      case Action::kCompareExchange: {
        auto found = Word(task.expected);
        __atomic_compare_exchange_n(word, &found, Word(task.operand), false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
        return found;
      }
      case Action::kNone:
      case Action::kCopyOut:
      case Action::kCopyIn:
      case Action::kCall:
      case Action::kOperate:
      case Action::kWriteIf: break;
    }
    return 0;
  };
  switch (task.bytes) {
    case 1: return apply(std::uint8_t{});
    case 2: return apply(std::uint16_t{});
    case 4: return apply(std::uint32_t{});
    default: return apply(std::uint64_t{});
  }
}

Errc call_function(const AtomicFunction& function, std::span<std::byte> bytes, std::span<const std::byte> arguments) {
  try {
    function(bytes, arguments);
    return Errc::kOk;
  } catch (const std::exception& error) {
    spdlog::error("a function for atomic() threw: {}", error.what());
  } catch (...) {
    spdlog::error("a function for atomic() threw something that is no std::exception");
  }
  return Errc::kInvalidArgument;
}

// ---- what waits for a line ----

Cold& Runtime::cold(const LineRef& ref) {
  if (ref.line->cold == 0) {
    if (free_colds_.empty()) {
      free_colds_.push_back(std::uint32_t(colds_.size()));
      colds_.push_back(std::make_unique<Cold>());
    }
    ref.line->cold = 1 + free_colds_.back();
    free_colds_.pop_back();
    mark_here(ref);
  }
  return *colds_[ref.line->cold - 1];
}

Cold* Runtime::find_cold(const LineRef& ref) noexcept {
  return ref.line->cold == 0 ? nullptr : colds_[ref.line->cold - 1].get();
}

void Runtime::drop_cold(const LineRef& ref) noexcept {
  free_colds_.push_back(ref.line->cold - 1);
  ref.line->cold = 0;
  mark_here(ref);
}

/// Whether the line may be read in place: not while it is here, or somebody of this node waits for it. Those who come
/// later must find what was written before them.
void Runtime::mark_here(const LineRef& ref) noexcept {
  const bool here = ref.line->slot != 0 || ref.line->cold != 0;
  if (here != ref.line->here.load(std::memory_order_relaxed)) ref.line->here.store(here, std::memory_order_release);
}

// ---- messages and data ----

wire::Message Runtime::make_message(const LineRef& ref, const Message& message) {
  wire::Message out;
  out.kind = message.kind;
  out.flags = std::uint8_t((message.is_try ? wire::kTry : 0) | ref.larger << wire::kLargerShift);
  out.count = 1;
  out.from = self_;
  out.requester = message.requester;
  out.line = ref.address.bits();
  out.slots[0] = message.slot;
  out.argument = message.kind == Kind::kGetOperated ? message.operation : message.tenure;
  if (journal_ == nullptr) {
    if (message.kind == Kind::kPutDirty || message.kind == Kind::kPutOperated)
      returning_to_[ref.home()] += 1u << ref.larger;
  } else if (message.kind == Kind::kPutDirty || message.kind == Kind::kTransfer || message.kind == Kind::kWriteBack) {
    out.flags |= wire::kFetch;
    // Once, however often it is sent.
    if (message.kind != Kind::kWriteBack && journal_->begin_return(ref.line->slot - 1))
      returning_to_[ref.home()] += 1u << ref.larger;
  }
  counters_->messages_sent.add();
  counters_->sent_by_kind[std::size_t(message.kind)].add();
  return out;
}

void Runtime::send(const LineRef& ref, NodeId to, const Message& message) {
  // One that does not serve yet is asked when it does: see open_to.
  const bool asks =
      message.kind == Kind::kGetShared || message.kind == Kind::kGetExclusive || message.kind == Kind::kUpgrade;
  if (asks && !sessions_[to].open) return;
  wire::Message out = make_message(ref, message);
  out.epoch = epochs_[to];
  if (message.kind == Kind::kWritten) {
    out.slots[0] = std::uint32_t(ref.address.offset() / options_.line_bytes);
    if (written_in_use_) out.flags |= wire::kInUse;
    if (!guard_held_) out.flags |= wire::kGuarded;
  }
  fabric_->send(to, out);
  note_sent(to);
}

void Runtime::send_write(const LineRef& ref, const coherence::Op& op, const Message& message) {
  const Task& task = static_cast<const Task&>(op);
  wire::Message out = make_message(ref, message);
  out.epoch = epochs_[ref.home()];
  const bool guarded = task.action == Action::kWriteIf;
  out.argument = wire::pack(
      wire::SmallWrite{std::uint32_t(task.address - ref.address), task.bytes, std::uint32_t(task.operand / 8)});
  if (guarded) out.flags |= wire::kGuarded;
  std::memcpy(out.slots.data(), task.buffer, guarded ? sizeof(wire::GuardedWrite) : task.bytes);
  if (gathered_ > 0 && gathered_for_ != ref.home()) flush();
  fabric_->send(ref.home(), out);
  note_sent(ref.home());
  ++answers_due_[ref.home()];
  ++gathered_;
  gathered_for_ = ref.home();
}

void Runtime::send_line(const LineRef& ref, NodeId to, std::uint32_t slot, const Message& message) {
  const std::uint32_t bytes = ATOLL_FAULT(larger_line_cut) ? options_.line_bytes : ref.bytes;
  fabric_->write_slot(to, slot, {ref.hot.byte_at(ref.address), bytes}, in_run_);
  counters_->lines_sent.add();
  counters_->bytes_sent.add(ref.bytes);
  send(ref, to, message);
}

void Runtime::send_home(const LineRef& ref, const Message& message) {
  fabric_->write_home(ref.home(), ref.address.offset(), {ref.hot.byte_at(ref.address), ref.bytes});
  counters_->lines_sent.add();
  counters_->bytes_sent.add(ref.bytes);
  send(ref, ref.home(), message);
}

// ---- taking a line from this node's threads ----

/// Makes sure that every thread that enters a line from now on sees what access was lowered. Threads that wait have
/// fenced when they came and will when they go, and write nothing in between: where all do, there is nothing to do.
void Runtime::issue_barrier() {
  if (ATOLL_FAULT(barrier_forgotten)) return;
  if (ATOLL_FAULT(barrier_thought_needless) && waiters_.load() != 0) return;
  if (threads_.all_are(waiters_)) return;
  threads_.barrier();
  counters_->barriers_issued.add();
}

/// One line. Readers are told; writers are waited for. A line that keeps being taken from its writers is fenced, for a
/// barrier may cost microseconds.
void Runtime::quiesce(const LineRef& ref) {
  threads_.tell_readers();
  if (ref.line->use != Line::kWritten) return;
  const bool fenced = ref.hot.fenced();
  if (!fenced) issue_barrier();
  const GlobalAddress lines[] = {ref.address};
  threads_.wait_for_writers(lines);
  ref.line->bias = std::min<int>(ref.line->bias + kBiasStep, kBiasLimit) & 63;
  if (!fenced && ref.line->bias >= kBiasLimit) ref.hot.set_fenced(true);
}

/// A fenced line that was hit many times, or is evicted: it may calm down. Slowly, for the barrier that a line needs
/// which is not fenced costs as much as a hundred fences.
void Runtime::calm(const LineRef& ref) {
  if (ref.line->bias > 0) --ref.line->bias;
  if (ref.line->bias == 0 && ref.hot.fenced() && threads_.has_barrier()) ref.hot.set_fenced(false);
}

/// For many lines whose access was lowered: all readers are told at once, and one barrier serves all writers.
void Runtime::quiesce_all(std::span<const LineRef> refs) {
  bool barrier = false;
  std::vector<GlobalAddress>& written = written_;
  written.clear();
  for (const LineRef& ref : refs) {
    if (ref.line->use == Line::kWritten) {
      written.push_back(ref.address);
      barrier = barrier || !ref.hot.fenced();
    }
  }
  threads_.tell_readers();
  if (barrier) issue_barrier();
  if (!written.empty()) threads_.wait_for_writers(written);
}

/// Before a batch of messages is worked on: the lines that runs of them will take away. All are hidden, also from
/// readers here that might go on: who streams through them is in a hurry, and a hidden line is quicker to give. (Single
/// lines are left to `quiesce`, which learns from them.)
void Runtime::withdraw_for(std::span<const wire::Message> messages) {
  std::vector<LineRef>& taken = victims_;
  taken.clear();
  for (const wire::Message& message : messages) {
    if (!takes_away(message.kind) || message.count == 1) continue;
    for (std::uint8_t i = 0; i < message.count; ++i) {
      const LineRef ref = lines_->ref(wire::line_of(message, i, options_.line_bytes));
      // A lock keeps the line here whatever we do; fenced lines need no barrier.
      if (ref.line->use == Line::kUnused || ref.hot.fenced() || !coherence::is_idle(ref.line->lock.load())) continue;
      ref.hot.set_access(0);
      taken.push_back(ref);
    }
  }
  if (taken.empty()) return;
  if (!ATOLL_FAULT(run_taken_without_hiding)) quiesce_all(taken);
  for (const LineRef& ref : taken) ref.line->use = Line::kUnused;
}

// ---- operations ----

void Runtime::perform(const LineRef& ref, coherence::Op& op) {
  auto& task = static_cast<Task&>(op);
  if (journal_ != nullptr && op.kind != coherence::OpKind::kRead) return perform_logged(ref, task);
  std::byte* const bytes = ref.hot.byte_at(task.address);
  switch (task.action) {
    case Action::kNone:
    case Action::kWriteIf: break;  // done by the home
    case Action::kCopyOut:
      if (is_one_word(task.address.bits(), task.bytes)) {
        copy_word(task.buffer, bytes, task.bytes);
      } else {
        while (!copy_out(*ref.line, bytes, task.buffer, task.bytes)) ATOLL_GIVE_WAY();
      }
      break;
    case Action::kOperate: combine(ref.home(), *ref.line, *operators_.find(task.operation), bytes, task.buffer); break;
    case Action::kCopyIn: write_bytes(*ref.line, bytes, task.buffer, task.address, task.bytes); break;
    case Action::kAdd:
    case Action::kExchange:
    case Action::kCompareExchange: task.value = read_modify_write(bytes, task); break;
    case Action::kCall: {
      // The function must be alone with the bytes: no hit gets in while it runs. It works on a copy, aligned as the
      // original is, so that one that throws changes nothing.
      if (!ATOLL_FAULT(function_not_alone)) {
        ref.hot.set_access(0);
        quiesce(ref);
      }
      alignas(64) std::array<std::byte, 64 + kMaxCallBytes> room;
      std::byte* const copy = room.data() + task.address.offset() % 64;
      base::racy_copy(copy, bytes, task.bytes);
      task.code_from_function = call_function(*task.function, {copy, task.bytes}, task.arguments);
      ATOLL_POINT();
      if (task.code_from_function == Errc::kOk) copy_in(*ref.line, bytes, copy, task.bytes);
      break;
    }
  }
}

/// The home's part of Runtime::is_worth_leaving: a write from elsewhere, done as by a thread of this node.
void Runtime::perform_for(const LineRef& ref, const Message& /*message*/) {
  const wire::SmallWrite write = wire::small_write(*received_);
  const GlobalAddress at = ref.address + std::int64_t(write.offset);
  written_in_use_ = ref.hot.access() != 0;
  guard_held_ = true;
  if ((received_->flags & wire::kGuarded) != 0) {
    const auto guarded = std::bit_cast<wire::GuardedWrite>(received_->slots);
    std::byte* const guard = ref.hot.byte_at(ref.address + std::int64_t(write.guard) * 8);
    guard_held_ = runtime::write_if(*ref.line, guard, ref.hot.byte_at(at), guarded, write.bytes);
    return;
  }
  write_bytes(*ref.line, ref.hot.byte_at(at), reinterpret_cast<const std::byte*>(received_->slots.data()), at,
              ATOLL_FAULT(small_write_cut) ? std::min(write.bytes, 8u) : write.bytes);
}

void Runtime::complete(const LineRef&, coherence::Op& op, Errc result) {
  auto& task = static_cast<Task&>(op);
  ThreadState* thread = task.thread;
  if (task.asynchronous) {
    writes_->give_back(task);
    if (result != Errc::kOk) thread->write_error.store(std::uint8_t(result), std::memory_order_relaxed);
    thread->pending_writes.fetch_sub(1, std::memory_order_release);
  } else {
    task.result = result == Errc::kOk ? task.code_from_function : result;
    if (task.action == Action::kWriteIf && result == Errc::kOk) task.value = (received_->flags & wire::kGuarded) == 0;
    task.done.store(true, std::memory_order_release);
    // The task is its waiter's again from here on; the thread's record outlives it.
  }
  if (finished_.empty() || finished_.back() != thread) finished_.push_back(thread);
}

void Runtime::fault(const LineRef& ref, const Message& message, const char* why) {
  spdlog::error("node {}: {} about {} from node {} makes no sense here: {}", self_, coherence::to_string(message),
                ref.address.to_string(), message.from, why);
  cut_off(message.from, why);
}

void Runtime::broken(const LineRef& ref, const char* what) {
  spdlog::critical("line {}: {}", ref.address.to_string(), what);
  base::check_failed(what, __FILE__, __LINE__);
}

// ---- progress ----

/// The end of each visit to the engine: messages go out, and those who may sleep until something is done are told once,
/// not for each thing.
void Runtime::flush() {
  if (are_pages_under_way()) files_->work(false);
  fabric_->flush();
  gathered_ = 0;
  if (ATOLL_FAULT(last_one_told) && finished_.size() > 1) finished_.erase(finished_.begin(), finished_.end() - 1);
  for (ThreadState* thread : finished_) thread->notify();
  finished_.clear();
  if (room_waiters_.load(std::memory_order_relaxed) != 0 && writes_->has_room()) notify_all();
}

std::uint32_t Runtime::progress() {
  if (!refresh_right() || is_over()) return 0;
  if (journal_ != nullptr) {
    // What was put off while this node was suspended comes before what has arrived.
    if (!to_clean_.empty() || !to_report_.empty()) clean_up();
    if (durable_moved_.exchange(false, std::memory_order_acq_rel)) go_on_settled();
    if (!journal_->has_reserve()) {  // what is worked on must be logged: it waits for a checkpoint
      wake_checkpointer();
      tell_alive();
      flush();
      return 0;
    }
  }
  std::array<wire::Message, kBatch> batch;
  std::array<NodeId, kBatch> from;
  std::uint32_t total = 0;
  while (journal_ == nullptr || journal_->has_reserve()) {
    std::uint32_t count = 0;
    while (count < kBatch && fabric_->poll(batch[count], from[count])) {
      const char* why = nullptr;
      const wire::Verdict verdict = wire::judge(batch[count], from[count], limits_, &why);
      counters_->messages_received.add();
      note_heard(from[count]);
      if (why != nullptr) {
        cut_off(from[count], why);
      } else if (verdict == wire::Verdict::kGood) {
        ++count;
      }
    }
    if (count == 0) break;
    for (std::uint32_t i = 0; i < count; ++i) prefetch_for(batch[i]);
    withdraw_for({batch.data(), count});
    for (std::uint32_t i = 0; i < count; ++i) {
      if (!is_dead(from[i])) dispatch(batch[i], from[i]);  // one before it may have cut its sender off
    }
    total += count;
    if (total >= 4 * kBatch) break;  // let a thread in that waits for the lock
    flush();
  }
  retry_starved();
  flush();
  return total;
}

/// What a message will touch is in nobody's cache, as a rule: fetched all at once it costs one miss and not five.
void Runtime::prefetch_for(const wire::Message& message) const {
  if (!wire::is_line_kind(message.kind)) return;
  const GlobalAddress address(message.line);
  if (message.kind == Kind::kWritten) {
    for (std::uint8_t i = 0; i < message.count; ++i) {
      lines_->prefetch(wire::line_of(message, i, options_.line_bytes), 1);
    }
    return;
  }
  lines_->prefetch(address, message.count);
  if (message.kind == Kind::kWriteHome) {
    __builtin_prefetch(segment_.memory() + address.offset() + wire::small_write(message).offset, 1);
    return;
  }
  if (address.node() != self_ || (message.kind != Kind::kGetShared && message.kind != Kind::kGetExclusive)) return;
  // Of a run only the beginning: the processor sees by itself how it goes on.
  const std::byte* data = segment_.memory() + address.offset();
  const std::uint32_t bytes = std::min(options_.line_bytes << wire::larger(message), kMostPrefetched);
  for (std::uint32_t at = 0; at < bytes; at += 64) __builtin_prefetch(data + at, 0);
  if (message.count == 1) fabric_->prefetch_slot(message.requester, message.slots[0], bytes);
}

void Runtime::dispatch(const wire::Message& message, NodeId from) {
  if (is_deaf(from)) {
    return cut_off(from, "it goes on sending and does not take what is sent to it");
  }
  if (!wire::is_line_kind(message.kind)) {
    if (message.kind == Kind::kAllocate || message.kind == Kind::kFree) return handle_call(message, from);
    if (message.kind == Kind::kWriteIf) return handle_write_if(message, from);
    if (message.kind == Kind::kAllocateReply || message.kind == Kind::kFreeReply || message.kind == Kind::kWriteIfReply)
      return handle_reply(message, from);
    if (message.kind == Kind::kElementLock || message.kind == Kind::kElementAnswer)
      return handle_element(message, from);
    if (message.kind == Kind::kProbe) return handle_probe(from);
    if (message.kind == Kind::kProbeAnswer) return;  // that something was heard is all
    if (message.kind == Kind::kReportEnd || message.kind == Kind::kOpen) return handle_report(message, from);
    if (message.kind == Kind::kFileReply) return file_calls_->handle_reply(message, from);
    if (message.kind == Kind::kFileCall) return file_calls_->handle_call(message);
    return handle_barrier(message, from);  // BarrierArrive, BarrierRelease, Leaving
  }
  if (message.kind == Kind::kGetOperated && operators_.find(message.argument) == nullptr) {
    return cut_off(from, "it uses an operator that is not registered here");
  }
  if (message.kind == Kind::kInvalidate || message.kind == Kind::kForwardExclusive) {
    counters_->invalidations.add(message.count);
  }
  in_run_ = message.count > 1;
  received_ = &message;
  for (std::uint8_t i = 0; i < message.count; ++i) {
    const LineRef ref = lines_->ref(wire::line_of(message, i, options_.line_bytes));
    if (message.kind == Kind::kOffer) {
      take_offer(ref);
      continue;
    }
    note_demand(ref, message);
    const std::uint32_t slot =
        wire::has_slots(message.kind) ? message.slots[ATOLL_FAULT(run_in_first_slot) ? 0 : i] : 0;
    const auto operation = std::uint8_t(message.kind == Kind::kGetOperated ? message.argument : 0);
    const bool is_try = wire::has_slots(message.kind) && (message.flags & wire::kTry) != 0;
    const std::uint64_t tenure = message.kind == Kind::kGetOperated ? 0 : message.argument;
    if (journal_ != nullptr && message.kind == Kind::kPutAck && !ref.is_home() && ref.line->slot != 0) {
      journal_->note_returned(ref.address, journal_->tenure(ref.line->slot - 1));
    }
    protocol_.receive(ref, {message.kind, is_try, from, message.requester, slot, operation, tenure});
  }
  in_run_ = false;
  received_ = nullptr;
}

/// Does more wait for this peer than for one that was only stopped for a while? We return each of its lines that we
/// have once, and ask once for each of ours that it has; it asks for as many as it has room for.
bool Runtime::is_deaf(NodeId peer) const noexcept {
  return fabric_->queued(peer) > std::size_t{cache_slots_[self_]} + 2 * std::size_t{cache_slots_[peer]} + kMostUnread;
}

/// What a message says of who else uses a line; see is_worth_leaving.
void Runtime::note_demand(const LineRef& ref, const wire::Message& message) {
  // What the home itself takes back can be written there.
  const bool taken =
      (message.kind == Kind::kInvalidate || message.kind == Kind::kForwardExclusive) && message.requester != ref.home();
  const bool sent = !ref.is_home() && ref.state() == coherence::CacheState::kWritingHome;
  const bool refused = sent && message.kind == Kind::kRefused;
  const bool written = sent && message.kind == Kind::kWritten;
  if (taken || refused) ref.line->lives |= Line::kContested;
  const bool wanted = message.kind == Kind::kInvalidate || message.kind == Kind::kForwardExclusive ||
                      message.kind == Kind::kForwardShared;
  if (wanted && !ref.is_home()) ref.line->lives |= Line::kWanted;
  if (refused || written) --answers_due_[ref.home()];
  if (written && (message.flags & wire::kInUse) != 0) ref.line->visits.store(0, std::memory_order_relaxed);
}

/// The answer that brings the line into this slot, where the line came with no more than its sender's number.
wire::Message Runtime::answer_in(NodeId from, std::uint32_t slot) {
  wire::Message answer;
  const GlobalAddress line = slot < slots_->size() ? slots_->occupant(slot) : GlobalAddress();
  if (!line) return answer;  // it makes no sense, and is judged so
  answer.epoch = epochs_[from];
  answer.kind = line.node() == from ? Kind::kData : Kind::kOwnerData;
  answer.flags = std::uint8_t(lines_->ref(line).larger << wire::kLargerShift);
  answer.count = 1;
  answer.from = from;
  answer.requester = self_;
  answer.line = line.bits();
  answer.slots[0] = slot;
  return answer;
}

/// A peer that breaks the protocol, or cannot be reached, is heard no more; its waiting partners are told that it died.
/// It may be of another opinion, and alive: what it has is taken from it only when the master has decided.
void Runtime::cut_off(NodeId peer, const char* why) {
  if (peer == self_ || is_dead(peer)) return;
  spdlog::error("node {} is cut off: {}", peer, why);
  fabric_->forget(peer);
  dead_[peer].store(true, std::memory_order_relaxed);
  died_at_.store(host_.now().time_since_epoch().count(), std::memory_order_relaxed);
  first_dead_.store(peer, std::memory_order_release);
  if (!membership_->set_reachable(peer, false)) drop_locks_of(peer);
  notify_all();
}

/// Threads that wait look for messages themselves, and so do those that write much. The service thread keeps away then,
/// for it would take the CPU that they, or their peers, need: for a while, and longer while it goes on.
void Runtime::serve_forever() {
  base::Backoff::Learned learned;
  base::Backoff backoff(host_, options_.spin_ns, options_.yield_us, learned);
  std::chrono::microseconds stand_by = kStandBy;
  std::uint32_t drives_seen = drives_.load(std::memory_order_relaxed);
  Clock::time_point drives_seen_at = host_.now();
  std::int64_t looked = 0;
  while (!stopping_.load(std::memory_order_acquire)) {
    look_at_peers(looked);
    const bool awaited = waiters_.load(std::memory_order_relaxed) > sleepers_.load(std::memory_order_relaxed);
    const std::uint32_t drives = drives_.load(std::memory_order_relaxed) - drives_seen;
    bool driven = false;
    if (drives >= stand_by / kOften) {
      const Clock::time_point now = host_.now();
      driven = now - drives_seen_at < kStandBy;  // of late, not while we slept for a message
      drives_seen += drives;
      drives_seen_at = now;
    }
    if (awaited || driven) {
      host_.sleep_for(stand_by);
      stand_by = std::min(2 * stand_by, awaited ? kLongStandBy : kDrivenStandBy);
      if (awaited) drives_seen = drives_.load(std::memory_order_relaxed);  // those of threads that wait, no others
      drives_seen_at = host_.now();                                        // those that came meanwhile are of late
      backoff.reset();
      continue;
    }
    stand_by = kStandBy;
    if (!may_act() || is_over()) {  // what has come waits, or is not wanted any more
      host_.sleep_for(kSuspendedLook);
      continue;
    }
    // What waits for the disk goes on when that is done, also where no peer sends and no thread waits.
    const bool settled = durable_moved_.load(std::memory_order_acquire);
    if ((fabric_->maybe_pending() || fabric_->has_backlog() || settled) && mutex_.try_lock()) {
      const std::uint32_t worked = progress();
      mutex_.unlock();
      if (worked > 0 || fabric_->has_backlog()) {
        backoff.reset();
        continue;
      }
    }
    if (backoff.pause()) continue;
    fabric_->wait(1000);
    backoff.reset();
  }
}

}  // namespace atoll::runtime
