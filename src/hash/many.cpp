// Many keys at once: their misses overlap.
#include "hash/table.hpp"

namespace atoll::hash {

namespace {
constexpr unsigned kPatience = 8;          // rounds in vain before locks are taken
constexpr std::size_t kPutsUnderWay = 64;  // buckets that are asked for together: who waits for one waits for all
constexpr Status kKeyTooLong(Errc::kInvalidArgument, "the key is longer than keys may be");
}  // namespace

Status Table::get_many(std::span<const std::string_view> keys, const HashMap::Found& found) noexcept {
  struct Item {
    Key key;
    std::string pair;
    std::size_t value_at = kAbsent;
    Version version;
  };
  std::vector<Item> items(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (keys[i].size() > HashMap::kMaxKeyBytes) return kKeyTooLong;
    items[i].key = key(keys[i]);
    std::uint64_t number = 0;
    const Result<GlobalAddress> bucket = guess(items[i].key.hash, &number);
    if (!bucket.ok()) return bucket.status();
    if (keys.size() == 1) break;
    if (const Status status = node_.prefetch(*bucket, kBucketBytes); !status.ok()) return status;
  }
  for (unsigned tries = 0; tries < kPatience; ++tries) {
    bool all_current = true;
    for (Item& item : items) {
      if (tries > 0) {
        const Result<bool> current = is_current(item.version);
        if (!current.ok()) return current.status();
        if (*current) continue;
      }
      const Result<std::size_t> value_at = find(item.key, &item.pair, &item.version);
      if (!value_at.ok()) return value_at.status();
      item.value_at = *value_at;
    }
    // All buckets were as they are now at the moment between the two loops.
    for (std::size_t i = 0; i < items.size() && all_current; ++i) {
      const Result<bool> current = is_current(items[i].version);
      if (!current.ok()) return current.status();
      all_current = *current;
    }
    if (!all_current) continue;
    for (std::size_t i = 0; i < items.size(); ++i) {
      const Item& item = items[i];
      found(i,
            item.value_at == kAbsent ? std::nullopt : std::optional(std::string_view(item.pair).substr(item.value_at)));
    }
    return {};
  }
  return together(keys, [&](HashMap::Step& step) -> Status {
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto value = step.get(keys[i]);
      if (!value.ok()) return value.status();
      found(i, *value);
    }
    return {};
  });
}

/// A bucket that follows itself stays locked.
Result<std::size_t> Table::put_many(std::span<const HashMap::KeyValue> pairs) noexcept {
  std::size_t added = 0;
  while (!pairs.empty()) {
    const auto piece = pairs.first(std::min(pairs.size(), kPutsUnderWay));
    pairs = pairs.subspan(piece.size());
    std::vector<Key> hashed;
    GlobalAddress last;
    for (const auto& [bytes, value] : piece) {
      if (bytes.size() > HashMap::kMaxKeyBytes) return kKeyTooLong;
      hashed.push_back(key(bytes));
      std::uint64_t number = 0;
      const Result<GlobalAddress> bucket = guess(hashed.back().hash, &number);
      if (!bucket.ok()) return bucket.status();
      if (piece.size() == 1 || *bucket == last) continue;
      last = *bucket;
      if (const Status status = node_.prefetch(last, kBucketBytes, LockMode::kWrite); !status.ok()) return status;
    }
    std::optional<LockedBucket> locked;
    for (std::size_t i = 0; i < piece.size(); ++i) {
      const Result<bool> is_new = put(hashed[i], piece[i].second, locked);
      if (!is_new.ok()) return is_new.status();
      added += *is_new ? 1 : 0;
    }
    if (const Status status = locked->unlock(); !status.ok()) return status;
  }
  return added;
}

}  // namespace atoll::hash
