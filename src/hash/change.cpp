// Changing a bucket under its lock: put, erase, overflow, split.
#include <algorithm>
#include <bit>

#include "hash/table.hpp"

namespace atoll::hash {

namespace {

/// A split that leaves a bucket fewer than this is no help: the hashes are alike.
constexpr std::size_t kLeastShare = 4;

/// A pair's bytes, put together; on the stack, if there are not many.
class PairBytes {
 public:
  PairBytes(const Key& key, std::string_view value) : bytes_(kPairHeadBytes + key.bytes.size() + value.size()) {
    if (bytes_ > small_.size()) large_.resize(bytes_);
    char* at = data();
    const auto key_bytes = std::uint16_t(key.bytes.size());
    std::memcpy(at, &key_bytes, sizeof(key_bytes));
    at = std::copy(key.bytes.begin(), key.bytes.end(), at + kPairHeadBytes);
    std::copy(value.begin(), value.end(), at);
  }
  [[nodiscard]] std::span<const std::byte> bytes() noexcept { return std::as_bytes(std::span(data(), bytes_)); }

 private:
  [[nodiscard]] char* data() noexcept { return bytes_ > small_.size() ? large_.data() : small_.data(); }

  std::size_t bytes_;
  std::array<char, 512> small_;
  std::string large_;
};

/// The heap rounds sizes up to multiples of this, at least: pairs that are the same so have the same room.
std::size_t rounded(std::size_t bytes) {
  return (bytes + 15) / 16;
}

}  // namespace

Result<Entry> write_pair(Node& node, const Key& key, std::string_view value) noexcept {
  if (value.size() > HashMap::kMaxValueBytes) return {Errc::kInvalidArgument, "the value is longer than values may be"};
  PairBytes pair(key, value);
  const Result<GlobalAddress> at = node.allocate(pair.bytes().size(), Placement::any().uninitialized());
  if (!at.ok()) return at.status();
  if (const Status status = node.write(*at, pair.bytes()); !status.ok()) {
    static_cast<void>(node.release(*at));
    return status;
  }
  return Entry::make(*at, key.hash, pair.bytes().size());
}

// ---- the table's part ----

Status Table::lock(const Key& key, std::optional<LockedBucket>& locked) noexcept {
  std::uint64_t number = 0;
  Result<GlobalAddress> bucket = guess(key.hash, &number);
  while (true) {
    if (!bucket.ok()) return bucket.status();
    locked.emplace(*this, number, *bucket);
    if (const Status status = locked->lock(); !status.ok()) return status;
    if (locked->covers(key)) return {};
    number = directory_.go_on(number, key.hash);
    bucket = directory_.find(number);
    if (const Status status = locked->unlock(); !status.ok()) return status;
  }
}

Result<Spot> Table::locate(const Key& key, bool may_insert, std::string* pair,
                           std::optional<LockedBucket>& locked) noexcept {
  for (bool may_split = may_insert;; may_split = false) {
    if (locked && !locked->covers(key)) {
      if (const Status status = locked->unlock(); !status.ok()) return status;
      locked.reset();
    }
    if (!locked) {
      if (const Status status = lock(key, locked); !status.ok()) return status;
    }
    const Result<Spot> spot = locked->locate(key, pair);
    // What overflows is divided, not only what is full.
    if (!spot.ok() || spot->is_there || spot->bucket == locked->address() || !may_split) return spot;
    // Then the key is looked for again, under the lock that is held now: its bucket may have been another's meanwhile.
    const Result<bool> is_split = locked->split();
    if (!is_split.ok()) return is_split.status();
    if (!*is_split) return spot;
  }
}

Result<bool> Table::put(const Key& key, std::string_view value, std::optional<LockedBucket>& locked) noexcept {
  const Result<Spot> spot = locate(key, true, nullptr, locked);
  if (!spot.ok()) return spot.status();
  const Result<bool> is_new = locked->put(*spot, key, value);
  if (!is_new.ok()) return is_new;
  if (const Status status = locked->end(); !status.ok()) return status;
  return is_new;
}

void Table::relieve(const Key& key) noexcept {
  std::optional<LockedBucket> locked;
  if (!lock(key, locked).ok()) return;
  const Result<bool> has_overflow = locked->has_overflow();
  if (has_overflow.ok() && *has_overflow) static_cast<void>(locked->split());
  static_cast<void>(locked->unlock());
}

Status Table::count(std::int64_t more) noexcept {
  return node_.fetch_add(directory_.count_of(node_.id()), more).status();
}

void Table::release(GlobalAddress memory) noexcept {
  // What cannot be freed is lost with the node that has it.
  static_cast<void>(node_.release(memory));
}

// ---- a bucket that is locked ----

LockedBucket::~LockedBucket() {
  if (is_locked_) static_cast<void>(unlock());  // an error was told already: this is the way out of it
}

Status LockedBucket::lock() noexcept {
  if (const Status status = table_.node().write_lock(address_, kBucketBytes); !status.ok()) return status;
  is_locked_ = true;
  return read_head();
}

Status LockedBucket::read_head() noexcept {
  const auto head = table_.node().read<std::uint64_t>(address_);
  if (!head.ok()) return head.status();
  head_.word = *head;
  level_ = head_.level();
  return {};
}

Status LockedBucket::unlock() noexcept {
  const Status ended = end();
  is_locked_ = false;
  Status status = table_.node().unlock(address_, kBucketBytes);
  if (status.ok()) status = table_.node().give_back(address_, kBucketBytes);
  return ended.ok() ? status : ended;
}

Status LockedBucket::begin() noexcept {
  if (is_changing_) return {};
  is_changing_ = true;
  return table_.node().write(address_, head_.changing().word);
}

/// Everything is visible to all before the head says that it may be read.
Status LockedBucket::end() noexcept {
  if (!is_changing_) return {};
  const Status fenced = table_.node().fence();
  head_ = head_.changed(level_);
  const Status status = table_.node().write(address_, head_.word);
  is_changing_ = false;
  for (const GlobalAddress memory : to_free_) table_.release(memory);
  to_free_.clear();
  return fenced.ok() ? status : fenced;
}

Result<Spot> LockedBucket::locate(const Key& key, std::string* pair) noexcept {
  const Result<Group> group = read_group(table_.node(), address_, key.hash);
  if (!group.ok()) return group.status();
  for (unsigned i = 0; i < group->size(); ++i) {
    const Entry& entry = (*group)[i];
    if (entry.address == 0 || entry.hash() != low_bits(key.hash, kHashBits)) continue;
    const auto value_at = read_pair(table_.node(), entry, key, pair);
    if (!value_at.ok()) return value_at.status();
    const auto index = unsigned(first_of(group_of(key.hash)) + int(i));
    if (*value_at != Table::kAbsent) return Spot{true, address_, index, entry, {}};
  }
  return locate_in_chain(key, pair);
}

Result<Spot> LockedBucket::locate_in_chain(const Key& key, std::string* pair) noexcept {
  Node& node = table_.node();
  Spot spot;
  for (GlobalAddress at = address_; at;) {
    Bucket bucket;
    if (const Status status = read_into(node, at, bucket); !status.ok()) return status;
    for (std::uint32_t left = bucket.match(key.hash); left != 0; left &= left - 1) {
      const auto index = unsigned(std::countr_zero(left));
      const Entry& entry = bucket.entries[index];
      if (entry.address == 0) continue;
      const auto value_at = read_pair(node, entry, key, pair);
      if (!value_at.ok()) return value_at.status();
      if (*value_at != Table::kAbsent) return Spot{true, at, index, entry, {}};
    }
    if (const unsigned free = bucket.free_for(key.hash); free != kEntries && !spot.bucket) {
      spot.bucket = at;
      spot.index = free;
    }
    spot.last = at;
    at = GlobalAddress(bucket.overflow);
  }
  return spot;
}

Status LockedBucket::put_entry(const Spot& spot, const Entry& entry) noexcept {
  // Word by word, which is quicker: nobody reads it before the change has ended.
  Node& node = table_.node();
  const GlobalAddress at = spot.bucket + entry_at(spot.index);
  if (const Status status = node.write(at, entry.address); !status.ok()) return status;
  return node.write(at + std::int64_t(offsetof(Entry, about)), entry.about);
}

/// A pair of this node that keeps its room is overwritten. Others move here, where they are written.
Result<bool> LockedBucket::put_in_place(const Spot& spot, const Key& key, std::string_view value) noexcept {
  Node& node = table_.node();
  const GlobalAddress at(spot.entry.address);
  const std::size_t bytes = kPairHeadBytes + key.bytes.size() + value.size();
  if (at.node() != node.id() || rounded(bytes) != rounded(spot.entry.bytes()) || bytes > node.line_bytes())
    return false;
  if (const Status status = begin(); !status.ok()) return status;
  if (const Status status = node.fence(); !status.ok()) return status;
  const auto into = at + std::int64_t(kPairHeadBytes + key.bytes.size());
  if (const Status status = node.write(into, std::as_bytes(std::span(value))); !status.ok()) return status;
  if (bytes == spot.entry.bytes()) return true;
  const Status status = put_entry(spot, Entry::make(at, key.hash, bytes));
  if (!status.ok()) return status;
  return true;
}

Result<bool> LockedBucket::put(const Spot& spot, const Key& key, std::string_view value) noexcept {
  if (spot.is_there) {
    const Result<bool> done = put_in_place(spot, key, value);
    if (!done.ok()) return done;
    if (*done) return false;
  }
  const Result<Entry> entry = write_pair(table_.node(), key, value);
  if (!entry.ok()) return entry.status();
  Status status = begin();
  if (status.ok()) status = spot.bucket ? put_entry(spot, *entry) : add_overflow(spot.last, *entry);
  if (!status.ok()) {
    table_.release(GlobalAddress(entry->address));
    return status;
  }
  if (spot.is_there) {
    let_go(GlobalAddress(spot.entry.address));
    return false;
  }
  if (status = table_.count(1); !status.ok()) return status;
  return true;
}

Status LockedBucket::erase(const Spot& spot) noexcept {
  if (const Status status = begin(); !status.ok()) return status;
  if (const Status status = put_entry(spot, Entry()); !status.ok()) return status;
  let_go(GlobalAddress(spot.entry.address));
  return table_.count(-1);
}

Status LockedBucket::add_overflow(GlobalAddress last, const Entry& entry) noexcept {
  Node& node = table_.node();
  const auto added = node.allocate(kBucketBytes, Placement::near(address_).uninitialized());
  if (!added.ok()) return added.status();
  Bucket bucket;
  bucket.entries[bucket.free_for(entry.hash())] = entry;
  if (const Status status = node.write(*added, bucket); !status.ok()) return status;
  return node.write(last + std::int64_t(kOverflowAt), added->bits());
}

// ---- split ----

Result<std::vector<Bucket>> LockedBucket::read_chain() noexcept {
  std::vector<Bucket> chain;
  for (GlobalAddress at = address_; at; at = GlobalAddress(chain.back().overflow)) {
    chain.emplace_back();
    if (const Status status = read_into(table_.node(), at, chain.back()); !status.ok()) return status;
  }
  return chain;
}

/// Writes all but the head of the first, which is written last, by others. The rest goes to new overflow buckets.
Status LockedBucket::write_chain(GlobalAddress first, std::vector<Bucket>& buckets) noexcept {
  Node& node = table_.node();
  std::uint64_t next = 0;
  for (std::size_t i = buckets.size(); i-- > 0;) {
    buckets[i].overflow = next;
    GlobalAddress at = first;
    if (i > 0) {
      const auto made = node.allocate(kBucketBytes, Placement::near(address_).uninitialized());
      if (!made.ok()) return made.status();
      at = *made;
    }
    next = at.bits();
    const auto bytes = std::as_bytes(std::span(&buckets[i], 1)).subspan(sizeof(Head));
    if (const Status status = node.write(at + std::int64_t(sizeof(Head)), bytes); !status.ok()) return status;
  }
  return {};
}

Result<bool> LockedBucket::has_overflow() const noexcept {
  const auto overflow = table_.node().read<std::uint64_t>(address_ + std::int64_t(kOverflowAt));
  if (!overflow.ok()) return overflow.status();
  return *overflow != 0;
}

Result<bool> LockedBucket::split() noexcept {
  Node& node = table_.node();
  const unsigned level = level_;
  if (level >= table_.directory().root().max_level) return false;
  const Result<std::vector<Bucket>> chain = read_chain();
  if (!chain.ok()) return chain.status();

  std::array<std::vector<Bucket>, 2> halves{std::vector<Bucket>(1), std::vector<Bucket>(1)};
  std::array<std::size_t, 2> counts{};
  for (const Bucket& bucket : *chain) {
    for (const Entry& entry : bucket.entries) {
      if (entry.address == 0) continue;
      const unsigned side = entry.hash() >> level & 1;
      if (counts[side] == halves[side].size() * kEntries) halves[side].emplace_back();
      Bucket& to = halves[side].back();
      to.entries[to.free_for(entry.hash())] = entry;
      ++counts[side];
    }
  }
  if (std::min(counts[0], counts[1]) < kLeastShare) return false;

  // The new bucket first, and visible to all, before anybody can hear of it.
  const Result<GlobalAddress> other = table_.directory().make_room(number_ + (std::uint64_t{1} << level));
  if (!other.ok()) return other.status();
  Status status = write_chain(*other, halves[1]);
  if (status.ok()) status = node.write(*other, Head().changed(level + 1).word);
  if (status.ok()) status = node.fence();
  if (status.ok()) status = begin();
  if (status.ok()) status = write_chain(address_, halves[0]);
  if (!status.ok()) return status;
  level_ = level + 1;
  for (const Bucket& bucket : *chain) {
    if (bucket.overflow != 0) let_go(GlobalAddress(bucket.overflow));
  }
  if (status = end(); !status.ok()) return status;
  return true;
}

Result<std::int64_t> LockedBucket::clear() noexcept {
  const Result<std::vector<Bucket>> chain = read_chain();
  if (!chain.ok()) return chain.status();
  std::vector<GlobalAddress> gone;
  std::int64_t erased = 0;
  for (const Bucket& bucket : *chain) {
    for (const Entry& entry : bucket.entries) {
      if (entry.address == 0) continue;
      gone.emplace_back(entry.address);
      ++erased;
    }
    if (bucket.overflow != 0) gone.emplace_back(bucket.overflow);
  }
  if (gone.empty()) return 0;
  if (const Status status = begin(); !status.ok()) return status;
  std::vector<Bucket> empty(1);
  if (const Status status = write_chain(address_, empty); !status.ok()) return status;
  to_free_.insert(to_free_.end(), gone.begin(), gone.end());
  if (const Status status = table_.count(-erased); !status.ok()) return status;
  if (const Status status = end(); !status.ok()) return status;
  return erased;
}

}  // namespace atoll::hash
