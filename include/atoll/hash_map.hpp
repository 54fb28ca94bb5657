// atoll::HashMap: a hash table in the memory of all nodes. Keys and values are byte strings, or of fixed types.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "atoll/node.hpp"

namespace atoll {

namespace hash {
class Table;
}

struct HashMapOptions {
  /// Most buckets that the table may grow to; rounded to a power of two, not less than it begins with. Beyond it
  /// buckets overflow, and it gets slower. 0: as many as there is memory for.
  std::uint64_t max_buckets = 0;
  /// Keys are hashed with it: 0 is a random one, so that nobody outside can choose keys that collide.
  std::uint64_t seed = 0;
};

/// What a map is made of at a moment, counted by walking over it.
struct HashMapStats {
  std::uint64_t pairs = 0;
  std::uint64_t pair_bytes = 0;  // of keys and values
  std::uint64_t buckets = 0;
  std::uint64_t overflow_buckets = 0;
};

/// What a function of `update` makes of the pair.
enum class Change : std::uint8_t { kKeep, kPut, kErase };

/// A hash table that threads of all nodes use at once.
///
/// Linearizable per key: each call takes effect at one moment between its begin and its return, in the order of which
/// all threads of all nodes agree. A get of what is in this node's cache takes no lock and sends nothing. The
/// table grows by itself, a bucket at a time. The memory of what is erased or replaced is free for reuse at once.
///
/// Thread-safety: every method may be called from any thread at any time, but for `destroy`. Handles may be moved,
/// not while they are in use.
/// The handle is good while its Node lives.
class HashMap {
 public:
  static constexpr std::size_t kMaxKeyBytes = 1024;
  static constexpr std::size_t kMaxValueBytes = (std::size_t(1) << 20) + 1024;  // room for a head of the user's own

  /// The map of that name, the same for all nodes: node 0 makes it, the others wait for it. Throws Error.
  HashMap(Node& node, std::string_view name, const HashMapOptions& options = {});
  /// A new one that has no name; `address` is what other nodes open it by. Throws Error.
  explicit HashMap(Node& node, const HashMapOptions& options = {});
  /// The one at this address. Throws Error.
  HashMap(Node& node, GlobalAddress address);
  ~HashMap();
  HashMap(HashMap&&) noexcept;
  HashMap& operator=(HashMap&&) noexcept;

  [[nodiscard]] GlobalAddress address() const noexcept;

  // ---- one key ----

  /// Whether the key is there; `value` is what it has then, and nothing to rely on if not.
  Result<bool> get(std::string_view key, std::string& value) const noexcept;
  Result<std::optional<std::string>> get(std::string_view key) const noexcept;
  Result<bool> contains(std::string_view key) const noexcept;
  /// True when the key is new.
  Result<bool> put(std::string_view key, std::string_view value) noexcept;
  /// False, and nothing is changed, when the key is there.
  Result<bool> put_if_absent(std::string_view key, std::string_view value) noexcept;
  /// False when the key was not there.
  Result<bool> erase(std::string_view key) noexcept;
  /// Replaces the value if the key is there and has just this one.
  Result<bool> compare_and_swap(std::string_view key, std::string_view expected, std::string_view desired) noexcept;
  /// Adds to a value that is a number in decimal digits, 0 if the key is not there, and returns the sum.
  /// kInvalidArgument when it is no such number, or the sum does not fit.
  Result<std::int64_t> increment(std::string_view key, std::int64_t by = 1) noexcept;

  /// Reads the value and decides by it, as one step: nobody else changes the key meanwhile. `function` gets what is
  /// there, if anything, says what is to become of it, and for kPut sets `next`. It is called once, unless the call
  /// fails before; it holds up others who change the same bucket, and must not throw nor call into Atoll. The answer
  /// is what it said.
  using Function = std::function<Change(std::optional<std::string_view> current, std::string& next)>;
  Result<Change> update(std::string_view key, const Function& function) noexcept;

  // ---- many keys: their misses are under way together ----

  using Found = std::function<void(std::size_t index, std::optional<std::string_view> value)>;
  /// Calls `found` for each key in order; each is a step of its own. `found` must not call into the map.
  Status get_many(std::span<const std::string_view> keys, const Found& found) const noexcept;
  /// The same with values that were there at one moment, all of them.
  Status get_together(std::span<const std::string_view> keys, const Found& found) const noexcept;
  using KeyValue = std::pair<std::string_view, std::string_view>;
  /// Puts them in order, each as a step of its own (which nobody sees if the same key follows). How many were new; on
  /// an error, those before the one that failed have been put.
  Result<std::size_t> put_many(std::span<const KeyValue> pairs) noexcept;

  /// What happens to several keys in one step: nobody sees a part of it.
  class Step {
   public:
    virtual ~Step() = default;
    /// The value, which is good until the key is changed or the step ends. REQUIRES: one of the step's keys.
    [[nodiscard]] virtual Result<std::optional<std::string_view>> get(std::string_view key) = 0;
    [[nodiscard]] virtual Result<bool> put(std::string_view key, std::string_view value) = 0;
    [[nodiscard]] virtual Result<bool> erase(std::string_view key) = 0;
  };
  /// Runs the function while nobody else reads or changes any of the keys. When it (or what it called) fails
  /// nothing is undone: what was put before has been put. The function must not throw, nor call into Atoll but through
  /// the step.
  Status together(std::span<const std::string_view> keys, const std::function<Status(Step&)>& function) noexcept;

