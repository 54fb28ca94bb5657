// What lines that have a file add to the protocol: they may be in no memory at all, and come from the file, or from a
// node that still has a copy, when somebody wants them. See docs/files.md.
#include "coherence/line_version.hpp"
#include "coherence/lock_word.hpp"
#include "coherence/protocol.hpp"

namespace atoll::coherence {

void Protocol::act_stored(const LineRef& ref, DirAction action) {
  DirEntry& entry = *ref.directory;
  if (action == DirAction::kSoil) {
    entry.flags &= std::uint8_t(~kAsFiled);
  } else if (action == DirAction::kClean) {
    entry.flags |= kAsFiled;
  } else if (action == DirAction::kDiscard) {
    mark_away(*ref.line);  // before the bytes are gone: who reads in place sees it
  } else if (action == DirAction::kHere) {
    mark_here(*ref.line);
  } else if (action == DirAction::kFail) {
    fail_waiting(ref);
  } else {
    const NodeId sharer = action == DirAction::kFetch && entry.sharers != 0 ? env_.sharer_to_ask(ref) : kNoNode;
    entry.requester = sharer;
    if (sharer == kNoNode) {
      env_.load(ref);
    } else {
      env_.send(ref, sharer, {Kind::kFetchCopy, false, env_.self(), sharer, 0});
    }
  }
}

/// Nobody can have the line now: those who wait for it are told, here and elsewhere.
void Protocol::fail_waiting(const LineRef& ref) {
  Cold* const cold = env_.find_cold(ref);
  if (cold == nullptr) return;
  for (const Message& request : cold->requests) {
    if (request.from == env_.self()) continue;
    env_.send(ref, request.from, {Kind::kFailed, false, env_.self(), request.requester, request.slot});
  }
  cold->requests.clear();
  cold->local_queued = false;
  while (!cold->memory.empty()) env_.complete(ref, *cold->memory.pop(), Errc::kStorage);
  while (!cold->locks.empty()) env_.complete(ref, *cold->locks.pop(), Errc::kStorage);
  if (Op* const op = cold->trying; op != nullptr) {
    cold->trying = nullptr;
    env_.complete(ref, *op, Errc::kStorage);
  }
}

/// A copy that this node took because its home had no room: nobody here has come for it yet.
bool Protocol::is_kept_for_home(const LineRef& ref) const noexcept {
  return ref.state() == CacheState::kShared && (ref.line->lives & Line::kFetchedAhead) != 0 &&
         is_idle(ref.line->lock.load(std::memory_order_seq_cst)) && ref.hot.access() == 0 &&
         ref.line->use == Line::kUnused && env_.find_cold(ref) == nullptr;
}

bool Protocol::fetch_home(const LineRef& ref) {
  const DirState state = ref.directory->state;
  if (state != DirState::kStored && state != DirState::kParked) return false;
  happen(ref, DirEvent::kFetchAhead, env_.self());
  settle(ref);
  return true;
}

void Protocol::loaded(const LineRef& ref, bool ok) {
  const bool shared = ref.directory->sharers != 0;
  if (ok) {
    happen(ref, shared ? DirEvent::kFetchedShared : DirEvent::kFetched, env_.self());
  } else {
    happen(ref, shared ? DirEvent::kFetchFailedShared : DirEvent::kFetchFailed, env_.self());
  }
  settle(ref);
}

bool Protocol::file(const LineRef& ref) {
  const DirState state = ref.directory->state;
  if (state != DirState::kUnshared && state != DirState::kShared) return false;
  // The bit first, so that no thread takes the lock to write after we have looked.
  const std::uint32_t word = ref.line->lock.fetch_or(detail::kLockWaiters, std::memory_order_seq_cst);
  const bool locked = !lock_fits(word, false);
  if (!locked) {
    lower_access(ref, detail::kReadable, true);
    ref.directory->flags |= kAsFiled;
  }
  settle(ref);
  return !locked;
}

void Protocol::soil(const LineRef& ref) {
  ref.directory->flags &= std::uint8_t(~kAsFiled);
}

bool Protocol::drop(const LineRef& ref) {
  const DirState state = ref.directory->state;
  if (state != DirState::kUnshared && state != DirState::kShared) return false;
  if (!is_filed(ref) || env_.find_cold(ref) != nullptr) return false;
  const std::uint32_t word = ref.line->lock.fetch_or(detail::kLockWaiters, std::memory_order_seq_cst);
  const bool locked = !lock_fits(word, true);
  if (!locked) happen(ref, DirEvent::kDrop, env_.self());
  settle(ref);
  return !locked;
}

}  // namespace atoll::coherence
