// The table behind a HashMap: finding, changing and splitting buckets.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hash/directory.hpp"

namespace atoll::hash {

/// The number that comes after this one in a walk over all buckets; 0 at the end.
///
/// The walk goes through numbers as if their lowest bit were the highest: then what was split off from a bucket comes
/// right after it, and a split, before or after a bucket's turn, neither hides a pair nor shows it twice.
[[nodiscard]] std::uint64_t after(std::uint64_t number, unsigned level) noexcept;

/// Where a key's entry is in a chain of buckets, or where it could be put.
struct Spot {
  bool is_there = false;
  GlobalAddress bucket;  // that has the entry, or a free place; null: there is none
  unsigned index = 0;
  Entry entry;
  GlobalAddress last;  // of the chain, if the key is not there
};

class Table;

/// A bucket that this thread has locked for writing, with its chain.
///
/// What it changes becomes visible in one step at `end`, for those who read without a lock: they see by the head that
/// the bucket is being changed, or has been.
/// Thread-safety: none; it is used by the thread that locked.
/// Invariants:
///   1. Between `begin` and `end` the head says that the bucket is changing, and at no other time.
///   2. A pair is freed after the `end` of the change that took its entry away.
class LockedBucket {
 public:
  LockedBucket(Table& table, std::uint64_t number, GlobalAddress address) noexcept
      : table_(table), number_(number), address_(address) {}
  ~LockedBucket();
  LockedBucket(const LockedBucket&) = delete;
  LockedBucket& operator=(const LockedBucket&) = delete;

  [[nodiscard]] Status lock() noexcept;
  [[nodiscard]] Status unlock() noexcept;
  /// Instead of `lock`, where the caller has locked the bucket's line, and unlocks it.
  [[nodiscard]] Status read_head() noexcept;

  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
  [[nodiscard]] GlobalAddress address() const noexcept { return address_; }
  [[nodiscard]] Head head() const noexcept { return head_; }
  [[nodiscard]] bool covers(const Key& key) const noexcept { return head_.covers(number_, key.hash); }

  /// Nothing is changed before it, and nothing after `end`. Each does nothing when it was called already.
  [[nodiscard]] Status begin() noexcept;
  [[nodiscard]] Status end() noexcept;

  /// The key's spot; the pair is in `pair`, if that is given.
  [[nodiscard]] Result<Spot> locate(const Key& key, std::string* pair) noexcept;
  /// REQUIRES: `spot` is what locate said, and nothing was changed since. True: the key is new.
  [[nodiscard]] Result<bool> put(const Spot& spot, const Key& key, std::string_view value) noexcept;
  [[nodiscard]] Status erase(const Spot& spot) noexcept;
  [[nodiscard]] Result<bool> has_overflow() const noexcept;
  /// Divides the pairs with a new bucket. False: that would not help, or must not be.
  [[nodiscard]] Result<bool> split() noexcept;
  /// Erases all; how many that were.
  [[nodiscard]] Result<std::int64_t> clear() noexcept;

 private:
  [[nodiscard]] Result<Spot> locate_in_chain(const Key& key, std::string* pair) noexcept;
  [[nodiscard]] Status put_entry(const Spot& spot, const Entry& entry) noexcept;
  [[nodiscard]] Result<bool> put_in_place(const Spot& spot, const Key& key, std::string_view value) noexcept;
  [[nodiscard]] Status add_overflow(GlobalAddress last, const Entry& entry) noexcept;
  [[nodiscard]] Result<std::vector<Bucket>> read_chain() noexcept;
  [[nodiscard]] Status write_chain(GlobalAddress first, std::vector<Bucket>& buckets) noexcept;
  void let_go(GlobalAddress memory) { to_free_.push_back(memory); }

  Table& table_;
  std::uint64_t number_;
  GlobalAddress address_;
  Head head_;
  unsigned level_ = 0;  // that the bucket will have after `end`
  bool is_locked_ = false;
  bool is_changing_ = false;
  std::vector<GlobalAddress> to_free_;
};

/// A hash map as one node sees it.
///
/// Thread-safety: any thread, any time.
/// Invariants:
///   1. A key is in the chain of one bucket, the one that covers its hash, in one entry at most.
///   2. A chain is changed by who holds the lock of its bucket's line, and what is read without it counts only if the
///      head is the same after as before.
class Table {
 public:
  Table(Node& node, const HashMapOptions& options) : node_(node), directory_(node, options) {}
  Table(Node& node, GlobalAddress root) : node_(node), directory_(node, root) {}

