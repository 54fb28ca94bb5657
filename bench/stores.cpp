#include <algorithm>
#include <cstring>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "atoll/hash_map.hpp"
#include "bench/bucket_locks.hpp"
#include "bench/line_locks.hpp"
#include "bench/store.hpp"

namespace atoll::bench {
namespace {

class MapStore final : public Store {
 public:
  explicit MapStore(Node& node) : map_(node, "ycsb") {}

  bool get(std::string_view key, std::string& value) override { return map_.get(key, value).value(); }
  bool put(std::string_view key, std::string_view value) override { return map_.put(key, value).value(); }
  bool modify(std::string_view key, const Modify& function) override {
    const auto change = [&](std::optional<std::string_view> current, std::string& next) {
      if (!current) return Change::kKeep;
      next = *current;
      function(next);
      return Change::kPut;
    };
    return map_.update(key, change).value() == Change::kPut;
  }
  void get_many(std::span<const std::string_view> keys, const Found& found) override {
    map_.get_many(keys, found).or_throw();
  }
  std::optional<std::uint64_t> pairs() override { return std::uint64_t(map_.size().value()); }

 private:
  HashMap map_;
};

class StdStore final : public Store {
 public:
  explicit StdStore(std::uint64_t pairs) { map_.reserve(pairs); }

  bool get(std::string_view key, std::string& value) override {
    const std::shared_lock lock(mutex_);
    const auto found = map_.find(key);
    if (found == map_.end()) return false;
    value = found->second;
    return true;
  }
  bool put(std::string_view key, std::string_view value) override {
    const std::unique_lock lock(mutex_);
    const auto found = map_.find(key);
    if (found == map_.end()) return map_.emplace(key, value).second;
    found->second = value;
    return false;
  }
  bool modify(std::string_view key, const Modify& function) override {
    const std::unique_lock lock(mutex_);
    const auto found = map_.find(key);
    if (found == map_.end()) return false;
    function(found->second);
    return true;
  }
  std::optional<std::uint64_t> pairs() override {
    const std::shared_lock lock(mutex_);
    return map_.size();
  }
  [[nodiscard]] bool is_private() const override { return true; }

 private:
  /// The hash of std::string, found by a view of it: no string is made to look one up.
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  std::shared_mutex mutex_;
  std::unordered_map<std::string, std::string, Hash, std::equal_to<>> map_;
};

}  // namespace

void Store::get_many(std::span<const std::string_view> keys, const Found& found) {
  std::string value;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (get(keys[i], value)) {
      found(i, value);
    } else {
      found(i, std::nullopt);
    }
  }
}

const char* name_of(StoreKind kind) {
  switch (kind) {
    case StoreKind::kAtoll: return "atoll";
    case StoreKind::kBucketLocks: return "bucket locks";
    case StoreKind::kLineLocks: return "line locks";
    case StoreKind::kStd: return "std::unordered_map";
  }
  return "";
}

std::unique_ptr<Store> make_store(StoreKind kind, Node& node, const StoreSize& size) {
  switch (kind) {
    case StoreKind::kAtoll: return std::make_unique<MapStore>(node);
    case StoreKind::kBucketLocks: return std::make_unique<BucketLocks>(node, size);
    case StoreKind::kLineLocks: return std::make_unique<LineLocks>(node, size);
    case StoreKind::kStd: return std::make_unique<StdStore>(size.pairs);
  }
  throw Error("no such store");
}

std::uint64_t hash_key(std::string_view key) noexcept {
  std::uint64_t hash = key.size() * 0x9e3779b97f4a7c15;
  for (std::size_t at = 0; at < key.size(); at += sizeof(hash)) {
    std::uint64_t word = 0;
    std::memcpy(&word, key.data() + at, std::min(sizeof(word), key.size() - at));
    hash = (hash ^ word) * 0xbf58476d1ce4e5b9;
    hash ^= hash >> 32;
  }
  hash *= 0x94d049bb133111eb;
  return hash ^ (hash >> 29);
}

}  // namespace atoll::bench
