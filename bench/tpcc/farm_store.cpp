#include "bench/tpcc/farm_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/units.hpp"

namespace atoll::bench::tpcc {
namespace {

constexpr std::uint64_t kFewRows = 4096;   // of a table that may have many times as many buckets, for a few meet often
constexpr std::uint64_t kFewBuckets = 64;  //

/// A table of one row to a bucket is half empty. One of many has far more buckets than rows are expected, as nobody
/// knows how fast they will come; what of it is never used is never taken.
std::uint64_t buckets_for(const FarmShape& shape, std::uint64_t rows) {
  if (shape.slots > 1) return std::max(kFewBuckets, 2 * rows);
  return std::max(kFewBuckets, rows < kFewRows ? 8 * rows : 2 * rows);
}

}  // namespace

FarmStore::FarmStore(Node& node, const FarmOptions& options)
    : peers_(node, {.name = "farm",
                    .memory_bytes = options.memory_bytes,
                    .threads = options.threads,
                    .answer_bytes = sizeof(FarmAnswer)}),
      mine_(peers_.memory(node.id()).data()),
      bytes_(peers_.memory(node.id()).size() / kFarmLine * kFarmLine),
      joined_(bytes_ / kExtent + 2),
      tables_end_(kFarmLine),  // what would be at 0 is where chains end
      pages_(base::Host::real(), [this](const std::byte* begin, std::uint64_t bytes) {
        peers_.join_pages({begin, bytes});
      }) {
  for (NodeId home = 0; home < peers_.count(); ++home) memories_.push_back(peers_.memory(home).data());
  if (bytes_ / kFarmLine > UINT32_MAX) throw Error("a node of this engine has 256 GiB at most");
  tables_.reserve(kMostTables);  // others' transactions look at them
  peers_.start(*this);
}

std::uint16_t FarmStore::add_table(const FarmShape& shape, std::uint64_t rows) {
  if (tables_.size() == kMostTables) throw Error(fmt::format("this engine has {} tables at most", kMostTables));
  Table table{shape, tables_end_, buckets_for(shape, rows)};
  const std::uint64_t bytes = table.buckets * shape.stride;
  if (tables_end_ + bytes + kExtent > bytes_) {
    throw Error(fmt::format("tables need more than the {} that this node of the engine has: take fewer rows",
                            base::format_bytes(bytes_)),
                Errc::kOutOfMemory);
  }
  tables_end_ += bytes;
  if (shape.slots == 1) {
    peers_.join_pages({mine_ + table.begin, bytes});
    used_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  }
  tables_.push_back(table);
  return std::uint16_t(tables_.size() - 1);
}

std::uint64_t FarmStore::memory_bytes() const noexcept {
  return used_bytes_.load(std::memory_order_relaxed) + chains_bytes_.load(std::memory_order_relaxed);
}

// ---- of this node's own buckets ----

FarmAnswer FarmStore::lock_one(FarmBucket& bucket, std::uint64_t version) noexcept {
  std::uint64_t found = version;
  if (bucket.word.compare_exchange_strong(found, version | FarmBucket::kLocked, std::memory_order_acquire,
                                          std::memory_order_relaxed)) {
    return FarmAnswer::kLocked;
  }
  return (found & FarmBucket::kLocked) != 0 ? FarmAnswer::kMetLock : FarmAnswer::kMetChange;
}

FarmAnswer FarmStore::lock(std::span<const FarmLockItem> items) noexcept {
  for (std::size_t i = 0; i < items.size(); ++i) {
    FarmAnswer answer = FarmAnswer::kLocked;
    const FarmLockItem& item = items[i];
    if (item.takes_lock) answer = lock_one(bucket(item.bucket), item.version);
    const std::size_t end = answer == FarmAnswer::kLocked ? i + 1 : i;  // of those that are locked now
    if (answer == FarmAnswer::kLocked && item.rooms > 0 && !make_room(item)) answer = FarmAnswer::kNoRoom;
    if (answer == FarmAnswer::kLocked) continue;
    for (const FarmLockItem& locked : items.first(end)) {
      if (locked.takes_lock) unlock(locked);
    }
    return answer;
  }
  return FarmAnswer::kLocked;
}

void FarmStore::unlock(const FarmLockItem& item) noexcept {
  bucket(item.bucket).word.store(item.version, std::memory_order_release);
}

/// Who reads the chain meanwhile may do so: an empty bucket at its end changes nothing.
bool FarmStore::make_room(const FarmLockItem& item) noexcept {
  const FarmShape& shape = tables_[item.table].shape;
  FarmBucket* at = &bucket(item.bucket);
  for (unsigned rooms = 0;;) {
    if (!at->is_used(item.slot) && ++rooms >= item.rooms) return true;
    FarmBucket* next = at->following(mine_);
    if (next == nullptr) {
      next = new_bucket(shape);
      if (next == nullptr) return false;
      at->next.store(std::uint32_t(std::uint64_t(next->bytes() - mine_) / kFarmLine), std::memory_order_release);
    }
    at = next;
  }
}

/// The first row in a bucket of a table that has more of them than it may need. (Or the first after others were
/// erased.)
void FarmStore::begin_to_use(FarmBucket& bucket, const FarmShape& shape) noexcept {
  used_bytes_.fetch_add(shape.stride, std::memory_order_relaxed);
  want_pages(std::uint64_t(bucket.bytes() - mine_), true);
}

/// For what is used now, and for what comes next, which will be ready then.
void FarmStore::want_pages(std::uint64_t offset, bool upwards) noexcept {
  const std::uint64_t now = offset / kExtent, next = upwards ? now + 1 : now - std::min<std::uint64_t>(now, 1);
  if (std::atomic_ref(joined_[next]).load(std::memory_order_relaxed) != 0) return;
  for (const std::uint64_t extent : {next, now}) {
    if (std::atomic_ref(joined_[extent]).exchange(1, std::memory_order_relaxed) != 0) continue;
    const std::uint64_t begin = extent * kExtent;
    if (begin < bytes_) pages_.want(mine_ + begin, std::min(kExtent, bytes_ - begin));
  }
}

FarmBucket* FarmStore::new_bucket(const FarmShape& shape) noexcept {
  std::uint64_t before = chains_bytes_.load(std::memory_order_relaxed);
  do {
    if (tables_end_ + before + shape.stride > bytes_) return nullptr;
  } while (!chains_bytes_.compare_exchange_weak(before, before + shape.stride, std::memory_order_relaxed));
  const std::uint64_t offset = bytes_ - before - shape.stride;
  want_pages(offset, false);
  return &bucket(offset);
}

void FarmStore::put(const FarmPutItem& item, const std::byte* key, const std::byte* row) noexcept {
  const FarmShape& shape = tables_[item.table].shape;
  FarmBucket& first = bucket(item.bucket);
  std::atomic_thread_fence(std::memory_order_release);  // who sees any of it sees the lock
  const std::uint32_t bit = 1u << item.slot;
  switch (item.what) {
    case FarmPut::kNothing: break;
    case FarmPut::kUpdate: base::racy_copy(bucket(item.found).row(shape, item.slot), row, shape.row_bytes); break;
    case FarmPut::kInsert: {
      FarmBucket* at = &first;
      while (at->is_used(item.slot)) at = at->following(mine_);  // there is room: it was made
      const std::uint32_t used = at->used.load(std::memory_order_relaxed);
      if (used == 0 && at == &first) begin_to_use(first, shape);
      base::racy_copy(at->key(shape, item.slot), key, shape.key_bytes);
      base::racy_copy(at->row(shape, item.slot), row, shape.row_bytes);
      at->used.store(used | bit, std::memory_order_relaxed);
      break;
    }
    case FarmPut::kErase: {
      FarmBucket& at = bucket(item.found);
      const std::uint32_t used = at.used.load(std::memory_order_relaxed) & ~bit;
      at.used.store(used, std::memory_order_relaxed);
      if (used == 0 && &at == &first && shape.slots > 1) used_bytes_.fetch_sub(shape.stride, std::memory_order_relaxed);
      break;
    }
  }
  if (item.unlocks) first.word.store(first.word.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

// ---- for others' transactions ----

void FarmStore::handle(const Call& call, std::span<const std::byte> message) noexcept {
  const auto kind = *reinterpret_cast<const FarmMessage*>(message.data());
  const std::span<const std::byte> rest = message.subspan(sizeof(kind));
  const std::span items(reinterpret_cast<const FarmLockItem*>(rest.data()), rest.size() / sizeof(FarmLockItem));
  switch (kind) {
    case FarmMessage::kLock:
      peers_.room_for_answer(call)[0] = std::byte(lock(items));
      peers_.answer(call, sizeof(FarmAnswer));
      break;
    case FarmMessage::kPut: put_all(rest); break;
    case FarmMessage::kUnlock:
      std::for_each(items.begin(), items.end(), [&](const auto& item) { unlock(item); });
      break;
  }
}

void FarmStore::put_all(std::span<const std::byte> message) noexcept {
  while (!message.empty()) {
    const auto& item = *reinterpret_cast<const FarmPutItem*>(message.data());
    const FarmShape& shape = tables_[item.table].shape;
    message = message.subspan(sizeof(item));
    const std::byte* const key = message.data();
    if (item.what == FarmPut::kInsert) message = message.subspan(FarmShape::round_up(shape.key_bytes, 8u));
    const std::byte* const row = message.data();
    const bool has_row = item.what == FarmPut::kInsert || item.what == FarmPut::kUpdate;
    if (has_row) message = message.subspan(FarmShape::round_up(shape.row_bytes, 8u));
    put(item, key, row);
  }
}

}  // namespace atoll::bench::tpcc