  [[nodiscard]] Node& node() const noexcept { return node_; }
  [[nodiscard]] Directory& directory() noexcept { return directory_; }
  /// REQUIRES: 1 to kMaxKeyBytes.
  [[nodiscard]] Key key(std::string_view bytes) const noexcept;

  /// Reads the pair into `pair`, if that is given, and says where in it the value begins, or kAbsent. What it read is
  /// one state of the bucket, whose head is `seen`.
  static constexpr std::size_t kAbsent = ~std::size_t{0};
  struct Version {
    GlobalAddress bucket;
    Head head;
  };
  [[nodiscard]] Result<std::size_t> find(const Key& key, std::string* pair, Version* seen = nullptr) noexcept;
  /// Is the bucket still as it was?
  [[nodiscard]] Result<bool> is_current(const Version& seen) noexcept;

  /// The address of the bucket that covers the hash, and its number, by what is known: it may have been split since.
  [[nodiscard]] Result<GlobalAddress> guess(std::uint64_t hash, std::uint64_t* number) noexcept;
  /// Locks the bucket that covers the key, which is in `locked` then.
  [[nodiscard]] Status lock(const Key& key, std::optional<LockedBucket>& locked) noexcept;
  /// Locks the key's bucket, unless it is locked, and finds its spot. If the key is not there and may be inserted,
  /// there is room for it afterwards, by a split where that helps.
  [[nodiscard]] Result<Spot> locate(const Key& key, bool may_insert, std::string* pair,
                                    std::optional<LockedBucket>& locked) noexcept;

  /// An entry as it was read without a lock, or a place for it.
  struct Sighting {
    GlobalAddress bucket;
    Head head;
    unsigned index = 0;
    Entry entry;
    [[nodiscard]] bool is_there() const noexcept { return entry.address != 0; }
  };
  /// The key's entry or a place for it, in a bucket that has its home elsewhere, if that is easily found. The pair is
  /// in `pair`, if that is given.
  [[nodiscard]] Result<std::optional<Sighting>> sight(const Key& key, std::string* pair) noexcept;
  /// Puts the pair, or erases it where there is no value, without a lock. False: the bucket has changed since.
  [[nodiscard]] Result<bool> replace(const Sighting& seen, const Key& key,
                                     std::optional<std::string_view> value) noexcept;

  /// Reads the value, decides by it, and changes it, in one step. `decide(current, next)` says what is to be done.
  struct Needs {
    bool value = false;       // `current` is the value; else it is empty, and says only that there is one
    bool may_insert = false;  // the decision may be kPut for a key that is not there
    bool once = false;        // `decide` is called once
  };
  template <typename Decide>
  [[nodiscard]] Result<Change> change(const Key& key, const Needs& needs, Decide&& decide) noexcept;
  /// The same without a lock, if the key is there and others do not come in between again and again.
  template <typename Decide>
  [[nodiscard]] Result<std::optional<Change>> change_unlocked(const Key& key, const Needs& needs,
                                                              Decide&& decide) noexcept;
  /// Puts a pair into the bucket that is locked, or, if it is not the one for the key, unlocks it and locks that one.
  [[nodiscard]] Result<bool> put(const Key& key, std::string_view value, std::optional<LockedBucket>& locked) noexcept;

  /// Reads all pairs of the bucket that covers the hash `cursor`, as one state, and says where the walk goes on:
  /// 0 is the end.
  struct Part {
    std::vector<std::string> pairs;
    std::uint64_t next = 0;
    std::uint64_t overflow_buckets = 0;
  };
  [[nodiscard]] Result<Part> read_part(std::uint64_t cursor) noexcept;
  /// What they do in HashMap.
  [[nodiscard]] Result<std::size_t> put_many(std::span<const HashMap::KeyValue> pairs) noexcept;
  [[nodiscard]] Status get_many(std::span<const std::string_view> keys, const HashMap::Found& found) noexcept;
  [[nodiscard]] Status get_together(std::span<const std::string_view> keys, const HashMap::Found& found) noexcept;
  [[nodiscard]] Status together(std::span<const std::string_view> keys,
                                const std::function<Status(HashMap::Step&)>& function) noexcept;

