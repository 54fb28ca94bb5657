// Locks of elements: the side of the threads, and what goes between nodes. Who gets a lock when is the table's affair
// (coherence::ElementLocks), at the element's home. Lines have no part in it.
#include "base/check.hpp"
#include "base/log.hpp"
#include "runtime/runtime.hpp"

namespace atoll::runtime {

using coherence::ElementAnswer;
using coherence::Party;
using wire::Kind;

Status Runtime::lock_element(GlobalAddress element, LockMode mode, bool is_try) {
  if (const Status status = check_range(element, 1); !status.ok()) return status;
  ThreadState& thread = threads_.current();
  if (const Status status = fence_writes(thread); !status.ok()) return status;
  if (const auto held = thread.elements.find(element.bits()); held != thread.elements.end()) {
    // In the queue a second reader might wait for a writer that waits for the first: itself.
    if (mode == LockMode::kWrite || held->second.mode == LockMode::kWrite) {
      return {Errc::kWouldDeadlock, "this thread has locked the element already"};
    }
    ++held->second.times;
    return {};
  }
  const NodeId home = element.node();
  if (is_over()) return why_over();
  if (is_dead(home) && !returns()) return {Errc::kNodeDied, "the home of the element is gone", home};
  ElementCall call;
  call.thread = &thread;
  call.element = element;
  call.exclusive = mode == LockMode::kWrite;
  call.is_try = is_try;
  const std::uint64_t ticket = ask_for_element(call);
  const Status waited = wait(thread, returns() ? kNoNode : home, Clock::time_point::max(),
                             [&] { return call.done.load(std::memory_order_acquire); });
  if (!waited.ok() && withdraw_element_call(ticket, call)) return waited;
  switch (call.answer) {
    case ElementAnswer::kGranted: break;
    case ElementAnswer::kRefused:
      counters_->lock_refusals.add();
      return {Errc::kRefused, "another lock or request is in the way"};
    case ElementAnswer::kAbandoned:
      return {Errc::kNodeDied, "the node that had locked the element to write is gone", call.dead};
    case ElementAnswer::kExcess:
      return {Errc::kOutOfMemory, "this node has as many element locks at that home as it may", home};
  }
  thread.elements[element.bits()] = {ticket, mode, 1};
  return {};
}

Status Runtime::unlock_element(GlobalAddress element) {
  ThreadState& thread = threads_.current();
  const auto held = thread.elements.find(element.bits());
  if (held == thread.elements.end()) return {Errc::kNotHeld, "this thread has not locked the element"};
  // What was written under the lock must be seen by who gets it next. A failure is reported, the lock released.
  const Status fenced = ATOLL_FAULT(element_unlock_before_fence) ? Status() : fence_writes(thread);
  if (--held->second.times != 0) return fenced.ok() ? settle(thread) : fenced;
  const std::uint64_t ticket = held->second.ticket;
  thread.elements.erase(held);
  if (is_dead(element.node()) && !returns()) {
    return fenced.ok() ? Status(Errc::kNodeDied, "the home of the element is gone", element.node()) : fenced;
  }
  {
    const Entry entry(*this);
    locked_elements_.erase(ticket);
    release_element(ticket, element);
    flush();
  }
  return fenced.ok() ? settle(thread) : fenced;
}

/// Nodes of a cluster that is not logged never come back.
bool Runtime::returns() const noexcept {
  return journal_ != nullptr;
}

/// Is nothing asked of this home now? It has died, and will be back; or it is back, and not open.
bool Runtime::is_shut(NodeId home) const noexcept {
  return returns() && (is_dead(home) || shut_homes_.contains(home));
}

/// Returns the ticket that the answer will name. A home that is shut is asked when it is open.
std::uint64_t Runtime::ask_for_element(ElementCall& call) {
  const Entry entry(*this);
  const std::uint64_t ticket = next_call_++;
  element_calls_[ticket] = &call;
  const NodeId home = call.element.node();
  if (!is_shut(home)) send_element_call(ticket, call);
  if (home != self_) {
    counters_->lock_misses.add();
  } else if (!call.done.load(std::memory_order_relaxed)) {
    counters_->lock_waits.add();
  }
  flush();
  return ticket;
}

void Runtime::send_element_call(std::uint64_t ticket, const ElementCall& call) {
  if (call.element.node() == self_) {
    return element_locks_.request({self_, ticket}, call.element, call.exclusive, call.is_try);
  }
  send_element_lock(ticket, call.element, (call.is_try ? wire::kTry : 0) | (call.exclusive ? wire::kExclusive : 0));
}

void Runtime::send_element_lock(std::uint64_t ticket, GlobalAddress element, int flags) {
  wire::Message message;
  message.kind = Kind::kElementLock;
  message.line = element.bits();
  message.argument = ticket;
  message.flags = std::uint8_t(flags);
  call_home(element.node(), message);
}

/// The thread waits no longer. False: the answer has come in the meantime, and counts. Else one that is still under way
/// finds no call; if it is a grant, the home takes it back when it hears of this.
bool Runtime::withdraw_element_call(std::uint64_t ticket, const ElementCall& call) {
  const Entry entry(*this);
  if (call.done.load(std::memory_order_relaxed)) return false;
  element_calls_.erase(ticket);
  release_element(ticket, call.element);
  flush();
  return true;
}

/// A home that is gone is told nothing, and one that is back nothing that it does not know yet.
void Runtime::release_element(std::uint64_t ticket, GlobalAddress element) {
  const NodeId home = element.node();
  if (home == self_) return element_locks_.release({self_, ticket}, element);
  const auto shut = shut_homes_.find(home);
  if (is_dead(home) || (shut != shut_homes_.end() && !shut->second)) return;
  send_element_lock(ticket, element, wire::kRelease);
}

// ---- between nodes ----

/// Receive ElementLock: the table decides. Receive ElementAnswer: hand it to the thread that asked.
void Runtime::handle_element(const wire::Message& message, NodeId from) {
  const GlobalAddress element(message.line);
  if (message.kind == Kind::kElementAnswer) {
    if (is_shut(from)) return;  // it forgot what it granted when it died; it is asked again
    return end_element_call(message.argument, element, ElementAnswer(message.slots[wire::kElementAnswerAt]),
                            NodeId(message.slots[wire::kElementDeadAt]));
  }
  const Party party{from, message.argument};
  if ((message.flags & wire::kRelease) != 0) return element_locks_.release(party, element);
  const bool exclusive = (message.flags & wire::kExclusive) != 0;
  if ((message.flags & wire::kReinstate) != 0) return element_locks_.reinstate(party, element, exclusive);
  element_locks_.request(party, element, exclusive, (message.flags & wire::kTry) != 0);
}

/// One that has given up is not there any more. (Who answers is the element's home: messages are judged before.)
void Runtime::end_element_call(std::uint64_t ticket, GlobalAddress element, ElementAnswer answer, NodeId dead) {
  const auto found = element_calls_.find(ticket);
  if (found == element_calls_.end()) return;
  ElementCall& call = *found->second;
  if (call.element != element) return cut_off(element.node(), "an answer about another element than was asked for");
  element_calls_.erase(found);
  // From now on, not from when the thread wakes: its home may die in between.
  if (answer == ElementAnswer::kGranted && returns() && element.node() != self_) {
    locked_elements_[ticket] = {element, call.exclusive};
  }
  ThreadState* const thread = call.thread;
  call.answer = answer;
  call.dead = dead;
  call.done.store(true, std::memory_order_release);
  // The call is its thread's again from here on; the thread's record outlives it.
  if (!ATOLL_FAULT(element_answer_not_told)) finished_.push_back(thread);
}

void Runtime::answer(const Party& to, GlobalAddress element, ElementAnswer answer, NodeId dead) {
  if (to.node == self_) return end_element_call(to.ticket, element, answer, dead);
  wire::Message message;
  message.kind = Kind::kElementAnswer;
  message.line = element.bits();
  message.argument = to.ticket;
  message.slots[wire::kElementAnswerAt] = std::uint32_t(answer);
  message.slots[wire::kElementDeadAt] = dead;
  if (!is_dead(to.node)) call_home(to.node, message);
}

void Runtime::fault(const Party& from, GlobalAddress element, const char* why) {
  spdlog::error("node {}: a request for the element {} from node {} makes no sense here: {}", self_,
                element.to_string(), from.node, why);
  cut_off(from.node, why);
}

void Runtime::broken(GlobalAddress element, const char* what) {
  spdlog::critical("element {}: {}", element.to_string(), what);
  base::check_failed(what, __FILE__, __LINE__);
}

/// A node is gone, and nothing more of it will be worked on: those who wait behind it go on, or are told.
void Runtime::drop_locks_of(NodeId dead) {
  if (returns()) close_element_home(dead);
  element_locks_.node_died(dead);
  flush();
}

// ---- logged: a home that has died and is back ----

/// Nothing is asked of the home until it is open, and what it has said is not believed. REQUIRES: this node: it is back
/// itself, and was asked for nothing yet.
void Runtime::close_element_home(NodeId home) {
  shut_homes_[home] = false;
  if (home == self_) element_locks_.close();
}

/// Tells a home that is back what is held here of its elements. What is let go from now on is told as well.
/// REQUIRES: the home is reached again, and ReportEnd is sent after this.
void Runtime::report_element_locks(NodeId home) {
  shut_homes_[home] = true;
  for (const auto& [ticket, locked] : locked_elements_) {
    if (locked.element.node() != home || ATOLL_FAULT(log_holders_not_reported)) continue;
    send_element_lock(ticket, locked.element, wire::kReinstate | (locked.exclusive ? wire::kExclusive : 0));
  }
}

/// A home is open, perhaps this one: what is waited for here is asked for (again), in the order in which it was.
void Runtime::resend_element_locks(NodeId home) {
  shut_homes_.erase(home);
  if (home == self_) element_locks_.open();
  std::vector<std::uint64_t> waiting;  // an answer of this node's own table ends its call
  for (const auto& [ticket, call] : element_calls_) {
    if (call->element.node() == home) waiting.push_back(ticket);
  }
  if (ATOLL_FAULT(log_waiters_not_asked)) waiting.clear();
  for (const std::uint64_t ticket : waiting) send_element_call(ticket, *element_calls_.at(ticket));
  flush();
}

}  // namespace atoll::runtime
