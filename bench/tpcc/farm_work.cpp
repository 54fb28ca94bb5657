#include "bench/tpcc/farm_work.hpp"

#include <algorithm>
#include <cstring>

namespace atoll::bench::tpcc {
namespace {

constexpr unsigned kSpinAttempts = 1;       // that only wait; later ones let others have the processor
constexpr unsigned kMostBackOff = 12;       // as a power of two of steps
constexpr unsigned kStepsBeforeYield = 64;  // of later attempts
constexpr unsigned kLooksAtPeers = 64;      // attempts between two looks at whether all nodes are there

}  // namespace

void FarmWork::begin() noexcept {
  poll();
  refused_ = false;
  seen_.clear();
  writes_.clear();
  written_.clear();
  homes_.clear();
  data_used_ = 0;
  if (++stamp_ == 0) {
    std::fill(index_.begin(), index_.end(), IndexSlot{});
    stamp_ = 1;
  }
}

Status FarmWork::end(const Status& function) noexcept {
  Status status = function;
  if (refused_) return kConflict;
  if (status.ok()) {
    status = commit();
    if (status.ok()) count(commits_);
  } else if (seen_.size() == 1 || validate()) {  // it was decided by what was there at one moment
    count(aborts_);
  }
  return refused_ ? kConflict : status;
}

Counts FarmWork::counts() const noexcept {
  const auto value = [](const std::atomic<std::uint64_t>& counter) { return counter.load(std::memory_order_relaxed); };
  return {value(commits_), value(aborts_), value(locks_met_), value(changes_met_), 0};
}

Status FarmWork::back_off(unsigned attempt) noexcept {
  if (attempt % kLooksAtPeers == kLooksAtPeers - 1) {
    if (const Status status = peers_.all_here(); !status.ok()) return status;
  }
  const std::uint64_t steps = random_.below(2ull << std::min(attempt, kMostBackOff));
  for (std::uint64_t i = 0; i <= steps; ++i) {
    poll();
    base::Host::real().relax();
    if (attempt >= kSpinAttempts && i % kStepsBeforeYield == 0) base::Host::real().yield();
  }
  return {};
}

void FarmWork::wait_a_little() noexcept {
  poll();
  base::Host::real().relax();
}

Status FarmWork::meet(std::atomic<std::uint64_t>& counter) noexcept {
  if (!refused_) count(counter);
  refused_ = true;
  return kConflict;
}

// ---- what was seen, and what is to be written ----

Status FarmWork::note(const FarmPlace& place, std::uint64_t version) noexcept {
  if (current_ != kNone) return seen_[current_].version == version ? Status() : meet(changes_met_);
  current_ = std::uint32_t(seen_.size());
  seen_.push_back({place.bucket, version, kNone, place.home, place.table, false});
  if (2 * seen_.size() > index_.size()) {
    grow_index();
  } else {
    index(current_);
  }
  return {};
}

void FarmWork::index(std::uint32_t seen) noexcept {
  const std::size_t mask = index_.size() - 1;
  const auto bits = reinterpret_cast<std::uintptr_t>(seen_[seen].bucket);
  std::size_t at = (bits / kFarmLine * 0x9e3779b97f4a7c15) >> 32 & mask;
  while (index_[at].stamp == stamp_) at = (at + 1) & mask;
  index_[at] = {stamp_, seen};
}

void FarmWork::grow_index() noexcept {
  index_.assign(2 * index_.size(), IndexSlot{});
  for (std::uint32_t i = 0; i < seen_.size(); ++i) index(i);
}

FarmWork::Write& FarmWork::add_write(const FarmPlace& place, const FarmShape& shape, const void* key,
                                     FarmBucket* found) noexcept {
  const auto number = std::uint32_t(writes_.size());
  Seen& seen = seen_[current_];
  if (seen.first_write == kNone) written_.push_back(current_);
  const std::size_t key_room = FarmShape::round_up(shape.key_bytes, 8u);
  const std::size_t end = data_used_ + key_room + FarmShape::round_up(shape.row_bytes, 8u);
  if (end > data_room_) {
    data_room_ = std::max<std::size_t>(2 * end, 32 << 10);
    std::unique_ptr<std::byte[]> more(new std::byte[data_room_]);
    if (data_used_ > 0) std::memcpy(more.get(), data_.get(), data_used_);
    data_ = std::move(more);
  }
  std::memcpy(&data_[data_used_], key, shape.key_bytes);
  writes_.push_back({seen.first_write, FarmPut::kNothing, std::uint8_t(place.slot), place.table, found, data_used_});
  data_used_ = end;
  seen.first_write = number;
  return writes_.back();
}

// ---- the end ----

/// Is what was seen and is not to be written still there, unlocked?
bool FarmWork::validate() noexcept {
  for (const Seen& seen : seen_) {
    if (seen.is_locked) continue;
    const std::uint64_t word = seen.bucket->word.load(std::memory_order_acquire);
    if (word == seen.version) continue;
    (void)meet((word & FarmBucket::kLocked) != 0 ? locks_met_ : changes_met_);
    return false;
  }
  return true;
}

Status FarmWork::commit() noexcept {
  if (written_.empty()) return seen_.size() <= 1 || validate() ? Status() : kConflict;
  for (const std::uint32_t i : written_) {
    const NodeId home = seen_[i].home;
    const auto is_it = [&](const Home& known) { return known.node == home; };
    if (home != peers_.id() && std::none_of(homes_.begin(), homes_.end(), is_it)) homes_.push_back({home, 0, 0});
  }
  Status status = lock_all();
  std::atomic_thread_fence(std::memory_order_seq_cst);  // the looks come after the locks
  if (status.ok() && !validate()) status = kConflict;
  if (status.ok()) return put_all();
  unlock_all();
  return status;
}

std::uint64_t FarmWork::offset_of(const Seen& seen, const FarmBucket* bucket) const noexcept {
  return std::uint64_t(reinterpret_cast<const std::byte*>(bucket) - store_.memory(seen.home));
}

/// One that locks, and one for each row that comes.
void FarmWork::add_lock_items(const Seen& seen) {
  FarmLockItem item{offset_of(seen, seen.bucket), seen.version, seen.table, true, 0, 0, {}};
  for (std::uint32_t i = seen.first_write; i != kNone; i = writes_[i].next) {
    if (writes_[i].what != FarmPut::kInsert) continue;
    item.slot = writes_[i].slot;
    item.rooms = 0;
    for (std::uint32_t k = i; k != kNone; k = writes_[k].next) {  // this one, and others of the same slot
      item.rooms += std::uint8_t(writes_[k].what == FarmPut::kInsert && writes_[k].slot == item.slot);
    }
    items_.push_back(item);
    item.takes_lock = false;
  }
  if (item.takes_lock) items_.push_back(item);
}

Status FarmWork::status_of(FarmAnswer answer) noexcept {
  switch (answer) {
    case FarmAnswer::kLocked: return {};
    case FarmAnswer::kMetLock: return meet(locks_met_);
    case FarmAnswer::kMetChange: return meet(changes_met_);
    case FarmAnswer::kNoRoom: return {Errc::kOutOfMemory, "the home of a row has no memory left"};
  }
  return {};
}

/// All homes at the same time; what is here comes last, for it is locked at once and should not stay so for long.
Status FarmWork::lock_all() noexcept {
  // A look beforehand, which is cheap: a lock that is taken in vain is in others' way for two messages, and two who do
  // so again and again would not let each other go on.
  Status status = homes_.empty() || validate() ? Status() : kConflict;
  for (bool more = true; more && status.ok();) {
    more = false;
    for (Home& home : homes_) {
      if (status.ok() && home.next < written_.size()) status = ask_for_locks(home);
    }
    for (Home& home : homes_) {  // each that was asked has an answer to be taken
      if (home.asked == home.next) continue;
      const Status answer = take_answer(home);
      if (status.ok()) status = answer;
      more |= home.next < written_.size();
    }
  }
  return status.ok() ? lock_local() : status;
}

Status FarmWork::lock_local() noexcept {
  for (const std::uint32_t i : written_) {
    Seen& seen = seen_[i];
    if (seen.home != peers_.id()) continue;
    items_.clear();
    add_lock_items(seen);
    if (const Status status = status_of(store_.lock(items_)); !status.ok()) return status;
    seen.is_locked = true;
  }
  return {};
}

/// For as many of its buckets as a message has room for.
Status FarmWork::ask_for_locks(Home& home) noexcept {
  const std::size_t most =
      peers_.largest_message() / 2 / sizeof(FarmLockItem);  // a bucket's items do not fill the rest
  items_.clear();
  for (home.asked = home.next; home.asked < written_.size() && items_.size() < most; ++home.asked) {
    const Seen& seen = seen_[written_[home.asked]];
    if (seen.home == home.node) add_lock_items(seen);
  }
  if (items_.empty()) {
    home.next = home.asked;
    return {};
  }
  const std::size_t bytes = items_.size() * sizeof(FarmLockItem);
  const auto room = peers_.compose(thread_, home.node, std::uint32_t(sizeof(FarmMessage) + bytes));
  if (!room.ok()) {
    home.asked = home.next;
    return room.status();
  }
  const auto kind = FarmMessage::kLock;
  std::memcpy(room->data(), &kind, sizeof(kind));
  std::memcpy(room->data() + sizeof(kind), items_.data(), bytes);
  peers_.ask(thread_, home.node, std::uint32_t(room->size()));
  return {};
}

Status FarmWork::take_answer(Home& home) noexcept {
  const auto answer = peers_.await(thread_, home.node);
  const std::size_t first = std::exchange(home.next, home.asked);
  if (!answer.ok()) return answer.status();
  const Status status = status_of(FarmAnswer((*answer)[0]));
  for (std::size_t i = first; status.ok() && i < home.asked; ++i) {
    Seen& seen = seen_[written_[i]];
    if (seen.home == home.node) seen.is_locked = true;
  }
  return status;
}

/// Others begin to write while this node does.
Status FarmWork::put_all() noexcept {
  Status status;
  for (const Home& home : homes_) {
    if (!put_at(home).ok()) status = {Errc::kInDoubt, "the home of a row died before it was written", home.node};
  }
  put_local();
  return status;
}

FarmPutItem FarmWork::put_item(const Seen& seen, const Write& write) const noexcept {
  const bool inserts = write.what == FarmPut::kInsert || write.found == nullptr;
  const std::uint64_t found = inserts ? 0 : offset_of(seen, write.found);
  return {offset_of(seen, seen.bucket), found, write.table, write.what, write.slot, write.next == kNone, {}};
}

void FarmWork::put_local() noexcept {
  for (const std::uint32_t number : written_) {
    const Seen& seen = seen_[number];
    if (seen.home != peers_.id()) continue;
    for (std::uint32_t i = seen.first_write; i != kNone; i = writes_[i].next) {
      const Write& write = writes_[i];
      store_.put(put_item(seen, write), &data_[write.data], row_of(write, store_.table(write.table).shape));
    }
  }
}

std::uint32_t FarmWork::put_bytes(const Seen& seen) const noexcept {
  const FarmShape& shape = store_.table(seen.table).shape;
  std::uint32_t bytes = 0;
  for (std::uint32_t i = seen.first_write; i != kNone; i = writes_[i].next) {
    bytes += sizeof(FarmPutItem);
    if (writes_[i].what == FarmPut::kInsert) bytes += FarmShape::round_up(shape.key_bytes, 8u);
    if (writes_[i].is_there()) bytes += FarmShape::round_up(shape.row_bytes, 8u);
  }
  return bytes;
}

std::byte* FarmWork::compose_puts(const Seen& seen, std::byte* at) noexcept {
  const FarmShape& shape = store_.table(seen.table).shape;
  const auto append = [&](const void* from, std::uint32_t bytes) {
    std::memcpy(at, from, bytes);
    at += FarmShape::round_up(bytes, 8u);
  };
  for (std::uint32_t i = seen.first_write; i != kNone; i = writes_[i].next) {
    const Write& write = writes_[i];
    const FarmPutItem item = put_item(seen, write);
    append(&item, sizeof(item));
    if (write.what == FarmPut::kInsert) append(&data_[write.data], shape.key_bytes);
    if (write.is_there()) append(row_of(write, shape), shape.row_bytes);
  }
  return at;
}

/// In as few messages as it takes; nobody waits for them.
Status FarmWork::put_at(const Home& home) noexcept {
  for (std::size_t first = 0, end = 0; first < written_.size(); first = end) {
    std::uint32_t bytes = sizeof(FarmMessage);
    for (end = first; end < written_.size(); ++end) {
      const Seen& seen = seen_[written_[end]];
      if (seen.home != home.node) continue;
      const std::uint32_t more = put_bytes(seen);
      if (bytes > sizeof(FarmMessage) && bytes + more > peers_.largest_message()) break;
      bytes += more;
    }
    if (bytes == sizeof(FarmMessage)) break;
    const auto room = peers_.compose(thread_, home.node, bytes);
    if (!room.ok()) return room.status();
    const auto kind = FarmMessage::kPut;
    std::memcpy(room->data(), &kind, sizeof(kind));
    std::byte* at = room->data() + sizeof(kind);
    for (std::size_t i = first; i < end; ++i) {
      const Seen& seen = seen_[written_[i]];
      if (seen.home == home.node) at = compose_puts(seen, at);
    }
    peers_.post(thread_, home.node, bytes);
  }
  return {};
}

void FarmWork::unlock_all() noexcept {
  for (const std::uint32_t i : written_) {
    Seen& seen = seen_[i];
    if (!seen.is_locked) continue;
    const FarmLockItem item{offset_of(seen, seen.bucket), seen.version, seen.table, true, 0, 0, {}};
    if (seen.home == peers_.id()) {
      store_.unlock(item);
      continue;
    }
    const auto room = peers_.compose(thread_, seen.home, sizeof(FarmMessage) + sizeof(item));
    if (!room.ok()) continue;  // it is gone
    const auto kind = FarmMessage::kUnlock;
    std::memcpy(room->data(), &kind, sizeof(kind));
    std::memcpy(room->data() + sizeof(kind), &item, sizeof(item));
    peers_.post(thread_, seen.home, std::uint32_t(room->size()));
  }
}

}  // namespace atoll::bench::tpcc
