#include "bench/bucket_locks.hpp"

#include <algorithm>
#include <bit>

#include "bench/stored_pair.hpp"

namespace atoll::bench {
namespace {

constexpr std::uint64_t kLoad = 8;    // pairs of a bucket for which the table is made: it hardly ever overflows
constexpr std::uint64_t kGroup = 32;  // buckets of a node come in such numbers: whole chunks, whatever their size
constexpr std::uint64_t kLine = 512;  // slots do not cross lines that they need not
constexpr std::uint64_t kSpare = 1 << 20;
// For entries DArray has 512 by default. A line of the heap makes fewer buckets travel together; where values are
// replaced in place, so that entries hardly ever change, it makes no difference that could be measured.
ArrayOptions in_chunks(std::uint32_t elements) {
  ArrayOptions options;
  options.chunk = elements;
  options.writes = Consistency::kPso;  // locks are fences
  return options;
}

std::uint8_t tag_of(std::uint64_t hash) {
  return std::uint8_t(hash);
}

}  // namespace

BucketLocks::BucketLocks(Node& node, const StoreSize& size)
    : node_(node),
      main_(buckets_per_node(node, size)),
      per_node_((main_ + main_ / 8 + kGroup) / kGroup * kGroup + kGroup),
      entries_(node, per_node_ * node.count() * kWords, in_chunks(64)),
      bytes_(
          node,
          ((2 * size.pairs * Slabs::rounded(size.pair_bytes + kPairHeader) / node.count() + kSpare) / kLine * kLine) *
              node.count(),
          in_chunks(kLine)),
      slabs_(bytes_.local_begin(), bytes_.local_end()) {
  if (size.pair_bytes + kPairHeader > 0xffff) throw Error("pairs of more than 64 KiB do not fit an entry");
}

std::uint64_t BucketLocks::buckets_per_node(Node& node, const StoreSize& size) {
  return std::max<std::uint64_t>(size.pairs / kLoad / node.count(), kGroup);
}

bool BucketLocks::get(std::string_view key, std::string& value) {
  const std::uint64_t hash = hash_key(key);
  const std::uint64_t first = bucket_of(hash);
  std::vector<std::byte>& pair = pair_read();
  const ElementReadGuard guard(entries_, first);
  guard.status().or_throw();
  if (find(first, tag_of(hash), key, pair).entry.bits == 0) return false;
  value = value_in(pair);
  return true;
}

bool BucketLocks::put(std::string_view key, std::string_view value) {
  const std::uint64_t hash = hash_key(key);
  const std::uint64_t first = bucket_of(hash);
  const ElementWriteGuard guard(entries_, first);
  guard.status().or_throw();
  const Place place = find(first, tag_of(hash), key, pair_read());
  store(place, tag_of(hash), key, value);
  return place.entry.bits == 0;
}

bool BucketLocks::modify(std::string_view key, const Modify& function) {
  const std::uint64_t hash = hash_key(key);
  const std::uint64_t first = bucket_of(hash);
  std::vector<std::byte>& pair = pair_read();
  const ElementWriteGuard guard(entries_, first);
  guard.status().or_throw();
  const Place place = find(first, tag_of(hash), key, pair);
  if (place.entry.bits == 0) return false;
  std::string value(value_in(pair));
  function(value);
  store(place, tag_of(hash), key, value);
  return true;
}

std::uint64_t BucketLocks::bucket_of(std::uint64_t hash) const {
  const auto bucket = std::uint64_t((unsigned __int128)(hash)*main_ * node_.count() >> 64);
  return (bucket / main_ * per_node_ + bucket % main_) * kWords;
}

BucketLocks::Place BucketLocks::find(std::uint64_t first, std::uint8_t tag, std::string_view key,
                                     std::vector<std::byte>& pair) const {
  Place place;
  bool room = false;
  for (;;) {
    Bucket bucket;
    entries_.read(first, bucket).or_throw();
    for (std::uint64_t i = 0; i < kEntries; ++i) {
      const Entry entry(bucket[i]);
      if (entry.bits == 0) {
        if (!room) place.element = first + i;
        room = true;
        continue;
      }
      if (entry.tag() != tag) continue;
      pair.resize(entry.size());
      bytes_.read(entry.offset(), pair).or_throw();
      if (key_in(pair) == key) return {entry, first + i, false};
    }
    if (bucket[kEntries] == 0) break;
    first = bucket[kEntries];
  }
  if (!room) {
    place.element = first + kEntries;
    place.full = true;
  }
  return place;
}

void BucketLocks::store(const Place& place, std::uint8_t tag, std::string_view key, std::string_view value) {
  const Entry old = place.entry;
  if (old.bits != 0 && old.size() == kPairHeader + key.size() + value.size()) {
    bytes_.write(old.offset() + kPairHeader + key.size(), std::as_bytes(std::span(value))).or_throw();
    return;
  }
  const Entry entry = write_pair(tag, key, value);
  if (place.full) {
    const std::uint64_t next = take_overflow();
    entries_.set(next, entry.bits).or_throw();
    entries_.set(place.element, next).or_throw();
    return;
  }
  entries_.set(place.element, entry.bits).or_throw();
  if (old.bits != 0) slabs_.give(old.offset(), old.size());
}

BucketLocks::Entry BucketLocks::write_pair(std::uint8_t tag, std::string_view key, std::string_view value) {
  std::vector<std::byte>& pair = pair_written();
  join_pair(key, value, pair);
  if (pair.size() > 0xffff) throw Error("pairs of more than 64 KiB do not fit an entry");
  const std::uint64_t offset = slabs_.take(pair.size());
  bytes_.write(offset, pair).or_throw();
  return {tag, pair.size(), offset};
}

std::uint64_t BucketLocks::take_overflow() {
  const std::uint64_t taken = overflows_.fetch_add(1);
  if (taken >= per_node_ - main_) throw Error("the table has no overflow buckets any more");
  return (node_.id() * per_node_ + main_ + taken) * kWords;
}

std::uint64_t BucketLocks::Slabs::rounded(std::uint64_t bytes) {
  if (bytes > kLine) return (bytes + kLine - 1) / kLine * kLine;
  return std::max<std::uint64_t>(32, std::bit_ceil(bytes));
}

std::uint64_t BucketLocks::Slabs::take(std::uint64_t bytes) {
  const std::uint64_t size = rounded(bytes);
  const std::lock_guard lock(mutex_);
  std::vector<std::uint64_t>& free = free_[size];
  if (!free.empty()) {
    const std::uint64_t offset = free.back();
    free.pop_back();
    return offset;
  }
  const std::uint64_t offset = (next_ + std::min(size, kLine) - 1) / std::min(size, kLine) * std::min(size, kLine);
  if (offset + size > end_) throw Error("this node's part of the byte array is full");
  next_ = offset + size;
  return offset;
}

void BucketLocks::Slabs::give(std::uint64_t offset, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  free_[rounded(bytes)].push_back(offset);
}

}  // namespace atoll::bench