  /// Divides the bucket that covers the key, if it has overflowed and that can be done.
  void relieve(const Key& key) noexcept;

  /// Adds to this node's count of pairs.
  [[nodiscard]] Status count(std::int64_t more) noexcept;
  /// Frees, here or elsewhere, without waiting.
  void release(GlobalAddress memory) noexcept;

 private:
  [[nodiscard]] Result<bool> read_part_unlocked(GlobalAddress bucket, Head head, Part& part) noexcept;

  [[nodiscard]] Result<std::vector<Key>> ask_for(std::span<const std::string_view> keys) noexcept;

  enum class Seen : std::uint8_t { kFound, kAbsent, kChanged, kSplit };
  struct Look {
    Seen seen = Seen::kChanged;
    Head head;
    std::size_t value_at = kAbsent;
  };
  [[nodiscard]] Result<bool> sight_entry(Sighting& seen, const Key& key, std::string* pair) noexcept;
  [[nodiscard]] Result<Look> look(GlobalAddress bucket, std::uint64_t number, const Key& key,
                                  std::string* pair) noexcept;
  [[nodiscard]] Result<Look> look_in_chain(const Version& version, Bucket& copy, const Key& key,
                                           std::string* pair) noexcept;

  Node& node_;
  Directory directory_;
};

template <typename Decide>
Result<std::optional<Change>> Table::change_unlocked(const Key& key, const Needs& needs, Decide&& decide) noexcept {
  constexpr unsigned kTries = 4;
  std::string pair;
  for (unsigned tries = 0; tries < kTries; ++tries) {
    const Result<std::optional<Sighting>> seen = sight(key, needs.value ? &pair : nullptr);
    if (!seen.ok()) return seen.status();
    if (!*seen) break;
    std::string_view next;
    std::optional<std::string_view> current;
    if ((*seen)->is_there()) current = Pair::parse(pair).value;
    const Change change = decide(current, next);
    Result<bool> done = false;
    switch (change) {
      case Change::kKeep: done = is_current({(*seen)->bucket, (*seen)->head}); break;
      case Change::kPut: done = replace(**seen, key, next); break;
      case Change::kErase:
        done = !current ? is_current({(*seen)->bucket, (*seen)->head}) : replace(**seen, key, {});
        break;
    }
    if (!done.ok()) return done.status();
    if (*done) return std::optional(change);
  }
  return std::optional<Change>();
}

template <typename Decide>
Result<Change> Table::change(const Key& key, const Needs& needs, Decide&& decide) noexcept {
  if (!needs.once) {
    const Result<std::optional<Change>> done = change_unlocked(key, needs, decide);
    if (!done.ok()) return done.status();
    if (*done) return **done;
  }
  std::optional<LockedBucket> locked;
  std::string pair;
  const Result<Spot> spot = locate(key, needs.may_insert, needs.value ? &pair : nullptr, locked);
  if (!spot.ok()) return spot.status();
  std::optional<std::string_view> current;
  if (spot->is_there) current = Pair::parse(pair).value;
  std::string_view next;
  const Change change = decide(current, next);
  Status status;
  switch (change) {
    case Change::kKeep: break;
    case Change::kPut: status = locked->put(*spot, key, next).status(); break;
    case Change::kErase:
      if (spot->is_there) status = locked->erase(*spot);
      break;
  }
  if (status.ok()) status = locked->unlock();
  if (!status.ok()) return status;
  return change;
}

/// A part of a bucket, for those who validate it or hold its lock.
template <typename T>
[[nodiscard]] Status read_into(Node& node, GlobalAddress at, T& value) noexcept {
  return node.read_words(at, std::as_writable_bytes(std::span(&value, 1)));
}

/// The group of a bucket that a hash names; 0 in `address` where there is no entry.
[[nodiscard]] Result<Group> read_group(Node& node, GlobalAddress bucket, std::uint64_t hash) noexcept;

/// Reads what an entry points to: all of it into `pair`, if that is given, else no more than the key. The value's place
/// in it; kAbsent: it is another key's.
[[nodiscard]] Result<std::size_t> read_pair(Node& node, const Entry& entry, const Key& key, std::string* pair) noexcept;

/// Writes a pair to memory of its own, here if there is room. The entry for it.
[[nodiscard]] Result<Entry> write_pair(Node& node, const Key& key, std::string_view value) noexcept;

}  // namespace atoll::hash