  // ---- all ----

  /// How many pairs there are.
  Result<std::int64_t> size() const noexcept;
  using Visit = std::function<bool(std::string_view key, std::string_view value)>;
  /// Every pair that is there throughout, once; those that come, go or change meanwhile, perhaps. `visit` may call
  /// into the map, and ends the walk by false.
  Status for_each(const Visit& visit) const noexcept;
  /// A part of the walk: begin with 0, go on with what it returned, until it returns 0 again. Good over any time: a
  /// pair that is there throughout is seen, some more than once.
  Result<std::uint64_t> scan(std::uint64_t cursor, const Visit& visit) const noexcept;
  /// Erases what is there, bucket by bucket.
  Status clear() noexcept;
  Result<HashMapStats> stats() const noexcept;
  /// Gives all its memory back. REQUIRES: no thread of any node uses the map any more.
  Status destroy() noexcept;

 private:
  std::unique_ptr<hash::Table> table_;
};

/// A HashMap whose keys and values have fixed types. Keys that are equal must have equal bytes: no padding.
template <Shareable K, Shareable V>
requires std::has_unique_object_representations_v<K>
class HashMapOf {
 public:
  HashMapOf(Node& node, std::string_view name, const HashMapOptions& options = {}) : map_(node, name, options) {}
  explicit HashMapOf(Node& node, const HashMapOptions& options = {}) : map_(node, options) {}
  HashMapOf(Node& node, GlobalAddress address) : map_(node, address) {}

  Result<std::optional<V>> get(const K& key) const noexcept;
  Result<bool> contains(const K& key) const noexcept { return map_.contains(bytes(key)); }
  Result<bool> put(const K& key, const V& value) noexcept { return map_.put(bytes(key), bytes(value)); }
  Result<bool> put_if_absent(const K& key, const V& value) noexcept {
    return map_.put_if_absent(bytes(key), bytes(value));
  }
  Result<bool> erase(const K& key) noexcept { return map_.erase(bytes(key)); }
  Result<bool> compare_and_swap(const K& key, const V& expected, const V& desired) noexcept {
    return map_.compare_and_swap(bytes(key), bytes(expected), bytes(desired));
  }
  /// The sum; a key that is not there counts as 0. Wraps as unsigned integers do.
  Result<V> increment(const K& key, V by = V(1)) noexcept requires std::integral<V>;
  /// Every pair that is there throughout, once; `visit(const K&, const V&)` ends the walk by false.
  template <typename Visit>
  requires std::predicate<Visit&, const K&, const V&> Status for_each(Visit&& visit)
  const noexcept;
  Result<std::int64_t> size() const noexcept { return map_.size(); }
  Status clear() noexcept { return map_.clear(); }
  Status destroy() noexcept { return map_.destroy(); }
  [[nodiscard]] GlobalAddress address() const noexcept { return map_.address(); }
  /// The same pairs as byte strings.
  [[nodiscard]] HashMap& untyped() noexcept { return map_; }

 private:
  static_assert(sizeof(K) <= HashMap::kMaxKeyBytes && sizeof(V) <= HashMap::kMaxValueBytes);
  template <typename T>
  static std::string_view bytes(const T& value) noexcept {
    return {reinterpret_cast<const char*>(&value), sizeof(T)};
  }
  template <typename T>
  static T from(std::string_view stored) noexcept {
    T value{};
    std::memcpy(static_cast<void*>(&value), stored.data(), std::min(stored.size(), sizeof(T)));
    return value;
  }

  HashMap map_;
};

// ---- implementation ----

template <Shareable K, Shareable V>
requires std::has_unique_object_representations_v<K> Result<std::optional<V>> HashMapOf<K, V>::get(const K& key)
const noexcept {
  std::string stored;
  const Result<bool> there = map_.get(bytes(key), stored);
  if (!there.ok()) return there.status();
  if (!*there) return std::optional<V>();
  return std::optional<V>(from<V>(stored));
}

template <Shareable K, Shareable V>
requires std::has_unique_object_representations_v<K> Result<V> HashMapOf<K, V>::increment(const K& key, V by)
noexcept requires std::integral<V> {
  V sum{};
  const Result<Change> done = map_.update(bytes(key), [&](std::optional<std::string_view> current, std::string& next) {
    using Word = std::make_unsigned_t<V>;
    sum = V(Word(Word(current ? from<V>(*current) : V()) + Word(by)));
    next = bytes(sum);
    return Change::kPut;
  });
  if (!done.ok()) return done.status();
  return sum;
}

template <Shareable K, Shareable V>
requires std::has_unique_object_representations_v<K>
template <typename Visit>
requires std::predicate<Visit&, const K&, const V&> Status HashMapOf<K, V>::for_each(Visit&& visit)
const noexcept {
  return map_.for_each(
      [&](std::string_view key, std::string_view value) { return visit(from<K>(key), from<V>(value)); });
}

}  // namespace atoll
