// What the coherence core works on: messages about one line, operations that wait for one, and the
// records of a line at its home and elsewhere. Plain data; no threads, no I/O, no clock.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "atoll/address.hpp"
#include "atoll/detail/line.hpp"
#include "coherence/cache_table.hpp"
#include "coherence/directory_table.hpp"
#include "wire/kinds.hpp"

namespace atoll::coherence {

using detail::HotLine;
using detail::Line;
using wire::Kind;

/// One message about one line; the runtime packs runs of them into wire messages.
struct Message {
  Kind kind = Kind::kNone;
  bool is_try = false;
  NodeId from = 0;
  NodeId requester = 0;
  std::uint32_t slot = 0;      // of the requester's cache
  std::uint8_t operation = 0;  // GetOperated: which operator
  std::uint64_t tenure = 0;    // logged: of the owner that is made, reports or returns the line (wire::has_tenure)
  friend bool operator==(const Message&, const Message&) = default;
};
[[nodiscard]] std::string to_string(const Message& message);

enum class OpKind : std::uint8_t {
  kRead,
  kWrite,
  kAtomic,     // read and write in one step
  kOperate,    // combine an operand; the result is not asked for
  kWriteAway,  // a write for the home to do, at once or not at all: refused where it cannot
  kReadLock,
  kWriteLock,
  kTryReadLock,
  kTryWriteLock,
};
[[nodiscard]] constexpr bool is_lock(OpKind kind) noexcept {
  return kind >= OpKind::kReadLock;
}
[[nodiscard]] constexpr bool is_try(OpKind kind) noexcept {
  return kind >= OpKind::kTryReadLock;
}
/// The access bits one of which the operation needs.
[[nodiscard]] constexpr std::uint8_t need_of(OpKind kind) noexcept {
  if (kind == OpKind::kOperate) return detail::kWritable | detail::kOperable;
  return kind == OpKind::kRead || kind == OpKind::kReadLock || kind == OpKind::kTryReadLock ? detail::kReadable
                                                                                            : detail::kWritable;
}
[[nodiscard]] std::string_view to_string(OpKind kind) noexcept;

/// An operation of a thread of this node that could not be a hit. The runtime derives its own from this.
struct Op {
  explicit Op(OpKind k) noexcept : kind(k) {}
  OpKind kind;
  bool under_lock = false;     // its thread holds a lock of the line
  bool may_leave = false;      // a write that the home may do, if the line is not here
  std::uint8_t operation = 0;  // kOperate: the operator, from 1 on
  Op* next = nullptr;
};

/// A queue of operations that are linked through themselves; first come first served.
class OpQueue {
 public:
  [[nodiscard]] bool empty() const noexcept { return head_ == nullptr; }
  [[nodiscard]] Op* front() const noexcept { return head_; }
  void push_front(Op& op) noexcept {
    op.next = head_;
    if (head_ == nullptr) tail_ = &op;
    head_ = &op;
  }
  void push(Op& op) noexcept {
    op.next = nullptr;
    (head_ == nullptr ? head_ : tail_->next) = &op;
    tail_ = &op;
  }
  Op* pop() noexcept {
    Op* op = head_;
    head_ = op->next;
    return op;
  }
  /// Takes one out wherever it stands; false when it is not in the queue.
  bool remove(const Op& op) noexcept;

 private:
  Op* head_ = nullptr;
  Op* tail_ = nullptr;
};

enum DirFlags : std::uint8_t {
  kPendingTry = 1,      // what is remembered is a try
  kPendingUpgrade = 2,  // the remembered requester has the data
  kRefusedSome = 4,     // a sharer has refused
  kAsFiled = 8,  // what the home's memory has, or had when it was dropped, stands in the line's file, or will when
                 // what is being written is
};

/// A line at its home. Fixed size, no pointers, in the node's shared segment.
///
/// Invariants (asserted by the one setter):
///   1. Unshared: no owner, no sharers.   2. Shared: sharers, no owner.   3. Dirty: an owner, no sharers.
///   4. Operated: sharers, who all combine operands of one operator; no owner.
///   5. Orphaned: an owner, who is dead or has not reported; no sharers.
///   6. Stored, Parked: no owner, as filed; Parked: sharers, Stored: none. Who writes a line that is as filed comes to
///   the
///      core first, which takes the flag back.
struct DirEntry {
  DirState state = DirState::kUnshared;
  std::uint8_t flags = 0;
  NodeId owner = kNoNode;
  NodeId requester = kNoNode;  // while busy: who waits
  std::uint16_t acks_left = 0;
  std::uint32_t slot = 0;       // while busy: the requester's slot
  std::uint32_t operation = 0;  // the operator, while operated or while busy to become so
  std::uint64_t sharers = 0;    // bit n % 64; beyond 64 nodes a bit stands for a group
  std::uint64_t transfers = 0;  // the tenure: one more per ownership transfer, and in logged clusters per return
};
static_assert(sizeof(DirEntry) == 32);

/// What waits for a line at this node; exists only while something does.
struct Cold {
  OpQueue memory;        // reads, writes, atomics: wait for a permission
  OpQueue locks;         // blocking locks: wait for a permission and for other locks
  Op* trying = nullptr;  // the try-lock whose request is under way
  Op* away = nullptr;    // the write that the home was asked to do
  Message held;          // cache side: the home's message that a lock delays (there is at most one)
  bool has_held = false;
  bool local_queued = false;     // home side: a request of this node itself is queued or under way
  std::deque<Message> requests;  // home side: requests that wait their turn
  std::uint64_t unanswered = 0;  // home side, logged: sharers that were told to drop their copies and have not answered

  [[nodiscard]] bool idle() const noexcept {
    return memory.empty() && locks.empty() && trying == nullptr && away == nullptr && !has_held && !local_queued &&
           requests.empty() && unanswered == 0;
  }
};

/// A line as the core is given it.
struct LineRef {
  GlobalAddress address;
  Line* line = nullptr;
  HotLine hot;
  DirEntry* directory = nullptr;  // at the home only
  std::uint8_t larger = 0;        // the line is 2^larger times as large as one of the heap
  std::uint32_t bytes = 0;        // how many it has
  bool has_file = false;          // at the home: it need not always be in memory

  [[nodiscard]] NodeId home() const noexcept { return address.node(); }
  [[nodiscard]] bool is_home() const noexcept { return directory != nullptr; }
  [[nodiscard]] CacheState state() const noexcept { return CacheState(line->state); }
};

}  // namespace atoll::coherence
