// Several keys in one step.
#include <algorithm>
#include <deque>

#include "hash/table.hpp"

namespace atoll::hash {

namespace {

/// The buckets of several keys, locked in the order of their numbers: so two steps cannot wait for each other, nor can
/// a step and a split, which holds a bucket and waits for another of a higher number, whose line it may share.
///
/// Invariant: from the first change on all of the buckets are marked as changing, until the last is made: who reads
/// without a lock sees all of a step or nothing.
class LockedStep final : public HashMap::Step {
 public:
  explicit LockedStep(Table& table) noexcept : table_(table) {}
  ~LockedStep() override { static_cast<void>(unlock()); }

  /// False: a bucket was split before it was locked. Nothing is locked then.
  [[nodiscard]] Result<bool> lock(std::span<const Key> keys) noexcept;
  [[nodiscard]] Status unlock() noexcept;

  [[nodiscard]] Result<std::optional<std::string_view>> get(std::string_view key) override;
  [[nodiscard]] Result<bool> put(std::string_view key, std::string_view value) override;
  [[nodiscard]] Result<bool> erase(std::string_view key) override;
  /// Keys whose buckets had no room for them.
  [[nodiscard]] const std::vector<Key>& crowded() const noexcept { return crowded_; }

 private:
  struct Range {
    GlobalAddress first;
    std::uint64_t bytes;
  };
  [[nodiscard]] LockedBucket* bucket_of(const Key& key) noexcept;
  [[nodiscard]] Status begin() noexcept;

  Table& table_;
  std::deque<LockedBucket> buckets_;  // by number
  std::vector<Range> locked_;
  std::deque<std::string> pairs_;
  std::vector<Key> crowded_;
};

constexpr Status kNoKeyOfStep(Errc::kInvalidArgument, "the key is none of those that the step was begun with");

Result<bool> LockedStep::lock(std::span<const Key> keys) noexcept {
  Node& node = table_.node();
  std::vector<std::pair<std::uint64_t, GlobalAddress>> wanted;
  for (const Key& key : keys) {
    std::uint64_t number = 0;
    const Result<GlobalAddress> bucket = table_.guess(key.hash, &number);
    if (!bucket.ok()) return bucket.status();
    wanted.emplace_back(number, *bucket);
  }
  std::sort(wanted.begin(), wanted.end());
  wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
  const std::uint64_t line = std::max<std::uint64_t>(node.line_bytes(), kBucketBytes);
  for (const auto& [number, address] : wanted) {  // they are under way together
    if (address.node() == node.id() || wanted.size() == 1) continue;
    if (const Status status = node.prefetch(address, kBucketBytes, LockMode::kWrite); !status.ok()) return status;
  }
  for (const auto& [number, address] : wanted) {
    const Range range{GlobalAddress(address.bits() & ~(line - 1)), line};
    if (locked_.empty() || locked_.back().first != range.first) {
      if (const Status status = node.write_lock(range.first, range.bytes); !status.ok()) return status;
      locked_.push_back(range);
    }
    buckets_.emplace_back(table_, number, address);
    if (const Status status = buckets_.back().read_head(); !status.ok()) return status;
  }
  const bool all = std::all_of(keys.begin(), keys.end(), [&](const Key& key) {
    LockedBucket* bucket = bucket_of(key);
    if (bucket == nullptr) return false;  // another thread has heard of a split since
    if (bucket->covers(key)) return true;
    static_cast<void>(table_.directory().go_on(bucket->number(), key.hash));
    return false;
  });
  if (all) return true;
  if (const Status status = unlock(); !status.ok()) return status;
  return false;
}

Status LockedStep::unlock() noexcept {
  Status first;
  for (LockedBucket& bucket : buckets_) {
    if (const Status status = bucket.end(); first.ok()) first = status;
  }
  for (const Range& range : locked_) {
    if (const Status status = table_.node().unlock(range.first, range.bytes); first.ok()) first = status;
    if (const Status status = table_.node().give_back(range.first, range.bytes); first.ok()) first = status;
  }
  buckets_.clear();
  locked_.clear();
  return first;
}

LockedBucket* LockedStep::bucket_of(const Key& key) noexcept {
  const std::uint64_t number = table_.directory().guess(key.hash);
  const auto found = std::lower_bound(buckets_.begin(), buckets_.end(), number,
                                      [](const LockedBucket& b, std::uint64_t n) { return b.number() < n; });
  return found == buckets_.end() || found->number() != number ? nullptr : &*found;
}

Status LockedStep::begin() noexcept {
  for (LockedBucket& bucket : buckets_) {
    if (const Status status = bucket.begin(); !status.ok()) return status;
  }
  return {};
}

Result<std::optional<std::string_view>> LockedStep::get(std::string_view bytes) {
  const Key key = table_.key(bytes);
  LockedBucket* bucket = bucket_of(key);
  if (bucket == nullptr) return kNoKeyOfStep;
  std::string& pair = pairs_.emplace_back();
  const Result<Spot> spot = bucket->locate(key, &pair);
  if (!spot.ok()) return spot.status();
  if (!spot->is_there) return std::optional<std::string_view>();
  return std::optional<std::string_view>(Pair::parse(pair).value);
}

Result<bool> LockedStep::put(std::string_view bytes, std::string_view value) {
  const Key key = table_.key(bytes);
  LockedBucket* bucket = bucket_of(key);
  if (bucket == nullptr) return kNoKeyOfStep;
  const Result<Spot> spot = bucket->locate(key, nullptr);
  if (!spot.ok()) return spot.status();
  if (const Status status = begin(); !status.ok()) return status;
  // Into an overflow bucket if need be: a split would need another lock. It comes when the step has ended.
  if (!spot->is_there && spot->bucket != bucket->address()) crowded_.push_back({{}, key.hash});
  return bucket->put(*spot, key, value);
}

Result<bool> LockedStep::erase(std::string_view bytes) {
  const Key key = table_.key(bytes);
  LockedBucket* bucket = bucket_of(key);
  if (bucket == nullptr) return kNoKeyOfStep;
  const Result<Spot> spot = bucket->locate(key, nullptr);
  if (!spot.ok()) return spot.status();
  if (!spot->is_there) return false;
  if (const Status status = begin(); !status.ok()) return status;
  if (const Status status = bucket->erase(*spot); !status.ok()) return status;
  return true;
}

}  // namespace

Status Table::together(std::span<const std::string_view> keys,
                       const std::function<Status(HashMap::Step&)>& function) noexcept {
  std::vector<Key> hashed;
  hashed.reserve(keys.size());
  for (const std::string_view bytes : keys) hashed.push_back(key(bytes));
  LockedStep step(*this);
  while (true) {
    const Result<bool> locked = step.lock(hashed);
    if (!locked.ok()) return locked.status();
    if (*locked) break;
  }
  const Status done = function(step);
  const Status status = step.unlock();
  for (const Key& each : step.crowded()) relieve(each);
  return done.ok() ? status : done;
}

}  // namespace atoll::hash
