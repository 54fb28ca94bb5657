// Allocation here and on other nodes, and the barrier: what nodes ask of each other beyond lines.
#include <algorithm>
#include <bit>
#include <utility>

#include "base/log.hpp"
#include "runtime/runtime.hpp"

namespace atoll::runtime {

using wire::Kind;

namespace {
constexpr std::size_t kCodeAt = 0, kFreshAt = 1;  // in Message::slots of a reply
constexpr std::uint64_t kNoAnswer = 0;            // the number of a call that nobody waits for
constexpr std::uint64_t kFreeUnit = 16;           // blocks begin at multiples of it
constexpr const char* kNoMemory = "no node that may be used has that much free memory in one piece";
}  // namespace

/// Sends a request to a node and waits for its answer.
Status Runtime::call(NodeId node, Kind kind, std::uint64_t argument, Call& call) {
  if (is_dead(node) && journal_ == nullptr) return {Errc::kNodeDied, "the node asked is gone", node};
  ThreadState& thread = threads_.current();
  call.thread = &thread;
  call.node = node;
  call.kind = kind;
  call.argument = argument;
  std::uint64_t number = 0;
  {
    const Entry entry(*this);
    if (kind == Kind::kAllocate) send_frees(node);  // it may need that memory
    number = next_call_++;
    calls_[number] = &call;
    if (sessions_[node].open) send_call(number, call);  // else when it serves again
    flush();
  }
  const Status status =
      wait(thread, node, Clock::time_point::max(), [&] { return call.done.load(std::memory_order_acquire); });
  if (call.done.load(std::memory_order_acquire)) return {};  // who has answered it has struck it off
  const Entry entry(*this);
  calls_.erase(number);
  return call.done.load(std::memory_order_acquire) ? Status() : status;
}

void Runtime::send_call(std::uint64_t number, const Call& call) {
  wire::Message message;
  message.kind = call.kind;
  message.line = number;
  message.argument = call.argument;
  if (call.write != nullptr) message.slots = std::bit_cast<decltype(message.slots)>(*call.write);
  call_home(call.node, message);
}

void Runtime::call_home(NodeId to, wire::Message message) {
  message.epoch = epochs_[to];
  message.from = self_;
  message.requester = self_;
  counters_->messages_sent.add();
  counters_->sent_by_kind[std::size_t(message.kind)].add();
  fabric_->send(to, message);
  if (message.kind != Kind::kProbeAnswer) note_sent(to);  // or two idle nodes would ask each other for ever
}

/// Receive a Free of number 0: several blocks, and nobody wants an answer. What is no block is the sender's loss.
void Runtime::handle_frees(const wire::Message& message, NodeId from) {
  if (message.count > wire::kMaxRun) return cut_off(from, "more blocks to free than a message has");
  for (std::uint8_t i = 0; i < message.count; ++i) (void)free_here(std::uint64_t(message.slots[i]) * kFreeUnit, {});
}

/// This node's own memory.
Result<memory::Allocator::Block> Runtime::allocate_here(std::uint64_t bytes, Caller caller) {
  const auto block = allocator_->allocate(bytes);
  if (!block.ok()) return block;
  if (journal_ != nullptr) journal_->note_allocate(block->offset, bytes, false, caller);
  counters_->allocations.add();
  counters_->memory_free_bytes.set(allocator_->free_bytes());
  return block;
}

Status Runtime::free_here(std::uint64_t offset, Caller caller) {
  const Status status = allocator_->free(offset);
  if (!status.ok()) return status;
  if (journal_ != nullptr) journal_->note_free(offset, caller);
  counters_->frees.add();
  counters_->memory_free_bytes.set(allocator_->free_bytes());
  return status;
}

/// Receive Allocate or Free: answer at once. A call that comes again, because this node had died before its answer went
/// out, is answered as it was then.
void Runtime::handle_call(const wire::Message& message, NodeId from) {
  if (message.kind == Kind::kFree && message.line == kNoAnswer) return handle_frees(message, from);
  wire::Message reply;
  reply.line = message.line;
  const Caller caller{from, message.line};
  const auto answered = answered_.find(caller);
  if (message.kind == Kind::kAllocate) {
    reply.kind = Kind::kAllocateReply;
    const auto block = answered == answered_.end() ? allocate_here(message.argument, caller)
                                                   : Result<memory::Allocator::Block>({answered->second, false});
    if (block.ok()) reply.argument = GlobalAddress::make(self_, block->offset).bits();
    reply.slots[kCodeAt] = std::uint32_t(block.status().code());
    reply.slots[kFreshAt] = block.ok() && block->fresh ? 1 : 0;
  } else {
    reply.kind = Kind::kFreeReply;
    const GlobalAddress address(message.argument);
    const Status status = answered != answered_.end() ? Status()
                          : address.node() == self_   ? free_here(address.offset(), caller)
                                                      : Status(Errc::kBadAddress);
    reply.slots[kCodeAt] = std::uint32_t(status.code());
  }
  answer_call(from, reply);
}

/// When what was done is durable, and what was seen as well.
void Runtime::answer_call(NodeId to, const wire::Message& reply) {
  if (journal_ == nullptr || journal_->is_durable(journal_->last())) return call_home(to, reply);
  late_.push_back({to, reply, journal_->last()});
  journal_->ask_for_sync();
}

/// Receive AllocateReply, FreeReply or WriteIfReply: hand it to the thread that asked. One that has given up is not
/// there any more.
void Runtime::handle_reply(const wire::Message& message, NodeId from) {
  const auto found = calls_.find(message.line);
  if (found == calls_.end()) return;
  Call& call = *found->second;
  if (call.node != from) return cut_off(from, "an answer to what another node was asked");
  ThreadState* thread = call.thread;
  call.value = message.argument;
  call.code = message.slots[kCodeAt] <= std::uint32_t(Errc::kAlreadyExists) ? message.slots[kCodeAt]
                                                                            : std::uint32_t(Errc::kInvalidArgument);
  call.fresh = message.slots[kFreshAt] == 1;
  calls_.erase(found);
  call.done.store(true, std::memory_order_release);  // nobody has it after this but its thread
  if (!ATOLL_FAULT(call_answer_not_told)) thread->notify();
}

Result<GlobalAddress> Runtime::allocate_on(NodeId node, std::uint64_t bytes, bool* fresh) {
  if (is_over()) return why_over();
  if (node == self_) {
    if (const Status status = need_room(threads_.current()); !status.ok()) return status;
    const Entry entry(*this);
    const auto block = allocate_here(bytes, {});
    if (!block.ok()) return {block.status().code(), kNoMemory, node};
    if (journal_ != nullptr) threads_.current().note_logged(journal_->last());
    *fresh = block->fresh;
    return GlobalAddress::make(self_, block->offset);
  }
  Call request;
  if (const Status status = call(node, Kind::kAllocate, bytes, request); !status.ok()) return status;
  if (request.code != 0) return {Errc(request.code), kNoMemory, node};
  *fresh = request.fresh;
  const GlobalAddress address(request.value);
  if (address.node() != node || !lines_->contains(address, bytes)) {
    const Entry entry(*this);
    cut_off(node, "it gave memory that it does not have");
    return {Errc::kNodeDied, "the node asked gave memory that it does not have", node};
  }
  return address;
}

Result<GlobalAddress> Runtime::allocate(std::uint64_t bytes, const Placement& placement) {
  if (bytes == 0) return {Errc::kInvalidArgument, "an allocation needs at least one byte"};
  // Those with the most free memory first. How much that is is read once: others allocate meanwhile, and a sort whose
  // order changes under it runs beyond its ends.
  const auto others = [&] {
    std::vector<std::pair<std::uint64_t, NodeId>> by_room;
    for (NodeId node = 0; node < nodes_; ++node) {
      if (node != self_ && !is_dead(node)) by_room.emplace_back(transport_->free_bytes(node), node);
    }
    std::stable_sort(by_room.begin(), by_room.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    std::vector<NodeId> nodes;
    for (const auto& [room, node] : by_room) nodes.push_back(node);
    return nodes;
  };
  std::vector<NodeId> candidates;
  using Where = Placement::Where;
  switch (placement.where) {
    case Where::kLocal: candidates = {self_}; break;
    case Where::kNode:
    case Where::kNear:
      if (placement.node >= nodes_) return {Errc::kInvalidArgument, "there is no such node", placement.node};
      candidates = {placement.node};
      break;
    case Where::kRemote:
      candidates = others();
      if (candidates.empty() && nodes_ == 1) return {Errc::kInvalidArgument, "there is no other node"};
      if (candidates.empty() && journal_ != nullptr) candidates = {NodeId(self_ == 0 ? 1 : 0)};  // it will be back
      if (candidates.empty()) return {Errc::kNodeDied, "every other node is gone", first_dead_.load()};
      break;
    case Where::kAny: candidates = {self_}; break;  // and the others when this one is short
  }
  Status last(Errc::kOutOfMemory, kNoMemory);
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    bool fresh = false;
    const Result<GlobalAddress> got = allocate_on(candidates[i], bytes, &fresh);
    if (got.ok()) {
      if (placement.zeroed && !fresh && !ATOLL_FAULT(memory_not_zeroed)) {
        if (const Status status = zero(*got, bytes); !status.ok()) return status;
      }
      return got;
    }
    last = got.status();
    if (last.code() != Errc::kOutOfMemory) break;
    if (i == 0 && placement.where == Where::kAny) {
      for (const NodeId node : others()) candidates.push_back(node);
    }
  }
  return last;
}

Status Runtime::free(GlobalAddress address) {
  if (is_over()) return why_over();
  if (!address) return {Errc::kNullAddress, "the address is null"};
  if (!lines_->contains(address, 1)) return {Errc::kBadAddress, "no node has memory at this address", address.node()};
  constexpr const char* kWhat = "no allocation starts here: freed already, or an address inside one";
  if (address.node() == self_) {
    if (const Status status = need_room(threads_.current()); !status.ok()) return status;
    const Entry entry(*this);
    const Status status = free_here(address.offset(), {});
    return status.ok() ? status : Status(status.code(), kWhat, self_);
  }
  Call request;
  if (const Status status = call(address.node(), Kind::kFree, address.bits(), request); !status.ok()) return status;
  return request.code == 0 ? Status() : Status(Errc(request.code), kWhat, address.node());
}

/// As free; another node is told of several blocks at once, and not waited for.
Status Runtime::release(GlobalAddress address) {
  const bool small = address.offset() / kFreeUnit <= UINT32_MAX && address.offset() % kFreeUnit == 0;
  if (!address || !lines_->contains(address, 1) || address.node() == self_ || !small) return free(address);
  if (const Status status = check_home(address); !status.ok()) return status;
  const Entry entry(*this);
  frees_.resize(nodes_);
  wire::Message& told = frees_[address.node()];
  told.slots[told.count++] = std::uint32_t(address.offset() / kFreeUnit);
  if (told.count < wire::kMaxRun) return {};
  send_frees(address.node());
  flush();
  return {};
}

/// Tells a node of the blocks that it has to free. The caller flushes.
void Runtime::send_frees(NodeId to) {
  if (frees_.empty() || frees_[to].count == 0) return;
  wire::Message message = std::exchange(frees_[to], {});
  message.kind = Kind::kFree;
  message.line = kNoAnswer;
  if (sessions_[to].open) {
    if (!is_dead(to)) call_home(to, message);  // or they are lost, and the memory with them
  } else {
    kept_frees_[to].push_back(message);  // it will be back
  }
}

/// A peer serves again: what was to be freed meanwhile.
void Runtime::send_kept_frees(NodeId to) {
  const auto kept = kept_frees_.extract(to);
  if (kept.empty()) return;
  for (const wire::Message& message : kept.mapped()) call_home(to, message);
}

// ---- the barrier: everyone tells node 0, node 0 tells everyone ----

void Runtime::handle_barrier(const wire::Message& message, NodeId from) {
  if (message.kind == Kind::kLeaving) {
    if (message.argument < left_after_.load(std::memory_order_relaxed)) {
      left_node_.store(from, std::memory_order_relaxed);
      left_after_.store(message.argument, std::memory_order_release);
    }
    notify_all();
    return;
  }
  if (message.kind == Kind::kBarrierRelease) {
    const bool next = message.argument == barrier_released_.load(std::memory_order_relaxed) + 1;
    if (from != 0 || !next || message.argument > barrier_round_) return cut_off(from, "a barrier that nobody is in");
    barrier_released_.store(message.argument, std::memory_order_release);
    notify_all();
    return;
  }
  barrier_reached_.resize(nodes_, 0);
  if (self_ == 0 && journal_ != nullptr && message.argument == barrier_released_.load(std::memory_order_relaxed) &&
      from != self_) {  // released before this node died, and not all were told
    wire::Message release;
    release.kind = Kind::kBarrierRelease;
    release.argument = message.argument;
    return call_home(from, release);
  }
  if (self_ != 0 || message.argument != barrier_reached_[from] + 1) return cut_off(from, "a barrier out of turn");
  barrier_reached_[from] = message.argument;
  const auto missing = std::count_if(barrier_reached_.begin(), barrier_reached_.end(),
                                     [&](std::uint64_t reached) { return reached < message.argument; });
  if (missing > (ATOLL_FAULT(barrier_released_early) ? 1 : 0)) return;
  wire::Message release;
  release.kind = Kind::kBarrierRelease;
  release.argument = message.argument;
  for (NodeId node = 1; node < nodes_; ++node) call_home(node, release);
  barrier_released_.store(message.argument, std::memory_order_release);
  notify_all();
}

Status Runtime::barrier(std::chrono::milliseconds timeout) {
  if (const Status status = fence(); !status.ok()) return status;
  {
    const Entry entry(*this);
    for (NodeId node = 0; node < nodes_; ++node) send_frees(node);
  }
  if (nodes_ == 1) return {};
  std::uint64_t round = 0;
  {
    const Entry entry(*this);
    // This node has arrived once for the barrier that its last call gave up: a second arrival would count for the next.
    if (!std::exchange(barrier_given_up_, false)) {
      wire::Message arrive;
      arrive.kind = Kind::kBarrierArrive;
      arrive.argument = ++barrier_round_;
      if (self_ == 0) {
        handle_barrier(arrive, 0);
      } else if (sessions_[0].open) {  // else when it serves again
        call_home(0, arrive);
      }
      flush();
    }
    round = barrier_round_;
  }
  ThreadState& thread = threads_.current();
  const auto deadline = host_.now() + std::min(timeout, std::chrono::milliseconds(std::chrono::hours(24)));
  const auto released = [&] { return barrier_released_.load(std::memory_order_acquire) >= round; };
  const auto hopeless = [&] { return left_after_.load(std::memory_order_acquire) < round; };
  Status status = wait(thread, 0, deadline, [&] { return released() || hopeless(); });
  if (status.ok() && !released()) {
    status = {Errc::kNodeDied, "a node has left, and a barrier needs all", left_node_.load(std::memory_order_relaxed)};
  }
  if (!status.ok()) {
    const Entry entry(*this);
    barrier_given_up_ = barrier_given_up_ || round == barrier_round_;
  }
  return status;
}

}  // namespace atoll::runtime
